#include "session/program.h"

#include <algorithm>
#include <functional>
#include <set>

#include "core/error.h"
#include "kernels/late_kernel.h"
#include "kernels/lookup.h"
#include "placement/host_values.h"
#include "providers/device.h"
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

std::string_view KindName(Step::Kind kind) {
  switch (kind) {
    case Step::Kind::kKernel:
      return "kernel";
    case Step::Kind::kView:
      return "view";
    case Step::Kind::kParts:
      return "parts";
    case Step::Kind::kSelect:
      return "select";
    case Step::Kind::kIf:
      return "if";
    case Step::Kind::kLoop:
      return "loop";
    case Step::Kind::kScan:
      return "scan";
    case Step::Kind::kSequenceMap:
      return "map";
    case Step::Kind::kCopy:
      return "copy";
    case Step::Kind::kFused:
      return "fused";
  }
  return "";
}

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

/// Puts a program together, step by step, with the copies that its steps need.
class Program::Builder {
 public:
  Builder(const graph::Graph& graph, const shapes::GraphFacts& facts, const placement::PlacedGraph& placed,
          int threads, const OptionBag* options)
      : graph_(graph),
        facts_(facts),
        placed_(placed),
        threads_(threads),
        options_(options),
        parts_(!options || options->Bool("session.plan_views")),
        program_(std::make_unique<Program>()) {}

  std::unique_ptr<Program> Run(const Residence& residence) {
    Program& p = *program_;
    p.graph_ = &graph_;
    p.alignments_.push_back(1);
    for (const auto& d : placed_.devices()) {
      p.device_names_.push_back(d.device.info.name);
      if (d.device.open) p.alignments_.push_back(d.device.open->alignment());
    }
    for (size_t i = 0; i < graph_.value_count(); ++i) {
      const auto v = static_cast<ValueId>(i);
      const auto& value = graph_.value(v);
      AddValue(v, 0);
      if (value.constant) p.places_[i] = Place::kConstant;
      if (value.is_input) p.places_[i] = Place::kInput;
    }
    for (const auto& [v, device] : residence.inputs) p.devices_[static_cast<size_t>(v)] = device;
    std::set<std::string> missing;
    for (graph::NodeId id : placement::GroupedOrder(graph_, placed_.groups())) {
      const auto group = placed_.of({&graph_, id}).group;
      if (!group)
        AddNode(id, &missing);
      else if (const auto& whole = placed_.groups()[*group]; whole.group.nodes.back() == id)
        AddGroup(whole);
    }
    if (!missing.empty()) kernels::ThrowMissing(missing);
    for (ValueId v : graph_.outputs) p.outputs_.push_back(residence.outputs.count(v) ? v : On(v, 0, kNone));
    Interleave();
    for (const Step& step : p.steps_) {
      p.uses_devices_ = p.uses_devices_ || step.device != 0;
      for (const auto& body : step.bodies) p.uses_devices_ = p.uses_devices_ || body.second->uses_devices_;
    }
    return std::move(program_);
  }

 private:
  ValueId AddValue(ValueId source, int device) {
    Program& p = *program_;
    const auto& f = facts_.of(source);
    p.sources_.push_back(source);
    p.devices_.push_back(device);
    p.places_.push_back(Place::kNone);
    p.roots_.push_back(static_cast<ValueId>(p.roots_.size()));
    p.part_.push_back(0);
    p.dtypes_.push_back(f.dtype);
    p.kinds_.push_back(f.kind);
    return static_cast<ValueId>(p.roots_.size() - 1);
  }

  bool CopiesDirectly(int from, int to) const {
    const auto open = [&](int d) { return placed_.devices()[static_cast<size_t>(d - 1)].device.open; };
    return open(to)->CopiesFrom(*open(from));
  }

