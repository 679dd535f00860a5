/// com.microsoft:EmbedLayerNormalization: the sum of word, position and segment embeddings, normalised.
#include <algorithm>

#include "core/error.h"
#include "providers/cpu/dense/norm.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/element.h"
#include "providers/cpu/kernels/tensor_families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

/// Inputs: ids [B,S], segments? [B,S], word [V,D], position [P,D], segment? [T,D], gamma [D], beta [D],
/// mask? [B,S], positions? [B,S] or [1,S]. Outputs: normalised, how many mask elements are 1 per row, sum.
class EmbedNormKernel final : public Kernel {
 public:
  explicit EmbedNormKernel(const KernelInfo& info) : epsilon_(info.node.Float("epsilon", 1e-12f)) {}

  void Compute(KernelContext& context) const override {
    const TensorView& ids = *context.input(0);
    const int64_t batch = ids.shape[0], seq = ids.shape[1];
    if (TensorView* counts = context.output(1))
      CountMask(context.input(7), batch, seq, counts->as<int32_t>());
    const TensorView* tables[3] = {context.input(2), context.input(3), context.input(4)};
    const TensorView* positions = context.input(8);
    const int64_t width = tables[0]->shape[1];
    for (int i = 1; i < 3; ++i)
      if (tables[i] && (tables[i]->shape.rank() != 2 || tables[i]->shape[1] != width))
        Throw(Code::kInvalidModel, "a table of shape ", tables[i]->shape.ToString(), ", expected rows of ",
              width);
    if (context.input(1) && (!tables[2] || context.input(1)->shape != ids.shape))
      Throw(Code::kInvalidModel, "segments without a table for them or of another shape");
    if (positions && (positions->shape.rank() != 2 || positions->shape[1] != seq ||
                      (positions->shape[0] != 1 && positions->shape[0] != batch)))
      Throw(Code::kInvalidInput, "positions of shape ", positions->shape.ToString());
    for (int i = 5; i < 7; ++i)
      if (context.input(i)->elements() != width)
        Throw(Code::kInvalidModel, "input ", i, " of shape ", context.input(i)->shape.ToString());
    TensorView& y = *context.output(0);
    TensorView& sum = context.output(2) ? *context.output(2) : y;
    ForNumber(y.dtype, [&](auto t) {
      using T = decltype(t);
      context.threads().Run(batch * seq, [&](int64_t row, int) {
        const T* parts[3] = {};
        const auto look_up = [&](int part, int64_t index) {
          if (index < 0 || index >= tables[part]->shape[0])
            Throw(Code::kInvalidInput, "index ", index, " of an embedding table with ",
                  tables[part]->shape[0], " rows");
          parts[part] = tables[part]->as<T>() + index * width;
        };
        look_up(0, IndexOf(ids, row));
        look_up(1, positions ? IndexOf(*positions, positions->shape[0] == 1 ? row % seq : row) : row % seq);
        if (context.input(1)) look_up(2, IndexOf(*context.input(1), row));
        T* out = sum.as<T>() + row * width;
        for (int64_t i = 0; i < width; ++i) {
          auto v = Load(parts[0][i]) + Load(parts[1][i]);
          if (parts[2]) v += Load(parts[2][i]);
          out[i] = Store<T>(static_cast<typename Arithmetic<T>::Type>(v));
        }
      });
    });
    dense::NormArgs args;
    args.rows = batch * seq;
    args.cols = args.x_pitch = args.y_pitch = width;
    args.rms = false;
    args.epsilon = epsilon_;
    args.x = {sum.data, sum.dtype};
    args.scale = ArrayOf(context.input(5));
    args.shift = ArrayOf(context.input(6));
    args.y = {y.data, y.dtype};
    dense::Norm(context.threads(), args);
  }

 private:
  static void CountMask(const TensorView* mask, int64_t batch, int64_t seq, int32_t* counts) {
    if (mask && mask->elements() != batch * seq)
      Throw(Code::kInvalidInput, "a mask of shape ", mask->shape.ToString());
    for (int64_t b = 0; b < batch; ++b) {
      counts[b] = 0;
      for (int64_t s = 0; mask && s < seq; ++s) counts[b] += IndexOf(*mask, b * seq + s) == 1;
    }
  }

  float epsilon_;
};

}  // namespace

void RegisterEmbedNorm(kernels::Registry& registry) {
  constexpr kernels::TypeSet kIndices = {DType::kInt32, DType::kInt64};
  kernels::KernelDef def;
  def.domain = graph::kMsDomain;
  def.op = "EmbedLayerNormalization";
  def.types = {kIndices,         kIndices,         kernels::kFloats, kernels::kFloats, kernels::kFloats,
               kernels::kFloats, kernels::kFloats, kIndices,         kIndices};
  def.create = Make<EmbedNormKernel>;
  registry.Add(std::move(def));
}

}  // namespace ullage::cpu
