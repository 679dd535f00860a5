/// A placed graph turned into a list of steps with kernels: what runs, in which order, and which values share
/// bytes.
#pragma once

#include <map>
#include <memory>
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
  };
  Kind kind = Kind::kKernel;
  graph::NodeId node = graph::kNone;
  const ops::OpInfo* op = nullptr;
  const kernels::KernelDef* def = nullptr;
  std::unique_ptr<kernels::Kernel> kernel;
  std::vector<graph::ValueId> inputs;
  std::vector<graph::ValueId> outputs;
  bool late = false;          ///< the kernel sets the shapes of its results
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

/// The steps of one graph (sub-graphs have their own Program). Immutable once built; holds on to the graph.
class Program {
 public:
  /// Chooses a kernel for every node, of the provider that it was placed with, and creates it. `facts` are
  /// the union over the profiles. Throws kUnsupported with every operator that no kernel can run. `outer`
  /// steps are counted in messages only.
  static std::unique_ptr<Program> Build(const graph::Graph& graph, const shapes::GraphFacts& facts,
                                        const placement::PlacedGraph& placed, int threads,
                                        const OptionBag* options = nullptr);

  const graph::Graph& graph() const { return *graph_; }
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
  const graph::Graph* graph_ = nullptr;
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
