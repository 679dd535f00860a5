#include "placement/place.h"

#include <algorithm>
#include <deque>
#include <set>

#include "core/checked.h"
#include "core/error.h"
#include "graph/widened.h"
#include "kernels/estimate.h"
#include "kernels/lookup.h"
#include "kernels/value_bytes.h"
#include "ops/catalogue.h"
#include "placement/host_values.h"
#include "placement/stats.h"
#include "placement/widen.h"

namespace ullage::placement {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

RuleSet ReadRules(const OptionBag& options) {
  const std::string annotations = options.Str(OptionOf(RuleMode::kAnnotation));
  const std::string names = options.Str(OptionOf(RuleMode::kName));
  if (!annotations.empty() && !names.empty())
    Throw(Code::kUsage, "options ", OptionOf(RuleMode::kAnnotation), " and ", OptionOf(RuleMode::kName),
          " exclude each other; both are set");
  return annotations.empty() ? ParseRules(RuleMode::kName, names)
                             : ParseRules(RuleMode::kAnnotation, annotations);
}

std::vector<providers::Device> ReadDevices(
    const OptionBag& options, const std::vector<std::shared_ptr<const providers::Provider>>& providers) {
  std::vector<providers::Device> all, chosen;
  for (const auto& provider : providers)
    for (auto& info : provider->devices()) all.push_back({provider, std::move(info), nullptr});
  const std::string named = options.Str("session.devices");
  const auto is_host = [](const providers::Device& d) { return d.provider->name() == "cpu"; };
  const auto take = [&](const providers::Device& d) {
    for (const auto& c : chosen)
      if (c.info.name == d.info.name) return;
    chosen.push_back(d);
  };
  for (size_t at = 0; at < named.size();) {
    const size_t comma = std::min(named.find(',', at), named.size());
    const Designator designator = ParseDesignator(std::string_view(named).substr(at, comma - at));
    at = comma + 1;
    std::vector<providers::DeviceInfo> infos;
    for (const auto& d : all) infos.push_back(d.info);
    const size_t first = RequireDevice(designator, infos);
    if (designator.kind == Designator::Kind::kCpu) continue;
    if (designator.ordinal || !designator.vendor.empty()) {
      take(all[first]);
      continue;
    }
    for (size_t i = 0; i < all.size(); ++i)
      if (!is_host(all[i]) && Matches(designator, infos[i])) take(all[i]);
  }
  if (named.empty())
    for (const auto& d : all)
      if (!is_host(d) && !d.info.only_when_named) take(d);
  for (const auto& d : all)
    if (is_host(d)) take(d);
  if (chosen.empty()) throw Error(Code::kUnsupported, "there is no device");
  return chosen;
}

namespace {

/// Facts and kernel information of one node; the spans of `info` refer to this object.
struct NodeFacts {
  std::vector<ops::ValueFacts> in, out;
  kernels::KernelInfo info;

  NodeFacts(const NodeRef& ref, const shapes::GraphFacts& facts, int threads, const OptionBag* options,
            providers::OpenDevice* device)
      : info{*ref, *ref.graph, {}, {}, threads, options, device} {
    for (ValueId v : ref->inputs) in.push_back(v == kNone ? ops::ValueFacts{} : facts.of(v));
    for (ValueId v : ref->outputs) out.push_back(v == kNone ? ops::ValueFacts{} : facts.of(v));
    info.inputs = in;
    info.outputs = out;
  }
  NodeFacts(const NodeFacts&) = delete;
  NodeFacts& operator=(const NodeFacts&) = delete;
};

Fallback::Kind KindOf(kernels::Refusal::Kind kind) {
  switch (kind) {
    case kernels::Refusal::Kind::kType:
      return Fallback::Kind::kType;
    case kernels::Refusal::Kind::kShape:
      return Fallback::Kind::kShape;
    case kernels::Refusal::Kind::kOperator:
    case kernels::Refusal::Kind::kOpset:
      break;
  }
  return Fallback::Kind::kNoKernel;
}

/// The host decides which sub-graph runs; nothing is computed by the node itself.
bool IsControl(const Node& node) {
  return (node.domain.empty() && (node.op == "If" || node.op == "Loop" || node.op == "Scan")) ||
         node.Is(graph::kUllageDomain, "Select");
}

/// The result is an input under another shape.
bool IsView(const Node& node) {
  const auto* op = ops::FindOp(node.domain, node.op, node.opset);
  return op && op->view_of >= 0 && !node.has_output(1);
}

}  // namespace

class Placer {
 public:
  explicit Placer(const PlaceRequest& request)
      : request_(request), placed_(std::make_unique<PlacedGraph>()), host_(request.devices.size() - 1) {
    if (request.devices.empty()) throw Error(Code::kRuntime, "placement needs a device");
    static const OptionBag defaults;
    options_ = request.options ? request.options : &defaults;
    strict_ = options_->Bool("session.strict");
    // Strict mode has no nodes in another type unless somebody asked for them.
    casts_ = options_->Bool("session.insert_casts") && (!strict_ || options_->Has("session.insert_casts"));
  }

