#include "session/run_stats.h"

namespace ullage::session {

void RunStats::Record(const Frame& frame, size_t index, int64_t temp_sum, int64_t temp_peak) {
  const graph::Graph& graph = frame.program().graph();
  const Step& step = frame.program().steps()[index];
  const graph::Node& node = graph.node(step.node);
  const auto name = [&](graph::ValueId v) -> const std::string& {
    static const std::string kLeftOut;
    return v == graph::kNone ? kLeftOut : graph.value(frame.program().source(v)).name;
  };
  std::vector<std::string_view> inputs, outputs;
  memory::NodeStats stats;
  for (graph::ValueId v : step.inputs) {
    inputs.push_back(name(v));
    if (v == graph::kNone || !charged_.insert(name(v)).second) continue;
    if (const auto* constant = frame.program().constant(v))
      stats.initializers_sizes += static_cast<int64_t>(constant->size_bytes);
    else
      stats.input_sizes += SizeOf(frame.program().kind(v), frame.value(v));
  }
  for (graph::ValueId v : step.outputs) {
    outputs.push_back(name(v));
    if (v == graph::kNone || !charged_.insert(name(v)).second) continue;
    stats.total_dynamic_sizes += SizeOf(frame.program().kind(v), frame.value(v));
  }
  stats.total_temp_allocations = temp_sum;
  stats.peak_temp_allocations = temp_peak;
  rows_.emplace_back(memory::NodeStatsKey(node.name, node.op, inputs, outputs), stats);
}

}  // namespace ullage::session
