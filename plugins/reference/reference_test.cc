#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/error.h"
#include "kernels/call_context.h"
#include "providers/device.h"
#include "providers/plugin_host/plugins.h"

namespace ullage::reference {
namespace {

using providers::Space;
using Pairs = std::initializer_list<std::pair<const char*, const char*>>;

std::shared_ptr<const providers::Provider> Make(Pairs pairs = {}) {
  static const auto& plugins = *new plugin_host::Plugins({ULLAGE_REFERENCE_PLUGIN});
  EXPECT_TRUE(plugins.failures().empty()) << plugins.failures()[0].reason;
  OptionBag options;
  options.Set("session.devices", "reference");
  for (const auto& [key, value] : pairs) options.Set(std::string("ep.reference.") + key, value);
  const auto all = plugins.Create(options);
  return all.at(0);
}

Code CodeOf(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.code();
  }
  return Code::kBusy;
}

bool Readable(const void* at) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const bool can = write(ends[1], at, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return can;
}

class Context final : public kernels::CallContext {
 public:
  using CallContext::CallContext;
  void* GetScratchBuffer(size_t, size_t) override { Throw(Code::kRuntime, "no scratch"); }
  providers::Stream* stream() override { return queue; }
  providers::Stream* queue = nullptr;
};

/// z = x op y over float32 [N], on a device with room for many vectors.
struct Bench {
  explicit Bench(Pairs pairs = {}, int64_t n = 64) : provider(Make(pairs)), count(n) {
    device = provider->Open(provider->devices().at(0));
    region = device->Reserve(Space::kDevice, 64 * count * 4);
    stream = device->CreateStream();
  }
  std::byte* At(int vector) { return region->data() + vector * count * 4; }
  void Put(int vector, const std::vector<float>& values, providers::Stream* queue) {
    const providers::Copy copy{reinterpret_cast<const std::byte*>(values.data()), At(vector), count * 4};
    device->Run({&copy, 1}, queue);
  }
  std::vector<float> Get(int vector, providers::Stream* queue) {
    std::vector<float> values(static_cast<size_t>(count));
    const providers::Copy copy{At(vector), reinterpret_cast<std::byte*>(values.data()), count * 4};
    device->Run({&copy, 1}, queue);
    if (queue) queue->Finish();
    return values;
  }
  std::unique_ptr<kernels::Kernel> Create(std::string_view op, int inputs,
                                          std::array<ops::ValueFacts, 2> facts = {}) {
    auto graph = std::make_unique<graph::Graph>();
    std::vector<graph::ValueId> in;
    for (int i = 0; i < inputs; ++i)
      in.push_back(graph->AddInput("x" + std::to_string(i), DType::kFloat, {}));
    auto& node = graph->AddNode("", op, "the_node", in, {graph->AddValue("y", DType::kFloat)});
    node.opset = 14;
    for (auto& f : facts)
      if (f.dtype == DType::kUndefined) {
        f.dtype = DType::kFloat;
        f.shape = ops::BoundedShape::Of({count});
      }
    const std::array<ops::ValueFacts, 1> out{facts[0]};
    const kernels::KernelInfo info{node, *graph, {facts.data(), in.size()}, out, 1, nullptr, device.get()};
    std::string reason;
    const auto* def = provider->registry().Find(info, &reason);
    if (!def) Throw(Code::kUnsupported, reason);
    estimate = provider->Estimate(device->info(), *def, info);
    auto kernel = def->create(info);
    graphs.push_back(std::move(graph));
    return kernel;
  }
  void Compute(const kernels::Kernel& kernel, std::vector<int> from, int to, providers::Stream* queue) {
    Context context(team);
    context.queue = queue;
    std::vector<TensorView> views;
    for (int v : from) views.push_back({At(v), DType::kFloat, {count}});
    TensorView out{At(to), DType::kFloat, {count}};
    for (auto& v : views) context.inputs.push_back(&v);
    context.outputs = {&out};
    kernel.Compute(context);
    result = out.shape;
  }
  std::shared_ptr<const providers::Provider> provider;
  int64_t count;
  std::unique_ptr<providers::OpenDevice> device;
  std::unique_ptr<providers::Region> region;
  std::unique_ptr<providers::Stream> stream;
  std::vector<std::unique_ptr<graph::Graph>> graphs;
  kernels::NodeEstimate estimate;
  Shape result;
  ThreadTeam team{1};
};

/// Waits when a test ends early: what the queue uses must outlive its work.
struct Settled {
  explicit Settled(providers::Stream& stream) : queue(stream) {}
  ~Settled() {
    try {
      queue.Finish();
    } catch (const Error&) {
    }
  }
  providers::Stream& queue;
};

std::vector<float> Ramp(int64_t n, float from = 0) {
  std::vector<float> values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), from);
  return values;
}

