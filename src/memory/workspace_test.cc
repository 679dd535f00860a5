#include "memory/workspace.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "memory/checker.h"

namespace ullage::memory {
namespace {

WorkspaceRequirement Slot(int slot, size_t bytes, size_t alignment = 0) {
  WorkspaceRequirement r;
  r.slot_id = slot;
  r.size_bytes = bytes;
  r.alignment = alignment;
  return r;
}

TEST(Workspace, StepsShareAndPeakIsTheLargestStep) {
  // Node A: two slots, node B: one, node C: two. B and C reuse A's memory.
  const std::vector<NodeWorkspace> nodes = {{10, 0, {Slot(0, 2048), Slot(1, 2048)}},
                                            {11, 1, {Slot(0, 1024)}},
                                            {12, 2, {Slot(0, 4096), Slot(2, 4000)}}};
  std::vector<Buffer> buffers;
  WorkspacePattern pattern = WorkspacePattern::Append(nodes, 3, &buffers);
  ASSERT_EQ(buffers.size(), 5u);
  EXPECT_EQ(pattern.live_peak(), 8192);
  EXPECT_EQ(pattern.size(), 5u);
  EXPECT_FALSE(pattern.GetOffset(10, 0).has_value()) << "not resolved yet";
  const Packing packing = Pack(buffers);
  RequireSound(buffers, packing);
  pattern.Resolve(packing);
  EXPECT_LE(packing.peak, 8192);
  EXPECT_EQ(pattern.GetOffset(11, 0)->offset, 0);
  EXPECT_EQ(pattern.GetOffset(11, 0)->size, 1024u);
  EXPECT_NE(pattern.GetOffset(12, 0)->offset, pattern.GetOffset(12, 2)->offset);
  EXPECT_EQ(pattern.GetOffset(12, 2)->offset % 256, 0);
  EXPECT_FALSE(pattern.GetOffset(12, 1).has_value());
  EXPECT_FALSE(pattern.GetOffset(13, 0).has_value());
}

TEST(Workspace, SharesTheRoomOfDeadActivations) {
  std::vector<Buffer> buffers(1);
  buffers[0].size = 4096;
  buffers[0].first = 0;
  buffers[0].last = 1;
  WorkspacePattern pattern =
      WorkspacePattern::Append(std::vector<NodeWorkspace>{{5, 1, {Slot(0, 1000)}}}, 2, &buffers);
  const Packing packing = Pack(buffers);
  pattern.Resolve(packing);
  EXPECT_EQ(packing.peak, 4096);
  EXPECT_EQ(pattern.GetOffset(5, 0)->offset, 0);
}

TEST(Workspace, AlignmentZeroIsTheDefaultAndGivenOnesAreKept) {
  std::vector<Buffer> buffers;
  WorkspacePattern::Append(
      std::vector<NodeWorkspace>{{0, 0, {Slot(0, 10), Slot(1, 10, 256), Slot(2, 10, 4096), Slot(3, 10, 1)}}},
      1, &buffers);
  ASSERT_EQ(buffers.size(), 4u);
  EXPECT_EQ(buffers[0].alignment, 256);
  EXPECT_EQ(buffers[1].alignment, 256);
  EXPECT_EQ(buffers[2].alignment, 4096);
  EXPECT_EQ(buffers[3].alignment, 1);
}

TEST(Workspace, UnknownZeroAndEmptySlotsAreNotPlanned) {
  WorkspaceRequirement unknown = Slot(0, 0);
  unknown.status = WorkspaceStatus::kUnknown;
  WorkspaceRequirement zero = Slot(1, 0);
  zero.status = WorkspaceStatus::kZero;
  std::vector<Buffer> buffers;
  WorkspacePattern pattern =
      WorkspacePattern::Append(std::vector<NodeWorkspace>{{3, 0, {zero, unknown, Slot(2, 0)}}}, 1, &buffers);
  EXPECT_TRUE(buffers.empty());
  ASSERT_EQ(pattern.unknown().size(), 1u);
  EXPECT_EQ(pattern.unknown()[0], (std::pair<int64_t, int>(3, 0)));
  EXPECT_EQ(WorkspaceTotal(std::vector{zero, unknown, Slot(2, 0), Slot(3, 1)}), 256u);
}

TEST(Workspace, SessionSlotsLiveInEveryStep) {
  WorkspaceRequirement keep = Slot(0, 512);
  keep.lifetime = WorkspaceLifetime::kSession;
  std::vector<Buffer> buffers;
  const WorkspacePattern pattern = WorkspacePattern::Append(
      std::vector<NodeWorkspace>{{0, 2, {keep, Slot(1, 256)}}, {1, 7, {Slot(0, 1024)}}}, 9, &buffers);
  EXPECT_EQ(buffers[0].first, 0);
  EXPECT_EQ(buffers[0].last, 9);
  EXPECT_EQ(pattern.live_peak(), 1536);
}

TEST(Workspace, ARequestBeyondTheDeclarationGetsNothing) {
  std::vector<Buffer> buffers;
  WorkspacePattern pattern =
      WorkspacePattern::Append(std::vector<NodeWorkspace>{{0, 0, {Slot(0, 512)}}}, 1, &buffers);
  pattern.Resolve(Pack(buffers));
  EXPECT_TRUE(pattern.GetOffset(0, 0, 100).has_value());
  EXPECT_TRUE(pattern.GetOffset(0, 0, 512).has_value());
  EXPECT_FALSE(pattern.GetOffset(0, 0, 513).has_value());
}

TEST(Workspace, BadDeclarationsNameNodeAndSlot) {
  std::vector<Buffer> buffers;
  const auto message = [&](int64_t step, std::vector<WorkspaceRequirement> requirements) -> std::string {
    try {
      WorkspacePattern::Append(std::vector<NodeWorkspace>{{42, step, std::move(requirements)}}, 2, &buffers);
    } catch (const Error& e) {
      return e.message();
    }
    return "";
  };
  EXPECT_NE(message(0, {Slot(7, 1), Slot(7, 1)}).find("node 42 declares workspace slot 7 twice"),
            std::string::npos);
  EXPECT_NE(message(0, {Slot(-1, 1)}).find("negative"), std::string::npos);
  EXPECT_NE(message(0, {Slot(3, 1, 48)}).find("node 42: workspace slot 3 has alignment 48"),
            std::string::npos);
  EXPECT_NE(message(2, {Slot(0, 1)}).find("step 2"), std::string::npos);
  EXPECT_NE(message(0, {Slot(0, SIZE_MAX)}).find("2^62"), std::string::npos);
  const size_t half = size_t{1} << 61;
  EXPECT_NE(message(0, {Slot(0, half), Slot(1, half), Slot(2, half)}).find("2^62"), std::string::npos);
  EXPECT_THROW(WorkspaceTotal(std::vector{Slot(0, half), Slot(1, half), Slot(2, half)}), Error);
}

}  // namespace
}  // namespace ullage::memory
