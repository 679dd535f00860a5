#include "providers/cpu/kernels/padding_mask.h"

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

/// Where element (b, s, t) of the padding lies.
class Padding {
 public:
  Padding(const TensorView& v, int64_t batch, int64_t seq, int64_t keys, int64_t past) : view_(v) {
    const Shape& s = v.shape;
    const auto wrong = [&] {
      Throw(Code::kInvalidModel, "a padding mask of shape ", s.ToString(), " for a batch of ", batch, ", ",
            seq, " queries and ", keys, " keys");
    };
    if (s.rank() == 1) {
      if (s[0] != batch && s[0] != 2 * batch && s[0] != 3 * batch + 2) wrong();
      lengths_ = true;
      starts_ = s[0] == 2 * batch ? batch : -1;
    } else if (s.rank() == 2) {
      if (s[0] != batch || s[1] != keys) wrong();
      batch_stride_ = keys;
    } else if (s.rank() == 3) {
      if (s[0] != batch || s[1] != seq || s[2] != keys) wrong();
      batch_stride_ = seq * keys;
      seq_stride_ = keys;
    } else {
      if (s.rank() != 4 || s[0] != batch || s[1] != 1 || s[2] < past + seq || s[3] < keys) wrong();
      batch_stride_ = s[2] * s[3];
      seq_stride_ = s[3];
      first_ = past * s[3];
    }
  }
  bool by_query() const { return seq_stride_ != 0; }
  bool hides(int64_t b, int64_t s, int64_t t) const {
    if (lengths_) return t >= IndexOf(view_, b) || (starts_ >= 0 && t < IndexOf(view_, starts_ + b));
    return IndexOf(view_, first_ + b * batch_stride_ + s * seq_stride_ + t) <= 0;
  }

 private:
  const TensorView& view_;
  bool lengths_ = false;
  int64_t starts_ = -1, batch_stride_ = 0, seq_stride_ = 0, first_ = 0;
};

}  // namespace

int64_t MaskBytes(const ops::ValueFacts* padding, const ops::ValueFacts* bias, int64_t batch, int64_t heads,
                  int64_t seq, int64_t keys) {
  if (!padding) return 0;
  const bool by_query = bias || !padding->shape.known_rank() || padding->shape.rank > 2;
  return UpperProduct({batch, bias ? heads : 1, by_query ? seq : 1, keys, 4});
}

void SetMask(kernels::KernelContext& context, const MaskArgs& mask, int slot, dense::AttentionArgs* args) {
  SetBias(mask.bias, args);
  if (!mask.padding) return;
  const int64_t keys = args->max_keys;
  const Padding padding(*mask.padding, args->batch, args->seq, keys, mask.past);
  const bool with_bias = args->bias.data != nullptr;
  const int64_t heads = with_bias && args->bias_head_stride != 0 ? args->q_heads : 1;
  const int64_t rows = with_bias || padding.by_query() ? args->seq : 1;
  const dense::AttentionArgs in = *args;
  const int64_t elements = CheckedMul(CheckedMul(args->batch * heads, rows), keys);
  auto* sum = static_cast<float*>(Workspace(context, slot, static_cast<size_t>(elements) * sizeof(float)));
  const auto add = [&](int64_t task, int) {
    const int64_t b = task / (heads * rows), n = task / rows % heads, s = task % rows;
    float* out = sum + task * keys;
    for (int64_t t = 0; t < keys; ++t) out[t] = padding.hides(b, s, t) ? mask.filter : 0.0f;
    if (!with_bias) return;
    const int64_t row = b * in.bias_batch_stride + n * in.bias_head_stride + s * in.bias_seq_stride;
    ForNumber(in.bias.dtype, [&](auto type) {
      using T = decltype(type);
      const auto* from = static_cast<const T*>(in.bias.data) + row;
      for (int64_t t = 0; t < keys; ++t)
        if (in.bias_keys < 0 || t < in.bias_keys)
          out[t] += static_cast<float>(Load(from[t * in.bias_key_stride]));
    });
  };
  context.threads().Run(args->batch * heads * rows, add);
  args->bias = {sum, DType::kFloat};
  args->bias_key_stride = 1;
  args->bias_seq_stride = rows == 1 ? 0 : keys;
  args->bias_head_stride = heads == 1 ? 0 : rows * keys;
  args->bias_batch_stride = heads * rows * keys;
}

}  // namespace ullage::cpu
