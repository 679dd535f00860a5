#include "shapes/input_bounds.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "core/error.h"

namespace ullage::shapes {
namespace {

using graph::Graph;
using graph::kNone;
using graph::ValueId;
using ops::Bound;
using ops::SymbolTable;
using ops::ValueFacts;

constexpr std::string_view kOption = "session.max_shape_override";
constexpr std::string_view kFlag = "--shape";
constexpr std::string_view kBlanks = " \t";

std::string_view Trim(std::string_view s) {
  const auto first = s.find_first_not_of(kBlanks);
  return first == std::string_view::npos ? std::string_view()
                                         : s.substr(first, s.find_last_not_of(kBlanks) - first + 1);
}

std::optional<int64_t> Number(std::string_view s) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), n);
  if (s.empty() || error != std::errc() || end != s.data() + s.size()) return std::nullopt;
  return n;
}

std::vector<std::string_view> Split(std::string_view s, char separator) {
  std::vector<std::string_view> parts;
  for (size_t at = 0;;) {
    const size_t next = std::min(s.find(separator, at), s.size());
    parts.push_back(s.substr(at, next - at));
    if (next == s.size()) return parts;
    at = next + 1;
  }
}

InputLimit ParseEntry(std::string_view entry) {
  const auto fail = [&](const auto&... parts) {
    Throw(Code::kUsage, kOption, ": in \"", entry, "\": ", parts..., "; expected name:[d0,d1]");
  };
  const std::string_view text = Trim(entry);
  if (text.empty()) fail("the entry is empty");
  const size_t open = text.rfind('[');
  const size_t colon = text.substr(0, std::min(open, text.size())).rfind(':');
  if (colon == std::string_view::npos) fail("there is no ':' behind the name");
  if (open == std::string_view::npos || !Trim(text.substr(colon + 1, open - colon - 1)).empty())
    fail("there is no '[' behind the ':'");
  if (text.back() != ']') fail("there is no ']' at the end");
  InputLimit limit;
  limit.source = kOption;
  limit.input = Trim(text.substr(0, colon));
  if (limit.input.empty()) fail("the name is empty");
  for (size_t at = 0; (at = limit.input.find(':', at)) != std::string::npos; ++at)
    if (Trim(std::string_view(limit.input).substr(at + 1)).rfind('[', 0) == 0)
      fail("there is no ';' between two inputs");
  const std::string_view inner = Trim(text.substr(open + 1, text.size() - open - 2));
  if (inner.empty()) return limit;
  for (std::string_view part : Split(inner, ',')) {
    const auto n = Number(Trim(part));
    if (Trim(part).empty()) fail("a dimension is missing");
    if (!n) fail("the dimension \"", Trim(part), "\" is no integer");
    if (*n <= 0) fail("the dimension ", *n, " is not positive");
    limit.dims.push_back(*n);
  }
  return limit;
}

std::string DimName(const std::string& input, size_t dim) {
  return input + "." + std::to_string(dim);
}

/// "past + sequence - 1": names and numbers between '+' and '-'. Nothing when the label is another text.
struct LabelTerm {
  int sign = 1;
  std::string_view name;  // empty: the number
  int64_t number = 0;
};
std::optional<std::vector<LabelTerm>> ParseSum(std::string_view label) {
  std::vector<LabelTerm> terms;
  size_t at = 0;
  int sign = 1;
  while (true) {
    const size_t next = std::min(label.find_first_of("+-", at), label.size());
    const std::string_view part = Trim(label.substr(at, next - at));
    LabelTerm term;
    term.sign = sign;
    if (const auto n = Number(part)) {
      term.number = *n;
    } else {
      const bool name = !part.empty() && std::all_of(part.begin(), part.end(), [](unsigned char c) {
        return c == '_' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
               (c >= 'A' && c <= 'Z') || c >= 0x80;
      });
      if (!name || (part[0] >= '0' && part[0] <= '9')) return std::nullopt;
      term.name = part;
    }
    terms.push_back(term);
    if (next == label.size()) break;
    sign = label[next] == '+' ? 1 : -1;
    at = next + 1;
  }
  if (terms.size() < 2) return std::nullopt;
  return terms;
}

using LabelLimits = std::map<std::string, int64_t, std::less<>>;

LabelLimits LimitsOfLabels(const Graph& graph, std::span<const InputLimit> limits) {
  LabelLimits by_label;
  for (const InputLimit& limit : limits) {
    const ValueId v = graph.FindValue(limit.input);
    if (v == kNone || !graph.value(v).declared) continue;
    const auto& declared = *graph.value(v).declared;
    for (size_t d = 0; d < declared.size() && d < limit.dims.size(); ++d)
      if (declared[d].value < 0 && !declared[d].label.empty())
        by_label.emplace(declared[d].label, limit.dims[d]);
  }
  return by_label;
}

}  // namespace

