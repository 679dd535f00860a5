#include "placement/ledger.h"

#include <algorithm>
#include <set>

#include "core/checked.h"

namespace ullage::placement {

using graph::NodeId;

void ReservationLedger::Reserve(const NodeRef& node, size_t device, const NodeCost& cost) {
  log_read_.emplace(node.graph, node.graph->log.size());
  of_node_[node] = next_;
  reservations_[next_++] = {device, cost.workspace, cost.prepack, cost.source, {node}};
}

int64_t ReservationLedger::Sync() {
  int64_t given_back = 0;
  for (auto& [graph, read] : log_read_) {
    for (; read < graph->log.size(); ++read) {
      const graph::Mutation& m = graph->log[read];
      std::set<int64_t> touched;
      for (NodeId id : m.removed)
        if (const auto it = of_node_.find({graph, id}); it != of_node_.end()) touched.insert(it->second);
      if (touched.empty()) continue;
      // What is left of the first takes in the others.
      const int64_t into = *touched.begin();
      Reservation& r = reservations_.at(into);
      for (int64_t other : touched) {
        if (other == into) continue;
        Reservation& o = reservations_.at(other);
        r.workspace = CheckedAdd(r.workspace, o.workspace, "reserved workspace");
        r.prepack = CheckedAdd(r.prepack, o.prepack, "reserved weights");
        r.source = std::max(r.source, o.source);
        r.members.insert(r.members.end(), o.members.begin(), o.members.end());
        reservations_.erase(other);
      }
      for (NodeId id : m.removed) of_node_.erase({graph, id});
      std::erase_if(r.members, [&, g = graph](const NodeRef& ref) {
        return ref.graph == g && std::find(m.removed.begin(), m.removed.end(), ref.node) != m.removed.end();
      });
      // A node that the same change added and removed again is gone already.
      for (NodeId id : m.added)
        if (std::find(m.removed.begin(), m.removed.end(), id) == m.removed.end())
          r.members.push_back({graph, id});
      for (const NodeRef& member : r.members) of_node_[member] = into;
      if (r.members.empty()) {
        given_back = CheckedAdd(given_back, CheckedAdd(r.workspace, r.prepack), "bytes given back");
        reservations_.erase(into);
      }
    }
  }
  return given_back;
}

void ReservationLedger::Move(const std::map<const graph::Graph*, const graph::Graph*>& copies) {
  of_node_.clear();
  for (auto& [id, r] : reservations_)
    for (NodeRef& member : r.members) {
      member.graph = copies.at(member.graph);
      of_node_[member] = id;
    }
  std::map<const graph::Graph*, size_t> read;
  for (const auto& [graph, at] : log_read_) read[copies.at(graph)] = at;
  log_read_ = std::move(read);
}

const Reservation* ReservationLedger::Find(const NodeRef& node) const {
  const auto it = of_node_.find(node);
  return it == of_node_.end() ? nullptr : &reservations_.at(it->second);
}

int64_t ReservationLedger::WorkspaceBytes(std::optional<size_t> device) const {
  int64_t sum = 0;
  for (const auto& [id, r] : reservations_)
    if (!device || r.device == *device) sum = CheckedAdd(sum, r.workspace, "reserved workspace");
  return sum;
}

Verification ReservationLedger::Verify(const std::map<NodeRef, std::optional<int64_t>>& declared) const {
  Verification v;
  for (const auto& [id, r] : reservations_) {
    v.reserved_bytes = CheckedAdd(v.reserved_bytes, r.workspace, "reserved workspace");
    int64_t sum = 0;
    bool living = false, known = true;
    std::string nodes;
    for (const NodeRef& member : r.members) {
      if (!member->alive) continue;
      living = true;
      nodes += (nodes.empty() ? "" : ", ") + member->name;
      const auto it = declared.find(member);
      if (it == declared.end()) continue;  // a view: it has no kernel and needs nothing
      known = known && it->second.has_value();
      sum = CheckedAdd(sum, it->second.value_or(0), "declared workspace");
    }
    v.declared_bytes = CheckedAdd(v.declared_bytes, sum, "declared workspace");
    if (!living) {
      ++v.orphans;
      v.orphaned_bytes += r.workspace;
    } else if (!known) {
      ++v.missing_declarations;
    } else if (sum > r.workspace) {
      v.larger.push_back({std::move(nodes), r.workspace, sum});
    } else {
      ++(sum == r.workspace ? v.equal : v.smaller);
    }
  }
  for (const auto& [node, bytes] : declared) {
    if (of_node_.count(node) || bytes.value_or(1) == 0) continue;
    ++v.missing_reservations;
    v.declared_bytes = CheckedAdd(v.declared_bytes, bytes.value_or(0), "declared workspace");
  }
  return v;
}

}  // namespace ullage::placement
