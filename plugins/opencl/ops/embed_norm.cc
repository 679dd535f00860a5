// com.microsoft:EmbedLayerNormalization.
#include "op.h"
#include "ops/norm.h"
#include "spread.h"

namespace ullage_opencl {
namespace {

enum Input : size_t {
  kIds,
  kSegments,
  kWordTable,
  kPositionTable,
  kSegmentTable,
  kGamma,
  kBeta,
  kMask,
  kPositions
};

/// As embed.cl declares it.
struct EmbedArgs {
  uint32_t count = 0, width = 0, seq = 0, words = 0, places = 0, segments = 0;
  int32_t positions = 0;
};

class EmbedNorm final : public Op {
 public:
  explicit EmbedNorm(const ullage_kernel_info& info) : Op(info) {
    const Facts facts = node_.facts();
    const int32_t type = facts.in(kWordTable).dtype;
    for (size_t i : {kPositionTable, kSegmentTable, kGamma, kBeta})
      if (facts.in(i).present && facts.in(i).dtype != type) node_.Unsupported("operands of different types");
    if (facts.in(kSegments).present != facts.in(kSegmentTable).present)
      node_.Unsupported("segments without a table, or a table without segments");
    const auto code = [&](size_t i) {
      return TypeCode(facts.in(i).present ? facts.in(i).dtype : static_cast<int32_t>(kInt32));
    };
    epsilon_ = node_.Float("epsilon", 1e-12f);
    const std::string options = Define("T", TypeCode(type)) + Define("I", code(kIds)) +
                                Define("J", code(kSegments)) + Define("P", code(kPositions)) +
                                Define("M", code(kMask));
    embed_ = &Use("embed.cl", options, "embed");
    if (facts.out(1).present) ones_ = &Use("embed.cl", options, "ones");
    norm_ = &Use("norm.cl", NormOptions(type, type, false, false), "norm");
  }

  void Compute(const Context& c) const override {
    const Tensor &ids = *c.in(kIds), &y = *c.out(0);
    const Tensor &words = *c.in(kWordTable), &places = *c.in(kPositionTable);
    const Tensor *segments = c.in(kSegmentTable), *positions = c.in(kPositions), *mask = c.in(kMask);
    if (ids.rank != 2) node_.Invalid("ids of shape " + ids.ToString());
    const int64_t width = words.back();
    for (const Tensor* t : {&words, &places, segments})
      if (t && (t->rank != 2 || t->back() != width || (*t)[0] == 0))
        node_.Invalid("a table of shape " + t->ToString());
    for (const Tensor* t : {c.in(kGamma), c.in(kBeta)})
      if (t->elements() != width) node_.Invalid("a weight of shape " + t->ToString());
    for (const Tensor* t : {c.in(kSegments), mask})
      if (t && t->elements() != ids.elements()) node_.Invalid("an input of shape " + t->ToString());
    if (positions && (positions->rank != 2 || (*positions)[1] != ids[1] ||
                      ((*positions)[0] != 1 && (*positions)[0] != ids[0])))
      node_.Invalid("positions of shape " + positions->ToString());
    if (ones_ && c.out(1))
      c.Start(*ones_)
          .Add(mask)
          .Add(c.out(1))
          .Value(Count(ids[0]))
          .Value(Count(ids[1]))
          .Int(mask ? 1 : 0)
          .RunOver(ids[0]);
    if (y.elements() == 0) return;
    EmbedArgs args;
    args.count = Count(y.elements());
    args.width = Count(width);
    args.seq = Count(ids[1]);
    args.words = Count(words[0]);
    args.places = Count(places[0]);
    args.segments = segments ? Count((*segments)[0]) : 0;
    args.positions = !positions ? 0 : (*positions)[0] == 1 ? 2 : 1;
    const Tensor& sum = c.out(2) ? *c.out(2) : y;
    c.Start(*embed_)
        .Add(ids)
        .Add(c.in(kSegments))
        .Add(positions)
        .Add(words)
        .Add(places)
        .Add(segments)
        .Add(sum)
        .Value(args)
        .RunOver(y.elements());
    NormTensors t;
    t.scale = c.in(kGamma);
    t.shift = c.in(kBeta);
    RunNorm(c, *norm_, sum, y, t, ids.elements(), width, epsilon_);
  }

 private:
  float epsilon_ = 0;
  KernelRef *embed_ = nullptr, *ones_ = nullptr, *norm_ = nullptr;
};

}  // namespace

void AddEmbedNorm(std::vector<OpEntry>& ops) {
  OpEntry e;
  e.domain = kMicrosoft;
  e.op = "EmbedLayerNormalization";
  e.types = {kIndices, kIndices, kFloats, kFloats, kFloats, kFloats, kFloats, kIndices, kIndices};
  e.make = Make<EmbedNorm>;
  ops.push_back(e);
}

}  // namespace ullage_opencl
