#include "gguf/gguf_file.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "core/mapped_file.h"

namespace ullage::gguf {

static_assert(std::endian::native == std::endian::little, "GGUF data are used in place");

namespace {

constexpr uint32_t kMagic = 0x46554747;  // "GGUF"
constexpr int kMaxArrayDepth = 4;
constexpr uint32_t kMaxDims = 4;
constexpr uint64_t kMaxAlignment = 1u << 20;
constexpr uint64_t kMinKeyBytes = 8 + 4 + 1;
constexpr uint64_t kMinTensorBytes = 8 + 4 + 4 + 8;

/// Bytes of a scalar of that type; 0 for strings, arrays and numbers that are no type.
uint64_t ScalarBytes(uint32_t type) {
  switch (static_cast<ValueType>(type)) {
    case ValueType::kUInt8:
    case ValueType::kInt8:
    case ValueType::kBool:
      return 1;
    case ValueType::kUInt16:
    case ValueType::kInt16:
      return 2;
    case ValueType::kUInt32:
    case ValueType::kInt32:
    case ValueType::kFloat32:
      return 4;
    case ValueType::kUInt64:
    case ValueType::kInt64:
    case ValueType::kFloat64:
      return 8;
    default:
      return 0;
  }
}

bool IsValueType(uint32_t type) {
  return type <= static_cast<uint32_t>(ValueType::kFloat64);
}

}  // namespace

std::string_view NameOf(ValueType type) {
  constexpr std::string_view kNames[] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                         "bool",  "string", "array",  "uint64", "int64",  "float64"};
  const auto number = static_cast<uint32_t>(type);
  return IsValueType(number) ? kNames[number] : "unknown";
}

