/// Rotary embedding of its own: ai.onnx:RotaryEmbedding, com.microsoft:RotaryEmbedding and MRotaryEmbedding.
#include <vector>

#include "core/error.h"
#include "providers/cpu/kernels/attention_common.h"
#include "providers/cpu/kernels/define.h"
#include "providers/cpu/kernels/families.h"

namespace ullage::cpu {
namespace {

using kernels::Kernel;
using kernels::KernelContext;
using kernels::KernelInfo;

/// ai.onnx: X, cos, sin, position_ids?; com.microsoft: X, position_ids, cos, sin. With positions the tables
/// are [positions, rot/2]; without, [B or 1, S, rot/2]. One position stands for the first of all rows.
/// com.microsoft's attribute `scale` has no effect, as in ONNX Runtime.
class RotaryKernel final : public Kernel {
 public:
  explicit RotaryKernel(const KernelInfo& info) {
    const graph::Node& n = info.node;
    standard_ = n.domain.empty();
    multi_ = n.op == "MRotaryEmbedding";
    interleaved_ = n.Int(standard_ ? "interleaved"
                         : multi_  ? "rotary_interleaved"
                                   : "interleaved",
                         n.Int("interleaved", 0)) != 0;
    heads_ = n.Int("num_heads", 0);
    rotary_dim_ = n.Int("rotary_embedding_dim", 0);
    if (heads_ < 0 || rotary_dim_ < 0)
      Throw(Code::kInvalidModel, "node ", n.name, ": num_heads ", heads_, ", rotary_embedding_dim ",
            rotary_dim_);
    if (n.Int("is_packed_batching", 0) != 0) info.Unsupported("is_packed_batching");
    if (multi_) Sections(info);
  }

  void Compute(KernelContext& context) const override {
    const TensorView& x = *context.input(0);
    TensorView& y = *context.output(0);
    const TensorView* ids = context.input(standard_ ? 3 : 1);
    const TensorView& cos = *context.input(standard_ ? 1 : 2);
    const TensorView& sin = *context.input(standard_ ? 2 : 3);
    if (!(cos.shape == sin.shape) || cos.dtype != sin.dtype || cos.shape.rank() != (ids ? 2 : 3))
      Throw(Code::kInvalidModel, "tables of shapes ", cos.shape.ToString(), " and ", sin.shape.ToString(),
            ids ? ", expected [positions, n]" : ", expected [B, S, n]");
    dense::HeadTransformArgs args;
    const Shape& s = x.shape;
    const int64_t half = cos.shape.at(-1);
    args.batch = s[0];
    if (s.rank() == 4) {
      args.heads = s[1];
      args.seq = s[2];
      args.head_size = s[3];
      args.src_layout = HeadsFirst(s[1], s[2], s[3]);
    } else {
      args.seq = s[1];
      args.heads = heads_;
      if (heads_ > 0) {
        args.head_size = s[2] / heads_;
      } else if (2 * half > 0) {
        args.head_size = 2 * half;
        args.heads = s[2] / args.head_size;
      }
      if (args.heads * args.head_size != s[2])
        Throw(Code::kInvalidModel, "a width of ", s[2], " for ", args.heads, " heads of ", args.head_size);
      args.src_layout = PackedLayout(s[1], s[2], args.head_size);
    }
    if (x.elements() == 0) return;
    args.src = ArrayOf(&x);
    args.dst = {y.data, y.dtype};
    args.dst_layout = args.src_layout;
    args.rope.cos = ArrayOf(&cos);
    args.rope.sin = ArrayOf(&sin);
    args.rope.pitch = half;
    args.rope.rotary_dim = 2 * half;
    args.rope.interleaved = interleaved_;
    if (args.rope.rotary_dim > args.head_size || (rotary_dim_ > 0 && rotary_dim_ != args.rope.rotary_dim))
      Throw(Code::kInvalidModel, "tables of ", half, " columns for ",
            rotary_dim_ > 0 ? rotary_dim_ : args.head_size, " rotated elements of heads of ", args.head_size);
    if (!ids) return ByRow(context.threads(), args, cos.shape);
    args.rope.rows = cos.shape[0];
    if (multi_) {
      if (ids->shape.rank() != 3 || ids->shape[0] != 3 || ids->shape[1] != args.batch ||
          ids->shape[2] != args.seq || sections_end_ != half)
        Throw(Code::kInvalidModel, "position_ids of shape ", ids->shape.ToString(), " and ", sections_end_,
              " pairs in mrope_section for ", x.shape.ToString(), " and tables of ", half, " columns");
      args.positions.ids = ids->as<int64_t>();
      args.positions.ids_batch_stride = args.seq;
      args.positions.ids_section_stride = args.batch * args.seq;
      args.positions.section_of_pair = section_of_pair_.data();
    } else if (ids->elements() == 1) {
      args.positions.offset = *ids->as<int64_t>();
    } else if (const int64_t n = ids->elements(); n == args.batch * args.seq || n == args.seq) {
      args.positions.ids = ids->as<int64_t>();
      args.positions.ids_batch_stride = n == args.seq ? 0 : args.seq;
    } else {
      Throw(Code::kInvalidModel, "position_ids of shape ", ids->shape.ToString(), " for an input of shape ",
            x.shape.ToString());
    }
    dense::TransformHeads(context.threads(), args);
  }

