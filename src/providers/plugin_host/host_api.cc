#include "providers/plugin_host/host_api.h"

#include <algorithm>
#include <cstdio>

#include "kernels/kernel.h"
#include "providers/plugin_host/plugin_kernel.h"
#include "providers/plugin_host/status.h"
#include "providers/plugin_host/structs.h"

namespace ullage::plugin_host {
namespace {

template <class T>
T& Given(T* pointer, const char* what) {
  if (!pointer) Throw(Code::kUsage, "the host was given no ", what);
  return *pointer;
}

void Log(int32_t level, const char* message) {
  if (level < 2) return;
  std::fprintf(stderr, "ullage: %s: %s\n", level == 2 ? "warning" : "error", message ? message : "");
}

const char* Option(const ullage_options* options, const char* key) {
  try {
    return options ? options->Get(key) : nullptr;
  } catch (...) {
    return nullptr;
  }
}

// -- nodes --

size_t GraphSize(const ullage_graph* graph) {
  return graph ? graph->nodes.size() : 0;
}
const ullage_node* GraphNode(const ullage_graph* graph, size_t index) {
  return graph && index < graph->nodes.size() ? graph->nodes[index].get() : nullptr;
}
const char* NodeName(const ullage_node* node) {
  return node ? node->node.name.c_str() : "";
}
const char* NodeDomain(const ullage_node* node) {
  return node ? node->node.domain.c_str() : "";
}
const char* NodeOp(const ullage_node* node) {
  return node ? node->node.op.c_str() : "";
}
int32_t NodeOpset(const ullage_node* node) {
  return node ? node->node.opset : 0;
}
size_t NodeInputs(const ullage_node* node) {
  return node ? node->node.inputs.size() : 0;
}
size_t NodeOutputs(const ullage_node* node) {
  return node ? node->node.outputs.size() : 0;
}
ullage_status* NodeInput(const ullage_node* node, size_t index, ullage_value_info* info) {
  return Guard([&] { Given(node, "node").Input(index, info); });
}
ullage_status* NodeOutput(const ullage_node* node, size_t index, ullage_value_info* info) {
  return Guard([&] { Given(node, "node").Output(index, info); });
}

/// The node that makes an input, and as which output; SIZE_MAX: none of the graph.
std::pair<size_t, size_t> ProducerOf(const ullage_graph* graph, const ullage_node* node, size_t index) {
  constexpr std::pair<size_t, size_t> kNobody(SIZE_MAX, SIZE_MAX);
  const auto* kernel_node = dynamic_cast<const KernelNode*>(node);
  if (!graph || !kernel_node || !node->node.has_input(index)) return kNobody;
  const auto it = graph->producers.find(std::pair(kernel_node->graph(), node->node.inputs[index]));
  return it == graph->producers.end() ? kNobody : it->second;
}
size_t NodeProducer(const ullage_graph* graph, const ullage_node* node, size_t index) {
  return ProducerOf(graph, node, index).first;
}
size_t NodeProducerOutput(const ullage_graph* graph, const ullage_node* node, size_t index) {
  return ProducerOf(graph, node, index).second;
}

size_t GroupInputs(const ullage_graph* group) {
  return group ? group->inputs.size() : 0;
}
size_t GroupOutputs(const ullage_graph* group) {
  return group ? group->outputs.size() : 0;
}
size_t GroupInput(const ullage_graph* group, const ullage_node* node, size_t index) {
  if (!group || !node || !node->node.has_input(index)) return SIZE_MAX;
  const auto it = group->inputs.find(node->node.inputs[index]);
  return it == group->inputs.end() ? SIZE_MAX : it->second;
}
size_t GroupOutput(const ullage_graph* group, const ullage_node* node, size_t index) {
  if (!group || !node || !node->node.has_output(index)) return SIZE_MAX;
  const auto it = group->outputs.find(node->node.outputs[index]);
  return it == group->outputs.end() ? SIZE_MAX : it->second;
}

ullage_status* NodeConstant(const ullage_node* node, size_t index, const void** bytes, uint64_t* count) {
  return Guard([&] {
    const auto* constant = Given(node, "node").Constant(index);
    Given(bytes, "place for the bytes") = constant ? constant->bytes : nullptr;
    Given(count, "place for their number") = constant ? constant->size_bytes : 0;
  });
}

const char* NodeBlockType(const ullage_node* node, size_t index) {
  const auto* constant = node ? node->Constant(index) : nullptr;
  return constant && !constant->block_type.empty() ? constant->block_type.c_str() : nullptr;
}

// -- attributes --

const graph::Attribute* FindAttribute(const ullage_node* node, const char* name) {
  const auto& all = Given(node, "node").node.attributes;
  const auto it = all.find(std::string_view(&Given(name, "name of an attribute")));
  return it == all.end() ? nullptr : &it->second;
}

/// Null when it is not there; throws when it is of another type.
template <class T>
const T* Attribute(const ullage_node* node, const char* name, const char* type) {
  const auto* attribute = FindAttribute(node, name);
  if (!attribute) return nullptr;
  const T* value = std::get_if<T>(attribute);
  if (!value)
    Throw(Code::kInvalidModel, "node ", node->node.name, " (", node->node.OpName(), "): attribute ", name,
          " is no ", type);
  return value;
}

template <class T>
ullage_status* ScalarAttribute(const ullage_node* node, const char* name, T* value, uint32_t* found,
                               const char* type) {
  return Guard([&] {
    const T* from = Attribute<T>(node, name, type);
    Given(found, "place for whether it was found") = from != nullptr;
    if (from) Given(value, "place for the attribute") = *from;
  });
}

ullage_status* AttributeInt(const ullage_node* node, const char* name, int64_t* value, uint32_t* found) {
  return ScalarAttribute(node, name, value, found, "integer");
}
ullage_status* AttributeFloat(const ullage_node* node, const char* name, float* value, uint32_t* found) {
  return ScalarAttribute(node, name, value, found, "number");
}

template <class List, class Item, class Count>
void HandOut(const List* from, const Item** items, Count* count, uint32_t* found) {
  Given(found, "place for whether it was found") = from != nullptr;
  Given(items, "place for the attribute") = from ? from->data() : nullptr;
  Given(count, "place for its length") = from ? static_cast<Count>(from->size()) : 0;
}

ullage_status* AttributeString(const ullage_node* node, const char* name, const char** text, uint64_t* count,
                               uint32_t* found) {
  return Guard([&] { HandOut(Attribute<std::string>(node, name, "text"), text, count, found); });
}
ullage_status* AttributeInts(const ullage_node* node, const char* name, const int64_t** values, size_t* count,
                             uint32_t* found) {
  return Guard([&] {
    HandOut(Attribute<std::vector<int64_t>>(node, name, "list of integers"), values, count, found);
  });
}
ullage_status* AttributeFloats(const ullage_node* node, const char* name, const float** values, size_t* count,
                               uint32_t* found) {
  return Guard(
      [&] { HandOut(Attribute<std::vector<float>>(node, name, "list of numbers"), values, count, found); });
}
ullage_status* AttributeStringAt(const ullage_node* node, const char* name, size_t at, const char** text,
                                 uint64_t* count, uint32_t* found) {
  return Guard([&] {
    const auto* list = Attribute<std::vector<std::string>>(node, name, "list of texts");
    HandOut(list && at < list->size() ? &(*list)[at] : nullptr, text, count, found);
  });
}

ullage_status* AttributeTensor(const ullage_node* node, const char* name, ullage_value_info* info,
                               const void** bytes, uint64_t* count, uint32_t* found) {
  return Guard([&] {
    const auto* tensor = Attribute<graph::ConstantPtr>(node, name, "tensor");
    Given(found, "place for whether it was found") = tensor != nullptr;
    if (!tensor) return;
    const graph::Constant& constant = **tensor;
    auto described = Empty<ullage_value_info>();
    described.presence = ULLAGE_SHAPE_KNOWN;
    described.dtype = static_cast<int32_t>(constant.dtype);
    described.is_constant = 1;
    described.rank = static_cast<size_t>(constant.shape.rank());
    described.lower = described.upper = constant.shape.begin();
    described.max_elements = UINT64_MAX;
    Fill(info, described, "ullage_value_info");
    Given(bytes, "place for the bytes") = constant.bytes;
    Given(count, "place for their number") = constant.size_bytes;
  });
}

size_t NodeAttributes(const ullage_node* node) {
  return node ? node->node.attributes.size() : 0;
}
const char* AttributeName(const ullage_node* node, size_t index) {
  if (index >= NodeAttributes(node)) return "";
  return std::next(node->node.attributes.begin(), static_cast<ptrdiff_t>(index))->first.c_str();
}

ullage_attribute_type AttributeType(const ullage_node* node, const char* name) {
  if (!node || !name) return ULLAGE_ATTRIBUTE_ABSENT;
  const auto* attribute = FindAttribute(node, name);
  if (!attribute) return ULLAGE_ATTRIBUTE_ABSENT;
  const auto is = [&]<class T>(const T*) { return std::holds_alternative<T>(*attribute); };
  if (is(static_cast<int64_t*>(nullptr))) return ULLAGE_ATTRIBUTE_INT;
  if (is(static_cast<float*>(nullptr))) return ULLAGE_ATTRIBUTE_FLOAT;
  if (is(static_cast<std::string*>(nullptr))) return ULLAGE_ATTRIBUTE_STRING;
  if (is(static_cast<graph::ConstantPtr*>(nullptr))) return ULLAGE_ATTRIBUTE_TENSOR;
  if (is(static_cast<std::vector<int64_t>*>(nullptr))) return ULLAGE_ATTRIBUTE_INTS;
  if (is(static_cast<std::vector<float>*>(nullptr))) return ULLAGE_ATTRIBUTE_FLOATS;
  if (is(static_cast<std::vector<std::string>*>(nullptr))) return ULLAGE_ATTRIBUTE_STRINGS;
  return ULLAGE_ATTRIBUTE_OTHER;
}

// -- registrations, proposals, bounds --

ullage_status* AddKernel(ullage_registry* registry, const ullage_kernel_entry* entry) {
  return Guard([&] { Given(registry, "registry").add(Known(entry, "ullage_kernel_entry")); });
}

ullage_status* AddProposal(ullage_sink* sink, const ullage_proposal* proposal) {
  return Guard([&] {
    auto& to = Given(sink, "place for proposals");
    const auto from = Known(proposal, "ullage_proposal");
    if (from.node_count == 0 || from.node_count > to.nodes || !from.nodes)
      Throw(Code::kUsage, "a proposal of ", from.node_count, " nodes; offered were ", to.nodes);
    providers::Proposal p;
    p.nodes.assign(from.nodes, from.nodes + from.node_count);
    std::sort(p.nodes.begin(), p.nodes.end());
    if (p.nodes.back() >= to.nodes || std::adjacent_find(p.nodes.begin(), p.nodes.end()) != p.nodes.end())
      Throw(Code::kUsage, "a proposal names node ", p.nodes.back(), " of ", to.nodes, ", or one twice");
    p.fused = from.fused != 0;
    p.id = from.id;
    p.estimate = ReadEstimate(from.estimate, "a proposal");
    to.proposals.groups.push_back(std::move(p));
  });
}

ullage_status* OfferRest(ullage_sink* sink) {
  return Guard([&] { Given(sink, "place for proposals").proposals.rest = true; });
}

ullage_status* RemainingBudget(ullage_sink* sink, ullage_resource_count* count) {
  return Guard([&] {
    const auto& budget = Given(sink, "place for proposals").budget;
    ullage_resource_count& to = Given(count, "place for the amount");
    to = {};
    if (!budget) return;
    to.kind = ULLAGE_RESOURCE_BYTES;
    to.value.bytes = static_cast<uint64_t>(std::max<int64_t>(*budget, 0));
  });
}

ullage_status* ShapeInput(ullage_shapes* shapes, size_t index, ullage_value_info* info) {
  return Guard([&] { DescribeInput(Given(shapes, "shapes"), index, info); });
}
ullage_status* SetShapeOutput(ullage_shapes* shapes, size_t index, int32_t dtype, size_t rank,
                              const int64_t* lower, const int64_t* upper) {
  return Guard([&] { SetOutput(Given(shapes, "shapes"), index, dtype, rank, lower, upper); });
}

// -- compute --

uint64_t BytesOfView(const TensorView& view, const graph::Constant* constant) {
  if (constant && !constant->block_type.empty()) return constant->size_bytes;
  if (view.capacity == 0 || view.shape.rank() < 2) return view.bytes();
  Shape room = view.shape;
  room[room.rank() - 2] = view.capacity;
  return BytesOf(view.dtype, room.elements());
}

void HandTensor(const ullage_context& call, const TensorView* view, const graph::Constant* constant,
                bool on_host, const char* what, size_t index, ullage_tensor* out) {
  auto tensor = Empty<ullage_tensor>();
  tensor.region.size = sizeof(tensor.region);
  if (view) {
    tensor.dtype = static_cast<int32_t>(view->dtype);
    tensor.rank = static_cast<size_t>(view->shape.rank());
    tensor.dims = view->shape.begin();
    tensor.capacity = view->capacity;
    const auto bytes = static_cast<int64_t>(BytesOfView(*view, constant));
    tensor.space = RequireDevice(call.parts).Find(view->data, bytes, &tensor.region);
    const bool is_host = tensor.space == ULLAGE_SPACE_HOST || tensor.space == ULLAGE_SPACE_PINNED;
    if (bytes == 0 || !view->data) {  // nothing, or weights that only their packed form is kept of
      tensor.space = on_host ? ULLAGE_SPACE_HOST : ULLAGE_SPACE_DEVICE;
      tensor.region.bytes = 0;
    } else if (is_host != on_host) {
      Throw(Code::kRuntime, call.parts.subject, ": ", what, " ", index, " lies in ",
            is_host ? "host memory" : "device memory");
    }
  }
  Fill(out, tensor, "ullage_tensor");
}

bool At(const std::vector<bool>& list, size_t i) {
  return i < list.size() && list[i];
}

ullage_status* Input(ullage_context* context, size_t index, ullage_tensor* tensor) {
  return Guard([&] {
    auto& call = Given(context, "context");
    const TensorView* view = index <= INT32_MAX ? call.context.input(static_cast<int>(index)) : nullptr;
    const auto& parts = call.parts;
    const graph::Constant* constant = parts.node    ? parts.node->Constant(index)
                                      : parts.group ? parts.group->Constant(index)
                                                    : nullptr;
    HandTensor(call, view, constant, At(parts.input_on_host, index), "input", index, tensor);
  });
}

ullage_status* Output(ullage_context* context, size_t index, ullage_tensor* tensor) {
  return Guard([&] {
    auto& call = Given(context, "context");
    const TensorView* view = index <= INT32_MAX ? call.context.output(static_cast<int>(index)) : nullptr;
    HandTensor(call, view, nullptr, At(call.parts.output_on_host, index), "output", index, tensor);
  });
}

ullage_status* SetOutputShape(ullage_context* context, size_t index, size_t rank, const int64_t* dims) {
  return Guard([&] {
    auto& call = Given(context, "context");
    if (index >= call.parts.outputs)
      Throw(Code::kRuntime, call.parts.subject, ": set_output_shape: there is no output ", index);
    if (rank > kMaxRank || (rank > 0 && !dims))
      Throw(Code::kRuntime, call.parts.subject, ": set_output_shape: a shape of rank ", rank);
    const Shape shape(std::span(dims, rank));
    for (int64_t d : shape)
      if (d < 0) Throw(Code::kRuntime, call.parts.subject, ": set_output_shape: ", shape.ToString());
    shape.elements();
    call.context.SetOutputShape(static_cast<int>(index), shape);
  });
}

ullage_status* Workspace(ullage_context* context, uint32_t slot, uint64_t bytes, ullage_region* region) {
  return Guard([&] {
    auto& call = Given(context, "context");
    size_t planned = 0;
    void* at =
        slot <= INT32_MAX ? call.context.GetPreallocatedWorkspace(static_cast<int>(slot), &planned) : nullptr;
    ullage_region found{};
    if (at && planned >= bytes) RequireDevice(call.parts).Find(at, static_cast<int64_t>(planned), &found);
    Fill(region, found, "ullage_region");
  });
}

ullage_status* Scratch(ullage_context* context, uint32_t slot, uint64_t bytes, uint32_t alignment,
                       ullage_region* region) {
  return Guard([&] {
    auto& call = Given(context, "context");
    if (!call.may_scratch)
      Throw(Code::kRuntime, call.parts.subject, ": a kernel without declare asks for scratch (slot ", slot,
            ")");
    if (bytes > INT64_MAX || (alignment & (alignment - 1)) != 0)
      Throw(Code::kRuntime, call.parts.subject, ": asks for ", bytes, " bytes of scratch aligned to ",
            alignment);
    void* at = call.context.GetScratchBuffer(bytes, std::max<uint32_t>(alignment, 64));
    ullage_region found{};
    RequireDevice(call.parts).Find(at, static_cast<int64_t>(bytes), &found);
    Fill(region, found, "ullage_region");
  });
}

ullage_stream* StreamOf(ullage_context* context) {
  return context ? QueueOf(context->context.stream()) : nullptr;
}

ullage_host_api MakeTable() {
  auto api = Empty<ullage_host_api>();
  api.abi_version = ULLAGE_ABI_VERSION;
  api.create_status = MakeStatus;
  api.release_status = ReleaseStatus;
  api.log = Log;
  api.option = Option;
  api.graph_size = GraphSize;
  api.graph_node = GraphNode;
  api.node_name = NodeName;
  api.node_domain = NodeDomain;
  api.node_op = NodeOp;
  api.node_opset = NodeOpset;
  api.node_inputs = NodeInputs;
  api.node_outputs = NodeOutputs;
  api.node_input = NodeInput;
  api.node_output = NodeOutput;
  api.node_producer = NodeProducer;
  api.node_producer_output = NodeProducerOutput;
  api.group_inputs = GroupInputs;
  api.group_outputs = GroupOutputs;
  api.group_input = GroupInput;
  api.group_output = GroupOutput;
  api.offer_rest = OfferRest;
  api.node_constant = NodeConstant;
  api.node_block_type = NodeBlockType;
  api.node_attributes = NodeAttributes;
  api.attribute_name = AttributeName;
  api.attribute_type = AttributeType;
  api.attribute_int = AttributeInt;
  api.attribute_float = AttributeFloat;
  api.attribute_string = AttributeString;
  api.attribute_ints = AttributeInts;
  api.attribute_floats = AttributeFloats;
  api.attribute_string_at = AttributeStringAt;
  api.attribute_tensor = AttributeTensor;
  api.add_kernel = AddKernel;
  api.add_proposal = AddProposal;
  api.remaining_budget = RemainingBudget;
  api.shape_input = ShapeInput;
  api.set_shape_output = SetShapeOutput;
  api.input = Input;
  api.output = Output;
  api.set_output_shape = SetOutputShape;
  api.workspace = Workspace;
  api.scratch = Scratch;
  api.stream = StreamOf;
  return api;
}

}  // namespace

const ullage_host_api& HostApi() {
  static const ullage_host_api& api = *new ullage_host_api(MakeTable());
  return api;
}

}  // namespace ullage::plugin_host
