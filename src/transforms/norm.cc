/// Decomposed normalisation over the last axis: RMS norms as exporters of language models write them, and the
/// LayerNormalization of models older than opset 17.
///
///   v = ReduceMean(Pow(x, 2)) + eps;   y = w * (x * (1 / Sqrt(v)))      and the like, Casts in between
///   d = x - ReduceMean(x);   y = d / Sqrt(ReduceMean(Pow(d, 2)) + eps) * w + b
#include <algorithm>
#include <cmath>

#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

class NormPass {
 public:
  explicit NormPass(PassContext& context) : graph_(context.graph()), lens_(context) {}

  int Run() {
    int count = 0;
    for (NodeId id : graph_.Order())
      if (graph_.node(id).alive) count += Match(id);
    return count;
  }

 private:
  /// The operand of a two-input node that is not `other`; kNone when neither or both are.
  static ValueId Partner(const Node& n, ValueId other) {
    if (n.input(0) == n.input(1)) return kNone;
    return n.input(0) == other ? n.input(1) : n.input(1) == other ? n.input(0) : kNone;
  }

  /// 1 / sqrt(v + eps) or sqrt(v + eps); gives v.
  struct Root {
    ValueId mean = kNone;
    double epsilon = 0;
    bool inverse = false;
  };
  std::optional<Root> ReadRoot(ValueId r) {
    Root root;
    ValueId sum = kNone;
    if (const Node* div = lens_.Inner(r, "Div"); div && lens_.Scalar(div->input(0)) == 1.0) {
      taken_.push_back(div->id);
      root.inverse = true;
      r = div->input(1);
    } else if (const Node* reciprocal = lens_.Inner(r, "Reciprocal")) {
      taken_.push_back(reciprocal->id);
      root.inverse = true;
      r = reciprocal->input(0);
    }
    if (const Node* sqrt = lens_.Inner(r, "Sqrt")) {
      taken_.push_back(sqrt->id);
      sum = sqrt->input(0);
    } else if (const Node* pow = lens_.Inner(r, "Pow"); pow && !root.inverse) {
      const auto exponent = lens_.Scalar(pow->input(1));
      if (!exponent || std::abs(*exponent) != 0.5) return {};
      taken_.push_back(pow->id);
      root.inverse = *exponent < 0;
      sum = pow->input(0);
    }
    const Node* add = lens_.Inner(sum, "Add");
    if (!add) return {};
    for (size_t i = 0; i < 2; ++i) {
      const auto eps = lens_.Scalar(add->input(i));
      if (!eps || !(*eps >= 0) || *eps > 1) continue;
      root.epsilon = *eps;
      root.mean = add->input(1 - i);
    }
    if (root.mean == kNone || lens_.constant(root.mean)) return {};
    taken_.push_back(add->id);
    return root;
  }

  /// What a mean over the last axis is taken of; kNone for any other.
  ValueId MeanOf(ValueId v) {
    const Node* mean = lens_.Inner(v, "ReduceMean");
    if (!mean || mean->Int("keepdims", 1) != 1) return kNone;
    const int rank = lens_.facts(mean->input(0)).shape.rank;
    const auto axes = AxesOf(lens_, *mean, 1, rank);
    if (rank < 1 || !axes || axes->size() != 1 || axes->front() != rank - 1) return kNone;
    taken_.push_back(mean->id);
    return mean->input(0);
  }

  /// What a square is taken of.
  ValueId SquareOf(ValueId v) {
    if (const Node* pow = lens_.Inner(v, "Pow"); pow && lens_.Scalar(pow->input(1)) == 2.0) {
      taken_.push_back(pow->id);
      return pow->input(0);
    }
    if (const Node* mul = lens_.Inner(v, "Mul"); mul && mul->input(0) == mul->input(1)) {
      taken_.push_back(mul->id);
      return mul->input(0);
    }
    return kNone;
  }

  struct Normalized {
    ValueId x = kNone;
    double epsilon = 0;
    bool centred = false;
  };

  /// `v` is something divided by the root of its own mean square.
  std::optional<Normalized> ReadNormalized(ValueId v) {
    const Node* scale = lens_.Inner(v, "Mul");
    const bool divides = !scale;
    if (!scale) scale = lens_.Inner(v, "Div");
    if (!scale) return {};
    for (size_t side = 0; side < (divides ? 1u : 2u); ++side) {
      const size_t mark = taken_.size();
      taken_.push_back(scale->id);
      const ValueId x = scale->input(side);
      const auto root = ReadRoot(scale->input(1 - side));
      if (root && root->inverse != divides) {
        const ValueId square = MeanOf(root->mean);
        if (square != kNone && SquareOf(square) == x) return Centred({x, root->epsilon, false});
      }
      taken_.resize(mark);
    }
    return {};
  }

