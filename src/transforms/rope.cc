/// Decomposed rotary embedding in halves:
///   x * cos + concat(-x[.., h:], x[.., :h]) * sin      ->  ullage:ApplyRotary(x, cos, sin)
/// with cos and sin [B|1, S, R], computed in the graph and spread over the heads by an Unsqueeze. Where only
/// the first R of H elements are turned and the rest is appended again, the whole becomes one node as well.
#include <algorithm>

#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

class RotaryPass {
 public:
  explicit RotaryPass(PassContext& context) : graph_(context.graph()), lens_(context) {}

  int Run() {
    int count = 0;
    for (NodeId id : graph_.Order())
      if (graph_.node(id).alive && graph_.node(id).Is("", "Add")) count += Match(id);
    return count;
  }

 private:
  /// [first, last) of the last axis that a forward Slice takes.
  struct Range {
    ValueId of = kNone;
    int64_t first = 0, last = 0;
  };
  std::optional<Range> ReadSlice(ValueId v) const {
    const Node* n = lens_.From(v, "Slice");
    if (!n) return {};
    const auto& shape = lens_.facts(n->input(0)).shape;
    const int64_t width = lens_.LastDim(n->input(0));
    std::optional<std::vector<int64_t>> first, last, axes, steps;
    if (n->opset >= 10 || n->opset == 0) {
      first = lens_.Ints(n->input(1));
      last = lens_.Ints(n->input(2));
      axes = lens_.Ints(n->input(3));
      steps = lens_.Ints(n->input(4));
      if (n->has_input(4) && (!steps || steps->size() != 1 || steps->front() != 1)) return {};
    } else {
      first = n->Ints("starts");
      last = n->Ints("ends");
      axes = n->Ints("axes");
    }
    if (width < 0 || !first || !last || !axes || first->size() != 1 || last->size() != 1 ||
        axes->size() != 1 || AxisOf(axes->front(), shape.rank) != shape.rank - 1)
      return {};
    const auto clamp = [&](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + width : i, 0, width); };
    return Range{n->input(0), clamp(first->front()), clamp(last->front())};
  }

  /// As ReadSlice, for the outputs of a Split along the last axis, too.
  std::optional<Range> ReadPart(ValueId v) const {
    const Node* split = lens_.From(v, "Split");
    if (!split) return ReadSlice(v);
    const auto& shape = lens_.facts(split->input(0)).shape;
    if (shape.rank < 1 || AxisOf(split->Int("axis", 0), shape.rank) != shape.rank - 1) return {};
    int64_t at = 0;
    for (ValueId part : split->outputs) {
      const int64_t width = lens_.LastDim(part);
      if (width < 0) return {};
      if (part == v) return Range{split->input(0), at, at + width};
      at += width;
    }
    return {};
  }

  /// The value whose halves are swapped, the second one negated.
  ValueId ReadRotated(ValueId v) {
    const Node* concat = lens_.Inner(v, "Concat");
    if (!concat || concat->inputs.size() != 2) return kNone;
    const int rank = lens_.facts(v).shape.rank;
    if (rank < 1 || AxisOf(concat->Int("axis", 0), rank) != rank - 1) return kNone;
    const Node* neg = lens_.Inner(concat->input(0), "Neg");
    if (!neg) return kNone;
    const auto high = ReadPart(neg->input(0)), low = ReadPart(concat->input(1));
    if (!high || !low || high->of != low->of) return kNone;
    const int64_t width = lens_.LastDim(high->of);
    if (width % 2 != 0 || low->first != 0 || low->last != width / 2 || high->first != width / 2 ||
        high->last != width)
      return kNone;
    for (const Node* n : {concat, neg, graph_.ProducerOf(neg->input(0)), graph_.ProducerOf(concat->input(1))})
      taken_.push_back(n->id);
    return high->of;
  }

  /// The [B, S, R] behind a table [B, 1, S, R].
  ValueId Table(ValueId v) const {
    const Node* n = lens_.From(v, "Unsqueeze");
    if (!n || lens_.facts(n->input(0)).shape.rank != 3) return kNone;
    const auto axes = AxesOf(lens_, *n, 1, 4);
    return axes && *axes == std::vector<int64_t>{1} ? n->input(0) : kNone;
  }

  bool Match(NodeId id) {
    const Node& sum = graph_.node(id);
    if (!sum.has_output(0)) return false;
    for (size_t side = 0; side < 2; ++side) {
      const Node* plain = lens_.Inner(sum.input(side), "Mul");
      const Node* turned = lens_.Inner(sum.input(1 - side), "Mul");
      if (!plain || !turned) continue;
      for (size_t s = 0; s < 2; ++s) {
        taken_ = {id, plain->id, turned->id};
        const ValueId x = ReadRotated(turned->input(s));
        if (x == kNone) continue;
        const ValueId sin = Table(turned->input(1 - s));
        const ValueId cos = plain->input(0) == x   ? Table(plain->input(1))
                            : plain->input(1) == x ? Table(plain->input(0))
                                                   : kNone;
        if (sin == kNone || cos == kNone) continue;
        const auto& shape = lens_.facts(x).shape;
        const int64_t width = lens_.LastDim(x);
        const DType type = lens_.dtype(x);
        if (shape.rank != 4 || lens_.LastDim(cos) != width || lens_.LastDim(sin) != width ||
            !lens_.SameShape(cos, sin) || lens_.dtype(cos) != type || lens_.dtype(sin) != type ||
            !IsFloating(type) || type == DType::kDouble)
          continue;
        Apply(sum, x, cos, sin, width);
        return true;
      }
    }
    return false;
  }

  void Apply(const Node& sum, ValueId x, ValueId cos, ValueId sin, int64_t width) {
    ValueId y = sum.output(0);
    // Only a part was turned: take the whole, when the rest is appended again.
    if (const Node* user = lens_.OneUse(y) ? &graph_.node(graph_.value(y).consumers.front()) : nullptr) {
      const auto part = ReadPart(x);
      if (part && part->first == 0 && part->last == width && user->Is("", "Concat") &&
          user->inputs.size() == 2 && user->input(0) == y && AxisOf(user->Int("axis", 0), 4) == 3) {
        const auto rest = ReadPart(user->input(1));
        if (rest && rest->of == part->of && rest->first == width && rest->last == lens_.LastDim(part->of)) {
          taken_.insert(taken_.end(),
                        {user->id, graph_.ProducerOf(x)->id, graph_.ProducerOf(user->input(1))->id});
          x = part->of;
          y = user->output(0);
        }
      }
    }
    graph::Patch patch(graph_, "rope");
    Fuse(patch, kUllageDomain, "ApplyRotary", "Rotary", {x, cos, sin}, {y}, taken_);
  }

  graph::Graph& graph_;
  Lens lens_;
  std::vector<NodeId> taken_;
};

}  // namespace

int FuseRotary(PassContext& context) {
  return RotaryPass(context).Run();
}

}  // namespace ullage::transforms
