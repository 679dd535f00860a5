#include "onnx/tensor_pb.h"

#include <algorithm>
#include <cstring>

#include "onnx/builder_names.h"

namespace ullage::onnx {
namespace {

/// Which typed field of TensorProto holds a type, and how many elements per value.
struct TypedField {
  uint32_t number;
  const char* name;
  /// values = ceil(elements * numerator / denominator)
  int numerator;
  int denominator;
};

TypedField FieldOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return {4, "float_data", 1, 1};
    case DType::kComplex64:
      return {4, "float_data", 2, 1};
    case DType::kInt64:
      return {7, "int64_data", 1, 1};
    case DType::kDouble:
      return {10, "double_data", 1, 1};
    case DType::kComplex128:
      return {10, "double_data", 2, 1};
    case DType::kUInt32:
    case DType::kUInt64:
      return {11, "uint64_data", 1, 1};
    case DType::kString:
      return {6, "string_data", 1, 1};
    default: {
      const int bits = BitsOf(dtype);
      return {5, "int32_data", 1, bits < 8 ? 8 / bits : 1};
    }
  }
}

/// The values an entry of int32_data may have for the type; patterns may come sign-extended or not.
struct Range {
  int64_t low, high;
};
Range Int32Range(DType dtype) {
  const int bits = std::clamp(BitsOf(dtype), 8, 32);
  const int64_t half = int64_t{1} << (bits - 1);
  switch (dtype) {
    case DType::kUInt8:
    case DType::kUInt16:
      return {0, 2 * half - 1};
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
      return {-half, half - 1};
    case DType::kBool:
      return {INT32_MIN, INT32_MAX};
    default:
      return {-half, 2 * half - 1};
  }
}

void ReadExternalEntry(Message entry, TensorPb& t) {
  std::string_view key, value;
  while (entry.Next()) {
    switch (entry.field()) {
      case 1:
        key = entry.Bytes("key");
        break;
      case 2:
        value = entry.Bytes("value");
        break;
      default:
        entry.Skip();
    }
  }
  const auto number = [&] {
    uint64_t n = 0;
    for (const char c : value) {
      if (c < '0' || c > '9' || __builtin_mul_overflow(n, uint64_t{10}, &n) ||
          __builtin_add_overflow(n, static_cast<uint64_t>(c - '0'), &n))
        entry.Fail("external_data ", key, " is \"", value, "\"; expected a number of bytes");
    }
    if (value.empty()) entry.Fail("external_data ", key, " is empty; expected a number of bytes");
    return n;
  };
  if (key == "location") t.location = value;
  if (key == "offset") t.external_offset = number();
  if (key == "length") t.external_length = number();
}

struct Counts {
  size_t of[12] = {};  // by field number
  size_t typed() const { return of[4] + of[5] + of[6] + of[7] + of[10] + of[11]; }
};

void CheckSizes(TensorPb& t) {
  const Source& source = t.message.source();
  const auto fail = [&](const auto&... parts) { Throw(source.code, t.Where(), ": ", parts...); };
  t.elements = 1;
  for (const int64_t dim : t.shape) {
    if (dim < 0) fail("dimension ", dim, " in shape ", t.shape.ToString());
    if (__builtin_mul_overflow(t.elements, dim, &t.elements))
      fail("shape ", t.shape.ToString(), " has more elements than can be counted");
  }
  if (t.dtype == DType::kString) return;
  int64_t bits = 0;
  if (__builtin_mul_overflow(t.elements, static_cast<int64_t>(BitsOf(t.dtype)), &bits))
    fail("shape ", t.shape.ToString(), " of ", NameOf(t.dtype), " has more bytes than can be counted");
  t.size_bytes = static_cast<size_t>(bits / 8 + (bits % 8 != 0));
}

