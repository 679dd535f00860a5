#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>

#include "core/checked.h"
#include "core/half.h"
#include "core/mapped_file.h"
#include "core/options.h"
#include "core/thread_team.h"
#include "ullage/tensor.h"

namespace ullage {
namespace {

Code CodeOf(const auto& fn) {
  try {
    fn();
  } catch (const Error& e) {
    return e.code();
  }
  return Code::kInterrupted;  // nothing was thrown
}

TEST(Error, ExitStatuses) {
  EXPECT_EQ(ExitStatus(Code::kUsage), 2);
  EXPECT_EQ(ExitStatus(Code::kInvalidModel), 3);
  EXPECT_EQ(ExitStatus(Code::kInvalidInput), 3);
  EXPECT_EQ(ExitStatus(Code::kDoesNotFit), 4);
  EXPECT_EQ(ExitStatus(Code::kUnsupported), 5);
  EXPECT_EQ(ExitStatus(Code::kRuntime), 6);
  EXPECT_EQ(ExitStatus(Code::kBusy), 6);
  EXPECT_EQ(ExitStatus(Code::kInterrupted), 130);
  EXPECT_EQ(CodeName(Code::kDoesNotFit), "does_not_fit");
}

TEST(Checked, OverflowIsAnError) {
  EXPECT_EQ(CheckedMul<int64_t>(3, 4), 12);
  EXPECT_EQ(CodeOf([] { CheckedMul<int64_t>(INT64_MAX, 2); }), Code::kInvalidModel);
  EXPECT_EQ(CodeOf([] { CheckedAdd<uint64_t>(UINT64_MAX, 1); }), Code::kInvalidModel);
  EXPECT_EQ(AlignUp<size_t>(65, 64), 128u);
}

TEST(DType, BytesOfPackedTypes) {
  EXPECT_EQ(BytesOf(DType::kInt4, 3), 2u);
  EXPECT_EQ(BytesOf(DType::kUInt2, 5), 2u);
  EXPECT_EQ(BytesOf(DType::kFloat16, 3), 6u);
  EXPECT_EQ(CodeOf([] { BytesOf(DType::kString, 1); }), Code::kInvalidModel);
  EXPECT_EQ(CodeOf([] { BytesOf(DType::kDouble, INT64_MAX); }), Code::kInvalidModel);
}

TEST(Shape, ElementsAndRank) {
  EXPECT_EQ((Shape{2, 3, 4}).elements(), 24);
  EXPECT_EQ(Shape{}.elements(), 1);
  EXPECT_EQ((Shape{2, 0}).elements(), 0);
  EXPECT_EQ(CodeOf([] { (Shape{int64_t{1} << 40, int64_t{1} << 40}).elements(); }), Code::kInvalidModel);
  Shape s;
  for (int i = 0; i < kMaxRank; ++i) s.push_back(1);
  EXPECT_EQ(CodeOf([&] { s.push_back(1); }), Code::kInvalidModel);
}

// Every half is a float exactly; every float is rounded to the nearest half, ties to even.
TEST(Half, AllValuesRoundTrip) {
  for (uint32_t h = 0; h < 0x10000; ++h) {
    const float f = HalfToFloat(static_cast<uint16_t>(h));
    if (std::isnan(f)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(f))));
      continue;
    }
    EXPECT_EQ(FloatToHalf(f), h);
  }
  EXPECT_EQ(FloatToHalf(1.0f), 0x3c00);
  EXPECT_EQ(FloatToHalf(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);             // rounds to infinity
  EXPECT_EQ(FloatToHalf(1.0f + 0x1p-11f), 0x3c00);      // a tie goes to even
  EXPECT_EQ(FloatToHalf(1.0f + 3 * 0x1p-11f), 0x3c02);  // and so does the next
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0);                  // half of the smallest subnormal
  EXPECT_EQ(FloatToHalf(0x1.8p-25f), 1);
}

TEST(BFloat16, RoundsToEven) {
  EXPECT_EQ(FloatToBFloat16(1.0f), 0x3f80);
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(FloatToBFloat16(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(NAN))));
}

TEST(Options, SizesAndErrors) {
  EXPECT_EQ(ParseSize("512MiB"), 512ll << 20);
  EXPECT_EQ(ParseSize("6GiB"), 6ll << 30);
  EXPECT_EQ(ParseSize("1.5GB"), 1'500'000'000);
  EXPECT_EQ(ParseSize("4096"), 4096);
  for (const char* bad : {"", "GiB", "12 apples", "50%", "-1", "1e40", "nan", "1GiBx"})
    EXPECT_EQ(CodeOf([&] { ParseSize(bad); }), Code::kUsage) << bad;
  OptionBag bag;
  bag.SetPair("session.pre_allocate_execution_buffers=1");
  EXPECT_TRUE(bag.Bool("session.pre_allocate_execution_buffers"));
  EXPECT_EQ(bag.Int("session.intra_op_num_threads"), 0);
  try {
    bag.Set("session.pre_allocate_execution_bufers", "1");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kUsage);
    EXPECT_NE(e.message().find("session.pre_allocate_execution_buffers"), std::string::npos) << e.message();
  }
  EXPECT_EQ(CodeOf([&] { bag.Set("session.pre_allocate_execution_buffers", "maybe"); }), Code::kUsage);
}

