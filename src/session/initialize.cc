/// The life of a session, from graph to plan.
#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "core/checked.h"
#include "core/error.h"
#include "graph/absent.h"
#include "session/initializer.h"
#include "session/kv_storage.h"
#include "session/placing.h"
#include "session/prepacked_cache.h"
#include "session/report.h"
#include "session/step_order.h"
#include "session/unbounded.h"

namespace ullage::session {

using graph::kNone;
using graph::ValueId;

std::unique_ptr<Session> Session::Create(SessionSpec spec) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<Session> session(new Session);
  session->spec_ = std::move(spec);
  auto& providers = session->spec_.providers;  // first of all: they may bring operators
  if (providers.empty()) providers = providers::AllProviders(session->spec_.options);
  Initializer init(*session);
  init.Optimize();     // level-1 passes
  init.StoreCaches();  // their type
  init.BoundShapes();  // every value gets a bounded shape, per profile
  init.OpenDevices();
  do {                // until the devices are filled and no limit is exceeded
    do init.Place();  // a device for every node: rules, budgets
    while (init.planned.Find(*session->placed_) && init.PlaceAnew());
    init.CreateProgram();  // kernels, checked against what was reserved
    init.BindStates();     // caches: shared or copied
    init.PlanWeights();    // what is prepacked, what stays mapped
    init.PlanMemory();     // offsets for activations and workspaces, judged
  } while (init.PlaceAnew());
  init.CheckLimit();  // does it fit?
  if (session->spec_.plan_only) {
    init.CountEstimates();  // for reports
  } else {
    init.ReadRunOptions();
    init.FindPrepacked();  // in a file from an earlier session
    init.Reserve();        // one region each for weights, caches and execution
    init.Prepack();        // weights into the layout that kernels read
  }
  session->load_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return session;
}

void Initializer::Optimize() {
  graph::Graph& graph = *s.spec_.graph;
  s.threads_ = s.spec_.threads > 0 ? s.spec_.threads
                                   : static_cast<int>(s.spec_.options.Int("session.intra_op_num_threads"));
  if (s.threads_ <= 0) s.threads_ = UsableCores();
  s.output_names_ = s.spec_.optimized_outputs;
  if (!s.output_names_.empty()) return;
  for (ValueId v : graph.outputs) s.output_names_.push_back(graph.value(v).name);
  transforms::PassOptions options;
  const std::string disabled = s.spec_.options.Str("session.disabled_passes");
  for (size_t at = 0; at < disabled.size();) {
    const size_t comma = std::min(disabled.find(',', at), disabled.size());
    if (comma > at) options.disabled.insert(disabled.substr(at, comma - at));
    at = comma + 1;
  }
  options.last_token_output = s.spec_.last_token_output;
  options.input_facts = s.spec_.input_facts;
  options.evaluate_absent = s.spec_.plan_only;
  options.evaluate = [planning = s.spec_.plan_only](const graph::Node& node, const graph::Graph& g,
                                                    std::span<const graph::ConstantPtr> inputs) {
    // Numbers that a graph is made of are small; what is larger is weights, which planning leaves alone.
    const bool read = !planning || std::all_of(inputs.begin(), inputs.end(), [](const auto& c) {
      return !c || (c->available() && c->size_bytes <= size_t{64} << 10);
    });
    return EvaluateNode(node, g, inputs, read);
  };
  s.passes_ = transforms::RunPipeline(graph, options);
}

void Initializer::StoreCaches() {
  if (!s.spec_.optimized_outputs.empty()) return;  // the other session did
  if (const auto storage = ParseKvStorage(s.spec_.options.Str("session.kv_type")))
    session::StoreCaches(*s.spec_.graph, s.spec_.states, *storage, providers::CpuProvider().registry());
}

