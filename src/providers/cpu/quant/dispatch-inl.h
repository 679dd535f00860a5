/// What the sets of quantised kernels share: which loops are built, how one is found for a kind, how scales
/// and minima are walked, and the constants of quantised activations.
///
/// For files built for one instruction set: everything has internal linkage. The templates take a class of
/// the including file:
///
///   struct Loops {
///     static constexpr Build kFused[], kTiles[];            // what is built of the two
///     template <int bits, bool iq4, bool half, bool min, int digits, int tokens>
///     static void Fused(const DotArgs&);                    // packed codes
///     template <int bits, bool half, bool min, int digits, int tokens>
///     static void Tile(const DotArgs&);                     // codes as bytes below 2^bits
///     template <int bits, bool iq4> static void Unpack(const uint8_t* codes, int64_t blocks, uint8_t* out);
///   };
///   struct Lanes {                                          // kLanes of the 16 rows, from row h * kLanes on
///     static constexpr int kLanes;
///     using Vector = …;
///     static Vector Zero(), Negated(Vector), Product(Vector, Vector);
///     static void Store(float*, Vector);
///     static Vector Half(part, j, h), BFloat(part, j, h), Float(part, j, h);   // entry [j] of an array
///     [][16] static Vector Signed(part, j, h), Unsigned(part, j, h);                  // of bytes, as floats
///   };
#pragma once

#include <cstdint>
#include <utility>

#include "core/block_format.h"
#include "providers/cpu/quant/kernels.h"

namespace ullage::quant {
namespace {

constexpr int32_t kMaxInt16 = 32639;        // 127 * (256 + 1)
constexpr int32_t kMaxInt24 = 8355711;      // 127 * (65536 + 256 + 1)
constexpr uint32_t kTinyBits = 0x0d800000;  // 2^-100
constexpr uint32_t kInfinityBits = 0x7f800000;

/// How a block is scaled whose largest magnitude has these bits.
struct BlockScale {
  int32_t limit;      // largest code
  float scale = 0;    // NaN where an element is no finite number
  float inverse = 0;  // 0: all codes are 0