TEST(Reference, DevicesAsTheOptionsSay) {
  const auto devices =
      Make({{"devices", "3"}, {"capacity", "5MiB"}, {"type", "npu"}, {"copy_bandwidth", "1GB"}})->devices();
  ASSERT_EQ(devices.size(), 3u);
  EXPECT_EQ(devices[2].name, "reference:2");
  EXPECT_EQ(devices[2].type, providers::DeviceType::kNpu);
  EXPECT_EQ(devices[2].capacity_bytes, 5 << 20);
  EXPECT_EQ(devices[2].copy_bandwidth, 1000000000);
  EXPECT_TRUE(devices[2].only_when_named);
  EXPECT_EQ(Make()->devices().at(0).type, providers::DeviceType::kGpu);
  for (const auto& bad : {Pairs{{"devices", "0"}}, Pairs{{"type", "cpu"}}, Pairs{{"kernels", "Add,Nothing"}}})
    EXPECT_EQ(CodeOf([&] { Make(bad); }), Code::kUsage);
}

TEST(Reference, CapacityIsHard) {
  const auto provider = Make({{"capacity", "4096"}});
  const auto device = provider->Open(provider->devices()[0]);
  const auto first = device->Reserve(Space::kDevice, 1000);  // 1024 with its alignment
  auto second = device->Reserve(Space::kWeights, 3072);
  EXPECT_EQ(device->memory().free_bytes, 0);
  EXPECT_EQ(CodeOf([&] { device->Reserve(Space::kDevice, 1); }), Code::kDoesNotFit);
  EXPECT_FALSE(Readable(first->data()));
  EXPECT_FALSE(Readable(second->data() + 3071));
  const auto pinned = device->Reserve(Space::kPinned, 1 << 20);
  EXPECT_TRUE(Readable(pinned->data()));
  second.reset();
  EXPECT_EQ(device->memory().free_bytes, 3072);
}

TEST(Reference, ComputesWithTheHostsKernels) {
  Bench bench;
  const auto add = bench.Create("Add", 2), sqrt = bench.Create("Sqrt", 1);
  const auto first = Ramp(64);
  bench.Put(0, first, bench.stream.get());
  const auto ones = std::vector<float>(64, 1);
  bench.Put(1, ones, bench.stream.get());
  bench.Compute(*add, {0, 1}, 2, bench.stream.get());
  bench.Compute(*sqrt, {2}, 2, bench.stream.get());
  const auto got = bench.Get(2, bench.stream.get());
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(got[i], std::sqrt(static_cast<float>(i + 1)));
  EXPECT_EQ(bench.estimate.status, kernels::WorkspaceEstimate::Status::kExact);
  bench.Compute(*add, {0, 1}, 3, nullptr);
  EXPECT_EQ(bench.Get(3, nullptr)[63], 64);
}

