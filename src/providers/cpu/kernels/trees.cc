/// ai.onnx.ml: TreeEnsembleClassifier, TreeEnsembleRegressor, TreeEnsemble.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "providers/cpu/dense/tasks.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/element.h"
#include "providers/cpu/kernels/tensor_families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

enum class Branch { kLessOrEqual, kLess, kGreaterOrEqual, kGreater, kEqual, kNotEqual, kMember, kLeaf };
enum class Aggregate { kAverage, kSum, kMin, kMax };
enum class Post { kNone, kSoftmax, kLogistic, kSoftmaxZero, kProbit };

/// A node; children >= 0 are nodes, below 0 leaves -1 - child.
struct TreeNode {
  int64_t feature = 0;
  Branch branch = Branch::kLeaf;
  double value = 0;
  bool missing_is_true = false;
  int64_t when_true = 0, when_false = 0;
  std::vector<double> members;
};

struct Vote {
  int64_t target;
  double weight;
};

Branch BranchOf(const KernelInfo& info, std::string_view name) {
  static constexpr std::string_view kNames[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                                "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<Branch>(i);
  info.Unsupported("a node of mode ", name);
}
Post PostOf(const KernelInfo& info, std::string_view name) {
  static constexpr std::string_view kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<Post>(i);
  info.Unsupported("post_transform ", name);
}

float Logistic(float x) {
  const float v = 1 / (1 + std::exp(-std::abs(x)));
  return x < 0 ? 1 - v : v;
}
/// The inverse of the normal distribution, by Winitzki's approximation of the inverse error function.
float Probit(float p) {
  const float x = 2 * p - 1, log = std::log((1 - x) * (1 + x));
  const float v = 2 / (3.14159f * 0.147f) + 0.5f * log;
  const float root = std::sqrt(-v + std::sqrt(v * v - 1 / 0.147f * log));
  return 1.41421356f * (x < 0 ? -root : root);
}

void Transform(Post post, float* s, int64_t n) {
  switch (post) {
    case Post::kNone:
      return;
    case Post::kLogistic:
      for (int64_t i = 0; i < n; ++i) s[i] = Logistic(s[i]);
      return;
    case Post::kProbit:
      for (int64_t i = 0; i < n; ++i) s[i] = Probit(s[i]);
      return;
    case Post::kSoftmax:
    case Post::kSoftmaxZero: {
      const auto skipped = [&](float v) { return post == Post::kSoftmaxZero && std::abs(v) <= 1e-7f; };
      const float most = *std::max_element(s, s + n);
      float sum = 0;
      for (int64_t i = 0; i < n; ++i) {
        s[i] = skipped(s[i]) ? s[i] * std::exp(-most) : std::exp(s[i] - most);
        sum += s[i];
      }
      for (int64_t i = 0; i < n; ++i) s[i] /= sum;
      return;
    }
  }
}

/// A node's feature is compared as the tensor has it.
class Forest {
 public:
  std::vector<TreeNode> nodes;
  std::vector<std::vector<Vote>> leaves;
  std::vector<int64_t> roots;
  int64_t features = 0;

  /// Children exist, every path ends, and features are counted.
  void Check(const KernelInfo& info, int64_t targets) {
    const auto node_count = static_cast<int64_t>(nodes.size()),
               leaf_count = static_cast<int64_t>(leaves.size());
    std::vector<int> parents(nodes.size(), 0);
    const auto child = [&](int64_t c) {
      if (c >= node_count || -1 - c >= leaf_count)
        info.Unsupported("a tree refers to a node that is not there");
      if (c >= 0 && ++parents[static_cast<size_t>(c)] > 1)
        info.Unsupported("a node of a tree has two parents");
    };
    for (const TreeNode& n : nodes) {
      if (n.feature < 0) info.Unsupported("feature ", n.feature);
      features = std::max(features, n.feature + 1);
      child(n.when_true);
      child(n.when_false);
    }
    for (int64_t r : roots) child(r);  // a root has no parent: what is reached from it is a tree
    for (const auto& leaf : leaves)
      for (const Vote& v : leaf)
        if (v.target < 0 || v.target >= targets) info.Unsupported("target ", v.target, " of ", targets);
  }

  template <class T>
  const std::vector<Vote>& Find(int64_t at, const T* x) const {
    while (at >= 0) {
      const TreeNode& n = nodes[static_cast<size_t>(at)];
      at = Goes(n, static_cast<double>(Load(x[n.feature]))) ? n.when_true : n.when_false;
    }
    return leaves[static_cast<size_t>(-1 - at)];
  }

 private:
  static bool Goes(const TreeNode& n, double v) {
    if (std::isnan(v)) return n.missing_is_true;
    switch (n.branch) {
      case Branch::kLessOrEqual:
        return v <= n.value;
      case Branch::kLess:
        return v < n.value;
      case Branch::kGreaterOrEqual:
        return v >= n.value;
      case Branch::kGreater:
        return v > n.value;
      case Branch::kEqual:
        return v == n.value;
      case Branch::kNotEqual:
        return v != n.value;
      default:
        return std::find(n.members.begin(), n.members.end(), v) != n.members.end();
    }
  }
};

std::vector<double> NumbersOf(const graph::Node& n, std::string_view floats, std::string_view tensor) {
  if (const auto t = n.Tensor(tensor)) return t->AsDoubles();
  const auto v = n.FloatsView(floats);
  return {v.begin(), v.end()};
}

/// Trees as versions 1 and 3 list them: nodes by (tree, node) identifiers, weights of leaves apart.
Forest ReadNodes(const KernelInfo& info, std::string_view votes) {
  const graph::Node& n = info.node;
  const auto trees = n.IntsView("nodes_treeids"), ids = n.IntsView("nodes_nodeids"),
             features = n.IntsView("nodes_featureids"), yes = n.IntsView("nodes_truenodeids"),
             no = n.IntsView("nodes_falsenodeids"), missing = n.IntsView("nodes_missing_value_tracks_true");
  const auto values = NumbersOf(n, "nodes_values", "nodes_values_as_tensor");
  std::vector<std::string> modes;
  if (const auto it = n.attributes.find("nodes_modes"); it != n.attributes.end())
    if (const auto* list = std::get_if<std::vector<std::string>>(&it->second)) modes = *list;
  const size_t count = trees.size();
  if (ids.size() != count || features.size() != count || yes.size() != count || no.size() != count ||
      values.size() != count || modes.size() != count || (!missing.empty() && missing.size() != count))
    Throw(Code::kInvalidModel, "node ", n.name, ": the lists of nodes have different lengths");
  Forest forest;
  std::map<std::pair<int64_t, int64_t>, int64_t> index;  // to a node, or -1 - leaf
  for (size_t i = 0; i < count; ++i) {
    const bool leaf = BranchOf(info, modes[i]) == Branch::kLeaf;
    const int64_t at =
        leaf ? -1 - static_cast<int64_t>(forest.leaves.size()) : static_cast<int64_t>(forest.nodes.size());
    if (!index.emplace(std::pair{trees[i], ids[i]}, at).second)
      Throw(Code::kInvalidModel, "node ", n.name, ": tree ", trees[i], " has two nodes ", ids[i]);
    if (leaf)
      forest.leaves.emplace_back();
    else
      forest.nodes.push_back(
          {features[i], BranchOf(info, modes[i]), values[i], !missing.empty() && missing[i] != 0, 0, 0, {}});
    // The first node of a tree is its root.
    if (i == 0 || trees[i] != trees[i - 1]) forest.roots.push_back(at);
  }
  const auto find = [&](int64_t tree, int64_t id) {
    const auto it = index.find({tree, id});
    if (it == index.end()) Throw(Code::kInvalidModel, "node ", n.name, ": tree ", tree, " has no node ", id);
    return it->second;
  };
  for (size_t i = 0; i < count; ++i) {
    const int64_t at = index.at({trees[i], ids[i]});
    if (at < 0) continue;
    forest.nodes[static_cast<size_t>(at)].when_true = find(trees[i], yes[i]);
    forest.nodes[static_cast<size_t>(at)].when_false = find(trees[i], no[i]);
  }
  const std::string prefix(votes);
  const auto leaf_trees = n.IntsView(prefix + "_treeids"), leaf_ids = n.IntsView(prefix + "_nodeids"),
             targets = n.IntsView(prefix + "_ids");
  const auto weights = NumbersOf(n, prefix + "_weights", prefix + "_weights_as_tensor");
  if (leaf_ids.size() != leaf_trees.size() || targets.size() != leaf_trees.size() ||
      weights.size() != leaf_trees.size())
    Throw(Code::kInvalidModel, "node ", n.name, ": the lists of leaves have different lengths");
  for (size_t i = 0; i < leaf_trees.size(); ++i) {
    const int64_t at = find(leaf_trees[i], leaf_ids[i]);
    if (at < 0) forest.leaves[static_cast<size_t>(-1 - at)].push_back({targets[i], weights[i]});
  }
  return forest;
}

/// Trees as version 5 lists them.
Forest ReadTables(const KernelInfo& info) {
  const graph::Node& n = info.node;
  const auto modes = n.Tensor("nodes_modes"), splits = n.Tensor("nodes_splits"),
             weights = n.Tensor("leaf_weights"), members = n.Tensor("membership_values");
  const auto features = n.IntsView("nodes_featureids"), yes = n.IntsView("nodes_truenodeids"),
             no = n.IntsView("nodes_falsenodeids"), yes_leaf = n.IntsView("nodes_trueleafs"),
             no_leaf = n.IntsView("nodes_falseleafs"),
             missing = n.IntsView("nodes_missing_value_tracks_true"), roots = n.IntsView("tree_roots"),
             targets = n.IntsView("leaf_targetids");
  if (!modes || !splits || !weights)
    Throw(Code::kInvalidModel, "node ", n.name, ": nodes or leaves are missing");
  const auto mode = modes->AsInts();
  const auto split = splits->AsDoubles(), weight = weights->AsDoubles();
  std::vector<double> member;
  if (members) member = members->AsDoubles();
  const size_t count = mode.size();
  if (split.size() != count || features.size() != count || yes.size() != count || no.size() != count ||
      yes_leaf.size() != count || no_leaf.size() != count || weight.size() != targets.size() ||
      (!missing.empty() && missing.size() != count))
    Throw(Code::kInvalidModel, "node ", n.name, ": the lists of nodes have different lengths");
  Forest forest;
  size_t next = 0;
  for (size_t i = 0; i < count; ++i) {
    if (mode[i] < 0 || mode[i] > static_cast<int64_t>(Branch::kMember))
      info.Unsupported("a node of mode ", mode[i]);
    TreeNode node{
        features[i], static_cast<Branch>(mode[i]), split[i], !missing.empty() && missing[i] != 0, 0, 0, {}};
    const auto child = [](int64_t to, int64_t leaf) { return leaf != 0 ? -1 - to : to; };
    node.when_true = child(yes[i], yes_leaf[i]);
    node.when_false = child(no[i], no_leaf[i]);
    if ((yes_leaf[i] == 0 && yes[i] < 0) || (no_leaf[i] == 0 && no[i] < 0))
      Throw(Code::kInvalidModel, "node ", n.name, ": a tree refers to a node below 0");
    if (node.branch == Branch::kMember) {  // sets end with NaN
      while (next < member.size() && !std::isnan(member[next])) node.members.push_back(member[next++]);
      ++next;
    }
    forest.nodes.push_back(std::move(node));
  }
  for (size_t i = 0; i < weight.size(); ++i) forest.leaves.push_back({{targets[i], weight[i]}});
  // A tree of one leaf is a node whose children are the same leaf.
  forest.roots.assign(roots.begin(), roots.end());
  return forest;
}

class TreeKernel final : public Kernel {
 public:
  explicit TreeKernel(const KernelInfo& info) {
    const graph::Node& n = info.node;
    if (n.op == "TreeEnsemble") {
      forest_ = ReadTables(info);
      targets_ = n.Int("n_targets", 1);
      aggregate_ = static_cast<Aggregate>(std::clamp<int64_t>(n.Int("aggregate_function", 1), 0, 3));
      post_ = static_cast<Post>(std::clamp<int64_t>(n.Int("post_transform", 0), 0, 4));
    } else {
      classifier_ = n.op == "TreeEnsembleClassifier";
      forest_ = ReadNodes(info, classifier_ ? "class" : "target");
      const std::string aggregate = n.Str("aggregate_function", "SUM");
      aggregate_ = aggregate == "AVERAGE" ? Aggregate::kAverage
                   : aggregate == "MIN"   ? Aggregate::kMin
                   : aggregate == "MAX"   ? Aggregate::kMax
                                          : Aggregate::kSum;
      post_ = PostOf(info, n.Str("post_transform", "NONE"));
      base_ = NumbersOf(n, "base_values", "base_values_as_tensor");
      if (classifier_) {
        labels_ = n.Ints("classlabels_int64s");
        if (labels_.empty()) info.Unsupported("labels that are no integers");
        targets_ = static_cast<int64_t>(labels_.size());
        ReadBinary();
      } else {
        targets_ = n.Int("n_targets", 1);
      }
    }
    if (targets_ < 1 || targets_ > kMostTargets) info.Unsupported(targets_, " targets");
    if (!base_.empty() && base_.size() != static_cast<size_t>(targets_) && !(binary_ && base_.size() == 1))
      Throw(Code::kInvalidModel, "node ", n.name, ": ", base_.size(), " base values for ", targets_,
            " targets");
    forest_.Check(info, targets_);
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const int64_t features = x.shape.rank() > 0 ? x.shape.at(-1) : 1;
    const int64_t rows = features ? x.elements() / features : 0;
    if (features < forest_.features)
      Throw(Code::kInvalidInput, "rows of ", features, " features, the trees read ", forest_.features);
    TensorView* scores = context.output(classifier_ ? 1 : 0);
    TensorView* labels = classifier_ ? context.output(0) : nullptr;
    ForNumber(x.dtype, [&](auto t) {
      using T = decltype(t);
      dense::RunTasks(context.threads(), rows, rows * static_cast<int64_t>(forest_.roots.size()) * 64,
                      [&](int64_t row, int) {
                        double sums[kMostTargets];
                        bool voted[kMostTargets];
                        CountVotes(x.as<T>() + row * features, sums, voted);
                        float out[kMostTargets];
                        int64_t label = 0;
                        if (binary_)
                          label = Binary(voted[0] ? sums[0] : 0, out);
                        else
                          label = Many(sums, voted, out);
                        if (labels) labels->as<int64_t>()[row] = label;
                        for (int64_t k = 0; scores && k < targets_; ++k)
                          SetNumber(*scores, row * targets_ + k, out[k]);
                      });
    });
  }

 private:
  static constexpr int64_t kMostTargets = 1024;

  /// Two classes, and all leaves vote for one of them: the sum decides.
  void ReadBinary() {
    if (targets_ != 2) return;
    binary_ = true;
    for (auto& leaf : forest_.leaves)
      for (Vote& v : leaf) {
        binary_ = binary_ && v.target == (voted_class_ < 0 ? v.target : voted_class_);
        voted_class_ = v.target;
        positive_ = positive_ && v.weight >= 0;
      }
    if (!binary_) return;
    for (auto& leaf : forest_.leaves)
      for (Vote& v : leaf) v.target = 0;
  }

  template <class T>
  void CountVotes(const T* x, double* sums, bool* voted) const {
    std::fill_n(voted, targets_, false);
    std::fill_n(sums, targets_, 0.0);
    for (int64_t root : forest_.roots) {
      for (const Vote& v : forest_.Find(root, x)) {
        const auto k = static_cast<size_t>(v.target);
        if (!voted[k])
          sums[k] = v.weight;
        else if (aggregate_ == Aggregate::kMin)
          sums[k] = std::min(sums[k], v.weight);
        else if (aggregate_ == Aggregate::kMax)
          sums[k] = std::max(sums[k], v.weight);
        else
          sums[k] += v.weight;
        voted[k] = true;
      }
    }
    if (aggregate_ == Aggregate::kAverage)
      for (int64_t k = 0; k < targets_; ++k) sums[k] /= static_cast<double>(forest_.roots.size());
  }

  int64_t Many(const double* sums, const bool*, float* out) const {
    for (int64_t k = 0; k < targets_; ++k)
      out[k] = static_cast<float>(sums[k] + (base_.empty() ? 0 : base_[static_cast<size_t>(k)]));
    const int64_t best = std::max_element(out, out + targets_) - out;
    Transform(post_, out, targets_);
    return classifier_ ? labels_[static_cast<size_t>(best)] : 0;
  }

  /// What the one sum says about the second class.
  int64_t Binary(double sum, float* out) const {
    if (base_.size() == 2) sum += base_[1];
    if (base_.size() == 1) sum += base_[0];
    const auto score = static_cast<float>(sum);
    const bool second = positive_ ? score > 0.5f : score > 0;
    if (base_.size() == 2) {
      out[0] = -score;
      out[1] = score;
      Transform(post_, out, 2);
    } else if (post_ == Post::kProbit) {
      out[0] = out[1] = Probit(score);
    } else if (positive_) {
      out[0] = 1 - score;
      out[1] = score;
    } else {
      out[0] = post_ == Post::kLogistic ? Logistic(-score) : -score;
      out[1] = post_ == Post::kLogistic ? Logistic(score) : score;
    }
    return labels_[second ? 1 : 0];
  }

  static void SetNumber(TensorView& v, int64_t i, float value) {
    ForNumber(v.dtype, [&](auto t) {
      using T = decltype(t);
      v.as<T>()[i] = Store<T>(static_cast<typename Arithmetic<T>::Type>(value));
    });
  }

  Forest forest_;
  bool classifier_ = false, binary_ = false, positive_ = true;
  int64_t voted_class_ = -1;
  int64_t targets_ = 1;
  Aggregate aggregate_ = Aggregate::kSum;
  Post post_ = Post::kNone;
  std::vector<double> base_;
  std::vector<int64_t> labels_;
};

}  // namespace

void RegisterTrees(kernels::Registry& registry) {
  for (std::string_view op : {"TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble"}) {
    kernels::KernelDef def;
    def.domain = "ai.onnx.ml";
    def.op = op;
    def.types = {kernels::kNumbers};
    def.create = Make<TreeKernel>;
    registry.Add(std::move(def));
  }
}

}  // namespace ullage::cpu
