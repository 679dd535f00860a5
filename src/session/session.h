/// A loaded model: placed, planned, with its memory reserved, ready to run.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/mapped_file.h"
#include "core/options.h"
#include "core/thread_team.h"
#include "graph/graph.h"
#include "memory/allocator.h"
#include "memory/arena.h"
#include "memory/node_stats.h"
#include "memory/tags.h"
#include "placement/casts.h"
#include "placement/place.h"
#include "session/device_share.h"
#include "session/frame_pool.h"
#include "session/residency.h"
#include "session/session_spec.h"
#include "shapes/input_bounds.h"
#include "transforms/pass.h"

namespace ullage::session {

/// What a limit is compared with.
struct DevicePlan {
  std::string name = "cpu";
  std::string provider = "cpu";
  std::optional<int64_t> limit_bytes;
  memory::TagBytes tags;
  /// How weights lie: the option session.weights_resident, and how many of their bytes are the mapped file's.
  std::string weights_resident;
  int64_t mapped_bytes = 0;
  int64_t lower_bound_bytes = 0;
  int64_t nodes = 0;
  int64_t exact = 0, bound = 0, heuristic = 0;  ///< how the workspaces of the nodes are known
};

/// The largest single consumers, for the account of a shortfall.
struct Consumer {
  memory::Tag tag;
  std::string name;
  int64_t bytes = 0;
  graph::NodeId node = graph::kNone;  ///< that reads or makes it; kNone: no single one of the graph's
  size_t device = 0;                  ///< its place among the device plans
};

struct ProfilePlan {
  std::string name;
  std::vector<std::pair<std::string, std::vector<int64_t>>> bounds;  ///< upper ends of the inputs' dimensions
  const Plan* plan = nullptr;
};

class Session;

/// The right to use one frame of a session, for Runs one after the other. Its results stay where they are
/// until its next Run, or until it ends. Movable; not thread-safe by itself: threads that run the same
/// session each hold one of their own. Must end before the session does.
class Execution {
 public:
  Execution() = default;
  Execution(Execution&& other) noexcept { *this = std::move(other); }
  Execution& operator=(Execution&& other) noexcept;
  ~Execution() { Release(); }

  /// One view per graph input, in the graph's order, to be filled before each Run; those of states are
  /// ignored. Of sequences as kernels/sequence.h says; of strings, std::string objects.
  std::span<TensorView> inputs() { return frame_->inputs; }
  /// Runs the graph within profile `profile`. Inputs outside the profile's bounds, or sizes that break a
  /// relation which the plan relies on, are refused (kInvalidInput) before anything executes. Growing states
  /// gain rows. `stop`, when given, is looked at between steps: kInterrupted.
  void Run(int profile, const std::atomic<bool>* stop = nullptr);
  /// Result of the last Run.
  const TensorView& output(size_t index) const;
  /// Gives the frame back; the results are gone.
  void Release() noexcept;

 private:
  friend class Session;
  Execution(Session* session, RunFrame* frame) : session_(session), frame_(frame) {}

  Session* session_ = nullptr;
  RunFrame* frame_ = nullptr;
};

class Session {
 public:
  /// Runs the stages listed in initialize.cc. Throws kDoesNotFit with the account when the limit is too
  /// small.
  static std::unique_ptr<Session> Create(SessionSpec spec);
  /// Writes the node statistics, when the options name a file; a failure then is reported on stderr only.
  ~Session();

