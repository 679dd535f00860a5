/// Attention over a cache that grows by concatenation:
///   K = Concat(past_k, k);  V = Concat(past_v, v);  Y = softmax(q K^T * scale + bias) V
/// with each key/value head repeated for its group of query heads, or not, and written out or as
/// com.microsoft:MultiHeadAttention, becomes ullage:CachedAttention, which appends to the cache in place.
#include <algorithm>
#include <cmath>

#include "transforms/passes.h"
#include "transforms/rewrite.h"

namespace ullage::transforms {
namespace {

class AttentionPass {
 public:
  explicit AttentionPass(PassContext& context) : graph_(context.graph()), lens_(context) {}

  int Run() {
    int count = 0;
    for (NodeId id : graph_.Order()) {
      const Node& node = graph_.node(id);
      if (node.alive && node.Is("", "MatMul")) count += Match(id);
      if (node.alive && node.Is(kMsDomain, "MultiHeadAttention")) count += MatchMultiHead(id);
    }
    return count;
  }

 private:
  struct Cache {
    ValueId present = kNone, past = kNone, added = kNone;
  };

  void Take(const Node* n) { taken_.push_back(n->id); }

  /// Strips products with (or quotients by) numbers.
  ValueId Unscaled(ValueId v, double& scale) {
    for (;;) {
      const Node* mul = lens_.Inner(v, "Mul");
      const Node* n = mul ? mul : lens_.Inner(v, "Div");
      const std::optional<double> left = n ? lens_.Scalar(n->input(0)) : std::nullopt;
      const std::optional<double> right = n ? lens_.Scalar(n->input(1)) : std::nullopt;
      if (right && *right != 0) {
        scale = mul ? scale * *right : scale / *right;
      } else if (mul && left && *left != 0) {
        scale *= *left;
      } else {
        return v;
      }
      Take(n);
      v = n->input(right ? 0 : 1);
    }
  }

  bool IsSwap(const Node* n) const { return n && n->Ints("perm") == std::vector<int64_t>{0, 1, 3, 2}; }

  /// Strips the repetition of heads.
  ValueId Unrepeated(ValueId v) {
    const Node* reshape = lens_.Inner(v, "Reshape");
    const auto repeat = reshape ? ReadRepeat(lens_, *reshape) : std::nullopt;
    if (!repeat) return v;
    taken_.insert(taken_.end(), {reshape->id, repeat->expand, repeat->unsqueeze});
    return repeat->source;
  }

  /// Past and new rows behind a cache that only the attention reads (and that may be a result of the model).
  std::optional<Cache> ReadCache(ValueId v) {
    const Node* concat = lens_.From(v, "Concat");
    if (!concat || concat->inputs.size() != 2) return {};
    const auto& shape = lens_.facts(v).shape;
    if (shape.rank != 4 || AxisOf(concat->Int("axis", 0), 4) != 2 || !shape[1].exact()) return {};
    // What is given is the past: a constant would not grow.
    if (lens_.constant(concat->input(0)) || lens_.constant(concat->input(1))) return {};
    Take(concat);
    return Cache{v, concat->input(0), concat->input(1)};
  }

  bool OnlyTaken(ValueId v) const {
    const auto& users = graph_.value(v).consumers;
    return std::all_of(users.begin(), users.end(), [&](NodeId n) {
      return std::find(taken_.begin(), taken_.end(), n) != taken_.end() || graph_.node(n).Is("", "Shape");
    });
  }

  /// The softmax over the last axis behind its guard against rows without any key, and casts around it.
  ValueId ReadSoftmax(ValueId v) {
    if (const Node* where = lens_.Inner(v, "Where")) {
      const Node* is_nan = lens_.Inner(where->input(0), "IsNaN");
      if (!is_nan || is_nan->input(0) != where->input(2) || lens_.Scalar(where->input(1)) != 0.0)
        return kNone;
      v = where->input(2);
      if (graph_.value(v).consumers.size() != 2 || graph_.IsOutput(v)) return kNone;
      Take(where);
      Take(is_nan);
    } else if (!lens_.OneUse(v)) {
      return kNone;
    }
    const Node* cast = lens_.From(v, "Cast");
    if (cast) {
      Take(cast);
      v = cast->input(0);
      if (!lens_.OneUse(v)) return kNone;
    }
    const Node* softmax = lens_.From(v, "Softmax");
    if (!softmax) return kNone;
    // Before version 13 the axis meant all axes from there on, which is the same for the last one.
    const int64_t axis = softmax->Int("axis", softmax->opset < 13 && softmax->opset > 0 ? 1 : -1);
    if (AxisOf(axis, 4) != 3) return kNone;
    Take(softmax);
    ValueId x = softmax->input(0);
    if (cast) {
      const Node* widen = lens_.Inner(x, "Cast");
      if (!widen || lens_.dtype(widen->input(0)) != lens_.dtype(cast->output(0))) return kNone;
      Take(widen);
      x = widen->input(0);
    }
    return x;
  }

