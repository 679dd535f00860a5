#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/temp_folder.h"
#include "kernels/call_context.h"
#include "kernels/late_kernel.h"
#include "kernels/lookup.h"
#include "ops/catalogue.h"
#include "providers/plugin_host/host_api.h"
#include "providers/plugin_host/plugin_device.h"
#include "providers/plugin_host/plugins.h"
#include "providers/plugin_host/status.h"

namespace ullage::plugin_host {
namespace {

using providers::Space;

std::string File(const std::string& name) {
  return std::string(ULLAGE_TEST_PLUGINS) + "/libullage_plugin_" + name + ".so";
}

/// The two plugins that work, loaded once: their options are registered for good.
const Plugins& Good() {
  static const Plugins& plugins = *new Plugins({File("features"), File("older")});
  return plugins;
}

OptionBag Options(std::initializer_list<std::pair<std::string, std::string>> pairs) {
  Good();
  OptionBag options;
  options.Set("session.devices", "features");
  for (const auto& [key, value] : pairs) options.Set(key, value);
  return options;
}

std::shared_ptr<const providers::Provider> Make(
    std::initializer_list<std::pair<std::string, std::string>> pairs) {
  auto all = Good().Create(Options(pairs));
  if (all.size() != 1) Throw(Code::kRuntime, "one provider expected, found ", all.size());
  return all[0];
}

template <class Fn>
Error ErrorOf(const Fn& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e;
  }
  return Error(Code::kBusy, "nothing was thrown");
}

/// Whether the system can read a byte there.
bool Readable(const void* at) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const bool can = write(ends[1], at, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return can;
}

/// A graph with one node of `op` over x: float32 [2, N] with N up to 3, and a constant.
struct OneNode {
  explicit OneNode(std::string_view op, std::string_view domain = "com.test", int opset = 1) {
    const std::vector<float> w{10};
    std::vector<graph::ValueId> in{graph.AddInput("x", DType::kFloat, {}),
                                   graph.AddConstant("w", graph::MakeFloats({1}, w))};
    node = &graph.AddNode(domain, op, "the_node", in, {graph.AddValue("y", DType::kFloat)});
    node->opset = opset;
    facts[0].dtype = facts[1].dtype = out[0].dtype = DType::kFloat;
    facts[0].shape = ops::BoundedShape::OfDims({ops::Bound::Exactly(2), ops::Bound::Between(1, 3)});
    facts[1].shape = ops::BoundedShape::Of({1});
    out[0].shape = facts[0].shape;
  }
  kernels::KernelInfo Info(providers::OpenDevice* device = nullptr) {
    return {*node, graph, facts, out, 1, nullptr, device};
  }
  graph::Graph graph;
  graph::Node* node;
  std::array<ops::ValueFacts, 2> facts;
  std::array<ops::ValueFacts, 1> out;
};

class Context final : public kernels::CallContext {
 public:
  using CallContext::CallContext;
  void* GetScratchBuffer(size_t, size_t) override { return scratch; }
  providers::Stream* stream() override { return queue; }
  void* scratch = nullptr;
  providers::Stream* queue = nullptr;
};

/// An open device with values in it.
struct Bench {
  explicit Bench(std::shared_ptr<const providers::Provider> p) : provider(std::move(p)) {
    device = provider->Open(provider->devices().at(0));
    region = device->Reserve(Space::kDevice, 4096);
    stream = device->CreateStream();
    context.queue = stream.get();
  }
  void Put(int64_t offset, std::vector<float> values) {
    const providers::Copy copy{reinterpret_cast<const std::byte*>(values.data()), region->data() + offset,
                               static_cast<int64_t>(values.size() * 4)};
    device->Run({&copy, 1}, nullptr);
  }
  std::vector<float> Get(int64_t offset, size_t count) {
    std::vector<float> values(count);
    const providers::Copy copy{region->data() + offset, reinterpret_cast<std::byte*>(values.data()),
                               static_cast<int64_t>(count * 4)};
    device->Run({&copy, 1}, stream.get());
    stream->Finish();
    return values;
  }
  std::unique_ptr<kernels::Kernel> Create(OneNode& node) {
    const auto* def = provider->registry().Find(node.Info(device.get()), &reason);
    if (!def) Throw(Code::kUnsupported, reason);
    return def->create(node.Info(device.get()));
  }
  std::shared_ptr<const providers::Provider> provider;
  std::unique_ptr<providers::OpenDevice> device;
  std::unique_ptr<providers::Region> region;
  std::unique_ptr<providers::Stream> stream;
  std::string reason;
  ThreadTeam team{1};
  Context context{team};
};

TEST(PluginHost, Devices) {
  const auto provider = Make({{"ep.features.devices", "3"}, {"ep.features.capacity", "8KiB"}});
  EXPECT_EQ(provider->name(), "features");
  const auto devices = provider->devices();
  ASSERT_EQ(devices.size(), 3u);
  for (int i = 0; i < 3; ++i) {
    const auto& d = devices[static_cast<size_t>(i)];
    EXPECT_EQ(d.name, "features:" + std::to_string(i));
    EXPECT_EQ(d.ordinal, i);
    EXPECT_EQ(d.type, providers::DeviceType::kNpu);
    EXPECT_EQ(d.capacity_bytes, 8192);
    EXPECT_EQ(d.free_bytes, 8192);
    EXPECT_EQ(d.copy_bandwidth, 1000000);
    EXPECT_EQ(d.description, "test device ");
    EXPECT_TRUE(d.only_when_named);
  }
  const auto device = provider->Open(devices[1]);
  EXPECT_EQ(device->alignment(), 128);
  EXPECT_EQ(device->max_region(Space::kDevice), 1 << 20);
  EXPECT_EQ(device->max_region(Space::kWeights), 1 << 20);
  EXPECT_EQ(device->max_region(Space::kPinned), 0);
  EXPECT_EQ(device->memory().overhead_bytes, 7);
  device->BeginRun();
  device->EndRun();
}

TEST(PluginHost, MemoryIsOutOfReachAndCounted) {
  Bench bench(Make({{"ep.features.capacity", "8KiB"}}));
  EXPECT_FALSE(Readable(bench.region->data()));
  EXPECT_FALSE(Readable(bench.region->data() + 4095));
  EXPECT_EQ(bench.device->memory().free_bytes, 4096);
  auto second = bench.device->Reserve(Space::kWeights, 4096);
  EXPECT_EQ(bench.device->memory().free_bytes, 0);
  const auto full = ErrorOf([&] { bench.device->Reserve(Space::kDevice, 1); });
  EXPECT_EQ(full.code(), Code::kDoesNotFit);
  EXPECT_NE(full.message().find("device features:0"), std::string::npos) << full.message();
  second.reset();
  EXPECT_EQ(bench.device->memory().free_bytes, 4096);
  EXPECT_EQ(bench.device->Reserve(Space::kDevice, 0)->data(), nullptr);
  EXPECT_EQ(ErrorOf([&] { bench.device->Reserve(Space::kDevice, 2 << 20); }).code(), Code::kDoesNotFit);
  EXPECT_EQ(ErrorOf([&] { bench.device->Reserve(Space::kPinned, 8); }).code(), Code::kUnsupported);
}

TEST(PluginHost, Copies) {
  Bench bench(Make({}));
  bench.Put(8, {1, 2, 3});
  std::vector<providers::Copy> within;
  for (int i = 0; i < 40; ++i)
    within.push_back({bench.region->data() + 8, bench.region->data() + 1024 + 12 * i, 12});
  within.push_back({nullptr, nullptr, 0});
  bench.device->Run(within, bench.stream.get());
  EXPECT_EQ(bench.Get(1024 + 12 * 39, 3), (std::vector<float>{1, 2, 3}));
  float host = 0;
  const providers::Copy nowhere{reinterpret_cast<std::byte*>(&host), reinterpret_cast<std::byte*>(&host), 4};
  EXPECT_EQ(ErrorOf([&] { bench.device->Run({&nowhere, 1}, nullptr); }).code(), Code::kRuntime);
  const providers::Copy beyond{bench.region->data() + 4094, reinterpret_cast<std::byte*>(&host), 4};
  EXPECT_EQ(ErrorOf([&] { bench.device->Run({&beyond, 1}, nullptr); }).code(), Code::kRuntime);
}

TEST(PluginHost, EventsAndStreams) {
  Bench bench(Make({}));
  const auto other = bench.device->CreateStream();
  const auto event = bench.device->CreateEvent();
  event->Wait();  // never recorded
  other->Wait(*event);
  event->Record(*bench.stream);
  other->Wait(*event);
  event->Wait();
  other->Flush();
  other->Finish();
}

TEST(PluginHost, ScaleFromEstimateToResult) {
  Bench bench(Make({}));
  OneNode node("Scale");
  node.node->attributes["factor"] = 0.5f;
  const auto* def = bench.provider->registry().Find(node.Info(bench.device.get()), &bench.reason);
  ASSERT_NE(def, nullptr) << bench.reason;
  const auto estimate = bench.provider->Estimate(bench.device->info(), *def, node.Info(bench.device.get()));
  EXPECT_EQ(estimate.status, kernels::WorkspaceEstimate::Status::kBound);
  EXPECT_EQ(estimate.workspace_bytes, 24u);
  EXPECT_EQ(estimate.prepack_bytes, 4u);
  EXPECT_EQ(estimate.transient_bytes, 9u);
  EXPECT_EQ(estimate.temporary_prepack_bytes, 11u);
  EXPECT_EQ(estimate.replaced_inputs, 2u);

  const auto kernel = def->create(node.Info(bench.device.get()));
  EXPECT_EQ(dynamic_cast<kernels::LateKernel*>(kernel.get()), nullptr);
  std::vector<memory::WorkspaceRequirement> slots;
  kernel->DeclareWorkspaceRequirements({node.facts, node.out, 1}, slots);
  ASSERT_EQ(slots.size(), 3u);
  EXPECT_EQ(slots[0].slot_id, 3);
  EXPECT_EQ(slots[0].size_bytes, 24u);
  EXPECT_EQ(slots[0].alignment, 64u);
  EXPECT_FALSE(slots[0].on_host);
  EXPECT_EQ(slots[1].status, memory::WorkspaceStatus::kZero);
  EXPECT_TRUE(slots[2].on_host);
  EXPECT_EQ(slots[2].lifetime, memory::WorkspaceLifetime::kSession);

  const auto blocks = kernel->PlanPrepack();
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks[0].bytes, 4u);
  EXPECT_EQ(blocks[0].replaces, std::vector<int>{1});
  EXPECT_EQ(blocks[0].share_key, "device features:0:w");
  kernel->Prepack(0, bench.region->data() + 512, bench.team);
  const std::byte* place = bench.region->data() + 512;
  kernel->Prepare({&place, 1}, bench.stream.get());

