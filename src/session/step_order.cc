#include "session/step_order.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "session/unbounded.h"

namespace ullage::session {

using graph::kNone;
using graph::ValueId;

namespace {

bool IsRandom(const Step& step) {
  if (step.op->stateful) return true;
  return std::any_of(step.bodies.begin(), step.bodies.end(), [](const auto& body) {
    const auto& steps = body.second->steps();
    return std::any_of(steps.begin(), steps.end(), IsRandom);
  });
}

class ProblemMaker {
 public:
  ProblemMaker(const Program& program, const shapes::GraphFacts& facts, const std::vector<ValueId>& external,
               int threads)
      : program_(program),
        graph_(program.graph()),
        facts_(facts),
        threads_(threads),
        external_(graph_.value_count(), 0),
        block_of_(graph_.value_count(), -1),
        producer_(graph_.value_count(), -1) {
    for (ValueId v : external) external_[static_cast<size_t>(v)] = 1;
  }

  OrderProblem Make() {
    for (const Step& step : program_.steps()) Add(step);
    for (ValueId v : graph_.outputs)
      if (const int32_t block = BlockOf(v); block >= 0)
        problem_.blocks[static_cast<size_t>(block)].kept = true;
    return std::move(problem_);
  }

 private:
  int32_t BlockOf(ValueId v) const { return block_of_[static_cast<size_t>(program_.root(v))]; }

  void Add(const Step& step) {
    const auto index = static_cast<int32_t>(problem_.steps.size());
    OrderProblem::Step& s = problem_.steps.emplace_back();
    const auto read = [&](ValueId v) {
      if (v == kNone) return;
      if (const int32_t p = producer_[static_cast<size_t>(v)]; p >= 0) s.after.push_back(p);
      if (const int32_t block = BlockOf(v); block >= 0) s.reads.push_back(block);
    };
    for (ValueId v : step.inputs) read(v);
    for (ValueId v : graph_.node(step.node).captures) read(v);
    Unique(&s.reads);
    for (size_t i = 0; i < step.inputs.size(); ++i)
      if (MayTakeOver(program_, facts_, step, i))
        if (const int32_t block = BlockOf(step.inputs[i]); block >= 0) s.over.push_back(block);
    for (ValueId v : step.outputs) {
      if (v == kNone) continue;
      producer_[static_cast<size_t>(v)] = index;
      if (program_.place(v) != Place::kPlanned || external_[static_cast<size_t>(v)]) continue;
      block_of_[static_cast<size_t>(v)] = static_cast<int32_t>(problem_.blocks.size());
      s.writes.push_back(block_of_[static_cast<size_t>(v)]);
      problem_.blocks.push_back({std::max<int64_t>(BytesUpper(facts_.of(v)), 0), false});
    }
    if (s.writes.empty() || s.writes[0] != BlockOf(step.outputs[0])) s.over.clear();
    s.scratch = Scratch(step);
    if (IsRandom(step)) {
      if (last_random_ >= 0) s.after.push_back(last_random_);
      last_random_ = index;
    }
    KeepCaches(step, index, &s);
    Unique(&s.after);
  }

  static void Unique(std::vector<int32_t>* list) {
    std::sort(list->begin(), list->end());
    list->erase(std::unique(list->begin(), list->end()), list->end());
  }

  int64_t Scratch(const Step& step) const {
    int64_t bytes = 0;
    if (step.kernel)
      if (const auto slots = StepWorkspace(program_, step, facts_, threads_))
        for (const auto& slot : *slots) bytes += static_cast<int64_t>(slot.size_bytes);
    int64_t inner = 0;
    for (const auto& [key, body] : step.bodies)
      if (const auto it = facts_.bodies.find({step.node, key}); it != facts_.bodies.end())
        inner = std::max(
            inner,
            MakePlan(*body, *it->second, body->graph().outputs, threads_, {.quick = true})->host().bytes);
    return bytes + inner;
  }

  /// A cache that is appended in place is the same memory before and after.
  void KeepCaches(const Step& step, int32_t index, OrderProblem::Step* s) {
    const auto input = [&](ValueId v) { return v != kNone && program_.place(v) == Place::kInput; };
    for (ValueId v : step.inputs)
      if (input(v)) {
        if (const auto it = writer_.find(v); it != writer_.end()) s->after.push_back(it->second);
        readers_[v].push_back(index);
      }
    if (!step.def) return;
    for (const auto& [in, out] : step.def->cache_pairs) {
      const auto i = static_cast<size_t>(in), o = static_cast<size_t>(out);
      if (i >= step.inputs.size() || o >= step.outputs.size() || !input(step.inputs[i])) continue;
      for (int32_t reader : readers_[step.inputs[i]])
        if (reader != index) s->after.push_back(reader);
      writer_[step.inputs[i]] = index;
    }
  }

  const Program& program_;
  const graph::Graph& graph_;
  const shapes::GraphFacts& facts_;
  int threads_;
  OrderProblem problem_;
  std::vector<uint8_t> external_;                    // by value
  std::vector<int32_t> block_of_, producer_;         // by value
  std::map<ValueId, std::vector<int32_t>> readers_;  // of inputs, so far
  std::map<ValueId, int32_t> writer_;                // by input: the last step that appends to it
  int32_t last_random_ = -1;
};

}  // namespace

OrderProblem OrderProblemOf(const Program& program, const shapes::GraphFacts& facts,
                            const std::vector<ValueId>& external, int threads) {
  return ProblemMaker(program, facts, external, threads).Make();
}

void LowerPeak(const std::vector<const shapes::GraphFacts*>& profiles, const std::vector<ValueId>& external,
               int threads, const PlanOptions& options, Program* program) {
  for (Step& step : program->steps())
    for (auto& [key, body] : step.bodies) {
      std::vector<const shapes::GraphFacts*> inner;
      for (const auto* facts : profiles)
        if (const auto it = facts->bodies.find({step.node, key}); it != facts->bodies.end())
          inner.push_back(it->second.get());
      if (!inner.empty()) LowerPeak(inner, body->graph().outputs, threads, options, body.get());
    }
  // The profile that needs most decides.
  std::vector<int32_t> order(program->steps().size());
  std::iota(order.begin(), order.end(), 0);
  int64_t most = -1;
  OrderProblem largest;
  for (const auto* facts : profiles) {
    OrderProblem problem = OrderProblemOf(*program, *facts, external, threads);
    if (const int64_t peak = OrderPeak(problem, order); peak > most) {
      most = peak;
      largest = std::move(problem);
    }
  }
  const std::vector<int32_t> lower = LowPeakOrder(largest);
  if (lower == order) return;
  PlanOptions trial = options;
  trial.quick = true;
  const auto arena = [&](int64_t give_up) {
    int64_t bytes = 0;
    for (const auto* facts : profiles) {
      bytes = std::max(bytes, MakePlan(*program, *facts, external, threads, trial)->host().bytes);
      if (bytes >= give_up) break;
    }
    return bytes;
  };
  const int64_t before = arena(std::numeric_limits<int64_t>::max());
  program->Reorder(lower);
  if (arena(before) < before) return;
  for (size_t i = 0; i < lower.size(); ++i) order[static_cast<size_t>(lower[i])] = static_cast<int32_t>(i);
  program->Reorder(order);
}

}  // namespace ullage::session
