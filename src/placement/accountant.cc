#include "placement/accountant.h"

#include <algorithm>

#include "core/checked.h"

namespace ullage::placement {

using graph::kNone;
using graph::ValueId;

int64_t NodeCost::total() const {
  int64_t sum = CheckedAdd(initializers, outputs, "cost of a node");
  sum = CheckedAdd(sum, workspace, "cost of a node");
  return CheckedAdd(sum, prepack, "cost of a node");
}

int64_t ApplyWorkspaceHeuristic(int64_t base_bytes) {
  return base_bytes / 2;
}

ResourceAccountant::ResourceAccountant(std::optional<int64_t> limit_bytes, FactsOf facts, ProfileOf profile)
    : limit_(limit_bytes), facts_(std::move(facts)), profile_(std::move(profile)) {}

NodeCost ResourceAccountant::ComputeResourceCount(const NodeRef& ref, uint32_t replaced_inputs) {
  const graph::Graph& graph = *ref.graph;
  NodeCost cost;
  auto& mine = pending_of_[ref];
  std::set<BufferKey> counted;
  for (size_t i = 0; i < ref->inputs.size(); ++i) {
    const graph::Constant* c = graph.ConstantOf(ref->inputs[i]);
    if (!c || c->size_bytes == 0 || (i < 32 && (replaced_inputs >> i & 1))) continue;
    const BufferKey key = KeyOf(*c);
    if (committed_.count(key) || counted.count(key)) continue;
    // Asked again within a pass, the node that was charged is charged the same.
    if (std::find(mine.begin(), mine.end(), key) == mine.end()) {
      if (!pending_.insert(key).second) continue;
      mine.push_back(key);
    }
    counted.insert(key);
    cost.initializers =
        CheckedAdd(cost.initializers, static_cast<int64_t>(c->size_bytes), "initializers of a node");
  }
  const shapes::GraphFacts* facts = facts_ ? facts_(graph) : nullptr;
  if (!facts) return cost;
  for (ValueId v : ref->outputs) {
    if (v == kNone) continue;
    const ops::ValueFacts& f = facts->of(v);
    const int64_t elements = f.kind == graph::TypeKind::kTensor ? f.shape.ElementsUpper() : -1;
    if (elements < 0 || elements == ops::kUnbounded || BitsOf(f.dtype) == 0) continue;
    cost.outputs =
        CheckedAdd(cost.outputs, static_cast<int64_t>(BytesOf(f.dtype, elements)), "outputs of a node");
  }
  return cost;
}

NodeCost ResourceAccountant::ComputeNodeCostForBudget(const NodeRef& ref,
                                                      const kernels::NodeEstimate& estimate) {
  const bool known = estimate.status != kernels::WorkspaceEstimate::Status::kUnavailable;
  NodeCost cost = ComputeResourceCount(ref, known ? estimate.replaced_inputs : 0);
  const auto estimated =
      static_cast<int64_t>(std::max(known ? estimate.workspace_bytes : 0, estimate.transient_bytes));
  cost.prepack = static_cast<int64_t>(estimate.prepack_bytes);
  cost.temporary_prepack = static_cast<int64_t>(estimate.temporary_prepack_bytes);
  if (const auto profile = profile_ ? profile_(ref) : std::nullopt) {
    cost.initializers = profile->initializers;
    cost.outputs = CheckedAdd(profile->inputs, profile->dynamic_outputs, "cost of a node");
    cost.workspace = std::max(profile->temporary, estimated);
    cost.source = known ? CostSource::kBoth : CostSource::kProfile;
  } else if (known) {
    cost.workspace = estimated;
    cost.source = CostSource::kEstimator;
  } else {
    const int64_t base = CheckedAdd(cost.initializers, cost.outputs, "cost of a node");
    cost.workspace = std::max(ApplyWorkspaceHeuristic(base), estimated);
    cost.source = CostSource::kFallback;
  }
  return cost;
}

void ResourceAccountant::BeginPass() {
  pending_.clear();
  pending_of_.clear();
  stopped_ = false;
}

bool ResourceAccountant::Fits(const NodeCost& cost, int64_t pending) const {
  if (!limit_) return true;
  const int64_t used = CheckedAdd(consumed_, pending, "consumed bytes");
  return CheckedAdd(used, cost.total(), "consumed bytes") <= *limit_;
}

void ResourceAccountant::Commit(const NodeRef& node, const NodeCost& cost) {
  consumed_ = CheckedAdd(consumed_, cost.total(), "consumed bytes");
  if (const auto it = pending_of_.find(node); it != pending_of_.end()) {
    for (const BufferKey& key : it->second) {
      committed_.insert(key);
      pending_.erase(key);
    }
    pending_of_.erase(it);
  }
}

void ResourceAccountant::Release(const NodeCost& cost) {
  consumed_ = std::max<int64_t>(0, consumed_ - cost.total());
}

}  // namespace ullage::placement
