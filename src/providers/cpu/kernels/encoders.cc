/// Words to numbers and back: ai.onnx.ml LabelEncoder, TfIdfVectorizer.
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>

#include "core/error.h"
#include "kernels/kernel.h"
#include "providers/cpu/kernels/value_families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

/// A list of strings or numbers as an attribute holds it: the elements' bytes, and their type.
struct List {
  DType dtype = DType::kUndefined;
  std::vector<std::string> elements;
};

template <class T>
std::string BytesFrom(T value) {
  // One NaN equals another, and zeros are equal.
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(value)) value = std::numeric_limits<T>::quiet_NaN();
    if (value == 0) value = 0;
  }
  std::string s(sizeof(T), '\0');
  std::memcpy(s.data(), &value, sizeof(T));
  return s;
}

std::string ElementAt(DType dtype, const void* data, int64_t i) {
  switch (dtype) {
    case DType::kString:
      return static_cast<const std::string*>(data)[i];
    case DType::kInt64:
      return BytesFrom(static_cast<const int64_t*>(data)[i]);
    case DType::kInt32:
      return BytesFrom(static_cast<const int32_t*>(data)[i]);
    case DType::kInt16:
      return BytesFrom(static_cast<const int16_t*>(data)[i]);
    case DType::kFloat:
      return BytesFrom(static_cast<const float*>(data)[i]);
    case DType::kDouble:
      return BytesFrom(static_cast<const double*>(data)[i]);
    default:
      Throw(Code::kUnsupported, "labels of type ", NameOf(dtype));
  }
}

List ListOf(const graph::Node& node, const std::string& prefix) {
  List list;
  const auto strings = node.attributes.find(prefix + "strings");
  if (strings != node.attributes.end()) {
    const auto* words = std::get_if<std::vector<std::string>>(&strings->second);
    if (!words) Throw(Code::kInvalidModel, "node ", node.name, ": ", prefix, "strings is no list of strings");
    return {DType::kString, *words};
  }
  if (node.has_attr(prefix + "int64s")) {
    list.dtype = DType::kInt64;
    for (int64_t n : node.IntsView(prefix + "int64s")) list.elements.push_back(BytesFrom(n));
  } else if (node.has_attr(prefix + "floats")) {
    list.dtype = DType::kFloat;
    for (float n : node.FloatsView(prefix + "floats")) list.elements.push_back(BytesFrom(n));
  } else if (const auto tensor = node.Tensor(prefix + "tensor")) {
    list.dtype = tensor->dtype;
    const auto data = tensor->data();
    for (int64_t i = 0; i < tensor->elements(); ++i)
      list.elements.push_back(ElementAt(list.dtype, data.data(), i));
  }
  return list;
}

class LabelEncoder final : public Kernel {
 public:
  explicit LabelEncoder(const KernelInfo& info) {
    const graph::Node& n = info.node;
    List keys = ListOf(n, "keys_"), values = ListOf(n, "values_");
    if (const List classes = ListOf(n, "classes_"); !classes.elements.empty()) {  // version 1
      List positions{DType::kInt64, {}};
      for (size_t i = 0; i < classes.elements.size(); ++i)
        positions.elements.push_back(BytesFrom(static_cast<int64_t>(i)));
      keys = info.input_dtype(0) == DType::kString ? classes : positions;
      values = info.input_dtype(0) == DType::kString ? positions : classes;
    }
    if (keys.dtype != info.input_dtype(0))
      Throw(Code::kInvalidModel, "node ", n.name, ": keys of type ", NameOf(keys.dtype),
            " for an input of type ", NameOf(info.input_dtype(0)));
    if (keys.elements.size() != values.elements.size())
      Throw(Code::kInvalidModel, "node ", n.name, ": ", keys.elements.size(), " keys and ",
            values.elements.size(), " values");
    for (size_t i = 0; i < keys.elements.size(); ++i) table_.emplace(keys.elements[i], values.elements[i]);
    if (const auto tensor = n.Tensor("default_tensor"))
      other_ = ElementAt(tensor->dtype, tensor->data().data(), 0);
    else if (values.dtype == DType::kString)
      other_ = n.Str("default_string", "_Unused");
    else if (values.dtype == DType::kInt64)
      other_ = BytesFrom(n.Int("default_int64", -1));
    else if (values.dtype == DType::kFloat)
      other_ = BytesFrom(n.Float("default_float", 0.0f));
    else
      other_ = std::string(static_cast<size_t>(BitsOf(values.dtype) / 8), '\0');
  }
  void Compute(KernelContext& c) const override {
    const TensorView& in = *c.input(0);
    TensorView& out = *c.output(0);
    for (int64_t i = 0; i < in.elements(); ++i) {
      const auto it = table_.find(ElementAt(in.dtype, in.data, i));
      const std::string& value = it == table_.end() ? other_ : it->second;
      if (out.dtype == DType::kString)
        static_cast<std::string*>(out.data)[i] = value;
      else
        std::memcpy(out.as<char>() + static_cast<size_t>(i) * value.size(), value.data(), value.size());
    }
  }

 private:
  std::map<std::string, std::string> table_;
  std::string other_;
};

