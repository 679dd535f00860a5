#include "core/block_format.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "core/gguf_block.h"
#include "core/half.h"
#include "core/scaled_block.h"

namespace ullage {
namespace {

static_assert(std::endian::native == std::endian::little, "files are read in place");

constexpr int64_t kStep = 256;  // elements that DequantizeRow decodes at a time

void CheckSize(const char* what, const BlockWeightView& view, size_t found, size_t expected) {
  if (found < expected)
    Throw(Code::kInvalidModel, "quantised weight [", view.n, ",", view.k, "] (", view.format.Name(),
          "): ", what, " has ", found, " bytes, expected ", expected);
}

void CheckFormat(const BlockFormat& f) {
  if (f.kind == BlockKind::kGguf) {
    TraitsOf(f.gguf);
    return;
  }
  if (f.bits != 2 && f.bits != 4 && f.bits != 8)
    Throw(Code::kUnsupported, "quantised weight with ", f.bits, " bits, expected 2, 4 or 8");
  if (f.scale_dtype != DType::kFloat && f.scale_dtype != DType::kFloat16 && f.scale_dtype != DType::kBFloat16)
    Throw(Code::kUnsupported, "quantised weight with scales of type ", NameOf(f.scale_dtype),
          ", expected float32, float16 or bfloat16");
  if (f.block_size < 0) Throw(Code::kInvalidModel, "quantised weight with block size ", f.block_size);
  if (f.kind == BlockKind::kNBits) {
    const bool power = f.block_size >= 16 && (f.block_size & (f.block_size - 1)) == 0;
    if (!power)
      Throw(Code::kInvalidModel, "quantised weight with block size ", f.block_size,
            ", expected a power of 2 of at least 16");
    if (f.per_tensor) Throw(Code::kInvalidModel, "quantised weight: one scale per tensor needs QDQ storage");
  }
}

size_t BitsToBytes(uint64_t elements, int bits) {
  return CeilDiv<uint64_t>(CheckedMul<uint64_t>(elements, static_cast<uint64_t>(bits), "weight size"), 8);
}

void DequantizeGgufRow(const BlockWeightView& view, int64_t n, float* out) {
  const GgufTraits& t = TraitsOf(view.format.gguf);
  const int64_t blocks = view.k / t.elements;
  const std::byte* block = view.data.data() + n * blocks * t.bytes;
  uint8_t codes[256];
  for (int64_t b = 0; b < blocks; ++b, block += t.bytes, out += t.elements) {
    const GgufScales scales = GgufScalesOf(view.format.gguf, block);
    GgufCodesOf(view.format.gguf, block, codes);
    const float d = HalfToFloat(scales.d), dmin = HalfToFloat(scales.dmin);
    for (int first = 0; first < t.elements; first += t.span) {
      const int j = first / t.span;
      const float s = t.super ? d * static_cast<float>(scales.scale[j]) : d;
      const float m = t.super ? -dmin * static_cast<float>(scales.min[j]) : dmin;
      const uint8_t* u = codes + first;
      float* y = out + first;
      if (t.iq4) {
        for (int i = 0; i < t.span; ++i) y[i] = s * static_cast<float>(kIq4Values[u[i]]);
      } else if (t.has_min) {
        for (int i = 0; i < t.span; ++i) y[i] = s * static_cast<float>(u[i]) + m;
      } else {
        for (int i = 0; i < t.span; ++i) y[i] = s * static_cast<float>(static_cast<int>(u[i]) - t.offset);
      }
    }
  }
}

void DequantizeScaledRow(const BlockWeightView& view, int64_t n, float* out) {
  const ScaledReader reader(view);
  const int64_t block_size = reader.block_size();
  uint8_t codes[kStep];
  for (int64_t k = 0; k < view.k;) {
    const int64_t b = k / block_size;
    const int64_t count = std::min({kStep, view.k - k, (b + 1) * block_size - k});
    reader.Codes(n, k, count, codes);
    if (view.g_idx.empty()) {
      const float s = reader.Scale(n, b), z = reader.Zero(n, b);
      for (int64_t i = 0; i < count; ++i) out[k + i] = (static_cast<float>(codes[i]) - z) * s;
    } else {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t g = reader.BlockOf(k + i);
        out[k + i] = (static_cast<float>(codes[i]) - reader.Zero(n, g)) * reader.Scale(n, g);
      }
    }
    k += count;
  }
}

}  // namespace

BlockFormat BlockFormat::Gguf(GgufType type) {
  BlockFormat f;
  const GgufTraits& t = TraitsOf(type);
  f.kind = BlockKind::kGguf;
  f.gguf = type;
  f.bits = t.bits;
  f.block_size = t.span;
  f.scale_dtype = DType::kFloat16;
  return f;
}

BlockFormat BlockFormat::NBits(int bits, int64_t block_size, DType scale_dtype, ZeroPoint zero_point) {
  BlockFormat f;
  f.kind = BlockKind::kNBits;
  f.bits = bits;
  f.block_size = block_size;
  f.scale_dtype = scale_dtype;
  f.zero_point = zero_point;
  f.zero_point_rows_padded = true;
  CheckFormat(f);
  return f;
}

BlockFormat BlockFormat::Qdq(DType codes, bool k_first, int64_t block_size, DType scale_dtype,
                             bool has_zero_point) {
  BlockFormat f;
  f.kind = k_first ? BlockKind::kQdqKN : BlockKind::kQdqNK;
  switch (codes) {
    case DType::kInt2:
    case DType::kInt4:
    case DType::kInt8:
      f.is_signed = true;
      break;
    case DType::kUInt2:
    case DType::kUInt4:
    case DType::kUInt8:
      break;
    default:
      Throw(Code::kUnsupported, "quantised weight of type ", NameOf(codes),
            ", expected an integer of 2, 4 or 8 bits");
  }
  f.bits = BitsOf(codes);
  f.block_size = block_size;
  f.scale_dtype = scale_dtype;
  f.zero_point = has_zero_point ? ZeroPoint::kPacked : ZeroPoint::kZero;
  CheckFormat(f);
  return f;
}