  std::unique_ptr<PlacedGraph> Run() {
    PlacedGraph& p = *placed_;
    p.graph_ = request_.graph;
    Collect(*request_.graph, *request_.facts);
    Devices();
    Rules();
    for (size_t d = 0; d <= host_; ++d) Turn(d, d == host_);
    // What is left was refused by everybody who was offered it; devices that came earlier, or that no rule
    // named, may still take it.
    for (size_t d = 0; d < host_ && Left(); ++d) Turn(d, false);
    RequireAll();
    Finish();
    return std::move(placed_);
  }

 private:
  void Collect(const Graph& graph, const shapes::GraphFacts& facts) {
    facts_[&graph] = &facts;
    if (host_ > 0)
      for (NodeId id : HostNodes(graph, facts)) host_nodes_.insert({&graph, id});
    placed_->log_read_[&graph] = graph.log.size();
    for (NodeId id : graph.Order()) {
      for (const auto& [key, body] : SubgraphsOf(graph.node(id))) {
        const auto it = facts.bodies.find({id, key});
        if (it == facts.bodies.end()) continue;  // a branch that is never taken
        Collect(*body, *it->second);
      }
      placed_->nodes_.push_back({&graph, id});
    }
  }

  void Devices() {
    std::vector<providers::DeviceInfo> infos;
    for (const auto& d : request_.devices) infos.push_back(d.info);
    const auto budgets =
        ResolveBudgets(ParseCudaSetting(options_->Str("session.resource_cuda_partitioning_settings")),
                       ParseBudgetSettings(options_->Str("session.resource_partitioning_settings")), infos,
                       options_->Size("session.resource_reserve"), options_->Int("session.resource_percent"));
    const auto facts = [this](const Graph& g) -> const shapes::GraphFacts* {
      const auto it = facts_.find(&g);
      return it == facts_.end() ? nullptr : it->second;
    };
    for (size_t i = 0; i < infos.size(); ++i) {
      PlacedDevice d;
      d.device = request_.devices[i];
      d.budget = budgets[i];
      ResourceAccountant::ProfileOf profile;
      if (!d.budget.stats_file.empty())
        profile = LoadProfile(StatsPath(d.budget.stats_file, request_.model_folder));
      accountants_.emplace_back(request_.allowances.empty() ? d.budget.limit_bytes : request_.allowances[i],
                                facts, std::move(profile));
      placed_->devices_.push_back(std::move(d));
    }
    counts_ = options_->Bool("session.strict_workspace_verification") || strict_ ||
              std::any_of(accountants_.begin(), accountants_.end(),
                          [](const ResourceAccountant& a) { return a.limit_bytes().has_value(); });
  }

  void Rules() {
    RuleSet rules = ReadRules(*options_);
    std::vector<providers::DeviceInfo> infos;
    for (const auto& d : request_.devices) infos.push_back(d.info);
    std::vector<std::optional<size_t>> devices;
    for (const Rule& rule : rules.rules) devices.push_back(RequireDevice(rule.device, infos));
    placed_->rules_ = rules;
    index_ = std::make_unique<LayeringIndex>(std::move(rules), std::move(devices));
    if (placed_->rules_.empty() && placed_->rules_.warnings.empty()) return;
    index_->Build(*request_.graph);
    placed_->coverage_ = CoverageOf(*index_, *request_.graph);
    const bool strict = strict_ || options_->Bool("session.strict_layer_assignment");
    for (const RuleProblem& problem : ProblemsOf(*index_, *request_.graph, placed_->coverage_)) {
      if (strict) throw Error(Code::kUsage, problem.message);
      placed_->warnings_.push_back(problem.message);
    }
    for (const NodeRef& ref : placed_->nodes_) placed_->unmatched_ += !index_->RuleOf(*ref.graph, ref.node);
  }

