// Evaluates imported graphs by the definitions of their operators, in double precision, and compares the
// logits with those of tests/gguf/reference.py (tests/gguf/make_models.py wrote the models).

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <numbers>

#include "core/block_format.h"
#include "core/error.h"
#include "gguf/import.h"

namespace ullage::gguf {
namespace {

struct Tensor {
  std::vector<int64_t> shape;
  std::vector<double> data;

  int64_t size() const { return static_cast<int64_t>(data.size()); }
  int64_t last() const { return shape.back(); }
};
using Values = std::map<std::string, Tensor>;

Tensor FromConstant(const graph::Constant& c) {
  Tensor t;
  t.shape.assign(c.shape.begin(), c.shape.end());
  if (c.block_type.empty()) {
    t.data = c.AsDoubles();
    return t;
  }
  BlockWeightView view;
  view.format = BlockFormat::Gguf(static_cast<GgufType>(FindTensorType(c.block_type)->number));
  view.n = c.shape[0];
  view.k = c.shape[1];
  view.data = c.data();
  CheckView(view);
  std::vector<float> rows(static_cast<size_t>(view.n * view.k));
  DequantizeRows(view, 0, view.n, rows.data(), view.k);
  t.data.assign(rows.begin(), rows.end());
  return t;
}

/// A batch of one; tensors [1, S, D].
class Evaluator {
 public:
  explicit Evaluator(const graph::Graph& g) : g_(g) {}

  Values Run(const Values& inputs) {
    values_.assign(g_.value_count(), {});
    for (graph::ValueId id : g_.inputs) values_[static_cast<size_t>(id)] = inputs.at(g_.value(id).name);
    for (graph::NodeId id : g_.Order()) Step(g_.node(id));
    Values out;
    for (graph::ValueId id : g_.outputs) out[g_.value(id).name] = values_[static_cast<size_t>(id)];
    return out;
  }

 private:
  const Tensor& In(const graph::Node& n, size_t i) {
    const graph::ValueId id = n.input(i);
    if (const graph::Constant* c = g_.ConstantOf(id)) {
      Tensor& t = constants_[id];
      if (t.data.empty()) t = FromConstant(*c);
      return t;
    }
    return values_[static_cast<size_t>(id)];
  }

  void Step(const graph::Node& n) {
    const auto out = [&](size_t i) -> Tensor& { return values_[static_cast<size_t>(n.output(i))]; };
    const auto unary = [&](auto fn) {
      out(0) = In(n, 0);
      for (double& v : out(0).data) v = fn(v);
    };
    const auto binary = [&](auto fn) {
      const Tensor& b = In(n, 1);  // as large, or repeated
      out(0) = In(n, 0);
      for (size_t i = 0; i < out(0).data.size(); ++i)
        out(0).data[i] = fn(out(0).data[i], b.data[i % b.data.size()]);
    };
    const std::string op = n.OpName();
    if (op == "ReduceSum") {
      EXPECT_EQ(n.Int("keepdims", 1), 0);
      EXPECT_EQ(In(n, 1).data, std::vector<double>{1});
      double sum = 0;
      for (double v : In(n, 0).data) sum += v;
      out(0) = {{1}, {sum}};
    } else if (op == "Shape") {
      const Tensor& x = In(n, 0);
      out(0) = {{static_cast<int64_t>(x.shape.size())}, {x.shape.begin(), x.shape.end()}};
    } else if (op == "Gather" || op == "ullage:BlockGather") {
      Gather(In(n, 0), In(n, 1), out(0));
    } else if (op == "Cast") {
      unary([](double v) { return v; });
    } else if (op == "Sigmoid") {
      unary([](double v) { return 1 / (1 + std::exp(-v)); });
    } else if (op == "Tanh") {
      unary([](double v) { return std::tanh(v); });
    } else if (op == "Gelu") {
      EXPECT_EQ(n.Str("approximate", "none"), "tanh");
      const double c = std::sqrt(2 / std::numbers::pi);
      unary([&](double v) { return 0.5 * v * (1 + std::tanh(c * (v + 0.044715 * v * v * v))); });
    } else if (op == "Mul") {
      binary([](double a, double b) { return a * b; });
    } else if (op == "Add") {
      binary([](double a, double b) { return a + b; });
    } else if (op == "Sub") {
      binary([](double a, double b) { return a - b; });
    } else if (op == "Div") {
      binary([](double a, double b) { return a / b; });
    } else if (op == "ullage:Linear") {
      Linear(n, out(0));
    } else if (op == "SimplifiedLayerNormalization") {
      out(0) = In(n, 0);
      Norm(out(0), In(n, 1), n.Float("epsilon", 0));
    } else if (op == "com.microsoft:SkipSimplifiedLayerNormalization") {
      binary([](double a, double b) { return a + b; });
      if (n.has_output(3)) out(3) = out(0);
      Norm(out(0), In(n, 2), n.Float("epsilon", 0));
    } else if (op == "com.microsoft:GroupQueryAttention") {
      Attention(n, out(0), out(1), out(2));
    } else {
      FAIL() << "operator " << op << " is not expected in an imported graph";
    }
  }

