/// Clip, with its bounds in attributes (6) or inputs (11 and later).
#include <algorithm>
#include <limits>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

class ClipKernel final : public Kernel {
 public:
  explicit ClipKernel(const KernelInfo& info) : attributes_(info.node.opset < 11) {
    if (!attributes_) return;
    low_ = info.node.Float("min", std::numeric_limits<float>::lowest());
    high_ = info.node.Float("max", std::numeric_limits<float>::max());
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const TensorView* min = attributes_ ? nullptr : context.input(1);
    const TensorView* max = attributes_ ? nullptr : context.input(2);
    for (const TensorView* v : {min, max})
      if (v && (v->elements() != 1 || v->dtype != x.dtype))
        Throw(Code::kInvalidModel, "a bound of shape ", v->shape.ToString(), " and type ", NameOf(v->dtype));
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      A low = std::numeric_limits<A>::lowest(), high = std::numeric_limits<A>::max();
      bool has_low = min != nullptr, has_high = max != nullptr;
      if (min) low = Load(*min->as<T>());
      if (max) high = Load(*max->as<T>());
      if constexpr (std::is_floating_point_v<A>) {
        if (attributes_) {
          low = static_cast<A>(low_);
          high = static_cast<A>(high_);
          has_low = has_high = true;
        }
      }
      const T* in = x.as<T>();
      T* out = y.as<T>();
      const int64_t n = x.elements();
      constexpr int64_t kPerTask = 16384;
      context.threads().Run(CeilDiv(n, kPerTask), [&](int64_t task, int) {
        for (int64_t i = task * kPerTask; i < std::min(n, (task + 1) * kPerTask); ++i) {
          A v = Load(in[i]);  // NaN stays
          if (has_low && v < low) v = low;
          if (has_high && v > high) v = high;
          out[i] = Store<T>(v);
        }
      });
    });
  }

 private:
  bool attributes_;
  float low_ = 0, high_ = 0;
};

}  // namespace

void RegisterClip(kernels::Registry& registry) {
  kernels::KernelDef def;
  def.op = "Clip";
  def.types = {kernels::kNumbers};
  def.create = Make<ClipKernel>;
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