  bench.Put(0, {1, 2, 3, 4});
  TensorView x{bench.region->data(), DType::kFloat, {2, 2}},
      y{bench.region->data() + 256, DType::kFloat, {2, 2}};
  bench.context.inputs = {&x, nullptr};
  bench.context.outputs = {&y};
  bench.context.workspaces = {{3, 24, bench.region->data() + 1024}};
  kernel->Compute(bench.context);
  EXPECT_EQ(bench.Get(256, 4), (std::vector<float>{5, 10, 15, 20}));
  // A plan that is too small is none: the kernel then asks for scratch.
  bench.Put(256, {0, 0, 0, 0});
  bench.context.workspaces[0].bytes = 8;
  bench.context.scratch = bench.region->data() + 2048;
  kernel->Compute(bench.context);
  EXPECT_EQ(bench.Get(256, 4), (std::vector<float>{5, 10, 15, 20}));
  // A missing copy is an error, not a wrong result.
  std::vector<float> on_host{1, 2, 3, 4};
  x.data = on_host.data();
  const auto missing = ErrorOf([&] { kernel->Compute(bench.context); });
  EXPECT_NE(missing.message().find("input 0 lies in host memory"), std::string::npos) << missing.message();
}

TEST(PluginHost, AttributesAndRefusals) {
  Bench bench(Make({}));
  OneNode node("Scale");
  auto& a = node.node->attributes;
  a["mode"] = int64_t{2};
  a["axes"] = std::vector<int64_t>{0, -1};
  a["weights"] = std::vector<float>{0.5f};
  a["name"] = std::string("four");
  a["names"] = std::vector<std::string>{"a", "b"};
  a["table"] = graph::MakeFloats({2}, std::vector<float>{1, 2});
  EXPECT_EQ(bench.provider->registry().Find(node.Info(), &bench.reason), nullptr);
  EXPECT_EQ(bench.reason, "features: mode 2 of four is not built");
  a["mode"] = int64_t{1};
  EXPECT_NE(bench.provider->registry().Find(node.Info(), &bench.reason), nullptr);
  a["mode"] = 1.0f;
  EXPECT_EQ(ErrorOf([&] { bench.provider->registry().Find(node.Info(), &bench.reason); }).code(),
            Code::kInvalidModel);
  a.erase("mode");
  node.facts[1].dtype = DType::kInt64;
  EXPECT_EQ(bench.provider->registry().Find(node.Info(), &bench.reason), nullptr);
  EXPECT_NE(bench.reason.find("int64"), std::string::npos) << bench.reason;
  node.facts[1].dtype = DType::kFloat;
  node.node->opset = 3;
  EXPECT_EQ(bench.provider->registry().Find(node.Info(), &bench.reason), nullptr);
  node.node->opset = 2;
  node.facts[0].kind = graph::TypeKind::kSequence;
  EXPECT_EQ(bench.provider->registry().Find(node.Info(), &bench.reason), nullptr);
}