void Initializer::BoundShapes() {
  const graph::Graph& graph = *s.spec_.graph;
  std::vector<const shapes::GraphFacts*> all;
  for (const ProfileSpec& spec : s.spec_.profiles) {
    Session::Profile p;
    p.name = spec.name;
    p.symbols = std::make_unique<ops::SymbolTable>();
    p.inputs = spec.facts(graph, *p.symbols);
    for (const StateSpec& state : s.spec_.states)  // rows of codes are wider than those of numbers
      if (ops::ValueFacts& f = p.inputs[s.InputIndex(state.input)];
          f.dtype == DType::kInt8 && f.shape.rank == 4)
        f.shape[3] = ops::Bound::Exactly(state.max_shape[3]);
    p.facts = shapes::Propagate(graph, p.inputs, {}, *p.symbols);
    p.relations = shapes::InputRelations(graph, p.inputs, *p.symbols);
    s.profiles_.push_back(std::move(p));
  }
  for (const auto& p : s.profiles_) all.push_back(&p.facts);
  s.facts_ = UnionFacts(all);
}

void Initializer::OpenDevices() {
  devices = session::OpenDevices(s.spec_);
}

void Initializer::Place() {
  s.placed_ =
      PlaceGraph(s.spec_, s.facts_, s.threads_, devices,
                 allowances ? allowances->now() : std::vector<std::optional<int64_t>>(), s.output_names_);
  s.casts_ =
      placement::InsertCasts(s.spec_.options, s.threads_, !s.spec_.plan_only, AllFacts(), s.placed_.get());
  if (s.casts_) widened = WidenedWeights(*s.casts_);
  const auto budget = s.placed_->devices().back().budget.limit_bytes;
  if (budget && (!s.spec_.cpu_limit || *budget < *s.spec_.cpu_limit)) s.spec_.cpu_limit = budget;
  for (const auto& d : s.placed_->devices()) {
    DevicePlan plan;
    plan.name = d.device.info.name;
    plan.provider = d.device.info.provider;
    plan.nodes = d.nodes;
    if (!d.device.open) {  // the host, the last
      plan.limit_bytes = s.spec_.cpu_limit;
    } else {
      plan.limit_bytes = d.budget.limit_bytes;
      const int64_t capacity = d.device.info.capacity_bytes;
      if (capacity > 0) plan.limit_bytes = std::min(plan.limit_bytes.value_or(capacity), capacity);
      s.shares_.push_back(std::make_unique<DeviceShare>(d.device.open, plan.limit_bytes));
    }
    s.plans_.push_back(std::move(plan));
  }
}

bool Initializer::PlaceAnew() {
  if (s.shares_.empty()) return false;  // the host takes what there is
  std::vector<int64_t> bytes;
  for (const DevicePlan& plan : s.plans_) bytes.push_back(plan.tags.Sum());
  if (s.program_) planned.Remember(*s.placed_, std::move(bytes));
  std::vector<PlacementOutcome> outcomes;
  std::vector<std::optional<int64_t>> limits;
  for (size_t d = 0; d < s.plans_.size(); ++d) {
    const auto& budget = s.placed_->devices()[d].budget;
    PlacementOutcome o;
    if (d < s.shares_.size()) o.limit_bytes = s.plans_[d].limit_bytes;
    o.planned_bytes = (*planned.Find(*s.placed_))[d];
    o.by_sums = budget.by_sums;
    for (const auto& f : s.placed_->fallbacks())
      o.refused = o.refused || (f.from == d && f.kind == placement::Fallback::Kind::kBudget);
    outcomes.push_back(o);
    // Without a budget nobody counted: the first attempt then was one without end.
    limits.push_back(d < s.shares_.size() ? budget.limit_bytes ? budget.limit_bytes : o.limit_bytes
                                          : std::nullopt);
  }
  if (!allowances) allowances.emplace(limits);
  if (!allowances->Next(outcomes)) return false;
  for (auto& p : s.profiles_) p.plan.reset();
  for (auto* facts : AllFacts())
    if (s.casts_) placement::ForgetCasts(*s.spec_.graph, facts);
  s.states_.clear();
  s.blocks_.clear();
  s.weights_.reset();
  s.program_.reset();
  s.shares_.clear();
  s.placed_.reset();
  s.casts_.reset();
  widened = {};
  s.plans_.clear();
  s.kv_bytes_ = s.prepacked_bytes_ = s.arena_bytes_ = 0;
  external.clear();
  on_device.clear();
  device_copies.clear();
  return true;
}