int64_t BlockFormat::BlockSize(int64_t k) const {
  if (kind == BlockKind::kGguf) return block_size;
  return block_size <= 0 ? std::max<int64_t>(k, 1) : std::min(block_size, std::max<int64_t>(k, 1));
}

int64_t BlockFormat::Blocks(int64_t k) const {
  return CeilDiv(k, BlockSize(k));
}

size_t BlockFormat::DataBytes(int64_t n, int64_t k) const {
  CheckFormat(*this);
  if (n < 0 || k < 0) Throw(Code::kInvalidModel, "quantised weight with shape [", n, ",", k, "]");
  const uint64_t rows = static_cast<uint64_t>(n);
  if (kind == BlockKind::kGguf) {
    const GgufTraits& t = TraitsOf(gguf);
    if (k % t.elements != 0)
      Throw(Code::kInvalidModel, t.name, " weight with rows of ", k, " elements, expected a multiple of ",
            t.elements);
    const uint64_t row = CheckedMul<uint64_t>(static_cast<uint64_t>(k / t.elements), t.bytes, "weight size");
    return CheckedMul<uint64_t>(rows, row, "weight size");
  }
  uint64_t row = static_cast<uint64_t>(k);
  if (kind == BlockKind::kNBits)
    row = CheckedMul<uint64_t>(CeilDiv<uint64_t>(row, static_cast<uint64_t>(block_size)),
                               static_cast<uint64_t>(block_size), "weight size");
  return BitsToBytes(CheckedMul<uint64_t>(rows, row, "weight size"), bits);
}

size_t BlockFormat::ScaleBytes(int64_t n, int64_t k) const {
  if (kind == BlockKind::kGguf) return 0;
  const uint64_t each = scale_dtype == DType::kFloat ? 4 : 2;
  if (per_tensor) return each;
  const uint64_t count =
      CheckedMul<uint64_t>(static_cast<uint64_t>(n), static_cast<uint64_t>(Blocks(k)), "scales of a weight");
  return CheckedMul<uint64_t>(count, each, "scales of a weight");
}

size_t BlockFormat::ZeroPointBytes(int64_t n, int64_t k) const {
  if (kind == BlockKind::kGguf || zero_point == ZeroPoint::kZero || zero_point == ZeroPoint::kMiddle)
    return 0;
  if (zero_point == ZeroPoint::kFloat) return ScaleBytes(n, k);
  if (per_tensor) return 1;
  const uint64_t blocks = static_cast<uint64_t>(Blocks(k));
  if (zero_point_rows_padded)
    return CheckedMul<uint64_t>(static_cast<uint64_t>(n), BitsToBytes(blocks, bits),
                                "zero points of a weight");
  return BitsToBytes(CheckedMul<uint64_t>(static_cast<uint64_t>(n), blocks, "zero points of a weight"), bits);
}

std::string BlockFormat::Name() const {
  if (kind == BlockKind::kGguf) return TraitsOf(gguf).name;
  static constexpr const char* kZeroNames[] = {"", ", zero point middle", ", zero points",
                                               ", float zero points"};
  const char* kind_name = kind == BlockKind::kNBits   ? "nbits"
                          : kind == BlockKind::kQdqNK ? "qdq [N,K]"
                                                      : "qdq [K,N]";
  const std::string block = per_tensor        ? "per tensor"
                            : block_size == 0 ? "per row"
                                              : StrCat("block ", block_size);
  return StrCat(kind_name, is_signed ? " int" : " uint", bits, " ", block, ", scale ", NameOf(scale_dtype),
                kZeroNames[static_cast<int>(zero_point)]);
}

void CheckView(const BlockWeightView& view) {
  const BlockFormat& f = view.format;
  CheckSize("data", view, view.data.size(), f.DataBytes(view.n, view.k));
  CheckSize("scales", view, view.scales.size(), f.ScaleBytes(view.n, view.k));
  CheckSize("zero points", view, view.zero_points.size(), f.ZeroPointBytes(view.n, view.k));
  if (view.g_idx.empty()) return;
  if (f.kind != BlockKind::kNBits)
    Throw(Code::kUnsupported, "group index with a weight stored as ", f.Name(),
          ", expected MatMulNBits storage");
  CheckSize("group index", view, view.g_idx.size(), CheckedMul<size_t>(static_cast<size_t>(view.k), 4));
  const ScaledReader reader(view);
  for (int64_t k = 0; k < view.k; ++k) {
    const int64_t b = reader.BlockOf(k);
    if (b < 0 || b >= reader.blocks())
      Throw(Code::kInvalidModel, "group index of element ", k, " is ", b, ", expected 0 to ",
            reader.blocks() - 1);
  }
}

void DequantizeRow(const BlockWeightView& view, int64_t n, float* out) {
  if (view.format.kind == BlockKind::kGguf) {
    DequantizeGgufRow(view, n, out);
  } else {
    DequantizeScaledRow(view, n, out);
  }
}

void DequantizeRows(const BlockWeightView& view, int64_t first, int64_t count, float* out, int64_t ldo) {
  for (int64_t i = 0; i < count; ++i) DequantizeRow(view, first + i, out + i * ldo);
}

}  // namespace ullage
