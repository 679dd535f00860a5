/// Common subexpressions: nodes of one operator with the same inputs and attributes are computed once (the
/// mask and the rotary tables, which some exporters write out for each layer).
#include <cstring>
#include <map>
#include <type_traits>

#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

void Append(std::string& key, const void* bytes, size_t size) {
  key.append(static_cast<const char*>(bytes), size);
}
template <class T>
void AppendValue(std::string& key, const T& v) {
  static_assert(std::is_trivially_copyable_v<T>);
  Append(key, &v, sizeof v);
}
void AppendText(std::string& key, std::string_view text) {
  AppendValue(key, text.size());
  key += text;
}

/// What a small constant is, by contents; empty for a large one or one without data.
std::string Contents(const graph::Constant& c) {
  constexpr size_t kSmall = 1024;
  if (!c.available() || c.size_bytes > kSmall || !c.block_type.empty() || BitsOf(c.dtype) == 0) return {};
  std::string key;
  AppendValue(key, c.dtype);
  AppendText(key, c.shape.ToString());
  Append(key, c.data().data(), c.size_bytes);
  return key;
}

/// Appends type and value; false for sub-graphs, which are not compared.
bool AppendAttribute(std::string& key, const graph::Attribute& attribute) {
  AppendValue(key, attribute.index());
  return std::visit(
      [&](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, int64_t> || std::is_same_v<T, float>) {
          AppendValue(key, v);
        } else if constexpr (std::is_same_v<T, std::string>) {
          AppendText(key, v);
        } else if constexpr (std::is_same_v<T, std::vector<int64_t>> ||
                             std::is_same_v<T, std::vector<float>>) {
          AppendValue(key, v.size());
          for (const auto& x : v) AppendValue(key, x);
        } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
          AppendValue(key, v.size());
          for (const auto& x : v) AppendText(key, x);
        } else if constexpr (std::is_same_v<T, graph::ConstantPtr>) {
          const std::string contents = v ? Contents(*v) : std::string();
          if (contents.empty())
            AppendValue(key, v.get());
          else
            AppendText(key, contents);
        } else {
          return false;
        }
        return true;
      },
      attribute);
}

class Merger {
 public:
  explicit Merger(PassContext& context) : graph_(context.graph()), lens_(context) {}

  int Run() {
    int merged = 0;
    for (NodeId id : graph_.Order()) merged += Merge(id);
    return merged;
  }

 private:
  /// Equal small constants count as one.
  ValueId Representative(ValueId v) {
    const auto c = lens_.constant(v);
    const std::string contents = c ? Contents(*c) : std::string();
    return contents.empty() ? v : constants_.emplace(contents, v).first->second;
  }

  bool Merge(NodeId id) {
    const Node& node = graph_.node(id);
    const ops::OpInfo* op = ops::FindOp(node.domain, node.op, node.opset);
    if (!op || op->stateful || !node.captures.empty() || node.inputs.empty()) return false;
    std::string key;
    AppendText(key, node.domain);
    AppendText(key, node.op);
    AppendValue(key, node.opset);
    AppendValue(key, node.inputs.size());
    for (ValueId v : node.inputs) AppendValue(key, v == kNone ? kNone : Representative(v));
    AppendValue(key, node.outputs.size());
    for (const auto& [name, attribute] : node.attributes) {
      AppendText(key, name);
      if (!AppendAttribute(key, attribute)) return false;
    }
    const auto [it, fresh] = seen_.emplace(std::move(key), id);
    if (fresh) return false;
    const Node& first = graph_.node(it->second);
    for (size_t o = 0; o < node.outputs.size(); ++o)
      if (node.has_output(o) && (graph_.IsOutput(node.outputs[o]) || !first.has_output(o))) return false;
    const std::vector<ValueId> outputs = node.outputs;
    graph::Patch patch(graph_, "common-subexpressions");
    for (size_t o = 0; o < outputs.size(); ++o)
      if (outputs[o] != kNone) Redirect(patch, outputs[o], first.outputs[o]);
    patch.Remove(id);
    return true;
  }

  graph::Graph& graph_;
  Lens lens_;
  std::map<std::string, ValueId> constants_;
  std::map<std::string, NodeId> seen_;
};

}  // namespace

int MergeCommon(PassContext& context) {
  return Merger(context).Run();
}

}  // namespace ullage::transforms
