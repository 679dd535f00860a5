/// Block-quantised weights: one typed description, whatever file they came from.
///
/// A weight is a matrix W [N, K] (N output features, K input features) whose elements along K share scales in
/// blocks. Three families of storage exist:
///  - GGUF blocks: codes, scales and minima together in one block (ggml's block_* structures, little-endian);
///  - com.microsoft MatMulNBits / GatherBlockQuantized / QMoE: codes [N, blocks, block_size*bits/8], scales
///  apart;
///  - ai.onnx DequantizeLinear with block_size, per axis or per tensor: dense integer tensors, scales apart.
/// Everything here is plain data and pure functions; views never own memory, and no pointer needs to be
/// aligned (views may point into a mapped file).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ullage/dtype.h"

namespace ullage {

/// Block types of GGUF. The numbers are those of the file format.
enum class GgufType : int32_t {
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
};
/// Whether the number of a tensor type in a GGUF file is one of GgufType.
bool IsGgufBlockType(int32_t type);

enum class BlockKind : uint8_t {
  kGguf,   ///< data: rows of GGUF blocks
  kNBits,  ///< data [N, ceil(K/bs), bs*bits/8], low bits first, the last block padded; scales [N, ceil(K/bs)]
  kQdqNK,  ///< data [N, K] packed densely over the whole tensor, low bits first; scales [N, ceil(K/bs)]
  kQdqKN,  ///< data [K, N] packed likewise; scales [ceil(K/bs), N]
};

/// What is subtracted from a code before it is multiplied by the scale.
enum class ZeroPoint : uint8_t {
  kZero,    ///< nothing
  kMiddle,  ///< 2^(bits-1)
  kPacked,  ///< integers of the codes' type, in the order of the scales
  kFloat,   ///< numbers of the scales' type, in the order of the scales
};

struct BlockFormat {
  BlockKind kind = BlockKind::kNBits;
  GgufType gguf = GgufType::kQ4_0;      ///< kGguf only
  int bits = 4;                         ///< 2, 4 or 8; for kGguf the bits of a code
  bool is_signed = false;               ///< codes are two's complement (never for kGguf)
  bool per_tensor = false;              ///< one scale and zero point for everything (kQdq* only)
  bool zero_point_rows_padded = false;  ///< packed zero points start at a new byte for each row
  ZeroPoint zero_point = ZeroPoint::kZero;
  DType scale_dtype = DType::kFloat;  ///< float, float16 or bfloat16
  int64_t block_size = 0;             ///< elements along K with one scale; 0: the whole of K

  static BlockFormat Gguf(GgufType type);
  /// MatMulNBits. Zero points: kMiddle when the input is absent, else kPacked (uint8) or kFloat.
  static BlockFormat NBits(int bits, int64_t block_size, DType scale_dtype, ZeroPoint zero_point);
  /// DequantizeLinear of an int4/uint4/int8/uint8/int2/uint2 matrix. `k_first`: data is [K, N] (blocks along
  /// axis 0) rather than [N, K] (blocks along axis 1). `block_size` 0 means one scale per row of W (per-axis
  /// quantisation).
  static BlockFormat Qdq(DType codes, bool k_first, int64_t block_size, DType scale_dtype,
                         bool has_zero_point);

  /// Elements along K with one scale, never more than K: block_size, or K where that is 0.
  int64_t BlockSize(int64_t k) const;
  /// Blocks in one row of W: ceil(K / BlockSize(K)).
  int64_t Blocks(int64_t k) const;
  /// Bytes of the parts for W [n, k]; throws kInvalidModel when they do not fit 64 bits or K is no multiple
  /// of a GGUF block. ScaleBytes and ZeroPointBytes are 0 for kGguf and where there are none.
  size_t DataBytes(int64_t n, int64_t k) const;
  size_t ScaleBytes(int64_t n, int64_t k) const;
  size_t ZeroPointBytes(int64_t n, int64_t k) const;
  /// "Q4_K", "nbits4 block 32 scale float16 zero point packed", "qdq int4 [K,N] block 32 …"
  std::string Name() const;

  friend bool operator==(const BlockFormat&, const BlockFormat&) = default;
};

/// A quantised weight in memory that somebody else owns.
struct BlockWeightView {
  BlockFormat format;
  int64_t n = 0;
  int64_t k = 0;
  std::span<const std::byte> data;
  std::span<const std::byte> scales;       ///< empty for kGguf
  std::span<const std::byte> zero_points;  ///< empty unless kPacked or kFloat
  std::span<const std::byte>
      g_idx;  ///< empty, or int32 [>= K]: the block whose scale element k uses (kNBits)
};

/// Throws kInvalidModel (or kUnsupported) naming what is wrong: sizes of the parts, bits, block size, values
/// of g_idx.
void CheckView(const BlockWeightView& view);

/// Row n of W as float: (code - zero point) * scale in float arithmetic, as the format's definition says.
/// This is the reference for all kernels, and the embedding lookup. `out` has K elements. The view must have
/// passed CheckView and 0 <= n < N.
void DequantizeRow(const BlockWeightView& view, int64_t n, float* out);
/// Rows [first, first+count) into out[count][ldo].
void DequantizeRows(const BlockWeightView& view, int64_t first, int64_t count, float* out, int64_t ldo);

/// The values of the 4-bit codes of IQ4_NL and IQ4_XS.
inline constexpr int8_t kIq4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                          1,    13,   25,  38,  53,  69,  89,  113};

}  // namespace ullage
