/// Shape, Size, Transpose, Expand, Tile, Concat, Slice, Split, Identity, and what is otherwise a view.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "providers/cpu/kernels/copy.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/operands.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

void DenseStrides(const Shape& shape, int64_t* strides) {
  int64_t s = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[d] = s;
    s *= shape[d];
  }
}

class ShapeKernel final : public Kernel {
 public:
  explicit ShapeKernel(const KernelInfo& info)
      : size_(info.node.op == "Size"),
        start_(info.node.Int("start", 0)),
        end_(info.node.Int("end", INT64_MAX)) {}
  void Compute(KernelContext& context) const override {
    const Shape& s = context.input(0)->shape;
    auto* out = context.output(0)->as<int64_t>();
    if (size_) {
      *out = s.elements();
      return;
    }
    const int64_t r = s.rank();
    const auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + r : i, 0, r); };
    for (int64_t i = clamp(start_); i < clamp(end_); ++i) *out++ = s[static_cast<int>(i)];
  }

 private:
  bool size_;
  int64_t start_, end_;
};

class TransposeKernel final : public Kernel {
 public:
  explicit TransposeKernel(const KernelInfo& info) : perm_(info.node.Ints("perm")) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int r = x.shape.rank();
    int64_t in[kMaxRank], strides[kMaxRank];
    DenseStrides(x.shape, in);
    for (int d = 0; d < r; ++d) strides[d] = in[perm_.empty() ? r - 1 - d : perm_[static_cast<size_t>(d)]];
    CopyStrided(context.threads(), x.as<std::byte>(), y.as<std::byte>(), y.shape, strides, ElementOf(x));
  }

 private:
  std::vector<int64_t> perm_;
};

class ExpandKernel final : public Kernel {
 public:
  explicit ExpandKernel(const KernelInfo&) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    int64_t in[kMaxRank], strides[kMaxRank] = {};
    DenseStrides(x.shape, in);
    const int lead = y.shape.rank() - x.shape.rank();
    for (int d = 0; d < x.shape.rank(); ++d) {
      if (x.shape[d] != 1 && x.shape[d] != y.shape[d + lead])
        Throw(Code::kInvalidModel, "shape ", x.shape.ToString(), " does not spread over ",
              y.shape.ToString());
      strides[d + lead] = x.shape[d] == 1 ? 0 : in[d];
    }
    CopyStrided(context.threads(), x.as<std::byte>(), y.as<std::byte>(), y.shape, strides, ElementOf(x));
  }
};

class TileKernel final : public Kernel {
 public:
  explicit TileKernel(const KernelInfo&) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    if (y.elements() == 0) return;
    const size_t element = ElementOf(x);
    const int r = x.shape.rank();
    int64_t in[kMaxRank];
    DenseStrides(x.shape, in);
    const int64_t row = r ? x.shape.at(-1) : 1, out_row = r ? y.shape.at(-1) : 1;
    for (int64_t o = 0; o < y.elements() / std::max<int64_t>(out_row, 1); ++o) {
      int64_t at = 0, rest = o;
      for (int d = r - 2; d >= 0; --d) {
        at += rest % y.shape[d] % x.shape[d] * in[d];
        rest /= y.shape[d];
      }
      for (int64_t c = 0; c < out_row; c += row)
        std::memcpy(y.as<std::byte>() + static_cast<size_t>(o * out_row + c) * element,
                    x.as<std::byte>() + static_cast<size_t>(at) * element,
                    static_cast<size_t>(row) * element);
    }
  }
};

class ConcatKernel final : public Kernel {
 public:
  explicit ConcatKernel(const KernelInfo& info)
      : axis_(info.node.Int("axis", 0)), count_(static_cast<int>(info.node.inputs.size())) {}
  void Compute(KernelContext& context) const override {
    TensorView& y = *context.output(0);
    if (y.elements() == 0) return;
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + y.shape.rank() : axis_);
    const auto element = ElementOf(y);
    const int64_t outer = y.shape.elements(0, axis);
    const size_t out_row = static_cast<size_t>(y.shape.elements(axis, y.shape.rank())) * element;
    size_t at = 0;
    for (int i = 0; i < count_; ++i) {
      const TensorView& x = *context.input(i);
      if (x.elements() == 0) continue;
      const size_t row = static_cast<size_t>(x.shape.elements(axis, x.shape.rank())) * element;
      if (outer == 1 && x.as<std::byte>() == y.as<std::byte>() + at) {  // written in its place
        at += row;
        continue;
      }
      const auto copy = [&](int64_t o) {
        std::memcpy(y.as<std::byte>() + static_cast<size_t>(o) * out_row + at,
                    x.as<std::byte>() + static_cast<size_t>(o) * row, row);
      };
      if (row * static_cast<size_t>(outer) < 65536)
        for (int64_t o = 0; o < outer; ++o) copy(o);
      else
        context.threads().Run(outer, [&](int64_t o, int) { copy(o); });
      at += row;
    }
  }

 private:
  int64_t axis_;
  int count_;
};