TEST(PluginHost, LateShapes) {
  Bench bench(Make({}));
  OneNode node("Positive");
  const auto kernel = bench.Create(node);
  EXPECT_NE(dynamic_cast<kernels::LateKernel*>(kernel.get()), nullptr);
  bench.Put(0, {-1, 2, 0, 4});
  TensorView x{bench.region->data(), DType::kFloat, {2, 2}},
      y{bench.region->data() + 256, DType::kFloat, {4}};
  bench.context.inputs = {&x, nullptr};
  bench.context.outputs = {&y};
  kernel->Compute(bench.context);
  EXPECT_EQ(y.shape, Shape({2}));
  EXPECT_EQ(bench.Get(256, 2), (std::vector<float>{2, 4}));
}

TEST(PluginHost, AliasesBeginAsTheirInputs) {
  Bench bench(Make({}));
  OneNode node("AddTo");
  const auto* def = bench.provider->registry().Find(node.Info(bench.device.get()), &bench.reason);
  ASSERT_NE(def, nullptr) << bench.reason;
  EXPECT_EQ(def->cache_inputs, 1u);
  EXPECT_EQ(def->cache_pairs, (std::vector<std::pair<int, int>>{{0, 0}}));
  EXPECT_EQ(def->host_inputs, 2u);
  const auto kernel = bench.Create(node);
  bench.Put(0, {1, 2});
  std::vector<float> b{10, 20};
  TensorView x{bench.region->data(), DType::kFloat, {2}}, w{b.data(), DType::kFloat, {2}},
      y{bench.region->data() + 256, DType::kFloat, {2}};
  bench.context.inputs = {&x, &w};
  bench.context.outputs = {&y};
  kernel->Compute(bench.context);
  EXPECT_EQ(bench.Get(256, 2), (std::vector<float>{11, 22}));
  EXPECT_EQ(bench.Get(0, 2), (std::vector<float>{1, 2}));
  y.data = x.data;
  kernel->Compute(bench.context);
  EXPECT_EQ(bench.Get(0, 2), (std::vector<float>{11, 22}));
  w.data = bench.region->data();
  EXPECT_NE(ErrorOf([&] { kernel->Compute(bench.context); }).message().find("lies in device memory"),
            std::string::npos);
}

