#include "placement/layering_index.h"

#include <algorithm>

#include "core/error.h"
#include "placement/layer_names.h"

namespace ullage::placement {

using graph::Graph;
using graph::kNone;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

std::vector<std::pair<std::string, const Graph*>> SubgraphsOf(const Node& node) {
  std::vector<std::pair<std::string, const Graph*>> all;
  for (const auto& [key, attribute] : node.attributes) {
    if (const auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
      if (*one) all.emplace_back(key, one->get());
    } else if (const auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute)) {
      for (const auto& g : *many)
        if (g) all.emplace_back(key, g.get());
    }
  }
  return all;
}

LayeringIndex::LayeringIndex(RuleSet rules, std::vector<std::optional<size_t>> devices)
    : rules_(std::move(rules)), devices_(std::move(devices)) {
  if (devices_.size() != rules_.rules.size())
    Throw(Code::kRuntime, "expected the device of each of ", rules_.rules.size(), " rules, found ",
          devices_.size());
  if (rules_.mode == RuleMode::kAnnotation)
    annotations_ = std::make_unique<AnnotationMatcher>(rules_.rules);
  else
    names_ = std::make_unique<SubstringMatcher>(rules_.rules);
}

void LayeringIndex::Build(const Graph& root) {
  graphs_.clear();
  BuildGraph(root, std::nullopt);
}

void LayeringIndex::BuildGraph(const Graph& graph, const std::optional<Match>& inherited) {
  PerGraph& index = graphs_[&graph];
  index = PerGraph();
  index.inherited = inherited;
  index.layers = std::make_unique<LayerMap>(graph);
  index.log_read = graph.log.size();
  if (annotations_)
    for (size_t i = 0; i < graph.node_slots(); ++i) {
      const Node& node = graph.node(static_cast<NodeId>(i));
      if (!node.annotation.empty()) index.annotations.emplace(node.name, node.annotation);
    }
  for (NodeId id : graph.Order()) MatchNode(graph, index, id);
  FinalNorms(graph, index);
}

void LayeringIndex::MatchNode(const Graph& graph, PerGraph& index, NodeId id) {
  std::optional<Match> match = OwnMatch(graph, index, id);
  if (!match && annotations_ && index.inherited) {
    match = index.inherited;
    match->source = Source::kInherited;
  }
  if (match && !devices_[match->rule]) match.reset();
  if (match)
    index.matches[id] = *match;
  else
    index.matches.erase(id);
  for (const auto& [key, body] : SubgraphsOf(graph.node(id)))
    BuildGraph(*body, annotations_ ? match : std::nullopt);
}

std::vector<std::pair<std::string, LayeringIndex::Source>> LayeringIndex::SourcesOf(const Graph& graph,
                                                                                    const PerGraph& index,
                                                                                    NodeId id) const {
  const Node& node = graph.node(id);
  std::vector<std::pair<std::string, Source>> all;
  const auto add = [&](const std::string& text, Source source) {
    if (!text.empty()) all.emplace_back(text, source);
  };
  if (annotations_) {
    add(node.annotation, Source::kName);
    for (const auto& name : node.provenance)
      if (const auto it = index.annotations.find(name); it != index.annotations.end())
        add(it->second, Source::kProvenance);
    return all;
  }
  add(node.name, Source::kName);
  for (const auto& name : node.provenance) add(name, Source::kProvenance);
  for (const auto& scope : index.layers->scopes(id)) add(scope, Source::kScope);
  return all;
}

std::pair<size_t, size_t> LayeringIndex::Masked(const PerGraph& index, NodeId id,
                                                std::string_view text) const {
  if (!index.layers->is_final_norm(id)) return {0, 0};
  const auto layer = FindLayer(text);
  return layer ? std::pair(layer->number_begin, layer->number_end) : std::pair<size_t, size_t>(0, 0);
}

std::optional<LayeringIndex::Match> LayeringIndex::OwnMatch(const Graph& graph, const PerGraph& index,
                                                            NodeId id) const {
  for (auto& [text, source] : SourcesOf(graph, index, id)) {
    if (annotations_) {
      if (const auto rule = annotations_->Match(text)) return Match{*rule, source, false, text};
      continue;
    }
    const auto hit = names_->Find(text, Masked(index, id, text));
    if (!hit) continue;
    const auto digit = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '9'; };
    const bool cuts = (digit(hit->end - 1) && digit(hit->end)) ||
                      (hit->begin > 0 && digit(hit->begin) && digit(hit->begin - 1));
    return Match{hit->rule, source, cuts, text};
  }
  return std::nullopt;
}