std::vector<InputLimit> ParseMaxShapeOverride(std::string_view text) {
  std::vector<InputLimit> limits;
  if (Trim(text).empty()) return limits;
  for (std::string_view entry : Split(text, ';')) limits.push_back(ParseEntry(entry));
  return limits;
}

InputLimit ParseShapeFlag(std::string_view text) {
  const auto fail = [&] { Throw(Code::kUsage, kFlag, ": expected NAME=1x3x640x640, found \"", text, "\""); };
  const size_t eq = text.rfind('=');
  if (eq == std::string_view::npos || eq == 0) fail();
  InputLimit limit;
  limit.source = kFlag;
  limit.input = text.substr(0, eq);
  if (eq + 1 == text.size()) return limit;
  for (std::string_view part : Split(text.substr(eq + 1), 'x')) {
    const auto n = Number(part);
    if (!n || *n < 0) fail();
    limit.dims.push_back(*n);
  }
  return limit;
}

std::vector<InputLimit> CollectLimits(const std::vector<std::string>& flags, std::string_view option) {
  std::vector<InputLimit> limits;
  for (const auto& flag : flags) limits.push_back(ParseShapeFlag(flag));
  return JoinLimits(std::move(limits), option);
}

std::vector<InputLimit> JoinLimits(std::vector<InputLimit> limits, std::string_view option) {
  for (auto& limit : ParseMaxShapeOverride(option)) limits.push_back(std::move(limit));
  std::set<std::string_view> seen;
  for (const auto& limit : limits)
    if (!seen.insert(limit.input).second)
      Throw(Code::kUsage, limit.source, ": the input ", limit.input, " is given twice");
  return limits;
}

void CheckLimits(const Graph& graph, std::span<const InputLimit> limits) {
  std::map<std::string, std::pair<const InputLimit*, int64_t>> by_label;
  for (const InputLimit& limit : limits) {
    const auto fail = [&](const auto&... parts) {
      Throw(Code::kUsage, limit.source, ": input ", limit.input, ": ", parts...);
    };
    const auto named = std::find_if(graph.inputs.begin(), graph.inputs.end(),
                                    [&](ValueId v) { return graph.value(v).name == limit.input; });
    if (named == graph.inputs.end()) {
      std::string names;
      for (ValueId v : graph.inputs) names += (names.empty() ? "" : ", ") + graph.value(v).name;
      Throw(Code::kUsage, limit.source, ": the graph has no input ", limit.input, "; it has ", names);
    }
    const auto& declared = graph.value(*named).declared;
    if (!declared) fail("the graph does not declare its rank");
    if (declared->size() != limit.dims.size())
      fail(limit.dims.size(), " dimensions, the graph declares ", declared->size());
    for (size_t d = 0; d < limit.dims.size(); ++d) {
      const auto& [number, label] = (*declared)[d];
      if (number >= 0) {
        if (number != limit.dims[d])
          fail("dimension ", d, " is ", limit.dims[d], ", the graph fixes it at ", number);
        continue;
      }
      if (label.empty()) continue;
      const auto [it, fresh] = by_label.emplace(label, std::pair{&limit, limit.dims[d]});
      if (!fresh && it->second.second != limit.dims[d])
        fail("dimension ", d, " (", label, ") is ", limit.dims[d], ", but ", it->second.second, " for input ",
             it->second.first->input);
    }
  }
}

