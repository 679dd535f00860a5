/// Layers that keep a state instead of a cache: CausalConvWithState, LinearAttention.
#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/dense/tasks.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/element.h"
#include "providers/cpu/kernels/tensor_families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

void Expect(const TensorView* v, const Shape& shape, std::string_view what) {
  if (v && v->shape != shape)
    Throw(Code::kInvalidModel, what, " of shape ", v->shape.ToString(), ", expected ", shape.ToString());
}

/// As ForNumber(), for the types that have these kernels.
template <class Fn>
void ForFloat(DType dtype, const Fn& fn) {
  if (dtype == DType::kFloat16) return fn(Half{});
  return dtype == DType::kBFloat16 ? fn(BFloat16{}) : fn(float{});
}

/// input [B, C, S], weight [C, 1, k], bias? [C], past? [B, C, k-1] -> output, present: each channel by
/// itself, each step from itself and the k-1 before it.
class CausalConvKernel final : public Kernel {
 public:
  explicit CausalConvKernel(const KernelInfo& info) {
    const std::string activation = info.node.Str("activation", "none");
    silu_ = activation == "silu" || activation == "swish";
    if (!silu_ && activation != "none") info.Unsupported("activation ", activation);
    if (info.node.Int("state_window", 0) > 0) info.Unsupported("state_window");
    if (info.node.Int("dilation", 1) != 1) info.Unsupported("dilation ", info.node.Int("dilation", 1));
  }

  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &w = *context.input(1);
    const TensorView *bias = context.input(2), *past = context.input(3);
    TensorView& y = *context.output(0);
    TensorView* present = context.output(1);
    const int64_t batch = x.shape[0], channels = x.shape[1], steps = x.shape[2], taps = w.shape[2],
                  before = taps - 1;
    Expect(&w, {channels, 1, taps}, "weight");
    Expect(bias, {channels}, "bias");
    Expect(past, {batch, channels, before}, "past state");
    if (taps < 1) Throw(Code::kInvalidModel, "a weight of shape ", w.shape.ToString());
    ForFloat(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      dense::RunTasks(context.threads(), batch * channels, y.elements() * taps, [&](int64_t row, int) {
        const int64_t c = row % channels;
        const T *in = x.as<T>() + row * steps, *state = past ? past->as<T>() + row * before : nullptr;
        const T* filter = w.as<T>() + c * taps;
        const auto at = [&](int64_t i) {  // i counts from the first step of the state
          return i >= before ? Load(in[i - before]) : state ? Load(state[i]) : A{};
        };
        T* out = y.as<T>() + row * steps;
        for (int64_t s = 0; s < steps; ++s) {
          A sum = bias ? Load(bias->as<T>()[c]) : A{};
          for (int64_t k = 0; k < taps; ++k) sum += Load(filter[k]) * at(s + k);
          if (silu_) sum = sum / (A{1} + std::exp(-sum));
          out[s] = Store<T>(sum);
        }
        for (int64_t i = 0; present && i < before; ++i)
          present->as<T>()[row * before + i] = Store<T>(at(steps + i));
      });
    });
  }

 private:
  bool silu_;
};

