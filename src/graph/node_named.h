/// For tests only.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace ullage::test {

inline const graph::Node& NodeNamed(const graph::Graph& g, std::string_view name) {
  for (size_t i = 0; i < g.node_slots(); ++i)
    if (g.node(static_cast<graph::NodeId>(i)).name == name) return g.node(static_cast<graph::NodeId>(i));
  throw std::runtime_error("no node " + std::string(name));
}

}  // namespace ullage::test
