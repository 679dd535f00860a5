/// Where the weights lie while a session lives (option session.weights_resident).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/thread_team.h"
#include "graph/graph.h"
#include "memory/allocator.h"

namespace ullage::session {

struct Residency {
  bool copied = false;  ///< what kernels read from the mapped file is copied into memory of the session's
  bool locked = false;  ///< pages of weights, in the map, copied or prepacked, stay in memory
};
/// "mapped", "copied", "locked" (in the map) or "copied_locked"; anything else throws kUsage.
Residency ParseResidency(const std::string& text);

/// The constants that kernels read while running, as one part of the plan. Each is counted once, whoever
/// reads it. Filled while planning; Load() puts them where they are to lie.
class ResidentWeights {
 public:
  struct Weight {
    std::string name;
    int64_t bytes = 0;
    graph::NodeId node = graph::kNone;  ///< that reads it; kNone: none or several
  };

  explicit ResidentWeights(Residency residency) : residency_(residency) {}

  /// Notes that `node` reads the constant. Constants of the graph are the session's to change until it runs.
  void Add(const std::string& name, const graph::Constant& constant, graph::NodeId node);
  /// One for each piece of data. Copies count with the gaps between them, so that the sum is what is
  /// reserved.
  std::vector<Weight> weights() const;
  /// Of their bytes, those in mapped files.
  int64_t mapped_bytes() const;

  /// Copies what is to be copied, by the team, and gives the pages of the map back as it goes. The constants
  /// then refer to the copies, which live as long as they do.
  void Load(const memory::RegionOptions& options, ThreadTeam& team);
  /// Locks the weights' pages. Returns what went wrong, or "".
  std::string Lock() const;

 private:
  struct Data {
    Weight weight;
    std::vector<graph::Constant*> holders;
    bool mapped = false;
  };
  static constexpr int64_t kAlignment = 64;
  int64_t BytesOf(const Data& data) const;

  Residency residency_;
  std::map<std::string, Data> data_;  // by what the bytes are
  std::shared_ptr<memory::HostRegion> copies_;
  std::vector<std::shared_ptr<const void>> maps_;  // kernels may know places in them
};

/// Locks the pages around `bytes` in memory. Returns what went wrong, with the size and the limit, or "".
std::string LockPages(std::span<const std::byte> bytes, const char* what);

}  // namespace ullage::session
