#include "sdk/shared_source.h"

#include <algorithm>

#include "kernels/estimate.h"

namespace ullage::plugin {
namespace {

constexpr char kAbsent[] = "the model's weights are not there";

graph::ConstantPtr ConstantOf(const ullage_value_info& info, const void* bytes, uint64_t count,
                              const char* block_type) {
  auto constant = std::make_shared<graph::Constant>();
  constant->dtype = DTypeFromOnnx(info.dtype);
  constant->shape = Shape(std::span(info.upper, info.rank));
  constant->size_bytes = count;
  constant->bytes = static_cast<const std::byte*>(bytes);
  if (block_type) constant->block_type = block_type;
  constant->absent = kAbsent;
  return constant;
}

void CopyAttribute(const Node& from, const char* name, graph::Node* to) {
  auto& value = to->attributes[name];
  switch (from.type(name)) {
    case ULLAGE_ATTRIBUTE_INT:
      value = *from.Int(name);
      return;
    case ULLAGE_ATTRIBUTE_FLOAT:
      value = *from.Float(name);
      return;
    case ULLAGE_ATTRIBUTE_STRING:
      value = std::string(*from.Str(name));
      return;
    case ULLAGE_ATTRIBUTE_INTS: {
      const auto list = from.Ints(name);
      value = std::vector<int64_t>(list.begin(), list.end());
      return;
    }
    case ULLAGE_ATTRIBUTE_FLOATS: {
      const auto list = from.Floats(name);
      value = std::vector<float>(list.begin(), list.end());
      return;
    }
    case ULLAGE_ATTRIBUTE_STRINGS:
      value = from.Strings(name);
      return;
    case ULLAGE_ATTRIBUTE_TENSOR: {
      auto info = Sized<ullage_value_info>();
      const void* bytes = nullptr;
      uint64_t count = 0;
      uint32_t found = 0;
      Check(Host().attribute_tensor(from.get(), name, &info, &bytes, &count, &found));
      value = ConstantOf(info, bytes, count, nullptr);
      return;
    }
    default:
      throw Failure(ULLAGE_UNSUPPORTED,
                    "attribute " + std::string(name) + " is of a kind that plugins do not see");
  }
}

SharedEntry& EntryOf(void* state) {
  return *static_cast<SharedEntry*>(state);
}

ullage_status* Estimate(void* state, const ullage_kernel_info* info, ullage_estimate* out) {
  return Guard([&] {
    const SharedEntry& entry = EntryOf(state);
    const SharedNode node{Node(info->node)};
    const auto estimate =
        kernels::EstimateWorkspace(entry.def(), node.Info(entry.threads(), &entry.options()));
    out->certainty = estimate.status == kernels::WorkspaceEstimate::Status::kExact   ? ULLAGE_EXACT
                     : estimate.status == kernels::WorkspaceEstimate::Status::kBound ? ULLAGE_BOUND
                                                                                     : ULLAGE_UNAVAILABLE;
    out->workspace_bytes = estimate.workspace_bytes;
    out->transient_bytes = estimate.transient_bytes;
    out->prepack_bytes = estimate.prepack_bytes;
    out->temporary_prepack_bytes = estimate.temporary_prepack_bytes;
    out->replaced_inputs = estimate.replaced_inputs;
  });
}

ullage_status* Refuse(void* state, const ullage_kernel_info* info, char* reason, size_t capacity,
                      size_t* needed) {
  return Guard([&] {
    *needed = 0;
    const SharedEntry& entry = EntryOf(state);
    const SharedNode node{Node(info->node)};
    const auto text = entry.def().refuse(node.Info(entry.threads(), &entry.options()));
    if (!text) return;
    *needed = text->size() + 1;
    if (capacity == 0) return;
    const size_t n = std::min(text->size(), capacity - 1);
    std::memcpy(reason, text->data(), n);
    reason[n] = 0;
  });
}

/// One call of a rule of the host's kind. Contents are known of no input but constants.
class RuleContext final : public ops::ShapeContext {
 public:
  RuleContext(const kernels::KernelInfo& info, ullage_shapes* shapes)
      : ShapeContext(info.node, ops::BoundMath()), info_(info), shapes_(shapes) {}