  /// Offers device d what nobody has. `last`: it is not asked whether it has the bytes.
  void Turn(size_t d, bool last) {
    ResourceAccountant& accountant = accountants_[d];
    accountant.BeginPass();
    std::vector<NodeRef> released;
    const bool proposes = !last && request_.devices[d].provider->proposes();
    Offers offers;
    if (proposes) Ask(d, &offers);
    for (const NodeRef& ref : placed_->nodes_) {
      if (placed_->placed_.count(ref)) continue;
      const auto rule = index_->RuleOf(*ref.graph, ref.node);
      const auto wanted = index_->DeviceOf(*ref.graph, ref.node);
      if (IsControl(*ref) || host_nodes_.count(ref)) {
        if (last) Put(ref, d, Reason::kDefault, {});
        continue;
      }
      if (!IsOpen(ref, d, last)) continue;
      if (proposes && TakeGroup(ref, d, &offers)) continue;
      const bool view = IsView(*ref);
      if (view && !wanted && !last && !SourceIsOn(ref, d)) continue;
      if (d != host_) {
        if (std::string open = Unbounded(ref); !open.empty()) {
          Refuse(ref, d, Fallback::Kind::kShape, wanted.has_value(), std::move(open));
          if (wanted) released.push_back(ref);
          continue;
        }
      }
      if (proposes && !offers.rest) {
        Refuse(ref, d, Fallback::Kind::kNoKernel, wanted.has_value(),
               StrCat("provider ", request_.devices[d].provider->name(), " does not propose it"));
        if (wanted) released.push_back(ref);
        continue;
      }
      if (view) {
        Put(ref, d, wanted ? Reason::kRule : ReasonOf(ref), rule);
        placed_->placed_[ref].wide = SourceIsWide(ref, d);
        continue;
      }
      if (!Offer(ref, d, last, wanted.has_value(), rule) && wanted) released.push_back(ref);
    }
    for (const NodeRef& ref : released) index_->Release(*ref.graph, {ref.node});
    placed_->devices_[d].consumed_bytes = accountant.consumed_bytes();
  }

  /// Device d may have the node: no rule sends it elsewhere.
  bool IsOpen(const NodeRef& ref, size_t d, bool last) const {
    const auto wanted = index_->DeviceOf(*ref.graph, ref.node);
    if (wanted) return *wanted == d;
    return last || !accountants_[d].limit_bytes() || !IsTableLookup(*ref.graph, *ref);
  }

  /// What a provider proposed in one turn.
  struct Offers {
    struct Group {
      providers::Proposal proposal;
      std::vector<NodeRef> nodes;
      bool told = false;
    };
    std::deque<Group> groups;
    std::map<NodeRef, Group*> of;
    bool rest = false;
  };

  /// Asks the provider, graph by graph, which of the nodes that are open to it it would run together.
  void Ask(size_t d, Offers* offers) {
    const providers::Device& device = request_.devices[d];
    if (!device.open) Throw(Code::kRuntime, "device ", device.info.name, " is asked for proposals unopened");
    std::map<const Graph*, std::vector<NodeRef>> open;
    for (const NodeRef& ref : placed_->nodes_)
      if (!placed_->placed_.count(ref) && !IsControl(*ref) && !host_nodes_.count(ref) &&
          IsOpen(ref, d, false) && Unbounded(ref).empty())
        open[ref.graph].push_back(ref);
    const ResourceAccountant& accountant = accountants_[d];
    std::optional<int64_t> left;
    if (accountant.limit_bytes())
      left = std::max<int64_t>(0, *accountant.limit_bytes() - accountant.consumed_bytes());
    for (const auto& [graph, refs] : open) {
      std::deque<NodeFacts> facts;
      std::vector<kernels::KernelInfo> infos;
      for (const NodeRef& ref : refs) {
        facts.emplace_back(ref, *facts_.at(graph), request_.threads, options_, device.open.get());
        infos.push_back(facts.back().info);
      }
      providers::Proposals proposals = device.provider->Propose(*device.open, infos, left);
      offers->rest = offers->rest || proposals.rest;
      for (providers::Proposal& proposal : proposals.groups) {
        Offers::Group& group = offers->groups.emplace_back();
        for (size_t n : proposal.nodes) group.nodes.push_back(refs.at(n));
        group.proposal = std::move(proposal);
        const bool taken = std::any_of(group.nodes.begin(), group.nodes.end(),
                                       [&](const NodeRef& ref) { return offers->of.count(ref) > 0; });
        if (taken) {
          device.provider->Tell(group.proposal.id, providers::Verdict::kRefusedTaken);
          offers->groups.pop_back();
          continue;
        }
        for (const NodeRef& ref : group.nodes) offers->of[ref] = &group;
      }
    }
  }