void CheckData(TensorPb& t, const Counts& counts) {
  const Source& source = t.message.source();
  const auto fail = [&](const auto&... parts) { Throw(source.code, t.Where(), ": ", parts...); };
  const bool has_raw = t.raw && (!t.raw->empty() || counts.typed() == 0);
  if (t.external) {
    if (t.dtype == DType::kString) fail("strings cannot be external data");
    if (counts.typed() || (t.raw && !t.raw->empty())) fail("has external data and data of its own");
    if (t.location.empty()) fail("is external, but names no location");
    if (t.external_length && *t.external_length != t.size_bytes)
      fail("external length is ", *t.external_length, " bytes; shape ", t.shape.ToString(), " of ",
           NameOf(t.dtype), " needs ", t.size_bytes);
    return;
  }
  if (has_raw) {
    if (counts.typed()) fail("has raw_data and typed data");
    if (t.dtype == DType::kString) fail("strings cannot be raw_data");
    if (t.raw->size() != t.size_bytes)
      fail("raw_data has ", t.raw->size(), " bytes; shape ", t.shape.ToString(), " of ", NameOf(t.dtype),
           " needs ", t.size_bytes);
    return;
  }
  t.raw.reset();
  const TypedField field = FieldOf(t.dtype);
  const uint64_t scaled =
      static_cast<uint64_t>(t.elements) * static_cast<uint64_t>(field.numerator);  // below 2^64: see above
  const auto per_value = static_cast<uint64_t>(field.denominator);
  const uint64_t expected = scaled / per_value + (scaled % per_value != 0);
  const size_t found = counts.of[field.number];
  if (found != expected)
    fail(field.name, " holds ", found, " values; shape ", t.shape.ToString(), " of ", NameOf(t.dtype),
         " needs ", expected);
}

/// Views or copies bytes that lie in a file.
graph::ConstantPtr FromBytes(const TensorPb& t, const std::byte* bytes, std::shared_ptr<const void> owner,
                             const std::string& file, uint64_t offset) {
  std::shared_ptr<graph::Constant> c;
  if (t.size_bytes < kSmallTensor) {
    auto made = graph::MakeConstant(t.dtype, t.shape);
    if (t.size_bytes) std::memcpy(made.data, bytes, t.size_bytes);
    c = made.constant;
  } else {
    c = std::make_shared<graph::Constant>();
    c->dtype = t.dtype;
    c->shape = t.shape;
    c->size_bytes = t.size_bytes;
    c->bytes = bytes;
    c->owner = std::move(owner);
  }
  c->file = file;
  c->file_offset = offset;
  return c;
}

graph::ConstantPtr MakeExternal(const TensorPb& t, std::string_view value_name,
                                const TensorContext& context) {
  const Source& source = t.message.source();
  if (!context.external) Throw(source.code, t.Where(), ": external data are not allowed here");
  const auto& opened = context.external->Open(t.location, t.Where());
  std::string problem = opened.problem;
  if (opened.file) {
    const auto bytes = opened.file->bytes();
    if (t.external_offset <= bytes.size() && t.size_bytes <= bytes.size() - t.external_offset) {
      auto made = FromBytes(t, bytes.data() + t.external_offset, opened.file, opened.path, t.external_offset);
      // A sparse file without contents is enough for planning: then the name knows better.
      if (!context.require_data && made->size_bytes < kSmallTensor) {
        const auto data = made->data();
        bool zero = true;
        for (const std::byte b : data) zero = zero && b == std::byte{0};
        if (zero)
          if (auto stated = ConstantFromBuilderName(value_name, t.dtype, t.shape)) return stated;
      }
      return made;
    }
    problem = StrCat("it has ", bytes.size(), " bytes, the tensor lies at ", t.external_offset, " + ",
                     t.size_bytes);
  }
  const std::string message = StrCat(t.Where(), ": cannot read external data ", opened.path, ": ", problem);
  if (context.require_data) throw Error(source.code, message);
  if (auto stated = ConstantFromBuilderName(value_name, t.dtype, t.shape)) return stated;
  auto c = std::make_shared<graph::Constant>();
  c->dtype = t.dtype;
  c->shape = t.shape;
  c->size_bytes = t.size_bytes;
  c->file = opened.path;
  c->file_offset = t.external_offset;
  c->absent = message;
  return c;
}

}  // namespace

std::string TensorPb::Where() const {
  if (name.empty()) return StrCat(message.source().name, ": tensor at byte ", message.offset());
  return StrCat(message.source().name, ": tensor ", name);
}

