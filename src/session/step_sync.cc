#include "session/step_sync.h"

#include <algorithm>

#include "placement/host_values.h"

namespace ullage::session {

using graph::kNone;
using graph::ValueId;

namespace {

bool Contains(const std::vector<int32_t>& list, int32_t n) {
  return std::find(list.begin(), list.end(), n) != list.end();
}

}  // namespace

SyncPlan::SyncPlan(const Program& program, const std::vector<ValueId>& external) {
  if (!program.uses_devices()) return;
  const auto& steps = program.steps();
  steps_.resize(steps.size());
  std::vector<int32_t> writer(program.value_count(), -1);  // by root
  int32_t alone = -1;                                      // the last step that emptied all queues
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    StepSync& sync = steps_[i];
    const auto at = static_cast<int32_t>(i);
    // Views have no work but where their bytes are wanted elsewhere.
    const bool view = step.kind == Step::Kind::kView || step.kind == Step::Kind::kSelect;
    const bool moves =
        !view || std::find(external.begin(), external.end(), step.outputs[0]) != external.end();
    sync.alone = step.runs_bodies();
    if (step.device != 0 && moves) sync.stream = 2 * step.device - (step.kind == Step::Kind::kCopy ? 0 : 1);
    const bool between = step.kind == Step::Kind::kCopy && program.device(step.inputs[0]) != 0 &&
                         program.device(step.outputs[0]) != 0;
    const auto needs = [&](ValueId v) {
      if (v == kNone) return;
      const int32_t w = writer[static_cast<size_t>(program.root(v))];
      if (w < 0 || w <= alone) return;
      const int32_t made_on = steps_[static_cast<size_t>(w)].stream;
      if (made_on == sync.stream || made_on == 0) return;
      // A queue of the same device can wait for itself, and a copy between devices for its source; everything
      // else is the host's to await.
      const bool same_device = sync.stream != 0 && (made_on + 1) / 2 == (sync.stream + 1) / 2;
      auto& list = same_device || between ? sync.waits : sync.awaited;
      if (!Contains(list, w)) list.push_back(w);
      steps_[static_cast<size_t>(w)].records = true;
    };
    const bool only_shape =
        step.kind == Step::Kind::kKernel && placement::ReadsOnlyShape(program.graph().node(step.node));
    touches_.push_back(moves && !only_shape);
    if (moves && !only_shape && !sync.alone)
      for (ValueId v : step.inputs) needs(v);
    for (ValueId v : step.outputs)
      if (v != kNone && moves) writer[static_cast<size_t>(program.root(v))] = at;
    if (sync.alone) alone = at;
  }
}

int64_t SyncPlan::KnownDone(int64_t copy) const {
  const int32_t stream = steps_[static_cast<size_t>(copy)].stream;
  for (size_t i = static_cast<size_t>(copy) + 1; i < steps_.size(); ++i) {
    if (steps_[i].alone) return static_cast<int64_t>(i);
    for (int32_t w : steps_[i].awaited)  // queues are in order: a later step of it will do
      if (w >= copy && steps_[static_cast<size_t>(w)].stream == stream) return static_cast<int64_t>(i);
  }
  return static_cast<int64_t>(steps_.size());
}

std::vector<std::vector<int64_t>> SyncPlan::Clocks() const {
  const memory::StepOrder order = Order();
  const int32_t streams = 1 + *std::max_element(order.streams.begin(), order.streams.end());
  std::vector<std::vector<int64_t>> clocks(steps_.size(),
                                           std::vector<int64_t>(static_cast<size_t>(streams), -1));
  std::vector<std::vector<int64_t>> signals(steps_.size());
  for (const auto& event : order.events) signals[static_cast<size_t>(event.wait)].push_back(event.signal);
  std::vector<int64_t> previous(static_cast<size_t>(streams), -1);
  for (size_t i = 0; i < steps_.size(); ++i) {
    const auto learn = [&](int64_t from) {
      if (from < 0) return;
      const auto& other = clocks[static_cast<size_t>(from)];
      for (size_t s = 0; s < other.size(); ++s) clocks[i][s] = std::max(clocks[i][s], other[s]);
      auto& own = clocks[i][static_cast<size_t>(order.streams[static_cast<size_t>(from)])];
      own = std::max(own, from);
    };
    auto& before = previous[static_cast<size_t>(order.streams[i])];
    learn(before);
    for (const int64_t from : signals[i]) learn(from);
    before = static_cast<int64_t>(i);
  }
  return clocks;
}

