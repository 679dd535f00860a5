#include "api/graph_session.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/error.h"
#include "session/largest_fitting.h"

namespace ullage::api {

using graph::ValueId;

namespace {

/// Whether sizes agree with the labels that the graph gives them.
bool KeepLabels(const graph::Graph& graph, std::span<const shapes::InputLimit> limits,
                std::span<const ops::ValueFacts> actual) {
  ops::SymbolTable table;
  const auto facts = shapes::BoundedInputFacts(graph, limits, actual, true, table);
  try {
    shapes::InputRelations(graph, facts, table).Check([&](size_t i, int d) {
      return actual[i].shape[d].upper;
    });
  } catch (const Error&) {
    return false;
  }
  return true;
}

session::SessionSpec Spec(std::shared_ptr<graph::Graph> graph, const std::string& name,
                          const GraphOptions& options, bool plan_only) {
  const auto limits = shapes::JoinLimits(options.limits, options.options.Str("session.max_shape_override"));
  shapes::CheckLimits(*graph, limits);
  for (const std::string& wanted : options.more_outputs) {
    const ValueId v = graph->FindValue(wanted);
    if (v == graph::kNone) Throw(Code::kUsage, "the graph has no value ", wanted);
    if (!graph->IsOutput(v)) graph->outputs.push_back(v);
  }
  session::SessionSpec spec;
  spec.model_name = name;
  spec.model_folder = options.model_folder;
  spec.collect_node_stats = options.collect_node_stats;
  spec.graph = std::move(graph);
  spec.options = options.options;
  spec.threads = options.threads;
  spec.cpu_limit = options.cpu_limit;
  spec.plan_only = plan_only;
  spec.profiles.push_back({"main", [actual = options.actual, one_run = options.one_run, limits, plan_only](
                                       const graph::Graph& g, ops::SymbolTable& table) {
                             // Where nothing is bounded, nothing is taken from labels either.
                             const bool labels =
                                 one_run ? KeepLabels(g, limits, actual) : plan_only || !limits.empty();
                             return shapes::BoundedInputFacts(g, limits, actual, labels, table);
                           }});
  return spec;
}

int64_t PlannedBytes(const session::Session& session) {
  return session.device_plan().tags.Sum();
}

/// Changes of a plan that does not fit. Other bounds are planned over the graph as it is, which makes a plan
/// cost a fraction; what is offered was planned from the file.
class RemedyFinder {
 public:
  RemedyFinder(const GraphLoader& load, const std::string& name, const GraphOptions& options,
               const session::Session& base)
      : load_(load),
        name_(name),
        options_(options),
        base_(base),
        bounds_(base.profile_plans().front().bounds),
        limit_(*options.cpu_limit),
        limits_(shapes::JoinLimits(options.limits, options.options.Str(kOverride))) {
    options_.options.Set(kOverride, "");
  }

  std::vector<session::Remedy> Run() {
    Shapes(0, "");
    if (base_.threads() > 1 && !Offer(limits_, 1, "--threads 1") && found_.empty()) Shapes(1, " --threads 1");
    return std::move(found_);
  }

 private:
  static constexpr const char* kOverride = "session.max_shape_override";
  using Limits = std::vector<shapes::InputLimit>;
  /// Sizes that nothing fixes: those of one label go together.
  struct Free {
    std::vector<std::pair<std::string, size_t>> dims;  // input, dimension
    int64_t least = 1, most = 0;
  };

  bool Offer(const Limits& limits, int threads, const std::string& change) {
    try {
      GraphOptions o = With(limits, threads);
      const auto planned = session::Session::Create(Spec(load_(true), name_, o, true));
      if (PlannedBytes(*planned) > limit_) return false;
      found_.push_back({change, PlannedBytes(*planned)});
      return true;
    } catch (const Error&) {
      return false;  // this variant cannot run at all
    }
  }

  GraphOptions With(const Limits& limits, int threads) const {
    GraphOptions o = options_;
    o.limits = limits;
    if (threads > 0) o.threads = threads;
    return o;
  }