  const ops::BoundedShape& shape(int i) const override { return facts(i).shape; }
  DType dtype(int i) const override { return facts(i).dtype; }
  const ops::BoundedValues* values(int) const override { return nullptr; }
  const graph::Constant* constant(int i) const override {
    return has(i) ? info_.constant(static_cast<size_t>(i)).get() : nullptr;
  }
  int doubles(int, std::span<double>) const override { return -1; }
  std::vector<ops::ValueFacts> RunSubgraph(const graph::Graph&, std::span<const ops::ValueFacts>) override {
    throw Failure(ULLAGE_UNSUPPORTED, "sub-graphs are not shown to plugins");
  }
  /// What has no known rank stays unknown.
  void Set(int o, DType dtype, const ops::BoundedShape& shape) override {
    if (!shape.known_rank()) return;
    std::vector<int64_t> lower, upper;
    for (int d = 0; d < shape.rank; ++d) {
      lower.push_back(shape[d].lower);
      upper.push_back(shape[d].upper == ops::kUnbounded ? -1 : shape[d].upper);
    }
    Check(Host().set_shape_output(shapes_, static_cast<size_t>(o), static_cast<int32_t>(dtype), lower.size(),
                                  lower.data(), upper.data()));
  }
  void SetKind(int, graph::TypeKind, const ops::Bound&) override {
    throw Failure(ULLAGE_UNSUPPORTED, "sequences are not shown to plugins");
  }
  void SetValues(int, const ops::BoundedValues&) override {}
  bool wants_values() const override { return false; }

