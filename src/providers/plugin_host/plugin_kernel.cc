#include "providers/plugin_host/plugin_kernel.h"

#include <algorithm>
#include <bit>
#include <mutex>

#include "core/checked.h"
#include "kernels/late_kernel.h"
#include "kernels/queued_prepack.h"
#include "ops/catalogue.h"
#include "providers/plugin_host/status.h"
#include "providers/plugin_host/structs.h"

namespace ullage::plugin_host {
namespace {

constexpr size_t kMostSlots = 1024;
constexpr size_t kMostBlocks = 4096;

/// A list that a plugin fills by the rule of capacity and need: asks again when there are more than `few`.
template <class T, class Call>
std::vector<T> Listed(const Call& call, size_t few, size_t most, const std::string& subject,
                      const char* what) {
  for (size_t capacity = few;;) {
    std::vector<T> list(capacity, Empty<T>());
    size_t needed = 0;
    Check(call(list.data(), capacity, &needed), subject);
    if (needed > most) Throw(Code::kRuntime, subject, ": states ", needed, " ", what, ", at most are ", most);
    if (needed <= capacity) {
      list.resize(needed);
      return list;
    }
    if (capacity != few) Throw(Code::kRuntime, subject, ": changes its mind about the number of ", what);
    capacity = needed;
  }
}

size_t Alignment(uint32_t given, const std::string& subject) {
  if (given != 0 && !std::has_single_bit(given))
    Throw(Code::kRuntime, subject, ": an alignment of ", given, " bytes is no power of two");
  return given;
}

size_t Amount(uint64_t bytes, const std::string& subject) {
  if (bytes > uint64_t{1} << 62) Throw(Code::kRuntime, subject, ": states ", bytes, " bytes");
  return static_cast<size_t>(bytes);
}

memory::WorkspaceRequirement Requirement(const ullage_slot& slot, const std::string& subject) {
  memory::WorkspaceRequirement r;
  if (slot.id > INT32_MAX) Throw(Code::kRuntime, subject, ": a slot of scratch has the number ", slot.id);
  r.slot_id = static_cast<int>(slot.id);
  r.size_bytes = Amount(slot.bytes, subject);
  r.alignment = Alignment(slot.alignment, subject);
  r.on_host = slot.space == ULLAGE_SPACE_HOST;
  switch (slot.state) {
    case ULLAGE_SLOT_ZERO:
      r.status = memory::WorkspaceStatus::kZero;
      break;
    case ULLAGE_SLOT_KNOWN:
      // What the kernel does not take from the plan it asks for while it runs.
      r.status = slot.flags & ULLAGE_SLOT_PLANNED ? memory::WorkspaceStatus::kKnown
                                                  : memory::WorkspaceStatus::kUnknown;
      break;
    case ULLAGE_SLOT_UNKNOWN:
      r.status = memory::WorkspaceStatus::kUnknown;
      break;
    default:
      Throw(Code::kRuntime, subject, ": slot ", slot.id, " is in state ", static_cast<int>(slot.state));
  }
  // Device memory is used in the order of one queue, so a later step may have it; host memory may not.
  if (slot.flags & ULLAGE_SLOT_OF_SESSION || (slot.flags & ULLAGE_SLOT_ACROSS_SYNC && r.on_host))
    r.lifetime = memory::WorkspaceLifetime::kSession;
  return r;
}

std::vector<kernels::PrepackRequirement> Blocks(const KernelParts& parts, const ullage_kernel_api& api) {
  std::vector<kernels::PrepackRequirement> blocks;
  if (!api.plan_prepack) return blocks;
  const auto list = Listed<ullage_prepack_block>(
      [&](ullage_prepack_block* to, size_t capacity, size_t* needed) {
        return api.plan_prepack(parts.kernel, to, capacity, needed);
      },
      16, kMostBlocks, parts.subject, "blocks of weights");
  for (const auto& from : list) {
    kernels::PrepackRequirement block;
    block.bytes = Amount(from.bytes, parts.subject);
    block.alignment = std::max<size_t>(Alignment(from.alignment, parts.subject), 64);
    for (int i = 0; i < 64; ++i)
      if (from.replaced_inputs >> i & 1) block.replaces.push_back(i);
    if (from.share_key && *from.share_key)
      block.share_key =
          StrCat(parts.device ? parts.device->subject() : std::string(), ":", PluginText(from.share_key));
    blocks.push_back(std::move(block));
  }
  if (!blocks.empty() && (!api.prepack || !api.set_prepacked))
    Throw(Code::kUnsupported, parts.subject, ": the kernel plans blocks of weights but cannot fill them");
  return blocks;
}

template <class Base>
class Adapter final : public Base, public kernels::QueuedPrepack {
 public:
  Adapter(const KernelParts& parts, const ullage_kernel_api& api)
      : parts_(parts), api_(api), blocks_(Blocks(parts, api)) {}
  ~Adapter() override { api_.release(parts_.kernel); }