  /// Splits bias and scores; `scores` is the product of q and K, scaled or capped.
  bool ReadScores(ValueId v) {
    if (const Node* add = lens_.Inner(v, "Add")) {
      const size_t taken = taken_.size();
      for (size_t i = 0; i < 2; ++i) {
        Take(add);
        bias_ = add->input(1 - i);
        if (ReadProduct(add->input(i))) return true;
        taken_.resize(taken);
      }
      bias_ = kNone;
      return false;
    }
    return ReadProduct(v);
  }

  bool ReadProduct(ValueId v) {
    scale_ = 1;
    softcap_ = 0;
    double after = 1;
    ValueId inner = Unscaled(v, after);
    if (const Node* tanh = lens_.Inner(inner, "Tanh")) {
      // c * tanh(s / c)
      Take(tanh);
      softcap_ = after;
      double before = 1;
      inner = Unscaled(tanh->input(0), before);
      scale_ = before * after;
    } else {
      scale_ = after;
    }
    const Node* product = lens_.Inner(inner, "MatMul");
    if (!product) return false;
    Take(product);
    q_ = Unscaled(product->input(0), scale_);
    ValueId k = Unscaled(product->input(1), scale_);
    const Node* swap = lens_.Inner(k, "Transpose");
    if (!IsSwap(swap)) return false;
    Take(swap);
    k = Unscaled(swap->input(0), scale_);
    keys_ = k;
    return true;
  }

  bool Match(NodeId id) {
    const Node& last = graph_.node(id);
    taken_ = {id};
    bias_ = kNone;
    const auto& out = lens_.facts(last.output(0)).shape;
    if (out.rank != 4) return false;
    const ValueId x = ReadSoftmax(last.input(0));
    if (x == kNone || !ReadScores(x)) return false;
    const auto &q_shape = lens_.facts(q_).shape, &wide = lens_.facts(keys_).shape;
    if (q_shape.rank != 4 || !q_shape[1].exact()) return false;
    const auto caches = ReadCaches(last.input(1), q_shape[1].lower, q_shape[3]);
    if (!caches || !wide[1].exact() || wide[1].lower != q_shape[1].lower) return false;
    const auto& [k, v] = *caches;
    graph::Patch patch(graph_, "attention");
    Build(patch, q_, k, v, last.output(0), scale_);
    return true;
  }

  /// The caches behind keys_ and `values`, fit for `heads` query heads of `size` elements.
  std::optional<std::pair<Cache, Cache>> ReadCaches(ValueId values, int64_t heads, const ops::Bound& size) {
    const auto k = ReadCache(Unrepeated(keys_)), v = ReadCache(Unrepeated(values));
    if (!k || !v || k->present == v->present || !OnlyTaken(k->present) || !OnlyTaken(v->present)) return {};
    const auto &k_shape = lens_.facts(k->added).shape, &v_shape = lens_.facts(v->added).shape;
    if (k_shape.rank != 4 || v_shape.rank != 4 || !k_shape[1].exact() || !v_shape[1].exact()) return {};
    const int64_t groups = k_shape[1].lower;
    if (groups < 1 || heads % groups != 0 || v_shape[1].lower != groups || !ops::Same(size, k_shape[3]))
      return {};
    const DType type = lens_.dtype(q_);
    if (!IsFloating(type) || type == DType::kDouble) return {};
    for (ValueId in : {k->past, v->past, k->added, v->added})
      if (lens_.dtype(in) != type) return {};
    if (bias_ != kNone) {
      const int rank = lens_.facts(bias_).shape.rank;
      if (lens_.dtype(bias_) != type || rank < 0 || rank > 4) return {};
    }
    // The caches come out of the new node: nothing that it reads may come from them.
    const std::vector<NodeId> made = {graph_.value(k->present).producer, graph_.value(v->present).producer};
    for (ValueId in : {q_, k->added, v->added, k->past, v->past, bias_})
      if (in != kNone && DependsOn(graph_, in, made)) return {};
    return std::make_pair(*k, *v);
  }

