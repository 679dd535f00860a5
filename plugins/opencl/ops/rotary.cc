// Rotary embedding of its own: ai.onnx and com.microsoft RotaryEmbedding, ullage:ApplyRotary.
#include "gemm.h"
#include "heads.h"

namespace ullage_opencl {
namespace {

/// ai.onnx: X, cos, sin, positions?; com.microsoft: X, positions, cos, sin; ApplyRotary: X, cos, sin, with
/// tables as wide as what is rotated.
class Rotary final : public Op {
 public:
  explicit Rotary(const ullage_kernel_info& info) : Op(info) {
    const Facts facts = node_.facts();
    apply_ = node_.op() == "ApplyRotary";
    standard_ = node_.domain().empty();
    ids_ = apply_ ? SIZE_MAX : standard_ ? 3 : 1;
    cos_ = apply_ || standard_ ? 1 : 2;
    heads_ = node_.Int("num_heads", 0);
    if (node_.Int("is_packed_batching", 0) != 0) node_.Unsupported("is_packed_batching");
    rotary_ = node_.Int("rotary_embedding_dim", 0);
    const bool interleaved = node_.Int("interleaved", 0) != 0;
    const int32_t type = facts.in(0).dtype, table = facts.in(cos_).dtype;
    if (facts.in(cos_ + 1).dtype != table) node_.Unsupported("tables of different types");
    const int32_t ids = facts.in(ids_).present ? facts.in(ids_).dtype : kInt64;
    kernel_ =
        &Use("rotary.cl",
             HeadsOptions(type, type, type, table, ids, kInt64, interleaved ? 2 : 1, false, apply_), "heads");
  }

  void Compute(const Context& c) const override {
    const Tensor &x = *c.in(0), &y = *c.out(0);
    HeadsTensors t;
    t.cosines = c.in(cos_);
    t.sines = c.in(cos_ + 1);
    t.ids = c.in(ids_);
    if (x.elements() == 0) return;
    const int64_t width = t.cosines->back(), rotated = apply_ ? width : 2 * width;
    HeadsArgs args;
    int64_t heads = heads_, size = 0, seq = 0;
    HeadLayout layout;
    if (x.rank == 4) {
      heads = x[1];
      seq = x[2];
      size = x[3];
      layout = HeadsFirst(heads, seq, size);
    } else {
      seq = x[1];
      if (heads == 0 && rotated > 0) heads = x[2] / rotated;
      if (heads < 1 || x[2] % heads != 0) node_.Invalid("heads of an input of shape " + x.ToString());
      size = x[2] / heads;
      layout = Packed(seq, x[2], size);
    }
    if (rotated > size || (rotary_ > 0 && rotary_ != rotated) || t.sines->elements() != t.cosines->elements())
      node_.Invalid("tables of shape " + t.cosines->ToString() + " for heads of " + std::to_string(size));
    args.size = Int32(size, "elements of a head");
    args.rotary = Int32(rotated, "elements");
    args.seq = Int32(seq, "rows");
    args.heads = Int32(heads, "heads");
    args.x_batch = args.y_batch = layout.batch;
    args.x_row = args.y_row = layout.row;
    args.x_head = args.y_head = layout.head;
    args.table_pitch = Int32(width, "columns");
    args.table_rows = Int32(t.cosines->elements() / std::max<int64_t>(width, 1), "rows of a table");
    if (t.ids) {
      const int64_t n = t.ids->elements();
      if (n != 1 && n != seq && n != x[0] * seq) node_.Invalid("positions of shape " + t.ids->ToString());
      args.ids = n == 1 ? 2 : 1;
      args.ids_batch = n == seq ? 0 : seq;
    } else {
      args.offset = t.cosines->rank == 3 && (*t.cosines)[0] > 1 ? seq : 0;
    }
    RunHeads(c, *kernel_, x, y, t, args, x[0]);
  }

 private:
  bool apply_ = false, standard_ = false;
  size_t ids_ = SIZE_MAX, cos_ = 1;
  int64_t heads_ = 0, rotary_ = 0;
  KernelRef* kernel_;
};

}  // namespace

std::string HeadsOptions(int32_t x, int32_t y, int32_t weight, int32_t table, int32_t ids, int32_t lengths,
                         int rotate, bool norm, bool full_table, const RowCodec& codec, int64_t size) {
  return Define("X", TypeCode(x)) + Define("Y", TypeCode(y)) + Define("W", TypeCode(weight)) +
         Define("P", TypeCode(table)) + Define("I", TypeCode(ids)) + Define("L", TypeCode(lengths)) +
         Define("ROTATE", rotate) + Define("NORM", norm) + Define("FULL_TABLE", full_table) +
         (codec.kind == 0
              ? ""
              : Define("CODEC", codec.kind) + Define("BLOCK", codec.block) + Define("SIZE", size));
}

void AddRotary(std::vector<OpEntry>& ops) {
  const auto add = [&](const char* domain, const char* name, std::vector<uint64_t> types) {
    OpEntry e;
    e.domain = domain;
    e.op = name;
    e.types = std::move(types);
    e.make = Make<Rotary>;
    e.may_alias = {{0, 0}};
    ops.push_back(e);
  };
  add("", "RotaryEmbedding", {kFloats, kFloats, kFloats, kIndices});
  add(kMicrosoft, "RotaryEmbedding", {kFloats, kIndices, kFloats, kFloats});
  add(kUllage, "ApplyRotary", {kFloats, kFloats, kFloats});
}

}  // namespace ullage_opencl