 private:
  /// Which of the three positions turns pair i: one after the other, or (layout 1) height and width at every
  /// third pair, as far as their sections go.
  void Sections(const KernelInfo& info) {
    const auto sections = info.node.Ints("mrope_section");
    if (sections.size() != 3) info.Unsupported("mrope_section of ", sections.size(), " elements");
    for (int64_t n : sections) {
      if (n < 0 || n > 4096) info.Unsupported("mrope_section ", n);
      sections_end_ += n;
    }
    section_of_pair_.assign(static_cast<size_t>(sections_end_), 0);
    const bool interleaved = info.node.Int("mrope_layout", 0) == 1;
    for (int64_t i = 0; i < sections_end_; ++i) {
      uint8_t section = 0;
      if (interleaved) {
        const auto k = static_cast<size_t>(i % 3);
        if (k > 0 && i < 3 * sections[k]) section = static_cast<uint8_t>(k);
      } else if (i >= sections[0]) {
        section = i < sections[0] + sections[1] ? 1 : 2;
      }
      section_of_pair_[static_cast<size_t>(i)] = section;
    }
  }

  /// Tables with a row per token; those of one batch row serve all.
  static void ByRow(ThreadTeam& team, dense::HeadTransformArgs args, const Shape& table) {
    if ((table[0] != args.batch && table[0] != 1) || table[1] != args.seq)
      Throw(Code::kInvalidModel, "tables of shape ", table.ToString(), ", expected [", args.batch, ",",
            args.seq, ",", table[2], "]");
    args.rope.rows = table[0] * table[1];
    const int64_t batch = args.batch;
    args.batch = 1;
    const auto at = [](const void* p, DType dtype, int64_t elements) {
      return static_cast<const std::byte*>(p) + elements * static_cast<int64_t>(dense::ElementBytes(dtype));
    };
    const auto src = args.src;
    const auto dst = args.dst;
    for (int64_t b = 0; b < batch; ++b) {
      args.src.data = at(src.data, src.dtype, b * args.src_layout.batch_stride);
      args.dst.data = const_cast<std::byte*>(at(dst.data, dst.dtype, b * args.dst_layout.batch_stride));
      args.positions.offset = table[0] == 1 ? 0 : b * args.seq;
      dense::TransformHeads(team, args);
    }
  }

  bool standard_ = false, multi_ = false, interleaved_ = false;
  int64_t heads_ = 0, rotary_dim_ = 0, sections_end_ = 0;
  std::vector<uint8_t> section_of_pair_;
};

}  // namespace

void RegisterRotary(kernels::Registry& registry) {
  const auto add = [&](std::string_view domain, std::string_view op, bool standard) {
    kernels::KernelDef def;
    def.domain = domain;
    def.op = op;
    const kernels::TypeSet ids = {DType::kInt64};
    def.types = standard ? std::vector{kernels::kFloats, kernels::kFloats, kernels::kFloats, ids}
                         : std::vector{kernels::kFloats, ids, kernels::kFloats, kernels::kFloats};
    def.create = Make<RotaryKernel>;
    registry.Add(std::move(def));
  };
  add("", "RotaryEmbedding", true);
  add(graph::kMsDomain, "RotaryEmbedding", false);
  add(graph::kMsDomain, "MRotaryEmbedding", false);
}

}  // namespace ullage::cpu
