#include <cstring>

#include "onnx/tensor_pb.h"

namespace ullage::onnx {
namespace {

// What a dense tensor may take, against tiny files that claim huge ones: a constant plus so many times the
// stored values and indices (float32 values with one index each: density 1 in 768).
constexpr uint64_t kDenseFloor = uint64_t{16} << 20;
constexpr uint64_t kDenseFactor = 256;

/// Moves one element of `bits` from index `from` to index `to`.
void MoveElement(int bits, const std::byte* source, uint64_t from, std::byte* target, uint64_t to) {
  if (bits >= 8) {
    const auto size = static_cast<uint64_t>(bits / 8);
    std::memcpy(target + to * size, source + from * size, size);
    return;
  }
  const auto per_byte = static_cast<uint64_t>(8 / bits);
  const auto mask = static_cast<unsigned>((1 << bits) - 1);
  const unsigned value = (std::to_integer<unsigned>(source[from / per_byte]) >>
                          (from % per_byte * static_cast<uint64_t>(bits))) &
                         mask;
  const auto shift = to % per_byte * static_cast<uint64_t>(bits);
  target[to / per_byte] = (target[to / per_byte] & ~std::byte{static_cast<unsigned char>(mask << shift)}) |
                          std::byte{static_cast<unsigned char>(value << shift)};
}

}  // namespace

SparseTensor MakeSparseTensor(Message m, const TensorContext& context) {
  std::optional<TensorPb> values, indices;
  Shape dims;
  while (m.Next()) {
    switch (m.field()) {
      case 1:
        values = ParseTensor(m.Sub("values", "TensorProto"));
        break;
      case 2:
        indices = ParseTensor(m.Sub("indices", "TensorProto"));
        break;
      case 3:
        m.Varints("dims", [&](uint64_t v) {
          if (dims.rank() == kMaxRank) m.Fail("sparse tensor of rank above ", kMaxRank);
          dims.push_back(static_cast<int64_t>(v));
        });
        break;
      default:
        m.Skip();
    }
  }
  if (!values || !indices) m.Fail("sparse tensor without ", values ? "indices" : "values");
  SparseTensor out;
  out.name = values->name;
  const auto fail = [&](const auto&... parts) {
    Throw(m.source().code, m.source().name, ": sparse tensor ", out.name, ": ", parts...);
  };
  if (values->dtype == DType::kString)
    Throw(Code::kUnsupported, m.source().name, ": sparse tensor ", out.name, " of strings");
  if (values->shape.rank() != 1) fail("values have shape ", values->shape.ToString(), "; expected rank 1");
  const int64_t count = values->elements;
  const bool linear = indices->shape == Shape({count});
  if (indices->dtype != DType::kInt64 || (!linear && !(indices->shape == Shape({count, dims.rank()}))))
    fail("indices are ", NameOf(indices->dtype), indices->shape.ToString(), "; expected int64[", count,
         "] or int64[", count, ",", dims.rank(), "]");
  int64_t elements = 1, total_bits = 0;
  for (const int64_t dim : dims)
    if (dim < 0 || __builtin_mul_overflow(elements, dim, &elements))
      fail("impossible shape ", dims.ToString());
  const int bits = BitsOf(values->dtype);
  if (__builtin_mul_overflow(elements, static_cast<int64_t>(bits), &total_bits))
    fail("impossible shape ", dims.ToString());
  const uint64_t stored = values->size_bytes + indices->size_bytes;
  const uint64_t dense = static_cast<uint64_t>(total_bits) / 8 + 1;
  if (dense > kDenseFloor && (dense - kDenseFloor) / kDenseFactor > stored)
    fail("would take ", dense, " bytes when dense, with ", stored, " bytes stored");

  const auto value_constant = MakeTensor(*values, "", context);
  const auto index_constant = MakeTensor(*indices, "", context);
  if (!value_constant->available() || !index_constant->available()) {
    auto absent = std::make_shared<graph::Constant>();
    absent->dtype = values->dtype;
    absent->shape = dims;
    absent->size_bytes = BytesOf(values->dtype, elements);
    absent->absent = value_constant->available() ? index_constant->absent : value_constant->absent;
    out.constant = absent;
    return out;
  }
  auto made = graph::MakeConstant(values->dtype, dims);
  const std::byte* index_bytes = index_constant->data().data();
  const std::byte* value_bytes = value_constant->data().data();
  const auto index_at = [&](int64_t i) {
    int64_t v;
    std::memcpy(&v, index_bytes + static_cast<size_t>(i) * sizeof v, sizeof v);
    return v;
  };
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    if (linear) {
      place = index_at(i);
    } else {
      for (int axis = 0; axis < dims.rank(); ++axis) {
        const int64_t v = index_at(i * dims.rank() + axis);
        if (v < 0 || v >= dims[axis]) fail("index ", v, " on axis ", axis, " of shape ", dims.ToString());
        place = place * dims[axis] + v;
      }
    }
    if (place < 0 || place >= elements) fail("index ", place, " in ", elements, " elements");
    MoveElement(bits, value_bytes, static_cast<uint64_t>(i), made.data, static_cast<uint64_t>(place));
  }
  out.constant = made.constant;
  return out;
}

}  // namespace ullage::onnx
