/// Einsum. Two operands go through the matrix product where their strides allow it; all else is a plain loop.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <vector>

#include "core/checked.h"
#include "core/error.h"
#include "providers/cpu/dense/gemm.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"
#include "providers/cpu/kernels/types.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

constexpr int kMaxOperands = 8;
constexpr int kMaxLabels = 2 * kMaxRank;
constexpr char kEllipsis = '.';

/// One index: its size and the step that it makes in each operand and in the result (0: not there).
struct Label {
  char letter = 0;
  int ellipsis = -1;  ///< dimension of the ellipsis, counted from its end
  int64_t size = 1;
  int64_t steps[kMaxOperands] = {};
  bool in_operand[kMaxOperands] = {};
  int64_t out_step = 0;
  bool in_result = false;
};

struct Labels {
  std::array<Label, kMaxLabels> all;
  int count = 0;

  Label& Find(char letter, int ellipsis) {
    for (int i = 0; i < count; ++i)
      if (all[static_cast<size_t>(i)].letter == letter && all[static_cast<size_t>(i)].ellipsis == ellipsis)
        return all[static_cast<size_t>(i)];
    if (count == kMaxLabels) Throw(Code::kUnsupported, "more than ", kMaxLabels, " indices");
    Label& label = all[static_cast<size_t>(count++)];
    label.letter = letter;
    label.ellipsis = ellipsis;
    return label;
  }
};

/// A product of matrices in the making: groups of labels that step through all tensors as one.
struct Group {
  int64_t size = 1, a = 0, b = 0, c = 0;
};

class EinsumKernel final : public Kernel {
 public:
  explicit EinsumKernel(const KernelInfo& info) {
    std::string equation = info.node.Str("equation", "");
    std::erase(equation, ' ');
    if (info.node.inputs.size() > kMaxOperands) info.Unsupported(info.node.inputs.size(), " operands");
    const size_t arrow = equation.find("->");
    std::string terms = equation.substr(0, arrow);
    for (size_t at = 0;;) {
      const size_t comma = terms.find(',', at);
      terms_.push_back(Letters(terms.substr(at, comma - at)));
      if (comma == std::string::npos) break;
      at = comma + 1;
    }
    if (terms_.size() != info.node.inputs.size())
      Throw(Code::kInvalidModel, "node ", info.node.name, ": equation ", equation, " for ",
            info.node.inputs.size(), " operands");
    if (arrow != std::string::npos) {
      result_ = Letters(equation.substr(arrow + 2));
    } else {
      std::string letters;
      bool ellipsis = false;
      for (char c : terms) {
        if (c == kEllipsis) ellipsis = true;
        if (std::isalpha(static_cast<unsigned char>(c)) && std::count(terms.begin(), terms.end(), c) == 1)
          letters += c;
      }
      std::sort(letters.begin(), letters.end());
      result_ = (ellipsis ? std::string(1, kEllipsis) : "") + letters;
    }
  }

  void DeclareWorkspaceRequirements(const kernels::WorkspaceShapes& shapes,
                                    std::vector<memory::WorkspaceRequirement>& needs) const override {
    if (terms_.size() != 2 || shapes.inputs[0].dtype == DType::kDouble || !IsFloating(shapes.inputs[0].dtype))
      return;
    // The most that a product of any size takes.
    dense::GemmArgs args;
    args.m = args.n = args.k = int64_t{1} << 20;
    args.a.dtype = args.b.dtype = args.c.dtype = shapes.inputs[0].dtype;
    needs.push_back({dense::GemmScratchBytes(args, shapes.threads), 0, 64});
  }

  void Compute(KernelContext& context) const override {
    TensorView& y = *context.output(0);
    if (y.elements() == 0) return;
    Labels labels;
    for (size_t o = 0; o < terms_.size(); ++o) Add(labels, terms_[o], context.input(static_cast<int>(o)), o);
    AddResult(labels, y.shape);
    if (terms_.size() == 2 && Product(context, labels, y)) return;
    ForNumber(y.dtype, [&](auto t) { Loop<decltype(t)>(context, labels, y); });
  }

 private:
  static std::string Letters(const std::string& term) {
    std::string out;
    for (size_t i = 0; i < term.size(); ++i) {
      if (term.compare(i, 3, "...") == 0) {
        out += kEllipsis;
        i += 2;
      } else {
        out += term[i];
      }
    }
    return out;
  }

