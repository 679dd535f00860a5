/// Building blocks of the AVX-512 VNNI kernels. Only for files that are built with these instructions;
/// everything has internal linkage.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "core/block_format.h"
#include "providers/cpu/quant/dispatch-inl.h"

namespace ullage::quant {
namespace {

#define ULLAGE_INLINE __attribute__((always_inline)) inline
#define ULLAGE_UNROLL _Pragma("GCC unroll 16")

constexpr int64_t kRecord = 64;  // of one digit

ULLAGE_INLINE __m512i LoadLine(const uint8_t* p) {
  return _mm512_loadu_si512(p);
}

ULLAGE_INLINE __m512i Broadcast(const void* p) {
  int32_t v;
  __builtin_memcpy(&v, p, sizeof v);
  return _mm512_set1_epi32(v);
}

ULLAGE_INLINE const ActivationBlock& RecordAt(const uint8_t* p) {
  return *reinterpret_cast<const ActivationBlock*>(p);
}

/// The eight quads of one block as bytes: quad q holds elements 4q…4q+3 of 16 rows.
struct Quads {
  __m512i q[8];
};

template <int kBits, bool kIq4>
ULLAGE_INLINE Quads UnpackQuads(const uint8_t* in) {
  Quads u;
  if constexpr (kBits == 8) {
    ULLAGE_UNROLL
    for (int i = 0; i < 8; ++i) u.q[i] = LoadLine(in + i * 64);
    return u;
  }
  constexpr int kTernaryMaskOr = 0xea;  // (a & b) | c
  int shift = 0;
  if constexpr (kBits >= 4) {
    const __m512i low = _mm512_set1_epi8(15);
    ULLAGE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const __m512i line = LoadLine(in + i * 64);
      u.q[i] = _mm512_and_si512(line, low);
      u.q[i + 4] = _mm512_and_si512(_mm512_srli_epi32(line, 4), low);
    }
    in += 256;
    shift = 4;
  } else {
    ULLAGE_UNROLL
    for (int i = 0; i < 8; ++i) u.q[i] = _mm512_setzero_si512();
  }
  if constexpr ((kBits & 2) != 0) {
    const __m512i mask = _mm512_set1_epi8(static_cast<char>(3 << shift));
    ULLAGE_UNROLL
    for (int i = 0; i < 8; ++i) {
      const __m512i line = LoadLine(in + i % 2 * 64);
      const int from = i / 2 * 2;
      const __m512i moved =
          from > shift ? _mm512_srli_epi32(line, from - shift) : _mm512_slli_epi32(line, shift - from);
      u.q[i] = _mm512_ternarylogic_epi32(moved, mask, u.q[i], kTernaryMaskOr);
    }
    in += 128;
    shift += 2;
  }
  if constexpr ((kBits & 1) != 0) {
    const __m512i mask = _mm512_set1_epi8(static_cast<char>(1 << shift));
    const __m512i line = LoadLine(in);
    ULLAGE_UNROLL
    for (int i = 0; i < 8; ++i) {
      const __m512i moved =
          i > shift ? _mm512_srli_epi32(line, i - shift) : _mm512_slli_epi32(line, shift - i);
      u.q[i] = _mm512_ternarylogic_epi32(moved, mask, u.q[i], kTernaryMaskOr);
    }
  }
  if constexpr (kIq4) {
    alignas(16) static constexpr uint8_t kTable[16] = {1,   24,  45,  63,  79,  93,  106, 118,
                                                       129, 141, 153, 166, 181, 197, 217, 241};
    const __m512i table = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(kTable)));
    ULLAGE_UNROLL
    for (int i = 0; i < 8; ++i) u.q[i] = _mm512_shuffle_epi8(table, u.q[i]);
  }
  return u;
}

/// The exact integers of the digits as one float each.
template <int kDigits>
ULLAGE_INLINE __m512 JoinDigits(const __m512i* sums) {
  if constexpr (kDigits == 1) {
    return _mm512_cvtepi32_ps(sums[0]);
  } else if constexpr (kDigits == 2) {
    return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(sums[0], 8), sums[1]));
  } else {
    const __m512 first = _mm512_cvtepi32_ps(sums[0]);
    const __m512i low = _mm512_add_epi32(_mm512_slli_epi32(sums[1], 8), sums[2]);
    return _mm512_fmadd_ps(first, _mm512_set1_ps(65536.0f), _mm512_cvtepi32_ps(low));
  }
}

}  // namespace

DotFn FindFusedAvx512(const DotKind& kind, int tokens);
DotFn FindTileAvx512(const DotKind& kind, int tokens);

}  // namespace ullage::quant
