#include "session/session.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "kernels/sequence.h"
#include "session/run_stats.h"

namespace ullage::session {

using graph::ValueId;

Session::~Session() {
  if (stats_path_.empty()) return;
  try {
    memory::WriteNodeStats(stats_path_, node_stats_.table(),
                           spec_.options.Bool("session.collect_node_memory_stats_live_peak"));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ullage: %s\n", error.what());
  }
}

std::vector<ProfilePlan> Session::profile_plans() const {
  std::vector<ProfilePlan> out;
  for (const auto& p : profiles_) {
    ProfilePlan plan;
    plan.name = p.name;
    plan.plan = p.plan.get();
    for (size_t i = 0; i < p.inputs.size(); ++i) {
      if (IsState(i)) continue;
      std::vector<int64_t> dims;
      for (int d = 0; d < p.inputs[i].shape.rank; ++d) dims.push_back(p.inputs[i].shape[d].upper);
      plan.bounds.emplace_back(graph().value(graph().inputs[i]).name, std::move(dims));
    }
    out.push_back(std::move(plan));
  }
  return out;
}

std::vector<Consumer> Session::resident() const {
  std::vector<Consumer> all;
  for (const auto& w : weights_->weights())
    all.push_back({memory::Tag::kWeights, w.name, w.bytes, w.node, plan_of(0)});
  for (const auto& b : blocks_)
    all.push_back(
        {memory::Tag::kPrepacked, b.name, static_cast<int64_t>(b.bytes), b.node, plan_of(b.device)});
  for (const auto& state : states_) {
    const auto* writer = graph().ProducerOf(program_->source(state.output));
    all.push_back({memory::Tag::kKv, state.spec.input, state.bytes * (state.shared ? 1 : 2),
                   writer ? writer->id : graph::kNone, plan_of(state.device)});
  }
  for (const auto& e : spec_.extra) all.push_back({e.tag, e.name, e.bytes, graph::kNone, plan_of(0)});
  for (size_t d = 0; d < shares_.size(); ++d) {
    for (const auto& c : shares_[d]->constants)
      all.push_back({memory::Tag::kWeights, c.name, static_cast<int64_t>(c.constant->size_bytes), c.node, d});
    if (const int64_t overhead = plans_[d].tags[memory::Tag::kOverhead]; overhead > 0)
      all.push_back({memory::Tag::kOverhead, "the device's libraries", overhead, graph::kNone, d});
  }
  return all;
}

std::vector<Consumer> Session::largest_consumers(size_t count, size_t device) const {
  std::vector<Consumer> all = resident();
  for (const auto& p : profiles_)
    for (const auto& item : p.plan->items)
      all.push_back({item.tag == "workspace" ? memory::Tag::kWorkspace : memory::Tag::kActivations,
                     item.name + " (" + p.name + ")", item.bytes, graph::kNone, plan_of(item.device)});
  std::erase_if(all, [device](const Consumer& c) { return c.device != device; });
  std::stable_sort(all.begin(), all.end(),
                   [](const Consumer& a, const Consumer& b) { return a.bytes > b.bytes; });
  if (all.size() > count) all.resize(count);
  return all;
}

int64_t Session::shared_states() const {
  return std::count_if(states_.begin(), states_.end(), [](const State& state) { return state.shared; });
}

int64_t Session::step_weight_bytes() const {
  int64_t bytes = 0;
  for (const Block& block : blocks_) bytes += static_cast<int64_t>(block.bytes);
  for (const Step& step : program_->steps()) {
    if (step.kind == Step::Kind::kCopy) continue;
    const auto& node = graph().node(step.node);
    if (node.op == "Gather" || node.op == "BlockGather" || node.op == "GatherBlockQuantized") continue;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const auto* c = program_->constant(step.inputs[i]);
      // Weights with a prepacked form are counted there; position tables are looked up.
      if (c && step.prepacked.empty() && node.op != "GroupQueryAttention")
        bytes += static_cast<int64_t>(c->size_bytes);
    }
  }
  return bytes;
}

size_t Session::InputIndex(std::string_view name) const {
  const auto& g = graph();
  for (size_t i = 0; i < g.inputs.size(); ++i)
    if (g.value(g.inputs[i]).name == name) return i;
  std::string names;
  for (ValueId v : g.inputs) names += (names.empty() ? "" : ", ") + g.value(v).name;
  Throw(Code::kInvalidInput, "the graph has no input ", name, "; it has ", names);
}

size_t Session::OutputIndex(std::string_view name) const {
  for (size_t i = 0; i < output_names_.size(); ++i)
    if (output_names_[i] == name) return i;
  std::string names;
  for (const auto& n : output_names_) names += (names.empty() ? "" : ", ") + n;
  Throw(Code::kInvalidInput, "the graph has no output ", name, "; it has ", names);
}

