#include "session/plan.h"

#include <algorithm>
#include <tuple>

#include "core/checked.h"
#include "core/error.h"
#include "memory/checker.h"
#include "session/plan_check.h"
#include "session/tiles.h"
#include "session/unbounded.h"

namespace ullage::session {

using graph::kNone;
using graph::ValueId;

namespace {

/// Moves what a sub-graph has in the arena of one device.
void Shift(const Program& program, size_t device, int64_t by, Plan* plan) {
  for (size_t v = 0; v < plan->offsets.size(); ++v)
    if (plan->offsets[v] != Plan::kNoOffset &&
        program.device(static_cast<ValueId>(v)) == static_cast<int>(device))
      plan->offsets[v] += by;
  plan->arenas[device].shift += by;
  for (auto& step : plan->step_buffers)
    for (auto& buffer : step)
      if (buffer.offset != Plan::kNoOffset && device == 0) buffer.offset += by;
  for (size_t s = 0; s < plan->bodies.size(); ++s)
    for (size_t b = 0; b < plan->bodies[s].size(); ++b)
      if (plan->bodies[s][b])
        Shift(*program.steps()[s].bodies[b].second, device, by, plan->bodies[s][b].get());
}

/// Whether the kernel's workspace can be declared before a Run.
bool Bounded(const std::vector<ops::ValueFacts>& all) {
  return std::all_of(all.begin(), all.end(), [](const ops::ValueFacts& f) {
    return f.dtype == DType::kUndefined || f.kind != graph::TypeKind::kTensor || kernels::HasBoundedShape(f);
  });
}

/// What a step with rounds needs beside its results, in the order of Plan::step_buffers; -1: unbounded, or
/// not needed.
struct RoundBuffers {
  size_t carried = 0;
  std::vector<int64_t> bytes;
};
RoundBuffers BuffersOf(const Program& program, const Step& step, const shapes::GraphFacts& facts,
                       const shapes::GraphFacts& inner) {
  RoundBuffers buffers;
  if (step.kind != Step::Kind::kLoop && step.kind != Step::Kind::kScan) return buffers;
  const graph::Graph& body = step.bodies[0].second->graph();
  const graph::Node& node = program.graph().node(step.node);
  const bool loop = step.kind == Step::Kind::kLoop;
  const size_t scanned = loop ? 0 : static_cast<size_t>(node.RequiredInt("num_scan_inputs"));
  const size_t before_inputs = loop ? 2 : 0, before_results = loop ? 1 : 0;
  const size_t carried = body.inputs.size() - before_inputs - scanned;
  buffers.carried = carried;
  for (size_t i = 0; i < carried; ++i) {
    int64_t bytes = BytesUpper(inner.of(body.inputs[before_inputs + i]));
    const int64_t made = BytesUpper(inner.of(body.outputs[before_results + i]));
    bytes = bytes < 0 || made < 0 ? -1 : std::max(bytes, made);
    const ValueId out = i < step.outputs.size() ? step.outputs[i] : kNone;
    const bool in_result =
        loop && out != kNone && program.place(out) == Place::kPlanned && BytesUpper(facts.of(out)) >= bytes;
    buffers.bytes.push_back(in_result ? -1 : bytes);
    buffers.bytes.push_back(bytes);
  }
  for (size_t k = 0; k < scanned; ++k) {
    const auto axes = node.IntsView("scan_input_axes");
    const bool in_place = k >= axes.size() || axes[k] == 0;
    buffers.bytes.push_back(in_place ? -1 : BytesUpper(inner.of(body.inputs[carried + k])));
  }
  return buffers;
}

/// Results of a sub-graph that are written where the step's own results, or carried values, lie.
std::vector<ValueId> DirectResults(const Step& step, const shapes::GraphFacts& facts, const Program& body,
                                   const RoundBuffers& buffers) {
  std::vector<ValueId> direct;
  const auto results = body.outputs();
  if (step.kind == Step::Kind::kIf)
    for (size_t o = 0; o < step.outputs.size(); ++o)
      if (step.outputs[o] != kNone && BytesUpper(facts.of(step.outputs[o])) >= 0)
        direct.push_back(results[o]);
  const size_t first = step.kind == Step::Kind::kLoop ? 1 : 0;
  for (size_t i = 0; i < buffers.carried; ++i)
    if (buffers.bytes[2 * i + 1] >= 0) direct.push_back(results[first + i]);
  return direct;
}

/// The values that can be written to their places in the result of `step`, a Concat along the outermost axis
/// longer than 1, with those places: their sizes and those of all before them are the same in every run.
std::vector<std::pair<ValueId, int64_t>> PlacesInConcat(const Program& program,
                                                        const shapes::GraphFacts& facts, const Step& step) {
  std::vector<std::pair<ValueId, int64_t>> places;
  // A device's kernel need not know a result that is in its place already.
  if (step.kind != Step::Kind::kKernel || step.device != 0) return places;
  const graph::Node& node = program.graph().node(step.node);
  if (!node.Is("", "Concat") || !node.has_output(0)) return places;
  const auto& out = facts.of(node.outputs[0]);
  if (!out.shape.known_rank() || BitsOf(out.dtype) == 0 || BitsOf(out.dtype) % 8 != 0) return places;
  const int64_t axis = node.Int("axis", 0);
  const int64_t outer = axis < 0 ? axis + out.shape.rank : axis;
  for (int d = 0; d < outer && d < out.shape.rank; ++d)
    if (!out.shape[d].bounded() || out.shape[d].upper > 1) return places;
  int64_t at = 0;
  for (const ValueId v : step.inputs) {
    if (v == kNone) return places;
    const auto& in = facts.of(program.source(v));
    const int64_t bytes = BytesUpper(in);
    if (bytes < 0 || in.dtype != out.dtype) return places;
    const ValueId root = program.root(v);
    const auto shares = [&](ValueId other) { return other != kNone && program.root(other) == root; };
    const bool once = std::count_if(step.inputs.begin(), step.inputs.end(), shares) == 1;
    if (once && program.place(root) == Place::kPlanned && program.whole(v) &&
        facts.of(program.source(root)).dtype == in.dtype &&
        BytesUpper(facts.of(program.source(root))) == bytes && at % memory::kDefaultAlignment == 0 &&
        bytes > 0)
      places.emplace_back(root, at);
    if (!in.shape.exact()) return places;
    at += bytes;
  }
  return places;
}

bool IsOutside(const Plan::Tiles& tiles, ValueId v) {
  return std::any_of(tiles.outside.begin(), tiles.outside.end(),
                     [&](const Plan::Tiles::Value& value) { return value.value == v; });
}

/// Builds one plan, step by step; see MakePlan.
class Planner {
 public:
  Planner(const Program& program, const shapes::GraphFacts& facts, const std::vector<ValueId>& external,
          int threads, const PlanOptions& options, std::vector<Plan::Tiles> tiles)
      : program_(program),
        graph_(program.graph()),
        facts_(facts),
        threads_(threads),
        options_(options),
        steps_(static_cast<int64_t>(program.steps().size())),
        plan_(std::make_unique<Plan>()),
        memories_(program.device_count()) {
    const size_t n = program.value_count();
    external_.assign(n, 0);
    for (ValueId v : external) external_[static_cast<size_t>(v)] = 1;
    buffer_of_.assign(n, memory::kNoBuffer);
    plan_->threads = threads;
    plan_->sync = SyncPlan(program, external);
    plan_->arenas.resize(memories_.size());
    plan_->tiles = std::move(tiles);
    plan_->offsets.assign(n, Plan::kNoOffset);
    plan_->bytes.assign(n, 0);
    for (size_t v = 0; v < n; ++v) plan_->dtypes.push_back(FactsOf(static_cast<ValueId>(v)).dtype);
    plan_->last_reads.resize(program.steps().size());
    plan_->open_workspace.assign(program.steps().size(), 0);
    plan_->bodies.resize(program.steps().size());
    plan_->step_buffers.resize(program.steps().size());
  }

