/// RNN, GRU, LSTM and com.microsoft:DynamicQuantizeLSTM.
///
/// Products of the inputs are made for a chunk of steps at a time, products of the state step by step. All
/// sequences of the batch run in step: at step s a sequence of length n reads time s, or n - 1 - s in
/// reverse.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/dense/elementwise.h"
#include "providers/cpu/dense/gemm.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/block_weight.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/element.h"
#include "providers/cpu/kernels/tensor_families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

enum class Cell { kRnn, kGru, kLstm };

/// An activation of the ONNX list, with its parameters.
struct Activation {
  std::string name;
  float alpha = 0, beta = 0;

  float One(float x) const {
    if (name == "Sigmoid") return 1 / (1 + std::exp(-x));
    if (name == "Tanh") return std::tanh(x);
    if (name == "Relu") return std::max(x, 0.0f);
    if (name == "Affine") return alpha * x + beta;
    if (name == "LeakyRelu") return x < 0 ? alpha * x : x;
    if (name == "ThresholdedRelu") return x > alpha ? x : 0;
    if (name == "ScaledTanh") return alpha * std::tanh(beta * x);
    if (name == "HardSigmoid") return std::clamp(alpha * x + beta, 0.0f, 1.0f);
    if (name == "Elu") return x < 0 ? alpha * (std::exp(x) - 1) : x;
    if (name == "Softsign") return x / (1 + std::abs(x));
    return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));  // Softplus
  }
  void Apply(ThreadTeam& team, float* x, int64_t n) const {
    const dense::Array a{x, DType::kFloat};
    if (name == "Sigmoid") return dense::Unary(team, dense::UnaryOp::kSigmoid, a, n, a);
    if (name == "Tanh") return dense::Unary(team, dense::UnaryOp::kTanh, a, n, a);
    for (int64_t i = 0; i < n; ++i) x[i] = One(x[i]);
  }
};

/// Names are compared without case; parameters are given to those activations that have some, in order.
std::vector<Activation> ReadActivations(const KernelInfo& info, std::vector<std::string> names) {
  static constexpr struct {
    std::string_view name;
    float alpha, beta;
    int parameters;
  } kKnown[] = {{"Sigmoid", 0, 0, 0},
                {"Tanh", 0, 0, 0},
                {"Relu", 0, 0, 0},
                {"Softsign", 0, 0, 0},
                {"Softplus", 0, 0, 0},
                {"Affine", 1, 0, 2},
                {"LeakyRelu", 0.01f, 0, 1},
                {"ThresholdedRelu", 1, 0, 1},
                {"ScaledTanh", 1, 1, 2},
                {"HardSigmoid", 0.2f, 0.5f, 2},
                {"Elu", 1, 0, 1}};
  const auto alphas = info.node.FloatsView("activation_alpha"),
             betas = info.node.FloatsView("activation_beta");
  const auto lower = [](std::string_view s) {
    std::string r(s);
    for (char& c : r)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return r;
  };
  std::vector<Activation> out;
  size_t alpha = 0, beta = 0;
  for (const std::string& name : names) {
    const auto* known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                     [&](const auto& k) { return lower(k.name) == lower(name); });
    if (known == std::end(kKnown)) info.Unsupported("activation ", name);
    Activation a{std::string(known->name), known->alpha, known->beta};
    if (known->parameters > 0 && alpha < alphas.size()) a.alpha = alphas[alpha++];
    if (known->parameters > 1 && beta < betas.size()) a.beta = betas[beta++];
    out.push_back(std::move(a));
  }
  return out;
}

/// x becomes what 8 bits with a zero point, for this range, make of it.
void RoundToBytes(float low, float high, float* x, int64_t n) {
  low = std::min(low, 0.0f);
  high = std::max(high, 0.0f);
  const float scale = high == low ? 1.0f : (high - low) / 255;
  const float zero = std::clamp(std::nearbyint(-low / scale), 0.0f, 255.0f);
  for (int64_t i = 0; i < n; ++i)
    x[i] = (std::clamp(std::nearbyint(x[i] / scale) + zero, 0.0f, 255.0f) - zero) * scale;
}