  // -- what was planned --
  /// The graph that runs: the spec's, or where a device needs casts a copy with them.
  const graph::Graph& graph() const { return casts_ ? *casts_->graph : *spec_.graph; }
  const SessionSpec& spec() const { return spec_; }
  /// Of the devices that take part, in their order; the host is the last.
  const std::vector<DevicePlan>& device_plans() const { return plans_; }
  const DevicePlan& device_plan() const { return plans_.back(); }
  /// No device has less than is planned.
  bool fits() const;
  /// Number in the program of a device by its place among the device plans, and the reverse.
  size_t number_of(size_t plan) const { return plan + 1 == plans_.size() ? 0 : plan + 1; }
  size_t plan_of(int device) const {
    return device == 0 ? plans_.size() - 1 : static_cast<size_t>(device - 1);
  }
  std::vector<ProfilePlan> profile_plans() const;
  std::vector<Consumer> largest_consumers(size_t count, size_t device) const;
  /// What the session holds from beginning to end: weights, caches, the caller's memory.
  std::vector<Consumer> resident() const;
  const std::vector<transforms::PassTiming>& pass_timings() const { return passes_; }
  const Program& program() const { return *program_; }
  /// What was proved of every value of the graph, in that profile.
  const shapes::GraphFacts& facts(size_t profile) const { return profiles_[profile].facts; }
  const placement::PlacedGraph& placed() const { return *placed_; }
  /// What was asked for and could not be done, beside what placement says; strict mode makes them errors.
  const std::vector<std::string>& warnings() const { return warnings_; }
  /// Union over the profiles.
  const shapes::GraphFacts& facts() const { return facts_; }
  int threads() const { return threads_; }
  /// Caches that are appended in place, and those that need a copy of themselves.
  int64_t shared_states() const;
  int64_t kv_bytes() const { return kv_bytes_; }
  /// Bytes of weights that one Run of one token reads: prepacked blocks, and constants but for tables that
  /// are looked up.
  int64_t step_weight_bytes() const;

  // -- running --
  /// Index in graph().inputs; throws kInvalidInput naming the inputs there are.
  size_t InputIndex(std::string_view name) const;
  /// Index of a graph output by the name that the model gives it.
  size_t OutputIndex(std::string_view name) const;
  const std::vector<std::string>& output_names() const { return output_names_; }
  bool IsState(size_t input) const;
  bool IsStateOutput(size_t output) const;

  /// A frame to run in. With pre-allocated buffers there is one: kBusy while it is in use. Sessions with
  /// states have one, too, and wait for it. Otherwise every caller gets a frame of its own, reserved when
  /// there is none to spare, and Runs go side by side; where the limit leaves no room for one more, the
  /// caller waits. Thread-safe.
  Execution Acquire();
  /// Acquires, runs once, and keeps hold of the results.
  [[nodiscard]] Execution Run(int profile, std::span<const TensorView> inputs,
                              const std::atomic<bool>* stop = nullptr);
  /// Gives back the memory of frames that no Run uses, except that of one, and free regions of the arena.
  void Trim();
  graph::TypeKind output_kind(size_t index) const { return program_->kind(graph().outputs[index]); }
  /// Rows of the growing states; setting fewer forgets the rest.
  int64_t state_rows() const { return state_rows_; }
  void SetStateRows(int64_t rows);
  /// Moves `rows` rows (axis 2) of every head of a fixed state of rank 4 from row `from` on to row `to` on.
  void MoveStateRows(std::string_view input, int64_t from, int64_t to, int64_t rows);
  /// Zeros the fixed states and forgets the growing ones.
  void ResetStates();
  ThreadTeam& team() { return *team_; }

  // -- what was measured --
  /// Highest number of bytes that the allocator of a device, by its place among the plans, had given out.
  /// More than planned where several Runs had a frame each.
  int64_t peak_bytes(size_t device) const;
  int64_t peak_bytes() const { return peak_bytes(plans_.size() - 1); }
  /// Bytes that it has given out now.
  int64_t current_bytes() const;
  /// Allocations since the session was made: frames beyond the first, and what has no bound.
  int64_t allocations_during_run(size_t device) const;
  int64_t allocations_during_run() const { return allocations_during_run(plans_.size() - 1); }
  /// What the arena for sizes without a bound did; nothing with pre-allocated buffers.
  std::optional<memory::ArenaStats> arena_stats() const;
  /// Memory statistics of the nodes over all Runs so far; empty unless they are collected.
  memory::NodeStatsTable node_stats() const { return node_stats_.table(); }
  /// What became of session.prepacked_cache: "" (not asked for), "mapped", "written", or why it was not.
  const std::string& prepacked_cache() const { return prepacked_cache_; }
  double load_seconds() const { return load_seconds_; }

