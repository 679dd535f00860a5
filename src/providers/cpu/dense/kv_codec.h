/// Key/value caches of integers: how the rows of one head are stored.
///
/// Sources: com.microsoft GroupQueryAttention's quantised caches (fixed scales), and rows with scales of
/// their own
/// (--kv-type int8), laid out as [codes, one byte each][float16 scales, one per block, not aligned].
#pragma once

#include <cstdint>

namespace ullage::dense {

/// Plain data; the scales belong to somebody else.
struct KvCodec {
  int bits = 0;  ///< 0: floats of the array's type; 8: int8; 4: two codes, plus 8, in a byte, low bits first
  int64_t block = 0;              ///< > 0: elements with one scale in the row; 0: fixed scales
  const float* scales = nullptr;  ///< fixed: of element i of head h at h * head_stride + i * element_stride
  int64_t head_stride = 0;
  int64_t element_stride = 0;

  bool quantized() const { return bits != 0; }
  /// Elements of the array (bytes, when quantised) from one row to the next.
  int64_t RowWidth(int64_t size) const {
    if (bits == 0) return size;
    return (size * bits + 7) / 8 + (block > 0 ? 2 * ((size + block - 1) / block) : 0);
  }
};

/// `count` rows of head `head` that lie `pitch` bytes apart, as floats [count][size].
void LoadKvRows(const KvCodec& codec, int64_t head, const void* rows, int64_t pitch, int64_t count,
                int64_t size, float* out);
/// Element i of one such row.
float KvElement(const KvCodec& codec, int64_t head, const void* row, int64_t size, int64_t i);
/// One row: codes are rounded to nearest even and clamped; a NaN becomes the smallest code.
void StoreKvRow(const KvCodec& codec, int64_t head, const float* x, int64_t size, void* row);

}  // namespace ullage::dense
