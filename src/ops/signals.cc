#include "ops/families.h"

namespace ullage::ops {
namespace {

// size (scalar) -> [size]
void Window(ShapeContext& c) {
  CheckElements(c, 0, 1);
  DType type = DTypeFromOnnx(static_cast<int32_t>(c.node().Int("output_datatype", 1)));
  if (type == DType::kUndefined) c.Fail("attribute output_datatype names no type");
  const Bound size = ScalarValue(c, 0);
  c.Set(0, type, BoundedShape::OfDims({CheckedDim(c, size)}));
}

// input [.., n, .., 1 or 2], dft_length?, axis? (input from version 20)
void Dft(ShapeContext& c) {
  const BoundedShape& in = c.shape(0);
  if (!in.known_rank()) {
    c.Set(0, c.dtype(0), BoundedShape::Unknown());
    return;
  }
  CheckRankAtLeast(c, 0, 2);
  BoundedShape out = in;
  out.max_elements = kUnbounded;
  Bound axis = Bound::Exactly(c.node().Int("axis", 1));
  if (SinceOpset(c, 20)) axis = c.has(2) ? ScalarValue(c, 2) : Bound::Exactly(-2);
  const bool half = c.node().Int("onesided", 0) != 0, inverse = c.node().Int("inverse", 0) != 0;
  out[out.rank - 1] = Bound::Exactly(half && inverse ? 1 : 2);
  const auto length = [&](const Bound& dim) {
    const Bound n = CheckedDim(c, c.has(1) ? ScalarValue(c, 1) : dim);
    if (!half) return n;
    if (inverse) return c.has(1) ? n : c.math().Mul(c.math().Sub(dim, Bound::Exactly(1)), Bound::Exactly(2));
    return c.math().Add(c.math().FloorDiv(n, 2), Bound::Exactly(1));
  };
  if (axis.exact()) {
    const int at = c.Axis(axis.lower, in.rank);
    out[at] = CheckedDim(c, length(in[at]));
  } else {
    for (int i = 0; i + 1 < in.rank; ++i) out[i] = c.math().Union(in[i], length(in[i]));
  }
  c.Set(0, c.dtype(0), out);
}

// signal [B, L, 1 or 2], frame_step, window?, frame_length? -> [B, frames, bins, 2]
void Stft(ShapeContext& c) {
  const BoundMath& math = c.math();
  BoundedShape out = AnyDims(4);
  out[3] = Bound::Exactly(2);
  Bound signal;
  if (c.shape(0).known_rank()) {
    CheckRankAtLeast(c, 0, 2);
    out[0] = c.shape(0)[0];
    signal = c.shape(0)[1];
  }
  const Bound step = ScalarValue(c, 1);
  Bound frame = c.has(3) ? ScalarValue(c, 3) : Bound();
  if (!c.has(3) && c.has(2) && c.shape(2).rank == 1) frame = c.shape(2)[0];
  frame = CheckedDim(c, frame);
  out[2] = c.node().Int("onesided", 1) != 0 ? math.Add(math.FloorDiv(frame, 2), Bound::Exactly(1)) : frame;
  const Bound room = math.Sub(signal, frame);
  if (step.exact()) {
    if (step.lower <= 0) c.Fail("a frame step of ", step.lower);
    out[1] = CheckedDim(c, math.Add(math.FloorDiv(room, step.lower), Bound::Exactly(1)));
  } else {
    out[1] = Bound::Between(0, room.bounded() ? std::max<int64_t>(room.upper, 0) + 1 : kUnbounded);
  }
  c.Set(0, c.dtype(0), out);
}

// num_mel_bins, dft_length, sample_rate, lower, upper -> [dft_length / 2 + 1, bins]
void MelWeightMatrix(ShapeContext& c) {
  DType type = DTypeFromOnnx(static_cast<int32_t>(c.node().Int("output_datatype", 1)));
  const Bound bins = CheckedDim(c, ScalarValue(c, 0)), dft = CheckedDim(c, ScalarValue(c, 1));
  c.Set(0, type, BoundedShape::OfDims({c.math().Add(c.math().FloorDiv(dft, 2), Bound::Exactly(1)), bins}));
}

}  // namespace

void RegisterSignals(Registry& ops) {
  for (std::string_view name : {"HannWindow", "HammingWindow", "BlackmanWindow"})
    ops.push_back({.name = name, .since = 17, .rule = Window, .reads_values = Bits(0)});
  ops.push_back({.name = "DFT", .since = 17, .max_inputs = 3, .rule = Dft, .reads_values = Bits(1, 2)});
  ops.push_back({.name = "STFT",
                 .since = 17,
                 .min_inputs = 2,
                 .max_inputs = 4,
                 .rule = Stft,
                 .reads_values = Bits(1, 3)});
  ops.push_back({.name = "MelWeightMatrix",
                 .since = 17,
                 .min_inputs = 5,
                 .max_inputs = 5,
                 .rule = MelWeightMatrix,
                 .reads_values = Bits(0, 1)});
}

}  // namespace ullage::ops