  std::vector<kernels::PrepackRequirement> PlanPrepack() const override { return blocks_; }

  void Prepack(int index, std::byte* out, ThreadTeam&) override {
    const ullage_region target = BlockAt(static_cast<size_t>(index), out);
    Check(api_.prepack(parts_.kernel, static_cast<size_t>(index), &target, nullptr), parts_.subject);
  }
  void PrepackIn(providers::Stream& stream, int index, std::byte* out) override {
    const ullage_region target = BlockAt(static_cast<size_t>(index), out);
    Check(api_.prepack(parts_.kernel, static_cast<size_t>(index), &target, QueueOf(&stream)), parts_.subject);
  }

  void Prepare(std::span<const std::byte* const> places, providers::Stream* stream) override {
    for (size_t i = 0; i < blocks_.size() && i < places.size(); ++i) {
      const ullage_region region = BlockAt(i, places[i]);
      Check(api_.set_prepacked(parts_.kernel, i, &region), parts_.subject);
    }
    if (api_.prepare) Check(api_.prepare(parts_.kernel, QueueOf(stream)), parts_.subject);
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& requirements) const override {
    if (!api_.declare) return;
    const auto there = [](std::span<const ops::ValueFacts> facts) {
      return [facts](size_t i) { return facts[i].dtype != DType::kUndefined; };
    };
    const auto never = [](size_t) { return false; };
    const ValueInfos inputs(shapes.inputs, there(shapes.inputs), never);
    const ValueInfos outputs(shapes.outputs, there(shapes.outputs), never);
    const auto slots = Listed<ullage_slot>(
        [&](ullage_slot* to, size_t capacity, size_t* needed) {
          return api_.declare(parts_.kernel, inputs.data(), inputs.size(), outputs.data(), outputs.size(), to,
                              capacity, needed);
        },
        8, kMostSlots, parts_.subject, "slots of scratch");
    for (const auto& slot : slots) requirements.push_back(Requirement(slot, parts_.subject));
  }

  void Compute(kernels::KernelContext& context) const override {
    CopyAliases(context);
    ullage_context call{context, parts_, api_.declare != nullptr};
    std::unique_lock<std::mutex> lock;
    if (!RequireDevice(parts_).concurrent()) lock = std::unique_lock(mutex_);
    Check(api_.compute(parts_.kernel, &call), parts_.subject);
  }

 private:
  ullage_region BlockAt(size_t index, const std::byte* at) const {
    if (index >= blocks_.size()) Throw(Code::kRuntime, parts_.subject, ": there is no block ", index);
    ullage_region region;
    RequireDevice(parts_).Find(at, static_cast<int64_t>(blocks_[index].bytes), &region);
    return region;
  }
  /// Results that begin as an input: copied where they got memory of their own.
  void CopyAliases(kernels::KernelContext& context) const {
    if (!parts_.entry) return;
    for (const auto& pair : parts_.entry->aliases) {
      const TensorView* from = context.input(static_cast<int>(pair.input));
      const TensorView* to = context.output(static_cast<int>(pair.output));
      if (!from || !to || from->data == to->data) continue;
      const size_t bytes = from->bytes();
      if (bytes != to->bytes())
        Throw(Code::kRuntime, parts_.subject, ": output ", pair.output, " begins as input ", pair.input,
              " but has another size");
      if (bytes == 0) continue;
      const DeviceHandle& device = RequireDevice(parts_);
      ullage_copy copy{};
      copy.size = sizeof(copy);
      device.Find(from->data, static_cast<int64_t>(bytes), &copy.source);
      device.Find(to->data, static_cast<int64_t>(bytes), &copy.target);
      Check(device.api().copy(device.get(), &copy, 1, QueueOf(context.stream())), parts_.subject);
    }
  }