  /// Looks whether x is y minus the mean of y.
  Normalized Centred(Normalized n) {
    const size_t mark = taken_.size();
    const Node* sub = lens_.From(n.x, "Sub");
    if (!sub || graph_.IsOutput(n.x)) return n;
    // The difference is read by the square (once or twice) and by the quotient, which are all taken already.
    for (NodeId user : graph_.value(n.x).consumers)
      if (std::find(taken_.begin(), taken_.end(), user) == taken_.end()) return n;
    taken_.push_back(sub->id);
    if (MeanOf(sub->input(1)) == sub->input(0) && sub->input(0) != kNone) {
      n.x = sub->input(0);
      n.centred = true;
    } else {
      taken_.resize(mark);
    }
    return n;
  }

  /// A weight of [D] for rows of D elements.
  bool IsRow(ValueId v, ValueId x) const {
    const auto &w = lens_.facts(v).shape, &data = lens_.facts(x).shape;
    return w.rank == 1 && data.rank >= 1 && ops::Same(w[0], data.at(-1));
  }

  bool Match(NodeId id) {
    const Node& product = graph_.node(id);
    if (!product.Is("", "Mul") || !product.has_output(0)) return false;
    for (size_t side = 0; side < 2; ++side) {
      taken_ = {id};
      const ValueId weight = product.input(side);
      ValueId v = product.input(1 - side);
      const Node* narrow = lens_.Inner(v, "Cast");
      if (narrow) {
        taken_.push_back(narrow->id);
        v = narrow->input(0);
      }
      const auto n = ReadNormalized(v);
      if (!n || !IsRow(weight, n->x)) continue;
      return n->centred ? FuseLayer(product, *n, weight, narrow != nullptr) : FuseRms(product, *n, weight);
    }
    return false;
  }

  bool FuseRms(const Node& product, const Normalized& n, ValueId weight) {
    ValueId x = n.x, y = product.output(0);
    DType in = lens_.dtype(x), out = lens_.dtype(y);
    // The widening cast before it, and the narrowing one after it, belong to the operator.
    const Node* widen = lens_.From(x, "Cast");
    if (widen && IsFloating(lens_.dtype(widen->input(0)))) {
      const DType narrow = lens_.dtype(widen->input(0));
      const Node* after = lens_.OneUse(y) ? &graph_.node(graph_.value(y).consumers.front()) : nullptr;
      if (narrow != out && after && after->Is("", "Cast") && lens_.dtype(after->output(0)) == narrow) {
        taken_.push_back(after->id);
        y = after->output(0);
        out = narrow;
      }
      if (narrow == out) {
        taken_.push_back(widen->id);
        x = widen->input(0);
        in = narrow;
      }
    }
    if (in != out || !IsFloating(in) || in == DType::kDouble) return false;
    graph::Patch patch(graph_, "norm");
    Node& norm = Fuse(patch, "", "SimplifiedLayerNormalization", "RMSNorm", {x, weight}, {y}, taken_);
    norm.attributes["axis"] = int64_t{-1};
    norm.attributes["epsilon"] = static_cast<float>(n.epsilon);
    norm.attributes["stash_type"] = int64_t{1};
    return true;
  }

  bool FuseLayer(const Node& product, const Normalized& n, ValueId weight, bool narrowed) {
    const DType type = lens_.dtype(n.x);
    if (narrowed || lens_.dtype(weight) != type || !IsFloating(type) || type == DType::kDouble) return false;
    std::vector<ValueId> inputs = {n.x, weight};
    ValueId y = product.output(0);
    if (lens_.OneUse(y)) {
      const Node& add = graph_.node(graph_.value(y).consumers.front());
      const ValueId bias = add.Is("", "Add") ? Partner(add, y) : kNone;
      if (bias != kNone && IsRow(bias, n.x)) {
        taken_.push_back(add.id);
        inputs.push_back(bias);
        y = add.output(0);
      }
    }
    graph::Patch patch(graph_, "norm");
    Node& norm = Fuse(patch, "", "LayerNormalization", "LayerNorm", std::move(inputs), {y}, taken_);
    norm.attributes["axis"] = int64_t{-1};
    norm.attributes["epsilon"] = static_cast<float>(n.epsilon);
    return true;
  }

  graph::Graph& graph_;
  Lens lens_;
  std::vector<NodeId> taken_;  // nodes of the match in hand
};

}  // namespace

int FuseNorm(PassContext& context) {
  return NormPass(context).Run();
}

}  // namespace ullage::transforms