/// What a bound rule sees and sets.
class RuleContext final : public ops::ShapeContext {
 public:
  explicit RuleContext(const graph::Node& node, ops::BoundedShape x)
      : ShapeContext(node, ops::BoundMath()), x_(x) {}
  const ops::BoundedShape& shape(int) const override { return x_; }
  DType dtype(int) const override { return DType::kFloat; }
  const ops::BoundedValues* values(int) const override { return nullptr; }
  const graph::Constant* constant(int) const override { return nullptr; }
  int doubles(int, std::span<double>) const override { return -1; }
  std::vector<ops::ValueFacts> RunSubgraph(const graph::Graph&, std::span<const ops::ValueFacts>) override {
    return {};
  }
  void Set(int, DType dtype, const ops::BoundedShape& shape) override {
    set_dtype = dtype;
    set_shape = shape;
  }
  void SetKind(int, graph::TypeKind, const ops::Bound&) override {}
  void SetValues(int, const ops::BoundedValues&) override {}
  DType set_dtype = DType::kUndefined;
  ops::BoundedShape set_shape;

 private:
  ops::BoundedShape x_;
};

TEST(PluginHost, OperatorsThatTheCatalogueLacks) {
  const ops::BoundedShape open =
      ops::BoundedShape::OfDims({ops::Bound::Exactly(2), ops::Bound::Between(1, 3)});
  OneNode node("Positive"), scale("Scale");
  {
    const auto provider = Make({});
    const auto* op = ops::FindOp("com.test", "Positive", 1);
    ASSERT_NE(op, nullptr);
    EXPECT_EQ(op->in_place, 0u);
    EXPECT_EQ(ops::FindOp("com.test", "AddTo", 1)->in_place, 1u);
    EXPECT_EQ(ops::FindOp("com.test", "Negative", 1), nullptr);
    RuleContext rule(*node.node, open);
    ops::ApplyRule(rule);
    EXPECT_EQ(rule.set_dtype, DType::kFloat);
    EXPECT_EQ(rule.set_shape.ToString(), ops::BoundedShape::OfDims({ops::Bound::Between(0, 6)}).ToString());
    RuleContext endless(*node.node, ops::BoundedShape::OfDims({ops::Bound()}));
    ops::ApplyRule(endless);
    EXPECT_FALSE(endless.set_shape[0].bounded());
    scale.node->opset = 7;
    RuleContext late(*scale.node, open);
    EXPECT_EQ(ErrorOf([&] { ops::ApplyRule(late); }).code(), Code::kUnsupported);
  }
  RuleContext rule(*node.node, open);
  EXPECT_EQ(ErrorOf([&] { ops::ApplyRule(rule); }).code(), Code::kUnsupported);  // nobody is there any more
  const auto provider = Make({{"ep.features.fault", "negative shape"}});
  scale.node->opset = 1;
  RuleContext wrong(*scale.node, open);
  const auto e = ErrorOf([&] { ops::ApplyRule(wrong); });
  EXPECT_NE(e.message().find("between -3 and 4"), std::string::npos) << e.message();
}

