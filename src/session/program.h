/// A placed graph turned into a list of steps with kernels: what runs, in which order, and which values share
/// bytes.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "kernels/registry.h"
#include "ops/catalogue.h"
#include "placement/place.h"
#include "shapes/propagate.h"

namespace ullage::session {

class Program;

/// Where the bytes of a value come from.
enum class Place : uint8_t {
  kNone,      ///< never used
  kConstant,  ///< the model
  kInput,     ///< the caller, the outer graph (captures), or a state
  kPlanned,   ///< an offset in the arena, per profile
  kView,      ///< the bytes of another value
};

struct Step {
  enum class Kind : uint8_t {
    kKernel,
    kView,    ///< output 0 is input `view_of` under another shape: no bytes move
    kParts,   ///< the outputs are runs of the bytes of input 0 (parts.h)
    kSelect,  ///< output 0 is one of two constants
    kIf,
    kLoop,
    kScan,
    kSequenceMap,
    kCopy,   ///< output 0 has the contents of input 0 in another memory
    kFused,  ///< one kernel for several nodes
  };
  Kind kind = Kind::kKernel;
  graph::NodeId node =
      graph::kNone;  ///< of a copy: the first that reads it, kNone: the caller; fused: the last
  /// Of kFused, the nodes in their order: only the shapes of what they make are found one by one.
  struct Member {
    graph::NodeId node = graph::kNone;
    const ops::OpInfo* op = nullptr;
    std::vector<graph::ValueId> inputs;
    std::vector<graph::ValueId> outputs;
  };
  std::vector<Member> members;
  /// It runs sub-graphs.
  bool runs_bodies() const {
    return kind == Kind::kIf || kind == Kind::kLoop || kind == Kind::kScan || kind == Kind::kSequenceMap;
  }
  /// Where it runs: 0 is the host; of a copy the device that it goes to, or comes from when it goes to the
  /// host.
  int device = 0;
  const ops::OpInfo* op = nullptr;
  const kernels::KernelDef* def = nullptr;
  std::unique_ptr<kernels::Kernel> kernel;
  std::vector<graph::ValueId> inputs;
  std::vector<graph::ValueId> outputs;
  bool late = false;          ///< the kernel sets the shapes of its results
  int parts_axis = 0;         ///< of kParts
  bool reads_values = false;  ///< the rule reads the contents of an input that is no constant
  /// Loop and Scan: shape of a slice of each scanned result, 0 where only a run says it: for no rounds.
  std::vector<Shape> stacked;
  /// SequenceMap: most bytes of an element of each result; -1: no bound.
  std::vector<int64_t> element_bytes;
  /// Sub-graphs by attribute name ("then_branch").
  std::vector<std::pair<std::string, std::unique_ptr<Program>>> bodies;
  /// Branches of an If that no valid run takes, and why.
  std::vector<std::pair<std::string, std::string>> refused;
  /// Indices into Prepacked blocks of the session, one per block of the kernel.
  std::vector<int> prepacked;
};

/// "kernel", "view", …
std::string_view KindName(Step::Kind kind);

/// Values of a graph that somebody else holds on a device.
struct Residence {
  std::map<graph::ValueId, int> inputs;  ///< graph inputs and captured values, with their device
  std::set<graph::ValueId> outputs;      ///< results that stay where they are made
};

/// The steps of one graph (sub-graphs have their own Program). Immutable once built; holds on to the graph.
///
/// Devices have numbers: 0 is the host, i + 1 the i-th device of the placed graph. The program's values are
/// those of the graph, each in the memory of the device that makes it, and behind them one for every device
/// that a value is copied to: they have no place in the graph. A constant that a device reads is a value of
/// its own, too, without a step.
class Program {
 public:
  /// Chooses a kernel for every node, of the provider that it was placed with, and creates it. `facts` are
  /// the union over the profiles. Throws kUnsupported with every operator that no kernel can run. `outer`
  /// steps are counted in messages only.
  static std::unique_ptr<Program> Build(const graph::Graph& graph, const shapes::GraphFacts& facts,
                                        const placement::PlacedGraph& placed, int threads,
                                        const OptionBag* options = nullptr, const Residence& residence = {});