std::string Printable(std::string_view text) {
  constexpr size_t kMax = 80;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  for (char c : text.substr(0, kMax)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && byte != '\\') {
      out += c;
    } else {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  if (text.size() > kMax) out += "...";
  return out;
}

/// Walks the header once and fills a GgufFile.
class Reader {
 public:
  explicit Reader(GgufFile& file) : file_(file), size_(file.bytes_.size()) {}

  void Read(bool require_data) {
    const uint64_t tensors = ReadStart();
    ReadMetadata();
    ReadAlignment();
    ReadDirectory(tensors);
    PlaceTensors(require_data);
  }

 private:
  template <class... Parts>
  [[noreturn]] void Fail(uint64_t at, const Parts&... parts) {
    Throw(Code::kInvalidModel, file_.path_, ": ", where_.empty() ? "" : where_ + ", ", "at byte ", at, ": ",
          parts...);
  }

  uint64_t left() const { return size_ - at_; }

  void Need(uint64_t bytes, const char* what) {
    if (bytes > left())
      Fail(at_, "the file ends inside ", what, ": ", bytes, " bytes needed, ", left(), " left");
  }

  template <class T>
  T Take(const char* what) {
    Need(sizeof(T), what);
    T v;
    std::memcpy(&v, file_.bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return v;
  }

  std::string_view TakeString(const char* what) {
    const auto length = Take<uint64_t>(what);
    Need(length, what);
    const auto* p = reinterpret_cast<const char*>(file_.bytes_.data() + at_);
    at_ += length;
    return {p, static_cast<size_t>(length)};
  }

  uint64_t ReadStart() {
    if (size_ < 4 || Peek32(0) != kMagic) Fail(0, "not a GGUF file: it does not start with the letters GGUF");
    at_ = 4;
    const auto version = Take<uint32_t>("the version");
    if (version == 0x02000000u || version == 0x03000000u)
      Throw(Code::kUnsupported, file_.path_, ": big-endian GGUF files are not supported (version field ",
            version, ")");
    if (version != 2 && version != 3)
      Throw(Code::kUnsupported, file_.path_, ": GGUF version ", version,
            " is not supported; expected 2 or 3");
    file_.version_ = version;
    const auto tensors = Take<uint64_t>("the number of tensors");
    keys_ = Take<uint64_t>("the number of keys");
    if (keys_ > left() / kMinKeyBytes)
      Fail(16, keys_, " keys are announced, but only ", left(), " bytes follow");
    if (tensors > left() / kMinTensorBytes)
      Fail(8, tensors, " tensors are announced, but only ", left(), " bytes follow");
    return tensors;
  }

  uint32_t Peek32(uint64_t at) const {
    uint32_t v;
    std::memcpy(&v, file_.bytes_.data() + at, sizeof(v));
    return v;
  }

  void ReadMetadata() {
    file_.metadata_.reserve(static_cast<size_t>(keys_));
    for (uint64_t i = 0; i < keys_; ++i) {
      where_ = StrCat("key ", i, " of ", keys_);
      MetaValue value;
      const uint64_t start = at_;
      value.key = TakeString("a key");
      where_ = "key " + Printable(value.key);
      if (value.key.empty()) Fail(start, "a key is empty");
      if (!file_.keys_.emplace(value.key, file_.metadata_.size()).second)
        Fail(start, "the key appears twice");
      value.type = TakeType();
      value.element = value.type;
      if (value.is_array()) {
        value.element = TakeType();
        value.count = Take<uint64_t>("an array length");
      }
      value.offset = at_;
      SkipElements(value.element, value.count, 1);
      value.bytes =
          file_.bytes_.subspan(static_cast<size_t>(value.offset), static_cast<size_t>(at_ - value.offset));
      file_.metadata_.push_back(value);
    }
    where_.clear();
  }

  ValueType TakeType() {
    const uint64_t start = at_;
    const auto type = Take<uint32_t>("a value type");
    if (!IsValueType(type)) Fail(start, "unknown value type ", type);
    return static_cast<ValueType>(type);
  }

  void SkipElements(ValueType type, uint64_t count, int depth) {
    if (type == ValueType::kString) {
      if (count > left() / 8) Fail(at_, count, " strings are announced, but only ", left(), " bytes follow");
      for (uint64_t i = 0; i < count; ++i) TakeString("a string");
    } else if (type == ValueType::kArray) {
      if (depth > kMaxArrayDepth) Fail(at_, "arrays are nested deeper than ", kMaxArrayDepth);
      if (count > left() / 12) Fail(at_, count, " arrays are announced, but only ", left(), " bytes follow");
      for (uint64_t i = 0; i < count; ++i) {
        const ValueType element = TakeType();
        SkipElements(element, Take<uint64_t>("an array length"), depth + 1);
      }
    } else {
      const uint64_t bytes = ScalarBytes(static_cast<uint32_t>(type));
      if (count > left() / bytes)
        Fail(at_, "the file ends inside a value: ", count, " elements of ", bytes, " bytes announced, ",
             left(), " bytes left");
      if (type == ValueType::kBool) CheckBools(count);
      at_ += count * bytes;
    }
  }

  void CheckBools(uint64_t count) {
    for (uint64_t i = at_; i < at_ + count; ++i)
      if (std::to_integer<int>(file_.bytes_[static_cast<size_t>(i)]) > 1)
        Fail(i, "a bool is ", std::to_integer<int>(file_.bytes_[static_cast<size_t>(i)]),
             ", expected 0 or 1");
  }

  void ReadAlignment() {
    const MetaValue* value = file_.Find("general.alignment");
    if (!value) return;
    const auto alignment = file_.Int("general.alignment");
    if (*alignment < 8 || *alignment > static_cast<int64_t>(kMaxAlignment) ||
        !std::has_single_bit(static_cast<uint64_t>(*alignment)))
      file_.FailKey(*value,
                    StrCat("expected a power of two from 8 to ", kMaxAlignment, ", found ", *alignment));
    file_.alignment_ = static_cast<uint32_t>(*alignment);
  }

  void ReadDirectory(uint64_t tensors) {
    file_.tensors_.reserve(static_cast<size_t>(tensors));
    for (uint64_t i = 0; i < tensors; ++i) {
      where_ = StrCat("tensor ", i, " of ", tensors);
      TensorInfo t;
      t.entry = at_;
      t.name = TakeString("a tensor name");
      where_ = "tensor " + Printable(t.name);
      if (t.name.empty()) Fail(t.entry, "the name is empty");
      if (!file_.tensor_names_.emplace(t.name, file_.tensors_.size()).second)
        Fail(t.entry, "the name appears twice");
      t.shape = TakeShape();
      const uint64_t type_at = at_;
      const auto type = Take<uint32_t>("a tensor type");
      t.type = FindTensorType(type);
      if (!t.type)
        Throw(Code::kUnsupported, file_.path_, ": ", where_, ", at byte ", type_at, ": type ",
              TensorTypeName(type), " (", type, ") is not supported; expected one of ",
              ReadableTensorTypes());
      t.size_bytes = SizeOf(t);
      t.offset = Take<uint64_t>("a tensor offset");
      file_.tensors_.push_back(t);
    }
    where_.clear();
  }

  Shape TakeShape() {
    const uint64_t start = at_;
    const auto dims = Take<uint32_t>("a tensor shape");
    if (dims > kMaxDims) Fail(start, dims, " dimensions, expected at most ", kMaxDims);
    int64_t reversed[kMaxDims];
    for (uint32_t d = 0; d < dims; ++d) {
      const auto size = Take<uint64_t>("a tensor shape");
      if (size == 0 || size > static_cast<uint64_t>(INT64_MAX)) Fail(at_ - 8, "dimension ", d, " is ", size);
      reversed[dims - 1 - d] = static_cast<int64_t>(size);
    }
    return Shape(std::span<const int64_t>(reversed, dims));
  }

  uint64_t SizeOf(const TensorInfo& t) {
    const int64_t row = t.shape.rank() == 0 ? 1 : t.shape.at(-1);
    if (row % t.type->block != 0)
      Fail(t.entry, "rows of ", row, " elements are no whole number of ", t.type->name, " blocks of ",
           t.type->block);
    uint64_t blocks = static_cast<uint64_t>(row) / t.type->block;
    bool overflow = false;
    for (int d = 0; d + 1 < t.shape.rank(); ++d)
      overflow |= __builtin_mul_overflow(blocks, static_cast<uint64_t>(t.shape[d]), &blocks);
    uint64_t bytes = 0;
    overflow |= __builtin_mul_overflow(blocks, uint64_t{t.type->block_bytes}, &bytes);
    // Elements and bytes must both fit what the rest of the program counts with.
    int64_t elements = 1;
    for (int64_t dim : t.shape) overflow |= __builtin_mul_overflow(elements, dim, &elements);
    if (overflow || bytes > static_cast<uint64_t>(INT64_MAX))
      Fail(t.entry, "the size of shape ", t.shape.ToString(), " overflows");
    return bytes;
  }

  void PlaceTensors(bool require_data) {
    file_.data_offset_ = AlignUp<uint64_t>(at_, file_.alignment_);
    std::vector<size_t> order(file_.tensors_.size());
    for (size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
      TensorInfo& t = file_.tensors_[i];
      where_ = "tensor " + Printable(t.name);
      if (t.offset % file_.alignment_ != 0)
        Fail(t.entry, "offset ", t.offset, " is no multiple of the alignment ", file_.alignment_);
      uint64_t end = 0;
      if (__builtin_add_overflow(t.offset, file_.data_offset_, &t.offset) ||
          __builtin_add_overflow(t.offset, t.size_bytes, &end))
        Fail(t.entry, "the offset overflows");
      if (require_data && end > size_)
        Fail(t.entry, "the data end at byte ", end, ", beyond the end of the file at ", size_);
    }
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return file_.tensors_[a].offset < file_.tensors_[b].offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      const TensorInfo& before = file_.tensors_[order[i - 1]];
      const TensorInfo& t = file_.tensors_[order[i]];
      where_ = "tensor " + Printable(t.name);
      if (before.offset + before.size_bytes > t.offset)
        Fail(t.entry, "the data overlap those of tensor ", Printable(before.name));
    }
    where_.clear();
  }

  GgufFile& file_;
  const uint64_t size_;
  uint64_t at_ = 0;
  uint64_t keys_ = 0;
  std::string where_;
};

std::shared_ptr<const GgufFile> GgufFile::Open(const std::string& path, bool require_data) {
  const auto map = MappedFile::Open(path);
  const auto file = std::const_pointer_cast<GgufFile>(Parse(map->bytes(), map, path, require_data));
  file->map_ = map;
  return file;
}

void GgufFile::DropHeader() const {
  if (map_)
    map_->DontNeed(bytes_.first(static_cast<size_t>(std::min<uint64_t>(data_offset_, bytes_.size()))));
}

std::shared_ptr<const GgufFile> GgufFile::Parse(std::span<const std::byte> bytes,
                                                std::shared_ptr<const void> owner, std::string path,
                                                bool require_data) {
  std::shared_ptr<GgufFile> file(new GgufFile);
  file->path_ = std::move(path);
  file->bytes_ = bytes;
  file->owner_ = std::move(owner);
  Reader(*file).Read(require_data);
  if (const auto parts = file->Int("split.count"); parts && *parts > 1)
    Throw(Code::kUnsupported, file->path_, ": this is one of ", *parts,
          " parts of a split model (split.count); merge the parts into one file");
  return file;
}

}  // namespace ullage::gguf