TEST(PluginHost, GroupsOfNodes) {
  Bench bench(Make({}));
  EXPECT_TRUE(bench.provider->proposes());
  graph::Graph graph;
  const auto x = graph.AddInput("x", DType::kFloat, {}), y = graph.AddValue("y", DType::kFloat),
             z = graph.AddValue("z", DType::kFloat);
  auto& first = graph.AddNode("com.test", "Scale", "first", {x, x}, {y});
  auto& second = graph.AddNode("com.test", "Positive", "second", {y}, {z});
  std::array<ops::ValueFacts, 2> in;
  std::array<ops::ValueFacts, 1> out;
  const std::vector<kernels::KernelInfo> nodes{{first, graph, in, out}, {second, graph, {in.data(), 1}, out}};
  EXPECT_TRUE(bench.provider->Propose(*bench.device, nodes, 50).groups.empty());
  const auto proposals = bench.provider->Propose(*bench.device, nodes, {});
  EXPECT_TRUE(proposals.rest);
  const auto& groups = proposals.groups;
  const providers::Group whole{{first.id, second.id}, {x}, {false}, {z}};
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].nodes, (std::vector<size_t>{0, 1}));
  EXPECT_TRUE(groups[0].fused);
  EXPECT_EQ(groups[0].estimate.workspace_bytes, 64u);
  EXPECT_EQ(groups[0].id, 41u);
  EXPECT_EQ(ErrorOf([&] { bench.provider->Compile(*bench.device, 41, whole, nodes); }).code(), Code::kUsage);
  bench.provider->Tell(17, providers::Verdict::kRefusedBudget);
  bench.provider->Tell(41, providers::Verdict::kAccepted);
  const auto kernel = bench.provider->Compile(*bench.device, 41, whole, nodes);
  bench.Put(0, {-1, 2, 0, 4});
  TensorView from{bench.region->data(), DType::kFloat, {4}},
      to{bench.region->data() + 256, DType::kFloat, {4}};
  bench.context.inputs = {&from};
  bench.context.outputs = {&to};
  kernel->Compute(bench.context);
  EXPECT_EQ(to.shape, Shape({2}));
  const auto wild = Make({{"ep.features.fault", "wild group"}});
  const auto device = wild->Open(wild->devices()[0]);
  EXPECT_EQ(ErrorOf([&] { wild->Propose(*device, nodes, {}); }).code(), Code::kUsage);
}