class SliceKernel final : public Kernel {
 public:
  explicit SliceKernel(const KernelInfo& info)
      : starts_(info.node.Ints("starts")),
        axes_(info.node.Ints("axes")),
        by_inputs_(info.node.inputs.size() > 1) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int r = x.shape.rank();
    int64_t strides[kMaxRank], offset = 0;
    DenseStrides(x.shape, strides);
    const TensorView* starts = by_inputs_ ? context.input(1) : nullptr;
    const TensorView* axes = by_inputs_ ? context.input(3) : nullptr;
    const TensorView* steps = by_inputs_ ? context.input(4) : nullptr;
    const int64_t n = starts ? starts->elements() : static_cast<int64_t>(starts_.size());
    int64_t dense[kMaxRank];
    std::copy(strides, strides + r, dense);
    for (int64_t i = 0; i < n; ++i) {
      int64_t axis = axes                            ? IntAt(*axes, i)
                     : !by_inputs_ && !axes_.empty() ? axes_[static_cast<size_t>(i)]
                                                     : i;
      if (axis < 0) axis += r;
      if (axis < 0 || axis >= r) Throw(Code::kInvalidModel, "axis ", axis, " for rank ", r);
      const int64_t dim = x.shape[static_cast<int>(axis)];
      const int64_t step = steps ? IntAt(*steps, i) : 1;
      if (step == 0) Throw(Code::kInvalidModel, "a step of 0");
      int64_t start = starts ? IntAt(*starts, i) : starts_[static_cast<size_t>(i)];
      if (start < 0) start += dim;
      start = std::clamp<int64_t>(start, 0, step > 0 ? dim : dim - 1);
      offset += start * dense[axis];
      strides[axis] = dense[axis] * step;
    }
    if (y.elements() == 0) return;
    const size_t element = ElementOf(x);
    CopyStrided(context.threads(), x.as<std::byte>() + static_cast<size_t>(offset) * element,
                y.as<std::byte>(), y.shape, strides, element);
  }

 private:
  std::vector<int64_t> starts_, axes_;
  bool by_inputs_;
};

class SplitKernel final : public Kernel {
 public:
  explicit SplitKernel(const KernelInfo& info)
      : axis_(info.node.Int("axis", 0)), count_(static_cast<int>(info.node.outputs.size())) {
    for (auto v : info.node.outputs)
      if (v == graph::kNone) info.Unsupported("a part that is left out");
  }
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + x.shape.rank() : axis_);
    const size_t element = ElementOf(x);
    const int64_t outer = x.shape.elements(0, axis);
    const size_t in_row = static_cast<size_t>(x.shape.elements(axis, x.shape.rank())) * element;
    size_t at = 0;
    for (int i = 0; i < count_; ++i) {
      TensorView& y = *context.output(i);
      const size_t row = static_cast<size_t>(y.shape.elements(axis, y.shape.rank())) * element;
      for (int64_t o = 0; o < outer && row > 0; ++o)
        std::memcpy(y.as<std::byte>() + static_cast<size_t>(o) * row,
                    x.as<std::byte>() + static_cast<size_t>(o) * in_row + at, row);
      at += row;
    }
  }

 private:
  int64_t axis_;
  int count_;
};

class ConstantOfShapeKernel final : public Kernel {
 public:
  explicit ConstantOfShapeKernel(const KernelInfo& info) : value_(info.node.Tensor("value")) {
    if (value_ && value_->elements() != 1)
      Throw(Code::kInvalidModel, "node ", info.node.name, ": value has ", value_->elements(), " elements");
  }
  void Compute(KernelContext& context) const override {
    TensorView& y = *context.output(0);
    if (!value_) {
      std::memset(y.data, 0, y.bytes());
      return;
    }
    const size_t element = ElementOf(y);
    const auto bytes = value_->data();
    for (int64_t i = 0; i < y.elements(); ++i)
      std::memcpy(y.as<std::byte>() + static_cast<size_t>(i) * element, bytes.data(), element);
  }

 private:
  graph::ConstantPtr value_;
};

class RangeKernel final : public Kernel {
 public:
  explicit RangeKernel(const KernelInfo&) {}
  void Compute(KernelContext& context) const override {
    TensorView& y = *context.output(0);
    ForNumber(y.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      const A start = Load(*context.input(0)->as<T>()), delta = Load(*context.input(2)->as<T>());
      for (int64_t i = 0; i < y.elements(); ++i)
        y.as<T>()[i] = Store<T>(static_cast<A>(start + static_cast<A>(i) * delta));
    });
  }
};

}  // namespace

void RegisterLayout(kernels::Registry& registry) {
  for (std::string_view op : {"Shape", "Size"}) {
    kernels::KernelDef def = Define<ShapeKernel>("", op);
    def.cache_inputs = 1;
    registry.Add(std::move(def));
  }
  registry.Add(Define<TransposeKernel>("", "Transpose"));
  registry.Add(Define<ExpandKernel>("", "Expand"));
  registry.Add(Define<TileKernel>("", "Tile"));
  registry.Add(Define<ConcatKernel>("", "Concat"));
  registry.Add(Define<SliceKernel>("", "Slice"));
  registry.Add(Define<SplitKernel>("", "Split"));
  registry.Add(Define<ConstantOfShapeKernel>("", "ConstantOfShape"));
  registry.Add(Define<RangeKernel>("", "Range"));
}

}  // namespace ullage::cpu
