#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "core/checked.h"
#include "core/error.h"
#include "core/gguf_block.h"
#include "core/half.h"
#include "core/scaled_block.h"
#include "providers/cpu/quant/pack_blocks.h"
#include "providers/cpu/quant/packed_group.h"
#include "providers/cpu/quant/packed_weight.h"
#include "providers/cpu/quant/planes.h"

namespace ullage::quant {
namespace {

constexpr int64_t kScaleChunk = 64;
constexpr int64_t kTileGroups = 8;  // groups that are read together from [K, N] sources

uint32_t Quad(const uint8_t* codes) {
  uint32_t v;
  std::memcpy(&v, codes, sizeof v);
  return v;
}

typedef uint32_t Words __attribute__((vector_size(16)));

Words LoadWords(const uint8_t* p) {
  Words v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// Words i…i+3 of rows r…r+3 to lines i…i+3.
void Transpose(const uint8_t* rows, int64_t pitch, uint8_t* out) {
  const Words a = LoadWords(rows), b = LoadWords(rows + pitch), c = LoadWords(rows + 2 * pitch),
              d = LoadWords(rows + 3 * pitch);
  const Words ac = __builtin_shufflevector(a, c, 0, 4, 1, 5), bd = __builtin_shufflevector(b, d, 0, 4, 1, 5);
  const Words ac2 = __builtin_shufflevector(a, c, 2, 6, 3, 7),
              bd2 = __builtin_shufflevector(b, d, 2, 6, 3, 7);
  const Words lines[4] = {
      __builtin_shufflevector(ac, bd, 0, 4, 1, 5), __builtin_shufflevector(ac, bd, 2, 6, 3, 7),
      __builtin_shufflevector(ac2, bd2, 0, 4, 1, 5), __builtin_shufflevector(ac2, bd2, 2, 6, 3, 7)};
  for (int i = 0; i < 4; ++i) std::memcpy(out + i * 64, &lines[i], sizeof lines[i]);
}

// A packed block from the planes of 16 rows, which are `pitch` bytes apart.
void Interleave(int words, const uint8_t* planes, int64_t pitch, uint8_t* out) {
  int i = 0;
  for (; i + 4 <= words; i += 4)
    for (int r = 0; r < 16; r += 4) Transpose(planes + r * pitch + i * 4, pitch, out + i * 64 + r * 4);
  for (; i < words; ++i)
    for (int r = 0; r < 16; ++r) std::memcpy(out + i * 64 + r * 4, planes + r * pitch + i * 4, 4);
}

// One block of 32 codes of 16 rows (row r at codes + r * 32) to its bit planes.
void InterleaveBlock(int bits, const uint8_t* codes, uint8_t* out) {
  uint8_t planes[16 * kBlock];
  for (int r = 0; r < 16; ++r) PlanesOfCodes(bits, codes + r * kBlock, planes + r * kBlock);
  Interleave(bits, planes, kBlock, out);
}

// The inverse for quad q of row r.
uint32_t CodesOfQuad(int bits, const uint8_t* block, int r, int q) {
  if (bits == 8) return Quad(block + q * 64 + r * 4);
  uint32_t v = 0;
  int shift = 0;
  if (bits >= 4) {
    v = Quad(block + (q % 4) * 64 + r * 4) >> (q / 4 * 4) & 0x0f0f0f0f;
    block += 256;
    shift = 4;
  }
  if (bits & 2) {
    v |= (Quad(block + (q % 2) * 64 + r * 4) >> (q / 2 * 2) & 0x03030303) << shift;
    block += 128;
    shift += 2;
  }
  if (bits & 1) v |= (Quad(block + r * 4) >> q & 0x01010101) << shift;
  return v;
}

template <class T>
void Put(uint8_t* part, int64_t index, int row, T value) {
  std::memcpy(part + (index * 16 + row) * static_cast<int64_t>(sizeof(T)), &value, sizeof value);
}

template <class T>
T Get(const uint8_t* part, int64_t index, int row) {
  T value;
  std::memcpy(&value, part + (index * 16 + row) * static_cast<int64_t>(sizeof(T)), sizeof value);
  return value;
}

void PackGgufGroup(const BlockWeightView& view, const PackedLayout& l, int64_t n0, int rows, uint8_t* group) {
  const GgufType type = view.format.gguf;
  const GgufTraits& t = TraitsOf(type);
  const GroupParts parts = PartsOf(l);
  const int64_t source_blocks = view.k / t.elements;
  const int scales = t.elements / t.span, steps = t.elements / static_cast<int>(kBlock);
  const size_t step = static_cast<size_t>(l.bits) * 4, pitch = step * static_cast<size_t>(steps);
  uint8_t planes[16 * 256] = {};
  for (int64_t b = 0; b < source_blocks; ++b) {
    for (int r = 0; r < rows; ++r) {
      const std::byte* block = view.data.data() + ((n0 + r) * source_blocks + b) * t.bytes;
      PlanesOfGguf(type, block, planes + static_cast<size_t>(r) * pitch);
      const GgufScales s = GgufScalesOf(type, block);
      if (!t.super) {
        Put(group + parts.scale, b, r, s.d);
        if (t.has_min) Put(group + parts.min, b, r, s.dmin);
        continue;
      }
      Put(group + parts.super_scale, b, r, s.d);
      if (t.has_min) Put(group + parts.super_min, b, r, s.dmin);
      for (int j = 0; j < scales; ++j) {
        Put(group + parts.scale, b * scales + j, r, s.scale[j]);
        if (t.has_min) Put(group + parts.min, b * scales + j, r, s.min[j]);
      }
    }
    for (int i = 0; i < steps; ++i)
      Interleave(l.bits, planes + static_cast<size_t>(i) * step, static_cast<int64_t>(pitch),
                 group + parts.code + static_cast<size_t>(b * steps + i) * CodeBlockBytes(l.bits));
  }
}

// The power of two that brings the largest scale of a row to [2^14, 2^15).
float RowFactor(const ScaledReader& reader, int64_t n) {
  uint32_t largest_bits = 0;  // of the magnitude: larger numbers have larger bits
  float scales[kScaleChunk];
  for (int64_t b = 0; b < reader.blocks(); b += kScaleChunk) {
    const int64_t count = std::min(kScaleChunk, reader.blocks() - b);
    reader.Scales(n, b, count, scales);
    for (int64_t i = 0; i < count; ++i)
      largest_bits = std::max(largest_bits, std::bit_cast<uint32_t>(scales[i]) & 0x7fffffffu);
  }
  const float largest = std::bit_cast<float>(largest_bits);
  if (largest == 0 || !std::isfinite(largest)) return 1;
  return std::ldexp(1.0f, std::max(std::ilogb(largest) - 14, -126));
}

/// The scales of blocks [b0, b1) of 32: each belongs to the block it starts in. All of them go with the first
/// block where their form depends on the whole row, or blocks do not divide it.
std::pair<int64_t, int64_t> ScalesOf(const ScaledReader& reader, const PackedLayout& l, int64_t b0,
                                     int64_t b1) {
  if (l.indexed || l.scale_form == ScaleForm::kFloat16Row) return {0, b0 == 0 ? reader.blocks() : 0};
  return {CeilDiv(b0 * kBlock, l.span), b1 == l.blocks ? reader.blocks() : CeilDiv(b1 * kBlock, l.span)};
}

void PackScales(const ScaledReader& reader, const PackedLayout& l, int64_t n0, int rows, int64_t begin,
                int64_t end, uint8_t* group) {
  const GroupParts parts = PartsOf(l);
  for (int r = 0; r < rows; ++r) {
    const int64_t n = n0 + r;
    float inverse = 1;
    if (l.scale_form == ScaleForm::kFloat16Row && begin < end) {
      const float factor = RowFactor(reader, n);
      inverse = 1 / factor;
      Put(group, 0, r, factor);
    }
    float scales[kScaleChunk];
    for (int64_t first = begin; first < end; first += kScaleChunk) {
      const int64_t count = std::min(kScaleChunk, end - first);
      reader.Scales(n, first, count, scales);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t b = first + i;
        if (l.scale_form == ScaleForm::kFloat32) {
          Put(group + parts.scale, b, r, scales[i]);
        } else if (l.scale_form == ScaleForm::kFloat16Row) {
          const uint16_t half = FloatToHalf(scales[i] * inverse);
          Put(group + parts.scale, b, r, half);
          scales[i] = HalfToFloat(half);
        } else {
          Put(group + parts.scale, b, r, reader.ScaleBits(n, b));
        }
        if (l.min_form == MinForm::kZeroPoint) {
          Put(group + parts.min, b, r, static_cast<uint8_t>(reader.Zero(n, b)));
        } else if (l.min_form == MinForm::kFloat32) {
          // From the scale as stored, so that code - zero point cancels as in the source.
          Put(group + parts.min, b, r, -reader.Zero(n, b) * scales[i]);
        }
      }
    }
  }
}

void PackScaledGroups(const ScaledReader& reader, const PackedLayout& l, int64_t first, int64_t last,
                      int64_t b0, int64_t b1, uint8_t* base) {
  const auto [begin, end] = ScalesOf(reader, l, b0, b1);
  const size_t code_offset = PartsOf(l).code;
  for (int64_t g = first; g < last; ++g) {
    const int rows = static_cast<int>(std::min(kGroupRows, l.n - g * kGroupRows));
    PackScales(reader, l, g * kGroupRows, rows, begin, end, base + static_cast<size_t>(g) * l.group_bytes);
  }
  const int64_t rows = std::min(last * kGroupRows, l.n) - first * kGroupRows;
  uint8_t codes[kTileGroups * kGroupRows * kBlock] = {};
  for (int64_t b = b0; b < b1; ++b) {
    const int64_t count = std::min(kBlock, l.k - b * kBlock);
    if (count < kBlock) std::memset(codes, 0, sizeof codes);
    reader.CodeTile(first * kGroupRows, rows, b * kBlock, count, codes, kBlock);
    for (int64_t g = first; g < last; ++g)
      InterleaveBlock(l.bits, codes + (g - first) * kGroupRows * kBlock,
                      base + static_cast<size_t>(g) * l.group_bytes + code_offset +
                          static_cast<size_t>(b) * CodeBlockBytes(l.bits));
  }
}

void PackIndex(const ScaledReader& reader, const PackedLayout& l, uint8_t* out) {
  for (int64_t k = 0; k < l.blocks * kBlock; ++k) {
    const int32_t block = k < l.k ? static_cast<int32_t>(reader.BlockOf(k)) : 0;
    std::memcpy(out + k * 4, &block, sizeof block);
  }
}

}  // namespace

void Pack(const BlockWeightView& view, const PackedLayout& l, int64_t first_group, int64_t last_group,
          void* packed) {
  PackBlocks(view, l, first_group, last_group, 0, l.blocks, packed);
}

void PackBlocks(const BlockWeightView& view, const PackedLayout& l, int64_t first_group, int64_t last_group,
                int64_t first_block, int64_t last_block, void* packed) {
  if (view.format != l.source || view.n != l.n || view.k != l.k || (!view.g_idx.empty() && !l.indexed))
    Throw(Code::kInvalidModel, "weight [", view.n, ",", view.k, "] ", view.format.Name(),
          " is not what was planned: [", l.n, ",", l.k, "] ", l.source.Name());
  uint8_t* base = static_cast<uint8_t*>(packed);
  const size_t parts_bytes = l.row_bytes + l.scale_bytes;
  uint8_t* index = base;
  base += l.index_bytes;
  for (int64_t g = first_group; g < last_group && first_block == 0; ++g)
    std::memset(base + static_cast<size_t>(g) * l.group_bytes, 0, parts_bytes);
  if (view.format.kind == BlockKind::kGguf) {
    for (int64_t g = first_group; g < last_group; ++g) {
      const int rows = static_cast<int>(std::min(kGroupRows, l.n - g * kGroupRows));
      PackGgufGroup(view, l, g * kGroupRows, rows, base + static_cast<size_t>(g) * l.group_bytes);
    }
    return;
  }
  const ScaledReader reader(view);
  if (l.indexed && first_group == 0 && first_block == 0) PackIndex(reader, l, index);
  const int64_t step = view.format.kind == BlockKind::kQdqKN ? kTileGroups : 1;
  for (int64_t g = first_group; g < last_group; g += step)
    PackScaledGroups(reader, l, g, std::min(g + step, last_group), first_block, last_block, base);
}

void DequantizePackedRow(const PackedLayout& l, const void* packed, int64_t n, float* out) {
  const GroupParts parts = PartsOf(l);
  const uint8_t* group = GroupOf(l, packed, n / kGroupRows);
  const int r = static_cast<int>(n % kGroupRows);
  const float factor = l.row_bytes != 0 ? Get<float>(group, 0, r) : 1.0f;
  const int64_t per_super = l.span == 16 ? 16 : 8;
  const auto scale_at = [&](int64_t j) {
    switch (l.scale_form) {
      case ScaleForm::kFloat32:
        return Get<float>(group + parts.scale, j, r);
      case ScaleForm::kBFloat16:
        return BFloat16ToFloat(Get<uint16_t>(group + parts.scale, j, r));
      case ScaleForm::kSuper:
        return HalfToFloat(Get<uint16_t>(group + parts.super_scale, j / per_super, r)) *
               static_cast<float>(Get<int8_t>(group + parts.scale, j, r));
      default:
        return HalfToFloat(Get<uint16_t>(group + parts.scale, j, r)) * factor;
    }
  };
  const auto min_at = [&](int64_t j) {
    switch (l.min_form) {
      case MinForm::kOffset:
        return 0.0f;
      case MinForm::kZeroPoint:
        return static_cast<float>(Get<uint8_t>(group + parts.min, j, r));
      case MinForm::kFloat16:
        return HalfToFloat(Get<uint16_t>(group + parts.min, j, r));
      case MinForm::kFloat32:
        return Get<float>(group + parts.min, j, r) * factor;
      case MinForm::kSuper:
        return -HalfToFloat(Get<uint16_t>(group + parts.super_min, j / per_super, r)) *
               static_cast<float>(Get<uint8_t>(group + parts.min, j, r));
    }
    return 0.0f;
  };
  int64_t current = -1;
  float s = 0, m = 0;
  for (int64_t k = 0; k < l.k; k += 4) {
    const int64_t j = k / l.span;
    if (!l.indexed && j != current) {
      current = j;
      s = scale_at(j);
      m = min_at(j);
    }
    const uint8_t* block = group + parts.code + static_cast<size_t>(k / kBlock) * CodeBlockBytes(l.bits);
    const uint32_t codes = CodesOfQuad(l.bits, block, r, static_cast<int>(k % kBlock / 4));
    const int64_t count = std::min<int64_t>(4, l.k - k);
    for (int64_t i = 0; i < count; ++i) {
      if (l.indexed) {
        int32_t b;
        std::memcpy(&b, static_cast<const uint8_t*>(packed) + (k + i) * 4, sizeof b);
        s = scale_at(b);
        m = min_at(b);
      }
      const int u = static_cast<int>(codes >> (8 * i) & 255);
      const float code = l.iq4                            ? static_cast<float>(kIq4Values[u])
                         : l.min_form == MinForm::kOffset ? static_cast<float>(u - l.offset)
                                                          : static_cast<float>(u);
      out[k + i] = l.min_form == MinForm::kZeroPoint ? (code - m) * s : code * s + m;
    }
  }
}

}  // namespace ullage::quant