  /// Decides about the group that the node is in, if it is in one and nobody did; true when it has a place.
  bool TakeGroup(const NodeRef& ref, size_t d, Offers* offers) {
    const auto it = offers->of.find(ref);
    if (it == offers->of.end()) return false;
    Offers::Group& group = *it->second;
    if (!group.told) {
      group.told = true;
      const providers::Verdict verdict = Judge(group.nodes, group.proposal, d);
      request_.devices[d].provider->Tell(group.proposal.id, verdict);
    }
    return placed_->placed_.count(ref) > 0;
  }

  providers::Verdict Judge(const std::vector<NodeRef>& nodes, const providers::Proposal& proposal, size_t d) {
    PlacedDevice& device = placed_->devices_[d];
    ResourceAccountant& accountant = accountants_[d];
    NodeGroup made{nodes.front().graph, d, proposal.id, {}};
    for (const NodeRef& ref : nodes) made.group.nodes.push_back(ref.node);
    if (proposal.fused && FindBorders(*made.graph, placed_->groups_, &made.group))
      return providers::Verdict::kRefusedGroup;
    std::vector<kernels::NodeEstimate> estimates;
    for (const NodeRef& ref : nodes) {
      if (proposal.fused) {
        estimates.push_back(PartOf(proposal.estimate, made.group, ref, ref == nodes.back()));
        continue;
      }
      if (IsView(*ref)) {
        estimates.emplace_back().status = kernels::WorkspaceEstimate::Status::kExact;
        continue;
      }
      const NodeFacts facts(ref, *facts_.at(ref.graph), request_.threads, options_, device.device.open.get());
      kernels::Refusal refusal;
      const auto* def = kernels::FindKernel(device.device.provider->registry(), facts.info, &refusal);
      if (!def) return providers::Verdict::kRefusedGroup;
      estimates.push_back(counts_ ? device.device.provider->Estimate(device.device.info, *def, facts.info)
                                  : kernels::NodeEstimate{});
    }
    std::vector<NodeCost> costs;
    int64_t pending = 0;
    for (size_t i = 0; counts_ && i < nodes.size(); ++i) {
      costs.push_back(accountant.ComputeNodeCostForBudget(nodes[i], estimates[i]));
      if (accountant.stopped() || !accountant.Fits(costs.back(), pending)) {
        accountant.SetStopAssignment();
        return providers::Verdict::kRefusedBudget;
      }
      pending = CheckedAdd(pending, costs.back().total(), "cost of a group");
    }
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (counts_) Charge(nodes[i], nodes[i], d, costs[i], estimates[i].status);
      const auto rule = index_->RuleOf(*nodes[i].graph, nodes[i].node);
      Put(nodes[i], d, rule ? Reason::kRule : ReasonOf(nodes[i]), rule);
      if (proposal.fused) placed_->placed_[nodes[i]].group = placed_->groups_.size();
    }
    if (proposal.fused) placed_->groups_.push_back(std::move(made));
    return providers::Verdict::kAccepted;
  }

