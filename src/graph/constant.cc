#include "graph/constant.h"

#include <cstring>

#include "core/checked.h"
#include "core/half.h"

namespace ullage::graph {
namespace {

template <class T>
T At(const std::byte* p, int64_t i) {
  T v;
  std::memcpy(&v, p + static_cast<size_t>(i) * sizeof(T), sizeof(T));
  return v;
}

/// The bytes of a tensor of plain elements, as many as its shape says.
const std::byte* PlainData(const Constant& c) {
  const auto data = c.data();
  if (!c.block_type.empty() || c.dtype == DType::kString || data.size() < BytesOf(c.dtype, c.elements()))
    Throw(Code::kInvalidModel, "cannot read numbers from a constant of ",
          c.block_type.empty() ? NameOf(c.dtype) : std::string_view(c.block_type), c.shape.ToString(),
          " with ", data.size(), " bytes");
  return data.data();
}

void CheckCount(const Shape& shape, size_t values) {
  if (static_cast<size_t>(shape.elements()) != values)
    Throw(Code::kRuntime, "a constant of shape ", shape.ToString(), " made from ", values, " values");
}

}  // namespace

std::span<const std::byte> Constant::data() const {
  if (!available())
    throw Error(Code::kInvalidModel, absent.empty() ? "constant data are not available" : absent);
  return {bytes, size_bytes};
}

std::vector<int64_t> Constant::AsInts() const {
  const std::byte* p = PlainData(*this);
  const int64_t n = elements();
  std::vector<int64_t> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    auto& v = out[static_cast<size_t>(i)];
    switch (dtype) {
      case DType::kInt64:
        v = At<int64_t>(p, i);
        break;
      case DType::kInt32:
        v = At<int32_t>(p, i);
        break;
      case DType::kInt16:
        v = At<int16_t>(p, i);
        break;
      case DType::kInt8:
        v = At<int8_t>(p, i);
        break;
      case DType::kUInt8:
      case DType::kBool:
        v = At<uint8_t>(p, i);
        break;
      case DType::kUInt16:
        v = At<uint16_t>(p, i);
        break;
      case DType::kUInt32:
        v = At<uint32_t>(p, i);
        break;
      case DType::kUInt64:
        v = static_cast<int64_t>(At<uint64_t>(p, i));
        break;
      default:
        Throw(Code::kInvalidModel, "expected an integer tensor, found ", NameOf(dtype));
    }
  }
  return out;
}

std::vector<double> Constant::AsDoubles() const {
  const std::byte* p = PlainData(*this);
  const int64_t n = elements();
  if (!IsFloating(dtype)) {
    const auto ints = AsInts();
    return {ints.begin(), ints.end()};
  }
  std::vector<double> out(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    auto& v = out[static_cast<size_t>(i)];
    switch (dtype) {
      case DType::kFloat:
        v = At<float>(p, i);
        break;
      case DType::kDouble:
        v = At<double>(p, i);
        break;
      case DType::kFloat16:
        v = HalfToFloat(At<uint16_t>(p, i));
        break;
      default:
        v = BFloat16ToFloat(At<uint16_t>(p, i));
        break;
    }
  }
  return out;
}

NewConstant MakeConstant(DType dtype, const Shape& shape) {
  auto c = std::make_shared<Constant>();
  c->dtype = dtype;
  c->shape = shape;
  c->size_bytes = BytesOf(dtype, shape.elements());
  std::shared_ptr<std::byte[]> block(new std::byte[AlignUp<size_t>(c->size_bytes + 1, 64)]());
  std::byte* p = block.get();
  c->bytes = p;
  c->owner = std::shared_ptr<const void>(block, p);
  return {c, p};
}

ConstantPtr MakeInts(const Shape& shape, std::span<const int64_t> values, DType dtype) {
  CheckCount(shape, values.size());
  auto [c, p] = MakeConstant(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i) {
    switch (dtype) {
      case DType::kInt64:
        std::memcpy(p + i * 8, &values[i], 8);
        break;
      case DType::kInt32: {
        const auto v = static_cast<int32_t>(values[i]);
        std::memcpy(p + i * 4, &v, 4);
        break;
      }
      case DType::kBool:
        p[i] = std::byte{values[i] != 0};
        break;
      default:
        Throw(Code::kRuntime, "MakeInts: type ", NameOf(dtype));
    }
  }
  return c;
}

ConstantPtr MakeFloats(const Shape& shape, std::span<const float> values) {
  CheckCount(shape, values.size());
  auto [c, p] = MakeConstant(DType::kFloat, shape);
  if (!values.empty()) std::memcpy(p, values.data(), values.size_bytes());
  return c;
}

ConstantPtr WithShape(const ConstantPtr& constant, const Shape& shape) {
  if (shape.elements() != constant->elements())
    Throw(Code::kInvalidModel, "cannot view a constant of shape ", constant->shape.ToString(), " as ",
          shape.ToString());
  auto copy = std::make_shared<Constant>(*constant);
  copy->shape = shape;
  return copy;
}

}  // namespace ullage::graph
