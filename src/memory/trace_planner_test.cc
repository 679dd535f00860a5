#include "memory/trace_planner.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "core/error.h"

namespace ullage::memory {
namespace {

TEST(TracePlanner, AppendsThenFillsTheGapOfLeastWaste) {
  TracePlanner planner;
  EXPECT_EQ(planner.TraceAllocation(0, 1024), 0);
  EXPECT_EQ(planner.TraceAllocation(1, 256), 1024);
  EXPECT_EQ(planner.TraceAllocation(2, 512), 1280);
  EXPECT_EQ(planner.TraceAllocation(3, 1024), 1792);
  EXPECT_EQ(planner.peak(), 2816);
  planner.TraceFree(1);
  EXPECT_EQ(planner.TraceAllocation(4, 512), 2816);
  planner.TraceFree(3);
  EXPECT_EQ(planner.TraceAllocation(5, 600), 1792);
  EXPECT_EQ(planner.TraceAllocation(6, 200), 1024);
  EXPECT_EQ(planner.peak(), 3328);
}

TEST(TracePlanner, WorkspaceTakesTheRoomOfADeadActivation) {
  for (const auto& [activation, workspace] : {std::pair<int64_t, int64_t>{4096, 1024}, {1024, 4096}}) {
    TracePlanner planner;
    EXPECT_EQ(planner.TraceAllocation(7, activation), 0);
    planner.TraceFree(7);
    EXPECT_EQ(planner.TraceAllocation(-1, workspace), 0);
    EXPECT_EQ(planner.peak(), 4096);
  }
}

TEST(TracePlanner, SequentialWorkspacesShareOneOffset) {
  TracePlanner planner;
  planner.TraceAllocation(0, 2048);
  for (int64_t id = -1; id >= -3; --id) {
    EXPECT_EQ(planner.TraceAllocation(id, 768, 256), 2048);
    planner.TraceFree(id);
  }
  for (int64_t id = -1; id >= -3; --id) {
    ASSERT_TRUE(planner.GetBlock(id).has_value());
    EXPECT_EQ(planner.GetBlock(id)->offset, 2048);
    EXPECT_EQ(planner.GetBlock(id)->size, 768);
  }
  EXPECT_EQ(planner.peak(), 2816);
  EXPECT_EQ(planner.live(), 1u);
}

TEST(TracePlanner, EmptyBlocksTakeNoRoom) {
  TracePlanner planner;
  EXPECT_EQ(planner.TraceAllocation(0, 64), 0);
  EXPECT_EQ(planner.TraceAllocation(1, 0), 0);
  EXPECT_EQ(planner.TraceAllocation(2, 0), 0);
  EXPECT_EQ(planner.TraceAllocation(3, 64), 64);
  planner.TraceFree(1);
  EXPECT_EQ(planner.TraceAllocation(4, 64), 128);
}

TEST(TracePlanner, MisuseIsAnError) {
  TracePlanner planner;
  planner.TraceAllocation(0, 64);
  EXPECT_THROW(planner.TraceAllocation(0, 64), Error);
  EXPECT_THROW(planner.TraceAllocation(1, -1), Error);
  EXPECT_THROW(planner.TraceAllocation(1, 64, 3), Error);
  EXPECT_THROW(planner.TraceAllocation(1, int64_t{1} << 62), Error);
  EXPECT_THROW(planner.TraceFree(9), Error);
  planner.TraceFree(0);
  EXPECT_THROW(planner.TraceFree(0), Error);
  EXPECT_THROW(planner.TraceAllocation(0, 64), Error);
  EXPECT_EQ(planner.GetBlock(9).has_value(), false);
}

TEST(TracePlanner, LiveBlocksNeverShareBytes) {
  std::mt19937 random(1);
  TracePlanner planner;
  std::map<int64_t, TracePlanner::Block> live;
  for (int64_t key = 0; key < 3000; ++key) {
    const int64_t size = random() % 1000;
    const int64_t alignment = int64_t{1} << (random() % 9);
    const int64_t offset = planner.TraceAllocation(key, size, alignment);
    EXPECT_EQ(offset % alignment, 0);
    for (const auto& [other, block] : live)
      EXPECT_TRUE(size == 0 || block.size == 0 || offset + size <= block.offset ||
                  block.offset + block.size <= offset);
    EXPECT_LE(offset + size, planner.peak());
    live[key] = {offset, size};
    while (live.size() > 40) {
      const auto victim = std::next(live.begin(), random() % live.size());
      planner.TraceFree(victim->first);
      live.erase(victim);
    }
  }
}

}  // namespace
}  // namespace ullage::memory
