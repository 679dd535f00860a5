/// What nodes were granted when they were placed, kept right while the graph changes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "placement/accountant.h"

namespace ullage::placement {

/// What was granted to one node, or to the nodes that took its place together.
struct Reservation {
  size_t device = 0;
  int64_t workspace = 0;
  int64_t prepack = 0;
  CostSource source = CostSource::kEstimator;  ///< the least certain one of those merged
  std::vector<NodeRef> members;                ///< living nodes
};

/// Declarations of kernels against reservations.
struct Verification {
  struct Excess {
    std::string nodes;
    int64_t reserved = 0;
    int64_t declared = 0;
  };
  int64_t equal = 0, smaller = 0;    ///< reservations whose kernels declare as much, or less
  std::vector<Excess> larger;        ///< kernels declare more than was reserved
  int64_t missing_declarations = 0;  ///< reservations of nodes whose kernels cannot say
  int64_t missing_reservations = 0;  ///< kernels that declare scratch, nodes that were granted nothing
  int64_t orphans = 0;               ///< reservations without a living node
  int64_t orphaned_bytes = 0;
  int64_t reserved_bytes = 0, declared_bytes = 0;
};

/// Reservations by node. Follows the mutation logs of graphs: nodes that come in place of others share what
/// those had; what a node leaves behind that nothing replaces is given back. So no reservation can lose its
/// nodes. Not thread-safe.
class ReservationLedger {
 public:
  /// Grants a node its part of `cost`; changes of its graph count from the first grant on.
  void Reserve(const NodeRef& node, size_t device, const NodeCost& cost);
  /// Reads what was changed in the graphs of reserved nodes since. Returns the bytes given back.
  int64_t Sync();
  /// Speaks of the copies of graphs from now on.
  void Move(const std::map<const graph::Graph*, const graph::Graph*>& copies);
  /// Null: nothing was granted.
  const Reservation* Find(const NodeRef& node) const;
  size_t size() const { return reservations_.size(); }
  /// Sum over a device, or over all.
  int64_t WorkspaceBytes(std::optional<size_t> device = std::nullopt) const;

  /// `declared`: bytes per node that has a kernel; nothing where the kernel cannot say.
  Verification Verify(const std::map<NodeRef, std::optional<int64_t>>& declared) const;

 private:
  std::map<int64_t, Reservation> reservations_;
  std::map<NodeRef, int64_t> of_node_;
  std::map<const graph::Graph*, size_t> log_read_;
  int64_t next_ = 0;
};

}  // namespace ullage::placement
