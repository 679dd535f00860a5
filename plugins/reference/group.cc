#include "reference/group.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "kernels/call_context.h"
#include "kernels/estimate.h"
#include "memory/workspace.h"

namespace ullage::reference {

using plugin::Failure;

namespace {

/// Operators whose result has the shape that their inputs are broadcast to.
constexpr std::string_view kElementwise[] = {
    "Abs", "Add", "Cos",        "Div",  "Erf",     "Exp", "Log",      "Max",  "Min", "Mul",
    "Neg", "Pow", "Reciprocal", "Relu", "Sigmoid", "Sin", "Softplus", "Sqrt", "Sub", "Tanh"};

bool IsElementwise(const plugin::Node& node) {
  return node.domain().empty() && node.outputs() == 1 &&
         std::find(std::begin(kElementwise), std::end(kElementwise), node.op()) != std::end(kElementwise);
}

bool NeedsNothing(const kernels::KernelDef& def, const kernels::KernelInfo& info) {
  const auto estimate = kernels::EstimateWorkspace(def, info);
  return estimate.status != kernels::WorkspaceEstimate::Status::kUnavailable &&
         estimate.workspace_bytes + estimate.prepack_bytes == 0;
}

/// Upper ends of the shape that both are broadcast to; rank -1: unknown.
ops::BoundedShape Broadcast(const ops::BoundedShape& a, const ops::BoundedShape& b) {
  if (!a.known_rank() || !b.known_rank()) return ops::BoundedShape::Unknown();
  ops::BoundedShape result = ops::BoundedShape::Scalar();
  const int rank = std::max(a.rank, b.rank);
  for (int d = 0; d < rank; ++d) {
    const auto upper = [&](const ops::BoundedShape& s) {
      const int at = d - (rank - s.rank);
      return at < 0 ? int64_t{1} : s[at].upper;
    };
    const int64_t x = upper(a), y = upper(b);
    result.push_back(ops::Bound::Between(0, x == 0 || y == 0 ? 0 : std::max(x, y)));
  }
  return result;
}

Shape Broadcast(const Shape& a, const Shape& b) {
  Shape result;
  const int rank = std::max(a.rank(), b.rank());
  for (int d = 0; d < rank; ++d) {
    const auto size = [&](const Shape& s) {
      const int at = d - (rank - s.rank());
      return at < 0 ? int64_t{1} : s[at];
    };
    result.push_back(size(a) == 1 ? size(b) : size(a));
  }
  return result;
}

memory::WorkspaceRequirement Inner(size_t member, DType dtype, const ops::BoundedShape& shape) {
  memory::WorkspaceRequirement need;
  need.slot_id = static_cast<int>(member);
  const int64_t elements = shape.ElementsUpper();
  if (elements == ops::kUnbounded)
    need.status = memory::WorkspaceStatus::kUnknown;
  else
    need.size_bytes = static_cast<size_t>(BytesOf(dtype, elements));
  return need;
}

}  // namespace

std::vector<std::vector<size_t>> FindChains(const plugin::Graph& graph, size_t most, const FindFn& find) {
  std::vector<std::vector<size_t>> chains;
  if (most < 2) return chains;
  constexpr size_t kAlone = SIZE_MAX;
  std::vector<size_t> chain_of(graph.size(), kAlone);
  std::vector<bool> eligible(graph.size(), false);
  for (size_t n = 0; n < graph.size(); ++n) {
    const plugin::Node node = graph.node(n);
    if (!IsElementwise(node)) continue;
    const plugin::SharedNode shared(node);
    const kernels::KernelInfo info = shared.Info(1, nullptr);
    const auto* def = find(info);
    eligible[n] = def && def->host_inputs == 0 && def->host_outputs == 0 && NeedsNothing(*def, info);
    if (!eligible[n]) continue;
    for (size_t i = 0; i < node.inputs(); ++i) {
      const size_t before = graph.producer(node, i);
      if (before == SIZE_MAX || !eligible[before]) continue;
      size_t& chain = chain_of[before];
      if (chain == kAlone) {
        chain = chains.size();
        chains.push_back({before});
      }
      if (chains[chain].size() >= most) continue;
      chain_of[n] = chain;
      chains[chain].push_back(n);
      break;
    }
  }
  return chains;
}

ullage_estimate EstimateGroup(const plugin::Graph& graph, const std::vector<size_t>& nodes) {
  // A view of nodes that are offered does not tell who else reads a result: the last node's leaves the group,
  // of the others all are counted.
  std::vector<memory::WorkspaceRequirement> needs;
  auto estimate = plugin::Sized<ullage_estimate>();
  estimate.certainty = ULLAGE_BOUND;
  for (size_t m = 0; m + 1 < nodes.size(); ++m) {
    const ops::ValueFacts facts = plugin::FactsOf(graph.node(nodes[m]).output(0));
    needs.push_back(Inner(m, facts.dtype, facts.shape));
    if (needs.back().status == memory::WorkspaceStatus::kUnknown) estimate.certainty = ULLAGE_UNAVAILABLE;
  }
  if (estimate.certainty != ULLAGE_UNAVAILABLE) estimate.workspace_bytes = memory::WorkspaceTotal(needs);
  return estimate;
}

GroupKernel::GroupKernel(const plugin::Graph& group, const FindFn& find) {
  for (size_t n = 0; n < group.size(); ++n) {
    const plugin::Node node = group.node(n);
    Member& member = members_.emplace_back();
    member.node = std::make_unique<plugin::SharedNode>(node);
    const kernels::KernelInfo info = member.node->Info(1, nullptr);
    const auto* def = IsElementwise(node) ? find(info) : nullptr;
    if (!def) throw Failure(ULLAGE_UNSUPPORTED, "node " + node.name() + " does not run in a group");
    member.kernel = def->create(info);
    member.output = group.output(node, 0);
    member.dtype = info.outputs[0].dtype;
    for (size_t i = 0; i < node.inputs(); ++i) {
      const size_t from = group.producer(node, i);
      member.inputs.push_back({from != SIZE_MAX, from != SIZE_MAX ? from : group.input(node, i)});
    }
  }
}

void GroupKernel::DeclareWorkspaceRequirements(
    const kernels::WorkspaceShapes& shapes, std::vector<memory::WorkspaceRequirement>& requirements) const {
  std::vector<ops::BoundedShape> made;
  for (size_t m = 0; m < members_.size(); ++m) {
    const Member& member = members_[m];
    ops::BoundedShape shape = ops::BoundedShape::Scalar();
    for (const Source& source : member.inputs)
      shape = Broadcast(shape, source.inside ? made.at(source.index) : shapes.inputs[source.index].shape);
    made.push_back(shape);
    if (member.output == SIZE_MAX) requirements.push_back(Inner(m, member.dtype, shape));
  }
}

void GroupKernel::Compute(kernels::KernelContext& context) const {
  /// One of the kernels, with the memory of the group.
  class Inner final : public kernels::CallContext {
   public:
    Inner(kernels::KernelContext& whole) : CallContext(whole.threads()), whole_(whole) {}
    void* GetScratchBuffer(size_t bytes, size_t alignment) override {
      return whole_.GetScratchBuffer(bytes, alignment);
    }

   private:
    kernels::KernelContext& whole_;
  };
  std::vector<TensorView> made(members_.size());
  for (size_t m = 0; m < members_.size(); ++m) {
    const Member& member = members_[m];
    std::vector<TensorView> views;
    views.reserve(member.inputs.size());
    Shape shape;
    for (const Source& source : member.inputs) {
      views.push_back(source.inside ? made[source.index] : *context.input(static_cast<int>(source.index)));
      shape = Broadcast(shape, views.back().shape);
    }
    TensorView& result = made[m];
    if (member.output != SIZE_MAX) {
      result = *context.output(static_cast<int>(member.output));
    } else {
      result.dtype = member.dtype;
      result.shape = shape;
      size_t room = 0;
      result.data = context.GetPreallocatedWorkspace(static_cast<int>(m), &room);
      if (result.bytes() > room) throw Failure(ULLAGE_FAILED, "a value within a group has no room");
    }
    Inner call(context);
    for (auto& view : views) call.inputs.push_back(&view);
    call.outputs.push_back(&result);
    member.kernel->Compute(call);
  }
}

}  // namespace ullage::reference
