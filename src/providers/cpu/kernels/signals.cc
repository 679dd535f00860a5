/// DFT, STFT, HannWindow, HammingWindow, BlackmanWindow, MelWeightMatrix.
#include <algorithm>
#include <cmath>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/dense/tasks.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/element.h"
#include "providers/cpu/kernels/fourier.h"
#include "providers/cpu/kernels/tensor_families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;
using Complex = Fourier::Complex;

/// Workspace of transforms of length n: tables, then data and buffer for each worker.
size_t FourierBytes(int64_t n, int threads) {
  const int64_t per_worker = CheckedAdd(n, Fourier::BufferSize(n), "workspace");
  return CheckedMul(
      static_cast<size_t>(CheckedAdd(Fourier::TableSize(n),
                                     CheckedMul(per_worker, int64_t{threads}, "workspace"), "workspace")),
      sizeof(Complex), "workspace");
}
Complex* WorkerData(Complex* memory, int64_t n, int worker) {
  return memory + Fourier::TableSize(n) + worker * (n + Fourier::BufferSize(n));
}

int64_t ScalarOf(const TensorView* v, int64_t def) {
  return v && v->elements() > 0 ? IndexOf(*v, 0) : def;
}

template <class T>
Complex ComplexAt(const T* x, int64_t i, int64_t parts) {
  return {static_cast<double>(Load(x[i * parts])),
          parts == 2 ? static_cast<double>(Load(x[i * parts + 1])) : 0};
}
template <class T>
void SetComplex(T* y, int64_t i, int64_t parts, const Complex& v) {
  using A = typename Arithmetic<T>::Type;
  y[i * parts] = Store<T>(static_cast<A>(v.real()));
  if (parts == 2) y[i * parts + 1] = Store<T>(static_cast<A>(v.imag()));
}

/// X [.., n, .., 1 or 2], length?, axis? -> along the axis the transform.
class DftKernel final : public Kernel {
 public:
  explicit DftKernel(const KernelInfo& info)
      : axis_input_(info.node.opset == 0 || info.node.opset >= 20),
        axis_(info.node.Int("axis", 1)),
        inverse_(info.node.Int("inverse", 0) != 0),
        half_(info.node.Int("onesided", 0) != 0) {}

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    // The length is at most twice what any axis of x or y has, or exactly an axis of y.
    const auto &x = shapes.inputs[0].shape, &y = shapes.outputs[0].shape;
    int64_t most = 1;
    for (const auto* s : {&x, &y})
      for (int i = 0; i + 1 < s->rank; ++i) most = std::max(most, (*s)[i].upper);
    if (x.rank < 0 || y.rank < 0 || most > INT64_MAX / 1024) return;
    needs.push_back({FourierBytes(2 * most, shapes.threads), 0, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int rank = x.shape.rank();
    int64_t axis = axis_input_ ? ScalarOf(context.input(2), -2) : axis_;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis > rank - 2) Throw(Code::kInvalidModel, "axis ", axis, " of a tensor of rank ", rank);
    const int at = static_cast<int>(axis);
    if (y.elements() == 0) return;
    const int64_t in = x.shape[at], out = y.shape[at], x_parts = x.shape.at(-1), y_parts = y.shape.at(-1);
    if (x_parts != 1 && x_parts != 2) Throw(Code::kInvalidModel, "numbers of ", x_parts, " parts");
    const bool expand = half_ && inverse_;  // the other half is the conjugate of the first
    const int64_t n = ScalarOf(context.input(1), expand ? 2 * (in - 1) : in);
    if (n < 1 || out > n) Throw(Code::kInvalidModel, "a transform of length ", n);
    ThreadTeam& team = context.threads();
    auto* memory = static_cast<Complex*>(Workspace(context, 0, FourierBytes(n, team.size())));
    const Fourier fourier(n, memory);
    const int64_t inner = x.shape.elements(at + 1, rank - 1), lines = x.shape.elements(0, at) * inner;
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      dense::RunTasks(team, lines, lines * n * 32, [&](int64_t line, int worker) {
        Complex* data = WorkerData(memory, n, worker);
        const T* from = x.as<T>() + (line / inner * in * inner + line % inner) * x_parts;
        T* to = y.as<T>() + (line / inner * out * inner + line % inner) * y_parts;
        const int64_t given = std::min(in, n);
        std::fill_n(data, n, Complex(0));
        for (int64_t i = 0; i < given; ++i) data[i] = ComplexAt(from, i * inner, x_parts);
        if (expand)
          for (int64_t i = 1; i < given && n - i >= given; ++i) data[n - i] = std::conj(data[i]);
        fourier.Run(data, inverse_, data + n);
        for (int64_t i = 0; i < out; ++i) SetComplex(to, i * inner, y_parts, data[i]);
      });
    });
  }

 private:
  bool axis_input_;
  int64_t axis_;
  bool inverse_, half_;
};

