/// The mutable half of a run: where each value lies and which shape it has right now.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <atomic>

#include "core/thread_team.h"
#include "memory/allocator.h"
#include "session/device_queue.h"
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

/// Where constants lie that devices read, by program and value.
using DeviceConstants = std::map<std::pair<const Program*, graph::ValueId>, std::byte*>;

class RunStats;

/// Memory taken in a run, for values without a plan.
struct Dynamic {
  ArenaBlock memory;
  std::vector<std::string> strings;
};

/// State of one run of one program (and, nested, of its sub-graphs). One frame serves one run at a time and
/// is used again; once made for every profile it allocates nothing, unless the plan has unbounded values.
class Frame {
 public:
  struct Room {
    std::byte* data = nullptr;
    int64_t bytes = 0;
  };

  /// `constants`: where those that devices read lie.
  Frame(const Program& program, const DeviceConstants* constants);
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame();

  const Program& program() const { return *program_; }
  /// Points the planned values at the arenas, by device, as `plan` says. Cheap when nothing changed.
  void Bind(const Plan& plan, std::span<std::byte* const> arenas);
  /// Makes the events that a Run by `plan` needs; those of other plans stay.
  void MakeEvents(const Plan& plan, std::span<DeviceQueue> queues);

  TensorView& value(graph::ValueId v) { return values_[static_cast<size_t>(v)]; }
  const TensorView& value(graph::ValueId v) const { return values_[static_cast<size_t>(v)]; }
  /// Sets type, shape and memory of an input, a captured value, or an output that is written to given memory
  /// of `room` bytes.
  void SetExternal(graph::ValueId v, const TensorView& view, int64_t room = INT64_MAX);
  /// Forgets that an output goes to given memory.
  void ClearExternal(graph::ValueId v);
  /// Frees what values without a bound took in the last run.
  void ReleaseDynamic() noexcept;

 private:
  friend class Executor;
  friend class StepContext;

  /// Slices of a scanned result without a plan, one behind the other.
  struct Slices {
    ArenaBlock memory;
    size_t room = 0;
  };
  /// What a step with rounds keeps from one round to the next.
  struct LoopState {
    std::vector<TensorView> carried;
    std::vector<Room> rooms;       // as Plan::step_buffers
    std::vector<Dynamic> memory;   // where there is no room
    std::vector<Shape> shapes;     // by scanned result: of a slice
    std::vector<uint8_t> opened;   // by result: has its memory
    std::vector<int64_t> strides;  // by result of a SequenceMap: room of an element
    std::vector<Slices> stacks;    // by scanned result
    int64_t number = 0;
    uint8_t condition = 0;
  };
  /// Frees what the value took.
  void Drop(graph::ValueId v) noexcept;

  void SetShape(graph::ValueId v, const Shape& shape);
  /// The value is that one from now on.
  void Show(graph::ValueId v, const TensorView& view);
  /// The contents changed in a way that rules may see although the shape did not.
  void Touch(graph::ValueId v) { ++versions_[static_cast<size_t>(v)]; }
  /// Where a result is to be written, given or planned; null when its memory is taken in the run.
  Room RoomOf(graph::ValueId v) const;
  /// Where the plan has it; null: nowhere.
  std::byte* PlannedPlace(graph::ValueId v) const;

  const Program* program_;
  const Plan* plan_ = nullptr;
  std::vector<std::byte*> arenas_;                         // by device
  std::vector<std::unique_ptr<providers::Event>> events_;  // by step; null: none waits for it
  std::vector<TensorView> values_;
  std::vector<ops::BoundedShape> shapes_;  // by value: values_[v].shape as a rule sees it
  std::vector<uint8_t> external_;          // by value: memory given from outside
  std::vector<int64_t> rooms_;             // by value: bytes of that memory
  std::vector<uint32_t> versions_;         // by value: counts changes of shape
  std::vector<uint64_t> stamps_;           // by step: sum of its inputs' versions when its rule ran last
  std::vector<std::vector<std::unique_ptr<Frame>>> bodies_;  // by step, by body
  std::vector<std::pair<graph::ValueId, Dynamic>> dynamic_;
  std::vector<LoopState> loops_;  // by step
};

/// Bytes that a value takes; copies a value in host memory unless both are the same memory.
int64_t SizeOf(graph::TypeKind kind, const TensorView& view);
void CopyValue(graph::TypeKind kind, const TensorView& from, const TensorView& to);