/// query [B, T, Hq * dk], key, value [B, T, Hkv * dv], past? [B, Hkv, dk, dv], decay?, beta? -> output,
/// present. Each head of keys and values has a state S [dk, dv]:
///   S = exp(decay) S;  S += beta k (v - S^T k)^T, or S += k v^T;  output = scale S^T q
class LinearAttentionKernel final : public Kernel {
 public:
  explicit LinearAttentionKernel(const KernelInfo& info)
      : query_heads_(info.node.RequiredInt("q_num_heads")),
        heads_(info.node.RequiredInt("kv_num_heads")),
        scale_(info.node.Float("scale", 0)) {
    const std::string rule = info.node.Str("update_rule", "gated_delta");
    gated_ = rule == "gated" || rule == "gated_delta";
    delta_ = rule == "delta" || rule == "gated_delta";
    if (!gated_ && !delta_ && rule != "linear") info.Unsupported("update_rule ", rule);
    if (info.node.Int("state_window", 0) > 0) info.Unsupported("state_window");
    if (query_heads_ % heads_ != 0 && heads_ % query_heads_ != 0)
      info.Unsupported(query_heads_, " query heads for ", heads_, " heads of values");
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto &q = shapes.inputs[0].shape, &v = shapes.inputs[2].shape;
    if (q.rank != 3 || v.rank != 3 || !q[2].bounded() || !v[2].bounded()) return;
    needs.push_back({Bytes(q[2].upper / query_heads_, v[2].upper / heads_, shapes.threads), 0, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView &q = *context.input(0), &k = *context.input(1), &v = *context.input(2);
    const TensorView *past = context.input(3), *decay = context.input(4), *beta = context.input(5);
    TensorView& y = *context.output(0);
    TensorView* present = context.output(1);
    const int64_t batch = q.shape[0], steps = q.shape[1], dk = q.shape[2] / query_heads_,
                  dv = v.shape[2] / heads_;
    const int64_t key_heads = dk ? k.shape[2] / dk : 0;
    if (key_heads < 1 || heads_ % key_heads != 0 || k.shape != Shape{batch, steps, key_heads * dk} ||
        v.shape != Shape{batch, steps, heads_ * dv})
      Throw(Code::kInvalidModel, "queries, keys and values of shapes ", q.shape.ToString(), ", ",
            k.shape.ToString(), ", ", v.shape.ToString());
    Expect(past, {batch, heads_, dk, dv}, "past state");
    if ((gated_ && !decay) || (delta_ && !beta)) Throw(Code::kInvalidModel, "decay or beta is missing");
    const bool wide_decay = gated_ && decay->shape.at(-1) != heads_;
    if (gated_) Expect(decay, {batch, steps, wide_decay ? heads_ * dk : heads_}, "decay");
    const int64_t betas = delta_ ? beta->shape.at(-1) : 1;
    if (delta_) Expect(beta, {batch, steps, betas == 1 ? 1 : heads_}, "beta");
    const float scale = scale_ != 0 ? scale_ : 1 / std::sqrt(static_cast<float>(dk));
    ThreadTeam& team = context.threads();
    auto* memory = static_cast<float*>(Workspace(context, 0, Bytes(dk, dv, team.size())));
    const int64_t output_heads = std::max(query_heads_, heads_),
                  group = std::max<int64_t>(query_heads_ / heads_, 1);
    ForFloat(q.dtype, [&](auto t) {
      using T = decltype(t);
      dense::RunTasks(
          team, batch * heads_, batch * heads_ * steps * dk * dv * 3, [&](int64_t task, int worker) {
            const int64_t b = task / heads_, h = task % heads_;
            float* state = memory + worker * (dk + 1) * dv;
            float* row = state + dk * dv;
            for (int64_t i = 0; i < dk * dv; ++i)
              state[i] = past ? static_cast<float>(Load(past->as<T>()[task * dk * dv + i])) : 0;
            for (int64_t s = 0; s < steps; ++s) {
              const int64_t at = b * steps + s;
              const T* key = k.as<T>() + (at * key_heads + h * key_heads / heads_) * dk;
              const T* value = v.as<T>() + (at * heads_ + h) * dv;
              if (gated_) {
                for (int64_t i = 0; i < dk; ++i) {
                  const int64_t g = wide_decay ? (at * heads_ + h) * dk + i : at * heads_ + h;
                  const auto factor =
                      static_cast<float>(std::exp(static_cast<double>(Load(decay->as<T>()[g]))));
                  for (int64_t j = 0; j < dv; ++j) state[i * dv + j] *= factor;
                }
              }
              for (int64_t j = 0; j < dv; ++j) row[j] = static_cast<float>(Load(value[j]));
              float rate = 1;
              if (delta_) {
                rate = static_cast<float>(Load(beta->as<T>()[betas == 1 ? at : at * heads_ + h]));
                for (int64_t i = 0; i < dk; ++i) {
                  const auto w = static_cast<float>(Load(key[i]));
                  for (int64_t j = 0; j < dv; ++j) row[j] -= w * state[i * dv + j];
                }
              }
              for (int64_t i = 0; i < dk; ++i) {
                const float w = rate * static_cast<float>(Load(key[i]));
                for (int64_t j = 0; j < dv; ++j) state[i * dv + j] += w * row[j];
              }
              for (int64_t n = 0; n < group; ++n) {
                const int64_t head = query_heads_ >= heads_ ? h * group + n : h * query_heads_ / heads_;
                const T* query = q.as<T>() + (at * query_heads_ + head) * dk;
                std::fill_n(row, dv, 0.0f);
                for (int64_t i = 0; i < dk; ++i) {
                  const auto w = static_cast<float>(Load(query[i]));
                  for (int64_t j = 0; j < dv; ++j) row[j] += w * state[i * dv + j];
                }
                T* out = y.as<T>() + (at * output_heads + h * group + n) * dv;
                for (int64_t j = 0; j < dv; ++j)
                  out[j] = Store<T>(static_cast<typename Arithmetic<T>::Type>(scale * row[j]));
              }
            }
            for (int64_t i = 0; present && i < dk * dv; ++i)
              present->as<T>()[task * dk * dv + i] =
                  Store<T>(static_cast<typename Arithmetic<T>::Type>(state[i]));
          });
    });
  }

 private:
  static size_t Bytes(int64_t dk, int64_t dv, int threads) {
    const int64_t floats = CheckedMul(CheckedMul(dk + 1, dv, "workspace"), int64_t{threads}, "workspace");
    return CheckedMul(static_cast<size_t>(floats), sizeof(float), "workspace");
  }

  int64_t query_heads_, heads_;
  float scale_;
  bool gated_, delta_;
};

}  // namespace

void RegisterStates(kernels::Registry& registry) {
  using kernels::kFloats;
  for (std::string_view domain : {std::string_view(), graph::kMsDomain}) {
    kernels::KernelDef def;
    def.domain = domain;
    def.op = "CausalConvWithState";
    def.types = {kFloats, kFloats, kFloats, kFloats};
    def.create = Make<CausalConvKernel>;
    registry.Add(def);
    def.op = "LinearAttention";
    def.types = {kFloats, kFloats, kFloats, kFloats, kFloats, kFloats};
    def.create = Make<LinearAttentionKernel>;
    registry.Add(std::move(def));
  }
}

}  // namespace ullage::cpu
