/// The memory plan of a program for one profile: an offset for every value, workspace slot and sub-graph.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/packing.h"
#include "memory/workspace.h"
#include "session/program.h"
#include "session/step_sync.h"

namespace ullage::session {

/// Offsets are relative to one arena per device; those of sub-graphs too (their arenas lie inside their
/// node's step). A plan is data: it holds no pointers, and memory::RequireSound has judged it.
struct Plan {
  static constexpr int64_t kNoOffset = -1;
  /// By value of the program: offset in the arena of its device, or kNoOffset (not planned: constant, input,
  /// view, or unbounded).
  std::vector<int64_t> offsets;
  /// By value: bytes planned.
  std::vector<int64_t> bytes;
  /// By value: type, as proved.
  std::vector<DType> dtypes;
  /// By step: values without a planned size that no later step reads. Empty when all sizes are bounded.
  std::vector<std::vector<graph::ValueId>> last_reads;
  /// By step: 1 where the workspace has no bound, so that it is declared anew, for the sizes at hand, in each
  /// Run.
  std::vector<uint8_t> open_workspace;
  /// By step: memory beside its results that a step with sub-graphs works in; kNoOffset: none is planned. Of
  /// a Loop or Scan two per carried value, read and written in turn (the first of a Loop's may be its
  /// result), then one per scanned input for its slice.
  struct StepBuffer {
    int64_t offset = kNoOffset;
    int64_t bytes = 0;
  };
  std::vector<std::vector<StepBuffer>> step_buffers;
  /// Steps [first, last) that run for `rows` rows of their values at a time, where a run has more. What they
  /// hand to each other is planned as large as a tile.
  struct Tiles {
    int32_t first = 0, last = 0;
    int64_t rows = 0;
    struct Value {
      graph::ValueId value = graph::kNone;
      int64_t row_bytes = 0;
      bool written = false;
    };
    std::vector<Value> outside;  ///< what they share with other steps: rows of it at a time; inputs first
  };
  static constexpr size_t kMaxOutside = 48;
  std::vector<Tiles> tiles;  ///< in order
  /// By step, by body: the plan of the sub-graph, with offsets already shifted into these arenas.
  std::vector<std::vector<std::unique_ptr<Plan>>> bodies;

  /// The memory of one device.
  struct Arena {
    int64_t bytes = 0;
    int64_t lower_bound = 0;  ///< for these lives and aliases
    int64_t workspace_peak = 0;
    memory::WorkspacePattern workspace;  ///< key: (step index, slot)
    int64_t shift = 0;                   ///< added to the pattern's offsets (sub-graphs)
    /// What the packing loses: 1 when none can be smaller.
    double ratio() const {
      return lower_bound > 0 ? static_cast<double>(bytes) / static_cast<double>(lower_bound) : 1.0;
    }
  };
  std::vector<Arena> arenas;  ///< by device; the host's is the first
  const Arena& host() const { return arenas[0]; }
  int threads = 1;  ///< for which the workspaces are
  SyncPlan sync;    ///< empty when only the host works

  /// The buffers as they were packed, for reports: name, bytes, life in steps.
  struct Item {
    int device = 0;
    std::string name;
    std::string tag;
    int64_t offset = 0;
    int64_t bytes = 0;
    int64_t first = 0;
    int64_t last = 0;
  };
  std::vector<Item> items;
};

struct PlanOptions {
  bool in_place = true;   ///< results over inputs that die
  bool tiles = true;      ///< runs of steps that work on rows, some rows at a time (tiles.h)
  int64_t tile_rows = 0;  ///< of every such run; 0: chosen, where it helps
  bool concat = true;  ///< inputs of a Concat in their places in its result, where that takes no more memory
  bool quick = false;  ///< greedy packing only, and no judge: for comparisons
};

/// `external`: values whose memory is given from outside (bound states and outputs), so not planned.
std::unique_ptr<Plan> MakePlan(const Program& program, const shapes::GraphFacts& facts,
                               const std::vector<graph::ValueId>& external, int threads,
                               const PlanOptions& options = {});

/// What the step's kernel declares for the facts, or, of a step that works on rows, for `rows` of them;
/// nothing when they bound too little to ask it.
std::optional<std::vector<memory::WorkspaceRequirement>> StepWorkspace(const Program& program,
                                                                       const Step& step,
                                                                       const shapes::GraphFacts& facts,
                                                                       int threads, int64_t rows = 0);
/// By value: one more than the last step that uses its bytes, views counted for their root; for results of
/// the graph one more than the number of steps.
std::vector<int64_t> LastUses(const Program& program);
/// Whether, in every run within the facts, the step's first result may be written over its input `i`: the
/// same type and shape, all of the root's bytes, read at no other input. That nobody needs the input later is
/// not looked at.
bool MayTakeOver(const Program& program, const shapes::GraphFacts& facts, const Step& step, size_t i);

}  // namespace ullage::session
