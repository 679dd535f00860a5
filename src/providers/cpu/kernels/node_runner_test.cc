#include "providers/cpu/kernels/node_runner.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <memory>

#include "kernels/call_context.h"

namespace ullage::cpu {
namespace {

constexpr size_t kGuard = 64;
constexpr std::byte kMark{0xa5};

/// Memory with marks behind it.
struct Guarded {
  std::unique_ptr<std::byte[]> memory;
  std::byte* data = nullptr;
  size_t bytes = 0;

  explicit Guarded(size_t size) : memory(new std::byte[size + kGuard + 256]), bytes(size) {
    const auto p = reinterpret_cast<uintptr_t>(memory.get());
    data = reinterpret_cast<std::byte*>((p + 255) / 256 * 256);
    std::fill_n(data, size + kGuard, kMark);
  }
  bool intact() const {
    return std::all_of(data + bytes, data + bytes + kGuard, [](std::byte b) { return b == kMark; });
  }
};

class Context final : public kernels::CallContext {
 public:
  using CallContext::CallContext;
  void* GetScratchBuffer(size_t bytes, size_t) override {
    ++scratch_calls;
    scratch.emplace_back(bytes);
    return scratch.back().data;
  }

  providers::Stream* stream() override { return queue; }

  std::vector<Guarded> scratch;
  int scratch_calls = 0;
  providers::Stream* queue = nullptr;
};

/// Regions of a device that mirror memory of the host. Without a device, that memory itself.
class Mirror {
 public:
  explicit Mirror(providers::OpenDevice* device) : device_(device) {}

  /// The address for the device of a place in `memory`, whose contents, marks included, it gets.
  std::byte* Upload(const Guarded& memory, const void* place) {
    const auto* at = static_cast<const std::byte*>(place);
    if (!device_) return const_cast<std::byte*>(at);
    for (const auto& [host, region] : regions_)
      if (host == &memory) return region->data() + (at - memory.data);
    auto region = device_->Reserve(providers::Space::kDevice, static_cast<int64_t>(memory.bytes + kGuard));
    Copy(memory.data, region->data(), memory.bytes + kGuard);
    regions_.emplace_back(&memory, std::move(region));
    return regions_.back().second->data() + (at - memory.data);
  }
  void DownloadAll() {
    for (const auto& [host, region] : regions_) Copy(region->data(), host->data, host->bytes + kGuard);
  }

 private:
  void Copy(const std::byte* from, std::byte* to, size_t bytes) {
    const providers::Copy copy{from, to, static_cast<int64_t>(bytes)};
    device_->Run({&copy, 1}, nullptr);
  }
  providers::OpenDevice* device_;
  std::vector<std::pair<const Guarded*, std::unique_ptr<providers::Region>>> regions_;
};

std::optional<ops::BoundedValues> IntegerValues(const TestTensor& t) {
  if (!IsInteger(t.dtype) || t.shape.elements() > ops::BoundedValues::kMax) return std::nullopt;
  ops::BoundedValues v;
  const int width = BitsOf(t.dtype) / 8;
  for (int64_t i = 0; i < t.shape.elements(); ++i) {
    int64_t n = 0;
    std::memcpy(&n, t.bytes.data() + i * width, static_cast<size_t>(width));
    if (t.dtype == DType::kInt32) n = static_cast<int32_t>(n);
    v[v.count++] = ops::Bound::Exactly(n);
  }
  return v;
}

}  // namespace

std::vector<TestTensor> NodeRunner::Run() {
  graph::Graph graph;
  std::vector<graph::ValueId> in, out;
  std::vector<TensorView> views(inputs_.size());
  std::deque<Guarded> memory;
  std::vector<const Guarded*> memory_of(inputs_.size());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Given& given = inputs_[i];
    if (!given.tensor) {
      in.push_back(graph::kNone);
      continue;
    }
    const TestTensor& t = *given.tensor;
    const std::string name = "in" + std::to_string(i);
    memory.emplace_back(t.bytes.size());
    std::copy(t.bytes.begin(), t.bytes.end(), memory.back().data);
    views[i] = {memory.back().data, t.dtype, t.shape, 0};
    if (given.capacity > 0) {
      // The rows of each head, `capacity` apart.
      const size_t row = BytesOf(t.dtype, t.shape[3]), rows = static_cast<size_t>(t.shape[2]);
      const auto heads = static_cast<size_t>(t.shape[0] * t.shape[1]);
      memory.emplace_back(heads * static_cast<size_t>(given.capacity) * row);
      for (size_t h = 0; h < heads; ++h)
        std::copy_n(t.bytes.begin() + static_cast<ptrdiff_t>(h * rows * row), rows * row,
                    memory.back().data + h * static_cast<size_t>(given.capacity) * row);
      views[i].data = memory.back().data;
      views[i].capacity = given.capacity;
    }
    memory_of[i] = &memory.back();
    if (given.constant) {
      const bool blocks = !given.block_type.empty();
      graph::NewConstant c =
          graph::MakeConstant(t.dtype, blocks ? Shape{static_cast<int64_t>(t.bytes.size())} : t.shape);
      c.constant->block_type = given.block_type;
      c.constant->shape = t.shape;
      std::copy(t.bytes.begin(), t.bytes.end(), c.data);
      in.push_back(graph.AddConstant(name, c.constant));
    } else {
      in.push_back(graph.AddInput(name, t.dtype, std::nullopt));
    }
  }
  for (size_t o = 0; o < wanted_.size(); ++o)
    out.push_back(wanted_[o] ? graph.AddValue("out" + std::to_string(o)) : graph::kNone);
  graph::Node& node = graph.AddNode(domain_, op_, "node", in, out);
  node.opset = opset_;
  for (const auto& [key, value] : attributes_) node.attributes[key] = value;