  std::unique_ptr<Plan> Run() {
    FindLives();
    AddValues();
    AddBodies();
    AddWorkspaces();
    for (size_t d = 0; d < memories_.size(); ++d) PackBuffers(d);
    OrderCopies();
    if (!options_.quick)
      for (size_t d = 0; d < memories_.size(); ++d) Judge(d);
    List();
    return std::move(plan_);
  }

 private:
  /// The buffers of one device.
  struct Memory {
    std::vector<memory::Buffer> buffers;
    std::vector<ValueId> owner;                                // by buffer: the value; values come first
    std::vector<std::pair<int64_t, int32_t>> bodies;           // step, buffer
    std::vector<std::tuple<int64_t, size_t, int32_t>> rounds;  // step, place in step_buffers, buffer
    memory::Packing packing;
  };

  const Step& StepAt(int64_t s) const { return program_.steps()[static_cast<size_t>(s)]; }
  const ops::ValueFacts& FactsOf(ValueId v) const { return facts_.of(program_.source(v)); }
  /// Among those of the value's device.
  int32_t BufferOf(ValueId v) const { return buffer_of_[static_cast<size_t>(v)]; }
  Memory& MemoryOf(ValueId v) { return memories_[static_cast<size_t>(program_.device(v))]; }

  /// Tiled steps run again and again: what they share with others lives as long as all of them.
  void FindLives() {
    last_ = LastUses(program_);
    if (!plan_->sync.empty()) plan_->sync.ExtendLives(program_, &last_);
    uses_ = last_;
    first_.assign(program_.value_count(), -1);
    for (int64_t s = 0; s < steps_; ++s)
      for (ValueId v : StepAt(s).outputs)
        if (v != kNone) first_[static_cast<size_t>(v)] = s;
    tile_of_.assign(program_.steps().size(), nullptr);
    for (const Plan::Tiles& tiles : plan_->tiles) {
      for (int32_t s = tiles.first; s < tiles.last; ++s) tile_of_[static_cast<size_t>(s)] = &tiles;
      for (const auto& outside : tiles.outside) {
        const auto root = static_cast<size_t>(program_.root(outside.value));
        if (outside.written)
          first_[root] = tiles.first;
        else
          last_[root] = std::max<int64_t>(last_[root], tiles.last);
      }
    }
  }

