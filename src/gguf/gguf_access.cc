#include <cstring>

#include "core/error.h"
#include "gguf/gguf_file.h"

namespace ullage::gguf {
namespace {

template <class T>
T Load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

bool IsIntegerType(ValueType type) {
  switch (type) {
    case ValueType::kFloat32:
    case ValueType::kFloat64:
    case ValueType::kString:
    case ValueType::kArray:
      return false;
    default:
      return true;
  }
}

/// Element i of an integer or bool payload; nothing when it is beyond int64.
std::optional<int64_t> IntAt(ValueType type, const std::byte* p, uint64_t i) {
  switch (type) {
    case ValueType::kUInt8:
    case ValueType::kBool:
      return Load<uint8_t>(p + i);
    case ValueType::kInt8:
      return Load<int8_t>(p + i);
    case ValueType::kUInt16:
      return Load<uint16_t>(p + i * 2);
    case ValueType::kInt16:
      return Load<int16_t>(p + i * 2);
    case ValueType::kUInt32:
      return Load<uint32_t>(p + i * 4);
    case ValueType::kInt32:
      return Load<int32_t>(p + i * 4);
    case ValueType::kInt64:
      return Load<int64_t>(p + i * 8);
    default: {
      const auto v = Load<uint64_t>(p + i * 8);
      if (v > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<int64_t>(v);
    }
  }
}

std::string TypeText(const MetaValue& value) {
  return value.is_array() ? StrCat("an array of ", value.count, " ", NameOf(value.element))
                          : std::string(NameOf(value.type));
}

}  // namespace

void GgufFile::FailKey(const MetaValue& value, std::string_view reason) const {
  Throw(Code::kInvalidModel, path_, ": key ", Printable(value.key), " at byte ", value.offset, ": ", reason);
}

const MetaValue* GgufFile::Find(std::string_view key) const {
  const auto it = keys_.find(key);
  return it == keys_.end() ? nullptr : &metadata_[it->second];
}

const TensorInfo* GgufFile::FindTensor(std::string_view name) const {
  const auto it = tensor_names_.find(name);
  return it == tensor_names_.end() ? nullptr : &tensors_[it->second];
}

std::string_view GgufFile::architecture() const {
  const auto name = String("general.architecture");
  if (!name) Throw(Code::kInvalidModel, path_, ": key general.architecture is missing");
  return *name;
}

std::optional<int64_t> GgufFile::Int(std::string_view key) const {
  const MetaValue* v = Find(key);
  if (!v) return std::nullopt;
  if (!IsIntegerType(v->type) || v->type == ValueType::kBool)
    FailKey(*v, StrCat("expected an integer, found ", TypeText(*v)));
  const auto number = IntAt(v->type, v->bytes.data(), 0);
  if (!number) FailKey(*v, "the number is beyond 63 bits");
  return number;
}

std::optional<double> GgufFile::Float(std::string_view key) const {
  const MetaValue* v = Find(key);
  if (!v) return std::nullopt;
  if (v->type == ValueType::kFloat32) return Load<float>(v->bytes.data());
  if (v->type == ValueType::kFloat64) return Load<double>(v->bytes.data());
  FailKey(*v, StrCat("expected a float, found ", TypeText(*v)));
}

std::optional<bool> GgufFile::Bool(std::string_view key) const {
  const MetaValue* v = Find(key);
  if (!v) return std::nullopt;
  if (v->type != ValueType::kBool) FailKey(*v, StrCat("expected a bool, found ", TypeText(*v)));
  return v->bytes[0] != std::byte{0};
}

std::optional<std::string_view> GgufFile::String(std::string_view key) const {
  const MetaValue* v = Find(key);
  if (!v) return std::nullopt;
  if (v->type != ValueType::kString) FailKey(*v, StrCat("expected a string, found ", TypeText(*v)));
  return std::string_view(reinterpret_cast<const char*>(v->bytes.data()) + 8, v->bytes.size() - 8);
}

std::optional<std::vector<int64_t>> GgufFile::Ints(std::string_view key) const {
  const MetaValue* v = Find(key);
  if (!v) return std::nullopt;
  std::vector<int64_t> out;
  if (v->is_array() && v->count == 0) return out;
  if (!v->is_array() || !IsIntegerType(v->element))
    FailKey(*v, StrCat("expected an array of integers, found ", TypeText(*v)));
  out.reserve(static_cast<size_t>(v->count));
  for (uint64_t i = 0; i < v->count; ++i) {
    const auto number = IntAt(v->element, v->bytes.data(), i);
    if (!number) FailKey(*v, StrCat("element ", i, " is beyond 63 bits"));
    out.push_back(*number);
  }
  return out;
}

std::optional<std::vector<float>> GgufFile::Floats(std::string_view key) const {
  const MetaValue* v = Find(key);
  if (!v) return std::nullopt;
  std::vector<float> out;
  if (v->is_array() && v->count == 0) return out;
  if (!v->is_array() || (v->element != ValueType::kFloat32 && v->element != ValueType::kFloat64))
    FailKey(*v, StrCat("expected an array of floats, found ", TypeText(*v)));
  out.resize(static_cast<size_t>(v->count));
  if (v->element == ValueType::kFloat32) {
    std::memcpy(out.data(), v->bytes.data(), v->bytes.size());
  } else {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<float>(Load<double>(v->bytes.data() + i * 8));
  }
  return out;
}

std::optional<std::vector<std::string_view>> GgufFile::Strings(std::string_view key) const {
  const MetaValue* v = Find(key);
  if (!v) return std::nullopt;
  std::vector<std::string_view> out;
  if (v->is_array() && v->count == 0) return out;
  if (!v->is_array() || v->element != ValueType::kString)
    FailKey(*v, StrCat("expected an array of strings, found ", TypeText(*v)));
  out.reserve(static_cast<size_t>(v->count));
  const std::byte* p = v->bytes.data();
  for (uint64_t i = 0; i < v->count; ++i) {
    const auto length = static_cast<size_t>(Load<uint64_t>(p));
    out.emplace_back(reinterpret_cast<const char*>(p + 8), length);
    p += 8 + length;
  }
  return out;
}

graph::ConstantPtr GgufFile::ConstantOf(const TensorInfo& t) const {
  auto c = std::make_shared<graph::Constant>();
  c->dtype = t.type->is_dense() ? t.type->dense : DType::kUInt8;
  if (!t.type->is_dense()) c->block_type = t.type->name;
  c->shape = t.shape;
  c->size_bytes = static_cast<size_t>(t.size_bytes);
  c->file = path_;
  c->file_offset = t.offset;
  if (t.offset <= bytes_.size() && t.size_bytes <= bytes_.size() - t.offset) {
    c->bytes = bytes_.data() + t.offset;
    c->owner = owner_;
  } else {
    c->absent =
        StrCat(path_, ": the data of tensor ", Printable(t.name), " (", t.size_bytes, " bytes at byte ",
               t.offset, ") are not in the file, which has ", bytes_.size(), " bytes");
  }
  return c;
}

graph::ConstantPtr GgufFile::RowsOf(const TensorInfo& t, int64_t first, int64_t count) const {
  if (t.shape.rank() < 1 || first < 0 || count < 0 || first > t.shape[0] || count > t.shape[0] - first)
    Throw(Code::kInvalidModel, path_, ": tensor ", Printable(t.name), ": no rows ", first, " to ",
          first + count, " in shape ", t.shape.ToString());
  // A directory entry of its own, cut out of the whole.
  TensorInfo part = t;
  const uint64_t row_bytes = t.size_bytes / static_cast<uint64_t>(t.shape[0]);
  part.shape[0] = count;
  part.offset += row_bytes * static_cast<uint64_t>(first);
  part.size_bytes = row_bytes * static_cast<uint64_t>(count);
  return ConstantOf(part);
}

}  // namespace ullage::gguf