  const auto apply = [&](bool bounds, std::vector<ops::ValueFacts>* in_facts,
                         std::vector<ops::ValueFacts>* out_facts) {
    ops::TestContext rule(node);
    in_facts->resize(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!inputs_[i].tensor) continue;
      const TestTensor& t = *inputs_[i].tensor;
      ops::BoundedShape shape = ops::BoundedShape::Of(t.shape);
      if (bounds && inputs_[i].bound)
        for (int d = 0; d < shape.rank; ++d)
          shape[d] = ops::Bound::Between(t.shape[d], (*inputs_[i].bound)[d]);
      (*in_facts)[i].dtype = t.dtype;
      (*in_facts)[i].shape = shape;
      rule.Input(static_cast<int>(i), t.dtype, shape);
      auto values = IntegerValues(t);
      if (bounds && inputs_[i].bound) values.reset();
      if (bounds && inputs_[i].most && values)
        for (int k = 0; k < values->count; ++k) (*values)[k] = ops::Bound::Between(0, *inputs_[i].most);
      if (values) rule.InputValues(static_cast<int>(i), *values);
      if (inputs_[i].constant && t.dtype == DType::kFloat && inputs_[i].block_type.empty()) {
        const std::vector<float> floats = t.AsFloats();
        rule.InputDoubles(static_cast<int>(i), {floats.begin(), floats.end()});
      }
    }
    ops::ApplyRule(rule);
    out_facts->resize(wanted_.size());
    for (size_t o = 0; o < wanted_.size(); ++o) {
      if (!wanted_[o]) continue;
      (*out_facts)[o].dtype = rule.out_dtype(static_cast<int>(o));
      (*out_facts)[o].shape = rule.out_shape(static_cast<int>(o));
    }
  };
  std::vector<ops::ValueFacts> in_bounds, out_bounds, in_facts, out_facts;
  apply(true, &in_bounds, &out_bounds);
  apply(false, &in_facts, &out_facts);

  const kernels::KernelInfo info{node, graph, in_bounds, out_bounds, threads_, nullptr, device_};
  std::string reason;
  const auto& provider = provider_ ? *provider_ : providers::CpuProvider();
  const kernels::KernelDef* def = provider.registry().Find(info, &reason);
  if (!def) Throw(Code::kUnsupported, reason);
  const auto kernel = def->create(info);
  ThreadTeam team(threads_);
  Context context(team);
  context.queue = queue_;
  Mirror mirror(device_);
  std::deque<Guarded> reserved;
  std::vector<memory::WorkspaceRequirement> needs;
  kernel->DeclareWorkspaceRequirements({in_bounds, out_bounds, threads_}, needs);
  for (const auto& need : needs) {
    reserved.emplace_back(need.size_bytes);
    context.workspaces.push_back(
        {need.slot_id, need.size_bytes, mirror.Upload(reserved.back(), reserved.back().data)});
  }
  const auto plan = kernel->PlanPrepack();
  for (size_t b = 0; b < plan.size(); ++b) {
    reserved.emplace_back(plan[b].bytes);
    std::byte* block = mirror.Upload(reserved.back(), reserved.back().data);
    kernel->Prepack(static_cast<int>(b), block, team);
    context.blocks.push_back(block);
  }
  const ops::OpInfo* op = ops::FindOp(node.domain, node.op, node.opset);
  const uint32_t on_host = def->host_inputs | (op ? op->reads_values : 0);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    context.inputs.push_back(inputs_[i].tensor ? &views[i] : nullptr);
    if (inputs_[i].tensor && !(on_host >> i & 1)) views[i].data = mirror.Upload(*memory_of[i], views[i].data);
  }
  std::vector<std::optional<Guarded>> results(wanted_.size());
  std::vector<TensorView> out_views(wanted_.size());
  for (size_t o = 0; o < wanted_.size(); ++o) {
    context.outputs.push_back(wanted_[o] ? &out_views[o] : nullptr);
    if (!wanted_[o]) continue;
    TensorView& view = out_views[o];
    view.dtype = out_facts[o].dtype;
    for (int d = 0; d < out_facts[o].shape.rank; ++d) view.shape.push_back(out_facts[o].shape[d].upper);
    results[o].emplace(view.bytes());
    view.data = def->host_outputs >> o & 1 ? results[o]->data : mirror.Upload(*results[o], results[o]->data);
    for (const auto& [i, output] : in_place_)
      if (static_cast<size_t>(output) == o) {
        view.data = views[static_cast<size_t>(i)].data;
        view.capacity = views[static_cast<size_t>(i)].capacity;
      }
  }
  kernel->Prepare(context.blocks, queue_);
  kernel->Compute(context);
  if (queue_) queue_->Finish();
  mirror.DownloadAll();

  scratch_calls_ = context.scratch_calls;
  overrun_ = false;
  for (const auto& m : memory) overrun_ = overrun_ || !m.intact();
  for (const auto& r : reserved) overrun_ = overrun_ || !r.intact();
  for (const auto& r : results) overrun_ = overrun_ || (r && !r->intact());
  std::vector<TestTensor> tensors(wanted_.size());
  for (size_t o = 0; o < wanted_.size(); ++o) {
    if (!wanted_[o]) continue;
    TensorView& v = out_views[o];
    v.data = results[o]->data;
    for (const auto& [i, output] : in_place_)
      if (static_cast<size_t>(output) == o) v.data = memory_of[static_cast<size_t>(i)]->data;
    tensors[o] = {v.dtype, v.shape, std::vector<std::byte>(v.bytes())};
    if (v.capacity == 0) {
      std::copy_n(static_cast<const std::byte*>(v.data), v.bytes(), tensors[o].bytes.begin());
      continue;
    }
    const size_t row = BytesOf(v.dtype, v.shape[3]), rows = static_cast<size_t>(v.shape[2]);
    for (size_t h = 0; h < static_cast<size_t>(v.shape[0] * v.shape[1]); ++h)
      std::copy_n(static_cast<const std::byte*>(v.data) + h * static_cast<size_t>(v.capacity) * row,
                  rows * row, tensors[o].bytes.begin() + static_cast<ptrdiff_t>(h * rows * row));
  }
  return tensors;
}

namespace {

TEST(NodeRunner, FindsTheFaultsItIsMeantToFind) {
  // A kernel that is right passes; one whose workspace is unknown to the plan is seen.
  NodeRunner add("", "Add", 14);
  add.Input(TestTensor::Floats({3}, {1, 2, 3})).Input(TestTensor::Floats({1}, {10}));
  EXPECT_EQ(add.Run()[0].AsFloats(), (std::vector<float>{11, 12, 13}));
  EXPECT_EQ(add.scratch_calls(), 0);
  EXPECT_FALSE(add.overrun());
  NodeRunner missing("", "NoSuchOperator", 14);
  missing.Input(TestTensor::Floats({1}, {1}));
  EXPECT_THROW(missing.Run(), Error);
}

}  // namespace
}  // namespace ullage::cpu
