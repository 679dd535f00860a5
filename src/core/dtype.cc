#include "ullage/dtype.h"

#include "core/checked.h"

namespace ullage {
namespace {

struct Row {
  int bits;
  std::string_view name;
};

// By ONNX number.
constexpr Row kRows[] = {
    {0, "undefined"},      {32, "float32"},  {8, "uint8"},        {8, "int8"},           {16, "uint16"},
    {16, "int16"},         {32, "int32"},    {64, "int64"},       {0, "string"},         {8, "bool"},
    {16, "float16"},       {64, "float64"},  {32, "uint32"},      {64, "uint64"},        {64, "complex64"},
    {128, "complex128"},   {16, "bfloat16"}, {8, "float8e4m3fn"}, {8, "float8e4m3fnuz"}, {8, "float8e5m2"},
    {8, "float8e5m2fnuz"}, {4, "uint4"},     {4, "int4"},         {4, "float4e2m1"},     {8, "float8e8m0"},
    {2, "uint2"},          {2, "int2"},
};
constexpr int kCount = static_cast<int>(sizeof kRows / sizeof kRows[0]);

const Row& RowOf(DType dtype) {
  const int n = static_cast<int>(dtype);
  return kRows[n >= 0 && n < kCount ? n : 0];
}

}  // namespace

int BitsOf(DType dtype) {
  return RowOf(dtype).bits;
}

std::string_view NameOf(DType dtype) {
  return RowOf(dtype).name;
}

DType DTypeFromOnnx(int32_t number) {
  return number > 0 && number < kCount ? static_cast<DType>(number) : DType::kUndefined;
}

bool IsFloating(DType dtype) {
  return dtype == DType::kFloat || dtype == DType::kFloat16 || dtype == DType::kBFloat16 ||
         dtype == DType::kDouble;
}

bool IsInteger(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kUInt16:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt32:
    case DType::kUInt64:
      return true;
    default:
      return false;
  }
}

size_t BytesOf(DType dtype, int64_t count) {
  const int bits = BitsOf(dtype);
  if (bits == 0 || count < 0)
    Throw(Code::kInvalidModel, "no size in bytes for ", count, " elements of type ", NameOf(dtype));
  const auto total =
      CheckedMul<uint64_t>(static_cast<uint64_t>(count), static_cast<uint64_t>(bits), "tensor size");
  return static_cast<size_t>(CeilDiv<uint64_t>(total, 8));
}

}  // namespace ullage