bool Session::IsState(size_t input) const {
  return std::any_of(states_.begin(), states_.end(),
                     [&](const State& state) { return state.input_index == input; });
}

bool Session::IsStateOutput(size_t output) const {
  return std::any_of(states_.begin(), states_.end(),
                     [&](const State& state) { return state.output_index == output; });
}

namespace {

void CheckSequence(const std::string& name, const kernels::Sequence& sequence, const ops::ValueFacts& bound) {
  if (sequence.size() < bound.length.lower || sequence.size() > bound.length.upper)
    Throw(Code::kInvalidInput, "input ", name, ": ", sequence.size(), " elements, more than the bound ",
          bound.length.upper);
  for (int64_t k = 0; k < sequence.size(); ++k)
    if (!bound.shape.Contains(sequence.at(k).shape))
      Throw(Code::kInvalidInput, "input ", name, ": element ", k, " of shape ",
            sequence.at(k).shape.ToString(), " is outside of the bound ", bound.shape.ToString());
}

}  // namespace

Execution& Execution::operator=(Execution&& other) noexcept {
  if (this == &other) return *this;
  Release();
  session_ = std::exchange(other.session_, nullptr);
  frame_ = std::exchange(other.frame_, nullptr);
  return *this;
}

void Execution::Run(int profile, const std::atomic<bool>* stop) {
  session_->RunIn(*frame_, profile, stop);
}

const TensorView& Execution::output(size_t index) const {
  return frame_->frame.value(session_->program().outputs()[index]);
}

void Execution::Release() noexcept {
  if (frame_) {
    session_->frames_->Release(frame_);
    if (session_->shrink_arena_) session_->arena_->Shrink();
  }
  session_ = nullptr;
  frame_ = nullptr;
}

Execution Session::Acquire() {
  if (!frames_) Throw(Code::kUsage, "session of ", spec_.model_name, " was planned only; it cannot run");
  return {this, frames_->Acquire()};
}

Execution Session::Run(int profile, std::span<const TensorView> inputs, const std::atomic<bool>* stop) {
  if (inputs.size() != graph().inputs.size())
    Throw(Code::kInvalidInput, "expected ", graph().inputs.size(), " inputs, found ", inputs.size());
  Execution execution = Acquire();
  std::copy(inputs.begin(), inputs.end(), execution.inputs().begin());
  execution.Run(profile, stop);
  return execution;
}

void Session::Trim() {
  if (frames_) frames_->Trim();
  if (arena_) arena_->Shrink();
}

void Session::RunIn(RunFrame& run, int profile, const std::atomic<bool>* stop) {
  const Profile& p = profiles_[static_cast<size_t>(profile)];
  const auto& g = graph();
  const std::vector<TensorView>& inputs = run.inputs;
  // Everything is checked before anything changes.
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (IsState(i)) continue;
    const auto& name = g.value(g.inputs[i]).name;
    const TensorView& in = inputs[i];
    if (in.dtype != p.inputs[i].dtype)
      Throw(Code::kInvalidInput, "input ", name, ": expected type ", NameOf(p.inputs[i].dtype), ", found ",
            NameOf(in.dtype));
    if (p.inputs[i].kind != graph::TypeKind::kTensor) {
      CheckSequence(name, kernels::Sequence(in), p.inputs[i]);
      continue;
    }
    if (!p.inputs[i].shape.Contains(in.shape))
      Throw(Code::kInvalidInput, "input ", name, ": shape ", in.shape.ToString(), " is outside of the bound ",
            p.inputs[i].shape.ToString());
  }
  p.relations.Check([&](size_t i, int d) {
    const auto state = std::find_if(states_.begin(), states_.end(),
                                    [i](const State& candidate) { return candidate.input_index == i; });
    if (state == states_.end()) return inputs[i].shape[d];
    return state->spec.grows && d == 2 ? state_rows_ : state->spec.max_shape[d];
  });
  Frame& frame = run.frame;
  frame.ReleaseDynamic();
  frame.Bind(*p.plan, run.arenas);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!IsState(i)) frame.SetExternal(g.inputs[i], inputs[i]);
  for (State& state : states_) {
    TensorView past, present;
    past.dtype = present.dtype = state.dtype;
    past.shape = present.shape = state.spec.max_shape;
    if (state.spec.grows) past.shape[2] = present.shape[2] = state_rows_;
    past.data = state.flipped ? state.other : state.data;
    present.data = state.flipped ? state.data : state.other;
    if (state.shared && state.spec.grows) past.capacity = present.capacity = state.spec.max_shape[2];
    frame.SetExternal(state.input, past);
    frame.SetExternal(state.output, present);
  }
  if (collect_stats_) {
    RunStats run_stats;
    run.executor.stats = &run_stats;
    run.executor.Run(frame, stop);
    node_stats_.Merge(run_stats.rows());
  } else {
    run.executor.stats = nullptr;
    run.executor.Run(frame, stop);
  }
  if (states_.empty()) return;  // only sessions with states have one Run at a time
  int64_t rows = state_rows_;
  for (State& state : states_) {
    if (state.spec.grows) rows = frame.value(state.output).shape[2];
    if (!state.shared) state.flipped = !state.flipped;
  }
  state_rows_ = rows;
}

