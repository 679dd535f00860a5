/// Sizes and small integer tensors, by what the facts prove: known ones become constants, a size is read from
/// the earliest tensor that has it, and equal ones are computed once. Most nodes of a traced model go here.
#include <algorithm>
#include <map>

#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

using ops::Bound;
using ops::Same;

class ShapeFolder {
 public:
  explicit ShapeFolder(PassContext& context) : context_(context), graph_(context.graph()), lens_(context) {}

  int Run() {
    int count = 0;
    for (NodeId id : graph_.Order()) count += MeanZero(id);
    if (count > 0) context_.Changed();
    for (NodeId id : graph_.Order()) count += FoldExact(id);
    for (NodeId id : graph_.Order()) count += Hoist(id);
    if (count > 0) {
      graph::RemoveDeadNodes(graph_);
      context_.Changed();
    }
    int merged = 0;
    for (NodeId id : graph_.Order()) merged += MergeEqual(id);
    for (NodeId id : graph_.Order()) merged += DropNeutral(id);
    if (merged > 0) graph::RemoveDeadNodes(graph_);
    return count + merged;
  }

 private:
  static bool Plain(const Node& node) {
    const ops::OpInfo* op = ops::FindOp(node.domain, node.op, node.opset);
    return op && !op->stateful && node.captures.empty();
  }

  /// Where heads are repeated (Unsqueeze(2), Expand, Reshape to [B, N, T, H]), a T of 0 can only mean "no
  /// rows": copying the dimension of the input instead, as Reshape may, would ask for elements that there are
  /// not.
  bool MeanZero(NodeId id) {
    const Node& reshape = graph_.node(id);
    if (!reshape.Is("", "Reshape") || reshape.opset < 14 || reshape.Int("allowzero", 0) != 0) return false;
    const auto repeated = ReadRepeat(lens_, reshape);
    if (!repeated || ops::Same(lens_.facts(reshape.output(0)).shape[2], repeated->rows)) return false;
    graph_.node(id).attributes["allowzero"] = int64_t{1};
    return true;
  }