  /// What a group's estimate means for one of its nodes: the last one has the amounts.
  static kernels::NodeEstimate PartOf(const kernels::NodeEstimate& whole, const providers::Group& group,
                                      const NodeRef& ref, bool last) {
    kernels::NodeEstimate part;
    if (last) part = whole;
    part.status = whole.status;
    part.replaced_inputs = 0;
    for (size_t i = 0; i < ref->inputs.size() && i < 32; ++i) {
      const auto at = std::find(group.inputs.begin(), group.inputs.end(), ref->inputs[i]);
      const auto place = static_cast<size_t>(at - group.inputs.begin());
      if (at != group.inputs.end() && place < 32 && (whole.replaced_inputs >> place & 1))
        part.replaced_inputs |= 1u << i;
    }
    return part;
  }

  /// `run`: the node as it was asked about.
  void Charge(const NodeRef& ref, const NodeRef& run, size_t d, const NodeCost& cost,
              kernels::WorkspaceEstimate::Status status) {
    using Status = kernels::WorkspaceEstimate::Status;
    PlacedDevice& device = placed_->devices_[d];
    accountants_[d].Commit(run, cost);
    placed_->ledger_.Reserve(ref, d, cost);
    device.exact += status == Status::kExact;
    device.bound += status == Status::kBound;
    device.heuristic += status == Status::kUnavailable;
    if (strict_ && device.budget.limit_bytes && cost.source == CostSource::kFallback)
      Throw(Code::kUnsupported, "strict mode: nothing tells the workspace of node ", ref->name, " (",
            ref->OpName(), ") on ", device.device.info.name);
  }

  bool Offer(const NodeRef& ref, size_t d, bool last, bool by_rule, std::optional<size_t> rule) {
    ResourceAccountant& accountant = accountants_[d];
    PlacedDevice& device = placed_->devices_[d];
    const bool alone = host_ == 0;
    // The program names all nodes that its only device cannot run at once.
    if (alone && !counts_) {
      Put(ref, d, by_rule ? Reason::kRule : Reason::kDefault, rule);
      return true;
    }
    std::optional<NodeFacts> facts;
    const auto find = [&](const NodeRef& node, kernels::Refusal* refusal) {
      facts.emplace(node, *facts_.at(node.graph), request_.threads, options_, device.device.open.get());
      return kernels::FindKernel(device.device.provider->registry(), facts->info, refusal);
    };
    kernels::Refusal refusal;
    const kernels::KernelDef* def = find(ref, &refusal);
    const WideNode* const wide = def || d == host_ ? nullptr : WideOf(ref);
    const NodeRef run = wide ? wide->ref() : ref;  // as it would run
    if (wide) def = find(run, nullptr);
    if (!def) {
      if (alone) {
        Put(ref, d, by_rule ? Reason::kRule : Reason::kDefault, rule);
        return true;
      }
      Refuse(ref, d, KindOf(refusal.kind), by_rule, refusal.text);
      return false;
    }
    if (d != host_ && !kernels::StatesWorkspace(*def, facts->info)) {
      Refuse(ref, d, Fallback::Kind::kShape, by_rule, "nothing bounds the workspace of its kernel");
      return false;
    }
    if (counts_) {
      const auto estimate = device.device.provider->Estimate(device.device.info, *def, facts->info);
      NodeCost cost = accountant.ComputeNodeCostForBudget(run, estimate);
      if (wide) cost.outputs = CheckedAdd(cost.outputs, CastBytes(ref, d), "cost of a node");
      if (!last && (accountant.stopped() || !accountant.Fits(cost))) {
        accountant.SetStopAssignment();
        Refuse(
            ref, d, Fallback::Kind::kBudget, by_rule,
            StrCat("needs ", FormatSize(cost.total()), ", ", device.device.info.name, " has ",
                   FormatSize(std::max<int64_t>(0, *accountant.limit_bytes() - accountant.consumed_bytes())),
                   " left of ", FormatSize(*accountant.limit_bytes())));
        return false;
      }
      Charge(ref, run, d, cost, estimate.status);
    }
    Put(ref, d, by_rule ? Reason::kRule : ReasonOf(ref), rule);
    if (wide) {
      placed_->placed_[ref].wide = true;
      for (ValueId v : ref->inputs) cast_.insert({{ref.graph, v}, d});
    }
    return true;
  }

