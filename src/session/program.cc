#include "session/program.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "kernels/late_kernel.h"
#include "kernels/lookup.h"
#include "session/parts.h"
#include "session/unbounded.h"

namespace ullage::session {

using graph::kNone;
using graph::ValueId;

namespace {

Step::Kind KindOf(const graph::Node& node, const ops::OpInfo& op) {
  if (node.domain.empty()) {
    if (node.op == "If") return Step::Kind::kIf;
    if (node.op == "Loop") return Step::Kind::kLoop;
    if (node.op == "Scan") return Step::Kind::kScan;
    if (node.op == "SequenceMap") return Step::Kind::kSequenceMap;
  }
  if (node.Is(graph::kUllageDomain, "Select")) return Step::Kind::kSelect;
  return op.view_of >= 0 && !node.has_output(1) ? Step::Kind::kView : Step::Kind::kKernel;
}

/// What the executor has to know of results that it puts together from rounds.
void DescribeRounds(const graph::Node& node, const Program& body, const shapes::GraphFacts& facts,
                    Step* step) {
  if (step->kind == Step::Kind::kIf) return;
  const auto& results = body.graph().outputs;
  size_t first = 0;
  if (step->kind == Step::Kind::kLoop)
    first = step->inputs.size() < 2 ? 1 : step->inputs.size() - 1;
  else if (step->kind == Step::Kind::kScan)
    first = step->inputs.size() - (node.opset > 0 && node.opset < 9 ? 1 : 0) -
            static_cast<size_t>(node.RequiredInt("num_scan_inputs"));
  for (size_t i = first; i < results.size(); ++i) {
    const ops::ValueFacts& f = facts.of(results[i]);
    if (step->kind == Step::Kind::kSequenceMap) {
      step->element_bytes.push_back(BytesUpper(f));
      continue;
    }
    Shape shape;
    for (int d = 0; d < f.shape.rank; ++d) shape.push_back(f.shape[d].exact() ? f.shape[d].lower : 0);
    step->stacked.push_back(shape);
  }
}

void Join(const ops::BoundMath& math, const ops::ValueFacts& b, ops::ValueFacts* a) {
  if (a->dtype == DType::kUndefined) {
    *a = b;
    return;
  }
  if (a->shape.rank != b.shape.rank) {
    a->shape = ops::BoundedShape::Unknown();
    a->values = nullptr;
    return;
  }
  a->length = math.Union(a->length, b.length);
  const int64_t elements = std::max(a->shape.ElementsUpper(), b.shape.ElementsUpper());
  for (int i = 0; i < a->shape.rank; ++i) a->shape[i] = math.Union(a->shape[i], b.shape[i]);
  a->shape.max_elements = elements;
  bool same = a->values && b.values && a->values->count == b.values->count;
  for (int i = 0; same && i < a->values->count; ++i) {
    const auto& x = a->values->v[static_cast<size_t>(i)];
    const auto& y = b.values->v[static_cast<size_t>(i)];
    same = x.exact() && y.exact() && x.lower == y.lower;
  }
  if (!same) a->values = nullptr;
}

}  // namespace

shapes::GraphFacts UnionFacts(const std::vector<const shapes::GraphFacts*>& all) {
  // Expressions belong to the table of one profile, so they are dropped here.
  const ops::BoundMath math(nullptr);
  shapes::GraphFacts joined;
  joined.values.resize(all.front()->values.size());
  for (const auto* facts : all)
    for (size_t i = 0; i < joined.values.size(); ++i) {
      ops::ValueFacts plain = facts->values[i];
      for (int d = 0; d < plain.shape.rank; ++d) plain.shape[d].expr = ops::kNoExpr;
      plain.length.expr = ops::kNoExpr;
      Join(math, plain, &joined.values[i]);
    }
  for (const auto* facts : all) joined.refused.insert(facts->refused.begin(), facts->refused.end());
  std::set<std::pair<graph::NodeId, std::string>> keys;
  for (const auto* facts : all)
    for (const auto& body : facts->bodies) keys.insert(body.first);
  for (const auto& key : keys) {
    std::vector<const shapes::GraphFacts*> inner;
    for (const auto* facts : all)
      if (const auto it = facts->bodies.find(key); it != facts->bodies.end())
        inner.push_back(it->second.get());
    joined.bodies[key] = std::make_unique<shapes::GraphFacts>(UnionFacts(inner));
  }
  return joined;
}

std::unique_ptr<Program> Program::Build(const graph::Graph& graph, const shapes::GraphFacts& facts,
                                        const placement::PlacedGraph& placed, int threads,
                                        const OptionBag* options) {
  auto program = std::make_unique<Program>();
  program->graph_ = &graph;
  const size_t n = graph.value_count();
  program->places_.assign(n, Place::kNone);
  program->roots_.resize(n);
  program->part_.assign(n, 0);
  const bool parts = !options || options->Bool("session.plan_views");
  for (size_t i = 0; i < n; ++i) {
    const auto& value = graph.value(static_cast<ValueId>(i));
    program->roots_[i] = static_cast<ValueId>(i);
    program->dtypes_.push_back(facts.values[i].dtype);
    program->kinds_.push_back(facts.values[i].kind);
    if (value.constant) program->places_[i] = Place::kConstant;
    if (value.is_input) program->places_[i] = Place::kInput;
  }

  std::set<std::string> missing;
  for (graph::NodeId id : graph.Order()) {
    const graph::Node& node = graph.node(id);
    Step step;
    step.node = id;
    step.inputs = node.inputs;
    step.outputs = node.outputs;
    step.op = ops::FindOp(node.domain, node.op, node.opset);
    if (!step.op) {
      missing.insert(StrCat("operator ", node.OpName(), " of opset ", node.opset, " (node ", node.name, ")"));
      continue;
    }
    step.kind = KindOf(node, *step.op);
    if (parts && step.kind == Step::Kind::kKernel && IsParts(node, graph, facts))
      step.kind = Step::Kind::kParts;
    for (size_t i = 0; i < step.inputs.size() && i < 32; ++i)
      if (step.op->reads_values >> i & 1 && step.inputs[i] != kNone && !graph.ConstantOf(step.inputs[i]))
        step.reads_values = true;
    for (ValueId v : step.inputs)
      if (v != kNone && program->kind(v) != graph::TypeKind::kTensor) step.reads_values = true;
    const auto fact = [&](ValueId v) { return v == kNone ? ops::ValueFacts{} : facts.of(v); };
    if (step.kind == Step::Kind::kKernel) {
      std::vector<ops::ValueFacts> in, out;
      for (ValueId v : node.inputs) in.push_back(fact(v));
      for (ValueId v : node.outputs) out.push_back(fact(v));
      const kernels::KernelInfo info{node, graph, in, out, threads, options};
      std::string reason;
      step.def = placed.registry({&graph, id}).Find(info, &reason);
      if (!step.def) {
        missing.insert(StrCat(reason, " (node ", node.name, ")"));
        continue;
      }
      step.kernel = step.def->create(info);
      step.late = dynamic_cast<const kernels::LateKernel*>(step.kernel.get()) != nullptr;
    } else if (step.kind == Step::Kind::kIf || step.kind == Step::Kind::kLoop ||
               step.kind == Step::Kind::kScan || step.kind == Step::Kind::kSequenceMap) {
      for (const auto& [key, attribute] : node.attributes) {
        const auto* body = std::get_if<std::shared_ptr<graph::Graph>>(&attribute);
        if (!body) continue;
        const auto it = facts.bodies.find({id, key});
        if (it == facts.bodies.end()) {  // a branch that is known not to be taken
          if (const auto why = facts.refused.find({id, key}); why != facts.refused.end())
            step.refused.emplace_back(key, why->second);
          continue;
        }
        step.bodies.emplace_back(key, Build(**body, *it->second, placed, threads, options));
        DescribeRounds(node, *step.bodies.back().second, *it->second, &step);
      }
    }
    for (ValueId v : node.outputs)
      if (v != kNone) program->places_[static_cast<size_t>(v)] = Place::kPlanned;
    if (step.kind == Step::Kind::kView && node.output(0) != kNone) {
      const ValueId source = node.inputs[static_cast<size_t>(step.op->view_of)];
      const auto out = static_cast<size_t>(node.output(0));
      program->places_[out] = Place::kView;
      program->roots_[out] = program->roots_[static_cast<size_t>(source)];
      program->part_[out] = program->part_[static_cast<size_t>(source)];
    } else if (step.kind == Step::Kind::kParts) {
      for (ValueId v : node.outputs) {
        program->places_[static_cast<size_t>(v)] = Place::kView;
        program->roots_[static_cast<size_t>(v)] = program->roots_[static_cast<size_t>(node.inputs[0])];
        program->part_[static_cast<size_t>(v)] = 1;
      }
    } else if (step.kind == Step::Kind::kSelect) {
      program->places_[static_cast<size_t>(node.output(0))] = Place::kView;
    }
    program->steps_.push_back(std::move(step));
  }
  if (!missing.empty()) kernels::ThrowMissing(missing);
  return program;
}

void Program::Reorder(const std::vector<int32_t>& order) {
  std::vector<Step> steps;
  steps.reserve(order.size());
  for (int32_t i : order) steps.push_back(std::move(steps_[static_cast<size_t>(i)]));
  steps_ = std::move(steps);
}

bool Program::AcceptsCache(ValueId v) const {
  for (const Step& step : steps_) {
    const auto& node = graph_->node(step.node);
    if (std::find(node.captures.begin(), node.captures.end(), v) != node.captures.end()) return false;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] != v) continue;
      // A shape can be read off any view.
      if (node.domain.empty() && (node.op == "Shape" || node.op == "Size")) continue;
      if (!step.def || i >= 32 || !(step.def->cache_inputs >> i & 1)) return false;
    }
  }
  return true;
}

std::pair<int, int> Program::WriterOf(ValueId v) const {
  for (size_t s = 0; s < steps_.size(); ++s)
    for (size_t o = 0; o < steps_[s].outputs.size(); ++o)
      if (steps_[s].outputs[o] == v) return {static_cast<int>(s), static_cast<int>(o)};
  return {-1, -1};
}

}  // namespace ullage::session
