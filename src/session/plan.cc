#include "session/plan.h"

#include <algorithm>
#include <tuple>

#include "core/checked.h"
#include "core/error.h"
#include "memory/checker.h"
#include "session/unbounded.h"

namespace ullage::session {

using graph::kNone;
using graph::ValueId;

namespace {

void Shift(int64_t by, Plan* plan) {
  for (int64_t& offset : plan->offsets)
    if (offset != Plan::kNoOffset) offset += by;
  plan->workspace_shift += by;
  for (auto& step : plan->step_buffers)
    for (auto& buffer : step)
      if (buffer.offset != Plan::kNoOffset) buffer.offset += by;
  for (auto& bodies : plan->bodies)
    for (auto& body : bodies) Shift(by, body.get());
}

/// Whether the kernel's workspace can be declared before a Run.
bool Bounded(const std::vector<ops::ValueFacts>& all) {
  return std::all_of(all.begin(), all.end(), [](const ops::ValueFacts& f) {
    if (f.dtype == DType::kUndefined || f.kind != graph::TypeKind::kTensor) return true;
    if (!f.shape.known_rank()) return false;
    return std::all_of(f.shape.dims.begin(), f.shape.dims.begin() + f.shape.rank,
                       [](const ops::Bound& d) { return d.bounded(); });
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
  const auto& results = body.graph().outputs;
  if (step.kind == Step::Kind::kIf)
    for (size_t o = 0; o < step.outputs.size(); ++o)
      if (step.outputs[o] != kNone && BytesUpper(facts.of(step.outputs[o])) >= 0)
        direct.push_back(results[o]);
  const size_t first = step.kind == Step::Kind::kLoop ? 1 : 0;
  for (size_t i = 0; i < buffers.carried; ++i)
    if (buffers.bytes[2 * i + 1] >= 0) direct.push_back(results[first + i]);
  return direct;
}

}  // namespace

std::unique_ptr<Plan> MakePlan(const Program& program, const shapes::GraphFacts& facts,
                               const std::vector<ValueId>& external, int threads) {
  const graph::Graph& graph = program.graph();
  auto plan = std::make_unique<Plan>();
  const size_t n = graph.value_count();
  plan->offsets.assign(n, Plan::kNoOffset);
  plan->bytes.assign(n, 0);
  plan->dtypes.assign(n, DType::kUndefined);
  plan->last_reads.resize(program.steps().size());
  plan->open_workspace.assign(program.steps().size(), 0);
  for (size_t i = 0; i < n; ++i) plan->dtypes[i] = facts.values[i].dtype;
  const auto steps = static_cast<int64_t>(program.steps().size());

  // Lives, views counted for the value that owns the bytes.
  std::vector<int64_t> first(n, -1), last(n, 0);
  const auto use = [&](ValueId v, int64_t step) {
    if (v != kNone) {
      auto& l = last[static_cast<size_t>(program.root(v))];
      l = std::max(l, step + 1);
    }
  };
  for (int64_t s = 0; s < steps; ++s) {
    const Step& step = program.steps()[static_cast<size_t>(s)];
    for (ValueId v : step.inputs) use(v, s);
    for (ValueId v : graph.node(step.node).captures) use(v, s);
    for (ValueId v : step.outputs) {
      if (v == kNone) continue;
      use(v, s);
      if (program.place(v) == Place::kPlanned) first[static_cast<size_t>(v)] = s;
    }
  }
  for (ValueId v : graph.outputs) use(v, steps);

  std::vector<memory::Buffer> buffers;
  std::vector<ValueId> owner;  // by buffer: the value, for those of values
  std::vector<int32_t> buffer_of(n, memory::kNoBuffer);
  for (int64_t s = 0; s < steps; ++s) {
    const Step& step = program.steps()[static_cast<size_t>(s)];
    for (size_t o = 0; o < step.outputs.size(); ++o) {
      const ValueId v = step.outputs[o];
      if (v == kNone || first[static_cast<size_t>(v)] != s || program.place(v) != Place::kPlanned) continue;
      if (std::find(external.begin(), external.end(), v) != external.end()) continue;
      const int64_t bytes = BytesUpper(facts.of(v));
      if (bytes < 0) {
        if (last[static_cast<size_t>(v)] <= steps)
          plan->last_reads[static_cast<size_t>(last[static_cast<size_t>(v)] - 1)].push_back(v);
        continue;
      }
      memory::Buffer b;
      b.id = v;
      b.size = bytes;
      b.first = s;
      b.last = std::min(std::max(last[static_cast<size_t>(v)], s + 1), steps);
      if (o == 0 && step.kind == Step::Kind::kKernel) {
        for (size_t i = 0; i < step.inputs.size() && i < 32; ++i) {
          if (!(step.op->in_place >> i & 1) || step.inputs[i] == kNone) continue;
          const ValueId root = program.root(step.inputs[i]);
          const int32_t partner = buffer_of[static_cast<size_t>(root)];
          if (partner == memory::kNoBuffer || last[static_cast<size_t>(root)] != s + 1) continue;
          // The same size in every run within the bounds, not only at the upper end.
          if (facts.of(root).dtype != facts.of(v).dtype) continue;
          const auto shares = [&](ValueId other) { return other != kNone && program.root(other) == root; };
          if (std::count_if(step.inputs.begin(), step.inputs.end(), shares) > 1) continue;
          const auto& a = facts.of(step.inputs[i]).shape;
          const auto& c = facts.of(v).shape;
          bool same = a.rank == c.rank && a.known_rank();
          for (int d = 0; same && d < a.rank; ++d) same = ops::Same(a[d], c[d]);
          if (same) {
            b.in_place = partner;
            break;
          }
        }
      }
      buffer_of[static_cast<size_t>(v)] = static_cast<int32_t>(buffers.size());
      plan->bytes[static_cast<size_t>(v)] = bytes;
      buffers.push_back(b);
      owner.push_back(v);
    }
  }
  const size_t value_buffers = buffers.size();

  // Sub-graphs: the arena of a body is one buffer of its node's step; branches exclude each other.
  plan->bodies.resize(static_cast<size_t>(steps));
  plan->step_buffers.resize(static_cast<size_t>(steps));
  std::vector<std::pair<int64_t, int32_t>> body_buffers;            // step, buffer
  std::vector<std::tuple<int64_t, size_t, int32_t>> round_buffers;  // step, place in step_buffers, buffer
  const auto add_buffer = [&](int64_t s, int64_t bytes) {
    memory::Buffer b;
    b.id = -1;
    b.size = bytes;
    b.alignment = static_cast<int64_t>(memory::kDefaultWorkspaceAlignment);
    b.first = s;
    b.last = s + 1;
    buffers.push_back(b);
    return static_cast<int32_t>(buffers.size() - 1);
  };
  for (int64_t s = 0; s < steps; ++s) {
    const Step& step = program.steps()[static_cast<size_t>(s)];
    int64_t peak = 0;
    for (const auto& [key, body] : step.bodies) {
      const auto it = facts.bodies.find({step.node, key});
      if (it == facts.bodies.end()) {  // not taken in this profile
        plan->bodies[static_cast<size_t>(s)].push_back(nullptr);
        continue;
      }
      const RoundBuffers rounds = BuffersOf(program, step, facts, *it->second);
      for (int64_t bytes : rounds.bytes) {
        auto& planned = plan->step_buffers[static_cast<size_t>(s)];
        if (bytes >= 0) round_buffers.emplace_back(s, planned.size(), add_buffer(s, bytes));
        planned.push_back({Plan::kNoOffset, std::max<int64_t>(bytes, 0)});
      }
      auto inner = MakePlan(*body, *it->second, DirectResults(step, facts, *body, rounds), threads);
      peak = std::max(peak, inner->arena_bytes);
      plan->bodies[static_cast<size_t>(s)].push_back(std::move(inner));
    }
    if (peak > 0) body_buffers.emplace_back(s, add_buffer(s, peak));
  }

  std::vector<memory::NodeWorkspace> scratch;
  for (int64_t s = 0; s < steps; ++s) {
    const Step& step = program.steps()[static_cast<size_t>(s)];
    if (!step.kernel) continue;
    std::vector<ops::ValueFacts> in, out;
    for (ValueId v : step.inputs) in.push_back(v == kNone ? ops::ValueFacts{} : facts.of(v));
    for (ValueId v : step.outputs) out.push_back(v == kNone ? ops::ValueFacts{} : facts.of(v));
    if (!Bounded(in) || !Bounded(out)) {
      plan->open_workspace[static_cast<size_t>(s)] = 1;
      continue;
    }
    memory::NodeWorkspace w;
    w.node = s;
    w.step = s;
    step.kernel->DeclareWorkspaceRequirements({in, out, threads}, w.requirements);
    if (!w.requirements.empty()) scratch.push_back(std::move(w));
  }
  plan->workspace = memory::WorkspacePattern::Append(scratch, steps, &buffers);
  const memory::Packing packing = memory::Pack(buffers);
  memory::RequireSound(buffers, packing);
  plan->workspace.Resolve(packing);
  plan->workspace_peak = plan->workspace.live_peak();
  plan->arena_bytes = AlignUp<int64_t>(packing.peak, 64);
  plan->lower_bound = packing.lower_bound;
  for (size_t b = 0; b < value_buffers; ++b)
    plan->offsets[static_cast<size_t>(owner[b])] = packing.offsets[b];
  for (const auto& [s, at, b] : round_buffers)
    plan->step_buffers[static_cast<size_t>(s)][at].offset = packing.offsets[static_cast<size_t>(b)];
  for (const auto& [s, b] : body_buffers)
    for (auto& body : plan->bodies[static_cast<size_t>(s)])
      if (body) Shift(packing.offsets[static_cast<size_t>(b)], body.get());
  for (size_t b = 0; b < buffers.size(); ++b) {
    const auto& buffer = buffers[b];
    const bool is_value = b < value_buffers;
    const std::string name = is_value
                                 ? graph.value(owner[b]).name
                                 : graph.node(program.steps()[static_cast<size_t>(buffer.first)].node).name;
    plan->items.push_back({name, is_value ? "activations" : "workspace", packing.offsets[b], buffer.size,
                           buffer.first, buffer.last});
  }
  return plan;
}

}  // namespace ullage::session