void Initializer::CreateProgram() {
  std::vector<std::pair<ValueId, ValueId>> states;
  for (const StateSpec& state : s.spec_.states)
    states.emplace_back(s.graph().inputs[s.InputIndex(state.input)],
                        s.graph().outputs[s.OutputIndex(state.output)]);
  s.program_ = Program::Build(s.graph(), s.facts_, *s.placed_, s.threads_, &s.spec_.options,
                              FindResidence(*s.placed_, states));
  plan_options.in_place = s.spec_.options.Bool("session.plan_in_place");
  plan_options.tiles = s.spec_.options.Bool("session.plan_tiles");
  plan_options.tile_rows = std::max<int64_t>(s.spec_.options.Int("session.plan_tile_rows"), 0);
  plan_options.concat = s.spec_.options.Bool("session.plan_concat");
  for (const StateSpec& spec : s.spec_.states)
    external.push_back(s.program_->outputs()[s.OutputIndex(spec.output)]);
  if (s.spec_.options.Bool("session.plan_order") && !s.program_->uses_devices()) {
    std::vector<const shapes::GraphFacts*> profiles;
    for (const auto& p : s.profiles_) profiles.push_back(&p.facts);
    LowerPeak(profiles, external, s.threads_, plan_options, s.program_.get());
  }
  VerifyWorkspaces(*s.program_, s.facts_, s.threads_, s.spec_.options, s.placed_.get());
}

void Initializer::BindStates() {
  const graph::Graph& graph = *s.spec_.graph;
  int64_t offset = 0;
  for (const StateSpec& spec : s.spec_.states) {
    Session::State state;
    state.spec = spec;
    state.input_index = s.InputIndex(spec.input);
    state.output_index = s.OutputIndex(spec.output);
    state.input = graph.inputs[state.input_index];
    state.output = s.program_->outputs()[state.output_index];
    state.device = s.program_->device(state.input);
    state.dtype = graph.value(state.input).dtype;
    const auto [w, o] = s.program_->WriterOf(state.output);
    if (w >= 0 && !graph.IsOutput(state.input) && s.program_->AcceptsCache(state.input) &&
        s.program_->AcceptsCache(state.output)) {
      const Step& writer = s.program_->steps()[static_cast<size_t>(w)];
      if (writer.def)
        for (const auto& [i, out] : writer.def->cache_pairs)
          state.shared = state.shared || (out == o && static_cast<size_t>(i) < writer.inputs.size() &&
                                          writer.inputs[static_cast<size_t>(i)] == state.input);
    }
    state.bytes = static_cast<int64_t>(BytesOf(state.dtype, spec.max_shape.elements()));
    if (state.device != 0) {
      DeviceShare& share = *s.shares_[static_cast<size_t>(state.device - 1)];
      state.place = share.kv.Add(state.bytes, share.alignment, "cache " + spec.input);
      if (!state.shared)
        state.place_other = share.kv.Add(state.bytes, share.alignment, "cache " + spec.input);
      s.states_.push_back(std::move(state));
      continue;
    }
    state.offset = offset;
    offset = AlignUp<int64_t>(CheckedAdd(offset, state.bytes, "cache size"), 64);
    if (!state.shared) {
      state.offset_other = offset;
      offset = AlignUp<int64_t>(CheckedAdd(offset, state.bytes, "cache size"), 64);
    }
    s.states_.push_back(std::move(state));
  }
  s.kv_bytes_ = offset;
}

