/// The form in which the CPU keeps block-quantised weights: planned from facts of the file's header, filled
/// in one sequential pass over the file.
///
/// Rows of W go in groups of 16, K in blocks of 32 (both filled up with zeros). A group is contiguous:
///
///   [row factors] [scales and minima, all blocks] [codes, all blocks]          each part aligned to 64 bytes
///
/// and groups follow each other, so a product streams through memory once. Codes are unsigned, of 2, 3, 4, 5,
/// 6 or 8 bits, in bit planes of 1, 2, 4 and 8 bits. In a plane one 64-byte line holds, for row r = byte/4
/// and i = byte%4, elements 4q+i of several "quads" q = 0…7 of the block:
///
///   8 bits: line q      holds quad q
///   4 bits: line j < 4  holds quad j in the low nibble, quad j+4 in the high nibble
///   2 bits: line j < 2  holds quad j+2*p in bits 2p, 2p+1
///   1 bit : one line    holds quad q in bit q
///
/// A weight is s * (u - o) or s * u + m, where u is the code, or for IQ4 formats u = table[code] + 128.
/// Accuracy of the stored parts against the source:
///  - codes, zero points, and scales of GGUF, float16 and bfloat16 sources are kept exactly (K-quants keep
///  their 6-bit
///    scales and minima beside the float16 of each 256);
///  - float scales of ONNX sources: kept exactly with Accuracy::kFloat; with kInt8 they are rounded to
///  float16 after
///    division by a power of two per row (relative error <= 2^-11 for scales within 2^-28 of the row's
///    largest).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/block_format.h"

namespace ullage::quant {

inline constexpr int64_t kGroupRows = 16;
inline constexpr int64_t kBlock = 32;

/// What the caller allows a product to do with its activations.
enum class Accuracy : uint8_t {
  kInt8,   ///< quantise them to 8 bits per block of 32 (ONNX accuracy_level 4, and what GGUF runners do)
  kInt16,  ///< 16 bits per block of 32: errors far below those of quantised weights
  kFloat,  ///< results as accurate as float arithmetic (accuracy_level 0 and 1)
};

/// The form in which a packed weight wants its activations (see activations.h).
enum class Activations : uint8_t {
  kInt8,   ///< 8 bits per block of 32
  kInt16,  ///< 16 bits per block of 32, as two digits of 8 bits
  kInt24,  ///< 24 bits per block of 32, as three digits of 8 bits: errors as those of a float sum
  kFloat,  ///< float
};

enum class ScaleForm : uint8_t {
  kFloat16,
  kFloat16Row,  ///< float16, times a float per row
  kBFloat16,
  kFloat32,
  kSuper,  ///< signed 8-bit (with minima: unsigned) times a float16 per 256 elements
};

enum class MinForm : uint8_t {
  kOffset,     ///< none: o is one constant
  kZeroPoint,  ///< m = -s * z, z unsigned 8-bit in the order of the scales
  kFloat16,
  kFloat32,
  kSuper,  ///< m = -(unsigned 8-bit) times a float16 per 256 elements
};

/// Everything about a packed weight except the weight. Plain data; depends on the arguments of PlanPack only.
struct PackedLayout {
  BlockFormat source;
  int64_t n = 0;
  int64_t k = 0;
  Activations activations = Activations::kInt8;
  int bits = 4;          ///< stored bits of a code
  bool iq4 = false;      ///< codes go through kIq4Values
  bool indexed = false;  ///< scales are looked up per element: group index, or blocks that 32 does not divide
  ScaleForm scale_form = ScaleForm::kFloat16;
  MinForm min_form = MinForm::kOffset;
  int offset = 0;           ///< o of MinForm::kOffset
  int64_t span = kBlock;    ///< elements along K with one scale: 16 or a multiple of 32
  int64_t blocks = 0;       ///< ceil(K / 32)
  int64_t scale_count = 0;  ///< scales per row
  int64_t groups = 0;       ///< ceil(N / 16)
  size_t index_bytes = 0;   ///< table in front of the first group (indexed only): int32 per element of K
  size_t row_bytes = 0;     ///< part of a group: row factors
  size_t scale_bytes = 0;   ///< part of a group: scales and minima
  size_t code_bytes = 0;    ///< part of a group: codes
  size_t group_bytes = 0;   ///< sum of the three
  size_t bytes = 0;         ///< all: index_bytes + groups * group_bytes

  std::string Name() const;  ///< for reports: "q4 f16/32 offset 8, int8 activations"
  friend bool operator==(const PackedLayout&, const PackedLayout&) = default;
};

/// Plans the packed form of W [n, k]; `has_g_idx` when the weight comes with a group index. Throws
/// kInvalidModel (sizes) or kUnsupported (format). Allocates nothing but error messages.
PackedLayout PlanPack(const BlockFormat& format, int64_t n, int64_t k, Accuracy accuracy,
                      bool has_g_idx = false);

/// Packs row groups [first_group, last_group) of `view` into `packed`, which is the start of the whole packed
/// weight: layout.bytes, aligned to 64. Different ranges may be packed at the same time; ranges of about 8
/// groups or more read [K, N] sources well. The view must have passed CheckView and be what the layout was
/// planned for; throws kInvalidModel otherwise.
void Pack(const BlockWeightView& view, const PackedLayout& layout, int64_t first_group, int64_t last_group,
          void* packed);

/// Row n of W as float from the packed form, for embedding tables that share their memory with a head. `out`
/// has K elements. Equal to DequantizeRow up to the accuracy of the stored parts.
void DequantizePackedRow(const PackedLayout& layout, const void* packed, int64_t n, float* out);

}  // namespace ullage::quant