std::vector<ValueFacts> BoundedInputFacts(const Graph& graph, std::span<const InputLimit> limits,
                                          std::span<const ValueFacts> actual, bool labels,
                                          SymbolTable& table) {
  const LabelLimits by_label = LimitsOfLabels(graph, limits);
  const ops::BoundMath math(&table);
  const auto limit_of = [&](std::string_view label) {
    const auto it = by_label.find(label);
    return it == by_label.end() ? ops::kUnbounded : it->second;
  };
  std::vector<ValueFacts> facts;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const graph::Value& v = graph.value(graph.inputs[i]);
    ValueFacts f;
    f.dtype = v.dtype;
    f.kind = v.kind;
    const auto limit =
        std::find_if(limits.begin(), limits.end(), [&](const InputLimit& l) { return l.input == v.name; });
    if (!v.declared) {
      if (!actual.empty() && actual[i].dtype != DType::kUndefined) f = actual[i];
      facts.push_back(std::move(f));
      continue;
    }
    f.shape.rank = 0;
    for (size_t d = 0; d < v.declared->size(); ++d) {
      const auto& [number, label] = (*v.declared)[d];
      if (number >= 0) {
        f.shape.push_back(Bound::Exactly(number));
        continue;
      }
      const int64_t own = limit != limits.end() ? limit->dims[d] : ops::kUnbounded;
      const int64_t upper = std::min(own, limit_of(label));
      if (upper == ops::kUnbounded && !actual.empty() && actual[i].shape.rank > static_cast<int>(d)) {
        f.shape.push_back(actual[i].shape[static_cast<int>(d)]);
        continue;
      }
      // Sizes of nothing are rare but for what is past, and make Reshape's 0 mean another thing.
      const bool empty = label.find("past") != std::string::npos ||
                         (!actual.empty() && actual[i].shape.rank > static_cast<int>(d) &&
                          actual[i].shape[static_cast<int>(d)].upper == 0);
      const int64_t least = upper == ops::kUnbounded ? 0 : std::min<int64_t>(empty ? 0 : 1, upper);
      Bound bound;
      const auto sum = labels ? ParseSum(label) : std::nullopt;
      if (sum) {
        bound = Bound::Exactly(0);
        for (const LabelTerm& t : *sum) {
          const Bound part =
              t.name.empty() ? Bound::Exactly(t.number) : table.Symbol(t.name, 0, limit_of(t.name));
          bound = t.sign > 0 ? math.Add(bound, part) : math.Sub(bound, part);
        }
        table.Restrict(bound.expr, 0, upper);
        bound = bound.expr == ops::kNoExpr ? Bound::Between(std::max<int64_t>(bound.lower, 0), bound.upper)
                                           : table.BoundOf(bound.expr);
      } else {
        bound = table.Symbol(labels && !label.empty() ? label : DimName(v.name, d), least, upper);
      }
      f.shape.push_back(bound);
    }
    facts.push_back(std::move(f));
  }
  return facts;
}

std::vector<ValueFacts> DeclaredInputFacts(const Graph& graph, SymbolTable& table) {
  return BoundedInputFacts(graph, {}, {}, /*labels=*/false, table);
}

InputRelations::InputRelations(const Graph& graph, std::span<const ValueFacts> inputs,
                               const SymbolTable& table) {
  for (ValueId v : graph.inputs) names_.push_back(graph.value(v).name);
  std::map<std::string, Dim> first;  // of each symbol
  std::vector<std::pair<Dim, std::vector<SymbolTable::Term>>> sums;
  for (size_t i = 0; i < inputs.size(); ++i)
    for (int d = 0; d < inputs[i].shape.rank; ++d) {
      auto terms = table.TermsOf(inputs[i].shape[d].expr);
      if (!terms) continue;
      const Dim here{i, d};
      if (terms->size() != 1 || (*terms)[0].coefficient != 1 || (*terms)[0].symbols.size() != 1) {
        sums.emplace_back(here, std::move(*terms));
        continue;
      }
      const auto [it, fresh] = first.emplace((*terms)[0].symbols[0], here);
      if (!fresh) relations_.push_back({{{1, {here}}, {-1, {it->second}}}, 0, 0});
    }
  const auto add = [&](const std::vector<SymbolTable::Term>& terms, Relation relation) {
    for (const auto& t : terms) {
      Term term{t.coefficient, {}};
      for (const auto& symbol : t.symbols) {
        const auto it = first.find(symbol);
        if (it == first.end()) return;  // no input shows that size
        term.factors.push_back(it->second);
      }
      relation.terms.push_back(std::move(term));
    }
    relations_.push_back(std::move(relation));
  };
  for (const auto& [dim, terms] : sums) {
    Relation relation;
    relation.terms.push_back({-1, {dim}});
    add(terms, relation);
  }
  for (const auto& r : table.Relations()) add(r.terms, {{}, r.lower, r.upper});
}

void InputRelations::Fail(const Relation& relation, const std::vector<int64_t>& sizes) const {
  std::string found, rule;
  size_t at = 0;
  for (const Term& t : relation.terms) {
    const bool minus = t.coefficient < 0;
    rule += rule.empty() ? (minus ? "-" : "") : (minus ? " - " : " + ");
    const int64_t magnitude = minus ? -t.coefficient : t.coefficient;
    if (magnitude != 1 || t.factors.empty())
      rule += std::to_string(magnitude) + (t.factors.empty() ? "" : "*");
    for (size_t k = 0; k < t.factors.size(); ++k) {
      const std::string name = DimName(names_[t.factors[k].input], static_cast<size_t>(t.factors[k].dim));
      rule += (k ? "*" : "") + name;
      const std::string size = StrCat("dimension ", t.factors[k].dim, " of input ",
                                      names_[t.factors[k].input], " is ", sizes[at++]);
      found += (found.empty() ? "" : ", ") + size;
    }
  }
  const std::string ends = relation.lower == relation.upper
                               ? StrCat(" = ", relation.lower)
                               : StrCat(" within ", relation.lower, "..", relation.upper);
  Throw(Code::kInvalidInput, found, "; the session was planned for ", rule, ends);
}

}  // namespace ullage::shapes
