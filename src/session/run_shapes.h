/// The bound rules at run time: the same rules as for planning, fed with exact shapes.
#pragma once

#include <array>
#include <span>

#include "core/integers.h"
#include "ops/catalogue.h"

namespace ullage::session {

/// One input of a step as a rule sees it.
struct RunInput {
  const TensorView* view = nullptr;  ///< null: left out
  const ops::BoundedShape* shape = nullptr;
  const graph::Constant* constant = nullptr;
  graph::TypeKind kind = graph::TypeKind::kTensor;
  bool on_host = true;  ///< else the contents are a constant's, or unknown
};

/// Room for contents that rules read; made once, used by many contexts one after the other.
struct RunValues {
  std::array<ops::BoundedValues, 16> slots;
  ops::BoundedShape element;                ///< of a sequence
  std::array<ops::BoundedShape, 4> unions;  ///< bounds of the elements of a sequence, by input
};

/// Facts of one step from the views of its inputs. Allocates nothing.
class RunShapeContext final : public ops::ShapeContext {
 public:
  static constexpr int kMaxOutputs = 16;
  struct Result {
    bool set = false;
    DType dtype = DType::kUndefined;
    ops::BoundedShape shape;
    graph::TypeKind kind = graph::TypeKind::kTensor;
    ops::Bound length;
  };

  /// `results` has one entry per output of the node that fits in kMaxOutputs.
  RunShapeContext(const graph::Node& node, std::span<const RunInput> inputs, RunValues& values,
                  std::span<Result> results)
      : ShapeContext(node, ops::BoundMath(nullptr)), inputs_(inputs), slots_(values), results_(results) {}

  const ops::BoundedShape& shape(int i) const override;
  DType dtype(int i) const override;
  graph::TypeKind kind(int i) const override;
  ops::Bound length(int i) const override;
  const ops::BoundedShape& element(int i, int64_t k) const override;
  const ops::BoundedValues* values(int i) const override;
  const graph::Constant* constant(int i) const override;
  int doubles(int i, std::span<double> out) const override;
  std::vector<ops::ValueFacts> RunSubgraph(const graph::Graph&, std::span<const ops::ValueFacts>) override;
  void Set(int o, DType dtype, const ops::BoundedShape& shape) override;
  void SetKind(int o, graph::TypeKind kind, const ops::Bound& length) override;
  void SetValues(int, const ops::BoundedValues&) override {}
  bool wants_values() const override { return false; }

 private:
  const TensorView* view(int i) const;
  /// The same with contents that the host can read, or with none.
  TensorView Readable(int i) const;

  std::span<const RunInput> inputs_;
  RunValues& slots_;
  std::span<Result> results_;
  mutable size_t used_ = 0;
  mutable std::array<int, 16> slot_input_ = {};
};

}  // namespace ullage::session