/// Counts n-grams of a pool in rows of words or numbers. The elements of an n-gram lie at equal distances of
/// 1 to max_skip_count + 1.
class TfIdf final : public Kernel {
 public:
  explicit TfIdf(const KernelInfo& info) {
    const graph::Node& n = info.node;
    const std::string mode = n.Str("mode", "");
    if (mode != "TF" && mode != "IDF" && mode != "TFIDF")
      Throw(Code::kInvalidModel, "node ", n.name, ": mode is ", mode);
    counts_ = mode != "IDF";
    weighted_ = mode != "TF";
    least_ = n.RequiredInt("min_gram_length");
    most_ = n.RequiredInt("max_gram_length");
    skips_ = n.RequiredInt("max_skip_count");
    if (least_ < 1 || most_ < least_ || skips_ < 0)
      Throw(Code::kInvalidModel, "node ", n.name, ": n-grams of ", least_, " to ", most_, " with ", skips_,
            " skips");
    const List pool = ListOf(n, "pool_");
    const auto starts = n.IntsView("ngram_counts"), places = n.IntsView("ngram_indexes");
    const auto weights = n.FloatsView("weights");
    size_t gram = 0;
    for (size_t length = 1; length <= starts.size(); ++length) {
      const auto end = length < starts.size() ? starts[length] : static_cast<int64_t>(pool.elements.size());
      if (starts[length - 1] < 0 || end < starts[length - 1] ||
          end > static_cast<int64_t>(pool.elements.size()))
        Throw(Code::kInvalidModel, "node ", n.name, ": ngram_counts does not cut the pool");
      for (auto at = static_cast<size_t>(starts[length - 1]); at + length <= static_cast<size_t>(end);
           at += length) {
        if (gram >= places.size() || (!weights.empty() && gram >= weights.size()) || places[gram] < 0)
          Throw(Code::kInvalidModel, "node ", n.name, ": n-gram ", gram, " has no place");
        std::vector<std::string> words(pool.elements.begin() + static_cast<std::ptrdiff_t>(at),
                                       pool.elements.begin() + static_cast<std::ptrdiff_t>(at + length));
        grams_[std::move(words)] = {places[gram], weights.empty() ? 1.0f : weights[gram]};
        ++gram;
      }
    }
  }
  void Compute(KernelContext& c) const override {
    const TensorView& in = *c.input(0);
    TensorView& out = *c.output(0);
    const bool vector = in.shape.rank() == 1;
    const int64_t rows = vector ? 1 : in.shape[0], length = in.shape.at(-1), width = out.shape.at(-1);
    float* y = out.as<float>();
    std::fill_n(y, out.elements(), 0.0f);
    std::vector<std::string> words(static_cast<size_t>(length)), gram;
    for (int64_t r = 0; r < rows; ++r, y += width) {
      for (int64_t i = 0; i < length; ++i) words[static_cast<size_t>(i)] = WordAt(in, r * length + i);
      for (int64_t n = least_; n <= most_; ++n)
        for (int64_t step = 1; step <= (n == 1 ? 1 : skips_ + 1); ++step)
          for (int64_t at = 0; at + (n - 1) * step < length; ++at) {
            gram.clear();
            for (int64_t k = 0; k < n; ++k) gram.push_back(words[static_cast<size_t>(at + k * step)]);
            if (const auto it = grams_.find(gram); it != grams_.end()) y[it->second.place] += 1;
          }
      for (const auto& [key, entry] : grams_) {
        float& v = y[entry.place];
        if (!counts_) v = v > 0 ? 1.0f : 0.0f;
      }
      if (weighted_)
        for (const auto& [key, entry] : grams_) y[entry.place] *= entry.weight;
    }
  }

 private:
  struct Entry {
    int64_t place = 0;
    float weight = 1;
  };
  // Numbers are compared as int64.
  std::string WordAt(const TensorView& in, int64_t i) const {
    if (in.dtype == DType::kInt32) return BytesFrom(static_cast<int64_t>(in.as<int32_t>()[i]));
    return ElementAt(in.dtype, in.data, i);
  }

  bool counts_ = true, weighted_ = false;
  int64_t least_ = 1, most_ = 1, skips_ = 0;
  std::map<std::vector<std::string>, Entry> grams_;
};

}  // namespace

void RegisterEncoders(kernels::Registry& registry) {
  kernels::KernelDef labels;
  labels.domain = "ai.onnx.ml";
  labels.op = "LabelEncoder";
  labels.types = {
      {DType::kString, DType::kInt64, DType::kInt32, DType::kInt16, DType::kFloat, DType::kDouble}};
  labels.create = [](const KernelInfo& i) -> std::unique_ptr<Kernel> {
    return std::make_unique<LabelEncoder>(i);
  };
  registry.Add(std::move(labels));
  kernels::KernelDef grams;
  grams.op = "TfIdfVectorizer";
  grams.types = {{DType::kString, DType::kInt64, DType::kInt32}};
  grams.create = [](const KernelInfo& i) -> std::unique_ptr<Kernel> { return std::make_unique<TfIdf>(i); };
  registry.Add(std::move(grams));
}

}  // namespace ullage::cpu