TEST(PluginHost, FaultsAreErrorsThatNameTheirPlace) {
  const auto made = [](const char* fault) { return Make({{"ep.features.fault", fault}}); };
  EXPECT_NE(ErrorOf([&] { made("no provider"); }).message().find("provider features"), std::string::npos);
  const auto wild = ErrorOf([&] { made("wild status"); });
  EXPECT_NE(wild.message().find("none of the host's"), std::string::npos) << wild.message();
  EXPECT_NE(ErrorOf([&] { made("many devices")->devices(); }).message().find("devices"), std::string::npos);
  EXPECT_NE(ErrorOf([&] {
              Make({{"ep.features.devices", "2"}, {"ep.features.fault", "twins"}})->devices();
            })
                .message()
                .find("two devices"),
            std::string::npos);
  EXPECT_EQ(ErrorOf([&] { Make({{"ep.features.devices", "-1"}}); }).code(), Code::kUsage);
  EXPECT_EQ(ErrorOf([&] { made("no rule"); }).code(), Code::kUnsupported);
  for (const char* fault : {"odd alignment", "no device"}) {
    const auto provider = made(fault);
    EXPECT_NE(ErrorOf([&] { provider->Open(provider->devices()[0]); }).message().find("device features:0"),
              std::string::npos)
        << fault;
  }
  OneNode node("Scale");
  for (const char* fault : {"many slots", "odd slot"}) {
    Bench bench(made(fault));
    const auto kernel = bench.Create(node);
    std::vector<memory::WorkspaceRequirement> slots;
    const auto e = ErrorOf([&] { kernel->DeclareWorkspaceRequirements({node.facts, node.out, 1}, slots); });
    EXPECT_NE(e.message().find("the_node"), std::string::npos) << fault << ": " << e.message();
  }
  {
    Bench bench(made("no kernel"));
    EXPECT_NE(ErrorOf([&] { bench.Create(node); }).message().find("the_node"), std::string::npos);
  }
  {
    Bench bench(made("estimate"));
    const auto* def = bench.provider->registry().Find(node.Info(), &bench.reason);
    EXPECT_EQ(bench.provider->Estimate(bench.device->info(), *def, node.Info()).status,
              kernels::WorkspaceEstimate::Status::kUnavailable);
  }
  Bench bench(made("compute"));
  const auto kernel = bench.Create(node);
  kernel->Prepack(0, bench.region->data() + 512, bench.team);
  const std::byte* place = bench.region->data() + 512;
  kernel->Prepare({&place, 1}, nullptr);
  TensorView x{bench.region->data(), DType::kFloat, {2}}, y{bench.region->data() + 256, DType::kFloat, {2}};
  bench.context.inputs = {&x, nullptr};
  bench.context.outputs = {&y};
  bench.context.workspaces = {{3, 24, bench.region->data() + 1024}};
  const auto e = ErrorOf([&] { kernel->Compute(bench.context); });
  EXPECT_EQ(e.code(), Code::kRuntime);
  EXPECT_EQ(e.message(), "node the_node (com.test:Scale) on features: no more power");
}

TEST(PluginHost, AnOlderPlugin) {
  OptionBag options;
  options.Set("session.devices", "older");
  const auto all = Good().Create(options);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_FALSE(all[0]->proposes());
  EXPECT_EQ(all[0]->devices().size(), 2u);
  EXPECT_EQ(all[0]->devices()[1].copy_bandwidth, 0);
  Bench bench(all[0]);
  bench.device->BeginRun();
  bench.device->EndRun();
  OneNode node("Mul", "", 14);
  const auto* def = all[0]->registry().Find(node.Info(bench.device.get()), &bench.reason);
  ASSERT_NE(def, nullptr) << bench.reason;
  const auto estimate = all[0]->Estimate(bench.device->info(), *def, node.Info(bench.device.get()));
  EXPECT_EQ(estimate.workspace_bytes,
            memory::WorkspaceTotal(std::vector<memory::WorkspaceRequirement>{
                {.size_bytes = 24, .slot_id = 3, .alignment = 64}, {.size_bytes = 16, .slot_id = 5}}));
  const auto kernel = bench.Create(node);
  kernel->Prepack(0, bench.region->data() + 512, bench.team);
  const std::byte* place = bench.region->data() + 512;
  kernel->Prepare({&place, 1}, nullptr);
  bench.Put(0, {1, 2});
  TensorView x{bench.region->data(), DType::kFloat, {2}}, y{bench.region->data() + 256, DType::kFloat, {2}};
  bench.context.inputs = {&x, nullptr};
  bench.context.outputs = {&y};
  bench.context.workspaces = {{3, 24, bench.region->data() + 1024}};
  kernel->Compute(bench.context);
  EXPECT_EQ(bench.Get(256, 2), (std::vector<float>{10, 20}));
}

