/// Element types. The numbers are those of onnx.TensorProto.DataType.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ullage {

enum class DType : int32_t {
  kUndefined = 0,
  kFloat = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kUInt16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,
  kBool = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUInt32 = 12,
  kUInt64 = 13,
  kComplex64 = 14,
  kComplex128 = 15,
  kBFloat16 = 16,
  kFloat8E4M3FN = 17,
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUInt4 = 21,
  kInt4 = 22,
  kFloat4E2M1 = 23,
  kFloat8E8M0 = 24,
  kUInt2 = 25,
  kInt2 = 26,
};

/// Bits of one element in memory; 0 for kUndefined and kString (strings have no fixed size).
int BitsOf(DType dtype);
/// Name as numpy and ONNX write it in lower case: "float32", "int4", "bfloat16".
std::string_view NameOf(DType dtype);
/// The type of that ONNX number; kUndefined when there is none.
DType DTypeFromOnnx(int32_t number);
/// Half, bfloat16, float and double.
bool IsFloating(DType dtype);
/// Signed and unsigned integers of 8 to 64 bits (not bool, not the packed types below a byte).
bool IsInteger(DType dtype);
/// Bytes of `count` densely packed elements (types below a byte are packed, low bits first); throws
/// kInvalidModel on overflow and on kString and kUndefined.
size_t BytesOf(DType dtype, int64_t count);

}  // namespace ullage
