#include "providers/cpu/kernels/block_weight.h"

#include "core/checked.h"
#include "core/error.h"
#include "core/gguf_block.h"
#include "graph/constant_pages.h"

namespace ullage::cpu {
BlockFormat WeightSpec::block_format() const {
  BlockFormat f;
  if (format == "ggml") {
    const auto type = GgufTypeOf(data->block_type);
    if (!type) Throw(Code::kUnsupported, "block type ", data->block_type);
    f = BlockFormat::Gguf(*type);
  } else if (format == "nbits") {
    const ZeroPoint zp = !zero_points ? ZeroPoint::kMiddle
                         : zero_points->dtype == DType::kUInt8 || zero_points->dtype == DType::kInt8
                             ? ZeroPoint::kPacked
                             : ZeroPoint::kFloat;
    f = BlockFormat::NBits(static_cast<int>(bits), block_size, scales->dtype, zp);
  } else if (format == "qdq_nk" || format == "qdq_kn") {
    f = BlockFormat::Qdq(data->dtype, format == "qdq_kn", block_size, scales->dtype, zero_points != nullptr);
    f.per_tensor = block_size == 0 && scales->elements() == 1;
  } else {
    Throw(Code::kUnsupported, "weight format ", format);
  }
  const auto check = [](const char* what, size_t found, size_t expected) {
    if (found < expected)
      Throw(Code::kInvalidModel, "the ", what, " of a weight have ", found, " bytes, expected ", expected);
  };
  check("data", data->size_bytes, f.DataBytes(n, k));
  if (scales) check("scales", scales->size_bytes, f.ScaleBytes(n, k));
  if (zero_points) check("zero points", zero_points->size_bytes, f.ZeroPointBytes(n, k));
  return f;
}

BlockWeightView WeightSpec::view() const {
  BlockWeightView v;
  v.format = block_format();
  v.n = n;
  v.k = k;
  v.data = data->data();
  if (scales) v.scales = scales->data();
  if (zero_points) v.zero_points = zero_points->data();
  if (g_idx) v.g_idx = g_idx->data();
  return v;
}

void ReleasePages(const graph::Constant& constant) {
  graph::ReleasePages(constant, 0, static_cast<int64_t>(constant.size_bytes));
}

void ReleasePages(const graph::Constant& constant, int64_t first, int64_t last) {
  graph::ReleasePages(constant, first, last);
}

void WillNeedPages(const graph::Constant& constant) {
  graph::WillNeedPages(constant);
}

}  // namespace ullage::cpu
