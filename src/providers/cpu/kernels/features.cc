/// ai.onnx.ml operators on feature vectors: Scaler, Binarizer, Normalizer, Imputer, ArrayFeatureExtractor,
/// LinearRegressor, LabelEncoder (numbers).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

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

std::vector<double> Floats(const graph::Node& n, std::string_view key) {
  const auto v = n.FloatsView(key);
  return {v.begin(), v.end()};
}

void SetNumber(TensorView& v, int64_t i, double value) {
  ForNumber(v.dtype, [&](auto t) {
    using T = decltype(t);
    v.as<T>()[i] = Store<T>(static_cast<typename Arithmetic<T>::Type>(value));
  });
}

int64_t WidthOf(const TensorView& x) {
  return x.shape.rank() > 0 ? std::max<int64_t>(x.shape.at(-1), 1) : 1;
}

/// y = f(x, feature), element by element.
class PerFeatureKernel final : public Kernel {
 public:
  explicit PerFeatureKernel(const KernelInfo& info) : op_(info.node.op) {
    const graph::Node& n = info.node;
    if (op_ == "Scaler") {
      shift_ = Floats(n, "offset");
      scale_ = Floats(n, "scale");
    } else if (op_ == "Binarizer") {
      shift_ = {static_cast<double>(n.Float("threshold", 0))};
    } else {  // Imputer
      const auto ints = n.IntsView("imputed_value_int64s");
      scale_ =
          ints.empty() ? Floats(n, "imputed_value_floats") : std::vector<double>(ints.begin(), ints.end());
      shift_ = {ints.empty() ? static_cast<double>(n.Float("replaced_value_float", 0))
                             : static_cast<double>(n.Int("replaced_value_int64", 0))};
      if (scale_.empty()) info.Unsupported("no values to put in");
    }
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int64_t width = WidthOf(x);
    for (const auto* list : {&shift_, &scale_})
      if (list->size() > 1 && static_cast<int64_t>(list->size()) != width)
        Throw(Code::kInvalidModel, list->size(), " numbers for ", width, " features");
    const auto at = [](const std::vector<double>& list, int64_t f, double def) {
      return list.empty() ? def : list[list.size() > 1 ? static_cast<size_t>(f) : 0];
    };
    for (int64_t i = 0; i < x.elements(); ++i) {
      const double v = NumberOf(x, i);
      const int64_t f = i % width;
      double r = 0;
      if (op_ == "Scaler") {
        r = (v - at(shift_, f, 0)) * at(scale_, f, 1);
      } else if (op_ == "Binarizer") {
        r = v > shift_[0] ? 1 : 0;
      } else {
        r = v == shift_[0] || (std::isnan(v) && std::isnan(shift_[0])) ? at(scale_, f, 0) : v;
      }
      SetNumber(y, i, r);
    }
  }

 private:
  std::string op_;
  std::vector<double> shift_, scale_;
};

/// Rows divided by their norm.
class NormalizerKernel final : public Kernel {
 public:
  explicit NormalizerKernel(const KernelInfo& info) : norm_(info.node.Str("norm", "MAX")) {
    if (norm_ != "MAX" && norm_ != "L1" && norm_ != "L2") info.Unsupported("norm ", norm_);
  }
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int64_t width = WidthOf(x);
    for (int64_t row = 0; row + width <= x.elements(); row += width) {
      double size = norm_ == "MAX" ? -INFINITY : 0;
      for (int64_t i = row; i < row + width; ++i) {
        const double v = NumberOf(x, i);
        size = norm_ == "MAX" ? std::max(size, v) : size + (norm_ == "L1" ? std::abs(v) : v * v);
      }
      if (norm_ == "L2") size = std::sqrt(size);
      for (int64_t i = row; i < row + width; ++i)
        SetNumber(y, i, size != 0 ? NumberOf(x, i) / size : NumberOf(x, i));
    }
  }

 private:
  std::string norm_;
};

/// Elements of the last axis by index.
class ExtractorKernel final : public Kernel {
 public:
  explicit ExtractorKernel(const KernelInfo&) {}
  void Compute(KernelContext& context) const override {
    const TensorView &x = *context.input(0), &indices = *context.input(1);
    TensorView& y = *context.output(0);
    const int64_t width = x.shape.at(-1), count = indices.elements();
    if (y.elements() == 0) return;
    const size_t element = static_cast<size_t>(BitsOf(x.dtype)) / 8;
    for (int64_t i = 0; i < y.elements(); ++i) {
      const int64_t index = IndexOf(indices, i % count);
      if (index < 0 || index >= width)
        Throw(Code::kInvalidInput, "index ", index, " of ", width, " features");
      std::memcpy(y.as<std::byte>() + static_cast<size_t>(i) * element,
                  x.as<std::byte>() + static_cast<size_t>(i / count * width + index) * element, element);
    }
  }
};