  std::vector<Free> FreeSizes() const {
    constexpr int64_t kLargest = int64_t{1} << 40;
    std::vector<Free> all;
    std::map<std::string, size_t> by_label;
    for (const auto& [input, dims] : bounds_) {
      const auto& declared = base_.graph().value(base_.graph().FindValue(input)).declared;
      if (!declared || declared->size() != dims.size()) continue;
      for (size_t d = 0; d < dims.size(); ++d) {
        const auto& dim = (*declared)[d];
        if (dim.value >= 0 || dims[d] > kLargest) continue;
        size_t at = all.size();
        if (!dim.label.empty()) at = by_label.try_emplace(dim.label, at).first->second;
        if (at == all.size()) all.emplace_back();
        all[at].dims.emplace_back(input, d);
        all[at].least = std::max(all[at].least, Least(input, d));
        all[at].most = std::max(all[at].most, dims[d]);
      }
    }
    std::erase_if(all, [](const Free& f) { return f.least >= f.most; });
    return all;
  }

  /// The smallest size that a dimension may be given.
  int64_t Least(const std::string& input, size_t d) const {
    for (size_t i = 0; i < options_.actual.size(); ++i)
      if (base_.graph().value(base_.graph().inputs[i]).name == input &&
          options_.actual[i].dtype != DType::kUndefined)
        return options_.actual[i].shape[static_cast<int>(d)].upper;
    return 1;
  }

  /// One size smaller at a time; where none is enough, all of them.
  void Shapes(int threads, const std::string& more) {
    const auto free = FreeSizes();
    for (const Free& f : free) Smaller({&f, 1}, threads, more);
    if (found_.empty() && free.size() > 1) Smaller(free, threads, more);
  }

  /// The largest sizes that fit: of one size, or of all in proportion.
  void Smaller(std::span<const Free> sizes, int threads, const std::string& more) {
    constexpr int64_t kParts = 64;
    const bool one = sizes.size() == 1;
    const auto with = [&](int64_t n) {
      Limits limits = limits_;
      for (const Free& f : sizes)
        for (const auto& [input, d] : f.dims)
          LimitOf(input, &limits).dims[d] = one ? n : std::max(f.least, f.most * n / kParts);
      return limits;
    };
    try {
      int64_t n =
          session::LargestFitting(one ? sizes[0].least : 1, one ? sizes[0].most : kParts, PlannedBytes(base_),
                                  limit_, [&](int64_t size) { return Bytes(With(with(size), threads)); });
      for (int tries = 0; n > 0 && tries < 3; ++tries, n = n * 7 / 8)
        if (const Limits limits = with(n); Offer(limits, threads, Text(limits) + more)) return;
    } catch (const Error&) {
      // The graph cannot be planned within these bounds.
    }
  }

  /// The limit of an input; one that has none gets what it was planned for.
  shapes::InputLimit& LimitOf(const std::string& input, Limits* limits) const {
    for (auto& limit : *limits)
      if (limit.input == input) return limit;
    for (const auto& [name, dims] : bounds_)
      if (name == input) limits->push_back({name, dims, "--shape"});
    return limits->back();
  }

  /// What to write for limits that are others than they were.
  std::string Text(const Limits& limits) const {
    std::string flags, option;
    const auto numbers = [](const shapes::InputLimit& limit, const char* between) {
      std::string text;
      for (int64_t d : limit.dims) text += (text.empty() ? "" : between) + std::to_string(d);
      return text;
    };
    bool changed = false;
    for (size_t i = 0; i < limits.size(); ++i) {
      const bool same = i < limits_.size() && limits_[i].dims == limits[i].dims;
      if (limits[i].source == kOverride) {
        option += (option.empty() ? "" : ";") + limits[i].input + ":[" + numbers(limits[i], ",") + "]";
        changed = changed || !same;
      } else if (!same) {
        flags += (flags.empty() ? "" : " ") + ("--shape " + limits[i].input) + "=" + numbers(limits[i], "x");
      }
    }
    if (changed) flags += (flags.empty() ? "" : " ") + StrCat("--option '", kOverride, "=", option, "'");
    return flags;
  }