/// Runs a frame's steps in order. One executor per run at a time; holds no state between runs.
class Executor {
 public:
  /// `arena` serves what has no planned place; null where nothing may be allocated.
  /// `queues`: of the devices, by number less 1; they must live as long as the executor.
  Executor(ThreadTeam& threads, const PrepackedBlocks& prepacked, memory::Allocator* arena,
           std::span<DeviceQueue> queues = {})
      : threads_(threads), prepacked_(prepacked), arena_(arena), queues_(queues) {}

  /// All inputs and captures of the frame must be set. Throws what kernels and rules throw; an Error without
  /// the node's name gets it. `stop`, when given, is looked at between steps: kInterrupted. No queue holds
  /// work of the Run when it returns or throws.
  void Run(Frame& frame, const std::atomic<bool>* stop = nullptr);
  /// When set, gathers what every step takes; see run_stats.h.
  RunStats* stats = nullptr;

 private:
  friend class StepContext;
  void RunStep(Frame& frame, size_t index);
  /// Runs the step's rule unless no input changed its shape, and gives the outputs their shapes.
  void InferShapes(Frame& frame, size_t index);
  /// One rule; false: the shapes may be others the next time although the inputs have theirs.
  bool ApplyRule(Frame& frame, graph::NodeId node, const ops::OpInfo& op,
                 std::span<const graph::ValueId> inputs, std::span<const graph::ValueId> outputs, bool late);
  void RunIf(Frame& frame, size_t index);
  void RunLoop(Frame& frame, size_t index);
  void RunScan(Frame& frame, size_t index);
  void RunSequenceMap(Frame& frame, size_t index);
  void RunSelect(Frame& frame, size_t index);
  void RunView(Frame& frame, size_t index);
  void RunParts(Frame& frame, size_t index);
  void RunKernel(Frame& frame, size_t index);
  void RunCopy(Frame& frame, size_t index);
  void RunSteps(Frame& frame);
  /// RunStep() in its place among those of other queues.
  void RunInOrder(Frame& frame, size_t index);
  /// Copies within the memory of one device, or the host.
  void CopyWithin(int device, graph::TypeKind kind, const TensorView& from, const TensorView& to);
  void FinishQueues();
  /// Steps [first, last), looking at `stop_` before each.
  void RunSteps(Frame& frame, size_t first, size_t last);
  /// Runs the steps for some rows after the other; see Plan::Tiles.
  void RunTiles(Frame& frame, const Plan::Tiles& tiles);
  void RecordTiles(Frame& frame, const Plan::Tiles& tiles);
  /// The frame of body `b` of the step, with its captures set.
  Frame& BodyOf(Frame& frame, size_t index, size_t b);
  /// Has result `v` of a sub-graph written to that memory, where a step of it writes it.
  void Direct(Frame& body, graph::ValueId v, const Frame::Room& room);
  /// Makes `result` the value v: its shape, its memory, and its contents unless they lie there.
  void Hand(Frame& frame, graph::ValueId v, graph::TypeKind kind, const TensorView& result);
  // Of steps with rounds: finds the planned memory; keeps carried value i for the next round; appends a
  // slice.
  void FindRooms(Frame& frame, size_t index, size_t carried);
  void Carry(Frame& frame, size_t index, Frame& body, size_t i, graph::ValueId result, int64_t round);
  void Stack(Frame& frame, size_t index, size_t s, graph::ValueId out, int64_t round,
             const TensorView& slice);
  /// Gives value v `bytes` of memory (arena, outside memory, or, where nothing bounds it, taken now).
  void Place(Frame& frame, graph::ValueId v, int64_t bytes);
  /// The same for a sequence, which is then empty.
  void PlaceSequence(Frame& frame, graph::ValueId v, const RunShapeContext::Result& result);
  /// Memory from the dynamic allocator for a value like `view` that takes `bytes`; strings are made.
  void* Allocate(int64_t bytes, const TensorView& view, Dynamic& memory);

  ThreadTeam& threads_;
  const PrepackedBlocks& prepacked_;
  memory::Allocator* arena_;
  const std::span<DeviceQueue> queues_;
  const std::atomic<bool>* stop_ = nullptr;
  bool in_tile_ = false;
  std::map<size_t, std::pair<int64_t, int64_t>>
      tile_temps_;  // by step, for statistics when all rows are there
  RunValues rule_values_;
  std::array<RunShapeContext::Result, RunShapeContext::kMaxOutputs> rule_results_;
};

}  // namespace ullage::session
