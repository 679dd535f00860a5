/// ReverseSequence, CenterCropPad, Unique, Det.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/element.h"
#include "providers/cpu/kernels/tensor_families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

size_t ElementBytesOf(const TensorView& v) {
  return static_cast<size_t>(BitsOf(v.dtype)) / 8;
}

/// The first `length` steps of each sequence come in reverse.
class ReverseSequenceKernel final : public Kernel {
 public:
  explicit ReverseSequenceKernel(const KernelInfo& info)
      : time_(info.node.Int("time_axis", 0)), batch_(info.node.Int("batch_axis", 1)) {
    if (time_ == batch_ || time_ < 0 || time_ > 1 || batch_ < 0 || batch_ > 1)
      info.Unsupported("time_axis ", time_, " and batch_axis ", batch_);
  }

  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &lengths = *context.input(1);
    TensorView& y = *context.output(0);
    const int64_t rows = x.shape[0], columns = x.shape[1], steps = time_ == 0 ? rows : columns;
    const int64_t batch = time_ == 0 ? columns : rows;
    if (lengths.elements() != batch)
      Throw(Code::kInvalidModel, "lengths of shape ", lengths.shape.ToString(), " for ", batch, " sequences");
    const size_t bytes = static_cast<size_t>(x.shape.elements(2, x.shape.rank())) * ElementBytesOf(x);
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t n = IndexOf(lengths, b);
      if (n < 0 || n > steps) Throw(Code::kInvalidInput, "a length of ", n, " of ", steps, " steps");
      for (int64_t t = 0; t < steps; ++t) {
        const int64_t s = t < n ? n - 1 - t : t;
        const auto at = [&](int64_t step) {
          return static_cast<size_t>(time_ == 0 ? step * columns + b : b * columns + step) * bytes;
        };
        std::memcpy(y.as<std::byte>() + at(t), x.as<std::byte>() + at(s), bytes);
      }
    }
  }

 private:
  int64_t time_, batch_;
};

/// The middle of x, or x in the middle of zeros, axis by axis.
class CenterCropPadKernel final : public Kernel {
 public:
  explicit CenterCropPadKernel(const KernelInfo&) {}

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int rank = x.shape.rank();
    int64_t from[kMaxRank] = {}, to[kMaxRank] = {}, count[kMaxRank] = {}, rows = 1;
    for (int i = 0; i < rank; ++i) {
      const int64_t in = x.shape[i], out = y.shape[i];
      count[i] = std::min(in, out);
      from[i] = in > out ? (in - out) / 2 : 0;
      to[i] = out > in ? (out - in) / 2 : 0;
      if (i + 1 < rank) rows *= count[i];
    }
    std::memset(y.data, 0, y.bytes());
    if (rank == 0 || rows * count[rank - 1] == 0) {
      if (rank == 0) std::memcpy(y.data, x.data, x.bytes());
      return;
    }
    const size_t element = ElementBytesOf(x);
    for (int64_t row = 0; row < rows; ++row) {
      int64_t rest = row, a = from[rank - 1], b = to[rank - 1], x_stride = x.shape.at(-1),
              y_stride = y.shape.at(-1);
      for (int i = rank - 2; i >= 0; --i) {
        const int64_t k = rest % count[i];
        rest /= count[i];
        a += (from[i] + k) * x_stride;
        b += (to[i] + k) * y_stride;
        x_stride *= x.shape[i];
        y_stride *= y.shape[i];
      }
      std::memcpy(y.as<std::byte>() + static_cast<size_t>(b) * element,
                  x.as<std::byte>() + static_cast<size_t>(a) * element,
                  static_cast<size_t>(count[rank - 1]) * element);
    }
  }
};