  /// The node in float32, where casts may make it so; null: it has its types.
  const WideNode* WideOf(const NodeRef& ref) {
    if (!casts_) return nullptr;
    const auto [it, fresh] = wide_.try_emplace(ref);
    if (fresh) {
      const auto is_state = [&](ValueId v) { return request_.states.count(v) > 0; };
      const bool state =
          ref.graph == request_.graph && (std::any_of(ref->inputs.begin(), ref->inputs.end(), is_state) ||
                                          std::any_of(ref->outputs.begin(), ref->outputs.end(), is_state));
      if (!state) it->second = Widen(ref, *facts_.at(ref.graph), &wide_weights_);
      if (it->second) facts_[&it->second->graph] = &it->second->facts;
    }
    return it->second.get();
  }

  bool IsWide(const NodeRef& ref) const {
    const auto it = placed_->placed_.find(ref);
    return it != placed_->placed_.end() && it->second.wide;
  }

  bool SourceIsWide(const NodeRef& ref, size_t d) const {
    const auto* op = ops::FindOp(ref->domain, ref->op, ref->opset);
    const ValueId v = ref->input(static_cast<size_t>(op->view_of));
    const Node* producer = v == kNone ? nullptr : ref.graph->ProducerOf(v);
    return producer && graph::IsHalf(facts_.at(ref.graph)->of(v).dtype) && SourceIsOn(ref, d) &&
           IsWide({ref.graph, producer->id});
  }

  /// Bytes in float32 of what the node reads that no node makes so, and that was not cast for the device yet.
  int64_t CastBytes(const NodeRef& ref, size_t d) const {
    int64_t sum = 0;
    std::set<ValueId> counted;
    for (ValueId v : ref->inputs) {
      if (v == kNone || ref.graph->ConstantOf(v) || !counted.insert(v).second) continue;
      ops::ValueFacts f = facts_.at(ref.graph)->of(v);
      const Node* producer = ref.graph->ProducerOf(v);
      if (!graph::IsHalf(f.dtype) || (producer && IsWide({ref.graph, producer->id})) ||
          cast_.count({{ref.graph, v}, d}))
        continue;
      f.dtype = DType::kFloat;
      sum = CheckedAdd(sum, std::max<int64_t>(kernels::BytesUpper(f), 0), "bytes of casts");
    }
    return sum;
  }

  /// What the node reads or makes that has no bound, in words; "": nothing. Only the host takes memory while
  /// it runs, so such values lie there.
  std::string Unbounded(const NodeRef& ref) const {
    const shapes::GraphFacts& facts = *facts_.at(ref.graph);
    const auto find = [&](const std::vector<ValueId>& values, const char* what) -> std::string {
      for (ValueId v : values)
        if (v != kNone && (!kernels::HasBoundedShape(facts.of(v)) || kernels::BytesUpper(facts.of(v)) < 0))
          return StrCat("nothing bounds the size of ", what, " ", ref.graph->value(v).name);
      return "";
    };
    std::string open = find(ref->inputs, "input");
    return open.empty() ? find(ref->outputs, "result") : open;
  }

  void Put(const NodeRef& ref, size_t d, Reason reason, std::optional<size_t> rule) {
    placed_->placed_[ref] = {d, reason, rule, LayerOf(ref), {}, false};
    ++placed_->devices_[d].nodes;
  }

  void Refuse(const NodeRef& ref, size_t d, Fallback::Kind kind, bool by_rule, std::string text) {
    refused_[ref] = kind == Fallback::Kind::kBudget ? Reason::kBudget : Reason::kNoKernel;
    if (!asked_.insert({ref, d}).second) return;
    placed_->fallbacks_.push_back({ref, d, kind, by_rule, std::move(text)});
  }

  Reason ReasonOf(const NodeRef& ref) const {
    if (const auto it = refused_.find(ref); it != refused_.end()) return it->second;
    return host_ == 0 ? Reason::kDefault : Reason::kAutomatic;
  }

  bool SourceIsOn(const NodeRef& ref, size_t d) const {
    const auto* op = ops::FindOp(ref->domain, ref->op, ref->opset);
    const ValueId v = ref->input(static_cast<size_t>(op->view_of));
    const Node* producer = v == kNone ? nullptr : ref.graph->ProducerOf(v);
    if (!producer) return false;
    const auto it = placed_->placed_.find({ref.graph, producer->id});
    return it != placed_->placed_.end() && it->second.device == d;
  }