class LinearRegressorKernel final : public Kernel {
 public:
  explicit LinearRegressorKernel(const KernelInfo& info)
      : coefficients_(Floats(info.node, "coefficients")),
        intercepts_(Floats(info.node, "intercepts")),
        targets_(info.node.Int("targets", 1)) {
    if (info.node.Str("post_transform", "NONE") != "NONE") info.Unsupported("post_transform");
    if (targets_ < 1 || (!intercepts_.empty() && static_cast<int64_t>(intercepts_.size()) != targets_))
      info.Unsupported(intercepts_.size(), " intercepts for ", targets_, " targets");
  }
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const int64_t width = WidthOf(x), rows = x.elements() / width;
    if (static_cast<int64_t>(coefficients_.size()) / targets_ != width)
      Throw(Code::kInvalidInput, "rows of ", width, " features for ", coefficients_.size(), " coefficients");
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t t = 0; t < targets_; ++t) {
        double sum = intercepts_.empty() ? 0 : intercepts_[static_cast<size_t>(t)];
        for (int64_t i = 0; i < width; ++i)
          sum += coefficients_[static_cast<size_t>(t * width + i)] * NumberOf(x, r * width + i);
        SetNumber(y, r * targets_ + t, sum);
      }
    }
  }

 private:
  std::vector<double> coefficients_, intercepts_;
  int64_t targets_;
};

/// Numbers by a table.
class LabelEncoderKernel final : public Kernel {
 public:
  explicit LabelEncoderKernel(const KernelInfo& info) {
    const graph::Node& n = info.node;
    const auto list = [&](const std::string& kind) {
      if (const auto t = n.Tensor(kind + "_tensor")) return t->AsDoubles();
      const auto ints = n.IntsView(kind + "_int64s");
      return ints.empty() ? Floats(n, kind + "_floats") : std::vector<double>(ints.begin(), ints.end());
    };
    const auto keys = list("keys"), values = list("values");
    if (keys.empty() || keys.size() != values.size())
      info.Unsupported(keys.size(), " keys and ", values.size(), " values that are numbers");
    for (size_t i = 0; i < keys.size(); ++i) table_.emplace_back(keys[i], values[i]);
    std::stable_sort(table_.begin(), table_.end(), Less);
    if (const auto t = n.Tensor("default_tensor"))
      default_ = t->AsDoubles().at(0);
    else
      default_ = n.has_attr("values_int64s") ? static_cast<double>(n.Int("default_int64", -1))
                                             : static_cast<double>(n.Float("default_float", 0));
  }
  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    for (int64_t i = 0; i < x.elements(); ++i) {
      const std::pair<double, double> key(NumberOf(x, i), 0);
      const auto it = std::lower_bound(table_.begin(), table_.end(), key, Less);
      SetNumber(y, i, it != table_.end() && !Less(key, *it) ? it->second : default_);
    }
  }

 private:
  /// NaN comes last and equals itself.
  static bool Less(const std::pair<double, double>& a, const std::pair<double, double>& b) {
    return a.first < b.first || (!std::isnan(a.first) && std::isnan(b.first));
  }
  std::vector<std::pair<double, double>> table_;
  double default_ = 0;
};

}  // namespace

void RegisterFeatures(kernels::Registry& registry) {
  using kernels::kNumbers;
  for (std::string_view op : {"Scaler", "Binarizer", "Imputer"})
    registry.Add(Define<PerFeatureKernel>("ai.onnx.ml", op, {kNumbers}));
  registry.Add(Define<NormalizerKernel>("ai.onnx.ml", "Normalizer", {kNumbers}));
  registry.Add(Define<ExtractorKernel>("ai.onnx.ml", "ArrayFeatureExtractor", {kNumbers, {DType::kInt64}}));
  registry.Add(Define<LinearRegressorKernel>("ai.onnx.ml", "LinearRegressor", {kNumbers}));
  registry.Add(Define<LabelEncoderKernel>("ai.onnx.ml", "LabelEncoder", {kNumbers}));
}

}  // namespace ullage::cpu