  static void Gather(const Tensor& data, const Tensor& indices, Tensor& out) {
    const int64_t row = data.shape.size() == 1 ? 1 : data.last();
    out.shape = indices.shape;
    if (data.shape.size() > 1) out.shape.push_back(row);
    for (double i : indices.data)
      for (int64_t k = 0; k < row; ++k)
        out.data.push_back(data.data.at(static_cast<size_t>(static_cast<int64_t>(i) * row + k)));
  }

  void Linear(const graph::Node& n, Tensor& out) {
    const Tensor& a = In(n, 0);
    const Tensor& w = In(n, 1);
    const int64_t k = n.RequiredInt("K");
    const int64_t rows = n.RequiredInt("N");
    ASSERT_EQ(w.shape, (std::vector<int64_t>{rows, k})) << n.name;
    ASSERT_EQ(a.last(), k) << n.name;
    EXPECT_EQ(n.Str("format", ""), g_.ConstantOf(n.input(1))->block_type.empty() ? "dense_nk" : "ggml");
    out.shape = a.shape;
    out.shape.back() = rows;
    for (int64_t m = 0; m < a.size() / k; ++m) {
      for (int64_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i)
          sum += a.data[static_cast<size_t>(m * k + i)] * w.data[static_cast<size_t>(r * k + i)];
        out.data.push_back(sum);
      }
    }
  }

  /// RMS norm of each run of scale.size() elements.
  static void Norm(Tensor& x, const Tensor& scale, double epsilon) {
    const size_t size = scale.data.size();
    for (size_t start = 0; start < x.data.size(); start += size) {
      double sum = 0;
      for (size_t i = 0; i < size; ++i) sum += x.data[start + i] * x.data[start + i];
      const double factor = 1 / std::sqrt(sum / static_cast<double>(size) + epsilon);
      for (size_t i = 0; i < size; ++i) x.data[start + i] *= factor * scale.data[i];
    }
  }

  static Tensor Columns(const Tensor& x, int64_t first, int64_t count) {
    Tensor t{{1, x.shape[1], count}, {}};
    for (int64_t s = 0; s < x.shape[1]; ++s)
      for (int64_t i = first; i < first + count; ++i)
        t.data.push_back(x.data[static_cast<size_t>(s * x.last() + i)]);
    return t;
  }

  void Rotate(const graph::Node& n, Tensor& x, int64_t head, int64_t past) {
    const Tensor& cos = In(n, 7);
    const Tensor& sin = In(n, 8);
    const int64_t pairs = cos.last();
    const bool interleaved = n.Int("rotary_interleaved", 0) != 0;
    for (int64_t start = 0; start < x.size(); start += head) {
      const int64_t position = past + start / x.last();
      for (int64_t i = 0; i < pairs; ++i) {
        double& a = x.data[static_cast<size_t>(start + (interleaved ? 2 * i : i))];
        double& b = x.data[static_cast<size_t>(start + (interleaved ? 2 * i + 1 : i + pairs))];
        const double c = cos.data.at(static_cast<size_t>(position * pairs + i));
        const double s = sin.data.at(static_cast<size_t>(position * pairs + i));
        const double rotated = a * c - b * s;
        b = b * c + a * s;
        a = rotated;
      }
    }
  }