  /// The value on that device: itself, or the one copy that there is for all who read it there.
  ValueId On(ValueId v, int device, graph::NodeId reader) {
    Program& p = *program_;
    if (v == kNone || p.device(v) == device) return v;
    if (const auto it = copies_.find({v, device}); it != copies_.end()) return it->second;
    if (p.place(v) == Place::kConstant) {
      const ValueId there = AddValue(v, device);
      p.places_.back() = Place::kConstant;
      return copies_[{v, device}] = there;
    }
    if (p.kind(v) != graph::TypeKind::kTensor)
      Throw(Code::kUnsupported, "value ", p.name(v), " is a sequence or an optional, which stay on the host");
    const bool by_host = p.device(v) != 0 && device != 0 && !CopiesDirectly(p.device(v), device);
    const ValueId from = by_host ? On(v, 0, reader) : v;
    Step step;
    step.kind = Step::Kind::kCopy;
    step.node = reader;
    step.device = device != 0 ? device : p.device(from);
    step.inputs = {from};
    const ValueId there = AddValue(v, device);
    p.places_.back() = Place::kPlanned;
    step.outputs = {there};
    later_[from].push_back(std::move(step));
    return copies_[{v, device}] = there;
  }

  void AddNode(graph::NodeId id, std::set<std::string>* missing) {
    Program& p = *program_;
    const graph::Node& node = graph_.node(id);
    Step step;
    step.node = id;
    step.outputs = node.outputs;
    step.op = ops::FindOp(node.domain, node.op, node.opset);
    if (!step.op) {
      missing->insert(
          StrCat("operator ", node.OpName(), " of opset ", node.opset, " (node ", node.name, ")"));
      return;
    }
    step.kind = KindOf(node, *step.op);
    const size_t device = placed_.of({&graph_, id}).device;
    step.device = device + 1 == placed_.devices().size() ? 0 : static_cast<int>(device) + 1;
    if (parts_ && step.kind == Step::Kind::kKernel && IsParts(node, graph_, facts_)) {
      step.kind = Step::Kind::kParts;
      step.parts_axis = PartsAxis(node, graph_, facts_.of(node.inputs[0]).shape.rank);
    }
    const auto fact = [&](ValueId v) { return v == kNone ? ops::ValueFacts{} : facts_.of(v); };
    if (step.kind == Step::Kind::kKernel) {
      std::vector<ops::ValueFacts> in, out;
      for (ValueId v : node.inputs) in.push_back(fact(v));
      for (ValueId v : node.outputs) out.push_back(fact(v));
      const kernels::KernelInfo info{
          node, graph_, in, out, threads_, options_, placed_.devices()[device].device.open.get()};
      std::string reason;
      step.def = placed_.registry({&graph_, id}).Find(info, &reason);
      if (!step.def) {
        missing->insert(StrCat(reason, " (node ", node.name, ")"));
        return;
      }
      step.kernel = step.def->create(info);
      step.late = dynamic_cast<const kernels::LateKernel*>(step.kernel.get()) != nullptr;
    }
    FindInputs(node, &step);
    if (step.runs_bodies()) AddBodies(node, &step);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      const ValueId v = node.outputs[o];
      if (v == kNone) continue;
      p.places_[static_cast<size_t>(v)] = Place::kPlanned;
      const bool host = step.def && o < 32 && (step.def->host_outputs >> o & 1);
      p.devices_[static_cast<size_t>(v)] = host ? 0 : step.device;
    }
    if (step.kind == Step::Kind::kView && node.output(0) != kNone) {
      const ValueId source = step.inputs[static_cast<size_t>(step.op->view_of)];
      const auto out = static_cast<size_t>(node.output(0));
      p.places_[out] = Place::kView;
      p.roots_[out] = p.roots_[static_cast<size_t>(source)];
      p.part_[out] = p.part_[static_cast<size_t>(source)];
    } else if (step.kind == Step::Kind::kParts) {
      for (ValueId v : node.outputs) {
        p.places_[static_cast<size_t>(v)] = Place::kView;
        p.roots_[static_cast<size_t>(v)] = p.roots_[static_cast<size_t>(step.inputs[0])];
        p.part_[static_cast<size_t>(v)] = 1;
      }
    } else if (step.kind == Step::Kind::kSelect) {
      p.places_[static_cast<size_t>(node.output(0))] = Place::kView;
    }
    p.steps_.push_back(std::move(step));
  }

  void AddGroup(const placement::NodeGroup& placed) {
    Program& p = *program_;
    const providers::Group& group = placed.group;
    Step step;
    step.kind = Step::Kind::kFused;
    step.node = group.nodes.back();
    step.device = static_cast<int>(placed.device) + 1;
    const providers::Device& device = placed_.devices()[placed.device].device;
    std::vector<std::vector<ops::ValueFacts>> facts;
    std::vector<kernels::KernelInfo> infos;
    facts.reserve(2 * group.nodes.size());
    for (graph::NodeId id : group.nodes) {
      const graph::Node& node = graph_.node(id);
      step.members.push_back({id, ops::FindOp(node.domain, node.op, node.opset), node.inputs, node.outputs});
      for (const auto* values : {&node.inputs, &node.outputs}) {
        auto& list = facts.emplace_back();
        for (ValueId v : *values) list.push_back(v == kNone ? ops::ValueFacts{} : facts_.of(v));
      }
      infos.push_back(
          {node, graph_, facts[facts.size() - 2], facts.back(), threads_, options_, device.open.get()});
    }
    step.kernel = device.provider->Compile(*device.open, placed.proposal, group, infos);
    for (size_t i = 0; i < group.inputs.size(); ++i) {
      const bool host = group.input_on_host[i];
      step.inputs.push_back(On(group.inputs[i], host ? 0 : step.device, step.node));
      if (host && !graph_.ConstantOf(group.inputs[i])) step.reads_values = true;
      for (auto& member : step.members)
        std::replace(member.inputs.begin(), member.inputs.end(), group.inputs[i], step.inputs[i]);
    }
    for (ValueId v : group.outputs) {
      p.places_[static_cast<size_t>(v)] = Place::kPlanned;
      p.devices_[static_cast<size_t>(v)] = step.device;
    }
    step.outputs = group.outputs;
    RequireStatedWorkspace(step);
    p.steps_.push_back(std::move(step));
  }

  /// A device takes no memory while it runs.
  void RequireStatedWorkspace(const Step& step) const {
    std::vector<ops::ValueFacts> in, out;
    for (ValueId v : step.inputs) in.push_back(facts_.of(program_->source(v)));
    for (ValueId v : step.outputs) out.push_back(facts_.of(v));
    std::vector<memory::WorkspaceRequirement> slots;
    step.kernel->DeclareWorkspaceRequirements({in, out, threads_}, slots);
    for (const auto& slot : slots)
      if (slot.status == memory::WorkspaceStatus::kUnknown)
        Throw(Code::kUnsupported, "the group of ", step.members.size(), " nodes up to ",
              graph_.node(step.node).name, " that ",
              program_->device_names_[static_cast<size_t>(step.device - 1)],
              " compiled does not state its scratch");
  }

  /// What the step reads, in the memory where it reads it.
  void FindInputs(const graph::Node& node, Step* step) {
    Program& p = *program_;
    const bool only_shape = placement::ReadsOnlyShape(node);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      const ValueId v = node.inputs[i];
      const bool values = i < 32 && (step->op->reads_values >> i & 1);
      const bool host = values || (step->def && i < 32 && (step->def->host_inputs >> i & 1));
      step->inputs.push_back(only_shape ? v : On(v, host ? 0 : step->device, node.id));
      if (v == kNone) continue;
      if (values && !graph_.ConstantOf(v)) step->reads_values = true;
      if (p.kind(v) != graph::TypeKind::kTensor) step->reads_values = true;
    }
  }

  void AddBodies(const graph::Node& node, Step* step) {
    const Program& p = *program_;
    for (const auto& [key, attribute] : node.attributes) {
      const auto* body = std::get_if<std::shared_ptr<graph::Graph>>(&attribute);
      if (!body) continue;
      const auto it = facts_.bodies.find({node.id, key});
      if (it == facts_.bodies.end()) {  // a branch that is known not to be taken
        if (const auto why = facts_.refused.find({node.id, key}); why != facts_.refused.end())
          step->refused.emplace_back(key, why->second);
        continue;
      }
      Residence inner;
      for (size_t c = 0; c < (*body)->capture_values.size() && c < node.captures.size(); ++c)
        if (const int device = p.device(node.captures[c]); device != 0)
          inner.inputs[(*body)->capture_values[c]] = device;
      step->bodies.emplace_back(key, Program::Build(**body, *it->second, placed_, threads_, options_, inner));
      DescribeRounds(node, *step->bodies.back().second, *it->second, step);
    }
  }

  /// Copies go where their source is made, so that they are under way while other steps run.
  void Interleave() {
    if (later_.empty()) return;
    Program& p = *program_;
    std::vector<Step> all;
    const std::function<void(ValueId)> emit = [&](ValueId made) {
      const auto it = later_.find(made);
      if (it == later_.end()) return;
      std::vector<Step> steps = std::move(it->second);
      later_.erase(it);
      for (Step& step : steps) {
        const ValueId there = step.outputs[0];
        all.push_back(std::move(step));
        emit(there);
      }
    };
    for (size_t v = 0; v < p.value_count(); ++v)
      if (p.places_[v] == Place::kInput) emit(static_cast<ValueId>(v));
    for (Step& step : p.steps_) {
      const std::vector<ValueId> made = step.outputs;
      all.push_back(std::move(step));
      for (ValueId v : made)
        if (v != kNone) emit(v);
    }
    p.steps_ = std::move(all);
  }

  const graph::Graph& graph_;
  const shapes::GraphFacts& facts_;
  const placement::PlacedGraph& placed_;
  const int threads_;
  const OptionBag* options_;
  const bool parts_;
  std::unique_ptr<Program> program_;
  std::map<std::pair<ValueId, int>, ValueId> copies_;
  std::map<ValueId, std::vector<Step>> later_;  // copies, by what they read
};