  void AddValues() {
    for (int64_t s = 0; s < steps_; ++s) {
      const Step& step = StepAt(s);
      for (size_t o = 0; o < step.outputs.size(); ++o) {
        const ValueId v = step.outputs[o];
        if (v == kNone || program_.place(v) != Place::kPlanned || external_[static_cast<size_t>(v)]) continue;
        const int64_t bytes = BytesUpper(FactsOf(v)), last = last_[static_cast<size_t>(v)];
        if (bytes < 0) {
          // Behind the last step the queues may still read it; then it goes with the frame.
          if (last < steps_ || (last == steps_ && plan_->sync.empty()))
            plan_->last_reads[static_cast<size_t>(last - 1)].push_back(v);
          continue;
        }
        memory::Buffer b;
        b.id = v;
        b.size = bytes;
        b.alignment = std::max(b.alignment, program_.alignment(program_.device(v)));
        b.first = first_[static_cast<size_t>(v)];
        b.last = std::min(last, steps_);
        Memory& memory = MemoryOf(v);
        const Plan::Tiles* tiles = tile_of_[static_cast<size_t>(s)];
        const bool inside = tiles && !IsOutside(*tiles, v);
        if (inside) b.size = tiles->rows * RowBytes(FactsOf(v));
        if (o == 0 && options_.in_place) {
          const int32_t partner = DyingPartner(step, s);
          // Where both are cut in tiles, each row lies on its own row: they are the same memory all the time.
          if (tiles && !inside && partner != memory::kNoBuffer &&
              memory.buffers[static_cast<size_t>(partner)].first < b.first)
            b.alias_of = partner;
          else
            b.in_place = partner;
        }
        buffer_of_[static_cast<size_t>(v)] = static_cast<int32_t>(memory.buffers.size());
        plan_->bytes[static_cast<size_t>(v)] = b.size;
        memory.buffers.push_back(b);
        memory.owner.push_back(v);
      }
    }
  }

  int32_t DyingPartner(const Step& step, int64_t s) const {
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (!MayTakeOver(program_, facts_, step, i)) continue;
      const ValueId root = program_.root(step.inputs[i]);
      if (BufferOf(root) != memory::kNoBuffer && uses_[static_cast<size_t>(root)] == s + 1)
        return BufferOf(root);
    }
    return memory::kNoBuffer;
  }

  int32_t AddScratch(size_t device, int64_t s, int64_t bytes) {
    memory::Buffer b;
    b.id = -1;
    b.size = bytes;
    b.alignment = std::max(static_cast<int64_t>(memory::kDefaultWorkspaceAlignment),
                           program_.alignment(static_cast<int>(device)));
    b.first = s;
    b.last = s + 1;
    auto& buffers = memories_[device].buffers;
    buffers.push_back(b);
    return static_cast<int32_t>(buffers.size() - 1);
  }