  /// [Nkv, past, H] and [1, S, Nkv * H] to [1, Nkv, past + S, H].
  static Tensor Append(const Tensor& past, const Tensor& now, int64_t kv_heads, int64_t head) {
    const int64_t before = past.shape[2];
    const int64_t tokens = now.shape[1];
    Tensor t{{1, kv_heads, before + tokens, head}, {}};
    for (int64_t h = 0; h < kv_heads; ++h) {
      const auto begin = past.data.begin() + h * before * head;
      t.data.insert(t.data.end(), begin, begin + before * head);
      for (int64_t s = 0; s < tokens; ++s)
        for (int64_t i = 0; i < head; ++i)
          t.data.push_back(now.data[static_cast<size_t>((s * kv_heads + h) * head + i)]);
    }
    return t;
  }

  void Attention(const graph::Node& n, Tensor& out, Tensor& present_k, Tensor& present_v) {
    const int64_t heads = n.RequiredInt("num_heads");
    const int64_t kv_heads = n.RequiredInt("kv_num_heads");
    const int64_t head = In(n, 3).shape[3];
    EXPECT_EQ(n.Int("do_rotary", 0), 1);
    Tensor q = In(n, 0);
    Tensor k, v;
    if (n.has_input(1)) {
      k = In(n, 1);
      v = In(n, 2);
    } else {
      k = Columns(q, heads * head, kv_heads * head);
      v = Columns(q, (heads + kv_heads) * head, kv_heads * head);
      q = Columns(q, 0, heads * head);
    }
    ASSERT_EQ(q.last(), heads * head);
    ASSERT_EQ(k.last(), kv_heads * head);
    if (n.has_input(14)) {
      Norm(q, In(n, 14), n.Float("qk_norm_epsilon", 0));
      Norm(k, In(n, 15), n.Float("qk_norm_epsilon", 0));
    }
    const int64_t tokens = q.shape[1];
    const int64_t total = static_cast<int64_t>(In(n, 6).data.at(0));
    EXPECT_EQ(In(n, 5).data.at(0), static_cast<double>(total - 1));
    const int64_t past = total - tokens;
    ASSERT_EQ(past, In(n, 3).shape[2]);
    Rotate(n, q, head, past);
    Rotate(n, k, head, past);
    present_k = Append(In(n, 3), k, kv_heads, head);
    present_v = Append(In(n, 4), v, kv_heads, head);
    const int64_t window = n.Int("local_window_size", -1);
    const double cap = n.Float("softcap", 0);
    out = {{1, tokens, heads * head}, std::vector<double>(static_cast<size_t>(tokens * heads * head))};
    for (int64_t s = 0; s < tokens; ++s) {
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t row = h / (heads / kv_heads) * total;
        const int64_t first = window > 0 ? std::max<int64_t>(0, past + s + 1 - window) : 0;
        std::vector<double> scores;
        for (int64_t j = first; j <= past + s; ++j) {
          double dot = 0;
          for (int64_t i = 0; i < head; ++i)
            dot += q.data[static_cast<size_t>((s * heads + h) * head + i)] *
                   present_k.data[static_cast<size_t>((row + j) * head + i)];
          dot *= n.Float("scale", 0);
          scores.push_back(cap > 0 ? cap * std::tanh(dot / cap) : dot);
        }
        const double top = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (double& x : scores) sum += x = std::exp(x - top);
        for (size_t j = 0; j < scores.size(); ++j)
          for (int64_t i = 0; i < head; ++i)
            out.data[static_cast<size_t>((s * heads + h) * head + i)] +=
                scores[j] / sum *
                present_v.data[static_cast<size_t>((row + first + static_cast<int64_t>(j)) * head + i)];
      }
    }
  }

  const graph::Graph& g_;
  std::vector<Tensor> values_;
  std::map<graph::ValueId, Tensor> constants_;
};