  [[gnu::always_inline]] BlockScale(Activations form, uint32_t largest_bits)
      : limit(form == Activations::kInt8    ? 127
              : form == Activations::kInt16 ? kMaxInt16
                                            : kMaxInt24) {
    if (largest_bits >= kInfinityBits) {
      const uint32_t nan = 0x7fc00000;
      __builtin_memcpy(&scale, &nan, sizeof scale);
    } else if (largest_bits >= kTinyBits) {
      float largest;
      __builtin_memcpy(&largest, &largest_bits, sizeof largest);
      scale = largest / static_cast<float>(limit);
      inverse = static_cast<float>(limit) / largest;
    }
  }
};

/// The parts of a record's digits that all of them share; h0, h1: sums of the codes of its halves.
[[gnu::always_inline]] inline void PutScale(ActivationBlock* digits, Activations form, float scale,
                                            int32_t h0, int32_t h1) {
  const int count = form == Activations::kInt8 ? 1 : form == Activations::kInt16 ? 2 : 3;
  for (int d = 0; d < count; ++d) {
    digits[d].scale = scale;
    digits[d].value_sum = scale * static_cast<float>(h0 + h1);
    digits[d].half_sum[0] = scale * static_cast<float>(h0);
    digits[d].half_sum[1] = scale * static_cast<float>(h1);
  }
}

/// Numbers for which a loop is built.
struct Build {
  int digits, tokens;
};

/// Kinds of packed codes that loops are built for; what is missing goes by Unpack and Tile.
struct PackedKind {
  int bits;
  bool iq4, half, min;
};
constexpr PackedKind kPackedKinds[] = {
    {2, false, false, false}, {2, false, false, true},  {2, false, true, false},  {2, false, true, true},
    {3, false, true, false},  {4, true, false, false},  {4, false, false, false}, {4, false, false, true},
    {4, false, true, false},  {4, false, true, true},   {5, false, false, false}, {5, false, false, true},
    {6, false, true, false},  {8, false, false, false}, {8, false, false, true},  {8, false, true, false},
    {8, false, true, true},
};

template <class Loops, int kKind, int kBuild>
void TakeFused(const DotKind& k, int tokens, DotFn* found) {
  constexpr PackedKind p = kPackedKinds[kKind];
  constexpr Build b = Loops::kFused[kBuild];
  if (k.bits == p.bits && k.iq4 == p.iq4 && k.half == p.half && k.min == p.min && k.digits == b.digits &&
      tokens == b.tokens)
    *found = Loops::template Fused<p.bits, p.iq4, p.half, p.min, b.digits, b.tokens>;
}

/// KernelSet::fused.
template <class Loops>
DotFn FindFused(const DotKind& kind, int tokens) {
  constexpr int kBuilds = sizeof Loops::kFused / sizeof(Build);
  constexpr int kKinds = sizeof kPackedKinds / sizeof(PackedKind);
  DotFn found = nullptr;
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (TakeFused<Loops, i / kBuilds, i % kBuilds>(kind, tokens, &found), ...);
  }
  (std::make_integer_sequence<int, kKinds * kBuilds>{});
  return found;
}

template <class Loops, int kBits, int kBuild>
void TakeTile(const DotKind& k, int tokens, DotFn* found) {
  constexpr Build b = Loops::kTiles[kBuild];
  if (k.digits != b.digits || tokens != b.tokens) return;
  *found = k.half  ? k.min ? Loops::template Tile<kBits, true, true, b.digits, b.tokens>
                           : Loops::template Tile<kBits, true, false, b.digits, b.tokens>
            : k.min ? Loops::template Tile<kBits, false, true, b.digits, b.tokens>
                   : Loops::template Tile<kBits, false, false, b.digits, b.tokens>;
}

/// For KernelSet::tile: the loop for codes below 2^kBits, which kind.bits must not exceed.
template <class Loops, int kBits>
DotFn FindTile(const DotKind& kind, int tokens) {
  DotFn found = nullptr;
  [&]<int... i>(std::integer_sequence<int, i...>) {
    (TakeTile<Loops, kBits, i>(kind, tokens, &found), ...);
  }
  (std::make_integer_sequence<int, sizeof Loops::kTiles / sizeof(Build)>{});
  return found;
}

/// KernelSet::unpack.
template <class Loops>
void Unpack(int bits, bool iq4, const uint8_t* codes, int64_t blocks, uint8_t* out) {
  if (iq4) return Loops::template Unpack<4, true>(codes, blocks, out);
  switch (bits) {
    case 2:
      return Loops::template Unpack<2, false>(codes, blocks, out);
    case 3:
      return Loops::template Unpack<3, false>(codes, blocks, out);
    case 4:
      return Loops::template Unpack<4, false>(codes, blocks, out);
    case 5:
      return Loops::template Unpack<5, false>(codes, blocks, out);
    case 6:
      return Loops::template Unpack<6, false>(codes, blocks, out);
    default:
      return Loops::template Unpack<8, false>(codes, blocks, out);
  }
}

template <class Lanes, ScaleForm kScale>
[[gnu::always_inline]] inline typename Lanes::Vector ScaleEntry(const uint8_t* scale, int64_t j, int h,
                                                                typename Lanes::Vector super) {
  if constexpr (kScale == ScaleForm::kFloat32) {
    return Lanes::Float(scale, j, h);
  } else if constexpr (kScale == ScaleForm::kBFloat16) {
    return Lanes::BFloat(scale, j, h);
  } else if constexpr (kScale == ScaleForm::kSuper) {
    return Lanes::Product(super, Lanes::Signed(scale, j, h));
  } else {
    return Lanes::Half(scale, j, h);
  }
}

template <class Lanes, ScaleForm kScale, MinForm kMin>
void ExpandForm(const PackedLayout& l, const uint8_t* group, int64_t first, int64_t blocks, float* scales,
                float* mins) {
  constexpr int kParts = 16 / Lanes::kLanes;
  using Vector = typename Lanes::Vector;
  const GroupParts parts = PartsOf(l);
  const int64_t per_block = l.span == 16 ? 2 : 1, step = kBlock / per_block;
  int64_t j = first * kBlock / l.span, end = (j + 1) * l.span;  // scale, and where its span ends
  int64_t element = first * kBlock, super_end = element;
  const uint8_t* min_part = group + parts.min;
  Vector super[kParts], minus_super_min[kParts];
  for (int h = 0; h < kParts; ++h) super[h] = minus_super_min[h] = Lanes::Zero();
  for (int64_t e = 0; e < blocks * per_block; ++e, element += step) {
    if (element >= end) {
      ++j;
      end += l.span;
    }
    if (element >= super_end) {
      const int64_t i = element / 256;
      for (int h = 0; h < kParts; ++h) {
        if constexpr (kScale == ScaleForm::kSuper) super[h] = Lanes::Half(group + parts.super_scale, i, h);
        if constexpr (kMin == MinForm::kSuper)
          minus_super_min[h] = Lanes::Negated(Lanes::Half(group + parts.super_min, i, h));
      }
      super_end = (i + 1) * 256;
    }
    for (int h = 0; h < kParts; ++h) {
      const Vector s = ScaleEntry<Lanes, kScale>(group + parts.scale, j, h, super[h]);
      float* min = mins + e * 16 + h * Lanes::kLanes;
      Lanes::Store(scales + e * 16 + h * Lanes::kLanes, s);
      if constexpr (kMin == MinForm::kZeroPoint)
        Lanes::Store(min, Lanes::Product(Lanes::Negated(s), Lanes::Unsigned(min_part, j, h)));
      if constexpr (kMin == MinForm::kSuper)
        Lanes::Store(min, Lanes::Product(minus_super_min[h], Lanes::Unsigned(min_part, j, h)));
      if constexpr (kMin == MinForm::kFloat16) Lanes::Store(min, Lanes::Half(min_part, j, h));
      if constexpr (kMin == MinForm::kFloat32) Lanes::Store(min, Lanes::Float(min_part, j, h));
    }
  }
}

template <class Lanes, ScaleForm kScale>
void ExpandMin(const PackedLayout& l, const uint8_t* group, int64_t first, int64_t blocks, float* scales,
               float* mins) {
  switch (l.min_form) {
    case MinForm::kOffset:
      return ExpandForm<Lanes, kScale, MinForm::kOffset>(l, group, first, blocks, scales, mins);
    case MinForm::kZeroPoint:
      return ExpandForm<Lanes, kScale, MinForm::kZeroPoint>(l, group, first, blocks, scales, mins);
    case MinForm::kFloat16:
      return ExpandForm<Lanes, kScale, MinForm::kFloat16>(l, group, first, blocks, scales, mins);
    case MinForm::kFloat32:
      return ExpandForm<Lanes, kScale, MinForm::kFloat32>(l, group, first, blocks, scales, mins);
    case MinForm::kSuper:
      return ExpandForm<Lanes, kScale, MinForm::kSuper>(l, group, first, blocks, scales, mins);
  }
}

/// KernelSet::expand.
template <class Lanes>
void Expand(const PackedLayout& l, const uint8_t* group, int64_t first, int64_t blocks, float* scales,
            float* mins) {
  switch (l.scale_form) {
    case ScaleForm::kFloat16:
    case ScaleForm::kFloat16Row:
      return ExpandMin<Lanes, ScaleForm::kFloat16>(l, group, first, blocks, scales, mins);
    case ScaleForm::kBFloat16:
      return ExpandMin<Lanes, ScaleForm::kBFloat16>(l, group, first, blocks, scales, mins);
    case ScaleForm::kFloat32:
      return ExpandMin<Lanes, ScaleForm::kFloat32>(l, group, first, blocks, scales, mins);
    case ScaleForm::kSuper:
      return ExpandMin<Lanes, ScaleForm::kSuper>(l, group, first, blocks, scales, mins);
  }
}

}  // namespace
}  // namespace ullage::quant