void Initializer::PlanWeights() {
  // Which constants are still read once their prepacked form exists?
  s.host_plan().weights_resident = s.spec_.options.Str("session.weights_resident");
  s.weights_.emplace(ParseResidency(s.host_plan().weights_resident));
  std::map<std::string, int> shared;
  int64_t offset = 0;
  EachStep(*s.program_, [&](Program& program, Step& step) {
    const graph::Graph& graph = program.graph();
    const graph::NodeId reader = &program == s.program_.get() ? step.node : kNone;
    std::set<int> replaced;
    if (step.kernel) {
      const auto wanted = step.kernel->PlanPrepack();
      for (size_t i = 0; i < wanted.size(); ++i) {
        const auto& w = wanted[i];
        replaced.insert(w.replaces.begin(), w.replaces.end());
        std::string key;
        if (!w.share_key.empty()) {
          key = w.share_key;
          for (int input : w.replaces) {
            const auto at = static_cast<size_t>(input);
            if (at >= step.inputs.size()) continue;
            if (const auto* c = program.constant(step.inputs[at])) key += "|" + graph::DataKey(*c);
          }
          if (step.device != 0) key += StrCat("@", step.device);
          if (const auto it = shared.find(key); it != shared.end()) {
            step.prepacked.push_back(it->second);
            continue;
          }
          shared[key] = static_cast<int>(s.blocks_.size());
        }
        Session::Block block;
        block.bytes = w.bytes;
        block.alignment = std::max<size_t>(w.alignment, 64);
        block.device = step.device;
        block.name = graph.node(step.node).name;
        if (step.device != 0) {
          DeviceShare& share = *s.shares_[static_cast<size_t>(step.device - 1)];
          block.place = share.prepacked.Add(static_cast<int64_t>(w.bytes),
                                            std::max(share.alignment, static_cast<int64_t>(block.alignment)),
                                            "packed weights of node " + block.name);
        } else {
          offset = AlignUp<int64_t>(offset, static_cast<int64_t>(block.alignment));
          block.offset = offset;
          offset = CheckedAdd(offset, static_cast<int64_t>(w.bytes), "prepacked size");
        }
        block.layout = LayoutText(graph.node(step.node), w, i);
        for (ValueId input : step.inputs)
          if (const auto* c = program.constant(input)) block.sources.push_back(c);
        widened.Plan(block.sources);
        block.step = &step;
        block.node = reader;
        block.index = static_cast<int>(i);
        step.prepacked.push_back(static_cast<int>(s.blocks_.size()));
        s.blocks_.push_back(block);
      }
    }
    for (size_t i = 0; i < step.inputs.size(); ++i) {
      const ValueId v = step.inputs[i];
      const auto* c = program.constant(v);
      if (!c || program.place(v) != session::Place::kConstant) continue;
      const bool itself = !replaced.count(static_cast<int>(i));
      widened.Plan({&c, 1});
      if (itself && program.device(v) == 0) widened.Keep(c);
      // What was computed on the way lies in memory of its own, packed or elsewhere, too.
      if ((itself && program.device(v) == 0) || c->file.empty())
        s.weights_->Add(graph.value(program.source(v)).name, *c, reader);
      if (program.device(v) != 0) KeepOnDevice(program, v, *c, itself, reader);
    }
    for (ValueId v : program.captures(step))
      if (const auto* c = graph.ConstantOf(v)) s.weights_->Add(graph.value(v).name, *c, reader);
  });
  s.prepacked_bytes_ = offset;
  s.host_plan().mapped_bytes = s.weights_->mapped_bytes();
}

void Initializer::KeepOnDevice(const Program& program, ValueId v, const graph::Constant& c, bool read,
                               graph::NodeId reader) {
  const int device = program.device(v);
  auto& known = on_device[{&program, v}];
  if (!read) return;
  DeviceShare& share = *s.shares_[static_cast<size_t>(device - 1)];
  const std::string& name = program.graph().value(program.source(v)).name;
  const auto [it, fresh] = device_copies.try_emplace({device, graph::DataKey(c)}, share.constants.size());
  if (fresh)
    share.constants.push_back(
        {&c, name, share.weights.Add(static_cast<int64_t>(c.size_bytes), share.alignment, "weight " + name),
         reader});
  else if (share.constants[it->second].node != reader)
    share.constants[it->second].node = kNone;
  known = it->second + 1;
}