std::string ModelPath(const std::string& name) {
  return std::string(ULLAGE_SOURCE_DIR) + "/tests/gguf/models/" + name;
}

/// The payload of a .npy file, version 1.
template <class T>
std::vector<T> LoadNpy(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  if (bytes.size() < 10) throw std::runtime_error("cannot read " + path);
  const size_t start = 10u + static_cast<uint8_t>(bytes[8]) + 256u * static_cast<uint8_t>(bytes[9]);
  std::vector<T> out((bytes.size() - start) / sizeof(T));
  std::memcpy(out.data(), bytes.data() + start, out.size() * sizeof(T));
  return out;
}

/// Runs tokens [first, last) with what came before in `state`; returns their logits.
std::vector<double> Feed(Evaluator& evaluator, const std::vector<int64_t>& ids, size_t first, size_t last,
                         Values& state) {
  state["input_ids"] = {{1, static_cast<int64_t>(last - first)}, {ids.begin() + first, ids.begin() + last}};
  state["attention_mask"] = {{1, static_cast<int64_t>(last)}, std::vector<double>(last, 1.0)};
  Values out = evaluator.Run(state);
  for (auto& [name, tensor] : out)
    if (name.starts_with("present")) state["past_key_values" + name.substr(7)] = tensor;
  return out.at("logits").data;
}

void Compare(const std::string& model, const std::string& logits, const ImportOptions& options) {
  SCOPED_TRACE(model);
  const auto ids = LoadNpy<int64_t>(ModelPath(model + ".ids.npy"));
  const auto expected = LoadNpy<float>(ModelPath(logits));
  const auto g = ImportGguf(ModelPath(model + ".gguf"), options);
  Evaluator evaluator(*g);
  Values empty;
  for (graph::ValueId id : g->inputs)
    if (g->value(id).declared->size() == 4) {
      const auto& d = *g->value(id).declared;
      empty[g->value(id).name] = {{1, d[1].value, 0, d[3].value}, {}};
    }
  // All tokens at once, and then 7 tokens followed by one at a time.
  for (size_t prompt : {ids.size(), size_t{7}}) {
    Values state = empty;
    std::vector<double> found = Feed(evaluator, ids, 0, prompt, state);
    for (size_t i = prompt; i < ids.size(); ++i) {
      const auto next = Feed(evaluator, ids, i, i + 1, state);
      found.insert(found.end(), next.begin(), next.end());
    }
    ASSERT_EQ(found.size(), expected.size());
    double worst = 0;
    for (size_t i = 0; i < found.size(); ++i)
      worst = std::max(worst, std::abs(found[i] - static_cast<double>(expected[i])));
    EXPECT_LT(worst, 2e-5) << "prompt of " << prompt;
  }
}

TEST(ImportEval, Llama) {
  Compare("llama", "llama.logits.npy", {});
}
TEST(ImportEval, LlamaSuperBlocks) {
  Compare("llama_k", "llama_k.logits.npy", {});
}
TEST(ImportEval, Qwen2) {
  Compare("qwen2", "qwen2.logits.npy", {});
}
TEST(ImportEval, Qwen3) {
  Compare("qwen3", "qwen3.logits.npy", {});
}
TEST(ImportEval, Phi3LongContext) {
  Compare("phi3", "phi3.logits.npy", {});
}
TEST(ImportEval, Phi3ShortContext) {
  Compare("phi3", "phi3.short.logits.npy", {.max_positions = 16});
}
TEST(ImportEval, Gemma3) {
  Compare("gemma3", "gemma3.logits.npy", {.max_positions = 12});
}

TEST(ImportEval, FactorsOfLongRopeDiffer) {
  // The two references must not agree, or the tests above could not tell the tables apart.
  const auto a = LoadNpy<float>(ModelPath("phi3.logits.npy"));
  const auto b = LoadNpy<float>(ModelPath("phi3.short.logits.npy"));
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(a[i] - b[i])));
  EXPECT_GT(worst, 1e-2);
}

}  // namespace
}  // namespace ullage::gguf