 private:
  const ops::ValueFacts& facts(int i) const { return info_.inputs[static_cast<size_t>(i)]; }
  const kernels::KernelInfo& info_;
  ullage_shapes* const shapes_;
};

ullage_status* ShapeBound(void* state, const ullage_node* node, ullage_shapes* shapes) {
  return Guard([&] {
    const SharedNode shared{Node(node)};
    const kernels::KernelInfo info = shared.Info(1, nullptr);
    RuleContext context(info, shapes);
    EntryOf(state).rule()(context);
  });
}

}  // namespace

ops::ValueFacts FactsOf(const ullage_value_info& info) {
  ops::ValueFacts facts;
  facts.dtype = DTypeFromOnnx(info.dtype);
  if (info.presence != ULLAGE_SHAPE_KNOWN) return facts;
  facts.shape = ops::BoundedShape::Scalar();
  for (size_t d = 0; d < info.rank; ++d)
    facts.shape.push_back(
        ops::Bound::Between(info.lower[d], info.upper[d] < 0 ? ops::kUnbounded : info.upper[d]));
  if (info.max_elements < static_cast<uint64_t>(ops::kUnbounded))
    facts.shape.max_elements = static_cast<int64_t>(info.max_elements);
  return facts;
}

std::vector<ops::ValueFacts> FactsOf(Kernel::Infos infos) {
  std::vector<ops::ValueFacts> all;
  for (const auto& info : infos) all.push_back(FactsOf(info));
  return all;
}

OptionBag BagOf(const Options& options) {
  OptionBag bag;
  for (const auto& spec : AllOptions())
    if (const char* value = Host().option(options.get(), std::string(spec.key).c_str()))
      bag.Set(spec.key, value);
  return bag;
}

TensorView ViewOf(const ullage_tensor& tensor, void* data) {
  TensorView view;
  view.data = data;
  view.dtype = static_cast<DType>(tensor.dtype);
  view.shape = Shape(std::span(tensor.dims, tensor.rank));
  view.capacity = tensor.capacity;
  return view;
}

ullage_code CodeOf(const std::exception& e) {
  const auto* error = dynamic_cast<const Error*>(&e);
  if (!error) return ULLAGE_FAILED;
  switch (error->code()) {
    case Code::kDoesNotFit:
      return ULLAGE_OUT_OF_MEMORY;
    case Code::kUnsupported:
      return ULLAGE_UNSUPPORTED;
    case Code::kInterrupted:
      return ULLAGE_INTERRUPTED;
    case Code::kUsage:
      return ULLAGE_INVALID_ARGUMENT;
    default:
      return ULLAGE_FAILED;
  }
}

SharedNode::SharedNode(const Node& from) {
  std::vector<graph::ValueId> in, out;
  for (size_t i = 0; i < from.inputs(); ++i) {
    const ullage_value_info info = from.input(i);
    inputs_.push_back(FactsOf(info));
    if (info.presence == ULLAGE_ABSENT) {
      in.push_back(graph::kNone);
      continue;
    }
    const std::string name = "in" + std::to_string(i);
    if (info.is_constant && info.presence == ULLAGE_SHAPE_KNOWN) {
      const auto bytes = from.constant(i);
      in.push_back(graph_.AddConstant(
          name, ConstantOf(info, bytes.data, bytes.count, Host().node_block_type(from.get(), i))));
    } else {
      in.push_back(graph_.AddInput(name, inputs_.back().dtype, {}));
    }
  }
  for (size_t o = 0; o < from.outputs(); ++o) {
    const ullage_value_info info = from.output(o);
    outputs_.push_back(FactsOf(info));
    out.push_back(info.presence == ULLAGE_ABSENT
                      ? graph::kNone
                      : graph_.AddValue("out" + std::to_string(o), outputs_.back().dtype));
  }
  node_ = &graph_.AddNode(from.domain(), from.op(), from.name(), in, out);
  node_->opset = from.opset();
  for (size_t i = 0; i < Host().node_attributes(from.get()); ++i)
    CopyAttribute(from, Host().attribute_name(from.get(), i), node_);
}

SharedEntry::SharedEntry(const kernels::KernelDef& def, const OptionBag& options, int threads, bool late,
                         CreateFn create)
    : def_(def),
      options_(options),
      threads_(threads),
      domain_(def.domain),
      op_(def.op),
      entry_(Sized<ullage_kernel_entry>()) {
  for (const auto& set : def.types) {
    uint64_t bits = 0;
    for (int t = 0; t < 64; ++t)
      if (set.contains(static_cast<DType>(t))) bits |= uint64_t{1} << t;
    types_.push_back(bits);
  }
  for (const auto& [past, present] : def.cache_pairs)
    caches_.push_back({static_cast<uint32_t>(past), static_cast<uint32_t>(present)});
  const auto spaces = [](uint32_t host, std::vector<ullage_space_kind>* list) {
    for (; host != 0; host >>= 1) list->push_back(host & 1 ? ULLAGE_SPACE_HOST : ULLAGE_SPACE_DEVICE);
  };
  spaces(def.host_inputs, &input_spaces_);
  spaces(def.host_outputs, &output_spaces_);
  entry_.domain = domain_.c_str();
  entry_.op = op_.c_str();
  entry_.since = def.since;
  entry_.until = def.until == INT32_MAX ? 0 : def.until;
  entry_.input_types = types_.data();
  entry_.input_type_count = types_.size();
  entry_.input_spaces = input_spaces_.data();
  entry_.input_space_count = input_spaces_.size();
  entry_.output_spaces = output_spaces_.data();
  entry_.output_space_count = output_spaces_.size();
  entry_.caches = caches_.data();
  entry_.cache_count = caches_.size();
  entry_.flags = late ? ULLAGE_KERNEL_LATE : 0;
  entry_.state = this;
  entry_.create = create;
  entry_.estimate = Estimate;
  if (def.refuse) entry_.refuse = Refuse;
}

void SharedEntry::BringOperator(const ops::OpInfo& op) {
  if (op.reads_values || op.stateful || op.view_of >= 0)
    throw Failure(ULLAGE_UNSUPPORTED, "operator " + op_ + " needs what the ABI cannot say of operators");
  rule_ = op.rule;
  entry_.shape_bound = ShapeBound;
  for (uint32_t i = 0; i < 32; ++i)
    if (op.in_place >> i & 1) may_alias_.push_back({i, 0});
  entry_.may_alias = may_alias_.data();
  entry_.may_alias_count = may_alias_.size();
}

}  // namespace ullage::plugin
