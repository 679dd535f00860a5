/// Tensors of strings: std::string objects, in UTF-8.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <memory>
#include <string>

#include "core/error.h"
#include "kernels/late_kernel.h"
#include "providers/cpu/kernels/broadcast.h"
#include "providers/cpu/kernels/value_families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;
using kernels::LateKernel;

const std::string* Strings(const TensorView& view) {
  return static_cast<const std::string*>(view.data);
}
std::string* Strings(TensorView* view) {
  return static_cast<std::string*>(view->data);
}

std::vector<std::string> StringList(const graph::Node& node, std::string_view key) {
  const auto it = node.attributes.find(key);
  if (it == node.attributes.end()) return {};
  if (const auto* list = std::get_if<std::vector<std::string>>(&it->second)) return *list;
  Throw(Code::kInvalidModel, "node ", node.name, ": attribute ", key, " is no list of strings");
}

template <class Fn>
void EachPair(const TensorView& a, const TensorView& b, const Shape& out, const Fn& fn) {
  const Broadcast loops(out, &a.shape, &b.shape);
  const int64_t length = loops.row_length(), rows = out.elements() > 0 ? loops.rows() : 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = 0; i < length; ++i)
      fn(r * length + i, Strings(a)[loops.offset(0, r) + i * loops.step(0)],
         Strings(b)[loops.offset(1, r) + i * loops.step(1)]);
}

class Concat final : public Kernel {
 public:
  explicit Concat(const KernelInfo&) {}
  void Compute(KernelContext& c) const override {
    TensorView* out = c.output(0);
    EachPair(*c.input(0), *c.input(1), out->shape,
             [&](int64_t i, const std::string& a, const std::string& b) { Strings(out)[i] = a + b; });
  }
};

class EqualStrings final : public Kernel {
 public:
  explicit EqualStrings(const KernelInfo&) {}
  void Compute(KernelContext& c) const override {
    TensorView* out = c.output(0);
    EachPair(*c.input(0), *c.input(1), out->shape,
             [&](int64_t i, const std::string& a, const std::string& b) { out->as<uint8_t>()[i] = a == b; });
  }
};

/// Length in bytes of the blank at `at`; 0 when there is none. Blanks are those of Python's str.split().
size_t BlankAt(std::string_view s, size_t at) {
  utf8proc_int32_t code = -1;
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(s.data() + at);
  const auto n = utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(s.size() - at), &code);
  if (n <= 0) return 0;
  const bool control = (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x1f) || code == 0x85;
  const auto category = utf8proc_category(code);
  const bool blank = control || category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
                     category == UTF8PROC_CATEGORY_ZP;
  return blank ? static_cast<size_t>(n) : 0;
}

class Split final : public LateKernel {
 public:
  explicit Split(const KernelInfo& info) : delimiter_(info.node.Str("delimiter", "")) {
    if (info.node.has_attr("maxsplit")) most_ = std::max<int64_t>(info.node.Int("maxsplit", 0), 0);
  }
  void Compute(KernelContext& c) const override {
    const TensorView& in = *c.input(0);
    const int64_t n = in.elements();
    std::vector<std::vector<std::string_view>> parts(static_cast<size_t>(n));
    size_t widest = 0;
    for (int64_t i = 0; i < n; ++i) {
      auto& list = parts[static_cast<size_t>(i)];
      if (delimiter_.empty())
        ByBlanks(Strings(in)[i], &list);
      else
        ByDelimiter(Strings(in)[i], &list);
      widest = std::max(widest, list.size());
    }
    Shape shape = in.shape;
    shape.push_back(static_cast<int64_t>(widest));
    c.SetOutputShape(0, shape);
    TensorView *out = c.output(0), *counts = c.output(1);
    for (size_t i = 0; i < parts.size(); ++i) {
      if (counts) counts->as<int64_t>()[i] = static_cast<int64_t>(parts[i].size());
      if (!out) continue;
      for (size_t k = 0; k < widest; ++k)
        Strings(out)[i * widest + k] = k < parts[i].size() ? std::string(parts[i][k]) : std::string();
    }
  }

 private:
  bool Full(const std::vector<std::string_view>& parts) const {
    return static_cast<int64_t>(parts.size()) >= most_;
  }
  void ByDelimiter(std::string_view s, std::vector<std::string_view>* parts) const {
    size_t at = 0;
    while (!Full(*parts)) {
      const size_t next = s.find(delimiter_, at);
      if (next == std::string_view::npos) break;
      parts->push_back(s.substr(at, next - at));
      at = next + delimiter_.size();
    }
    parts->push_back(s.substr(at));
  }
  void ByBlanks(std::string_view s, std::vector<std::string_view>* parts) const {
    size_t at = 0;
    const auto skip = [&] {
      while (at < s.size()) {
        const size_t n = BlankAt(s, at);
        if (n == 0) break;
        at += n;
      }
    };
    for (skip(); at < s.size(); skip()) {
      if (Full(*parts)) {
        parts->push_back(s.substr(at));
        return;
      }
      const size_t first = at;
      while (at < s.size() && BlankAt(s, at) == 0) ++at;
      parts->push_back(s.substr(first, at - first));
    }
  }

  std::string delimiter_;
  int64_t most_ = INT64_MAX;  // cuts
};

enum class Case { kNone, kLower, kUpper };

