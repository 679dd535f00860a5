#include "op.h"

#include <algorithm>
#include <cstring>

namespace ullage_opencl {
namespace {

Op& Of(ullage_kernel* kernel) {
  return *static_cast<Op*>(kernel);
}

Tensor TensorOf(const ullage_tensor& t) {
  Tensor tensor;
  tensor.dtype = t.dtype;
  if (t.dtype == kNone) return tensor;
  if (t.rank > kMaxRank) Fail(ULLAGE_UNSUPPORTED, "a tensor of rank " + std::to_string(t.rank));
  tensor.rank = static_cast<int>(t.rank);
  std::copy_n(t.dims, t.rank, tensor.dims.begin());
  tensor.capacity = t.capacity;
  tensor.buffer = t.region.buffer;
  tensor.offset = t.region.offset;
  tensor.pointer = t.region.pointer;
  return tensor;
}

/// Fills `out` of `capacity` with all that fits; `needed` gets the number. The reader's structures may be
/// shorter or longer than ours.
template <class From, class To, class Convert>
void Fill(const std::vector<From>& from, To* out, size_t capacity, size_t* needed, const Convert& convert) {
  *needed = from.size();
  for (size_t i = 0; i < from.size() && i < capacity; ++i) {
    To value{};
    convert(from[i], &value);
    To* to = ULLAGE_AT(To, out, i);
    value.size = to->size;
    std::memcpy(to, &value, std::min(to->size, sizeof(To)));
  }
}

void FillSlot(const Slot& slot, ullage_slot* out) {
  out->id = slot.id;
  out->state = slot.bytes < 0 ? ULLAGE_SLOT_UNKNOWN : slot.bytes == 0 ? ULLAGE_SLOT_ZERO : ULLAGE_SLOT_KNOWN;
  out->bytes = static_cast<uint64_t>(std::max<int64_t>(slot.bytes, 0));
  out->flags = ULLAGE_SLOT_PLANNED | ULLAGE_SLOT_ACROSS_SYNC;
  out->space = ULLAGE_SPACE_DEVICE;
}

void FillBlock(const Block& block, ullage_prepack_block* out) {
  out->bytes = static_cast<uint64_t>(block.bytes);
  out->replaced_inputs = block.replaced_inputs;
  out->share_key = block.share_key.c_str();
}

std::vector<ValueFacts> FactsOf(const ullage_value_info* infos, size_t count) {
  std::vector<ValueFacts> all;
  for (size_t i = 0; i < count; ++i)
    all.push_back(ValueFacts::Of(*ULLAGE_AT(const ullage_value_info, infos, i)));
  return all;
}

// Keeps what share_key points to: the text of Blocks() is a temporary.
thread_local std::vector<Block> t_blocks;

const ullage_kernel_api kKernelApi = {
    sizeof(ullage_kernel_api),
    [](ullage_kernel* kernel) { delete &Of(kernel); },
    [](ullage_kernel* kernel, ullage_context* context) { return Guard([&] { Of(kernel).Run(context); }); },
    [](ullage_kernel* kernel, const ullage_value_info* inputs, size_t input_count,
       const ullage_value_info* outputs, size_t output_count, ullage_slot* slots, size_t capacity,
       size_t* needed) {
      return Guard([&] {
        Facts facts{FactsOf(inputs, input_count), FactsOf(outputs, output_count)};
        std::vector<Slot> all;
        Of(kernel).Declare(facts, all);
        Fill(all, slots, capacity, needed, FillSlot);
      });
    },
    [](ullage_kernel* kernel, ullage_prepack_block* blocks, size_t capacity, size_t* needed) {
      return Guard([&] {
        t_blocks = Of(kernel).Blocks();
        Fill(t_blocks, blocks, capacity, needed, FillBlock);
      });
    },
    [](ullage_kernel* kernel, size_t index, const ullage_region* target, ullage_stream*) {
      return Guard([&] { Of(kernel).Prepack(index, *target); });
    },
    [](ullage_kernel* kernel, size_t index, const ullage_region* region) {
      return Guard([&] { Of(kernel).SetPrepacked(index, *region); });
    },
    [](ullage_kernel* kernel, ullage_stream*) { return Guard([&] { Of(kernel).Prepare(); }); },
};

ullage_status* Create(void* state, const ullage_kernel_info* info, ullage_kernel** kernel) {
  *kernel = nullptr;
  return Guard([&] { *kernel = static_cast<const OpEntry*>(state)->make(*info).release(); });
}

ullage_status* Estimate(void* state, const ullage_kernel_info* info, ullage_estimate* estimate) {
  return Guard([&] {
    estimate->certainty = ULLAGE_UNAVAILABLE;
    const auto op = static_cast<const OpEntry*>(state)->make(*info);
    std::vector<Slot> slots;
    op->Declare(Node(info->node).facts(), slots);
    uint64_t bytes = 0;
    for (const Slot& slot : slots) {
      if (slot.bytes < 0) return;
      bytes += static_cast<uint64_t>(slot.bytes);
    }
    estimate->workspace_bytes = bytes;
    for (const Block& block : op->Blocks()) {
      estimate->prepack_bytes += static_cast<uint64_t>(block.bytes);
      estimate->replaced_inputs |= block.replaced_inputs;
    }
    estimate->certainty = ULLAGE_BOUND;
  });
}

ullage_status* Refuse(void* state, const ullage_kernel_info* info, char* reason, size_t capacity,
                      size_t* needed) {
  *needed = 0;
  return Guard([&] {
    const std::string why = Refusal(*static_cast<const OpEntry*>(state), *info);
    if (why.empty()) return;
    *needed = why.size() + 1;
    if (capacity == 0) return;
    const size_t fits = std::min(capacity - 1, why.size());
    std::memcpy(reason, why.data(), fits);
    reason[fits] = '\0';
  });
}

}  // namespace

Context::Context(ullage_context* context, Device& device, size_t inputs, size_t outputs)
    : context_(context), device_(device), inputs_(inputs), outputs_(outputs) {
  const auto* stream = Host().stream(context);
  own_ = stream == nullptr;
  queue_ = stream ? stream->queue : device.own_queue();
  for (size_t i = 0; i < inputs; ++i) {
    ullage_tensor t{};
    t.size = sizeof t;
    Check(Host().input(context, i, &t));
    inputs_[i] = TensorOf(t);
  }
  for (size_t i = 0; i < outputs; ++i) {
    ullage_tensor t{};
    t.size = sizeof t;
    Check(Host().output(context, i, &t));
    outputs_[i] = TensorOf(t);
  }
}

ullage_region Context::Workspace(uint32_t slot, int64_t bytes) const {
  ullage_region region{};
  region.size = sizeof region;
  if (bytes <= 0) return region;
  const auto count = static_cast<uint64_t>(bytes);
  Check(Host().workspace(context_, slot, count, &region));
  if (region.bytes < count) {
    region = {};
    region.size = sizeof region;
    Check(Host().scratch(context_, slot, count, device_.facts().alignment, &region));
  }
  return region;
}

Op::Op(const ullage_kernel_info& info)
    : node_(info.node),
      device_(*static_cast<Device*>(info.device)),
      inputs_(Host().node_inputs(info.node)),
      outputs_(Host().node_outputs(info.node)) {
  api = &kKernelApi;
}

Op::Op(const ullage_node* last, Device& device, size_t inputs, size_t outputs)
    : node_(last), device_(device), inputs_(inputs), outputs_(outputs) {
  api = &kKernelApi;
}

void Op::Declare(const Facts&, std::vector<Slot>&) const {}

void Op::Prepack(size_t, const ullage_region&) {
  node_.Unsupported("nothing to pack");
}

void Op::SetPrepacked(size_t index, const ullage_region& region) {
  if (blocks_.size() <= index) blocks_.resize(index + 1);
  blocks_[index] = region;
}

const ullage_region& Op::block(size_t index) const {
  if (index >= blocks_.size() || !blocks_[index].buffer) node_.Invalid("its weights are not packed");
  return blocks_[index];
}

KernelRef& Op::Use(const std::string& program, const std::string& options, const std::string& kernel,
                   const std::string& text) {
  kernels_.push_back(std::make_unique<KernelRef>(program, options, kernel, text));
  return *kernels_.back();
}

void Op::Prepare() {
  for (const auto& ref : kernels_) device_.Get(*ref);
}

void Op::Run(ullage_context* call) const {
  const Context context(call, device_, inputs_, outputs_);
  Compute(context);
  if (context.own_queue()) CheckCl(Cl().Finish(context.queue()), "node " + node_.name());
}

const std::vector<OpEntry>& AllOps() {
  static const std::vector<OpEntry> all = [] {
    std::vector<OpEntry> ops;
    AddElementwise(ops);
    AddMovement(ops);
    AddGather(ops);
    AddLinear(ops);
    AddMatMul(ops);
    AddNorm(ops);
    AddReduce(ops);
    AddRotary(ops);
    AddAttention(ops);
    AddConv(ops);
    AddConvTranspose(ops);
    AddPool(ops);
    AddQuantize(ops);
    AddRecurrent(ops);
    AddResize(ops);
    AddScatter(ops);
    return ops;
  }();
  return all;
}

void RegisterOps(ullage_registry* registry) {
  for (const OpEntry& op : AllOps()) {
    ullage_kernel_entry entry{};
    entry.size = sizeof entry;
    entry.domain = op.domain.c_str();
    entry.op = op.op.c_str();
    entry.since = op.since;
    entry.until = op.until;
    entry.input_types = op.types.data();
    entry.input_type_count = op.types.size();
    entry.input_spaces = op.input_spaces.data();
    entry.input_space_count = op.input_spaces.size();
    entry.output_spaces = op.output_spaces.data();
    entry.output_space_count = op.output_spaces.size();
    entry.may_alias = op.may_alias.data();
    entry.may_alias_count = op.may_alias.size();
    entry.caches = op.caches.data();
    entry.cache_count = op.caches.size();
    entry.state = const_cast<OpEntry*>(&op);
    entry.create = Create;
    entry.estimate = Estimate;
    entry.refuse = Refuse;
    Check(Host().add_kernel(registry, &entry));
  }
}

std::string Refusal(const OpEntry& entry, const ullage_kernel_info& info) {
  std::string why;
  if (entry.refuse) why = entry.refuse(Node(info.node));
  if (!why.empty()) return why;
  try {
    entry.make(info);
  } catch (const Failure& f) {
    return f.text;
  }
  return "";
}

std::string Define(const char* name, int64_t value) {
  return std::string("-D") + name + "=" + std::to_string(value) + " ";
}

int TypeCode(int32_t dtype) {
  switch (dtype) {
    case kFloat:
      return 0;
    case kFloat16:
      return 1;
    case kBFloat16:
      return 2;
    case kInt64:
      return 3;
    case kInt32:
      return 4;
    case kBool:
      return 5;
    case kUInt8:
      return 6;
    case kInt8:
      return 7;
    case kUInt32:
      return 8;
    case kUInt64:
      return 9;
    case kInt16:
      return 10;
    case kUInt16:
      return 11;
    default:
      Fail(ULLAGE_UNSUPPORTED, "elements of type " + std::to_string(dtype));
  }
}

}  // namespace ullage_opencl
