/// Gather, GatherElements, GatherND, ScatterND, ScatterElements, TensorScatter, Compress, ullage:LastToken,
/// Trilu, CumSum.
#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/operands.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

/// Offset in a tensor of `shape` that element k of `index` leads to: its own place, but on `axis` its value.
int64_t OffsetAlong(int axis, const Shape& shape, const TensorView& index, int64_t k) {
  int64_t rest = k, at = 0, stride = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    const int64_t i = rest % index.shape[d];
    rest /= index.shape[d];
    at += (d == axis ? IndexIn(index, k, shape[d]) : i) * stride;
    stride *= shape[d];
  }
  return at;
}

class GatherKernel final : public Kernel {
 public:
  explicit GatherKernel(const KernelInfo& info) : axis_(info.node.Int("axis", 0)) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const TensorView& index = *context.input(1);
    TensorView& y = *context.output(0);
    const int axis = static_cast<int>(axis_ < 0 ? axis_ + x.shape.rank() : axis_);
    const int64_t outer = x.shape.elements(0, axis), dim = x.shape[axis], n = index.elements();
    const size_t row = static_cast<size_t>(x.shape.elements(axis + 1, x.shape.rank())) * ElementOf(x);
    const auto copy = [&](int64_t k) {
      const int64_t from = k / n * dim + IndexIn(index, k % n, dim);
      std::memcpy(y.as<std::byte>() + static_cast<size_t>(k) * row,
                  x.as<std::byte>() + static_cast<size_t>(from) * row, row);
    };
    if (row == 0) return;
    if (static_cast<size_t>(outer * n) * row < 65536)
      for (int64_t k = 0; k < outer * n; ++k) copy(k);
    else
      context.threads().Run(CeilDiv<int64_t>(outer * n, 16), [&](int64_t t, int) {
        for (int64_t k = t * 16; k < std::min(outer * n, t * 16 + 16); ++k) copy(k);
      });
  }

 private:
  int64_t axis_;
};

class GatherElementsKernel final : public Kernel {
 public:
  explicit GatherElementsKernel(const KernelInfo& info) : axis_(info.node.Int("axis", 0)) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const TensorView& index = *context.input(1);
    TensorView& y = *context.output(0);
    const int axis = AxisOf(axis_, x.shape.rank());
    ForBytes(x.dtype, [&](auto t) {
      using T = decltype(t);
      for (int64_t k = 0; k < y.elements(); ++k)
        y.as<T>()[k] = x.as<T>()[OffsetAlong(axis, x.shape, index, k)];
    });
  }

 private:
  int64_t axis_;
};

/// Offset of the block that the last axis of `index` addresses at row `i`.
int64_t BlockOffset(const TensorView& index, int64_t i, int64_t depth, const Shape& shape, int first) {
  int64_t at = 0;
  for (int64_t d = 0; d < depth; ++d) {
    const int64_t dim = shape[first + static_cast<int>(d)];
    at = at * dim + IndexIn(index, i * depth + d, dim);
  }
  return at;
}

class GatherNdKernel final : public Kernel {
 public:
  explicit GatherNdKernel(const KernelInfo& info)
      : batch_dims_(static_cast<int>(info.node.Int("batch_dims", 0))) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const TensorView& index = *context.input(1);
    TensorView& y = *context.output(0);
    const int64_t depth = index.shape.at(-1), rows = index.shape.elements(0, index.shape.rank() - 1);
    const int64_t batches = x.shape.elements(0, batch_dims_);
    if (batches == 0 || rows == 0) return;
    const int64_t per = rows / batches;
    const int first = batch_dims_, after = batch_dims_ + static_cast<int>(depth);
    const size_t block = static_cast<size_t>(x.shape.elements(after, x.shape.rank())) * ElementOf(x);
    const int64_t in_batch = x.shape.elements(first, after);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t at = i / per * in_batch + BlockOffset(index, i, depth, x.shape, first);
      std::memcpy(y.as<std::byte>() + static_cast<size_t>(i) * block,
                  x.as<std::byte>() + static_cast<size_t>(at) * block, block);
    }
  }

 private:
  int batch_dims_;
};

enum class Reduction { kNone, kAdd, kMul, kMax, kMin };
Reduction ReductionOf(const KernelInfo& info) {
  const std::string r = info.node.Str("reduction", "none");
  if (r == "none") return Reduction::kNone;
  if (r == "add") return Reduction::kAdd;
  if (r == "mul") return Reduction::kMul;
  if (r == "max") return Reduction::kMax;
  if (r == "min") return Reduction::kMin;
  info.Unsupported("reduction ", r);
}

template <class T>
T Combine(Reduction r, T old, T fresh) {
  using A = typename Arithmetic<T>::Type;
  const A a = Load(old), b = Load(fresh);
  switch (r) {
    case Reduction::kAdd:
      return Store<T>(static_cast<A>(a + b));
    case Reduction::kMul:
      return Store<T>(static_cast<A>(a * b));
    case Reduction::kMax:
      return a < b ? fresh : old;
    case Reduction::kMin:
      return b < a ? fresh : old;
    default:
      return fresh;
  }
}