class RecurrentKernel final : public Kernel {
 public:
  explicit RecurrentKernel(const KernelInfo& info) {
    const graph::Node& n = info.node;
    cell_ = n.op == "RNN" ? Cell::kRnn : n.op == "GRU" ? Cell::kGru : Cell::kLstm;
    quantised_ = n.op == "DynamicQuantizeLSTM";
    const std::string direction = n.Str("direction", "forward");
    directions_ = direction == "bidirectional" ? 2 : 1;
    reverse_ = direction == "reverse";
    batch_first_ = n.Int("layout", 0) != 0;
    linear_before_reset_ = n.Int("linear_before_reset", 0) != 0;
    couple_ = n.Int("input_forget", 0) != 0;
    clip_ = n.Float("clip", 0);
    gates_ = cell_ == Cell::kRnn ? 1 : cell_ == Cell::kGru ? 3 : 4;
    std::vector<std::string> names;
    if (const auto it = n.attributes.find("activations"); it != n.attributes.end())
      if (const auto* list = std::get_if<std::vector<std::string>>(&it->second)) names = *list;
    per_direction_ = cell_ == Cell::kRnn ? 1 : cell_ == Cell::kGru ? 2 : 3;
    while (names.size() < per_direction_ * static_cast<size_t>(directions_))
      names.push_back(cell_ != Cell::kRnn && names.size() % per_direction_ == 0 ? "Sigmoid" : "Tanh");
    activations_ = ReadActivations(info, std::move(names));
    for (int i = 0; i < 2; ++i) {
      weights_[i] = info.constant(static_cast<size_t>(i + 1));
      if (!quantised_) continue;
      const size_t scale = i == 0 ? 8 : 10;
      scales_[i] = info.constant(scale);
      zeros_[i] = info.constant(scale + 1);
      if (!weights_[i] || !scales_[i] || (n.has_input(scale + 1) && !zeros_[i]))
        info.Unsupported("weights, scales and zero points must be constant");
    }
    if (!weights_[0] || !weights_[1]) weights_[0] = weights_[1] = nullptr;
  }

  /// Block i: W (0) or R (1) of all directions.
  std::vector<kernels::PrepackRequirement> PlanPrepack() const override {
    std::vector<kernels::PrepackRequirement> out;
    for (int i = 0; weights_[0] && i < 2; ++i) {
      kernels::PrepackRequirement need;
      need.bytes = CheckedMul(static_cast<size_t>(directions_),
                              dense::PackedBBytes(Wide(*weights_[i]), Deep(*weights_[i]), DType::kFloat));
      need.replaces = {i + 1};
      out.push_back(std::move(need));
    }
    return out;
  }

  void Prepack(int index, std::byte* out, ThreadTeam& team) override {
    const graph::Constant& w = *weights_[index];
    const int64_t n = Wide(w), k = Deep(w);
    for (int64_t d = 0; d < directions_; ++d) {
      std::byte* to = out + static_cast<size_t>(d) * dense::PackedBBytes(n, k, DType::kFloat);
      if (quantised_)
        Dequantise(index, d, reinterpret_cast<float*>(to), team);
      else
        dense::PackB(team, {reinterpret_cast<const float*>(w.data().data()) + d * n * k, DType::kFloat}, true,
                     k, n, k, to);
    }
    ReleasePages(w);
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    const auto &x = shapes.inputs[0].shape, &r = shapes.inputs[2].shape;
    if (x.rank != 3 || r.rank != 3) return;
    const int64_t hidden = quantised_ ? r[1].upper : r[2].upper;
    const int64_t steps = x[batch_first_ ? 1 : 0].upper, batch = x[batch_first_ ? 0 : 1].upper,
                  in = x[2].upper;
    if (batch == ops::kUnbounded || hidden == ops::kUnbounded || in == ops::kUnbounded) return;
    const Layout l = LayoutOf(steps, batch, in, hidden);
    needs.push_back({l.bytes(), 0, 64});
    needs.push_back({GemmBytes(l, shapes.threads), 1, 64});
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    const int64_t steps = x.shape[batch_first_ ? 1 : 0], batch = x.shape[batch_first_ ? 0 : 1];
    const TensorView& r = *context.input(2);
    const Layout l = LayoutOf(steps, batch, x.shape[2], quantised_ ? r.shape[1] : r.shape[2]);
    Check(context, l);
    if (batch * l.hidden == 0) return;
    auto* memory = static_cast<float*>(Workspace(context, 0, l.bytes()));
    void* scratch = Workspace(context, 1, GemmBytes(l, context.threads().size()));
    for (int64_t d = 0; d < directions_; ++d) Direction(context, l, d, memory, scratch);
  }

