/// Bound rules of operators that only plugins know.
#include <map>
#include <mutex>
#include <shared_mutex>

#include "ops/catalogue.h"
#include "providers/plugin_host/plugin_kernel.h"
#include "providers/plugin_host/status.h"
#include "providers/plugin_host/structs.h"

namespace ullage::plugin_host {
namespace {

/// Registrations by domain and operator; those whose provider is gone are dropped when they are met. Never
/// destroyed: rules may run until the process ends.
struct Rules {
  std::shared_mutex mutex;
  std::map<std::pair<std::string, std::string>, std::vector<std::weak_ptr<const KernelEntry>>, std::less<>>
      entries;

  static Rules& Get() {
    static Rules& rules = *new Rules;
    return rules;
  }
  std::shared_ptr<const KernelEntry> Find(const graph::Node& node) {
    const std::shared_lock lock(mutex);
    const auto it = entries.find(std::pair(node.domain, node.op));
    if (it == entries.end()) return nullptr;
    for (const auto& weak : it->second)
      if (auto entry = weak.lock())
        if (node.opset >= entry->api.since && node.opset <= entry->api.until) return entry;
    return nullptr;
  }
};

/// What a rule sees of its node: the bounds of this call.
class RuleNode final : public ullage_node {
 public:
  explicit RuleNode(ullage_shapes& shapes) : ullage_node(shapes.context.node()), shapes_(shapes) {}
  void Input(size_t i, ullage_value_info* out) const override { DescribeInput(shapes_, i, out); }
  void Output(size_t i, ullage_value_info* out) const override {
    auto info = DescribeValue(nullptr, false, nullptr);
    if (node.has_output(i)) info.presence = ULLAGE_SHAPE_UNKNOWN;
    Fill(out, info, "ullage_value_info");
  }
  const graph::Constant* Constant(size_t i) const override {
    return i < node.inputs.size() && node.has_input(i) ? shapes_.context.constant(static_cast<int>(i))
                                                       : nullptr;
  }

 private:
  ullage_shapes& shapes_;
};

void PluginRule(ops::ShapeContext& c) {
  const auto entry = Rules::Get().Find(c.node());
  if (!entry) c.Unsupported("no plugin in use knows this operator in version ", c.node().opset);
  for (int i = 0; i < c.input_count(); ++i)
    if (c.has(i) && c.kind(i) != graph::TypeKind::kTensor) c.Unsupported("input ", i, " is no tensor");
  ullage_shapes shapes(c);
  const RuleNode node(shapes);
  Check(entry->api.shape_bound(entry->api.state, &node, &shapes), entry->Subject(c.node()));
}

}  // namespace

void DescribeInput(ullage_shapes& shapes, size_t i, ullage_value_info* out) {
  ops::ShapeContext& c = shapes.context;
  const int at = static_cast<int>(i);
  if (i >= c.node().inputs.size() || !c.has(at)) {
    Fill(out, DescribeValue(nullptr, false, nullptr), "ullage_value_info");
    return;
  }
  Ends* ends = i < shapes.few.size() ? &shapes.few[i] : nullptr;
  if (!ends) ends = shapes.more.emplace_back(std::make_unique<Ends>()).get();
  ops::ValueFacts facts;
  facts.dtype = c.dtype(at);
  facts.shape = c.shape(at);
  Fill(out, DescribeValue(&facts, c.constant(at) != nullptr, ends), "ullage_value_info");
}

void SetOutput(ullage_shapes& shapes, size_t i, int32_t dtype, size_t rank, const int64_t* lower,
               const int64_t* upper) {
  ops::ShapeContext& c = shapes.context;
  if (i >= c.node().outputs.size()) Throw(Code::kRuntime, "set_shape_output: there is no output ", i);
  const DType type = DTypeFromOnnx(dtype);
  if (type == DType::kUndefined) Throw(Code::kRuntime, "set_shape_output: ", dtype, " is no element type");
  if (rank > kMaxRank || (rank > 0 && (!lower || !upper)))
    Throw(Code::kRuntime, "set_shape_output: a shape of rank ", rank);
  ops::BoundedShape shape = ops::BoundedShape::Scalar();
  for (size_t d = 0; d < rank; ++d) {
    if (lower[d] < 0 || (upper[d] < lower[d] && upper[d] != -1))
      Throw(Code::kRuntime, "set_shape_output: dimension ", d, " lies between ", lower[d], " and ", upper[d]);
    shape.push_back(ops::Bound::Between(lower[d], upper[d] == -1 ? ops::kUnbounded : upper[d]));
  }
  if (c.wants(static_cast<int>(i))) c.Set(static_cast<int>(i), type, shape);
}

void OfferOperator(const std::shared_ptr<const KernelEntry>& entry) {
  uint32_t in_place = 0;
  for (const auto* pairs : {&entry->aliases, &entry->may_alias})
    for (const auto& pair : *pairs)
      if (pair.output == 0 && pair.input < 32) in_place |= 1u << pair.input;
  ops::OpInfo info;
  info.domain = entry->domain;
  info.name = entry->op;
  info.min_inputs = 0;
  info.max_inputs = -1;
  info.max_outputs = -1;
  info.rule = PluginRule;
  info.in_place = in_place;
  const auto* known = ops::FindOp(entry->domain, entry->op, 0);
  if (known && known->rule != PluginRule) return;
  if (!entry->api.shape_bound)
    Throw(Code::kUnsupported, "nobody knows the shapes of ", entry->op, " of domain ", entry->domain,
          ": its kernel has no shape_bound");
  if (!known) ops::AddOp(info);
  known = ops::FindOp(entry->domain, entry->op, 0);
  if (known->in_place & ~in_place)
    Throw(Code::kUnsupported, "another plugin writes results of ", entry->op,
          " over inputs that this one's kernel needs");
  Rules& rules = Rules::Get();
  const std::unique_lock lock(rules.mutex);
  auto& list = rules.entries[{entry->domain, entry->op}];
  std::erase_if(list, [](const auto& weak) { return weak.expired(); });
  list.push_back(entry);
}

}  // namespace ullage::plugin_host
