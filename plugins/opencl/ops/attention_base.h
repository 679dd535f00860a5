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
          padding = 0;
  int64_t past = 0;
  int64_t p_batch = 0, p_row = 0, p_first = 0;
  int32_t k_head_scales = 0, v_head_scales = 0;
  float scale = 1, softcap = 0, filter = 0;
  int32_t room = 0;
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
  enum SlotId : uint32_t { kQueries, kKeys, kValues, kParts, kProducts };

  struct Types {
    int32_t q = kFloat, k = kFloat, y = kFloat, mask = kFloat, lengths = kInt64, sinks = kFloat,
            padding = kInt32;
    RowCodec k_codec, v_codec;
  };
  /// What launches may have, -1: no bound.
  struct Bounds {
    int64_t least_rows = 0, most_rows = -1;  ///< rows of queries by the heads that share keys
    int64_t keys = -1;
  };
  static Bounds BoundsOf(const ValueFacts& queries, size_t seq_axis, int64_t group, int64_t keys);
  /// Heads of `size` elements, values of `values`; throws ULLAGE_UNSUPPORTED where that is not known.
  void UseAttention(const Types& types, int64_t size, int64_t values, const Bounds& bounds);

  /// The dimension's upper end; -1: none.
  static int64_t Upper(const ValueFacts& f, size_t axis) {
    return f.known && axis < f.upper.size() ? f.upper[axis] : -1;
  }
  static Tensor InRegion(const ullage_region& region, int32_t dtype);
  /// What begins at that element.
  static Tensor Within(const Tensor& t, int64_t elements);
  /// Rows [from_row, from_row + rows) of `from` to rows to_row on of `to`, per batch row and head.
  void CopyRows(const Context& c, const KeyRows& from, int64_t from_row, const KeyRows& to, int64_t to_row,
                int64_t batch, int64_t heads, int64_t rows, int64_t size) const;
  static KeyRows Cache(const Tensor& t);

  void SetMask(const Tensor* mask, int64_t keys, bool padded, AttentionArgs* args) const;
  /// The padding of com.microsoft's operators: [B] where keys end, [2 B] also where they begin, [3 B + 2]
  /// ends first, [B, T] and [B, S, T] 0 for padding, [B, 1, M, M] rows from the past on. Sizes of `args` are
  /// set.
  void SetPadding(const Tensor* padding, int64_t batch, int64_t past, float filter,
                  AttentionArgs* args) const;
  /// Most bytes of the parts' sums for shapes within those bounds; -1: unknown.
  int64_t PartBytes(int64_t batch, int64_t heads, int64_t group, int64_t seq, int64_t keys,
                    int64_t values) const;
  struct Operands {
    const Tensor* mask = nullptr;
    const Tensor* lengths = nullptr;
    const Tensor* sinks = nullptr;
    const Tensor* padding = nullptr;
    const Tensor* k_scales = nullptr;
    const Tensor* v_scales = nullptr;
  };
  void Attend(const Context& c, const KeyRows& q, const KeyRows& k, const KeyRows& v, const KeyRows& y,
              const Operands& operands, AttentionArgs args, int64_t batch) const;

 private:
  /// Groups that a launch of `groups` is cut into, each along `keys`.
  int64_t Splits(int64_t groups, int64_t keys) const;

  // By row, in tiles of many and of few rows: those that the bounds call for.
  KernelRef *rows_ = nullptr, *wide_ = nullptr, *narrow_ = nullptr, *join_ = nullptr, *copy_ = nullptr;
};

}  // namespace ullage_opencl
