#include "core/checked.h"
#include "ops/families.h"
#include "ops/products.h"

namespace ullage::ops {
namespace {

int64_t PositiveAttr(const ShapeContext& c, std::string_view key, int64_t otherwise) {
  const int64_t n = otherwise > 0 ? c.node().Int(key, otherwise) : c.node().RequiredInt(key);
  if (n <= 0 || n > INT32_MAX) c.Fail("attribute ", key, " is ", n);
  return n;
}

// A, B [N, blocks, block*bits/8], scales [N, blocks], zero_points?, g_idx?, bias?
void MatMulNBits(ShapeContext& c) {
  const int64_t k = PositiveAttr(c, "K", 0), n = PositiveAttr(c, "N", 0), bits = PositiveAttr(c, "bits", 4);
  const int64_t block = PositiveAttr(c, "block_size", 0);
  if (bits > 8) c.Fail("attribute bits is ", bits);
  const int64_t blocks = CeilDiv(k, block);
  CheckElements(c, 1, CheckedMul(n * blocks, CeilDiv<int64_t>(block * bits, 8)));
  CheckElements(c, 2, n * blocks);
  if (c.has(3))
    CheckElements(c, 3, c.dtype(3) == DType::kUInt8 ? n * CeilDiv<int64_t>(blocks * bits, 8) : n * blocks);
  if (c.has(4) && c.shape(4).exact() && c.shape(4).rank == 1 && c.shape(4)[0].lower != k)
    CheckElements(c, 4, blocks * block);
  CheckElements(c, 5, n);
  c.Set(0, c.dtype(0), LinearShape(c, c.shape(0), k, Bound::Exactly(n)));
}

void MatMulBnb4(ShapeContext& c) {
  const int64_t k = PositiveAttr(c, "K", 0), n = PositiveAttr(c, "N", 0),
                block = PositiveAttr(c, "block_size", 0);
  if (c.node().Int("transB", 1) != 1) c.Unsupported("transB 0");
  CheckElements(c, 1, (n * k + 1) / 2);
  CheckElements(c, 2, CeilDiv(n * k, block));
  c.Set(0, c.dtype(0), LinearShape(c, c.shape(0), k, Bound::Exactly(n)));
}

// data, indices, scales, zero_points?
void GatherBlockQuantized(ShapeContext& c) {
  const BoundedShape &data = c.shape(0), &indices = c.shape(1);
  if (!data.known_rank() || !indices.known_rank()) {
    c.Set(0, c.dtype(2), BoundedShape::Unknown());
    return;
  }
  if (data.rank == 0) c.Fail("the data are a scalar");
  const int axis = c.Axis(c.node().Int("gather_axis", 0), data.rank);
  c.Axis(c.node().Int("quantize_axis", 1), data.rank);
  const int64_t bits = PositiveAttr(c, "bits", 4);
  BoundedShape out = BoundedShape::Scalar();
  for (int i = 0; i < data.rank; ++i) {
    if (i == axis) {
      for (int j = 0; j < indices.rank; ++j) out.push_back(indices[j]);
      continue;
    }
    // Bytes hold several elements along the last axis.
    const bool packed = c.dtype(0) == DType::kUInt8 && i + 1 == data.rank && bits < 8;
    out.push_back(packed ? c.math().Mul(data[i], Bound::Exactly(8 / bits)) : data[i]);
  }
  c.Set(0, c.dtype(2), out);
}

}  // namespace

void RegisterQuantisedWeights(Registry& ops) {
  const std::string_view ms = graph::kMsDomain;
  ops.push_back({.domain = ms, .name = "MatMulNBits", .min_inputs = 3, .max_inputs = 6, .rule = MatMulNBits});
  ops.push_back({.domain = ms, .name = "MatMulBnb4", .min_inputs = 3, .max_inputs = 3, .rule = MatMulBnb4});
  ops.push_back({.domain = ms,
                 .name = "GatherBlockQuantized",
                 .min_inputs = 3,
                 .max_inputs = 4,
                 .rule = GatherBlockQuantized});
}

}  // namespace ullage::ops
