/// How a session is made: its stages, and what they hand on. initialize.cc decides and plans, load.cc
/// reserves and fills. For those two files only.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "providers/device.h"
#include "providers/provider.h"
#include "session/allowances.h"
#include "session/plan.h"
#include "session/session.h"
#include "session/widened_weights.h"

namespace ullage::session {

struct Initializer {
  explicit Initializer(Session& session) : s(session) {}

  Session& s;

  void Optimize();
  void StoreCaches();
  void BoundShapes();
  void OpenDevices();
  void Place();
  /// True when another placement may use the limits better; what the last one planned is gone then.
  bool PlaceAnew();
  void CreateProgram();
  void BindStates();
  void PlanWeights();
  void PlanMemory();
  /// Adds up what device d (its number less 1) has.
  void PlanDevice(size_t d, int64_t workspace);
  void CountEstimates();
  void CheckLimit();
  void FindPrepacked();
  void Reserve();
  void LoadWeights(const memory::RegionOptions& region);
  void LockWeights();
  void Degrade(const std::string& what);
  void ReadRunOptions();
  void ReserveOnDevices();
  void PackBlocks(std::byte* region);
  using Streams = std::vector<std::unique_ptr<providers::Stream>>;  // by device, its number less 1
  /// Blocks that kernels of devices can pack in a queue, or those that they cannot.
  void PackOnDevices(const Streams& streams, bool queued);
  void PrepareKernels(const Streams& streams);
  void Prepack();

  std::vector<shapes::GraphFacts*> AllFacts() {
    std::vector<shapes::GraphFacts*> all = {&s.facts_};
    for (auto& p : s.profiles_) all.push_back(&p.facts);
    return all;
  }
  std::vector<providers::Device> devices;
  std::optional<Allowances> allowances;
  PlannedPlacements planned;
  PlanOptions plan_options;
  std::vector<graph::ValueId> external;  // outputs of states: their memory is the caches'
  /// A constant that a step of a device has as its input; `read`: by itself, not in packed form.
  void KeepOnDevice(const Program& program, graph::ValueId v, const graph::Constant& c, bool read,
                    graph::NodeId reader);
  std::map<std::pair<const Program*, graph::ValueId>, size_t>
      on_device;                                                // place among the share's, plus 1; 0: none
  std::map<std::pair<int, std::string>, size_t> device_copies;  // the same, by what the data are

  WidenedWeights widened;
  std::string cache_path, cache_key;  // of session.prepacked_cache
  const std::byte* packed = nullptr;  // what it holds

  /// All living programs' steps, bodies included.
  template <class Fn>
  void EachStep(Program& program, const Fn& fn) {
    program.ForEachStep([&](auto&& p, auto&& step) { fn(p, step); });
  }
};

}  // namespace ullage::session
