#include "session/unbounded.h"

#include <algorithm>
#include <map>

#include "core/error.h"
#include "session/report.h"

namespace ullage::session {

using graph::kNone;
using graph::ValueId;

namespace {

// Where the user can say how large a symbol gets.
using Places = std::map<std::string, std::string>;

class Finder {
 public:
  Finder(const ops::SymbolTable& table, Places places) : table_(table), places_(std::move(places)) {}

  void Add(const ops::ValueFacts& facts, const std::string& value, const std::string& node) {
    if (BytesUpper(facts) >= 0) return;
    UnboundedValue u{value, node, {}};
    const auto need = [&](const std::string& text) {
      if (std::find(u.needs.begin(), u.needs.end(), text) == u.needs.end()) u.needs.push_back(text);
    };
    if (facts.dtype == DType::kString) need("nothing: strings have no bound");
    if (facts.kind != graph::TypeKind::kTensor && !facts.length.bounded()) {
      const auto symbols = table_.UnboundedSymbols(facts.length.expr);
      need(symbols.empty() ? "the number of its elements"
                           : "a size that node " + symbols[0] + " takes from data");
    }
    for (int d = 0; d < facts.shape.rank; ++d) {
      if (facts.shape[d].bounded()) continue;
      const auto symbols = table_.UnboundedSymbols(facts.shape[d].expr);
      for (const auto& symbol : symbols) {
        const auto it = places_.find(symbol);
        need(it != places_.end() ? it->second : StrCat("a size that node ", symbol, " takes from data"));
      }
      if (symbols.empty()) need(StrCat("dimension ", d, " of it, which is computed from data"));
    }
    if (facts.shape.rank < 0 && facts.shape.max_elements == ops::kUnbounded) need("its rank");
    if (u.needs.empty()) need(StrCat("less than ", facts.shape.ToString()));
    found.push_back(std::move(u));
  }

  void AddProgram(const Program& program, const shapes::GraphFacts& facts, bool on_devices) {
    const graph::Graph& graph = program.graph();
    for (const Step& step : program.steps()) {
      if (step.kind == Step::Kind::kCopy && !on_devices) continue;  // as its source
      for (ValueId v : step.outputs)
        if (v != kNone && program.place(v) == Place::kPlanned && (!on_devices || step.device != 0))
          Add(facts.of(program.source(v)), program.name(v),
              step.node == kNone ? "" : graph.node(step.node).name);
      for (const auto& [key, body] : step.bodies) {
        const auto it = facts.bodies.find({step.node, key});
        if (it != facts.bodies.end()) AddProgram(*body, *it->second, on_devices);
      }
    }
  }

  std::vector<UnboundedValue> found;

 private:
  const ops::SymbolTable& table_;
  Places places_;
};

}  // namespace

std::vector<UnboundedValue> FindUnbounded(const Program& program, const shapes::GraphFacts& facts,
                                          const std::vector<ops::ValueFacts>& inputs,
                                          const std::vector<bool>& states, const ops::SymbolTable& table,
                                          bool on_devices) {
  const graph::Graph& graph = program.graph();
  Places places;
  for (size_t i = 0; i < inputs.size(); ++i)
    for (int d = 0; d < inputs[i].shape.rank; ++d)
      if (const auto terms = table.TermsOf(inputs[i].shape[d].expr))
        if (terms->size() == 1 && (*terms)[0].symbols.size() == 1)
          places.emplace((*terms)[0].symbols[0],
                         StrCat("dimension ", d, " of input ", graph.value(graph.inputs[i]).name));
  Finder finder(table, std::move(places));
  for (size_t i = 0; i < inputs.size() && !on_devices; ++i)
    if (!states[i]) finder.Add(inputs[i], graph.value(graph.inputs[i]).name, "");
  finder.AddProgram(program, facts, on_devices);
  return std::move(finder.found);
}

void ThrowUnbounded(const std::vector<UnboundedValue>& values) {
  constexpr size_t kShown = 4;
  std::string text, names, details;
  for (size_t i = 0; i < values.size(); ++i) {
    const UnboundedValue& u = values[i];
    std::string needs, needs_json;
    for (const auto& need : u.needs) {
      needs += (needs.empty() ? "" : ", ") + need;
      needs_json += (needs_json.empty() ? "\"" : ",\"") + JsonEscape(need) + "\"";
    }
    if (i < kShown)
      text += StrCat(i ? "; " : "", u.node.empty() ? "input " : "", u.value,
                     u.node.empty() ? "" : " of node " + u.node, needs.empty() ? "" : ", bounded by ", needs);
    names += (i ? ",\"" : "\"") + JsonEscape(u.value) + "\"";
    details += StrCat(i ? "," : "", "{\"value\":\"", JsonEscape(u.value), "\",\"node\":\"",
                      JsonEscape(u.node), "\",\"bounded_by\":[", needs_json, "]}");
  }
  if (values.size() > kShown) text += StrCat("; and ", values.size() - kShown, " more");
  throw Error(Code::kUnsupported,
              StrCat("nothing bounds the size of ", text,
                     "; bound the inputs with --shape, --context or session.max_shape_override"),
              "{\"unbounded\":[" + names + "],\"values\":[" + details + "]}");
}

}  // namespace ullage::session