void CopyFirst(const TensorView& x, TensorView& y) {
  if (x.data != y.data && y.bytes() > 0) std::memcpy(y.data, x.data, y.bytes());
}

class ScatterNdKernel final : public Kernel {
 public:
  explicit ScatterNdKernel(const KernelInfo& info) : reduction_(ReductionOf(info)) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const TensorView& index = *context.input(1);
    const TensorView& updates = *context.input(2);
    TensorView& y = *context.output(0);
    CopyFirst(x, y);
    const int64_t depth = index.shape.at(-1), rows = index.shape.elements(0, index.shape.rank() - 1);
    const int64_t block = x.shape.elements(static_cast<int>(depth), x.shape.rank());
    ForNumberOrBool(x.dtype, [&](auto t) {
      using T = decltype(t);
      for (int64_t i = 0; i < rows; ++i) {
        T* to = y.as<T>() + BlockOffset(index, i, depth, x.shape, 0) * block;
        const T* from = updates.as<T>() + i * block;
        for (int64_t k = 0; k < block; ++k) to[k] = Combine(reduction_, to[k], from[k]);
      }
    });
  }

 private:
  Reduction reduction_;
};

class ScatterElementsKernel final : public Kernel {
 public:
  explicit ScatterElementsKernel(const KernelInfo& info)
      : axis_(info.node.Int("axis", 0)), reduction_(ReductionOf(info)) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const TensorView& index = *context.input(1);
    const TensorView& updates = *context.input(2);
    TensorView& y = *context.output(0);
    CopyFirst(x, y);
    const int axis = AxisOf(axis_, x.shape.rank());
    ForNumberOrBool(x.dtype, [&](auto t) {
      using T = decltype(t);
      for (int64_t k = 0; k < index.elements(); ++k) {
        T& at = y.as<T>()[OffsetAlong(axis, x.shape, index, k)];
        at = Combine(reduction_, at, updates.as<T>()[k]);
      }
    });
  }

 private:
  int64_t axis_;
  Reduction reduction_;
};

/// A copy of the cache in which the rows of `update` stand from write_indices[b] on (0 when left out).
class TensorScatterKernel final : public Kernel {
 public:
  explicit TensorScatterKernel(const KernelInfo& info) : axis_(info.node.Int("axis", -2)) {
    const std::string mode = info.node.Str("mode", "linear");
    if (mode != "linear" && mode != "circular") info.Unsupported("mode ", mode);
    circular_ = mode == "circular";
  }
  void Compute(KernelContext& context) const override {
    const TensorView& cache = *context.input(0);
    const TensorView& update = *context.input(1);
    const TensorView* starts = context.input(2);
    TensorView& y = *context.output(0);
    const int rank = cache.shape.rank(), axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    Shape want = cache.shape;
    if (axis > 0 && axis < rank && update.shape.rank() == rank) want[axis] = update.shape[axis];
    if (axis < 1 || axis >= rank || !(update.shape == want) || update.shape[axis] > cache.shape[axis] ||
        update.dtype != cache.dtype || (starts && starts->elements() != cache.shape[0]))
      Throw(Code::kInvalidModel, "a cache of shape ", cache.shape.ToString(), " and an update of shape ",
            update.shape.ToString());
    const int64_t rows = cache.shape[axis], fresh = update.shape[axis];
    const int64_t outer = cache.shape.elements(0, axis), per_batch = cache.shape.elements(1, axis);
    const size_t row = static_cast<size_t>(cache.shape.elements(axis + 1, rank)) * ElementOf(cache);
    for (int64_t b = 0; starts && b < cache.shape[0]; ++b) {
      const int64_t start = StartOf(starts, b);
      if (start < 0 || (circular_ ? start > INT32_MAX : start > rows - fresh))
        Throw(Code::kInvalidInput, "write_indices[", b, "] is ", start, " with ", fresh,
              " new rows for a cache of ", rows);
    }
    CopyFirst(cache, y);
    if (row == 0 || fresh == 0) return;
    context.threads().Run(outer, [&](int64_t o, int) {
      const int64_t start = StartOf(starts, o / per_batch);
      for (int64_t r = 0; r < fresh; ++r)
        std::memcpy(y.as<std::byte>() + static_cast<size_t>(o * rows + (start + r) % rows) * row,
                    update.as<std::byte>() + static_cast<size_t>(o * fresh + r) * row, row);
    });
  }

 private:
  static int64_t StartOf(const TensorView* v, int64_t b) { return v ? IntAt(*v, b) : 0; }
  int64_t axis_;
  bool circular_ = false;
};