std::string Mapped(const std::string& s, Case change) {
  if (change == Case::kNone) return s;
  std::string out;
  for (size_t at = 0; at < s.size();) {
    utf8proc_int32_t code = -1;
    const auto n = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(s.data() + at),
                                    static_cast<utf8proc_ssize_t>(s.size() - at), &code);
    if (n <= 0) {  // no UTF-8: kept as it is
      out += s[at++];
      continue;
    }
    utf8proc_uint8_t bytes[4];
    const auto to =
        utf8proc_encode_char(change == Case::kLower ? utf8proc_tolower(code) : utf8proc_toupper(code), bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(to));
    at += static_cast<size_t>(n);
  }
  return out;
}

class Normalizer final : public Kernel {
 public:
  explicit Normalizer(const KernelInfo& info) {
    const std::string action = info.node.Str("case_change_action", "NONE");
    if (action != "NONE" && action != "LOWER" && action != "UPPER")
      Throw(Code::kInvalidModel, "node ", info.node.name, ": case_change_action is ", action);
    change_ = action == "LOWER" ? Case::kLower : action == "UPPER" ? Case::kUpper : Case::kNone;
    exact_ = info.node.Int("is_case_sensitive", 0) != 0;
    for (const auto& word : StringList(info.node, "stopwords"))
      stops_.push_back(exact_ ? word : Mapped(word, Case::kLower));
    std::sort(stops_.begin(), stops_.end());
  }
  void Compute(KernelContext& c) const override {
    const TensorView& in = *c.input(0);
    if (in.shape.rank() == 2 && in.shape[0] != 1)
      Throw(Code::kInvalidInput, "an input of shape ", in.shape.ToString(), ", expected [C] or [1,C]");
    std::vector<std::string> kept;
    for (int64_t i = 0; i < in.elements(); ++i) {
      const std::string& word = Strings(in)[i];
      if (!std::binary_search(stops_.begin(), stops_.end(), exact_ ? word : Mapped(word, Case::kLower)))
        kept.push_back(Mapped(word, change_));
    }
    if (kept.empty()) kept.emplace_back();
    const auto n = static_cast<int64_t>(kept.size());
    c.SetOutputShape(0, in.shape.rank() == 2 ? Shape{1, n} : Shape{n});
    std::move(kept.begin(), kept.end(), Strings(c.output(0)));
  }

 private:
  Case change_ = Case::kNone;
  bool exact_ = false;
  std::vector<std::string> stops_;
};

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

class FullMatch final : public Kernel {
 public:
  explicit FullMatch(const KernelInfo& info) {
    const std::string pattern = info.node.Str("pattern", "");
    int error = 0;
    PCRE2_SIZE at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_ANCHORED | PCRE2_ENDANCHORED, &error, &at, nullptr));
    if (code_) return;
    PCRE2_UCHAR text[160] = {};
    pcre2_get_error_message(error, text, sizeof text);
    Throw(Code::kUnsupported, "node ", info.node.name, " (", info.node.OpName(), "): pattern \"", pattern,
          "\", at ", at, ": ", reinterpret_cast<const char*>(text));
  }
  void Compute(KernelContext& c) const override {
    // Patterns may take exponential time; they are stopped.
    constexpr uint32_t kWork = 10'000'000, kDepth = 1'000'000, kHeapKiB = 65536;
    const std::unique_ptr<pcre2_match_context, FreeContext> limits(pcre2_match_context_create(nullptr));
    const std::unique_ptr<pcre2_match_data, FreeMatch> data(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    pcre2_set_match_limit(limits.get(), kWork);
    pcre2_set_depth_limit(limits.get(), kDepth);
    pcre2_set_heap_limit(limits.get(), kHeapKiB);
    const TensorView& in = *c.input(0);
    for (int64_t i = 0; i < in.elements(); ++i) {
      const std::string& s = Strings(in)[i];
      const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(s.data()), s.size(), 0, 0,
                                    data.get(), limits.get());
      if (found < 0 && found != PCRE2_ERROR_NOMATCH)
        Throw(Code::kInvalidInput, "element ", i, " cannot be matched (PCRE2 error ", found, ")");
      c.output(0)->as<uint8_t>()[i] = found >= 0;
    }
  }

 private:
  std::unique_ptr<pcre2_code, FreeCode> code_;
};

}  // namespace

void RegisterStrings(kernels::Registry& registry) {
  const auto add = [&](std::string_view op, auto make) {
    kernels::KernelDef def;
    def.op = op;
    def.types = {kernels::TypeSet{DType::kString}, kernels::TypeSet{DType::kString}};
    def.create = make;
    registry.Add(std::move(def));
  };
  using Made = std::unique_ptr<Kernel>;
  add("StringConcat", [](const KernelInfo& i) -> Made { return std::make_unique<Concat>(i); });
  add("StringSplit", [](const KernelInfo& i) -> Made { return std::make_unique<Split>(i); });
  add("StringNormalizer", [](const KernelInfo& i) -> Made { return std::make_unique<Normalizer>(i); });
  add("RegexFullMatch", [](const KernelInfo& i) -> Made { return std::make_unique<FullMatch>(i); });
  add("Equal", [](const KernelInfo& i) -> Made { return std::make_unique<EqualStrings>(i); });
}

}  // namespace ullage::cpu