TEST(Options, AreSortedAndDocumented) {
  std::string_view last;
  for (const auto& o : AllOptions()) {
    EXPECT_LT(last, o.key);
    EXPECT_FALSE(o.doc.empty());
    last = o.key;
  }
}

TEST(ThreadTeam, EveryTaskRunsOnce) {
  for (int threads : {1, 2, 4}) {
    ThreadTeam team(threads);
    for (int64_t tasks : {0, 1, 2, 7, 1000}) {
      std::vector<int> counts(static_cast<size_t>(tasks));
      for (int round = 0; round < 20; ++round)
        team.Run(tasks, [&](int64_t t, int worker) {
          EXPECT_GE(worker, 0);
          EXPECT_LT(worker, threads);
          ++counts[static_cast<size_t>(t)];
        });
      for (int c : counts) EXPECT_EQ(c, 20);
    }
  }
}

TEST(ThreadTeam, ExceptionsReachTheCaller) {
  ThreadTeam team(3);
  for (int round = 0; round < 50; ++round) {
    EXPECT_EQ(CodeOf([&] {
                team.Run(64, [](int64_t t, int) {
                  if (t == 40) throw Error(Code::kRuntime, "task 40");
                });
              }),
              Code::kRuntime);
  }
  int64_t sum = 0;
  team.Run(1, [&](int64_t, int) { sum = 1; });
  EXPECT_EQ(sum, 1);
}

TEST(ThreadTeam, SeveralCallersDoNotWaitForOneAnother) {
  ThreadTeam team(2);
  // A loop that cannot end before the other caller's loop has run.
  std::atomic<bool> begun{false}, other_done{false};
  std::thread other([&] {
    while (!begun) std::this_thread::yield();
    std::vector<int> counts(100);
    team.Run(100, [&](int64_t t, int worker) {
      EXPECT_EQ(worker, 0);
      ++counts[static_cast<size_t>(t)];
    });
    for (int c : counts) EXPECT_EQ(c, 1);
    other_done = true;
  });
  team.Run(2, [&](int64_t, int) {
    begun = true;
    while (!other_done) std::this_thread::yield();
  });
  other.join();
  std::atomic<int> inner{0};
  team.Run(4, [&](int64_t, int) { team.Run(3, [&](int64_t, int) { ++inner; }); });
  EXPECT_EQ(inner.load(), 12);
}

TEST(ThreadTeam, WorkersWakeUpAfterALongPause) {
  ThreadTeam team(2);
  for (int round = 0; round < 3; ++round) {
    std::atomic<int> done{0};
    team.Run(8, [&](int64_t, int) { ++done; });
    EXPECT_EQ(done.load(), 8);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

TEST(ThreadTeam, LateWorkersKeepOutOfLoopsThatAreOver) {
  // More workers than processors: most of them wake up when their loop, and what it worked on, is gone.
  ThreadTeam team(16);
  for (int round = 0; round < 1000; ++round) {
    const auto tasks = static_cast<size_t>(2 + round % 7);
    const auto results = std::make_unique<std::vector<size_t>>(tasks);
    team.Run(static_cast<int64_t>(tasks),
             [&](int64_t t, int) { (*results)[static_cast<size_t>(t)] += tasks; });
    for (size_t r : *results) ASSERT_EQ(r, tasks);
  }
}

TEST(MappedFile, ContentsAndErrors) {
  const std::string path = testing::TempDir() + "/mapped_file_test";
  std::ofstream(path) << "hello";
  const auto file = MappedFile::Open(path);
  ASSERT_EQ(file->bytes().size(), 5u);
  EXPECT_EQ(std::memcmp(file->bytes().data(), "hello", 5), 0);
  std::ofstream(path, std::ios::trunc).close();
  EXPECT_TRUE(MappedFile::Open(path)->bytes().empty());
  EXPECT_EQ(CodeOf([] { MappedFile::Open("/nonexistent/file"); }), Code::kInvalidModel);
  EXPECT_EQ(CodeOf([] { MappedFile::Open(testing::TempDir()); }), Code::kInvalidModel);
}

TEST(UsableCores, IsPositive) {
  EXPECT_GE(UsableCores(), 1);
}

}  // namespace
}  // namespace ullage
