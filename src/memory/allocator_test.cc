#include "memory/allocator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "core/error.h"

namespace ullage::memory {
namespace {

template <class F>
std::string MessageOf(Code code, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.message();
    return e.message();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(HostAllocator, CountsByTag) {
  HostAllocator allocator;
  void* a = allocator.Allocate(1000, 64, Tag::kWeights);
  void* b = allocator.Allocate(500, 4096, Tag::kKv);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 4096, 0u);
  std::memset(a, 1, 1000);
  EXPECT_EQ(allocator.current()[Tag::kWeights], 1000);
  EXPECT_EQ(allocator.current().Sum(), 1500);
  allocator.Free(a);
  void* c = allocator.Allocate(200, 1, Tag::kKv);
  EXPECT_EQ(allocator.current().Sum(), 700);
  EXPECT_EQ(allocator.peak()[Tag::kWeights], 1000);
  EXPECT_EQ(allocator.peak()[Tag::kKv], 700);
  EXPECT_EQ(allocator.peak_total(), 1500);
  EXPECT_EQ(allocator.allocations(), 3);
  allocator.ResetPeaks();
  EXPECT_EQ(allocator.peak_total(), 700);
  EXPECT_EQ(allocator.allocations(), 0);
  allocator.Free(b);
  allocator.Free(c);
  allocator.Free(nullptr);
  EXPECT_EQ(allocator.Allocate(0, 64, Tag::kKv), nullptr);
  EXPECT_EQ(allocator.current().Sum(), 0);
}

TEST(HostAllocator, NeverPassesItsLimit) {
  HostAllocator allocator(1024, "cpu:0");
  void* a = allocator.Allocate(1000, 64, Tag::kActivations);
  const std::string message =
      MessageOf(Code::kDoesNotFit, [&] { allocator.Allocate(25, 64, Tag::kWorkspace); });
  EXPECT_NE(message.find("cpu:0"), std::string::npos);
  EXPECT_NE(message.find("25 bytes of workspace"), std::string::npos) << message;
  EXPECT_NE(message.find("1024"), std::string::npos) << message;
  EXPECT_NE(message.find("1000"), std::string::npos) << message;
  EXPECT_EQ(allocator.peak_total(), 1000) << "a refused request leaves no trace";
  void* b = allocator.Allocate(24, 64, Tag::kWorkspace);
  EXPECT_EQ(allocator.current().Sum(), 1024);
  MessageOf(Code::kDoesNotFit, [&] { allocator.Allocate(1, 64, Tag::kWorkspace); });
  MessageOf(Code::kDoesNotFit, [&] { allocator.Allocate(SIZE_MAX, 64, Tag::kWorkspace); });
  allocator.Free(a);
  allocator.Free(b);
}

TEST(HostAllocator, MemoryHeldElsewhereCounts) {
  HostAllocator allocator(1000);
  allocator.Charge(900, Tag::kWeights);
  EXPECT_EQ(allocator.current()[Tag::kWeights], 900);
  MessageOf(Code::kDoesNotFit, [&] { allocator.Allocate(101, 1, Tag::kKv); });
  MessageOf(Code::kRuntime, [&] { allocator.Discharge(901, Tag::kWeights); });
  MessageOf(Code::kRuntime, [&] { allocator.Discharge(1, Tag::kKv); });
  allocator.Discharge(900, Tag::kWeights);
  EXPECT_EQ(allocator.current().Sum(), 0);
  EXPECT_EQ(allocator.peak_total(), 900);
}

TEST(HostAllocator, FrozenMeansNoAllocation) {
  HostAllocator allocator;
  void* a = allocator.Allocate(10, 1, Tag::kKv);
  allocator.freeze();
  EXPECT_TRUE(allocator.frozen());
  EXPECT_NE(MessageOf(Code::kDoesNotFit, [&] { allocator.Allocate(1, 1, Tag::kKv); }).find("frozen"),
            std::string::npos);
  EXPECT_EQ(allocator.Allocate(0, 1, Tag::kKv), nullptr);
  allocator.Free(a);
  allocator.unfreeze();
  allocator.Free(allocator.Allocate(1, 1, Tag::kKv));
}

TEST(HostAllocator, MisuseIsAnError) {
  HostAllocator allocator;
  int x = 0;
  MessageOf(Code::kRuntime, [&] { allocator.Free(&x); });
  MessageOf(Code::kUsage, [&] { allocator.Allocate(8, 24, Tag::kKv); });
}

TEST(HostAllocator, ManyThreads) {
  HostAllocator allocator(4000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) allocator.Free(allocator.Allocate(1000, 64, Tag::kActivations));
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.current().Sum(), 0);
  EXPECT_EQ(allocator.allocations(), 2000);
  EXPECT_LE(allocator.peak_total(), 4000);
}

TEST(HostRegion, AlignedZeroedWritable) {
  for (size_t bytes : {size_t{1}, size_t{4096}, size_t{5000}, (size_t{2} << 20) + 1, size_t{9} << 20}) {
    RegionOptions options;
    options.alignment = 1 << 16;
    HostRegion region(bytes, options);
    EXPECT_EQ(region.size(), bytes);
    EXPECT_GE(region.mapped_bytes(), bytes);
    EXPECT_LT(region.mapped_bytes(), bytes + 65536);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(region.data()) % options.alignment, 0u);
    EXPECT_EQ(region.data()[0], std::byte{0});
    EXPECT_EQ(region.data()[bytes - 1], std::byte{0});
    std::memset(region.data(), 7, bytes);
    HostRegion moved = std::move(region);
    EXPECT_EQ(region.data(), nullptr);
    EXPECT_EQ(moved.data()[bytes - 1], std::byte{7});
  }
  EXPECT_EQ(HostRegion(0).data(), nullptr);
}

TEST(HostRegion, TooMuchIsRefusedWithItsSize) {
  const size_t bytes = size_t{1} << 50;
  EXPECT_NE(MessageOf(Code::kDoesNotFit, [&] { HostRegion region(bytes); }).find(std::to_string(bytes)),
            std::string::npos);
  MessageOf(Code::kDoesNotFit, [&] { HostRegion region(SIZE_MAX); });
  MessageOf(Code::kUsage, [] { HostRegion region(1, {.alignment = 3}); });
}

TEST(HostRegion, AvailableBytesAreBelievable) {
  EXPECT_GT(AvailableHostBytes(), int64_t{16} << 20);
  EXPECT_LT(AvailableHostBytes(), int64_t{1} << 50);
}

}  // namespace
}  // namespace ullage::memory