TensorPb ParseTensor(Message m) {
  TensorPb t;
  t.message = m;
  Counts counts;
  int64_t type = 0;
  while (m.Next()) {
    switch (m.field()) {
      case 1:
        m.Varints("dims", [&](uint64_t v) {
          if (t.shape.rank() == kMaxRank) m.Fail("tensor of rank above ", kMaxRank);
          t.shape.push_back(static_cast<int64_t>(v));
        });
        break;
      case 2:
        type = m.Int("data_type");
        break;
      case 3:
        Throw(Code::kUnsupported, m.source().name, ": tensor in segments at byte ", m.offset());
      case 4:
        counts.of[4] += m.Fixed("float_data", 4).size() / 4;
        break;
      case 5:
        counts.of[5] += m.CountVarints("int32_data");
        break;
      case 6:
        m.Bytes("string_data");
        ++counts.of[6];
        break;
      case 7:
        counts.of[7] += m.CountVarints("int64_data");
        break;
      case 8:
        t.name = m.Bytes("name");
        break;
      case 9:
        t.raw = m.Bytes("raw_data");
        break;
      case 10:
        counts.of[10] += m.Fixed("double_data", 8).size() / 8;
        break;
      case 11:
        counts.of[11] += m.CountVarints("uint64_data");
        break;
      case 13:
        ReadExternalEntry(m.Sub("external_data", "StringStringEntryProto"), t);
        break;
      case 14: {
        const int64_t location = m.Int("data_location");
        if (location != 0 && location != 1) m.Fail("unknown data_location ", location);
        t.external = location == 1;
        break;
      }
      default:
        m.Skip();
    }
  }
  t.dtype = type > 0 && type <= INT32_MAX ? DTypeFromOnnx(static_cast<int32_t>(type)) : DType::kUndefined;
  if (t.dtype == DType::kUndefined) Throw(m.source().code, t.Where(), ": unknown element type ", type);
  CheckSizes(t);
  CheckData(t, counts);
  return t;
}

void DecodeTensor(const TensorPb& t, std::byte* out) {
  if (t.raw) {
    if (t.size_bytes) std::memcpy(out, t.raw->data(), t.size_bytes);
    return;
  }
  const TypedField field = FieldOf(t.dtype);
  std::byte* const end = out + t.size_bytes;
  const auto put = [&](const void* value, size_t size) {
    if (size == 0 || static_cast<size_t>(end - out) < size) return;  // more was not counted
    std::memcpy(out, value, size);
    out += size;
  };
  const Range range = Int32Range(t.dtype);
  const auto size = static_cast<size_t>(BitsOf(t.dtype) < 8 ? 1 : BitsOf(t.dtype) / 8);
  Message m = t.message;
  while (m.Next()) {
    if (m.field() != field.number) {
      m.Skip();
      continue;
    }
    switch (field.number) {
      case 4: {
        const auto bytes = m.Fixed("float_data", 4);
        put(bytes.data(), bytes.size());
        break;
      }
      case 10: {
        const auto bytes = m.Fixed("double_data", 8);
        put(bytes.data(), bytes.size());
        break;
      }
      case 5:
        m.Varints("int32_data", [&](uint64_t v) {
          auto value = static_cast<int32_t>(v);
          if (value < range.low || value > range.high)
            Throw(m.source().code, t.Where(), ": value ", value, " in int32_data is no ", NameOf(t.dtype));
          if (t.dtype == DType::kBool) value = value != 0;
          put(&value, size);
        });
        break;
      default:  // 7 and 11
        m.Varints(field.name, [&](uint64_t v) {
          if (size == 4 && v > UINT32_MAX)
            Throw(m.source().code, t.Where(), ": value ", v, " in uint64_data is no uint32");
          put(&v, size);
        });
    }
  }
}

std::vector<std::string> DecodeStrings(const TensorPb& t) {
  std::vector<std::string> strings;
  strings.reserve(static_cast<size_t>(t.elements));
  Message m = t.message;
  while (m.Next()) {
    if (m.field() == 6)
      strings.emplace_back(m.Bytes("string_data"));
    else
      m.Skip();
  }
  return strings;
}

graph::ConstantPtr MakeStrings(const Shape& shape, std::vector<std::string> values) {
  auto strings = std::make_shared<std::vector<std::string>>(std::move(values));
  auto c = std::make_shared<graph::Constant>();
  c->dtype = DType::kString;
  c->shape = shape;
  c->size_bytes = strings->size() * sizeof(std::string);
  c->bytes = reinterpret_cast<const std::byte*>(strings->data());
  c->owner = std::move(strings);
  return c;
}

graph::ConstantPtr MakeTensor(const TensorPb& t, std::string_view value_name, const TensorContext& context) {
  if (t.dtype == DType::kString) {
    return MakeStrings(t.shape, DecodeStrings(t));
  }
  if (t.external && t.size_bytes) return MakeExternal(t, value_name, context);
  if (t.raw) {
    const Source& source = t.message.source();
    const auto* bytes = reinterpret_cast<const std::byte*>(t.raw->data());
    return FromBytes(t, bytes, source.owner, source.name, static_cast<uint64_t>(bytes - source.bytes.data()));
  }
  auto made = graph::MakeConstant(t.dtype, t.shape);
  if (t.size_bytes && !t.external) DecodeTensor(t, made.data);
  return made.constant;
}

}  // namespace ullage::onnx
