/// What the attention operators share: caches, new rows, and launches of attention.cl.
#pragma once

#include <string>

#include "gemm.h"
#include "heads.h"
#include "op.h"

namespace ullage_opencl {

/// As attention.cl declares it.
struct AttentionArgs {
  int32_t seq = 0, q_heads = 0, group = 1, size = 0, values = 0, keys = 0;
  int64_t q_batch = 0, q_row = 0, q_head = 0, k_batch = 0, k_row = 0, k_head = 0, v_batch = 0, v_row = 0,
          v_head = 0, y_batch = 0, y_row = 0, y_head = 0;
  int64_t m_batch = 0, m_head = 0, m_row = 0, m_key = 0;
  int32_t m_keys = 0, mask = 0, left = -1, right = 0, lengths = 0, first = 0, sink = 0, split = 0, splits = 1,
          room = 0;
  int64_t past = 0;
  float scale = 1, softcap = 0;
};

/// Rows of keys or values, wherever they lie.
struct KeyRows {
  Tensor data;
  HeadLayout layout;
};

class AttentionOp : public Op {
 public:
  explicit AttentionOp(const ullage_kernel_info& info) : Op(info) {}

 protected:
  enum SlotId : uint32_t { kQueries, kKeys, kValues, kParts };

  struct Types {
    int32_t q = kFloat, k = kFloat, y = kFloat, mask = kFloat, lengths = kInt64, sinks = kFloat;
  };
  /// Heads of `size` elements, values of `values`; throws ULLAGE_UNSUPPORTED where that is not known.
  void UseAttention(const Types& types, int64_t size, int64_t values);

  static Tensor InRegion(const ullage_region& region, int32_t dtype);
  /// Rows [from_row, from_row + rows) of `from` to rows to_row on of `to`, per batch row and head.
  void CopyRows(const Context& c, const KeyRows& from, int64_t from_row, const KeyRows& to, int64_t to_row,
                int64_t batch, int64_t heads, int64_t rows, int64_t size) const;
  static KeyRows Cache(const Tensor& t);

  void SetMask(const Tensor* mask, int64_t keys, bool padded, AttentionArgs* args) const;
  /// Most bytes of the parts' sums for shapes within those bounds; -1: unknown.
  int64_t PartBytes(int64_t batch, int64_t heads, int64_t seq, int64_t keys, int64_t values) const;
  struct Operands {
    const Tensor* mask = nullptr;
    const Tensor* lengths = nullptr;
    const Tensor* sinks = nullptr;
  };
  void Attend(const Context& c, const KeyRows& q, const KeyRows& k, const KeyRows& v, const KeyRows& y,
              const Operands& operands, AttentionArgs args, int64_t batch) const;

 private:
  KernelRef *attend_ = nullptr, *join_ = nullptr, *copy_ = nullptr;
  int64_t unit_ = 4;
};

}  // namespace ullage_opencl