void LayeringIndex::FinalNorms(const Graph& graph, PerGraph& index) {
  if (!names_) return;
  // The norm goes where what reads it goes, so the last ones are settled first.
  const auto order = graph.Order();
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    if (!index.layers->is_final_norm(*it) || index.matches.count(*it)) continue;
    for (ValueId v : graph.node(*it).outputs) {
      if (v == kNone || index.matches.count(*it)) continue;
      for (NodeId consumer : graph.value(v).consumers) {
        const auto match = index.matches.find(consumer);
        if (match == index.matches.end()) continue;
        Match taken = match->second;
        taken.source = Source::kOutput;
        taken.cuts_number = false;
        index.matches[*it] = taken;
        break;
      }
    }
  }
}

void LayeringIndex::Update(const Graph& graph, const std::vector<NodeId>& nodes) {
  PerGraph& index = graphs_.at(&graph);
  index.layers = std::make_unique<LayerMap>(graph);
  if (annotations_)
    for (NodeId id : nodes) {
      const Node& node = graph.node(id);
      if (!node.annotation.empty()) index.annotations[node.name] = node.annotation;
    }
  for (NodeId id : nodes) {
    if (graph.node(id).alive)
      MatchNode(graph, index, id);
    else
      index.matches.erase(id);
  }
  FinalNorms(graph, index);
}

void LayeringIndex::Sync(const Graph& root) {
  PerGraph& index = graphs_.at(&root);
  std::vector<NodeId> changed;
  for (; index.log_read < root.log.size(); ++index.log_read) {
    const auto& entry = root.log[index.log_read];
    changed.insert(changed.end(), entry.removed.begin(), entry.removed.end());
    changed.insert(changed.end(), entry.added.begin(), entry.added.end());
  }
  if (!changed.empty()) Update(root, changed);
  for (NodeId id : root.Order())
    for (const auto& [key, body] : SubgraphsOf(root.node(id))) {
      if (graphs_.count(body)) {
        Sync(*body);
      } else {
        const Match* match = Find(root, id);
        BuildGraph(*body, annotations_ && match ? std::optional<Match>(*match) : std::nullopt);
      }
    }
}

const LayeringIndex::Match* LayeringIndex::Find(const Graph& graph, NodeId node) const {
  const auto g = graphs_.find(&graph);
  if (g == graphs_.end()) return nullptr;
  const auto it = g->second.matches.find(node);
  return it == g->second.matches.end() ? nullptr : &it->second;
}

std::optional<size_t> LayeringIndex::RuleOf(const Graph& graph, NodeId node) const {
  const Match* match = Find(graph, node);
  return match ? std::optional<size_t>(match->rule) : std::nullopt;
}

std::optional<size_t> LayeringIndex::DeviceOf(const Graph& graph, NodeId node) const {
  const Match* match = Find(graph, node);
  return match ? devices_[match->rule] : std::nullopt;
}

std::vector<NodeId> LayeringIndex::View(const Graph& graph, size_t device) const {
  std::vector<NodeId> all;
  for (NodeId id : graph.Order()) {
    const auto wanted = DeviceOf(graph, id);
    if (!wanted || *wanted == device) all.push_back(id);
  }
  return all;
}

void LayeringIndex::Release(const Graph& graph, const std::vector<NodeId>& nodes) {
  PerGraph& index = graphs_.at(&graph);
  for (NodeId id : nodes) index.matches.erase(id);
}

std::vector<std::string> LayeringIndex::Texts(const Graph& graph, NodeId node) const {
  std::vector<std::string> texts;
  for (auto& [text, source] : SourcesOf(graph, graphs_.at(&graph), node)) texts.push_back(text);
  return texts;
}

const LayerMap& LayeringIndex::layers(const Graph& graph) const {
  return *graphs_.at(&graph).layers;
}

bool LayeringIndex::Touches(size_t rule, const Graph& graph, NodeId node) const {
  const PerGraph& index = graphs_.at(&graph);
  for (const auto& [text, source] : SourcesOf(graph, index, node)) {
    if (names_) {
      if (names_->FindRule(rule, text, Masked(index, node, text))) return true;
      continue;
    }
    const Rule& r = rules_.rules[rule];
    if (r.exact ? text == r.pattern : text.compare(0, r.pattern.size(), r.pattern) == 0) return true;
  }
  return false;
}

}  // namespace ullage::placement