void Initializer::PlanMemory() {
  const graph::Graph& graph = *s.spec_.graph;
  s.pre_allocated_ = s.spec_.options.Bool("session.pre_allocate_execution_buffers");
  int64_t workspace = 0;
  std::vector<int64_t> device_workspace(s.shares_.size(), 0);
  std::vector<bool> states;
  for (size_t i = 0; i < graph.inputs.size(); ++i) states.push_back(s.IsState(i));
  for (auto& p : s.profiles_) {
    const bool all = s.pre_allocated_ || s.spec_.plan_only;
    if (all || s.program_->uses_devices()) {
      const auto open = FindUnbounded(*s.program_, p.facts, p.inputs, states, *p.symbols, !all);
      if (!open.empty()) ThrowUnbounded(open);
    }
    p.plan = MakePlan(*s.program_, p.facts, external, s.threads_, plan_options);
    const auto& arenas = p.plan->arenas;
    s.arena_bytes_ = std::max(s.arena_bytes_, arenas[0].bytes);
    s.host_plan().lower_bound_bytes = std::max(s.host_plan().lower_bound_bytes, arenas[0].lower_bound);
    workspace = std::max(workspace, arenas[0].workspace_peak);
    for (size_t d = 0; d < s.shares_.size(); ++d) {
      DeviceShare& share = *s.shares_[d];
      share.arena_bytes = std::max(share.arena_bytes, arenas[d + 1].bytes);
      s.plans_[d].lower_bound_bytes = std::max(s.plans_[d].lower_bound_bytes, arenas[d + 1].lower_bound);
      device_workspace[d] = std::max(device_workspace[d], arenas[d + 1].workspace_peak);
    }
  }
  auto& tags = s.host_plan().tags;
  for (const auto& w : s.weights_->weights()) tags.Add(memory::Tag::kWeights, w.bytes);
  tags.Add(memory::Tag::kPrepacked, s.prepacked_bytes_);
  tags.Add(memory::Tag::kKv, s.kv_bytes_);
  workspace = std::min(workspace, s.arena_bytes_);
  tags.Add(memory::Tag::kWorkspace, workspace);
  tags.Add(memory::Tag::kActivations, s.arena_bytes_ - workspace);
  tags.Add(memory::Tag::kStaging, widened.staging());
  for (const auto& e : s.spec_.extra) tags.Add(e.tag, e.bytes);
  s.host_plan().lower_bound_bytes += tags.Sum() - s.arena_bytes_;
  for (size_t d = 0; d < s.shares_.size(); ++d) PlanDevice(d, device_workspace[d]);
}

void Initializer::PlanDevice(size_t d, int64_t workspace) {
  DeviceShare& share = *s.shares_[d];
  workspace = std::min(workspace, share.arena_bytes);
  share.frame_bytes.Add(memory::Tag::kWorkspace, workspace);
  share.frame_bytes.Add(memory::Tag::kActivations, share.arena_bytes - workspace);
  auto& tags = s.plans_[d].tags;
  tags += share.frame_bytes;
  tags.Add(memory::Tag::kWeights, share.weights.bytes());
  tags.Add(memory::Tag::kPrepacked, share.prepacked.bytes());
  tags.Add(memory::Tag::kKv, share.kv.bytes());
  if (tags.Sum() > 0) tags.Add(memory::Tag::kOverhead, share.memory.device().memory().overhead_bytes);
  s.plans_[d].lower_bound_bytes += tags.Sum() - share.arena_bytes;
  if (const int64_t most = share.memory.device().max_region(providers::Space::kDevice);
      share.arena_bytes > most)
    Throw(Code::kDoesNotFit, s.plans_[d].name, ": the values between nodes take ",
          FormatSize(share.arena_bytes), " at once, the device gives at most ", FormatSize(most));
}

void Initializer::CountEstimates() {
  for (size_t d = 0; d < s.plans_.size(); ++d) {
    const auto& placed = s.placed_->devices()[d];
    DevicePlan& plan = s.plans_[d];
    plan.exact = placed.exact;
    plan.bound = placed.bound;
    plan.heuristic = placed.heuristic;
  }
  // Where nothing was estimated, kernels were asked.
  const auto declared = DeclaredWorkspaces(*s.program_, s.facts_, s.threads_);
  for (const auto& ref : s.placed_->nodes()) {
    const size_t d = s.placed_->of(ref).device;
    const auto& placed = s.placed_->devices()[d];
    if (placed.exact + placed.bound + placed.heuristic > 0) continue;
    const auto it = declared.find(ref);
    ++(it == declared.end() || it->second ? s.plans_[d].exact : s.plans_[d].heuristic);
  }
}

void Initializer::CheckLimit() {
  if (s.fits() || s.spec_.plan_only) return;  // a plan reports it
  ThrowDoesNotFit(s, {});
}

}  // namespace ullage::session
