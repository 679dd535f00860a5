#include "ops/catalogue.h"

#include <algorithm>
#include <climits>
#include <deque>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <tuple>

#include "ops/families.h"

namespace ullage::ops {
namespace {

auto Key(const OpInfo& op) {
  return std::tuple(op.name, op.domain, op.since);
}

Registry Build() {
  Registry ops;
  RegisterElementwise(ops);
  RegisterReductions(ops);
  RegisterLayout(ops);
  RegisterIndexing(ops);
  RegisterScatter(ops);
  RegisterGenerators(ops);
  RegisterSelection(ops);
  RegisterProducts(ops);
  RegisterQuantisedWeights(ops);
  RegisterQuantisation(ops);
  RegisterConvolutions(ops);
  RegisterImages(ops);
  RegisterNorms(ops);
  RegisterAttention(ops);
  RegisterExperts(ops);
  RegisterStates(ops);
  RegisterRecurrent(ops);
  RegisterControl(ops);
  RegisterSequences(ops);
  RegisterSignals(ops);
  RegisterStrings(ops);
  RegisterLosses(ops);
  RegisterUllage(ops);
  std::sort(ops.begin(), ops.end(), [](const OpInfo& a, const OpInfo& b) { return Key(a) < Key(b); });
  return ops;
}

/// Operators that were added while the program runs. Never destroyed: entries are handed out.
struct Added {
  struct Op {
    std::string domain, name;
    OpInfo info;
  };
  std::shared_mutex mutex;
  std::deque<Op> ops;

  static Added& Get() {
    static Added& added = *new Added;
    return added;
  }
  const OpInfo* Find(std::string_view domain, std::string_view name, int opset) {
    const std::shared_lock lock(mutex);
    for (const Op& op : ops)
      if (op.name == name && op.domain == domain)
        return opset == 0 || opset >= op.info.since ? &op.info : nullptr;
    return nullptr;
  }
};

}  // namespace

bool AddOp(const OpInfo& op) {
  Added& added = Added::Get();
  if (FindOp(op.domain, op.name, 0)) return false;
  const std::unique_lock lock(added.mutex);
  for (const auto& known : added.ops)
    if (known.name == op.name && known.domain == op.domain) return false;
  auto& kept = added.ops.emplace_back(Added::Op{std::string(op.domain), std::string(op.name), op});
  kept.info.domain = kept.domain;
  kept.info.name = kept.name;
  return true;
}

const std::vector<OpInfo>& AllOps() {
  static const Registry ops = Build();
  return ops;
}

const OpInfo* FindOp(std::string_view domain, std::string_view name, int opset) {
  if (domain == "ai.onnx") domain = "";
  const auto& ops = AllOps();
  const auto after =
      std::upper_bound(ops.begin(), ops.end(), std::tuple(name, domain, opset == 0 ? INT_MAX : opset),
                       [](const auto& key, const OpInfo& op) { return key < Key(op); });
  if (after != ops.begin()) {
    const OpInfo& op = *std::prev(after);
    if (op.name == name && op.domain == domain) return &op;
  }
  return Added::Get().Find(domain, name, opset);
}

void ApplyRule(ShapeContext& c) {
  const graph::Node& node = c.node();
  const OpInfo* op = FindOp(node.domain, node.op, node.opset);
  if (op == nullptr) {
    const std::string_view domain = node.domain.empty() ? "ai.onnx" : std::string_view(node.domain);
    if (const OpInfo* any = FindOp(node.domain, node.op, 0))
      c.Unsupported("the operator ", node.op, " of domain ", domain, " does not exist in version ",
                    node.opset, " (the newest known form is of version ", any->since, ")");
    c.Unsupported("unknown operator ", node.op, " of domain ", domain, ", version ", node.opset);
  }
  if (c.input_count() > op->max_inputs && op->max_inputs >= 0)
    c.Fail(c.input_count(), " inputs, expected at most ", op->max_inputs);
  for (int i = 0; i < op->min_inputs; ++i)
    if (!c.has(i)) c.Fail("input ", i, " is missing; expected at least ", op->min_inputs);
  if (c.output_count() > op->max_outputs && op->max_outputs >= 0)
    c.Fail(c.output_count(), " outputs, expected at most ", op->max_outputs);
  try {
    op->rule(c);
  } catch (const Error& e) {
    const std::string_view message = e.what();
    if (message.starts_with("node ") || message.starts_with("graph ")) throw;
    Throw(e.code(), "node ", node.name, " (", node.OpName(), "): ", message);
  }
}

int ShapeContext::Axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) Fail("axis ", axis, " of a tensor of rank ", rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace ullage::ops