int64_t SyncPlan::DoneOn(int d, int64_t copy, const std::vector<std::vector<int64_t>>& clocks) {
  constexpr int kPatience = 16;  // steps; a wait after so many of them costs nothing as a rule
  const auto queue = static_cast<size_t>(steps_[static_cast<size_t>(copy)].stream);
  int passed = 0;
  for (size_t i = static_cast<size_t>(copy) + 1; i < steps_.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (steps_[i].alone) return at;
    if (steps_[i].stream != 2 * d - 1) continue;
    if (clocks[i][queue] >= copy) return at;
    if (++passed < kPatience) continue;
    AddWait(static_cast<int32_t>(at), static_cast<int32_t>(copy));
    return at;
  }
  return static_cast<int64_t>(steps_.size());
}

void SyncPlan::ExtendLives(const Program& program, std::vector<int64_t>* last) {
  const auto end = static_cast<int64_t>(steps_.size());
  std::vector<std::vector<int64_t>> clocks;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = program.steps()[i];
    if (step.kind != Step::Kind::kCopy) continue;
    const auto at = static_cast<int64_t>(i);
    const int source = program.device(step.inputs[0]);
    const bool between = source != 0 && program.device(step.outputs[0]) != 0;
    if (between && clocks.empty()) clocks = Clocks();
    const int64_t done = std::min((between ? DoneOn(source, at, clocks) : KnownDone(at)) + 1, end);
    // Whoever takes over the source's memory is ordered behind the copy through the host.
    auto& life = (*last)[static_cast<size_t>(program.root(step.inputs[0]))];
    life = std::max(life, done);
    // What nobody reads is written all the same.
    auto& target = (*last)[static_cast<size_t>(step.outputs[0])];
    if (program.device(step.outputs[0]) == 0) target = std::max(target, done);
  }
}

void SyncPlan::AddWait(int32_t at, int32_t before) {
  auto& sync = steps_[static_cast<size_t>(at)];
  if (Contains(sync.waits, before)) return;
  sync.waits.push_back(before);
  steps_[static_cast<size_t>(before)].records = true;
}

int32_t SyncPlan::LastCompute(int d, int64_t latest) const {
  for (int64_t i = std::min<int64_t>(latest, static_cast<int64_t>(steps_.size()) - 1); i >= 0; --i) {
    if (steps_[static_cast<size_t>(i)].alone) return -1;
    if (steps_[static_cast<size_t>(i)].stream == 2 * d - 1) return static_cast<int32_t>(i);
  }
  return -1;
}

memory::StepOrder SyncPlan::Order() const {
  memory::StepOrder order;
  int32_t streams = 1;
  for (const StepSync& sync : steps_) {
    order.streams.push_back(sync.stream);
    streams = std::max(streams, sync.stream + 1);
  }
  const auto n = static_cast<int64_t>(steps_.size());
  const auto tell_all = [&](int64_t signal, int64_t from) {
    for (int32_t stream = 0; stream < streams; ++stream)
      for (int64_t i = from; i < n; ++i)
        if (steps_[static_cast<size_t>(i)].stream == stream) {
          if (i > signal) order.events.push_back({signal, i});
          break;
        }
  };
  int64_t host = -1;
  std::vector<int64_t> latest(static_cast<size_t>(streams), -1), told(static_cast<size_t>(streams), -1);
  for (int64_t i = 0; i < n; ++i) {
    const StepSync& sync = steps_[static_cast<size_t>(i)];
    for (int32_t w : sync.waits) order.events.push_back({w, i});
    for (int32_t w : sync.awaited) tell_all(w, i);
    if (sync.alone)
      for (const int64_t l : latest)
        if (l >= 0) order.events.push_back({l, i});
    // The host issues a step once its own earlier ones are done.
    auto& known = told[static_cast<size_t>(sync.stream)];
    if (sync.stream != 0 && host > known) {
      order.events.push_back({host, i});
      known = host;
    }
    if (sync.stream == 0) host = i;
    latest[static_cast<size_t>(sync.stream)] = i;
  }
  return order;
}

}  // namespace ullage::session
