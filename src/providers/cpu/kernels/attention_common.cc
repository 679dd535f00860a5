#include "providers/cpu/kernels/attention_common.h"

#include "core/checked.h"
#include "core/error.h"
#include "kernels/kv_rows.h"

namespace ullage::cpu {

int64_t IndexOf(const TensorView& v, int64_t i) {
  return v.dtype == DType::kInt64 ? v.as<int64_t>()[i] : v.as<int32_t>()[i];
}

void SetBias(const TensorView* bias, dense::AttentionArgs* args, bool padded) {
  if (!bias || !bias->data) return;
  const Shape& s = bias->shape;
  const int r = s.rank();
  if (r > 4) Throw(Code::kInvalidModel, "a mask of shape ", s.ToString());
  const auto dim = [&](int from_right) { return r >= from_right ? s[r - from_right] : 1; };
  const int64_t t = dim(1), q = dim(2), n = dim(3), b = dim(4);
  const auto check = [&](const char* what, int64_t found, int64_t expected) {
    if (found != 1 && found != expected)
      Throw(Code::kInvalidModel, "a mask of shape ", s.ToString(), ": ", what, " is ", found, ", expected ",
            expected);
  };
  check("batch", b, args->batch);
  check("heads", n, args->q_heads);
  check("queries", q, args->seq);
  args->bias = {bias->data, bias->dtype};
  args->bias_key_stride = 1;
  args->bias_keys = -1;
  if (t == 1 && args->max_keys != 1 && !padded) {
    args->bias_key_stride = 0;
  } else if (t < args->max_keys) {
    args->bias_keys = t;
  }
  args->bias_seq_stride = q == 1 ? 0 : t;
  args->bias_head_stride = n == 1 ? 0 : q * t;
  args->bias_batch_stride = b == 1 ? 0 : n * q * t;
}

void* Workspace(kernels::KernelContext& context, int slot, size_t bytes) {
  size_t planned = 0;
  void* p = context.GetPreallocatedWorkspace(slot, &planned);
  return planned >= bytes ? p : context.GetScratchBuffer(bytes);
}

dense::KvCodec BlockCodec(const graph::Node& node) {
  dense::KvCodec codec;
  codec.block = node.Int(kernels::kKvBlockAttribute, 0);
  if (codec.block > 0) codec.bits = 8;
  return codec;
}

int64_t UpperProduct(std::initializer_list<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t n : sizes) {
    if (n == ops::kUnbounded) return n;
    if (__builtin_mul_overflow(product, n, &product)) return ops::kUnbounded;
  }
  return product;
}

KeyRows AppendRows(kernels::KernelContext& context, int64_t batch, int64_t heads, int64_t past_len,
                   const NewRows& rows, const TensorView* past, TensorView* present, int slot,
                   int codes_slot) {
  static constexpr char kNothing = 0;
  const int64_t width = rows.codec.RowWidth(rows.size);
  if (past && (past->shape.rank() != 4 || past->shape[0] != batch || past->shape[1] != heads ||
               past->shape[2] < past_len || past->shape[3] != width))
    Throw(Code::kInvalidModel, "a past of shape ", past->shape.ToString(), ", expected [", batch, ",", heads,
          ",>=", past_len, ",", width, "]");
  if (past && present && past->dtype != present->dtype)
    Throw(Code::kInvalidModel, "a past of type ", NameOf(past->dtype), " for a present of type ",
          NameOf(present->dtype));
  if (!past && !present && !rows.bias.data) return {{rows.data, rows.dtype}, rows.layout, {}};
  dense::AppendKvArgs args;
  args.batch = batch;
  args.seq = rows.count;
  args.kv_heads = heads;
  args.head_size = rows.size;
  args.past_len_all = past ? past_len : 0;
  args.key = {rows.data ? rows.data : &kNothing, rows.dtype};
  args.key_layout = rows.layout;
  args.key_bias = rows.bias;
  if (present) {
    args.capacity = CapacityOf(*present);
    args.present_key = CacheOf(present, rows.codec);
  } else {
    const DType dtype = past ? past->dtype : rows.dtype;
    args.capacity = args.past_len_all + rows.count;
    const int64_t elements = CheckedMul(CheckedMul(batch * heads, args.capacity), width);
    args.present_key.data = {Workspace(context, slot, BytesOf(dtype, elements)), dtype};
    args.present_key.codec = past ? rows.codec : dense::KvCodec{};
    args.present_key.row = past ? width : rows.size;
    args.present_key.head_stride = args.capacity * args.present_key.row;
    args.present_key.batch_stride = heads * args.present_key.head_stride;
  }
  if (past && (!present || past->data != present->data)) args.past_key = CacheOf(past, rows.codec);
  if (args.present_key.codec.quantized())
    args.scratch =
        Workspace(context, codes_slot, dense::AppendKvScratchBytes(batch, rows.count, heads, rows.size));
  if (batch * heads * rows.size > 0) dense::AppendKv(context.threads(), args);
  return {args.present_key.data, LayoutOf(args.present_key), args.present_key.codec};
}

}  // namespace ullage::cpu