  void Build(graph::Patch& patch, ValueId q, const Cache& k, const Cache& v, ValueId y, double scale) {
    std::vector<ValueId> inputs = {q, k.added, v.added, k.past, v.past};
    if (bias_ != kNone) inputs.push_back(bias_);
    Node& fused = Fuse(patch, kUllageDomain, "CachedAttention", "Attention", std::move(inputs),
                       {y, k.present, v.present}, taken_);
    fused.attributes["scale"] = static_cast<float>(scale);
    if (softcap_ != 0) fused.attributes["softcap"] = static_cast<float>(softcap_);
  }

  /// The [B, N, T, H] behind [B, T, N * H].
  ValueId FlatHeads(ValueId v) {
    const Node* reshape = lens_.Inner(v, "Reshape");
    const Node* transpose = reshape ? lens_.Inner(reshape->input(0), "Transpose") : nullptr;
    if (!transpose || transpose->Ints("perm") != std::vector<int64_t>{0, 2, 1, 3}) return kNone;
    const ValueId heads = transpose->input(0);
    const auto &flat = lens_.facts(v).shape, &wide = lens_.facts(heads).shape;
    if (flat.rank != 3 || wide.rank != 4 || !wide[1].exact() || !wide[3].exact() || !flat[2].exact() ||
        flat[2].lower != wide[1].lower * wide[3].lower || !ops::Same(flat[1], wide[2]))
      return kNone;
    Take(reshape);
    Take(transpose);
    return heads;
  }

  bool MatchMultiHead(NodeId id) {
    const Node& node = graph_.node(id);
    for (size_t i = 3; i < node.inputs.size(); ++i)
      if (i != 5 && node.has_input(i)) return false;
    for (size_t o = 1; o < node.outputs.size(); ++o)
      if (node.has_output(o)) return false;
    const int64_t heads = node.Int("num_heads", 0);
    q_ = node.input(0);
    bias_ = node.input(5);
    softcap_ = 0;
    taken_ = {id};
    const int64_t width = lens_.LastDim(q_);
    if (!node.has_output(0) || node.Int("unidirectional", 0) != 0 || lens_.facts(q_).shape.rank != 3 ||
        heads < 1 || width < 1 || width % heads != 0)
      return false;
    keys_ = FlatHeads(node.input(1));
    const ValueId values = FlatHeads(node.input(2));
    if (keys_ == kNone || values == kNone || lens_.facts(keys_).shape[1].lower != heads ||
        lens_.facts(values).shape[1].lower != heads)
      return false;
    const int64_t size = width / heads, value_size = lens_.facts(values).shape[3].lower;
    const auto caches = ReadCaches(values, heads, ops::Bound::Exactly(size));
    if (!caches) return false;
    const float given = node.Float("scale", 0);
    const double scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(size));
    const ValueId y = node.output(0);
    const DType type = lens_.dtype(q_);
    graph::Patch patch(graph_, "attention");
    patch.Remove(id);
    const auto move = [&](ValueId from, const char* reshape, const std::vector<int64_t>& shape, ValueId to) {
      // Before: [B, S, N*H] -> [B, S, N, H] -> [B, N, S, H]; after: the same way back.
      const bool before = shape.size() == 4;
      const ValueId middle = patch.NewValue(kName, type);
      const ValueId target =
          patch.NewConstant("heads", graph::MakeInts({static_cast<int64_t>(shape.size())}, shape));
      if (to == kNone) to = patch.NewValue(kName, type);
      if (before) patch.Add("", "Reshape", reshape, {from, target}, {middle}, {id});
      Node& transpose =
          patch.Add("", "Transpose", "heads", {before ? middle : from}, {before ? to : middle}, {id});
      transpose.attributes["perm"] = std::vector<int64_t>{0, 2, 1, 3};
      if (!before) patch.Add("", "Reshape", reshape, {middle, target}, {to}, {id});
      return to;
    };
    const ValueId q = move(q_, "split", {0, 0, heads, size}, kNone);
    const ValueId out = patch.NewValue(kName, type);
    Build(patch, q, caches->first, caches->second, out, scale);
    move(out, "merge", {0, 0, heads * value_size}, y);
    return true;
  }

  static constexpr const char* kName = "heads";
  graph::Graph& graph_;
  Lens lens_;
  std::vector<NodeId> taken_;
  ValueId q_ = kNone, keys_ = kNone, bias_ = kNone;
  double scale_ = 1, softcap_ = 0;
};

}  // namespace

int FuseAttention(PassContext& context) {
  return AttentionPass(context).Run();
}

}  // namespace ullage::transforms
