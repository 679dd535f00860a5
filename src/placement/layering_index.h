/// Which rule each node of a graph, and of its sub-graphs, falls under.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "placement/layer_map.h"
#include "placement/matcher.h"
#include "placement/rules.h"

namespace ullage::placement {

/// A rule is a preference: it says who may be offered a node first. Nodes that a device does not take are
/// released, then everybody may have them.
///
/// Annotation mode: a node's own annotation, then those of the nodes it came from; a node that matches
/// nothing inherits the rule of the node that owns its sub-graph. Name mode: the node's name, then the names
/// it came from, then its scopes (LayerMap); no inheritance. A final norm that matches nothing goes with the
/// output.
///
/// Keyed by graph and NodeId. Not thread-safe while it changes; graphs must outlive it.
class LayeringIndex {
 public:
  /// How a node came to its rule.
  enum class Source : uint8_t { kName, kProvenance, kScope, kInherited, kOutput };
  struct Match {
    size_t rule = 0;
    Source source = Source::kName;
    /// The pattern ends within a number of the name ("layers.1" in "layers.10").
    bool cuts_number = false;
    /// The text that matched.
    std::string text;
  };

  /// `devices[r]`: index of the device that rule r names; nothing where there is none. The nodes of such a
  /// rule count as unmatched, and hand nothing down to their sub-graphs.
  LayeringIndex(RuleSet rules, std::vector<std::optional<size_t>> devices);

  /// Matches every living node of the graph, and of sub-graphs all levels down.
  void Build(const graph::Graph& root);
  /// Follows the mutation logs from where they were last read: what was removed is forgotten, what was added
  /// is matched, sub-graphs included.
  void Sync(const graph::Graph& root);
  /// Matches some nodes anew, with their sub-graphs; those that match nothing (any more) are forgotten.
  void Update(const graph::Graph& graph, const std::vector<graph::NodeId>& nodes);

  /// The rule of a node and how it was found; null: unmatched.
  const Match* Find(const graph::Graph& graph, graph::NodeId node) const;
  std::optional<size_t> RuleOf(const graph::Graph& graph, graph::NodeId node) const;
  /// The device that the node's rule names.
  std::optional<size_t> DeviceOf(const graph::Graph& graph, graph::NodeId node) const;
  /// Nodes that may be offered to a device, in order: those without a rule, and those whose rule names it.
  std::vector<graph::NodeId> View(const graph::Graph& graph, size_t device) const;
  /// Forgets the nodes' rules, so that every device may be offered them.
  void Release(const graph::Graph& graph, const std::vector<graph::NodeId>& nodes);

  const RuleSet& rules() const { return rules_; }
  const std::vector<std::optional<size_t>>& devices() const { return devices_; }
  /// Texts under which rules look for the node, in the order in which they do.
  std::vector<std::string> Texts(const graph::Graph& graph, graph::NodeId node) const;
  /// The layers of a graph that was built.
  const LayerMap& layers(const graph::Graph& graph) const;
  /// A rule matches the node by itself, whether or not another rule has it.
  bool Touches(size_t rule, const graph::Graph& graph, graph::NodeId node) const;

 private:
  struct PerGraph {
    std::unique_ptr<LayerMap> layers;
    std::map<std::string, std::string> annotations;  ///< by name of an original node
    std::map<graph::NodeId, Match> matches;
    size_t log_read = 0;
    std::optional<Match> inherited;
  };
  void BuildGraph(const graph::Graph& graph, const std::optional<Match>& inherited);
  void MatchNode(const graph::Graph& graph, PerGraph& index, graph::NodeId node);
  void FinalNorms(const graph::Graph& graph, PerGraph& index);
  std::optional<Match> OwnMatch(const graph::Graph& graph, const PerGraph& index, graph::NodeId node) const;
  std::vector<std::pair<std::string, Source>> SourcesOf(const graph::Graph& graph, const PerGraph& index,
                                                        graph::NodeId node) const;
  std::pair<size_t, size_t> Masked(const PerGraph& index, graph::NodeId node, std::string_view text) const;

  RuleSet rules_;
  std::vector<std::optional<size_t>> devices_;
  std::unique_ptr<AnnotationMatcher> annotations_;
  std::unique_ptr<SubstringMatcher> names_;
  std::map<const graph::Graph*, PerGraph> graphs_;
};

/// The sub-graphs of a node with the names of their attributes.
std::vector<std::pair<std::string, const graph::Graph*>> SubgraphsOf(const graph::Node& node);

}  // namespace ullage::placement
