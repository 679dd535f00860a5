#include "providers/cpu/quant/packed_weight.h"

#include "core/checked.h"
#include "core/error.h"
#include "core/gguf_block.h"
#include "core/scaled_block.h"
#include "providers/cpu/quant/packed_group.h"

namespace ullage::quant {
namespace {

constexpr int64_t kMaxSide = int64_t{1} << 40;  // keeps all products below in 64 bits

void PlanGguf(PackedLayout* l) {
  const GgufTraits& t = TraitsOf(l->source.gguf);
  l->bits = t.bits;
  l->iq4 = t.iq4;
  l->span = t.span;
  l->scale_form = t.super ? ScaleForm::kSuper : ScaleForm::kFloat16;
  if (t.has_min) {
    l->min_form = t.super ? MinForm::kSuper : MinForm::kFloat16;
  } else {
    l->min_form = MinForm::kOffset;
    l->offset = t.iq4 ? 128 : t.offset;
  }
}

void PlanScaled(PackedLayout* l, Accuracy accuracy, bool has_g_idx) {
  const BlockFormat& f = l->source;
  const int64_t block = f.BlockSize(l->k), count = f.Blocks(l->k);
  l->bits = f.bits;
  l->indexed = has_g_idx || (count > 1 && block != 16 && block % kBlock != 0);
  if (l->indexed) {
    l->scale_form = ScaleForm::kFloat32;
    l->min_form = MinForm::kFloat32;
    return;
  }
  l->span = count <= 1 ? std::max<int64_t>(l->blocks, 1) * kBlock : block;
  switch (f.scale_dtype) {
    case DType::kFloat16:
      l->scale_form = ScaleForm::kFloat16;
      break;
    case DType::kBFloat16:
      l->scale_form = ScaleForm::kBFloat16;
      break;
    default:
      l->scale_form = accuracy == Accuracy::kInt8 ? ScaleForm::kFloat16Row : ScaleForm::kFloat32;
      break;
  }
  switch (f.zero_point) {
    case ZeroPoint::kZero:
    case ZeroPoint::kMiddle:
      l->min_form = MinForm::kOffset;
      l->offset = CommonZeroPoint(f);
      break;
    case ZeroPoint::kPacked:
      l->min_form = MinForm::kZeroPoint;
      break;
    case ZeroPoint::kFloat:
      l->min_form = MinForm::kFloat32;
      break;
  }
}

const char* NameOf(ScaleForm form) {
  switch (form) {
    case ScaleForm::kFloat16:
      return "float16";
    case ScaleForm::kFloat16Row:
      return "float16 by row";
    case ScaleForm::kBFloat16:
      return "bfloat16";
    case ScaleForm::kFloat32:
      return "float32";
    case ScaleForm::kSuper:
      return "int8 of 256";
  }
  return "";
}

}  // namespace

PackedLayout PlanPack(const BlockFormat& format, int64_t n, int64_t k, Accuracy accuracy, bool has_g_idx) {
  format.DataBytes(n, k);  // judges the format and the sizes
  if (n > kMaxSide || k > kMaxSide)
    Throw(Code::kInvalidModel, "quantised weight [", n, ",", k, "]: a side exceeds ", kMaxSide);
  if (has_g_idx && format.kind != BlockKind::kNBits)
    Throw(Code::kUnsupported, "group index with a weight stored as ", format.Name(),
          ", expected MatMulNBits storage");
  PackedLayout l;
  l.source = format;
  l.n = n;
  l.k = k;
  l.blocks = CeilDiv(k, kBlock);
  l.groups = CeilDiv(n, kGroupRows);
  if (format.kind == BlockKind::kGguf) {
    PlanGguf(&l);
  } else {
    PlanScaled(&l, accuracy, has_g_idx);
  }
  l.activations = l.indexed                      ? Activations::kFloat
                  : accuracy == Accuracy::kInt8  ? Activations::kInt8
                  : accuracy == Accuracy::kInt16 ? Activations::kInt16
                                                 : Activations::kInt24;
  l.scale_count = l.indexed      ? format.Blocks(k)
                  : l.span == 16 ? 2 * l.blocks
                                 : CeilDiv(l.blocks * kBlock, l.span);
  l.index_bytes = l.indexed ? static_cast<size_t>(l.blocks) * kBlock * 4 : 0;
  l.row_bytes = l.scale_form == ScaleForm::kFloat16Row ? 64 : 0;
  l.scale_bytes = AlignUp<size_t>(PartsOf(l).scale_end - l.row_bytes, 64);
  l.code_bytes = static_cast<size_t>(l.blocks) * CodeBlockBytes(l.bits);
  l.group_bytes = l.row_bytes + l.scale_bytes + l.code_bytes;
  l.bytes =
      CheckedAdd(l.index_bytes, CheckedMul(static_cast<size_t>(l.groups), l.group_bytes, "packed weight"),
                 "packed weight");
  return l;
}

std::string PackedLayout::Name() const {
  static constexpr const char* kActivationNames[] = {"int8", "int16", "int24", "float32"};
  const std::string zero = min_form == MinForm::kOffset      ? StrCat("offset ", offset)
                           : min_form == MinForm::kZeroPoint ? std::string("zero points")
                                                             : std::string("minima");
  return StrCat(iq4 ? "iq" : "q", bits, indexed ? " indexed" : "", ", scale ", NameOf(scale_form), " per ",
                indexed ? source.BlockSize(k) : span, ", ", zero, ", ",
                kActivationNames[static_cast<int>(activations)], " activations");
}

}  // namespace ullage::quant
