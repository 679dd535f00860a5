#include "apps/cli/args.h"

#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/options.h"

namespace ullage::cli {

Args::Args(const std::vector<std::string>& arguments, std::set<std::string> with_value,
           std::set<std::string> switches) {
  bool flags = true;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& a = arguments[i];
    if (!flags || a.size() < 2 || a[0] != '-') {
      positional_.push_back(a);
      continue;
    }
    if (a == "--") {
      flags = false;
      continue;
    }
    const auto eq = a.rfind("--", 0) == 0 ? a.find('=') : std::string::npos;
    const std::string flag = a.substr(0, eq);
    if (with_value.count(flag)) {
      if (eq != std::string::npos) {
        values_[flag].push_back(a.substr(eq + 1));
      } else {
        if (i + 1 == arguments.size()) Throw(Code::kUsage, flag, " needs a value");
        values_[flag].push_back(arguments[++i]);
      }
    } else if (switches.count(flag) && eq == std::string::npos) {
      on_.insert(flag);
    } else {
      std::vector<std::string_view> known(with_value.begin(), with_value.end());
      known.insert(known.end(), switches.begin(), switches.end());
      Throw(Code::kUsage, "unknown flag ", a, known.empty() ? "" : "; the nearest is ", Nearest(flag, known));
    }
  }
}

const std::string& Args::Model() const {
  if (positional_.empty())
    throw Error(Code::kUsage, "which model? Give a folder, an .onnx or .gguf file, or a name in the store");
  if (positional_.size() > 1) Throw(Code::kUsage, "unexpected argument \"", positional_[1], "\"");
  return positional_.front();
}

std::optional<std::string> Args::Value(const std::string& flag) const {
  const auto it = values_.find(flag);
  if (it == values_.end()) return std::nullopt;
  return it->second.back();
}

std::vector<std::string> Args::Values(const std::string& flag) const {
  const auto it = values_.find(flag);
  return it == values_.end() ? std::vector<std::string>() : it->second;
}

int64_t Args::Int(const std::string& flag, int64_t def, int64_t least) const {
  const auto text = Value(flag);
  if (!text) return def;
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), n);
  if (error != std::errc() || end != text->data() + text->size() || n < least)
    Throw(Code::kUsage, flag, ": expected an integer",
          least > INT64_MIN ? StrCat(" of at least ", least) : "", ", found \"", *text, "\"");
  return n;
}

double Args::Number(const std::string& flag, double def) const {
  const auto text = Value(flag);
  if (!text) return def;
  double n = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), n);
  if (error != std::errc() || end != text->data() + text->size() || !std::isfinite(n))
    Throw(Code::kUsage, flag, ": expected a number, found \"", *text, "\"");
  return n;
}

std::vector<int32_t> ParseIds(std::string_view text, std::string_view flag) {
  std::vector<int32_t> ids;
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    while (p < end && (*p == ' ' || *p == ',')) ++p;
    if (p == end) break;
    int32_t id = 0;
    const auto [next, error] = std::from_chars(p, end, id);
    if (error != std::errc() || (next < end && *next != ',' && *next != ' '))
      Throw(Code::kUsage, flag, ": expected token ids separated by commas, found \"",
            std::string_view(p, static_cast<size_t>(end - p)), "\"");
    ids.push_back(id);
    p = next;
  }
  return ids;
}

}  // namespace ullage::cli