void Session::SetStateRows(int64_t rows) {
  if (rows < 0 || rows > state_rows_)
    Throw(Code::kRuntime, "cannot set the caches to ", rows, " rows; they hold ", state_rows_);
  if (rows == state_rows_) return;
  // A cache that is copied by each Run lies densely: rows of the heads move together when there are fewer.
  for (const State& state : states_) {
    if (state.shared || !state.spec.grows) continue;
    std::byte* data = state.now();
    const Shape& shape = state.spec.max_shape;
    const size_t row = BytesOf(state.dtype, shape.elements(3, shape.rank()));
    for (int64_t head = 1; head < shape[0] * shape[1]; ++head)
      MoveState(state, data + static_cast<size_t>(head * rows) * row,
                data + static_cast<size_t>(head * state_rows_) * row, static_cast<size_t>(rows) * row);
  }
  state_rows_ = rows;
}

void Session::MoveStateRows(std::string_view input, int64_t from, int64_t to, int64_t rows) {
  const auto state = std::find_if(states_.begin(), states_.end(),
                                  [&](const State& s) { return s.spec.input == input && !s.spec.grows; });
  if (state == states_.end()) Throw(Code::kRuntime, "there is no fixed state ", input);
  const Shape& shape = state->spec.max_shape;
  if (shape.rank() != 4 || from < 0 || to < 0 || rows < 0 || std::max(from, to) > shape[2] - rows)
    Throw(Code::kRuntime, "cannot move ", rows, " rows of ", input, " from ", from, " to ", to);
  std::byte* data = state->now();
  const size_t row = BytesOf(state->dtype, shape[3]);
  for (int64_t head = 0; head < shape[0] * shape[1]; ++head)
    MoveState(*state, data + static_cast<size_t>(head * shape[2] + to) * row,
              data + static_cast<size_t>(head * shape[2] + from) * row, static_cast<size_t>(rows) * row);
}

void Session::MoveState(const State& state, std::byte* target, const std::byte* source, size_t bytes) {
  if (state.device == 0)
    std::memmove(target, source, bytes);
  else
    shares_[static_cast<size_t>(state.device - 1)]->Move(target, source, static_cast<int64_t>(bytes));
}

void Session::ResetStates() {
  state_rows_ = 0;
  for (State& state : states_) {
    state.flipped = false;
    if (state.spec.grows) continue;
    if (state.device == 0)
      std::memset(state.data, 0, static_cast<size_t>(state.bytes));
    else
      shares_[static_cast<size_t>(state.device - 1)]->Fill(state.data, state.bytes);
  }
}

bool Session::fits() const {
  return std::all_of(plans_.begin(), plans_.end(), [](const DevicePlan& plan) {
    return !plan.limit_bytes || plan.tags.Sum() <= *plan.limit_bytes;
  });
}

int64_t Session::peak_bytes(size_t device) const {
  if (device < shares_.size()) return shares_[device]->memory.peak();
  return allocator_ ? allocator_->peak_total() : 0;
}

int64_t Session::current_bytes() const {
  return allocator_ ? allocator_->current().Sum() : 0;
}

int64_t Session::allocations_during_run(size_t device) const {
  if (device < shares_.size())
    return shares_[device]->memory.reservations() - shares_[device]->reservations_at_start;
  if (!allocator_) return 0;
  return allocator_->allocations() - allocations_at_start_ + frames_->made() - 1 +
         (arena_ ? arena_->stats().num_arena_extensions : 0);
}

std::optional<memory::ArenaStats> Session::arena_stats() const {
  if (!arena_) return std::nullopt;
  return arena_->stats();
}

ProfileSpec ExactProfile(std::string name, std::vector<Shape> shapes) {
  return {std::move(name), [shapes = std::move(shapes)](const graph::Graph& graph, ops::SymbolTable&) {
            std::vector<ops::ValueFacts> facts;
            for (size_t i = 0; i < graph.inputs.size(); ++i) {
              ops::ValueFacts f;
              f.dtype = graph.value(graph.inputs[i]).dtype;
              f.shape = ops::BoundedShape::Of(shapes[i]);
              facts.push_back(std::move(f));
            }
            return facts;
          }};
}

}  // namespace ullage::session