  int64_t LayerOf(const NodeRef& ref) {
    auto& map = layers_[ref.graph];
    if (!map) map = std::make_unique<LayerMap>(*ref.graph);
    return map->layer(ref.node);
  }

  bool Left() const { return placed_->placed_.size() < placed_->nodes_.size(); }

  void RequireAll() const {
    std::set<std::string> missing;
    for (const NodeRef& ref : placed_->nodes_) {
      if (placed_->placed_.count(ref)) continue;
      std::string why;
      for (const Fallback& f : placed_->fallbacks_)
        if (f.node == ref)
          why += StrCat(why.empty() ? "" : ", ", placed_->devices_[f.from].device.info.name, ": ", f.text);
      missing.insert(StrCat(why, " (node ", ref->name, ")"));
    }
    if (!missing.empty()) kernels::ThrowMissing(missing);
  }

  /// What runs in another type than the model's.
  void TellWide() {
    std::map<std::pair<size_t, DType>, std::pair<int64_t, std::set<std::string>>> groups;
    for (const NodeRef& ref : placed_->nodes_) {
      const PlacedNode& p = placed_->of(ref);
      if (!p.wide || IsView(*ref)) continue;
      for (ValueId v : ref->inputs)
        if (v != kNone && graph::IsHalf(facts_.at(ref.graph)->of(v).dtype)) {
          auto& [count, ops] = groups[{p.device, facts_.at(ref.graph)->of(v).dtype}];
          ++count;
          ops.insert(ref->OpName());
          break;
        }
    }
    for (const auto& [key, group] : groups) {
      constexpr size_t kFew = 6;
      std::string ops;
      size_t told = 0;
      for (const auto& op : group.second)
        if (told++ < kFew) ops += (ops.empty() ? "" : ", ") + op;
      placed_->warnings_.push_back(StrCat(group.first, group.first == 1 ? " node runs" : " nodes run",
                                          " in float32 on ", placed_->devices_[key.first].device.info.name,
                                          ", which has no ", NameOf(key.second), " kernel for ", ops,
                                          told > kFew ? " and others" : ""));
    }
  }

  void Finish() {
    TellWide();
    std::map<std::pair<size_t, Fallback::Kind>, std::vector<const Fallback*>> groups;
    for (const Fallback& f : placed_->fallbacks_) groups[{f.from, f.kind}].push_back(&f);
    for (const auto& [key, list] : groups) {
      const Fallback& first = *list.front();
      // To divide the nodes that no rule names is what a budget is for.
      const bool degrades =
          key.second != Fallback::Kind::kBudget ||
          std::any_of(list.begin(), list.end(), [](const Fallback* f) { return f->by_rule; });
      const std::string text =
          StrCat(list.size(), list.size() == 1 ? " node" : " nodes", " did not go to ",
                 placed_->devices_[key.first].device.info.name, " (", FallbackName(key.second),
                 "): ", first.text, " (node ", first.node->name, list.size() == 1 ? ")" : ", and others)");
      if (strict_ && degrades)
        throw Error(key.second == Fallback::Kind::kBudget ? Code::kDoesNotFit : Code::kUnsupported,
                    "strict mode: " + text);
      if (degrades) placed_->warnings_.push_back(text);
    }
  }

  const PlaceRequest& request_;
  const OptionBag* options_ = nullptr;
  std::unique_ptr<PlacedGraph> placed_;
  size_t host_;
  bool strict_ = false;
  bool casts_ = false;
  bool counts_ = false;  // costs are needed: for a budget, or to be verified later
  std::map<const Graph*, const shapes::GraphFacts*> facts_;
  std::map<const Graph*, std::unique_ptr<LayerMap>> layers_;
  std::vector<ResourceAccountant> accountants_;
  std::unique_ptr<LayeringIndex> index_;
  std::set<NodeRef> host_nodes_;
  std::map<NodeRef, Reason> refused_;
  std::set<std::pair<NodeRef, size_t>> asked_;
  WideWeights wide_weights_{false};
  std::map<NodeRef, std::unique_ptr<WideNode>> wide_;
  std::set<std::pair<std::pair<const Graph*, ValueId>, size_t>> cast_;  // value, device
};

std::unique_ptr<PlacedGraph> Place(const PlaceRequest& request) {
  return Placer(request).Run();
}

}  // namespace ullage::placement