  const graph::Graph& graph() const { return *graph_; }
  size_t value_count() const { return places_.size(); }
  /// The value of the graph whose contents v has; itself, unless it is a copy.
  graph::ValueId source(graph::ValueId v) const { return sources_[static_cast<size_t>(v)]; }
  int device(graph::ValueId v) const { return devices_[static_cast<size_t>(v)]; }
  /// Numbers of devices that values and steps may have.
  size_t device_count() const { return alignments_.size(); }
  /// Of buffers in the memory of a device.
  int64_t alignment(int device) const { return alignments_[static_cast<size_t>(device)]; }
  /// For people: copies are told by their device.
  std::string name(graph::ValueId v) const;
  /// The constant behind v, or null (also for kNone).
  const graph::Constant* constant(graph::ValueId v) const {
    return v == graph::kNone ? nullptr : graph_->ConstantOf(source(v));
  }
  /// The graph's outputs, where the caller finds them: on the host, unless they stay on a device.
  std::span<const graph::ValueId> outputs() const { return outputs_; }
  /// Outer values that the sub-graphs of the step read.
  std::span<const graph::ValueId> captures(const Step& step) const;
  /// Whether any step, of a sub-graph, too, runs on a device.
  bool uses_devices() const { return uses_devices_; }
  std::vector<Step>& steps() { return steps_; }
  const std::vector<Step>& steps() const { return steps_; }
  Place place(graph::ValueId v) const { return places_[static_cast<size_t>(v)]; }
  /// The value that owns the bytes of v (v itself unless it is a view).
  graph::ValueId root(graph::ValueId v) const { return roots_[static_cast<size_t>(v)]; }
  /// v holds all the bytes of its root, from the first on.
  bool whole(graph::ValueId v) const { return part_[static_cast<size_t>(v)] == 0; }
  /// Type as proved; of a sequence that of its elements.
  DType dtype(graph::ValueId v) const { return dtypes_[static_cast<size_t>(v)]; }
  graph::TypeKind kind(graph::ValueId v) const { return kinds_[static_cast<size_t>(v)]; }
  /// Runs the steps in another order: order[i] is the index of the step that becomes the i-th. Every step
  /// must follow those that it needs. Steps move in memory.
  void Reorder(const std::vector<int32_t>& order);
  /// All reads of `v` are by kernels that take caches with capacity at that input.
  bool AcceptsCache(graph::ValueId v) const;
  /// Step and output index that write `v`; step -1 when none does.
  std::pair<int, int> WriterOf(graph::ValueId v) const;

  template <class Fn>
  void ForEachStep(const Fn& fn) {
    for (Step& step : steps_) {
      fn(*this, step);
      for (auto& body : step.bodies) body.second->ForEachStep(fn);
    }
  }
  template <class Fn>
  void ForEachStep(const Fn& fn) const {
    for (const Step& step : steps_) {
      fn(*this, step);
      for (const auto& body : step.bodies) static_cast<const Program&>(*body.second).ForEachStep(fn);
    }
  }

 private:
  class Builder;

  const graph::Graph* graph_ = nullptr;
  bool uses_devices_ = false;
  std::vector<std::string> device_names_;
  std::vector<int64_t> alignments_;  // by device
  std::vector<graph::ValueId> sources_;
  std::vector<int> devices_;
  std::vector<graph::ValueId> outputs_;
  std::vector<Step> steps_;
  std::vector<Place> places_;
  std::vector<graph::ValueId> roots_;
  std::vector<uint8_t> part_;  // 1: fewer bytes than its root
  std::vector<DType> dtypes_;
  std::vector<graph::TypeKind> kinds_;
};

/// Union of the facts of several profiles, value by value: types must agree, shapes are joined.
shapes::GraphFacts UnionFacts(const std::vector<const shapes::GraphFacts*>& facts);

}  // namespace ullage::session
