#include "placement/casts.h"

#include <algorithm>

#include "graph/clone.h"
#include "graph/patch.h"
#include "graph/widened.h"
#include "kernels/lookup.h"
#include "placement/widen.h"

namespace ullage::placement {

using graph::Graph;
using graph::IsHalf;
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

namespace {

/// The sub-graphs of a node, to be changed, with the names of their attributes.
std::vector<std::pair<std::string, Graph*>> BodiesOf(Node& node) {
  std::vector<std::pair<std::string, Graph*>> all;
  for (auto& [key, attribute] : node.attributes)
    if (auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute); one && *one)
      all.emplace_back(key, one->get());
  return all;
}

using FactsList = std::vector<shapes::GraphFacts*>;

}  // namespace

class CastInserter {
 public:
  CastInserter(const OptionBag& options, int threads, bool reserve, PlacedGraph* placed)
      : options_(options),
        threads_(threads),
        placed_(*placed),
        host_(placed->devices().size() - 1),
        weights_(reserve) {}

  std::optional<Casts> Run(std::span<shapes::GraphFacts* const> facts) {
    const auto is_wide = [](const auto& entry) { return entry.second.wide; };
    if (std::none_of(placed_.placed_.begin(), placed_.placed_.end(), is_wide)) return std::nullopt;
    std::map<const Graph*, const Graph*> copies;
    casts_.graph = graph::Clone(placed_.graph(), &copies);
    placed_.Move(copies);
    Change(*casts_.graph, {facts.begin(), facts.end()});
    placed_.Sync();
    for (const auto& [ref, node] : added_) placed_.placed_[ref] = node;
    for (PlacedDevice& d : placed_.devices_) d.nodes = 0;
    for (const NodeRef& ref : placed_.nodes()) ++placed_.devices_[placed_.of(ref).device].nodes;
    graph::Verify(*casts_.graph);
    for (const auto& [wide, source] : weights_.sources()) casts_.weights.push_back({wide, source});
    return std::move(casts_);
  }

 private:
  void Change(Graph& g, const FactsList& facts) {
    std::vector<NodeId> wide;
    for (NodeId id : g.Order()) {
      for (const auto& [key, body] : BodiesOf(g.node(id))) {
        FactsList inner;
        for (auto* f : facts)
          if (const auto it = f->bodies.find({id, key}); it != f->bodies.end())
            inner.push_back(it->second.get());
        if (!inner.empty()) Change(*body, inner);
      }
      const auto it = placed_.placed_.find({&g, id});
      if (it != placed_.placed_.end() && it->second.wide) wide.push_back(id);
    }
    if (wide.empty()) return;
    graph::Patch patch(g, "casts");
    std::map<ValueId, ValueId> made;  // in float32, by the value that it stands for
    for (NodeId id : wide)
      for (ValueId& out : g.node(id).outputs) {
        if (out == kNone || !IsHalf(facts[0]->of(out).dtype)) continue;
        const ValueId half = out;
        out = Add(patch, half, facts);
        g.value(half).producer = kNone;
        g.value(out).producer = id;
        made[half] = out;
      }
    std::map<std::pair<ValueId, size_t>, ValueId> cast;  // by value and device
    std::map<ValueId, ValueId> constants;
    for (NodeId id : wide) {
      Node& node = g.node(id);
      const PlacedNode served = placed_.of({&g, id});
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId v = node.inputs[i];
        if (v == kNone || !IsHalf(facts[0]->of(v).dtype)) continue;
        if (const auto it = made.find(v); it != made.end()) {
          patch.SetInput(node, i, it->second);
          continue;
        }
        if (g.ConstantOf(v)) {
          auto& wider = constants.try_emplace(v, kNone).first->second;
          if (wider == kNone) wider = AddWeight(patch, v, facts);
          patch.SetInput(node, i, wider);
          continue;
        }
        const size_t device = Caster(served.device, facts[0]->of(v), DType::kFloat);
        auto& there = cast.try_emplace({v, device}, kNone).first->second;
        if (there == kNone) {
          there = Add(patch, v, facts);
          AddCast(patch, v, there, DType::kFloat, id, device);
        }
        patch.SetInput(node, i, there);
      }
    }
    for (const auto& [half, wider] : made) {
      if (g.value(half).consumers.empty() && !g.IsOutput(half)) continue;
      const NodeId maker = g.value(wider).producer;
      const DType type = facts[0]->of(half).dtype;
      AddCast(patch, wider, half, type, maker,
              Caster(placed_.of({&g, maker}).device, facts[0]->of(wider), type));
    }
  }

  /// A value like `half`, in float32.
  ValueId Add(graph::Patch& patch, ValueId half, const FactsList& facts) {
    const ValueId wide = patch.NewValue(patch.graph().value(half).name + "/float32", DType::kFloat);
    Describe(wide, half, facts);
    return wide;
  }

  ValueId AddWeight(graph::Patch& patch, ValueId half, const FactsList& facts) {
    const graph::Value& value = patch.graph().value(half);
    const ValueId v = patch.NewConstant(value.name + "/float32", weights_.Of(value.constant));
    Describe(v, half, facts);
    return v;
  }

  static void Describe(ValueId wide, ValueId half, const FactsList& facts) {
    for (auto* f : facts) {
      f->values.resize(static_cast<size_t>(wide) + 1);
      f->values.back() = f->of(half);
      if (f->values.back().dtype != DType::kUndefined) f->values.back().dtype = DType::kFloat;
    }
  }

  void AddCast(graph::Patch& patch, ValueId from, ValueId to, DType type, NodeId serves, size_t device) {
    Node& node = patch.Add("", "Cast", NameOf(type), {from}, {to}, {serves});
    node.attributes["to"] = static_cast<int64_t>(type);
    PlacedNode placed = placed_.of({&patch.graph(), serves});
    placed.device = device;
    placed.wide = false;
    added_.emplace_back(NodeRef{&patch.graph(), node.id}, placed);
    ++casts_.casts;
  }

  /// The device, if it can cast such a value; else the host.
  size_t Caster(size_t device, const ops::ValueFacts& facts, DType to) {
    const auto& d = placed_.devices()[device].device;
    const auto cast = CastOf(placed_.graph(), facts, to);
    const Node& node = cast->graph.node(0);
    const std::vector<ops::ValueFacts> in = {facts}, out = {cast->facts.of(node.outputs[0])};
    const kernels::KernelInfo info{node, cast->graph, in, out, threads_, &options_, d.open.get()};
    return kernels::FindKernel(d.provider->registry(), info, nullptr) ? device : host_;
  }

  const OptionBag& options_;
  const int threads_;
  PlacedGraph& placed_;
  const size_t host_;
  Casts casts_;
  WideWeights weights_;
  std::vector<std::pair<NodeRef, PlacedNode>> added_;
};

std::optional<Casts> InsertCasts(const OptionBag& options, int threads, bool reserve,
                                 std::span<shapes::GraphFacts* const> facts, PlacedGraph* placed) {
  return CastInserter(options, threads, reserve, placed).Run(facts);
}

void ForgetCasts(const Graph& original, shapes::GraphFacts* facts) {
  facts->values.resize(original.value_count());
  for (const auto& [key, body] : facts->bodies)
    for (const auto& [name, graph] : SubgraphsOf(original.node(key.first)))
      if (name == key.second) ForgetCasts(*graph, body.get());
}

}  // namespace ullage::placement
