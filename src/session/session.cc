#include "session/session.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"

namespace ullage::session {

using graph::ValueId;

Session::~Session() = default;

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

std::vector<Consumer> Session::largest_consumers(size_t count) const {
  std::vector<Consumer> all = weights_;
  for (const auto& b : blocks_)
    all.push_back({memory::Tag::kPrepacked, b.name, static_cast<int64_t>(b.bytes)});
  for (const auto& state : states_)
    all.push_back({memory::Tag::kKv, state.spec.input, state.bytes * (state.shared ? 1 : 2)});
  for (const auto& p : profiles_)
    for (const auto& item : p.plan->items)
      all.push_back({item.tag == "workspace" ? memory::Tag::kWorkspace : memory::Tag::kActivations,
                     item.name + " (" + p.name + ")", item.bytes});
  for (const auto& e : spec_.extra) all.push_back({e.tag, e.name, e.bytes});
  std::stable_sort(all.begin(), all.end(),
                   [](const Consumer& a, const Consumer& b) { return a.bytes > b.bytes; });
  if (all.size() > count) all.resize(count);
  return all;
}

int64_t Session::shared_states() const {
  return std::count_if(states_.begin(), states_.end(), [](const State& state) { return state.shared; });
}

int64_t Session::step_weight_bytes() const {
  int64_t bytes = prepacked_bytes_;
  for (const Step& step : program_->steps()) {
    const auto& node = graph().node(step.node);
    if (node.op == "Gather" || node.op == "BlockGather" || node.op == "GatherBlockQuantized") continue;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const auto* c = graph().ConstantOf(step.inputs[i]);
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

void Session::Run(int profile, std::span<const TensorView> inputs, const std::atomic<bool>* stop) {
  std::unique_lock lock(run_mutex_, std::defer_lock);
  if (pre_allocated_) {
    if (!lock.try_lock()) throw Error(Code::kBusy, "the session is running already");
  } else {
    lock.lock();
  }
  const Profile& p = profiles_[static_cast<size_t>(profile)];
  const auto& g = graph();
  const int64_t allocations = allocator_->allocations();
  // Everything is checked before anything changes.
  if (inputs.size() != g.inputs.size())
    Throw(Code::kInvalidInput, "expected ", g.inputs.size(), " inputs, found ", inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (IsState(i)) continue;
    const auto& name = g.value(g.inputs[i]).name;
    const TensorView& in = inputs[i];
    if (in.dtype != p.inputs[i].dtype)
      Throw(Code::kInvalidInput, "input ", name, ": expected type ", NameOf(p.inputs[i].dtype), ", found ",
            NameOf(in.dtype));
    if (!p.inputs[i].shape.Contains(in.shape))
      Throw(Code::kInvalidInput, "input ", name, ": shape ", in.shape.ToString(), " is outside of the bound ",
            p.inputs[i].shape.ToString());
  }
  Frame& frame = *frame_;
  frame.ReleaseDynamic();
  frame.Bind(*p.plan, arena_region_.data());
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!IsState(i)) frame.SetExternal(g.inputs[i], inputs[i]);
  for (State& state : states_) {
    TensorView past, present;
    past.dtype = present.dtype = state.dtype;
    past.shape = present.shape = state.spec.max_shape;
    if (state.spec.grows) past.shape[2] = present.shape[2] = state_rows_;
    std::byte* const here = kv_region_.data() + state.offset;
    std::byte* const there = kv_region_.data() + (state.shared ? state.offset : state.offset_other);
    past.data = state.flipped ? there : here;
    present.data = state.flipped ? here : there;
    if (state.shared && state.spec.grows) past.capacity = present.capacity = state.spec.max_shape[2];
    frame.SetExternal(state.input, past);
    frame.SetExternal(state.output, present);
  }
  executor_->stats = stats;
  executor_->Run(frame, stop);
  int64_t rows = state_rows_;
  for (State& state : states_) {
    if (state.spec.grows) rows = frame.value(state.output).shape[2];
    if (!state.shared) state.flipped = !state.flipped;
  }
  state_rows_ = rows;
  allocations_during_run_ += allocator_->allocations() - allocations;
}

const TensorView& Session::output(size_t index) const {
  return frame_->value(graph().outputs[index]);
}

void Session::SetStateRows(int64_t rows) {
  if (rows < 0 || rows > state_rows_)
    Throw(Code::kRuntime, "cannot set the caches to ", rows, " rows; they hold ", state_rows_);
  if (rows == state_rows_) return;
  // A cache that is copied by each Run lies densely: rows of the heads move together when there are fewer.
  for (const State& state : states_) {
    if (state.shared || !state.spec.grows) continue;
    std::byte* data = kv_region_.data() + (state.flipped ? state.offset_other : state.offset);
    const Shape& shape = state.spec.max_shape;
    const size_t row = BytesOf(state.dtype, shape.elements(3, shape.rank()));
    for (int64_t head = 1; head < shape[0] * shape[1]; ++head)
      std::memmove(data + static_cast<size_t>(head * rows) * row,
                   data + static_cast<size_t>(head * state_rows_) * row, static_cast<size_t>(rows) * row);
  }
  state_rows_ = rows;
}

void Session::ResetStates() {
  state_rows_ = 0;
  for (State& state : states_) {
    state.flipped = false;
    if (!state.spec.grows) std::memset(kv_region_.data() + state.offset, 0, static_cast<size_t>(state.bytes));
  }
}

int64_t Session::peak_bytes() const {
  return allocator_ ? allocator_->peak_total() : 0;
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
