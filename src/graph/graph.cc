#include "graph/graph.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "core/error.h"

namespace ullage::graph {

std::string Node::OpName() const {
  return domain.empty() ? op : domain + ":" + op;
}

template <class T>
const T* Node::Find(std::string_view key, const char* type) const {
  const auto it = attributes.find(key);
  if (it == attributes.end()) return nullptr;
  if (const T* v = std::get_if<T>(&it->second)) return v;
  Throw(Code::kInvalidModel, "node ", name, " (", OpName(), "): attribute ", key, " is not ", type);
}

int64_t Node::Int(std::string_view key, int64_t def) const {
  const auto* v = Find<int64_t>(key, "an integer");
  return v ? *v : def;
}

int64_t Node::RequiredInt(std::string_view key) const {
  const auto* v = Find<int64_t>(key, "an integer");
  if (!v) Throw(Code::kInvalidModel, "node ", name, " (", OpName(), "): attribute ", key, " is missing");
  return *v;
}

float Node::Float(std::string_view key, float def) const {
  const auto* v = Find<float>(key, "a float");
  return v ? *v : def;
}

std::string Node::Str(std::string_view key, std::string_view def) const {
  const auto* v = Find<std::string>(key, "a string");
  return v ? *v : std::string(def);
}

std::string_view Node::StrView(std::string_view key, std::string_view def) const {
  const auto* v = Find<std::string>(key, "a string");
  return v ? std::string_view(*v) : def;
}

std::span<const int64_t> Node::IntsView(std::string_view key) const {
  const auto* v = Find<std::vector<int64_t>>(key, "a list of integers");
  return v ? std::span<const int64_t>(*v) : std::span<const int64_t>();
}

std::span<const float> Node::FloatsView(std::string_view key) const {
  const auto* v = Find<std::vector<float>>(key, "a list of floats");
  return v ? std::span<const float>(*v) : std::span<const float>();
}

std::vector<int64_t> Node::Ints(std::string_view key) const {
  const auto* v = Find<std::vector<int64_t>>(key, "a list of integers");
  return v ? *v : std::vector<int64_t>();
}

std::vector<float> Node::Floats(std::string_view key) const {
  const auto* v = Find<std::vector<float>>(key, "a list of floats");
  return v ? *v : std::vector<float>();
}

ConstantPtr Node::Tensor(std::string_view key) const {
  const auto* v = Find<ConstantPtr>(key, "a tensor");
  return v ? *v : nullptr;
}

std::shared_ptr<Graph> Node::Subgraph(std::string_view key) const {
  const auto* v = Find<std::shared_ptr<Graph>>(key, "a graph");
  return v ? *v : nullptr;
}

ValueId Graph::AddValue(std::string_view wanted, DType dtype) {
  std::string unique(wanted);
  while (unique.empty() || by_name_.count(unique)) {
    const std::string base(wanted.empty() ? "value" : wanted);
    unique = base + "_" + std::to_string(++value_suffixes_[base]);
  }
  const auto id = static_cast<ValueId>(values_.size());
  by_name_.emplace(unique, id);
  Value v;
  v.name = std::move(unique);
  v.dtype = dtype;
  values_.push_back(std::move(v));
  return id;
}

ValueId Graph::AddInput(std::string_view wanted, DType dtype, std::optional<DeclaredShape> shape) {
  const ValueId id = AddValue(wanted, dtype);
  value(id).declared = std::move(shape);
  value(id).is_input = true;
  inputs.push_back(id);
  return id;
}

ValueId Graph::AddConstant(std::string_view wanted, ConstantPtr constant) {
  const ValueId id = AddValue(wanted, constant->dtype);
  value(id).constant = std::move(constant);
  return id;
}

std::string Graph::UniqueNodeName(std::string_view base) {
  std::string unique(base.empty() ? "node" : base);
  for (;;) {
    const auto [it, fresh] = node_names_.emplace(unique, 1);
    if (fresh) return unique;
    unique = std::string(base.empty() ? "node" : base) + "_" +
             std::to_string(++node_names_.find(base.empty() ? "node" : base)->second);
  }
}

Node& Graph::AddNode(std::string_view domain, std::string_view op, std::string_view wanted,
                     std::vector<ValueId> in, std::vector<ValueId> out) {
  auto node = std::make_unique<Node>();
  node->id = static_cast<NodeId>(nodes_.size());
  node->domain = domain;
  node->op = op;
  std::string base(wanted);
  if (base.empty()) {
    const auto first = std::find_if(out.begin(), out.end(), [](ValueId v) { return v != kNone; });
    base = first == out.end() ? std::string(op) : value(*first).name;
  }
  node->name = UniqueNodeName(base);
  node->provenance = {node->name};
  if (const auto it = opsets.find(domain); it != opsets.end()) node->opset = it->second;
  node->inputs = std::move(in);
  node->outputs = std::move(out);
  for (ValueId v : node->outputs) {
    if (v == kNone) continue;
    Value& produced = value(v);
    if (produced.producer == node->id)
      Throw(Code::kInvalidModel, "node ", node->name, " produces value ", produced.name, " twice");
    if (produced.producer != kNone || produced.is_input || produced.constant)
      Throw(Code::kInvalidModel, "value ", produced.name, " is produced twice: by node ", node->name,
            " and by ",
            produced.producer != kNone ? "node " + nodes_[static_cast<size_t>(produced.producer)]->name
                                       : std::string(produced.is_input ? "a graph input" : "an initializer"));
    produced.producer = node->id;
  }
  nodes_.push_back(std::move(node));
  Node& added = *nodes_.back();
  for (ValueId v : added.inputs) AddUse(v, added.id);
  return added;
}

void Graph::SetCaptures(Node& node, std::vector<ValueId> captures) {
  node.captures = std::move(captures);
  for (ValueId v : node.captures) AddUse(v, node.id);
  SyncCaptures(node);
}

void Graph::SyncCaptures(Node& node) {
  const auto sync = [&](Graph& sub) {
    for (size_t i = 0; i < node.captures.size() && i < sub.capture_values.size(); ++i) {
      const Value& outer = value(node.captures[i]);
      Value& inner = sub.value(sub.capture_values[i]);
      sub.capture_names[i] = outer.name;
      inner.dtype = outer.dtype;
      inner.kind = outer.kind;
      inner.declared = outer.declared;
      inner.constant = outer.constant;
    }
    for (const auto& n : sub.nodes_)
      if (n->alive && !n->captures.empty()) sub.SyncCaptures(*n);
  };
  for (auto& [key, attribute] : node.attributes) {
    if (const auto* one = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
      if (*one) sync(**one);
    } else if (const auto* many = std::get_if<std::vector<std::shared_ptr<Graph>>>(&attribute)) {
      for (const auto& sub : *many) sync(*sub);
    }
  }
}

void Graph::AddUse(ValueId v, NodeId node) {
  if (v != kNone) value(v).consumers.push_back(node);
}

void Graph::RemoveUse(ValueId v, NodeId node) {
  if (v == kNone) return;
  auto& uses = value(v).consumers;
  const auto it = std::find(uses.begin(), uses.end(), node);
  if (it != uses.end()) uses.erase(it);
}

ValueId Graph::FindValue(std::string_view wanted) const {
  const auto it = by_name_.find(wanted);
  return it == by_name_.end() ? kNone : it->second;
}

bool Graph::IsOutput(ValueId id) const {
  return std::find(outputs.begin(), outputs.end(), id) != outputs.end();
}

const Node* Graph::ProducerOf(ValueId id) const {
  if (id == kNone || value(id).producer == kNone) return nullptr;
  return &node(value(id).producer);
}

const Constant* Graph::ConstantOf(ValueId id) const {
  return id == kNone ? nullptr : value(id).constant.get();
}

size_t Graph::LiveNodes() const {
  return static_cast<size_t>(
      std::count_if(nodes_.begin(), nodes_.end(), [](const auto& n) { return n->alive; }));
}

namespace {

/// Nodes of which the smallest comes first; new ones are seldom far below the last that came.
class ReadySet {
 public:
  explicit ReadySet(size_t nodes) : words_(nodes / 64 + 1, 0), at_(words_.size()) {}
  void Add(NodeId id) {
    const auto word = static_cast<size_t>(id) / 64;
    words_[word] |= uint64_t{1} << (id % 64);
    at_ = std::min(at_, word);
  }
  std::optional<NodeId> Pop() {
    while (at_ < words_.size() && words_[at_] == 0) ++at_;
    if (at_ == words_.size()) return {};
    const int bit = std::countr_zero(words_[at_]);
    words_[at_] &= words_[at_] - 1;
    return static_cast<NodeId>(at_ * 64) + bit;
  }