/// Slices along the axis (or elements of the flat input) whose condition is true.
class CompressKernel final : public Kernel {
 public:
  explicit CompressKernel(const KernelInfo& info)
      : flat_(!info.node.has_attr("axis")), axis_(info.node.Int("axis", 0)) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const TensorView& condition = *context.input(1);
    TensorView& y = *context.output(0);
    const int rank = x.shape.rank(), axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    const int64_t outer = flat_ ? 1 : x.shape.elements(0, axis), n = flat_ ? x.elements() : x.shape[axis];
    const size_t row = (flat_ ? 1 : static_cast<size_t>(x.shape.elements(axis + 1, rank))) * ElementOf(x);
    const int64_t tested = std::min(n, condition.elements());
    const auto* keep = condition.as<uint8_t>();
    const int64_t kept = std::count_if(keep, keep + tested, [](uint8_t k) { return k != 0; });
    Shape shape = flat_ ? Shape{kept} : x.shape;
    if (!flat_) shape[axis] = kept;
    context.SetOutputShape(0, shape);
    auto* to = y.as<std::byte>();
    for (int64_t o = 0; o < outer && row > 0; ++o)
      for (int64_t i = 0; i < tested; ++i) {
        if (!keep[i]) continue;
        std::memcpy(to, x.as<std::byte>() + static_cast<size_t>(o * n + i) * row, row);
        to += row;
      }
  }

 private:
  bool flat_;
  int64_t axis_;
};

class LastTokenKernel final : public Kernel {
 public:
  explicit LastTokenKernel(const KernelInfo&) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const size_t row = static_cast<size_t>(x.shape.elements(2, x.shape.rank())) * ElementOf(x);
    for (int64_t b = 0; b < x.shape[0]; ++b)
      std::memcpy(y.as<std::byte>() + static_cast<size_t>(b) * row,
                  x.as<std::byte>() + static_cast<size_t>((b + 1) * x.shape[1] - 1) * row, row);
  }
};

class TriluKernel final : public Kernel {
 public:
  explicit TriluKernel(const KernelInfo& info) : upper_(info.node.Int("upper", 1) != 0) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int64_t k = context.input(1) ? *context.input(1)->as<int64_t>() : 0;
    const int64_t rows = x.shape.at(-2), cols = x.shape.at(-1),
                  count = rows * cols > 0 ? x.elements() / (rows * cols) : 0;
    ForBytes(x.dtype, [&](auto t) {
      using T = decltype(t);
      for (int64_t m = 0; m < count; ++m)
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t j = 0; j < cols; ++j) {
            const int64_t at = (m * rows + i) * cols + j;
            const bool keep = upper_ ? j - i >= k : j - i <= k;
            y.as<T>()[at] = keep ? x.as<T>()[at] : T{0};
          }
    });
  }

 private:
  bool upper_;
};

class CumSumKernel final : public Kernel {
 public:
  explicit CumSumKernel(const KernelInfo& info)
      : exclusive_(info.node.Int("exclusive", 0) != 0), reverse_(info.node.Int("reverse", 0) != 0) {}
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const TensorView& a = *context.input(1);
    TensorView& y = *context.output(0);
    const int axis = static_cast<int>(IndexIn(a, 0, x.shape.rank()));
    const int64_t outer = x.shape.elements(0, axis), n = x.shape[axis],
                  inner = x.shape.elements(axis + 1, x.shape.rank());
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      using A = typename Arithmetic<T>::Type;
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < inner; ++i) {
          A sum{};
          for (int64_t k = 0; k < n; ++k) {
            const int64_t at = (o * n + (reverse_ ? n - 1 - k : k)) * inner + i;
            const A v = Load(x.as<T>()[at]);
            if (exclusive_) y.as<T>()[at] = Store<T>(sum);
            sum = static_cast<A>(sum + v);
            if (!exclusive_) y.as<T>()[at] = Store<T>(sum);
          }
        }
    });
  }

 private:
  bool exclusive_, reverse_;
};

}  // namespace

void RegisterGather(kernels::Registry& registry) {
  registry.Add(Define<GatherKernel>("", "Gather"));
  registry.Add(Define<GatherElementsKernel>("", "GatherElements"));
  registry.Add(Define<GatherNdKernel>("", "GatherND"));
  registry.Add(Define<ScatterNdKernel>("", "ScatterND"));
  registry.Add(Define<ScatterElementsKernel>("", "ScatterElements"));
  registry.Add(Define<ScatterElementsKernel>("", "Scatter"));
  registry.Add(Define<TriluKernel>("", "Trilu"));
  registry.Add(Define<CumSumKernel>("", "CumSum"));
  registry.Add(Define<TensorScatterKernel>("", "TensorScatter"));
  registry.Add(Define<CompressKernel>("", "Compress"));
  registry.Add(Define<LastTokenKernel>(graph::kUllageDomain, "LastToken"));
}

}  // namespace ullage::cpu
