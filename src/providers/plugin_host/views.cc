#include "providers/plugin_host/views.h"

#include "providers/plugin_host/structs.h"

namespace ullage::plugin_host {

ullage_value_info DescribeValue(const ops::ValueFacts* facts, bool constant, Ends* ends) {
  auto info = Empty<ullage_value_info>();
  info.max_elements = UINT64_MAX;
  if (!facts) return info;
  const ops::BoundedShape& shape = facts->shape;
  info.dtype = static_cast<int32_t>(facts->dtype);
  info.is_constant = constant;
  info.presence = shape.known_rank() ? ULLAGE_SHAPE_KNOWN : ULLAGE_SHAPE_UNKNOWN;
  if (!shape.known_rank()) return info;
  info.source = shape.exact() ? ULLAGE_SHAPE_FROM_MODEL : ULLAGE_SHAPE_FROM_BOUND;
  info.rank = static_cast<size_t>(shape.rank);
  for (int d = 0; d < shape.rank; ++d) {
    const auto at = static_cast<size_t>(d);
    ends->lower[at] = shape[d].lower < 0 ? 0 : shape[d].lower;
    ends->upper[at] = shape[d].bounded() ? shape[d].upper : -1;
  }
  info.lower = ends->lower.data();
  info.upper = ends->upper.data();
  if (shape.max_elements != ops::kUnbounded) info.max_elements = static_cast<uint64_t>(shape.max_elements);
  return info;
}

namespace {

std::vector<graph::ConstantPtr> ConstantsOf(const kernels::KernelInfo& info) {
  std::vector<graph::ConstantPtr> constants;
  for (size_t i = 0; i < info.node.inputs.size(); ++i) constants.push_back(info.constant(i));
  return constants;
}

}  // namespace

KernelNode::KernelNode(const kernels::KernelInfo& info)
    : ullage_node(info.node),
      graph_(&info.graph),
      constants_(ConstantsOf(info)),
      inputs_(
          info.inputs, [&](size_t i) { return node.has_input(i); },
          [&](size_t i) { return i < constants_.size() && constants_[i]; }),
      outputs_(
          info.outputs, [&](size_t i) { return node.has_output(i); }, [](size_t) { return false; }) {}

void KernelNode::Input(size_t i, ullage_value_info* out) const {
  Fill(out, i < inputs_.size() ? inputs_[i] : DescribeValue(nullptr, false, nullptr), "ullage_value_info");
}

void KernelNode::Output(size_t i, ullage_value_info* out) const {
  Fill(out, i < outputs_.size() ? outputs_[i] : DescribeValue(nullptr, false, nullptr), "ullage_value_info");
}

const graph::Constant* KernelNode::Constant(size_t i) const {
  return i < constants_.size() ? constants_[i].get() : nullptr;
}

}  // namespace ullage::plugin_host

const char* ullage_options::Get(const char* key) const {
  if (!key) return nullptr;
  const std::lock_guard lock(mutex_);
  if (const auto it = texts_.find(key); it != texts_.end()) return it->second.c_str();
  for (const auto& spec : ullage::AllOptions()) {
    if (spec.key != key) continue;
    std::string text;
    switch (spec.type) {
      case ullage::OptionType::kBool:
        text.assign(1, bag_.Bool(key) ? '1' : '0');
        break;
      case ullage::OptionType::kSize:
        text = std::to_string(bag_.Size(key));
        break;
      default:
        text = bag_.Str(key);
    }
    return texts_.emplace(key, std::move(text)).first->second.c_str();
  }
  return nullptr;
}

ullage_graph::ullage_graph(std::span<const ullage::kernels::KernelInfo> infos,
                           const ullage::providers::Group& group) {
  for (const auto& info : infos) {
    for (size_t o = 0; o < info.node.outputs.size(); ++o)
      if (info.node.has_output(o)) producers[{&info.graph, info.node.outputs[o]}] = {nodes.size(), o};
    nodes.push_back(std::make_unique<ullage::plugin_host::KernelNode>(info));
  }
  for (size_t i = 0; i < group.inputs.size(); ++i) {
    inputs[group.inputs[i]] = i;
    constants.push_back(infos.front().graph.ConstantOf(group.inputs[i]));
  }
  for (size_t o = 0; o < group.outputs.size(); ++o) outputs[group.outputs[o]] = o;
}
