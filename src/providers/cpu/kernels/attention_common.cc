#include "providers/cpu/kernels/attention_common.h"

#include "core/error.h"

namespace ullage::cpu {

int64_t IndexOf(const TensorView& v, int64_t i) {
  return v.dtype == DType::kInt64 ? v.as<int64_t>()[i] : v.as<int32_t>()[i];
}

void SetBias(const TensorView* bias, dense::AttentionArgs* args) {
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
  if (t == 1 && args->max_keys != 1) {
    args->bias_key_stride = 0;
  } else if (t < args->max_keys) {
    args->bias_keys = t;
  }
  args->bias_seq_stride = q == 1 ? 0 : t;
  args->bias_head_stride = n == 1 ? 0 : q * t;
  args->bias_batch_stride = b == 1 ? 0 : n * q * t;
}

}  // namespace ullage::cpu