 private:
  static constexpr int64_t kRows = 256;  ///< of inputs multiplied at a time, at least one step

  struct Layout {
    int64_t steps, batch, in, hidden, gates, chunk;
    int64_t wide() const { return gates * hidden; }
    // Parts of the workspace, in floats.
    int64_t x() const { return 0; }
    int64_t products() const { return chunk * batch * in; }
    int64_t state() const { return products() + chunk * batch * wide(); }  // h, then c
    int64_t recurrent() const { return state() + 2 * batch * hidden; }     // products of the state
    int64_t gated() const { return recurrent() + batch * wide(); }         // what the state is multiplied as
    int64_t bias() const { return gated() + batch * hidden; }
    size_t bytes() const {
      const int64_t rows = CheckedMul(std::max<int64_t>(chunk, 1), std::max<int64_t>(batch, 1), "workspace");
      CheckedMul(rows, CheckedAdd(in, CheckedMul(hidden, int64_t{16}, "workspace"), "workspace"),
                 "workspace");
      return CheckedMul(static_cast<size_t>(bias() + 2 * wide()), sizeof(float), "workspace");
    }
  };
  Layout LayoutOf(int64_t steps, int64_t batch, int64_t in, int64_t hidden) const {
    const int64_t chunk =
        std::clamp<int64_t>(kRows / std::max<int64_t>(batch, 1), 1, std::max<int64_t>(steps, 1));
    return {steps, batch, in, hidden, gates_, chunk};
  }

  /// Rows of a weight per direction, and their length; quantised weights are stored transposed.
  int64_t Wide(const graph::Constant& w) const { return w.shape[quantised_ ? 2 : 1]; }
  int64_t Deep(const graph::Constant& w) const { return w.shape[quantised_ ? 1 : 2]; }

  void Dequantise(int index, int64_t d, float* out, ThreadTeam& team) const {
    const graph::Constant& w = *weights_[index];
    const int64_t n = Wide(w), k = Deep(w);
    const auto view = [](const graph::ConstantPtr& c) {
      return TensorView{const_cast<std::byte*>(c->data().data()), c->dtype, c->shape, 0};
    };
    const TensorView values = view(weights_[index]), scale = view(scales_[index]);
    const bool per_column = scale.elements() == directions_ * n && scale.elements() != directions_;
    if (!per_column && scale.elements() != directions_)
      Throw(Code::kInvalidModel, "scales of shape ", scale.shape.ToString(), " for ", directions_,
            " directions");
    const TensorView zero = zeros_[index] ? view(zeros_[index]) : TensorView{};
    if (zeros_[index] && zero.elements() != scale.elements())
      Throw(Code::kInvalidModel, "zero points of shape ", zero.shape.ToString());
    team.Run(dense::PackedBPanels(n), [&](int64_t p, int) {
      for (int64_t row = 0; row < k; ++row) {
        for (int64_t j = 0; j < dense::kPanel; ++j) {
          const int64_t column = p * dense::kPanel + j, s = per_column ? d * n + column : d;
          out[(p * k + row) * dense::kPanel + j] =
              column >= n ? 0.0f
                          : static_cast<float>((NumberOf(values, (d * k + row) * n + column) -
                                                (zeros_[index] ? NumberOf(zero, s) : 0)) *
                                               NumberOf(scale, s));
        }
      }
    });
  }

  /// out[m, wide] (+)= a[m, depth] W^T.
  dense::GemmArgs Product(int64_t m, int64_t n, int64_t k) const {
    dense::GemmArgs g;
    g.m = m;
    g.n = n;
    g.k = k;
    g.lda = k;
    g.ldb = k;
    g.trans_b = true;
    g.b_packed = weights_[0] != nullptr;
    g.ldc = n;
    return g;
  }
  size_t GemmBytes(const Layout& l, int threads) const {
    return std::max(dense::GemmScratchBytes(Product(l.chunk * l.batch, l.wide(), l.in), threads),
                    dense::GemmScratchBytes(Product(l.batch, l.wide(), l.hidden), threads));
  }
  const void* WeightOf(KernelContext& context, int i, int64_t d, int64_t n, int64_t k) const {
    if (weights_[0])
      return context.prepacked(i) + static_cast<size_t>(d) * dense::PackedBBytes(n, k, DType::kFloat);
    return context.input(i + 1)->as<float>() + d * n * k;
  }