TEST(Reference, OnlyTheKernelsThatAreAskedFor) {
  Bench bench({{"kernels", "Add,com.microsoft:GroupQueryAttention"}});
  EXPECT_NO_THROW(bench.Create("Add", 2));
  EXPECT_EQ(CodeOf([&] { bench.Create("Sub", 2); }), Code::kUnsupported);
}

TEST(Reference, OnlyTheTypesThatAreAskedFor) {
  EXPECT_NO_THROW(Bench({{"types", "float32,int64"}}).Create("Add", 2));
  EXPECT_EQ(CodeOf([] { Bench({{"types", "int64,float16"}}).Create("Add", 2); }), Code::kUnsupported);
  EXPECT_EQ(CodeOf([] { Make({{"types", "float32,real"}}); }), Code::kUsage);
}

TEST(Reference, ShapesThatTheDataDecide) {
  Bench bench;
  std::array<ops::ValueFacts, 2> facts;
  const auto kernel = bench.Create("NonZero", 1, facts);
  auto values = std::vector<float>(64);
  values[3] = values[60] = 1;
  bench.Put(0, values, bench.stream.get());
  Context context(bench.team);
  context.queue = bench.stream.get();
  TensorView x{bench.At(0), DType::kFloat, {64}}, y{bench.At(2), DType::kInt64, {1, 64}};
  context.inputs = {&x};
  context.outputs = {&y};
  kernel->Compute(context);
  EXPECT_EQ(y.shape, Shape({1, 2}));
}

// Chains over two queues with events: any order that the rules allow must give one result.
TEST(Reference, QueuesAndEventsKeepTheirOrder) {
  Bench bench({{"jitter_us", "300"}});
  const auto other = bench.device->CreateStream();
  const auto add = bench.Create("Add", 2);
  const auto forward = bench.device->CreateEvent(), back = bench.device->CreateEvent();
  const auto ones = std::vector<float>(64, 1);
  bench.Put(0, ones, bench.stream.get());
  for (int round = 0; round < 60; ++round) {
    bench.Compute(*add, {0, 0}, 1, bench.stream.get());
    forward->Record(*bench.stream);
    other->Wait(*forward);
    bench.Compute(*add, {1, 0}, 2, other.get());
    back->Record(*other);
    bench.stream->Wait(*back);
    bench.Compute(*add, {2, 1}, 3, bench.stream.get());
    const std::vector<float> next(64, static_cast<float>(round % 3 + 1));
    const auto got = bench.Get(3, bench.stream.get());
    const float x = round == 0 ? 1 : static_cast<float>((round - 1) % 3 + 1);
    EXPECT_EQ(got, std::vector<float>(64, 5 * x)) << round;
    bench.Put(0, next, bench.stream.get());
    bench.stream->Finish();
  }
  back->Wait();
}

TEST(Reference, WorkIsDoneLaterThanItIsAskedFor) {
  Bench bench({{"copy_bandwidth", "100000"}}, 2500);  // a vector takes 100 ms
  const auto start = std::chrono::steady_clock::now();
  const auto ramp = Ramp(2500);
  bench.Put(0, ramp, bench.stream.get());
  const auto asked = std::chrono::steady_clock::now();
  bench.stream->Finish();
  const auto done = std::chrono::steady_clock::now();
  EXPECT_LT(asked - start, std::chrono::milliseconds(90));
  EXPECT_GE(done - start, std::chrono::milliseconds(100));
}

TEST(Reference, TheNthCallFails) {
  // open, reserve, create_stream, copy, copy, compute: each failure is an error once, and the device goes on.
  int failed_at = 0;
  for (int n = 1; n <= 12; ++n) {
    const std::string text = std::to_string(n);
    try {
      Bench bench({{"fail_at", text.c_str()}});
      const auto add = bench.Create("Add", 2);
      const auto ones = std::vector<float>(64, 1);
      const Settled settled(*bench.stream);
      bench.Put(0, ones, bench.stream.get());
      bench.Put(1, ones, bench.stream.get());
      bench.Compute(*add, {0, 1}, 2, bench.stream.get());
      EXPECT_EQ(bench.Get(2, bench.stream.get())[0], 2);
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kRuntime);
      EXPECT_NE(e.message().find("fail_at=" + text), std::string::npos) << e.message();
      failed_at = n;
    }
  }
  EXPECT_EQ(failed_at, 8);
}