  static void Add(Labels& labels, const std::string& term, const TensorView* x, size_t operand) {
    const Shape& s = x->shape;
    const bool has_ellipsis = term.find(kEllipsis) != std::string::npos;
    const int extra = s.rank() - static_cast<int>(term.size()) + has_ellipsis;
    if (extra < 0 || (extra > 0 && !has_ellipsis))
      Throw(Code::kInvalidModel, "operand ", operand, " of shape ", s.ToString(), " for the term ", term);
    int64_t step = 1;
    int d = s.rank() - 1;
    const auto take = [&](char letter, int ellipsis) {
      Label& label = labels.Find(letter, ellipsis);
      const int64_t size = s[d--];
      if (size != label.size && size != 1 && label.size != 1)
        Throw(Code::kInvalidModel, "index ", letter, " has sizes ", label.size, " and ", size);
      if (size != 1 || label.size == 0) label.size = size;
      label.in_operand[operand] = true;
      if (size != 1) label.steps[operand] += step;
      step *= size;
    };
    for (size_t i = term.size(); i-- > 0;) {
      if (term[i] != kEllipsis)
        take(term[i], -1);
      else
        for (int e = 0; e < extra; ++e) take(kEllipsis, e);
    }
  }

  void AddResult(Labels& labels, const Shape& s) const {
    const int extra =
        s.rank() - static_cast<int>(result_.size()) + (result_.find(kEllipsis) != std::string::npos ? 1 : 0);
    int64_t step = 1;
    int d = s.rank() - 1;
    const auto take = [&](char letter, int ellipsis) {
      Label& label = labels.Find(letter, ellipsis);
      if (label.size != s[d])
        Throw(Code::kInvalidModel, "index ", letter, " has sizes ", label.size, " and ", s[d]);
      label.in_result = true;
      label.out_step = step;
      step *= s[d--];
    };
    for (size_t i = result_.size(); i-- > 0;) {
      if (result_[i] != kEllipsis)
        take(result_[i], -1);
      else
        for (int e = 0; e < extra; ++e) take(kEllipsis, e);
    }
  }

  /// C = A B for stacks of matrices; false when the strides do not allow it.
  static bool Product(KernelContext& context, const Labels& labels, TensorView& y) {
    const TensorView &a = *context.input(0), &b = *context.input(1);
    if (y.dtype == DType::kDouble || !IsFloating(y.dtype)) return false;
    enum Class { kBatch, kRows, kCols, kSum, kClasses };
    std::array<std::array<Group, kMaxLabels>, kClasses> groups;
    std::array<int, kClasses> counts{};
    int64_t work = 1;
    for (int i = 0; i < labels.count; ++i) {
      const Label& l = labels.all[static_cast<size_t>(i)];
      work *= l.size;
      if (l.size == 1) continue;
      const bool in_a = l.steps[0] != 0, in_b = l.steps[1] != 0;
      if (!in_a && !in_b) return false;
      Class kind = kBatch;
      if (!l.in_result) {
        if (!in_a || !in_b) return false;
        kind = kSum;
      } else if (!in_b) {
        kind = kRows;
      } else if (!in_a) {
        kind = kCols;
      }
      groups[kind][static_cast<size_t>(counts[kind]++)] = {l.size, l.steps[0], l.steps[1], l.out_step};
    }
    if (work < 4096) return false;
    for (int kind = 0; kind < kClasses; ++kind)
      Merge(groups[static_cast<size_t>(kind)], counts[static_cast<size_t>(kind)]);
    if (counts[kSum] > 1) return false;
    const Group sum = counts[kSum] ? groups[kSum][0] : Group{1, 1, 1, 0};
    for (int swap = 0; swap < 2; ++swap) {
      const auto& row_groups = groups[swap ? kCols : kRows];
      const auto& col_groups = groups[swap ? kRows : kCols];
      const int row_count = std::max(counts[swap ? kCols : kRows], 1);
      const int col_count = std::max(counts[swap ? kRows : kCols], 1);
      for (int r = 0; r < row_count; ++r)
        for (int c = 0; c < col_count; ++c) {
          dense::GemmArgs args;
          const Group& rows = row_groups[static_cast<size_t>(r)];
          const Group& cols = col_groups[static_cast<size_t>(c)];
          if (!SetMatrices(sum, rows, cols, swap != 0, &args)) continue;
          const TensorView &left = swap ? b : a, &right = swap ? a : b;
          args.a = {left.data, left.dtype};
          args.b = {right.data, right.dtype};
          args.c = {y.data, y.dtype};
          const auto batch = [&](const Group& g) {
            const auto at = static_cast<size_t>(args.batch_rank++);
            args.batch_dims[at] = g.size;
            args.a_batch_strides[at] = swap ? g.b : g.a;
            args.b_batch_strides[at] = swap ? g.a : g.b;
            args.c_batch_strides[at] = g.c;
          };
          const int rest = counts[kBatch] + std::max(0, row_count - 1) + std::max(0, col_count - 1);
          if (rest > kMaxRank) return false;
          for (int g = 0; g < counts[kBatch]; ++g) batch(groups[kBatch][static_cast<size_t>(g)]);
          for (int g = 0; g < row_count; ++g)
            if (g != r) batch(row_groups[static_cast<size_t>(g)]);
          for (int g = 0; g < col_count; ++g)
            if (g != c) batch(col_groups[static_cast<size_t>(g)]);
          dense::Gemm(context.threads(), args,
                      Workspace(context, 0, dense::GemmScratchBytes(args, context.threads().size())));
          return true;
        }
    }
    return false;
  }

