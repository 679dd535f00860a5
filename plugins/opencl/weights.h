/// Block-quantised weights W [n, k] in planes, as gemm.cl reads them: low bits of the codes, high bits,
/// scales, what is subtracted. Rows are padded to multiples of 32 elements (256 where scales lie in
/// super-blocks). Made from GGUF blocks, com.microsoft:MatMulNBits and DequantizeLinear; bits that files
/// spend are kept, none are added but where scales are bfloat16 (kept as float).
#pragma once

#include <string>
#include <vector>

#include "gemm.h"

namespace ullage_opencl {

class QuantisedWeight {
 public:
  struct Source {
    std::string format;  ///< "ggml", "nbits", "qdq_nk", "qdq_kn"
    int64_t n = 0, k = 0, bits = 4, block_size = 0;
    /// Inputs of the node; SIZE_MAX: left out.
    size_t data = 1, scales = SIZE_MAX, zero_points = SIZE_MAX;
  };
  /// From headers alone. Throws ULLAGE_UNSUPPORTED for what the kernels do not read.
  QuantisedWeight(const Node& node, const Source& source);

  int64_t bytes() const { return bytes_; }
  /// Macros of gemm.cl but T.
  const std::string& options() const { return options_; }
  /// Says all of the layout: equal keys and sources give equal blocks.
  std::string share_key() const;
  uint64_t inputs() const;  ///< the inputs that it replaces, as bits
  /// Sizes and offsets of the planes.
  void Describe(GemmArgs* args) const;
  void Pack(const Node& node, Device& device, const ullage_region& target) const;

 private:
  struct Row;
  struct Parts;
  void ReadGguf(const Parts& parts, int64_t n, Row* row) const;
  void ReadScaled(const Parts& parts, int64_t n, Row* row) const;
  int64_t ScaleBytes() const { return scale_ == 0 ? 4 : scale_ == 1 ? 2 : 1; }
  int64_t ZeroBytes() const { return zero_ == 2 ? 4 : zero_ == 3 ? 2 : zero_ == 0 ? 0 : 1; }

  Source source_;
  std::string type_;  ///< of GGUF blocks
  int32_t code_type_ = 0, scale_type_ = 0, zero_type_ = 0;
  bool per_tensor_ = false;
  int low_ = 4, high_ = 0, scale_ = 0, zero_ = 0, center_ = 0;
  bool table_ = false;
  int64_t span_ = 32, padded_k_ = 0, spans_ = 0, bytes_ = 0;
  int64_t high_at_ = 0, scale_at_ = 0, zero_at_ = 0, d_at_ = 0, dmin_at_ = 0;
  std::string options_;
};

}  // namespace ullage_opencl