  /// A result that is the same in every run.
  bool FoldExact(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.outputs.size() != 1 || !node.has_output(0) || !Plain(node)) return false;
    const ValueId v = node.output(0);
    const auto& f = lens_.facts(v);
    const bool makeable = f.dtype == DType::kInt64 || f.dtype == DType::kInt32 || f.dtype == DType::kBool ||
                          f.dtype == DType::kFloat;
    if (!makeable || !f.shape.exact() || graph_.IsOutput(v) || f.kind != graph::TypeKind::kTensor)
      return false;
    const auto values = lens_.Ints(v);
    if (!values) return false;
    const Shape shape = f.shape.ToShape();
    if (shape.elements() != static_cast<int64_t>(values->size())) return false;
    graph::Patch patch(graph_, "shape-folding");
    patch.Remove(id);
    if (f.dtype == DType::kFloat)
      BecomeConstant(graph_, v, graph::MakeFloats(shape, std::vector<float>(values->begin(), values->end())));
    else
      BecomeConstant(graph_, v, graph::MakeInts(shape, *values, f.dtype));
    return true;
  }

  /// A tensor and one of its axes.
  struct Size {
    ValueId value = kNone;
    int axis = 0;
  };

  const Bound* BoundOf(const Size& s) const {
    const auto& shape = lens_.facts(s.value).shape;
    return s.axis < shape.rank ? &shape[s.axis] : nullptr;
  }

  /// Products of activations keep their readers: what is above them may become one attention node.
  bool IsBarrier(const Node& node) const {
    return node.Is("", "MatMul") && !lens_.constant(node.input(0)) && !lens_.constant(node.input(1));
  }

  /// The first tensor up the graph that certainly has the same size on some axis.
  Size Earliest(Size at) const {
    for (;;) {
      const Node* from = graph_.ProducerOf(at.value);
      const Bound* wanted = BoundOf(at);
      if (!from || !wanted || IsBarrier(*from)) return at;
      Size found;
      for (ValueId u : from->inputs) {
        if (u == kNone || found.value != kNone || lens_.constant(u) ||
            lens_.facts(u).kind != graph::TypeKind::kTensor)
          continue;
        const auto& shape = lens_.facts(u).shape;
        for (int d = 0; d < shape.rank && found.value == kNone; ++d)
          if (Same(shape[d], *wanted)) found = {u, d};
      }
      if (found.value == kNone) return at;
      at = found;
    }
  }

  /// The sizes whose sum is this one; a number of its own where one is known.
  struct Sum {
    std::vector<Size> terms;
    int64_t known = 0;
  };
  bool Split(Size at, Sum& sum, int depth = 0) const {
    at = Earliest(at);
    const Bound* bound = BoundOf(at);
    if (!bound) return false;
    if (bound->exact()) {
      sum.known += bound->lower;
      return true;
    }
    const Node* from = lens_.From(at.value, "Concat");
    const int rank = lens_.facts(at.value).shape.rank;
    if (!from || depth > 3 || from->inputs.size() > 3 || AxisOf(from->Int("axis", 0), rank) != at.axis) {
      sum.terms.push_back(at);
      return true;
    }
    for (ValueId u : from->inputs) {
      if (const auto c = lens_.constant(u)) {
        if (at.axis >= c->shape.rank()) return false;
        sum.known += c->shape[at.axis];
      } else if (!Split({u, at.axis}, sum, depth + 1)) {
        return false;
      }
    }
    return sum.terms.size() <= 3;
  }

  bool Hoist(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.Is("", "Shape")) return node.has_input(0) && HoistShape(node);
    if (!node.Is("", "Gather") || !node.has_output(0) || node.Int("axis", 0) != 0) return false;
    const Node* shape = lens_.From(node.input(0), "Shape");
    const auto index = lens_.constant(node.input(1)) ? lens_.Ints(node.input(1)) : std::nullopt;
    if (!shape || shape->has_attr("start") || shape->has_attr("end") || !index || index->size() != 1)
      return false;
    const auto& known = lens_.facts(shape->input(0)).shape;
    const int64_t axis = AxisOf(index->front(), known.rank);
    if (axis < 0) return false;
    const Size here = {shape->input(0), static_cast<int>(axis)};
    Sum sum;
    if (!Split(here, sum) || sum.terms.empty()) return false;
    if (sum.terms.size() == 1 && sum.known == 0 && sum.terms[0].value == here.value &&
        sum.terms[0].axis == here.axis)
      return false;
    const Shape like = lens_.constant(node.input(1))->shape;
    const ValueId out = node.output(0);
    if (graph_.IsOutput(out)) return false;
    graph::Patch patch(graph_, "shape-folding");
    const std::vector<NodeId> from = {id, shape->id};
    ValueId total = kNone;
    for (const Size& term : sum.terms) total = Plus(patch, total, Read(patch, term, like, from), from);
    if (sum.known != 0) total = Plus(patch, total, Number(patch, sum.known, like), from);
    patch.ReplaceUses(out, total);
    return true;
  }

  ValueId Number(graph::Patch& patch, int64_t n, const Shape& like) {
    return patch.NewConstant("size", graph::MakeInts(like, std::vector<int64_t>{n}));
  }

  ValueId Plus(graph::Patch& patch, ValueId a, ValueId b, const std::vector<NodeId>& from) {
    if (a == kNone) return b;
    const auto key = std::make_pair(std::min(a, b), std::max(a, b));
    if (const auto it = sums_.find(key); it != sums_.end()) return it->second;
    const ValueId v = patch.NewValue("size", DType::kInt64);
    patch.Add("", "Add", "size", {a, b}, {v}, from);
    sums_[key] = v;
    return v;
  }

  /// An int64 of shape `like` that holds the size.
  ValueId Read(graph::Patch& patch, const Size& s, const Shape& like, const std::vector<NodeId>& from) {
    const auto key = std::make_tuple(s.value, s.axis, like.rank());
    if (const auto it = reads_.find(key); it != reads_.end()) return it->second;
    ValueId& dims = shapes_.emplace(s.value, kNone).first->second;
    if (dims == kNone) {
      dims = patch.NewValue(graph_.value(s.value).name + "/shape", DType::kInt64);
      patch.Add("", "Shape", "shape", {s.value}, {dims}, from);
    }
    const ValueId v = patch.NewValue(graph_.value(s.value).name + "/size", DType::kInt64);
    patch.Add("", "Gather", "size", {dims, Number(patch, s.axis, like)}, {v}, from);
    reads_[key] = v;
    return v;
  }

  /// Shape of a tensor with the same shape further up.
  bool HoistShape(const Node& node) {
    ValueId at = node.input(0);
    for (bool moved = true; moved;) {
      moved = false;
      const Node* from = graph_.ProducerOf(at);
      if (!from || IsBarrier(*from)) break;
      for (ValueId u : from->inputs) {
        if (u == kNone || lens_.constant(u) || !lens_.SameShape(u, at)) continue;
        at = u;
        moved = true;
        break;
      }
    }
    const bool part = node.has_attr("start") || node.has_attr("end");
    if (part) {
      // One axis only: it may be the axis of a tensor of another rank.
      const auto& known = lens_.facts(at).shape;
      if (known.rank < 0 || node.opset < 15) return Reread(node, at);
      const auto clamp = [&](int64_t i) {
        return std::clamp<int64_t>(i < 0 ? i + known.rank : i, 0, known.rank);
      };
      const int64_t first = clamp(node.Int("start", 0)), last = clamp(node.Int("end", known.rank));
      if (last - first != 1) return Reread(node, at);
      const Size s = Earliest({at, static_cast<int>(first)});
      if (s.value == at) return Reread(node, at);
      const ValueId out = node.output(0);
      const NodeId id = node.id;
      graph::Patch patch(graph_, "shape-folding");
      patch.Remove(id);
      Node& read = patch.Add("", "Shape", "size", {s.value}, {out}, {id});
      read.attributes["start"] = int64_t{s.axis};
      read.attributes["end"] = int64_t{s.axis} + 1;
      return true;
    }
    return Reread(node, at);
  }

  bool Reread(const Node& node, ValueId at) {
    if (at == node.input(0)) return false;
    graph::Patch patch(graph_, "shape-folding");
    patch.SetInput(graph_.node(node.id), 0, at);
    return true;
  }

  /// Contents that another value, computed earlier, certainly has as well.
  bool MergeEqual(NodeId id) {
    const Node& node = graph_.node(id);
    if (node.outputs.size() != 1 || !node.has_output(0) || !Plain(node)) return false;
    const ValueId v = node.output(0);
    const auto& f = lens_.facts(v);
    if (!f.values || !f.shape.exact() || f.kind != graph::TypeKind::kTensor) return false;
    std::string key = std::to_string(static_cast<int>(f.dtype)) + f.shape.ToShape().ToString();
    bool exact = true;
    for (int i = 0; i < f.values->count; ++i) {
      const Bound& b = (*f.values)[i];
      if (b.exact()) {
        key += ";" + std::to_string(b.lower);
      } else if (b.expr != ops::kNoExpr) {
        key += ";e" + std::to_string(b.expr);
        exact = false;
      } else {
        return false;
      }
    }
    if (exact) return false;
    const auto [it, fresh] = equal_.emplace(key, v);
    if (fresh) return false;
    graph::Patch patch(graph_, "shape-folding");
    return Redirect(patch, v, it->second);
  }

  /// Operators that leave their input as it is for these sizes: Reshape and Expand to the shape that the
  /// input has, a Slice of everything, a Concat of one.
  bool DropNeutral(NodeId id) {
    const Node& node = graph_.node(id);
    const bool candidate = node.Is("", "Reshape") || node.Is("", "Expand") || node.Is("", "Slice") ||
                           (node.Is("", "Concat") && node.inputs.size() == 1);
    if (!candidate || !node.has_input(0) || !node.has_output(0) || lens_.constant(node.input(0)))
      return false;
    if (node.op == "Slice" && !ForwardSlice(node)) return false;
    const ValueId in = node.input(0), out = node.output(0);
    if (!lens_.SameShape(in, out)) return false;
    graph::Patch patch(graph_, "shape-folding");
    if (!Redirect(patch, out, in)) return false;
    patch.Remove(id);
    return true;
  }

  /// All steps are 1: with a result of the input's size, that is everything, in order.
  bool ForwardSlice(const Node& node) const {
    if (node.opset < 10) return true;
    if (!node.has_input(4)) return true;
    const auto steps = lens_.Ints(node.input(4));
    return steps && std::all_of(steps->begin(), steps->end(), [](int64_t s) { return s == 1; });
  }

  PassContext& context_;
  graph::Graph& graph_;
  Lens lens_;
  std::map<std::tuple<ValueId, int, int>, ValueId> reads_;
  std::map<ValueId, ValueId> shapes_;
  std::map<std::pair<ValueId, ValueId>, ValueId> sums_;
  std::map<std::string, ValueId> equal_;
};

}  // namespace

int FoldShapes(PassContext& context) {
  return ShapeFolder(context).Run();
}

}  // namespace ullage::transforms