  /// The arenas of a body are one buffer each of its node's step; branches exclude each other.
  void AddBodies() {
    for (int64_t s = 0; s < steps_; ++s) {
      const Step& step = StepAt(s);
      auto& bodies = plan_->bodies[static_cast<size_t>(s)];
      std::vector<int64_t> peaks(memories_.size(), 0);
      for (const auto& [key, body] : step.bodies) {
        const auto it = facts_.bodies.find({step.node, key});
        if (it == facts_.bodies.end()) {  // not taken in this profile
          bodies.push_back(nullptr);
          continue;
        }
        const RoundBuffers rounds = BuffersOf(program_, step, facts_, *it->second);
        for (int64_t bytes : rounds.bytes) {
          auto& planned = plan_->step_buffers[static_cast<size_t>(s)];
          if (bytes >= 0) memories_[0].rounds.emplace_back(s, planned.size(), AddScratch(0, s, bytes));
          planned.push_back({Plan::kNoOffset, std::max<int64_t>(bytes, 0)});
        }
        auto inner =
            MakePlan(*body, *it->second, DirectResults(step, facts_, *body, rounds), threads_, options_);
        for (size_t d = 0; d < peaks.size(); ++d) peaks[d] = std::max(peaks[d], inner->arenas[d].bytes);
        bodies.push_back(std::move(inner));
      }
      for (size_t d = 0; d < peaks.size(); ++d)
        if (peaks[d] > 0) memories_[d].bodies.emplace_back(s, AddScratch(d, s, peaks[d]));
    }
  }

  void AddWorkspaces() {
    std::vector<std::vector<memory::NodeWorkspace>> scratch(memories_.size());
    for (int64_t s = 0; s < steps_; ++s) {
      const Step& step = StepAt(s);
      if (!step.kernel) continue;
      const Plan::Tiles* tiles = tile_of_[static_cast<size_t>(s)];
      auto requirements = StepWorkspace(program_, step, facts_, threads_, tiles ? tiles->rows : 0);
      if (!requirements) {
        plan_->open_workspace[static_cast<size_t>(s)] = 1;
        continue;
      }
      for (const size_t device : {static_cast<size_t>(step.device), size_t{0}}) {
        memory::NodeWorkspace w;
        w.node = w.step = s;
        for (const auto& r : *requirements)
          if ((r.on_host || step.device == 0) == (device == 0)) w.requirements.push_back(r);
        if (!w.requirements.empty()) scratch[device].push_back(std::move(w));
        if (device == 0) break;
      }
    }
    for (size_t d = 0; d < memories_.size(); ++d)
      plan_->arenas[d].workspace =
          memory::WorkspacePattern::Append(scratch[d], steps_, &memories_[d].buffers);
  }

  void PackBuffers(size_t device) {
    Memory& m = memories_[device];
    memory::PackLimits limits;
    if (options_.quick) limits.work_limit = 0;
    if (std::vector<memory::Buffer> joined = WithPlaces(device); !joined.empty()) {
      m.packing = memory::Pack(joined, limits);
      const memory::Packing apart = m.packing.peak <= memory::PackingLowerBound(m.buffers)
                                        ? m.packing
                                        : memory::Pack(m.buffers, limits);
      if (apart.peak < m.packing.peak)
        m.packing = apart;
      else
        m.buffers = std::move(joined);
    } else {
      m.packing = memory::Pack(m.buffers, limits);
    }
    Plan::Arena& arena = plan_->arenas[device];
    arena.workspace.Resolve(m.packing);
    arena.workspace_peak = arena.workspace.live_peak();
    const int64_t unit = std::max<int64_t>(program_.alignment(static_cast<int>(device)), 64);
    arena.bytes = AlignUp<int64_t>(m.packing.peak, unit);
    arena.lower_bound = AlignUp<int64_t>(m.packing.lower_bound, unit);
    for (size_t b = 0; b < m.owner.size(); ++b)
      plan_->offsets[static_cast<size_t>(m.owner[b])] = m.packing.offsets[b];
    for (const auto& [s, at, b] : m.rounds)
      plan_->step_buffers[static_cast<size_t>(s)][at].offset = m.packing.offsets[static_cast<size_t>(b)];
    for (const auto& [s, b] : m.bodies)
      for (size_t i = 0; i < StepAt(s).bodies.size(); ++i)
        if (const auto& body = plan_->bodies[static_cast<size_t>(s)][i])
          Shift(*StepAt(s).bodies[i].second, device, m.packing.offsets[static_cast<size_t>(b)], body.get());
  }