  static bool SetMatrices(const Group& sum, const Group& rows, const Group& cols, bool swapped,
                          dense::GemmArgs* args) {
    const int64_t rows_a = swapped ? rows.b : rows.a, sum_a = swapped ? sum.b : sum.a;
    const int64_t cols_b = swapped ? cols.a : cols.b, sum_b = swapped ? sum.a : sum.b;
    args->m = rows.size;
    args->n = cols.size;
    args->k = sum.size;
    if (sum_a == 1 || sum.size == 1) {
      args->lda = rows_a;
    } else if (rows_a == 1 || rows.size == 1) {
      args->trans_a = true;
      args->lda = sum_a;
    } else {
      return false;
    }
    if (cols_b == 1 || cols.size == 1) {
      args->ldb = sum_b;
    } else if (sum_b == 1 || sum.size == 1) {
      args->trans_b = true;
      args->ldb = cols_b;
    } else {
      return false;
    }
    if (cols.c != 1 && cols.size != 1) return false;
    args->ldc = rows.c;
    return true;
  }

  /// Joins groups that step through every tensor one within the other.
  static void Merge(std::array<Group, kMaxLabels>& groups, int& count) {
    for (bool changed = true; changed;) {
      changed = false;
      for (int i = 0; i < count && !changed; ++i)
        for (int j = 0; j < count && !changed; ++j) {
          Group& outer = groups[static_cast<size_t>(i)];
          const Group inner = groups[static_cast<size_t>(j)];
          if (i == j || outer.a != inner.a * inner.size || outer.b != inner.b * inner.size ||
              outer.c != inner.c * inner.size)
            continue;
          outer = {outer.size * inner.size, inner.a, inner.b, inner.c};
          std::copy(groups.begin() + j + 1, groups.begin() + count, groups.begin() + j);
          --count;
          changed = true;
        }
    }
  }

  template <class T>
  void Loop(KernelContext& context, const Labels& labels, TensorView& y) const {
    using A = typename Arithmetic<T>::Type;
    using Sum = std::conditional_t<std::is_floating_point_v<A>, double, A>;
    const size_t operands = terms_.size();
    const T* data[kMaxOperands];
    for (size_t o = 0; o < operands; ++o) data[o] = context.input(static_cast<int>(o))->as<T>();
    std::array<const Label*, kMaxLabels> outer, inner;
    int outers = 0, inners = 0;
    int64_t sums = 1;
    for (int i = labels.count - 1; i >= 0; --i) {
      const Label& l = labels.all[static_cast<size_t>(i)];
      if (l.in_result) {
        outer[static_cast<size_t>(outers++)] = &l;
      } else {
        inner[static_cast<size_t>(inners++)] = &l;
        sums *= l.size;
      }
    }
    context.threads().Run(CeilDiv<int64_t>(y.elements(), 64), [&](int64_t task, int) {
      for (int64_t e = task * 64; e < std::min(y.elements(), task * 64 + 64); ++e) {
        int64_t at[kMaxOperands] = {}, rest = e, out = 0;
        for (int d = 0; d < outers; ++d) {
          const Label& l = *outer[static_cast<size_t>(d)];
          const int64_t index = rest % l.size;
          rest /= l.size;
          out += index * l.out_step;
          for (size_t o = 0; o < operands; ++o) at[o] += index * l.steps[o];
        }
        Sum sum{};
        int64_t index[kMaxLabels] = {};
        for (int64_t s = 0; s < sums; ++s) {
          Sum product{1};
          for (size_t o = 0; o < operands; ++o) product *= static_cast<Sum>(Load(data[o][at[o]]));
          sum += product;
          for (int d = 0; d < inners; ++d) {
            const Label& l = *inner[static_cast<size_t>(d)];
            for (size_t o = 0; o < operands; ++o) at[o] += l.steps[o];
            if (++index[d] < l.size) break;
            for (size_t o = 0; o < operands; ++o) at[o] -= l.steps[o] * l.size;
            index[d] = 0;
          }
        }
        y.as<T>()[out] = Store<T>(static_cast<A>(sum));
      }
    });
  }

  std::vector<std::string> terms_;
  std::string result_;
};

}  // namespace

void RegisterEinsum(kernels::Registry& registry) {
  kernels::KernelDef def;
  def.op = "Einsum";
  def.types = {kernels::kNumbers};
  def.create = Make<EinsumKernel>;
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