 private:
  std::vector<uint64_t> words_;
  size_t at_;  // no word before it holds any
};

}  // namespace

std::vector<NodeId> Graph::Order() const {
  std::vector<int> waiting(nodes_.size(), 0);
  ReadySet ready(nodes_.size());
  auto for_each_input = [](const Node& n, auto&& fn) {
    for (ValueId v : n.inputs)
      if (v != kNone) fn(v);
    for (ValueId v : n.captures) fn(v);
  };
  for (const auto& n : nodes_) {
    if (!n->alive) continue;
    for_each_input(*n, [&](ValueId v) { waiting[static_cast<size_t>(n->id)] += value(v).producer != kNone; });
    if (waiting[static_cast<size_t>(n->id)] == 0) ready.Add(n->id);
  }
  std::vector<NodeId> order;
  order.reserve(nodes_.size());
  while (const auto next = ready.Pop()) {
    const NodeId id = *next;
    order.push_back(id);
    for (ValueId v : node(id).outputs) {
      if (v == kNone) continue;
      for (NodeId consumer : value(v).consumers)
        if (--waiting[static_cast<size_t>(consumer)] == 0) ready.Add(consumer);
    }
  }
  if (order.size() == LiveNodes()) return order;
  // Walk producers among the nodes that are left until one repeats: that is a cycle.
  NodeId at = kNone;
  for (const auto& n : nodes_)
    if (n->alive && waiting[static_cast<size_t>(n->id)] > 0) at = n->id;
  std::vector<NodeId> path;
  std::vector<bool> seen(nodes_.size(), false);
  while (!seen[static_cast<size_t>(at)]) {
    seen[static_cast<size_t>(at)] = true;
    path.push_back(at);
    NodeId next = kNone;
    for_each_input(node(at), [&](ValueId v) {
      const NodeId p = value(v).producer;
      if (p != kNone && waiting[static_cast<size_t>(p)] > 0) next = p;
    });
    at = next;
  }
  constexpr ptrdiff_t kNamed = 20;
  std::string cycle;
  const auto first = std::find(path.begin(), path.end(), at);
  for (auto it = first; it != path.end() && it - first < kNamed; ++it) cycle += node(*it).name + " <- ";
  if (path.end() - first > kNamed) cycle += "... <- ";
  Throw(Code::kInvalidModel, "graph ", name, " has a cycle: ", cycle, node(at).name);
}

void Graph::RemoveNode(NodeId id) {
  Node& n = node(id);
  if (!n.alive) return;
  n.alive = false;
  for (ValueId v : n.inputs) RemoveUse(v, id);
  for (ValueId v : n.captures) RemoveUse(v, id);
  for (ValueId v : n.outputs)
    if (v != kNone && value(v).producer == id) value(v).producer = kNone;
}

void Graph::ReplaceUses(ValueId from, ValueId to) {
  if (from == to) return;
  const std::vector<NodeId> uses = value(from).consumers;
  for (NodeId id : uses) {
    Node& n = node(id);
    for (ValueId& v : n.inputs)
      if (v == from) v = to;
    if (const auto it = std::find(n.captures.begin(), n.captures.end(), from); it != n.captures.end()) {
      *it = to;
      SyncCaptures(n);
    }
    value(to).consumers.push_back(id);
  }
  value(from).consumers.clear();
  for (ValueId& v : outputs)
    if (v == from) v = to;
}

void Graph::SetInput(Node& n, size_t index, ValueId v) {
  if (index >= n.inputs.size()) n.inputs.resize(index + 1, kNone);
  RemoveUse(n.inputs[index], n.id);
  n.inputs[index] = v;
  AddUse(v, n.id);
}

}  // namespace ullage::graph