  int64_t Bytes(const GraphOptions& options) const {
    session::SessionSpec spec = Spec(base_.spec().graph, name_, options, true);
    spec.optimized_outputs = base_.output_names();
    return PlannedBytes(*session::Session::Create(std::move(spec)));
  }

  const GraphLoader& load_;
  const std::string& name_;
  GraphOptions options_;
  const session::Session& base_;
  const std::vector<std::pair<std::string, std::vector<int64_t>>> bounds_;  // of the inputs, as planned
  const int64_t limit_;
  const Limits limits_;
  std::vector<session::Remedy> found_;
};

}  // namespace

std::string DeclaredText(const graph::DeclaredShape& declared) {
  std::string text;
  for (const auto& d : declared)
    text += (text.empty() ? "" : ",") + (d.value >= 0      ? std::to_string(d.value)
                                         : d.label.empty() ? "?"
                                                           : d.label);
  return "[" + text + "]";
}

std::vector<ops::ValueFacts> ExactFacts(const graph::Graph& graph,
                                        const std::map<std::string, Shape>& shapes) {
  std::vector<ops::ValueFacts> facts(shapes.empty() ? 0 : graph.inputs.size());
  for (const auto& [name, shape] : shapes) {
    const ValueId v = graph.FindValue(name);
    const auto at = std::find(graph.inputs.begin(), graph.inputs.end(), v);
    if (v == graph::kNone || at == graph.inputs.end()) {
      std::string names;
      for (ValueId in : graph.inputs) names += (names.empty() ? "" : ", ") + graph.value(in).name;
      Throw(Code::kUsage, "shape of ", name, ": the graph has no such input; it has ", names);
    }
    const auto& declared = graph.value(v).declared;
    bool fits = !declared || static_cast<int>(declared->size()) == shape.rank();
    for (int i = 0; fits && i < shape.rank(); ++i) {
      const int64_t fixed = declared ? (*declared)[static_cast<size_t>(i)].value : -1;
      fits = shape[i] >= 0 && (fixed < 0 || fixed == shape[i]);
    }
    if (!fits)
      Throw(Code::kUsage, "input ", name, ": shape ", shape.ToString(), ", the graph declares ",
            declared ? DeclaredText(*declared) : "nothing");
    ops::ValueFacts& f = facts[static_cast<size_t>(at - graph.inputs.begin())];
    f.dtype = graph.value(v).dtype;
    f.shape = ops::BoundedShape::Of(shape);
  }
  return facts;
}

std::unique_ptr<session::Session> PlanGraphSession(const GraphLoader& load, const std::string& name,
                                                   const GraphOptions& options,
                                                   std::vector<session::Remedy>* remedies) {
  auto planned = session::Session::Create(Spec(load(true), name, options, true));
  if (remedies && options.cpu_limit && !planned->fits())
    *remedies = RemedyFinder(load, name, options, *planned).Run();
  return planned;
}

std::unique_ptr<session::Session> CreateGraphSession(const GraphLoader& load, const std::string& name,
                                                     const GraphOptions& options) {
  const auto create = [&] { return session::Session::Create(Spec(load(false), name, options, false)); };
  if (!options.cpu_limit) return create();
  std::vector<session::Remedy> remedies;
  std::unique_ptr<session::Session> planned;
  try {
    planned = PlanGraphSession(load, name, options, &remedies);
  } catch (const Error& error) {
    if (error.code() != Code::kUnsupported) throw;
    return create();  // sizes without a bound come from the arena, which keeps the limit
  }
  if (!planned->fits()) session::ThrowDoesNotFit(*planned, remedies);
  planned.reset();
  return create();
}

}  // namespace ullage::api
