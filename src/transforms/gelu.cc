/// Decomposed GELU, in any order of its factors:
///   0.5 * x * (1 + erf(x / sqrt(2)))                                  -> com.microsoft:Gelu
///   0.5 * x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))           -> com.microsoft:FastGelu
#include <cmath>

#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

class GeluPass {
 public:
  explicit GeluPass(PassContext& context) : graph_(context.graph()), lens_(context) {}

  int Run() {
    int count = 0;
    for (NodeId id : graph_.Order())
      if (graph_.node(id).alive) count += Match(id);
    return count;
  }

 private:
  /// A product taken apart: a number, and the other factors.
  struct Product {
    double scale = 1;
    std::vector<ValueId> factors;
  };

  static bool Near(double a, double b) { return std::abs(a - b) <= 1e-3 * std::abs(b); }

  /// Takes apart the product that node `id` computes; parts that somebody else reads, and `stop`, stay whole.
  void TakeApart(NodeId id, Product& product, int depth = 0) {
    taken_.push_back(id);
    const Node& n = graph_.node(id);
    const bool divides = n.op == "Div";
    for (size_t i = 0; i < 2; ++i) {
      const ValueId v = n.input(i);
      if (const auto s = lens_.Scalar(v); s && (i == 0 || !divides || *s != 0)) {
        product.scale = divides && i == 1 ? product.scale / *s : product.scale * *s;
        continue;
      }
      const Node* inner = depth < 3 && !(divides && i == 1) ? InnerProduct(v) : nullptr;
      if (inner)
        TakeApart(inner->id, product, depth + 1);
      else
        product.factors.push_back(v);
    }
  }

  /// A Mul, or a Div by a number, that only the pattern reads.
  const Node* InnerProduct(ValueId v) const {
    const Node* n = lens_.Inner(v, "Mul");
    if (!n) n = lens_.Inner(v, "Div");
    return n && IsProduct(*n) ? n : nullptr;
  }
  bool IsProduct(const Node& n) const {
    return n.Is("", "Mul") || (n.Is("", "Div") && lens_.Scalar(n.input(1)).value_or(0) != 0);
  }

  /// x of 1 + f(x); sets `tanh`.
  ValueId OnePlus(ValueId v, bool* tanh) {
    const Node* add = lens_.Inner(v, "Add");
    if (!add) return kNone;
    for (size_t i = 0; i < 2; ++i) {
      if (lens_.Scalar(add->input(i)) != 1.0) continue;
      const ValueId f = add->input(1 - i);
      const Node* erf = lens_.Inner(f, "Erf");
      const Node* th = lens_.Inner(f, "Tanh");
      if (!erf && !th) continue;
      *tanh = th != nullptr;
      taken_.push_back(add->id);
      taken_.push_back((erf ? erf : th)->id);
      return (erf ? erf : th)->input(0);
    }
    return kNone;
  }

  /// v is x / sqrt(2).
  bool IsErfArgument(ValueId v, ValueId x) {
    const Node* n = InnerProduct(v);
    if (!n) return false;
    Product p;
    TakeApart(n->id, p);
    return p.factors == std::vector<ValueId>{x} && Near(p.scale, std::sqrt(0.5));
  }

  /// v is sqrt(2/pi) * (x + 0.044715 x^3).
  bool IsTanhArgument(ValueId v, ValueId x) {
    const Node* n = InnerProduct(v);
    if (!n) return false;
    Product p;
    TakeApart(n->id, p);
    if (p.factors.size() != 1 || !Near(p.scale, std::sqrt(2 / M_PI))) return false;
    const Node* add = lens_.Inner(p.factors[0], "Add");
    if (!add) return false;
    taken_.push_back(add->id);
    const ValueId cube = add->input(0) == x ? add->input(1) : add->input(1) == x ? add->input(0) : kNone;
    const Node* scaled = cube == kNone ? nullptr : InnerProduct(cube);
    if (!scaled) return false;
    Product c;
    TakeApart(scaled->id, c);
    if (!Near(c.scale, 0.044715)) return false;
    if (c.factors == std::vector<ValueId>{x, x, x}) return true;
    const Node* pow = c.factors.size() == 1 ? lens_.Inner(c.factors[0], "Pow") : nullptr;
    if (!pow || pow->input(0) != x || lens_.Scalar(pow->input(1)) != 3.0) return false;
    taken_.push_back(pow->id);
    return true;
  }

  bool Match(NodeId id) {
    const Node& root = graph_.node(id);
    if (!IsProduct(root) || !root.has_output(0)) return false;
    taken_.clear();
    Product p;
    TakeApart(id, p);
    if (p.factors.size() != 2 || !Near(p.scale, 0.5)) return false;
    for (size_t i = 0; i < 2; ++i) {
      const ValueId x = p.factors[1 - i];
      const size_t mark = taken_.size();
      bool tanh = false;
      const ValueId argument = OnePlus(p.factors[i], &tanh);
      if (argument != kNone && (tanh ? IsTanhArgument(argument, x) : IsErfArgument(argument, x))) {
        const DType type = lens_.dtype(x);
        if (!IsFloating(type) || type == DType::kDouble) return false;
        graph::Patch patch(graph_, "gelu");
        Fuse(patch, kMsDomain, tanh ? "FastGelu" : "Gelu", "Gelu", {x}, {root.output(0)}, taken_);
        return true;
      }
      taken_.resize(mark);
    }
    return false;
  }

  graph::Graph& graph_;
  Lens lens_;
  std::vector<NodeId> taken_;
};

}  // namespace

int FuseGelu(PassContext& context) {
  return GeluPass(context).Run();
}

}  // namespace ullage::transforms
