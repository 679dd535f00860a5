#include "placement/stats.h"

#include <memory>

#include "memory/node_stats.h"

namespace ullage::placement {

ResourceAccountant::ProfileOf LoadProfile(const std::string& path) {
  const auto table = std::make_shared<const memory::NodeStatsTable>(memory::ReadNodeStats(path));
  return [table](const NodeRef& ref) -> std::optional<NodeProfile> {
    const auto names = [&](const std::vector<graph::ValueId>& values) {
      std::vector<std::string_view> all;
      for (graph::ValueId v : values)
        all.push_back(v == graph::kNone ? std::string_view() : std::string_view(ref.graph->value(v).name));
      return all;
    };
    const auto it =
        table->find(memory::NodeStatsKey(ref->name, ref->op, names(ref->inputs), names(ref->outputs)));
    if (it == table->end()) return std::nullopt;
    const memory::NodeStats& s = it->second;
    return NodeProfile{s.input_sizes, s.initializers_sizes, s.total_dynamic_sizes, s.total_temp_allocations};
  };
}

}  // namespace ullage::placement