TEST(PluginHost, AnOlderHost) {
  void* library = dlopen(File("features").c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto entry = reinterpret_cast<ullage_plugin_entry_fn>(dlsym(library, ULLAGE_PLUGIN_ENTRY));
  ullage_host_api older = HostApi();
  older.size = offsetof(ullage_host_api, input);
  std::memset(reinterpret_cast<char*>(&older) + older.size, 0x11, sizeof(older) - older.size);
  const ullage_plugin_api* plugin = nullptr;
  const auto e = ErrorOf([&] { Check(entry(&older, &plugin), "the plugin"); });
  EXPECT_EQ(e.message(), "the plugin: a newer host is needed");
  EXPECT_EQ(plugin, nullptr);
  EXPECT_EQ(entry(&HostApi(), &plugin), nullptr);  // as it was before, for the other tests
  dlclose(library);
}

TEST(PluginHost, FilesThatAreNoPlugins) {
  const test::TempFolder folder;
  const std::string text = folder / "libullage_plugin_text.so";
  std::ofstream(text) << "not a library";
  const std::string cut = folder / "libullage_plugin_cut.so";
  std::filesystem::copy_file(File("features"), cut);
  std::filesystem::resize_file(cut, 5000);
  std::vector<std::string> files{text, folder / "libullage_plugin_gone.so", folder.str()};
  for (int fault = 1; fault <= 9; ++fault) files.push_back(File("broken" + std::to_string(fault)));
  const Plugins plugins(files);
  EXPECT_TRUE(plugins.providers().empty());
  ASSERT_EQ(plugins.failures().size(), 12u);
  for (const auto& f : plugins.failures()) EXPECT_FALSE(f.reason.empty()) << f.file;
  OptionBag options;
  EXPECT_TRUE(plugins.Create(options).empty());
  for (const auto& f : plugins.failures())
    if (f.file == cut) {
      EXPECT_NE(f.reason.find("incomplete"), std::string::npos) << f.reason;
    }
  options.Set("session.devices", "text");
  const auto e = ErrorOf([&] { plugins.Create(options); });
  EXPECT_EQ(e.code(), Code::kUnsupported);
  EXPECT_NE(e.message().find(text), std::string::npos) << e.message();
}

TEST(PluginHost, OnlyWhoIsNamedOrThereTakesPart) {
  OptionBag options;
  Good();
  EXPECT_TRUE(Good().Create(options).empty());
  options.Set("session.resource_partitioning_settings", "features:0:1MiB");
  EXPECT_EQ(Good().Create(options).size(), 1u);
  options.Set("session.name_based_layer_assignment", "older(a);features-2(b)");
  EXPECT_EQ(Good().Create(options).size(), 2u);
}

TEST(PluginHost, OptionsAreInTheRegistry) {
  Good();
  bool found = false;
  for (const auto& spec : AllOptions())
    if (spec.key == "ep.features.capacity") {
      found = true;
      EXPECT_EQ(spec.type, OptionType::kSize);
      EXPECT_EQ(spec.default_value, "1MiB");
    }
  EXPECT_TRUE(found);
  OptionBag options;
  const auto e = ErrorOf([&] { options.Set("ep.features.capacty", "1"); });
  EXPECT_EQ(e.code(), Code::kUsage);
  EXPECT_NE(e.message().find("ep.features.capacity"), std::string::npos) << e.message();
  EXPECT_EQ(ErrorOf([&] { options.Set("ep.features.capacity", "much"); }).code(), Code::kUsage);
}

}  // namespace
}  // namespace ullage::plugin_host
