/// The mutable half of a run: where each value lies and which shape it has right now.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <atomic>

#include "core/thread_team.h"
#include "memory/allocator.h"
#include "session/plan.h"
#include "session/program.h"
#include "session/run_shapes.h"

namespace ullage::session {

/// Gives memory back to the allocator that it came from.
struct FreeTo {
  memory::Allocator* allocator = nullptr;
  void operator()(void* p) const { allocator->Free(p); }
};
using ArenaBlock = std::unique_ptr<void, FreeTo>;

/// Blocks of prepacked weights, by index.
struct PrepackedBlocks {
  std::vector<const std::byte*> blocks;
};

class RunStats;

/// State of one run of one program (and, nested, of its sub-graphs). One frame serves one run at a time and
/// is used again; once made for every profile it allocates nothing, unless the plan has unbounded values.
class Frame {
 public:
  explicit Frame(const Program& program);
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame();

  const Program& program() const { return *program_; }
  /// Points the planned values at `arena` as `plan` says. Cheap when nothing changed.
  void Bind(const Plan& plan, std::byte* arena);

  TensorView& value(graph::ValueId v) { return values_[static_cast<size_t>(v)]; }
  const TensorView& value(graph::ValueId v) const { return values_[static_cast<size_t>(v)]; }
  /// Sets type, shape and memory of an input, a captured value, or an output that is written to given memory.
  void SetExternal(graph::ValueId v, const TensorView& view);
  /// Forgets that an output goes to given memory.
  void ClearExternal(graph::ValueId v);
  /// Frees what values without a bound took in the last run.
  void ReleaseDynamic() noexcept;

 private:
  friend class Executor;
  friend class StepContext;
  struct Dynamic {
    graph::ValueId value;
    ArenaBlock memory;
  };
  /// Frees what the value took.
  void Drop(graph::ValueId v) noexcept;

  void SetShape(graph::ValueId v, const Shape& shape);

  const Program* program_;
  const Plan* plan_ = nullptr;
  std::byte* arena_ = nullptr;
  std::vector<TensorView> values_;
  std::vector<ops::BoundedShape> shapes_;  // by value: values_[v].shape as a rule sees it
  std::vector<uint8_t> external_;          // by value: memory given from outside
  std::vector<uint32_t> versions_;         // by value: counts changes of shape
  std::vector<uint64_t> stamps_;           // by step: sum of its inputs' versions when its rule ran last
  std::vector<std::vector<std::unique_ptr<Frame>>> bodies_;  // by step, by body
  std::vector<Dynamic> dynamic_;
};

/// Runs a frame's steps in order. One executor per run at a time; holds no state between runs.
class Executor {
 public:
  /// `arena` serves what has no planned place; null where nothing may be allocated.
  Executor(ThreadTeam& threads, const PrepackedBlocks& prepacked, memory::Allocator* arena)
      : threads_(threads), prepacked_(prepacked), arena_(arena) {}

  /// All inputs and captures of the frame must be set. Throws what kernels and rules throw; an Error without
  /// the node's name gets it. `stop`, when given, is looked at between steps: kInterrupted.
  void Run(Frame& frame, const std::atomic<bool>* stop = nullptr);
  /// When set, gathers what every step takes; see run_stats.h.
  RunStats* stats = nullptr;

 private:
  friend class StepContext;
  void RunStep(Frame& frame, size_t index);
  /// Runs the step's rule unless no input changed its shape, and gives the outputs their shapes.
  void InferShapes(Frame& frame, size_t index);
  void RunIf(Frame& frame, size_t index);
  void RunLoop(Frame& frame, size_t index);
  void RunScan(Frame& frame, size_t index);
  void RunSelect(Frame& frame, size_t index);
  void RunView(Frame& frame, size_t index);
  void RunKernel(Frame& frame, size_t index);
  /// Runs body `b` of the step; its frame's inputs must be set. Sets the captures.
  Frame& RunBody(Frame& frame, size_t index, size_t b);
  /// Gives value v memory for its shape: planned, from outside, or, where nothing bounds it, from the arena.
  void Place(Frame& frame, graph::ValueId v, const graph::Node& node);

  ThreadTeam& threads_;
  const PrepackedBlocks& prepacked_;
  memory::Allocator* arena_;
  RunValues rule_values_;
  std::array<RunShapeContext::Result, RunShapeContext::kMaxOutputs> rule_results_;
};

}  // namespace ullage::session
