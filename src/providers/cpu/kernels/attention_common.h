/// What the attention kernels share.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "kernels/kernel.h"
#include "providers/cpu/dense/attention.h"
#include "providers/cpu/dense/kv_cache.h"

namespace ullage::cpu {

inline dense::ConstArray ArrayOf(const TensorView* v) {
  return v ? dense::ConstArray{v->data, v->dtype} : dense::ConstArray{};
}

/// Element i of an int32 or int64 tensor.
int64_t IndexOf(const TensorView& v, int64_t i);

/// [B, S, heads * head_size] within rows of `row` elements, starting anywhere.
inline dense::HeadLayout PackedLayout(int64_t seq, int64_t row, int64_t head_size) {
  return {seq * row, row, head_size};
}
/// [B, heads, rows, head_size].
inline dense::HeadLayout HeadsFirst(int64_t heads, int64_t rows, int64_t head_size) {
  return {heads * rows * head_size, head_size, rows * head_size};
}

/// Rows that the memory of a [B, heads, rows, size] cache has room for.
inline int64_t CapacityOf(const TensorView& v) {
  return v.capacity ? v.capacity : v.shape[2];
}

/// [B, heads, rows, row width], where the width of integers is KvCodec::RowWidth().
inline dense::CacheArray CacheOf(const TensorView* v, const dense::KvCodec& codec = {}) {
  dense::CacheArray c;
  if (!v || !v->data) return c;
  const int64_t rows = CapacityOf(*v);
  c.data = {v->data, v->dtype};
  c.codec = codec;
  c.row = v->shape[3];
  c.head_stride = rows * c.row;
  c.batch_stride = v->shape[1] * c.head_stride;
  return c;
}
inline dense::HeadLayout LayoutOf(const dense::CacheArray& c) {
  return {c.batch_stride, c.row, c.head_stride};
}

/// What kernels::kKvBlockAttribute says.
dense::KvCodec BlockCodec(const graph::Node& node);

/// A mask or bias that spreads over [B, N, S, T] from the right, numpy's way. `padded`: a last dimension that
/// is smaller than T, 1 included, hides the keys beyond it (ai.onnx:Attention); else 1 spreads.
void SetBias(const TensorView* bias, dense::AttentionArgs* args, bool padded = false);

/// The block planned for the slot; from GetScratchBuffer() where nothing bounds the shapes.
void* Workspace(kernels::KernelContext& context, int slot, size_t bytes);

/// Product of sizes; kUnbounded when one of them is, or when it overflows.
int64_t UpperProduct(std::initializer_list<int64_t> sizes);

/// New rows of keys (or values) and what is added to them.
struct NewRows {
  const void* data = nullptr;
  DType dtype = DType::kFloat;
  dense::HeadLayout layout;
  int64_t count = 0;       ///< rows per batch row
  int64_t size = 0;        ///< elements of one head
  dense::ConstArray bias;  ///< [heads * size]; data may be null
  dense::KvCodec codec;    ///< of past and present
};
/// What attention reads.
struct KeyRows {
  dense::ConstArray data;
  dense::HeadLayout layout;
  dense::KvCodec codec;
};
/// Joins `past_len` rows of `past` ([B, heads, rows, size], may be null) and the new ones in `present` (the
/// same memory as past, or another; may be null: then in the workspace of `slot`, AppendedBytes() large).
/// Without past, present and bias the new rows are read where they are. `codes_slot` has
/// AppendKvScratchBytes() for caches of integers.
KeyRows AppendRows(kernels::KernelContext& context, int64_t batch, int64_t heads, int64_t past_len,
                   const NewRows& rows, const TensorView* past, TensorView* present, int slot,
                   int codes_slot = -1);

}  // namespace ullage::cpu
