#include <cstring>

#include "core/error.h"
#include "graph/absent.h"
#include "kernels/call_context.h"
#include "providers/provider.h"
#include "session/run_shapes.h"
#include "session/session.h"

namespace ullage::session {
namespace {

using graph::ConstantPtr;

/// Memory on the heap for one call of one kernel.
class HeapContext final : public kernels::CallContext {
 public:
  using CallContext::CallContext;
  void* GetScratchBuffer(size_t bytes, size_t alignment) override { return Aligned(bytes, alignment); }

  std::byte* Aligned(size_t bytes, size_t alignment) {
    owned_.push_back(std::make_unique<std::byte[]>(bytes + alignment));
    const auto p = reinterpret_cast<uintptr_t>(owned_.back().get());
    return reinterpret_cast<std::byte*>((p + alignment - 1) / alignment * alignment);
  }

 private:
  std::vector<std::unique_ptr<std::byte[]>> owned_;
};

}  // namespace

std::vector<ConstantPtr> EvaluateNode(const graph::Node& node, const graph::Graph& graph,
                                      std::span<const ConstantPtr> inputs, bool may_read) {
  const ops::OpInfo* op = ops::FindOp(node.domain, node.op, node.opset);
  if (!op || op->stateful || !node.captures.empty()) return {};
  std::vector<TensorView> views(inputs.size());
  std::vector<ops::BoundedShape> shapes(inputs.size());
  std::vector<RunInput> seen(inputs.size());
  std::vector<ops::ValueFacts> in_facts(inputs.size());
  std::vector<TensorView*> in(inputs.size(), nullptr);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    if (!inputs[i]->block_type.empty() || BitsOf(inputs[i]->dtype) == 0) return {};
    if (!inputs[i]->available() && may_read) return {};
    views[i].data = const_cast<std::byte*>(inputs[i]->bytes);
    views[i].dtype = inputs[i]->dtype;
    views[i].shape = inputs[i]->shape;
    shapes[i] = ops::BoundedShape::Of(inputs[i]->shape);
    seen[i] = {&views[i], &shapes[i], inputs[i].get()};
    in_facts[i].dtype = inputs[i]->dtype;
    in_facts[i].shape = shapes[i];
    in[i] = &views[i];
  }
  std::vector<RunShapeContext::Result> results(node.outputs.size());
  const auto values = std::make_unique<RunValues>();
  RunShapeContext rule(node, seen, *values, results);
  op->rule(rule);
  std::vector<ops::ValueFacts> out_facts(node.outputs.size());
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    if (node.outputs[o] == graph::kNone) continue;
    const auto& r = results[o];
    if (!r.set || r.kind != graph::TypeKind::kTensor || !r.shape.known_rank() ||
        r.shape.ElementsUpper() == ops::kUnbounded || BitsOf(r.dtype) == 0)
      return {};
    for (int d = 0; d < r.shape.rank; ++d)
      if (!r.shape[d].bounded()) return {};
    out_facts[o].dtype = r.dtype;
    out_facts[o].shape = r.shape;
  }
  const kernels::KernelInfo info{node, graph, in_facts, out_facts, 1};
  const bool is_view = op->view_of >= 0 && !node.has_output(1);
  const kernels::KernelDef* def = is_view ? nullptr : providers::CpuProvider().registry().Find(info, nullptr);
  if (!is_view && !def) return {};
  if (!may_read) {
    std::vector<ConstantPtr> absent(node.outputs.size());
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      if (node.outputs[o] == graph::kNone) continue;
      if (!results[o].shape.exact()) return {};
      absent[o] =
          graph::MakeAbsent(results[o].dtype, results[o].shape.ToShape(),
                            StrCat("the result of node ", node.name, " is not computed for planning"));
    }
    return absent;
  }
  std::vector<graph::NewConstant> made;
  std::vector<TensorView> out_views(node.outputs.size());
  std::vector<TensorView*> out(node.outputs.size(), nullptr);
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    Shape shape;
    if (node.outputs[o] != graph::kNone)
      for (int d = 0; d < results[o].shape.rank; ++d) shape.push_back(results[o].shape[d].upper);
    made.push_back(
        graph::MakeConstant(node.outputs[o] == graph::kNone ? DType::kUInt8 : results[o].dtype, shape));
    if (node.outputs[o] == graph::kNone) continue;
    out_views[o] = {made[o].data, results[o].dtype, shape, 0};
    out[o] = &out_views[o];
  }
  if (is_view) {
    const TensorView* source = in[static_cast<size_t>(op->view_of)];
    if (out[0] && source && source->bytes() == out[0]->bytes() && out[0]->bytes() > 0)
      std::memcpy(out[0]->data, source->data, out[0]->bytes());
  } else {
    ThreadTeam team(1);
    const auto kernel = def->create(info);
    HeapContext context(team);
    context.inputs = in;
    context.outputs = out;
    std::vector<memory::WorkspaceRequirement> needs;
    kernel->DeclareWorkspaceRequirements({in_facts, out_facts, 1}, needs);
    for (const auto& need : needs) {
      const size_t alignment = need.alignment ? need.alignment : memory::kDefaultWorkspaceAlignment;
      context.workspaces.push_back(
          {need.slot_id, need.size_bytes, context.Aligned(need.size_bytes, alignment)});
    }
    const auto blocks = kernel->PlanPrepack();
    for (size_t b = 0; b < blocks.size(); ++b) {
      std::byte* block = context.Aligned(blocks[b].bytes, blocks[b].alignment);
      kernel->Prepack(static_cast<int>(b), block, team);
      context.blocks.push_back(block);
    }
    kernel->Compute(context);
  }
  std::vector<ConstantPtr> constants;
  for (size_t o = 0; o < node.outputs.size(); ++o) {
    if (out[o]) {
      made[o].constant->shape = out[o]->shape;
      made[o].constant->size_bytes = out[o]->bytes();
    }
    constants.push_back(made[o].constant);
  }
  return constants;
}

}  // namespace ullage::session
