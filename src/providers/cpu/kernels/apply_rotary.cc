/// ullage:ApplyRotary: rotary embedding in halves with cos and sin of every element given.
#include <algorithm>

#include "core/error.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

/// One head of one token: y = x * cos + concat(-x[half:rot], x[:half]) * sin, the rest copied. x may be y.
template <class T>
void Turn(const T* x, const T* cos, const T* sin, int64_t rot, int64_t width, T* y) {
  const int64_t half = rot / 2;
  for (int64_t i = 0; i < half; ++i) {
    const auto low = Load(x[i]), high = Load(x[i + half]);
    y[i] = Store<T>(low * Load(cos[i]) - high * Load(sin[i]));
    y[i + half] = Store<T>(high * Load(cos[i + half]) + low * Load(sin[i + half]));
  }
  if (x != y) std::copy(x + rot, x + width, y + rot);
}

class ApplyRotaryKernel final : public Kernel {
 public:
  explicit ApplyRotaryKernel(const KernelInfo&) {}

  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &cos = *context.input(1), &sin = *context.input(2);
    TensorView& y = *context.output(0);
    const int64_t batch = x.shape[0], heads = x.shape[1], rows = x.shape[2], width = x.shape[3];
    const int64_t rot = cos.shape[2];
    if (!(cos.shape == sin.shape) || cos.shape[1] != rows || (cos.shape[0] != 1 && cos.shape[0] != batch) ||
        rot > width || rot % 2 != 0)
      Throw(Code::kInvalidModel, "cos and sin of shapes ", cos.shape.ToString(), " and ",
            sin.shape.ToString(), " for an input of shape ", x.shape.ToString());
    if (x.shape.elements() == 0) return;
    const int64_t table_batch = cos.shape[0] == 1 ? 0 : rows * rot;
    // Tasks of about 16 K elements.
    const int64_t total = batch * heads * rows, step = std::max<int64_t>(1, (1 << 14) / width);
    ForNumber(x.dtype, [&](auto tag) {
      using T = decltype(tag);
      if constexpr (!std::is_floating_point_v<typename Arithmetic<T>::Type>)
        return;  // not among the types taken
      else {
        const T *in = x.as<T>(), *c = cos.as<T>(), *s = sin.as<T>();
        T* out = y.as<T>();
        context.threads().Run((total + step - 1) / step, [&](int64_t task, int) {
          for (int64_t r = task * step; r < std::min(total, (task + 1) * step); ++r) {
            const int64_t table = r / (heads * rows) * table_batch + r % rows * rot;
            Turn(in + r * width, c + table, s + table, rot, width, out + r * width);
          }
        });
      }
    });
  }
};

}  // namespace

void RegisterApplyRotary(kernels::Registry& registry) {
  kernels::KernelDef def;
  def.domain = graph::kUllageDomain;
  def.op = "ApplyRotary";
  def.types = {kernels::kFloats, kernels::kFloats, kernels::kFloats};
  def.create = Make<ApplyRotaryKernel>;
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
