/// The page that lists the passes, in the order in which they run.
#include <chrono>

#include "core/error.h"
#include "graph/patch.h"
#include "transforms/pass.h"
#include "transforms/passes.h"

namespace ullage::transforms {
namespace {

constexpr Pass kPipeline[] = {
    {"dead-nodes", RemoveDead, "Removes nodes whose results nobody uses.", false},
};


}  // namespace

const shapes::GraphFacts& PassContext::facts() {
  if (!valid_) {
    auto inputs = options_.input_facts;
    if (inputs.empty()) inputs = shapes::DeclaredInputFacts(graph_, symbols_);
    facts_ = shapes::Propagate(graph_, inputs, {}, symbols_);
    valid_ = true;
  }
  return facts_;
}

int RemoveDead(PassContext& context) { return static_cast<int>(graph::RemoveDeadNodes(context.graph())); }

std::span<const Pass> Pipeline() { return kPipeline; }

std::vector<PassTiming> RunPipeline(graph::Graph& graph, const PassOptions& options) {
  for (const auto& name : options.disabled) {
    bool known = name == "all";
    std::string names;
    for (const Pass& pass : kPipeline) {
      known = known || pass.name == name;
      names += (names.empty() ? "" : ", ") + std::string(pass.name);
    }
    if (!known) Throw(Code::kUsage, "there is no pass ", name, "; the passes are ", names);
  }
  std::vector<PassTiming> timings;
  PassContext context(graph, options);
  for (const Pass& pass : kPipeline) {
    if (!pass.required && (options.disabled.count("all") || options.disabled.count(pass.name))) continue;
    const auto start = std::chrono::steady_clock::now();
    const int rewrites = pass.run(context);
    if (rewrites > 0) {
      context.Changed();
      graph::Verify(graph);
    }
    timings.push_back(
        {pass.name, rewrites, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
  }
  return timings;
}

}  // namespace ullage::transforms
