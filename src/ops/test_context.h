/// A ShapeContext for tests: facts are given and kept in fixed arrays, so that a rule's own allocations can
/// be counted.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "ops/catalogue.h"

namespace ullage::ops {

class TestContext : public ShapeContext {
 public:
  static constexpr int kMaxValues = 24;

  explicit TestContext(const graph::Node& node, SymbolTable* table = nullptr, bool at_run_time = false)
      : ShapeContext(node, BoundMath(table)), at_run_time_(at_run_time) {}

  void Input(int i, DType dtype, const BoundedShape& shape) {
    inputs_[static_cast<size_t>(i)].dtype = dtype;
    inputs_[static_cast<size_t>(i)].shape = shape;
  }
  /// Input i is a sequence or an optional of tensors with the facts that Input() gave.
  void InputKind(int i, graph::TypeKind kind, const Bound& length) {
    inputs_[static_cast<size_t>(i)].kind = kind;
    inputs_[static_cast<size_t>(i)].length = length;
  }
  void InputValues(int i, const BoundedValues& values) {
    inputs_[static_cast<size_t>(i)].values = values;
    inputs_[static_cast<size_t>(i)].known = true;
  }
  /// The contents of input i are unknown.
  void Forget(int i) {
    inputs_[static_cast<size_t>(i)].known = false;
    inputs_[static_cast<size_t>(i)].doubles.reset();
  }
  void InputDoubles(int i, std::vector<double> doubles) {
    inputs_[static_cast<size_t>(i)].doubles = std::move(doubles);
  }

  bool is_set(int o) const { return outputs_[static_cast<size_t>(o)].set; }
  DType out_dtype(int o) const { return outputs_[static_cast<size_t>(o)].dtype; }
  const BoundedShape& out_shape(int o) const { return outputs_[static_cast<size_t>(o)].shape; }
  /// Null when the rule said nothing.
  const BoundedValues* out_values(int o) const {
    const Slot& s = outputs_[static_cast<size_t>(o)];
    return s.known ? &s.values : nullptr;
  }
  graph::TypeKind out_kind(int o) const { return outputs_[static_cast<size_t>(o)].kind; }
  const Bound& out_length(int o) const { return outputs_[static_cast<size_t>(o)].length; }

  const BoundedShape& shape(int i) const override { return inputs_[static_cast<size_t>(i)].shape; }
  DType dtype(int i) const override { return inputs_[static_cast<size_t>(i)].dtype; }
  graph::TypeKind kind(int i) const override { return inputs_[static_cast<size_t>(i)].kind; }
  Bound length(int i) const override { return inputs_[static_cast<size_t>(i)].length; }
  const BoundedValues* values(int i) const override {
    const Slot& s = inputs_[static_cast<size_t>(i)];
    return s.known ? &s.values : nullptr;
  }
  const graph::Constant* constant(int) const override { return nullptr; }
  int doubles(int i, std::span<double> out) const override {
    const Slot& s = inputs_[static_cast<size_t>(i)];
    if (s.doubles && s.doubles->size() <= out.size()) {
      std::copy(s.doubles->begin(), s.doubles->end(), out.begin());
      return static_cast<int>(s.doubles->size());
    }
    if (!s.known || !s.values.exact() || static_cast<size_t>(s.values.count) > out.size()) return -1;
    for (int k = 0; k < s.values.count; ++k)
      out[static_cast<size_t>(k)] = static_cast<double>(s.values[k].lower);
    return s.values.count;
  }
  std::vector<ValueFacts> RunSubgraph(const graph::Graph&, std::span<const ValueFacts>) override {
    Throw(Code::kUnsupported, "no sub-graphs in this test");
  }
  void Set(int o, DType dtype, const BoundedShape& shape) override {
    Slot& s = outputs_[static_cast<size_t>(o)];
    s.dtype = dtype;
    s.shape = shape;
    s.set = true;
  }
  void SetKind(int o, graph::TypeKind kind, const Bound& length) override {
    outputs_[static_cast<size_t>(o)].kind = kind;
    outputs_[static_cast<size_t>(o)].length = length;
  }
  void SetValues(int o, const BoundedValues& values) override {
    Slot& s = outputs_[static_cast<size_t>(o)];
    s.values = values;
    s.known = s.shape.exact();
  }
  bool wants_values() const override { return !at_run_time_; }
  Bound Fresh(int64_t lower, int64_t upper) override {
    return math().table() ? math().table()->Fresh("fresh", lower, upper) : Bound::Between(lower, upper);
  }

 private:
  struct Slot {
    DType dtype = DType::kUndefined;
    BoundedShape shape;
    BoundedValues values;
    bool known = false;
    bool set = false;
    std::optional<std::vector<double>> doubles;
    graph::TypeKind kind = graph::TypeKind::kTensor;
    Bound length;
  };
  std::array<Slot, kMaxValues> inputs_, outputs_;
  bool at_run_time_;
};

}  // namespace ullage::ops