/// signal [B, L, 1 or 2], step, window?, length? -> [B, frames, bins, 2]
class StftKernel final : public Kernel {
 public:
  explicit StftKernel(const KernelInfo&) {}

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto& y = shapes.outputs[0].shape;
    // bins = length, or length / 2 + 1
    if (y.rank == 4 && y[2].upper <= INT64_MAX / 1024)
      needs.push_back({FourierBytes(2 * y[2].upper, shapes.threads), 0, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const TensorView* window = context.input(2);
    TensorView& y = *context.output(0);
    if (y.elements() == 0) return;
    const int64_t step = ScalarOf(context.input(1), 1);
    const int64_t n = ScalarOf(context.input(3), window ? window->elements() : 0);
    const int64_t length = x.shape[1], parts = x.shape.rank() > 2 ? x.shape[2] : 1;
    const int64_t frames = y.shape[1], bins = y.shape[2];
    if (n < 1 || bins > n || (frames - 1) * step + n > length || (window && window->elements() != n) ||
        (parts != 1 && parts != 2))
      Throw(Code::kInvalidModel, "frames of ", n, " elements of a signal of shape ", x.shape.ToString());
    ThreadTeam& team = context.threads();
    auto* memory = static_cast<Complex*>(Workspace(context, 0, FourierBytes(n, team.size())));
    const Fourier fourier(n, memory);
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      dense::RunTasks(team, x.shape[0] * frames, x.shape[0] * frames * n * 32, [&](int64_t task, int worker) {
        Complex* data = WorkerData(memory, n, worker);
        const T* from = x.as<T>() + (task / frames * length + task % frames * step) * parts;
        for (int64_t i = 0; i < n; ++i)
          data[i] = ComplexAt(from, i, parts) * (window ? NumberOf(*window, i) : 1.0);
        fourier.Run(data, false, data + n);
        for (int64_t i = 0; i < bins; ++i) SetComplex(y.as<T>(), task * bins + i, 2, data[i]);
      });
    });
  }
};

template <class Fn>
void FillNumbers(TensorView& y, const Fn& value) {
  ForNumber(y.dtype, [&](auto t) {
    using T = decltype(t);
    for (int64_t i = 0; i < y.elements(); ++i)
      y.as<T>()[i] = Store<T>(static_cast<typename Arithmetic<T>::Type>(value(i)));
  });
}

class WindowKernel final : public Kernel {
 public:
  explicit WindowKernel(const KernelInfo& info) : periodic_(info.node.Int("periodic", 1) != 0) {
    if (info.node.op == "HammingWindow") {
      a_[0] = 25.0 / 46;
      a_[1] = 21.0 / 46;
    } else if (info.node.op == "BlackmanWindow") {
      a_[0] = 0.42;
      a_[2] = 0.08;
    }
  }
  void Compute(KernelContext& context) const override {
    TensorView& y = *context.output(0);
    const int64_t n = y.elements();
    const auto period = static_cast<double>(periodic_ ? n : n - 1);
    FillNumbers(y, [&](int64_t i) {
      const double angle = period > 0 ? 2 * M_PI * static_cast<double>(i) / period : M_PI;
      return a_[0] - a_[1] * std::cos(angle) + a_[2] * std::cos(2 * angle);
    });
  }

 private:
  bool periodic_;
  double a_[3] = {0.5, 0.5, 0};
};

/// bands, length of the transform, sample rate, lowest and highest frequency -> [length / 2 + 1, bands]
class MelWeightMatrixKernel final : public Kernel {
 public:
  explicit MelWeightMatrixKernel(const KernelInfo&) {}
  void Compute(KernelContext& context) const override {
    double in[5];
    for (int i = 0; i < 5; ++i) {
      if (context.input(i)->elements() != 1) Throw(Code::kInvalidModel, "input ", i, " is not one number");
      in[i] = NumberOf(*context.input(i), 0);
    }
    TensorView& y = *context.output(0);
    const int64_t bands = y.shape[1];
    const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
    const double low = mel(in[3]), step = (mel(in[4]) - low) / static_cast<double>(bands + 2);
    const auto edge = [&](int64_t i) {
      const double hertz = 700 * (std::pow(10, (static_cast<double>(i) * step + low) / 2595) - 1);
      return std::clamp(std::floor((in[1] + 1) * hertz / in[2]), -1e9, 1e9);
    };
    FillNumbers(y, [&](int64_t at) {
      const auto row = static_cast<double>(at / bands);
      const int64_t band = at % bands;
      const double first = edge(band), centre = edge(band + 1), last = edge(band + 2);
      if (row >= centre && row < last) return (last - row) / (last - centre);
      if (row == centre && first == centre) return 1.0;
      return row >= first && row <= centre && centre > first ? (row - first) / (centre - first) : 0.0;
    });
  }
};

}  // namespace

void RegisterSignals(kernels::Registry& registry) {
  constexpr kernels::TypeSet kIndices = {DType::kInt64, DType::kInt32};
  using kernels::kAllFloats;
  registry.Add(Define<DftKernel>("", "DFT", {kAllFloats, kIndices, kIndices}));
  registry.Add(Define<StftKernel>("", "STFT", {kAllFloats, kIndices, kAllFloats, kIndices}));
  for (std::string_view op : {"HannWindow", "HammingWindow", "BlackmanWindow"})
    registry.Add(Define<WindowKernel>("", op, {kIndices}));
  registry.Add(Define<MelWeightMatrixKernel>("", "MelWeightMatrix",
                                             {kIndices, kIndices, kIndices, kAllFloats, kAllFloats}));
}

}  // namespace ullage::cpu