 private:
  friend struct Initializer;
  friend class Execution;
  Session() = default;
  void RunIn(RunFrame& run, int profile, const std::atomic<bool>* stop);

  struct State {
    StateSpec spec;
    size_t input_index = 0, output_index = 0;
    graph::ValueId input = graph::kNone, output = graph::kNone;
    DType dtype = DType::kUndefined;
    bool shared = false;
    int device = 0;
    int64_t bytes = 0;                            ///< of one buffer
    int64_t offset = 0, offset_other = 0;         ///< on the host
    DeviceLayout::Place place, place_other;       ///< elsewhere
    std::byte *data = nullptr, *other = nullptr;  ///< once reserved; equal when shared
    bool flipped = false;
    std::byte* now() const { return flipped ? other : data; }
  };
  struct Profile {
    std::string name;
    std::unique_ptr<ops::SymbolTable> symbols;
    std::vector<ops::ValueFacts> inputs;
    shapes::GraphFacts facts;
    shapes::InputRelations relations;
    std::unique_ptr<Plan> plan;
  };
  struct Block {
    size_t bytes = 0;
    size_t alignment = 64;
    int device = 0;
    int64_t offset = 0;         ///< on the host
    DeviceLayout::Place place;  ///< elsewhere
    std::string name;
    std::string layout;  ///< with `sources`, all that decides about the bytes
    std::vector<const graph::Constant*> sources;
    Step* step = nullptr;
    int index = 0;
    graph::NodeId node = graph::kNone;  ///< kNone: in a sub-graph
  };

  DevicePlan& host_plan() { return plans_.back(); }
  /// Ranges of one state's memory; they may overlap.
  void MoveState(const State& state, std::byte* target, const std::byte* source, size_t bytes);

  SessionSpec spec_;
  std::vector<std::string> output_names_;
  int threads_ = 1;
  std::unique_ptr<ThreadTeam> team_;
  std::vector<transforms::PassTiming> passes_;
  std::vector<Profile> profiles_;
  shapes::GraphFacts facts_;
  std::optional<placement::Casts> casts_;
  std::unique_ptr<placement::PlacedGraph> placed_;
  std::unique_ptr<Program> program_;
  std::vector<State> states_;
  std::vector<Block> blocks_;
  std::optional<ResidentWeights> weights_;  // constants read at run time
  std::vector<std::string> warnings_;
  std::vector<DevicePlan> plans_;
  std::vector<std::unique_ptr<DeviceShare>> shares_;  // of the devices, by number less 1
  DeviceConstants device_constants_;
  int64_t kv_bytes_ = 0;
  int64_t prepacked_bytes_ = 0;
  int64_t arena_bytes_ = 0;

  std::unique_ptr<memory::HostAllocator> allocator_;
  memory::HostRegion prepacked_region_, kv_region_;
  std::shared_ptr<const MappedFile> prepacked_file_;  // instead of prepacked_region_
  std::string prepacked_cache_;
  PrepackedBlocks prepacked_;
  std::unique_ptr<memory::BfcArena> arena_;
  std::unique_ptr<FramePool> frames_;
  bool pre_allocated_ = false;
  bool shrink_arena_ = false;  // after every Run
  bool collect_stats_ = false;
  std::string stats_path_;  // empty: no file
  memory::NodeStatsRecorder node_stats_;
  int64_t state_rows_ = 0;
  int64_t allocations_at_start_ = 0;
  double load_seconds_ = 0;
};

/// Profile whose bounds are exactly the given shapes (one per graph input).
ProfileSpec ExactProfile(std::string name, std::vector<Shape> shapes);

/// Computes one node whose inputs are all constants, with the CPU's kernels; an empty list when it cannot.
/// Without `may_read` no input is read: the results are constants without contents, of the types and shapes
/// that computing would give.
std::vector<graph::ConstantPtr> EvaluateNode(const graph::Node& node, const graph::Graph& graph,
                                             std::span<const graph::ConstantPtr> inputs,
                                             bool may_read = true);

}  // namespace ullage::session