  void Check(KernelContext& context, const Layout& l) const {
    const auto expect = [&](int i, const Shape& wanted) {
      const TensorView* v = context.input(i);
      if (v && v->shape != wanted)
        Throw(Code::kInvalidModel, "input ", i, " has shape ", v->shape.ToString(), ", expected ",
              wanted.ToString());
    };
    const int64_t wide = l.wide();
    expect(1, quantised_ ? Shape{directions_, l.in, wide} : Shape{directions_, wide, l.in});
    expect(2, quantised_ ? Shape{directions_, l.hidden, wide} : Shape{directions_, wide, l.hidden});
    expect(3, {directions_, 2 * wide});
    expect(4, {l.batch});
    const Shape state =
        batch_first_ ? Shape{l.batch, directions_, l.hidden} : Shape{directions_, l.batch, l.hidden};
    expect(5, state);
    if (cell_ != Cell::kLstm) return;
    expect(6, state);
    expect(7, {directions_, 3 * l.hidden});
  }

  /// Row (d, b) of a state tensor.
  int64_t StateRow(const Layout& l, int64_t d, int64_t b) const {
    return batch_first_ ? b * directions_ + d : d * l.batch + b;
  }

  void Direction(KernelContext& context, const Layout& l, int64_t d, float* memory, void* scratch) const {
    ThreadTeam& team = context.threads();
    const TensorView& x = *context.input(0);
    const TensorView* lengths = context.input(4);
    float* h = memory + l.state();
    float* c = h + l.batch * l.hidden;
    for (int i = 0; i < (cell_ == Cell::kLstm ? 2 : 1); ++i) {
      const TensorView* initial = context.input(5 + i);
      float* to = i == 0 ? h : c;
      for (int64_t b = 0; b < l.batch; ++b, to += l.hidden) {
        if (initial)
          std::copy_n(initial->as<float>() + StateRow(l, d, b) * l.hidden, l.hidden, to);
        else
          std::fill_n(to, l.hidden, 0.0f);
      }
    }
    // Biases of inputs and state; kept apart only for the candidate of a GRU that resets after its product.
    float* bias = memory + l.bias();
    std::fill_n(bias, 2 * l.wide(), 0.0f);
    const bool apart = cell_ == Cell::kGru && linear_before_reset_;
    if (const TensorView* given = context.input(3)) {
      const float* from = given->as<float>() + d * 2 * l.wide();
      for (int64_t i = 0; i < l.wide(); ++i) {
        const bool keep = apart && i >= 2 * l.hidden;
        bias[i] = from[i] + (keep ? 0 : from[l.wide() + i]);
        if (keep) bias[l.wide() + i] = from[l.wide() + i];
      }
    }
    float low = 0, high = 0;
    if (quantised_) {
      const float* v = x.as<float>();
      for (int64_t i = 0; i < x.elements(); ++i) {
        low = std::min(low, v[i]);
        high = std::max(high, v[i]);
      }
    }
    const bool backwards = reverse_ || d == 1;
    TensorView* y = context.output(0);
    const auto length = [&](int64_t b) {
      return lengths ? std::clamp<int64_t>(IndexOf(*lengths, b), 0, l.steps) : l.steps;
    };
    const auto y_row = [&](int64_t t, int64_t b) {
      return y->as<float>() +
             (batch_first_ ? (b * l.steps + t) * directions_ + d : (t * directions_ + d) * l.batch + b) *
                 l.hidden;
    };
    for (int64_t s0 = 0; s0 < l.steps; s0 += l.chunk) {
      const int64_t count = std::min(l.chunk, l.steps - s0), rows = count * l.batch;
      float* inputs = memory + l.x();
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t s = s0 + row / l.batch, b = row % l.batch, n = length(b);
        const int64_t t = s >= n ? s : backwards ? n - 1 - s : s;
        const int64_t from = batch_first_ ? b * l.steps + t : t * l.batch + b;
        std::copy_n(x.as<float>() + from * l.in, l.in, inputs + row * l.in);
      }
      if (quantised_) RoundToBytes(low, high, inputs, rows * l.in);
      float* products = memory + l.products();
      dense::GemmArgs g = Product(rows, l.wide(), l.in);
      g.a = {inputs, DType::kFloat};
      g.b = {WeightOf(context, 0, d, l.wide(), l.in), DType::kFloat};
      g.c = {products, DType::kFloat};
      g.bias = {bias, DType::kFloat};
      dense::Gemm(team, g, scratch);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t s = s0 + i;
        Step(context, l, d, products + i * l.batch * l.wide(), memory, scratch, s, length);
        if (!y) continue;
        for (int64_t b = 0; b < l.batch; ++b) {
          const int64_t n = length(b), t = s >= n ? s : backwards ? n - 1 - s : s;
          if (s < n)
            std::copy_n(h + b * l.hidden, l.hidden, y_row(t, b));
          else
            std::fill_n(y_row(t, b), l.hidden, 0.0f);
        }
      }
    }
    for (int i = 0; i < (cell_ == Cell::kLstm ? 2 : 1); ++i) {
      TensorView* last = context.output(1 + i);
      for (int64_t b = 0; last && b < l.batch; ++b)
        std::copy_n((i == 0 ? h : c) + b * l.hidden, l.hidden,
                    last->as<float>() + StateRow(l, d, b) * l.hidden);
    }
  }

  /// Step s of all sequences that are so long; `gates` has the products of the inputs and the biases.
  template <class Length>
  void Step(KernelContext& context, const Layout& l, int64_t d, float* gates, float* memory, void* scratch,
            int64_t s, const Length& length) const {
    const auto active = [&](int64_t b) { return s < length(b); };
    ThreadTeam& team = context.threads();
    const int64_t H = l.hidden, wide = l.wide();
    float* h = memory + l.state();
    float* gated = memory + l.gated();
    const Activation* f = &activations_[static_cast<size_t>(d) * per_direction_];
    std::copy_n(h, l.batch * H, gated);
    if (quantised_) {
      // The range is that of the step's outputs before it, which are zeros behind the end of a sequence.
      for (int64_t b = 0; b < l.batch && context.output(0); ++b)
        if (s > length(b)) std::fill_n(gated + b * H, H, 0.0f);
      const auto [low, high] = std::minmax_element(gated, gated + l.batch * H);
      RoundToBytes(*low, *high, gated, l.batch * H);
    }
    const auto* r = static_cast<const float*>(WeightOf(context, 1, d, wide, H));
    const bool apart = cell_ == Cell::kGru && linear_before_reset_;
    // Gates whose products of the state are added before anything else.
    const int64_t direct = cell_ == Cell::kGru && !apart ? 2 * H : wide;
    float* recurrent = memory + l.recurrent();
    dense::GemmArgs first = Product(l.batch, direct, H);
    first.a = {gated, DType::kFloat};
    first.b = {r, DType::kFloat};
    first.ldc = wide;
    first.c = {apart ? recurrent : gates, DType::kFloat};
    first.bias = {apart ? memory + l.bias() + wide : gates, DType::kFloat};
    first.bias_row_stride = apart ? 0 : wide;
    dense::Gemm(team, first, scratch);
    if (cell_ == Cell::kLstm) return LstmStep(context, l, d, f, gates, memory, active);
    if (cell_ == Cell::kRnn) {
      Clip(gates, l.batch * wide);
      f[0].Apply(team, gates, l.batch * wide);
      for (int64_t b = 0; b < l.batch; ++b)
        if (active(b)) std::copy_n(gates + b * H, H, h + b * H);
      return;
    }
    // GRU: update, reset, candidate
    for (int64_t b = 0; b < l.batch; ++b) {
      float* z = gates + b * wide;
      if (apart)
        for (int64_t i = 0; i < 2 * H; ++i) z[i] += recurrent[b * wide + i];
      Clip(z, 2 * H);
      f[0].Apply(team, z, 2 * H);
      for (int64_t i = 0; i < H; ++i) {
        if (apart)
          z[2 * H + i] += z[H + i] * recurrent[b * wide + 2 * H + i];
        else
          gated[b * H + i] = z[H + i] * h[b * H + i];
      }
    }
    if (!apart) {
      // Rows of the candidate begin within a panel unless 2 * hidden is a multiple of it: all, of which the
      // last third is used.
      dense::GemmArgs g = Product(l.batch, wide, H);
      g.a = {gated, DType::kFloat};
      g.b = {r, DType::kFloat};
      g.c = {recurrent, DType::kFloat};
      if (direct % dense::kPanel == 0 || !weights_[0]) {
        g.n = H;
        g.b.data = r + direct * H;  // packed panels and rows alike: H floats per column
        g.ldc = wide;
        g.c.data = recurrent + direct;
      }
      dense::Gemm(team, g, scratch);
      for (int64_t b = 0; b < l.batch; ++b)
        for (int64_t i = direct; i < wide; ++i) gates[b * wide + i] += recurrent[b * wide + i];
    }
    for (int64_t b = 0; b < l.batch; ++b) {
      if (!active(b)) continue;
      float* z = gates + b * wide;
      Clip(z + 2 * H, H);
      f[1].Apply(team, z + 2 * H, H);
      for (int64_t i = 0; i < H; ++i) h[b * H + i] = (1 - z[i]) * z[2 * H + i] + z[i] * h[b * H + i];
    }
  }

  /// Gates: input, output, forget, cell.
  template <class Active>
  void LstmStep(KernelContext& context, const Layout& l, int64_t d, const Activation* f, float* gates,
                float* memory, const Active& active) const {
    ThreadTeam& team = context.threads();
    const int64_t H = l.hidden, wide = l.wide();
    const TensorView* peepholes = context.input(7);
    const float* p = peepholes ? peepholes->as<float>() + d * 3 * H : nullptr;
    float* gated = memory + l.gated();
    for (int64_t b = 0; b < l.batch; ++b) {
      if (!active(b)) continue;
      float* i = gates + b * wide;
      float *o = i + H, *forget = o + H, *candidate = forget + H;
      float* h = memory + l.state() + b * H;
      float* c = h + l.batch * H;
      float* out = gated + b * H;
      for (int64_t k = 0; p && k < H; ++k) {
        i[k] += p[k] * c[k];
        forget[k] += p[2 * H + k] * c[k];
      }
      Clip(i, H);
      Clip(forget, 2 * H);
      f[0].Apply(team, i, H);
      if (couple_)
        for (int64_t k = 0; k < H; ++k) forget[k] = 1 - i[k];
      else
        f[0].Apply(team, forget, H);
      f[1].Apply(team, candidate, H);
      for (int64_t k = 0; k < H; ++k) {
        c[k] = forget[k] * c[k] + i[k] * candidate[k];
        if (p) o[k] += p[H + k] * c[k];
        out[k] = c[k];
      }
      Clip(o, H);
      f[0].Apply(team, o, H);
      f[2].Apply(team, out, H);
      for (int64_t k = 0; k < H; ++k) h[k] = o[k] * out[k];
    }
  }

  void Clip(float* x, int64_t n) const {
    if (clip_ <= 0) return;
    for (int64_t i = 0; i < n; ++i) x[i] = std::clamp(x[i], -clip_, clip_);
  }

  Cell cell_ = Cell::kRnn;
  int64_t directions_ = 1, gates_ = 1;
  size_t per_direction_ = 1;
  bool reverse_ = false, batch_first_ = false, linear_before_reset_ = false, couple_ = false,
       quantised_ = false;
  float clip_ = 0;
  std::vector<Activation> activations_;
  graph::ConstantPtr weights_[2], scales_[2], zeros_[2];  ///< W and R; both or none
};

}  // namespace

void RegisterRecurrent(kernels::Registry& registry) {
  using kernels::kFloat32;
  constexpr kernels::TypeSet kLengths = {DType::kInt32}, kBytes = {DType::kInt8, DType::kUInt8};
  for (std::string_view op : {"RNN", "GRU", "LSTM"}) {
    kernels::KernelDef def;
    def.op = op;
    def.types = {kFloat32, kFloat32, kFloat32, kFloat32, kLengths, kFloat32, kFloat32, kFloat32};
    def.create = Make<RecurrentKernel>;
    registry.Add(std::move(def));
  }
  kernels::KernelDef def;
  def.domain = graph::kMsDomain;
  def.op = "DynamicQuantizeLSTM";
  def.types = {kFloat32, kBytes,   kBytes,   kFloat32, kLengths, kFloat32,
               kFloat32, kFloat32, kFloat32, kBytes,   kFloat32, kBytes};
  def.create = Make<RecurrentKernel>;
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