  /// The buffers with the inputs of each Concat in their places in its result; empty when there are none.
  std::vector<memory::Buffer> WithPlaces(size_t device) const {
    std::vector<memory::Buffer> joined;
    if (!options_.concat || device != 0) return joined;
    for (const Step& step : program_.steps())
      for (const auto& [v, at] : PlacesInConcat(program_, facts_, step)) {
        const int32_t part = BufferOf(v), whole = BufferOf(step.outputs[0]);
        if (part == memory::kNoBuffer || whole == memory::kNoBuffer) continue;
        if (joined.empty()) joined = memories_[0].buffers;
        memory::Buffer& b = joined[static_cast<size_t>(part)];
        if (b.alias_of != memory::kNoBuffer || at + b.size > joined[static_cast<size_t>(whole)].size)
          continue;
        b.in_place = memory::kNoBuffer;
        b.alias_of = whole;
        b.alias_offset = at;
      }
    return joined;
  }

  /// A copy to a device goes into memory that the device may still compute with: it waits for the last step
  /// that does. Copies from one, and those that read host memory, are ordered by ExtendLives().
  void OrderCopies() {
    if (plan_->sync.empty()) return;
    for (int64_t s = 0; s < steps_; ++s) {
      const Step& step = StepAt(s);
      if (step.kind != Step::Kind::kCopy || program_.device(step.outputs[0]) == 0) continue;
      const int32_t target = BufferOf(step.outputs[0]);
      if (target == memory::kNoBuffer) continue;
      const Memory& m = memories_[static_cast<size_t>(step.device)];
      const auto from = [&](int32_t b) { return m.packing.offsets[static_cast<size_t>(b)]; };
      const auto end = [&](int32_t b) { return from(b) + m.buffers[static_cast<size_t>(b)].size; };
      int64_t latest = -1;
      for (int32_t b = 0; b < static_cast<int32_t>(m.buffers.size()); ++b)
        if (m.buffers[static_cast<size_t>(b)].last <= s && from(b) < end(target) && from(target) < end(b))
          latest = std::max(latest, m.buffers[static_cast<size_t>(b)].last - 1);
      if (latest < 0) continue;
      if (const int32_t before = plan_->sync.LastCompute(step.device, latest); before >= 0)
        plan_->sync.AddWait(static_cast<int32_t>(s), before);
    }
  }

  /// Has the packing judged against what runs when, on which queue, and uses which buffer.
  void Judge(size_t device) const {
    const Memory& m = memories_[device];
    memory::StepOrder order;
    if (plan_->sync.empty())
      order.streams.assign(static_cast<size_t>(steps_), 0);
    else
      order = plan_->sync.Order();
    const auto use = [&](ValueId v, int64_t s, bool writes) {
      if (v == kNone || program_.device(v) != static_cast<int>(device)) return;
      const int32_t b = BufferOf(program_.root(v));
      if (b != memory::kNoBuffer) order.uses.push_back({b, s, writes});
    };
    // What a device's step has on the host is used while the step is issued, in the host's own order.
    const auto later = [&](int64_t s) {
      const Step& step = StepAt(s);
      return device != 0 || step.device == 0 || step.kind == Step::Kind::kCopy;
    };
    for (int64_t s = 0; s < steps_; ++s) {
      const Step& step = StepAt(s);
      if (!later(s)) continue;
      // Views move nothing, shapes are read off descriptions.
      const bool touches = plan_->sync.empty() || plan_->sync.touches(s);
      if (touches)
        for (ValueId v : step.inputs) use(v, s, false);
      for (ValueId v : program_.captures(step)) use(v, s, false);
      for (ValueId v : step.outputs)
        if (v != kNone && program_.place(v) == Place::kPlanned) use(v, s, true);
    }
    if (plan_->sync.empty())
      for (ValueId v : program_.outputs()) use(v, steps_ - 1, false);
    for (size_t b = m.owner.size(); b < m.buffers.size(); ++b)
      if (later(m.buffers[b].first))
        order.uses.push_back({static_cast<int32_t>(b), m.buffers[b].first, true});
    memory::CheckOptions check;
    check.order = &order;
    memory::RequireSound(m.buffers, m.packing, check);
  }

  void List() {
    for (size_t d = 0; d < memories_.size(); ++d) {
      const Memory& m = memories_[d];
      for (size_t b = 0; b < m.buffers.size(); ++b) {
        const auto& buffer = m.buffers[b];
        const bool value = b < m.owner.size();
        plan_->items.push_back(
            {static_cast<int>(d),
             value ? program_.name(m.owner[b]) : graph_.node(StepAt(buffer.first).node).name,
             value ? "activations" : "workspace", m.packing.offsets[b], buffer.size, buffer.first,
             buffer.last});
      }
    }
  }

