#include "onnx/builder_names.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "core/half.h"
#include "onnx/import.h"

namespace ullage::onnx {
namespace {

struct Stated {
  std::string_view type;                 ///< "INT64"
  std::vector<std::string_view> values;  ///< as written
  bool list = false;                     ///< "[1]" or "1D/1", against "1" or "0D/1"
};

std::string_view Trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

std::optional<Stated> Parse(std::string_view name) {
  constexpr std::string_view kFolder = "/constants/";
  const size_t at = name.rfind(kFolder);
  if (at == std::string_view::npos) return std::nullopt;
  name.remove_prefix(at + kFolder.size());
  constexpr std::string_view kOldPrefix = "TensorProto.";
  const bool old = name.substr(0, kOldPrefix.size()) == kOldPrefix;
  if (old) name.remove_prefix(kOldPrefix.size());
  Stated stated;
  size_t slash = name.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  stated.type = name.substr(0, slash);
  std::string_view text = name.substr(slash + 1);
  if (old) {
    slash = text.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    stated.list = text.substr(0, slash) == "1D";
    if (!stated.list && text.substr(0, slash) != "0D") return std::nullopt;
    text = text.substr(slash + 1);
  }
  text = Trim(text);
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    stated.list = true;
    text = text.substr(1, text.size() - 2);
  }
  if (text.size() > 4096) return std::nullopt;
  while (!Trim(text).empty()) {
    const size_t comma = text.find(',');
    stated.values.push_back(Trim(text.substr(0, comma)));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  if (!stated.list && stated.values.size() != 1) return std::nullopt;
  return stated;
}

template <class T>
std::optional<std::vector<T>> Numbers(const Stated& stated) {
  std::vector<T> out;
  for (const std::string_view s : stated.values) {
    T value{};
    const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
    if (error != std::errc() || end != s.data() + s.size()) return std::nullopt;
    out.push_back(value);
  }
  return out;
}

}  // namespace

std::optional<std::vector<int64_t>> ValuesFromBuilderName(std::string_view value_name) {
  const auto stated = Parse(value_name);
  if (!stated) return std::nullopt;
  return Numbers<int64_t>(*stated);
}

graph::ConstantPtr ConstantFromBuilderName(std::string_view value_name, DType dtype, const Shape& shape) {
  const auto stated = Parse(value_name);
  if (!stated || shape.rank() != (stated->list ? 1 : 0) ||
      shape.elements() != static_cast<int64_t>(stated->values.size()))
    return nullptr;
  if ((dtype == DType::kInt64 && stated->type == "INT64") ||
      (dtype == DType::kInt32 && stated->type == "INT32")) {
    const auto ints = Numbers<int64_t>(*stated);
    if (!ints || (dtype == DType::kInt32 && std::any_of(ints->begin(), ints->end(), [](int64_t v) {
                    return v < INT32_MIN || v > INT32_MAX;
                  })))
      return nullptr;
    return graph::MakeInts(shape, *ints, dtype);
  }
  const bool half = dtype == DType::kFloat16 && stated->type == "FLOAT16";
  if (!half && !(dtype == DType::kFloat && stated->type == "FLOAT")) return nullptr;
  const auto numbers = Numbers<double>(*stated);
  if (!numbers) return nullptr;
  auto made = graph::MakeConstant(dtype, shape);
  for (size_t i = 0; i < numbers->size(); ++i) {
    const auto value = static_cast<float>((*numbers)[i]);
    const uint16_t bits = FloatToHalf(value);
    if (half)
      std::memcpy(made.data + i * sizeof bits, &bits, sizeof bits);
    else
      std::memcpy(made.data + i * sizeof value, &value, sizeof value);
  }
  return made.constant;
}

}  // namespace ullage::onnx
