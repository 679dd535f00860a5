/// Pad: constant, reflect, edge, wrap; negative pads crop.
#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

enum class Mode { kConstant, kReflect, kEdge, kWrap };

/// Where element i (may be negative or beyond) of an axis of n elements comes from; -1: from nowhere.
int64_t Source(Mode mode, int64_t i, int64_t n) {
  if (i >= 0 && i < n) return i;
  switch (mode) {
    case Mode::kConstant:
      return -1;
    case Mode::kEdge:
      return i < 0 ? 0 : n - 1;
    case Mode::kWrap:
      return ((i % n) + n) % n;
    case Mode::kReflect: {
      if (n == 1) return 0;
      const int64_t period = 2 * (n - 1), at = ((i % period) + period) % period;
      return at < n ? at : period - at;
    }
  }
  return -1;
}

class PadKernel final : public Kernel {
 public:
  explicit PadKernel(const KernelInfo& info) : inputs_(info.node.opset >= 11) {
    const std::string mode = info.node.Str("mode", "constant");
    if (mode == "reflect")
      mode_ = Mode::kReflect;
    else if (mode == "edge")
      mode_ = Mode::kEdge;
    else if (mode == "wrap")
      mode_ = Mode::kWrap;
    else if (mode != "constant")
      info.Unsupported("mode ", mode);
    if (!inputs_) {
      pads_ = info.node.Ints("pads");
      if (pads_.empty()) pads_ = info.node.Ints("paddings");
      value_ = info.node.Float("value", 0);
    }
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int rank = x.shape.rank();
    int64_t before[kMaxRank] = {};
    Begins(context, rank, before);
    if (y.elements() == 0) return;
    if (x.elements() == 0 && mode_ != Mode::kConstant)
      Throw(Code::kInvalidInput, "nothing to fill the padding of an empty tensor with");
    const TensorView* value = inputs_ ? context.input(2) : nullptr;
    if (value && (value->elements() != 1 || value->dtype != x.dtype))
      Throw(Code::kInvalidModel, "constant_value of shape ", value->shape.ToString(), " and type ",
            NameOf(value->dtype));
    ForBytes(x.dtype, [&](auto t) {
      using T = decltype(t);
      T fill{};
      if (value) {
        fill = *value->as<T>();
      } else if (!inputs_ && value_ != 0) {
        ForNumber(x.dtype, [&](auto n) {
          using N = decltype(n);
          if constexpr (sizeof(N) == sizeof(T)) {
            const N typed = Store<N>(static_cast<typename Arithmetic<N>::Type>(value_));
            std::memcpy(&fill, &typed, sizeof(T));
          }
        });
      }
      const int64_t width = rank ? y.shape.at(-1) : 1, source_width = rank ? x.shape.at(-1) : 1;
      const int64_t shift = rank ? before[rank - 1] : 0;
      context.threads().Run(y.elements() / width, [&](int64_t row, int) {
        T* to = y.as<T>() + row * width;
        int64_t rest = row, at = 0, stride = 1;
        bool outside = false;
        for (int d = rank - 2; d >= 0; --d) {
          const int64_t i = Source(mode_, rest % y.shape[d] - before[d], x.shape[d]);
          rest /= y.shape[d];
          outside = outside || i < 0;
          at += i * stride;
          stride *= x.shape[d];
        }
        if (outside) {
          std::fill_n(to, width, fill);
          return;
        }
        const T* from = x.as<T>() + at * source_width;
        const int64_t first = std::clamp<int64_t>(shift, 0, width);
        const int64_t last = std::clamp<int64_t>(shift + source_width, first, width);
        const auto fill_range = [&](int64_t i, int64_t end) {
          for (; i < end; ++i) {
            const int64_t s = Source(mode_, i - shift, source_width);
            to[i] = s < 0 ? fill : from[s];
          }
        };
        fill_range(0, first);
        std::copy_n(from + first - shift, last - first, to + first);
        fill_range(last, width);
      });
    });
  }

 private:
  void Begins(KernelContext& context, int rank, int64_t* before) const {
    const TensorView* axes = inputs_ ? context.input(3) : nullptr;
    const int64_t count = axes ? axes->elements() : rank;
    const TensorView* pads = inputs_ ? context.input(1) : nullptr;
    const int64_t given = pads ? pads->elements() : static_cast<int64_t>(pads_.size());
    if (given != 2 * count) Throw(Code::kInvalidModel, "pads has ", given, " elements for ", count, " axes");
    for (int64_t i = 0; i < count; ++i) {
      int64_t axis = axes ? IndexOf(*axes, i) : i;
      if (axis < -rank || axis >= rank)
        Throw(Code::kInvalidModel, "axis ", axis, " of a tensor of rank ", rank);
      if (axis < 0) axis += rank;
      before[axis] = pads ? IndexOf(*pads, i) : pads_[static_cast<size_t>(i)];
    }
  }

  bool inputs_;
  Mode mode_ = Mode::kConstant;
  std::vector<int64_t> pads_;
  float value_ = 0;
};

}  // namespace

void RegisterPad(kernels::Registry& registry) {
  kernels::KernelDef def;
  def.op = "Pad";
  def.types = {kernels::kNumbersAndBool};
  def.create = Make<PadKernel>;
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