  const Program& program_;
  const graph::Graph& graph_;
  const shapes::GraphFacts& facts_;
  int threads_;
  PlanOptions options_;
  int64_t steps_;
  std::unique_ptr<Plan> plan_;
  std::vector<Memory> memories_;              // by device
  std::vector<uint8_t> external_;             // by value
  std::vector<int64_t> uses_, first_, last_;  // by value: LastUses(); its life
  std::vector<const Plan::Tiles*> tile_of_;   // by step
  std::vector<int32_t> buffer_of_;            // by value
};

}  // namespace

std::vector<int64_t> LastUses(const Program& program) {
  std::vector<int64_t> last(program.value_count(), 0);
  const auto use = [&](ValueId v, int64_t step) {
    if (v == kNone) return;
    auto& l = last[static_cast<size_t>(program.root(v))];
    l = std::max(l, step + 1);
  };
  const auto steps = static_cast<int64_t>(program.steps().size());
  for (int64_t s = 0; s < steps; ++s) {
    const Step& step = program.steps()[static_cast<size_t>(s)];
    for (ValueId v : step.inputs) use(v, s);
    for (ValueId v : program.captures(step)) use(v, s);
    for (ValueId v : step.outputs) use(v, s);
  }
  for (ValueId v : program.outputs()) use(v, steps);
  return last;
}

std::optional<std::vector<memory::WorkspaceRequirement>> StepWorkspace(const Program& program,
                                                                       const Step& step,
                                                                       const shapes::GraphFacts& facts,
                                                                       int threads, int64_t rows) {
  const auto list = [&](const std::vector<ValueId>& values) {
    std::vector<ops::ValueFacts> all;
    for (ValueId v : values) {
      if (v == kNone)
        all.emplace_back();
      else
        all.push_back(rows > 0 && program.place(v) != Place::kConstant
                          ? TileFacts(facts.of(program.source(v)), rows)
                          : facts.of(program.source(v)));
    }
    return all;
  };
  const std::vector<ops::ValueFacts> in = list(step.inputs), out = list(step.outputs);
  if (!Bounded(in) || !Bounded(out)) return std::nullopt;
  std::vector<memory::WorkspaceRequirement> requirements;
  step.kernel->DeclareWorkspaceRequirements({in, out, threads}, requirements);
  return requirements;
}

bool MayTakeOver(const Program& program, const shapes::GraphFacts& facts, const Step& step, size_t i) {
  if (step.kind != Step::Kind::kKernel || i >= 32 || i >= step.inputs.size() || step.outputs.empty())
    return false;
  if ((step.op->in_place >> i & 1) == 0 || step.inputs[i] == kNone || step.outputs[0] == kNone) return false;
  if (!program.whole(step.inputs[i])) return false;
  const ValueId root = program.root(step.inputs[i]), out = step.outputs[0];
  if (program.device(root) != program.device(out)) return false;
  if (facts.of(program.source(root)).dtype != facts.of(out).dtype) return false;
  const auto shares = [&](ValueId other) { return other != kNone && program.root(other) == root; };
  if (std::count_if(step.inputs.begin(), step.inputs.end(), shares) > 1) return false;
  const auto& a = facts.of(program.source(step.inputs[i])).shape;
  const auto& c = facts.of(out).shape;
  bool same = a.rank == c.rank && a.known_rank();
  for (int d = 0; same && d < a.rank; ++d) same = ops::Same(a[d], c[d]);
  return same;
}

std::unique_ptr<Plan> MakePlan(const Program& program, const shapes::GraphFacts& facts,
                               const std::vector<ValueId>& external, int threads,
                               const PlanOptions& options) {
  const auto plan_with = [&](std::vector<Plan::Tiles> tiles) {
    return Planner(program, facts, external, threads, options, std::move(tiles)).Run();
  };
  std::unique_ptr<Plan> plan;
  // Tiles are for the host's memory: what runs on queues is issued once.
  if (options.tiles && !options.quick && program.device_count() == 1)
    if (auto tiles = ChooseTiles(program, facts, external, threads, options.tile_rows); !tiles.empty())
      plan = plan_with(std::move(tiles));
  if (!plan || options.tile_rows == 0) {
    auto whole = plan_with({});
    if (!plan || whole->host().bytes <= plan->host().bytes) plan = std::move(whole);
  }
  if (!options.quick) RequireSoundPlan(program, facts, external, *plan);
  return plan;
}

}  // namespace ullage::session