std::unique_ptr<Program> Program::Build(const graph::Graph& graph, const shapes::GraphFacts& facts,
                                        const placement::PlacedGraph& placed, int threads,
                                        const OptionBag* options, const Residence& residence) {
  return Builder(graph, facts, placed, threads, options).Run(residence);
}

std::string Program::name(ValueId v) const {
  const std::string& name = graph_->value(source(v)).name;
  if (source(v) == v) return name;
  const int d = device(v);
  return StrCat(name, "@", d == 0 ? device_names_.back() : device_names_[static_cast<size_t>(d - 1)]);
}

std::span<const ValueId> Program::captures(const Step& step) const {
  if (step.kind == Step::Kind::kCopy) return {};
  return graph_->node(step.node).captures;
}

void Program::Reorder(const std::vector<int32_t>& order) {
  std::vector<Step> steps;
  steps.reserve(order.size());
  for (int32_t i : order) steps.push_back(std::move(steps_[static_cast<size_t>(i)]));
  steps_ = std::move(steps);
}

bool Program::AcceptsCache(ValueId v) const {
  for (const Step& step : steps_) {
    const auto captures = this->captures(step);
    if (std::find(captures.begin(), captures.end(), v) != captures.end()) return false;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      if (step.inputs[i] != v) continue;
      if (step.kind == Step::Kind::kCopy || step.kind == Step::Kind::kFused) return false;
      // A shape can be read off any view.
      if (placement::ReadsOnlyShape(graph_->node(step.node))) continue;
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