TEST(Reference, AFailureInAQueueIsToldOnce) {
  Bench bench;
  const auto gather = bench.Create("GatherElements", 2);
  Context context(bench.team);
  context.queue = bench.stream.get();
  const auto first = Ramp(64);
  bench.Put(0, first, bench.stream.get());
  std::vector<int64_t> far(32, 1000);
  const providers::Copy copy{reinterpret_cast<const std::byte*>(far.data()), bench.At(1), 256};
  bench.device->Run({&copy, 1}, bench.stream.get());
  TensorView x{bench.At(0), DType::kFloat, {64}}, index{bench.At(1), DType::kInt64, {32}},
      y{bench.At(2), DType::kFloat, {32}};
  context.inputs = {&x, &index};
  context.outputs = {&y};
  EXPECT_NO_THROW(gather->Compute(context));
  const auto event = bench.device->CreateEvent();
  event->Record(*bench.stream);
  EXPECT_NE(CodeOf([&] { event->Wait(); }), Code::kBusy);
  EXPECT_NO_THROW(bench.stream->Finish());
  const auto ramp = Ramp(64, 5);
  bench.Put(3, ramp, bench.stream.get());
  EXPECT_EQ(bench.Get(3, bench.stream.get()), ramp);
}

TEST(Reference, CopiesBetweenItsDevices) {
  for (const char* peers : {"1", "0"}) {
    const auto provider = Make({{"devices", "2"}, {"peer_copies", peers}, {"jitter_us", "300"}});
    const auto a = provider->Open(provider->devices().at(0)), b = provider->Open(provider->devices().at(1));
    ASSERT_EQ(b->CopiesFrom(*a), *peers == '1');
    ASSERT_EQ(a->CopiesFrom(*b), *peers == '1');
    if (*peers == '0') continue;
    constexpr int64_t kCount = 1000, kBytes = kCount * 4;
    const auto from = a->Reserve(Space::kDevice, 2 * kBytes), to = b->Reserve(Space::kDevice, kBytes);
    const auto first = a->CreateStream(), second = b->CreateStream();
    const auto made = a->CreateEvent();
    for (int round = 0; round < 20; ++round) {
      const auto values = Ramp(kCount, static_cast<float>(round));
      std::vector<float> back(kCount);
      const auto* data = reinterpret_cast<const std::byte*>(values.data());
      const providers::Copy in{data, from->data() + kBytes, kBytes};
      const providers::Copy between{from->data() + kBytes, to->data(), kBytes};
      const providers::Copy out{to->data(), reinterpret_cast<std::byte*>(back.data()), kBytes};
      const bool queued = round % 2 == 0;
      a->Run({&in, 1}, queued ? first.get() : nullptr);
      made->Record(*first);
      second->Wait(*made);
      b->Run({&between, 1}, queued ? second.get() : nullptr);
      b->Run({&out, 1}, queued ? second.get() : nullptr);
      second->Finish();
      EXPECT_EQ(back, values) << round;
    }
    // Beyond the end of the other's memory.
    const auto longer = providers::Copy{from->data() + kBytes, to->data(), kBytes + 4};
    EXPECT_EQ(CodeOf([&] { b->Run({&longer, 1}, nullptr); }), Code::kRuntime);
  }
  // Devices of two providers know nothing of each other.
  const auto one = Make({{"devices", "2"}}), other = Make({{"devices", "3"}});
  EXPECT_FALSE(one->Open(one->devices().at(0))->CopiesFrom(*other->Open(other->devices().at(1))));
}

}  // namespace
}  // namespace ullage::reference