/// X -> distinct elements (or slices along the axis), where each occurs first, which one each element is, how
/// often each occurs.
class UniqueKernel final : public Kernel {
 public:
  explicit UniqueKernel(const KernelInfo& info)
      : flat_(!info.node.has_attr("axis")),
        axis_(info.node.Int("axis", 0)),
        sorted_(info.node.Int("sorted", 1) != 0) {}

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto& x = shapes.inputs[0].shape;
    if (x.rank < 0 || (!flat_ && x.rank == 0)) return;
    const int64_t n = flat_ ? x.ElementsUpper() : x.at(static_cast<int>(axis_)).upper;
    if (n != ops::kUnbounded) needs.push_back({Bytes(n), 0, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const int rank = x.shape.rank(), axis = static_cast<int>(axis_ < 0 ? axis_ + rank : axis_);
    const int64_t n = flat_ ? x.elements() : x.shape[axis];
    const int64_t outer = flat_ ? 1 : x.shape.elements(0, axis),
                  inner = flat_ ? 1 : x.shape.elements(axis + 1, rank);
    auto* order = static_cast<int64_t*>(Workspace(context, 0, Bytes(n)));
    int64_t *group = order + n, *first = group + n, *count = first + n, *place = count + n;
    int64_t groups = 0;
    ForNumberOrBool(x.dtype, [&](auto t) {
      using T = decltype(t);
      const T* data = x.as<T>();
      const auto compare = [&](int64_t a, int64_t b) {  // slices, in lexicographic order
        for (int64_t o = 0; o < outer; ++o) {
          for (int64_t i = 0; i < inner; ++i) {
            const auto u = Load(data[(o * n + a) * inner + i]), v = Load(data[(o * n + b) * inner + i]);
            if (u < v || (u == u && v != v)) return -1;
            if (v < u || (v == v && u != u)) return 1;
          }
        }
        return 0;
      };
      std::iota(order, order + n, int64_t{0});
      std::sort(order, order + n, [&](int64_t a, int64_t b) {
        const int c = compare(a, b);
        return c != 0 ? c < 0 : a < b;
      });
      for (int64_t i = 0; i < n; ++i) {
        if (i == 0 || compare(order[i - 1], order[i]) != 0) {
          first[groups] = order[i];
          count[groups++] = 0;
        }
        group[order[i]] = groups - 1;
        ++count[groups - 1];
      }
    });
    // order[] now says which group comes at each place, place[] where each group comes.
    std::iota(order, order + groups, int64_t{0});
    if (!sorted_) std::sort(order, order + groups, [&](int64_t a, int64_t b) { return first[a] < first[b]; });
    for (int64_t p = 0; p < groups; ++p) place[order[p]] = p;
    Shape shape = flat_ ? Shape{groups} : x.shape;
    if (!flat_) shape[axis] = groups;
    context.SetOutputShape(0, shape);
    const size_t slice = static_cast<size_t>(inner) * ElementBytesOf(x);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t p = 0; p < groups; ++p)
        std::memcpy(context.output(0)->as<std::byte>() + static_cast<size_t>(o * groups + p) * slice,
                    x.as<std::byte>() + static_cast<size_t>(o * n + first[order[p]]) * slice, slice);
    for (int i : {1, 3}) {
      if (!context.output(i)) continue;
      context.SetOutputShape(i, {groups});
      for (int64_t p = 0; p < groups; ++p)
        context.output(i)->as<int64_t>()[p] = i == 1 ? first[order[p]] : count[order[p]];
    }
    if (TensorView* inverse = context.output(2))
      for (int64_t i = 0; i < n; ++i) inverse->as<int64_t>()[i] = place[group[i]];
  }

 private:
  static size_t Bytes(int64_t n) {
    return CheckedMul(static_cast<size_t>(n), 5 * sizeof(int64_t), "workspace");
  }

  bool flat_;
  int64_t axis_;
  bool sorted_;
};

/// Determinants of the matrices [.., n, n].
class DetKernel final : public Kernel {
 public:
  explicit DetKernel(const KernelInfo&) {}

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto& x = shapes.inputs[0].shape;
    if (x.rank >= 2 && x.at(-1).bounded()) needs.push_back({Bytes(x.at(-1).upper), 0, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int64_t n = x.shape.at(-1);
    if (x.shape.at(-2) != n) Throw(Code::kInvalidModel, "matrices of shape ", x.shape.ToString());
    auto* a = static_cast<double*>(Workspace(context, 0, Bytes(n)));
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      for (int64_t i = 0; i < y.elements(); ++i) {
        for (int64_t k = 0; k < n * n; ++k) a[k] = static_cast<double>(Load(x.as<T>()[i * n * n + k]));
        y.as<T>()[i] = Store<T>(static_cast<typename Arithmetic<T>::Type>(Determinant(a, n)));
      }
    });
  }

 private:
  static size_t Bytes(int64_t n) {
    return CheckedMul(CheckedMul(static_cast<size_t>(n), static_cast<size_t>(n), "workspace"), sizeof(double),
                      "workspace");
  }
  static double Determinant(double* a, int64_t n) {
    double d = 1;
    for (int64_t k = 0; k < n; ++k) {
      int64_t pivot = k;
      for (int64_t i = k + 1; i < n; ++i)
        if (std::abs(a[i * n + k]) > std::abs(a[pivot * n + k])) pivot = i;
      if (a[pivot * n + k] == 0) return 0;
      if (pivot != k) {
        std::swap_ranges(a + pivot * n, a + pivot * n + n, a + k * n);
        d = -d;
      }
      d *= a[k * n + k];
      for (int64_t i = k + 1; i < n; ++i) {
        const double f = a[i * n + k] / a[k * n + k];
        for (int64_t j = k; j < n; ++j) a[i * n + j] -= f * a[k * n + j];
      }
    }
    return d;
  }
};

}  // namespace

void RegisterRearrange(kernels::Registry& registry) {
  constexpr kernels::TypeSet kIndices = {DType::kInt64, DType::kInt32};
  using kernels::kNumbersAndBool;
  registry.Add(Define<ReverseSequenceKernel>("", "ReverseSequence", {kNumbersAndBool, kIndices}));
  registry.Add(Define<CenterCropPadKernel>("", "CenterCropPad", {kNumbersAndBool, kIndices}));
  registry.Add(Define<UniqueKernel>("", "Unique", {kNumbersAndBool}));
  registry.Add(Define<DetKernel>("", "Det", {kernels::kAllFloats}));
}

}  // namespace ullage::cpu