  KernelParts parts_;
  ullage_kernel_api api_;
  std::vector<kernels::PrepackRequirement> blocks_;
  mutable std::mutex mutex_;
};

template <class T>
std::vector<T> Copied(const T* list, size_t count, const char* what) {
  if (count > 256) Throw(Code::kUnsupported, count, " ", what);
  if (count > 0 && !list) Throw(Code::kUnsupported, what, " are missing");
  return count ? std::vector<T>(list, list + count) : std::vector<T>();
}

uint32_t HostBits(const std::vector<ullage_space_kind>& spaces) {
  uint32_t bits = 0;
  for (size_t i = 0; i < spaces.size() && i < 32; ++i)
    if (spaces[i] == ULLAGE_SPACE_HOST) bits |= 1u << i;
  return bits;
}

/// What a node that is offered to the plugin comes with.
struct Offer {
  Offer(const KernelEntry& entry, const kernels::KernelInfo& from)
      : node(std::make_shared<KernelNode>(from)), device(DeviceOf(from.device)), info{} {
    info.size = sizeof(info);
    info.node = node.get();
    info.device = device ? device->get() : nullptr;
    info.options = entry.options.get();
  }
  std::shared_ptr<KernelNode> node;
  std::shared_ptr<DeviceHandle> device;
  ullage_kernel_info info;
};

}  // namespace

std::shared_ptr<DeviceHandle> DeviceOf(providers::OpenDevice* device) {
  auto* open = dynamic_cast<PluginDevice*>(device);
  return open ? open->handle() : nullptr;
}

ullage_stream* QueueOf(providers::Stream* stream) {
  auto* queue = dynamic_cast<PluginStream*>(stream);
  return queue ? queue->handle() : nullptr;
}

DeviceHandle& RequireDevice(const KernelParts& parts) {
  if (!parts.device) Throw(Code::kRuntime, parts.subject, ": the kernel was made without its device");
  return *parts.device;
}

std::unique_ptr<kernels::Kernel> AdaptKernel(const KernelParts& parts) {
  if (!parts.kernel) Throw(Code::kRuntime, parts.subject, ": the kernel was created as nothing");
  const auto api = Known(parts.kernel->api, "the kernel's table");
  if (!api.release || !api.compute)
    Throw(Code::kUnsupported, parts.subject, ": the kernel's table lacks release or compute");
  try {
    if (parts.late) return std::make_unique<Adapter<kernels::LateKernel>>(parts, api);
    return std::make_unique<Adapter<kernels::Kernel>>(parts, api);
  } catch (...) {
    api.release(parts.kernel);
    throw;
  }
}

KernelEntry::KernelEntry(const ullage_kernel_entry& entry, std::shared_ptr<const Instance> owner,
                         std::shared_ptr<const ullage_options> bag)
    : domain(PluginText(entry.domain)),
      op(PluginText(entry.op)),
      api(entry),
      input_spaces(Copied(entry.input_spaces, entry.input_space_count, "input spaces")),
      output_spaces(Copied(entry.output_spaces, entry.output_space_count, "output spaces")),
      aliases(Copied(entry.aliases, entry.alias_count, "aliases")),
      may_alias(Copied(entry.may_alias, entry.may_alias_count, "possible aliases")),
      caches(Copied(entry.caches, entry.cache_count, "caches")),
      instance(std::move(owner)),
      options(std::move(bag)) {
  if (domain == "ai.onnx") domain.clear();
  if (op.empty()) Throw(Code::kUnsupported, "a kernel for no operator");
  if (!api.create) Throw(Code::kUnsupported, "the kernel for ", op, " has no create");
  if (api.since <= 0) api.since = 1;
  if (api.until == 0) api.until = INT32_MAX;
  if (api.until < api.since)
    Throw(Code::kUnsupported, "the kernel for ", op, " is for versions ", api.since, " to ", api.until);
  for (uint64_t bits : Copied(entry.input_types, entry.input_type_count, "input types"))
    types.push_back(kernels::TypeSet::FromBits(bits));
  for (const auto& pair : caches)
    if (pair.input >= 32)
      Throw(Code::kUnsupported, "the kernel for ", op, " has a cache as input ", pair.input);
}

std::string KernelEntry::Subject(const graph::Node& node) const {
  return StrCat("node ", node.name, " (", node.OpName(), ") on ", instance->name());
}

std::optional<std::string> KernelEntry::Refuse(const kernels::KernelInfo& info) const {
  for (const auto* facts : {&info.inputs, &info.outputs})
    for (const auto& f : *facts)
      if (f.kind != graph::TypeKind::kTensor || f.dtype == DType::kString)
        return "plugins take tensors of numbers only";
  for (const auto& [name, attribute] : info.node.attributes)
    if (std::holds_alternative<std::shared_ptr<graph::Graph>>(attribute))
      return "plugins take no nodes with sub-graphs";
  if (!api.refuse) return {};
  const Offer offer(*this, info);
  char reason[512] = {};
  size_t needed = 0;
  Check(api.refuse(api.state, &offer.info, reason, sizeof(reason), &needed), Subject(info.node));
  reason[sizeof(reason) - 1] = 0;
  if (needed == 0) return {};
  return instance->name() + ": " + PluginText(reason);
}

std::unique_ptr<kernels::Kernel> KernelEntry::Create(const std::shared_ptr<const KernelEntry>& self,
                                                     const kernels::KernelInfo& info) {
  const Offer offer(*self, info);
  const auto on_host = [](const std::vector<ullage_space_kind>& spaces, size_t i) {
    return i < spaces.size() && spaces[i] == ULLAGE_SPACE_HOST;
  };
  KernelParts parts;
  parts.entry = self;
  parts.instance = self->instance;
  parts.node = offer.node;
  parts.device = offer.device;
  parts.subject = self->Subject(info.node);
  parts.late = self->api.flags & ULLAGE_KERNEL_LATE;
  parts.outputs = info.node.outputs.size();
  const auto* known = ops::FindOp(info.node.domain, info.node.op, info.node.opset);
  const uint32_t reads = known ? known->reads_values : 0;
  for (size_t i = 0; i < info.node.inputs.size(); ++i)
    parts.input_on_host.push_back((i < 32 && reads >> i & 1) || on_host(self->input_spaces, i));
  for (size_t o = 0; o < info.node.outputs.size(); ++o)
    parts.output_on_host.push_back(on_host(self->output_spaces, o));
  Check(self->api.create(self->api.state, &offer.info, &parts.kernel), parts.subject);
  return AdaptKernel(parts);
}

kernels::NodeEstimate ReadEstimate(const ullage_estimate& from, const std::string& subject) {
  kernels::NodeEstimate to;
  to.workspace_bytes = Amount(from.workspace_bytes, subject);
  to.transient_bytes = Amount(from.transient_bytes, subject);
  to.prepack_bytes = Amount(from.prepack_bytes, subject);
  to.temporary_prepack_bytes = Amount(from.temporary_prepack_bytes, subject);
  to.replaced_inputs = static_cast<uint32_t>(from.replaced_inputs);
  if (from.certainty == ULLAGE_EXACT) to.status = kernels::WorkspaceEstimate::Status::kExact;
  if (from.certainty == ULLAGE_BOUND) to.status = kernels::WorkspaceEstimate::Status::kBound;
  return to;
}

std::optional<kernels::NodeEstimate> KernelEntry::Estimate(const kernels::KernelInfo& info) const {
  if (!api.estimate) return {};
  const Offer offer(*this, info);
  auto from = Empty<ullage_estimate>();
  const std::string subject = Subject(info.node);
  try {
    Check(api.estimate(api.state, &offer.info, &from), subject);
    return ReadEstimate(from, subject);
  } catch (const Error&) {
    return kernels::NodeEstimate{};
  }
}

kernels::KernelDef KernelEntry::Define(const std::shared_ptr<const KernelEntry>& self) {
  kernels::KernelDef def;
  def.domain = self->domain;
  def.op = self->op;
  def.since = self->api.since;
  def.until = self->api.until;
  def.types = self->types;
  def.create = [self](const kernels::KernelInfo& info) { return Create(self, info); };
  def.refuse = [self](const kernels::KernelInfo& info) { return self->Refuse(info); };
  for (const auto& pair : self->caches) {
    def.cache_inputs |= 1u << pair.input;
    def.cache_pairs.emplace_back(static_cast<int>(pair.input), static_cast<int>(pair.output));
  }
  def.host_inputs = HostBits(self->input_spaces);
  def.host_outputs = HostBits(self->output_spaces);
  return def;
}

}  // namespace ullage::plugin_host
