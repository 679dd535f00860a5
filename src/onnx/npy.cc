#include <algorithm>
#include <charconv>
#include <cstring>

#include "core/error.h"
#include "onnx/file_io.h"
#include "onnx/tensor_io.h"
#include "onnx/utf.h"

namespace ullage::onnx {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kHeaderAlignment = 64;
constexpr size_t kMaxCodePoints = size_t{1} << 28;

struct Header {
  std::string descr;
  bool fortran = false;
  Shape shape;
};

/// The header is a Python dictionary of literals.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Header Parse() {
    Header h;
    bool has_descr = false, has_order = false, has_shape = false;
    Take('{');
    while (!Accept('}')) {
      const std::string key = String();
      Take(':');
      if (key == "descr") {
        Peek();
        if (at_ < text_.size() && text_[at_] == '[')
          Throw(Code::kInvalidInput, file_, ": structured arrays are not supported");
        h.descr = String();
        has_descr = true;
      } else if (key == "fortran_order") {
        h.fortran = Boolean();
        has_order = true;
      } else if (key == "shape") {
        h.shape = Tuple();
        has_shape = true;
      } else {
        Fail("unknown key " + key);
      }
      if (!Accept(',')) {
        Take('}');
        break;
      }
    }
    if (!has_descr || !has_order || !has_shape) Fail("descr, fortran_order or shape is missing");
    return h;
  }

 private:
  [[noreturn]] void Fail(const std::string& why) const {
    Throw(Code::kInvalidInput, file_, ": broken .npy header at character ", at_, ": ", why);
  }
  void Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool Accept(char c) {
    Peek();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void Take(char c) {
    if (!Accept(c)) Fail(std::string("expected ") + c);
  }
  std::string String() {
    Peek();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) Fail("expected a string");
    const char quote = text_[at_++];
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) Fail("string without an end");
    std::string s(text_.substr(at_, end - at_));
    at_ = end + 1;
    return s;
  }
  bool Boolean() {
    Peek();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return word == "True";
      }
    }
    Fail("expected True or False");
  }
  Shape Tuple() {
    Shape shape;
    Take('(');
    while (!Accept(')')) {
      Peek();
      int64_t dim = 0;
      const char* begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), dim);
      if (error != std::errc() || dim < 0) Fail("expected a dimension");
      at_ += static_cast<size_t>(end - begin);
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // written by Python 2
      if (shape.rank() == kMaxRank) Fail("rank above " + std::to_string(kMaxRank));
      shape.push_back(dim);
      if (!Accept(',')) {
        Take(')');
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  const std::string& file_;
  size_t at_ = 0;
};

struct ElementType {
  DType dtype;
  size_t size;
  char strings = 0;  ///< 'U' or 'S'
};

ElementType TypeOf(const std::string& descr, const std::string& file) {
  const auto refuse = [&](const char* why) {
    Throw(Code::kInvalidInput, file, ": element type '", descr, "' ", why);
  };
  if (descr.size() < 3) refuse("is not supported");
  const char order = descr[0], kind = descr[1];
  size_t size = 0;
  const auto [end, error] = std::from_chars(descr.data() + 2, descr.data() + descr.size(), size);
  if (error != std::errc() || end != descr.data() + descr.size()) refuse("is not supported");
  if (order != '<' && order != '|' && order != '=' && order != '>') refuse("is not supported");
  if (order == '>' && (size != 1 || kind == 'U')) refuse("is big-endian");
  const auto known = [&]() -> DType {
    switch (kind) {
      case 'b':
        return size == 1 ? DType::kBool : DType::kUndefined;
      case 'i':
        return size == 1   ? DType::kInt8
               : size == 2 ? DType::kInt16
               : size == 4 ? DType::kInt32
               : size == 8 ? DType::kInt64
                           : DType::kUndefined;
      case 'u':
        return size == 1   ? DType::kUInt8
               : size == 2 ? DType::kUInt16
               : size == 4 ? DType::kUInt32
               : size == 8 ? DType::kUInt64
                           : DType::kUndefined;
      case 'f':
        return size == 2   ? DType::kFloat16
               : size == 4 ? DType::kFloat
               : size == 8 ? DType::kDouble
                           : DType::kUndefined;
      case 'c':
        return size == 8 ? DType::kComplex64 : size == 16 ? DType::kComplex128 : DType::kUndefined;
      case 'U':
      case 'S':
        return DType::kString;
      default:
        return DType::kUndefined;
    }
  };
  const DType dtype = known();
  if (dtype == DType::kUndefined) refuse("is not supported");
  if (dtype != DType::kString) return {dtype, size};
  if (size > (size_t{1} << 32)) refuse("is impossibly long");
  return {dtype, kind == 'U' ? size * 4 : size, kind};
}

std::string_view DescrOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kInt8:
      return "|i1";
    case DType::kUInt8:
      return "|u1";
    case DType::kInt16:
      return "<i2";
    case DType::kUInt16:
      return "<u2";
    case DType::kInt32:
      return "<i4";
    case DType::kUInt32:
      return "<u4";
    case DType::kInt64:
      return "<i8";
    case DType::kUInt64:
      return "<u8";
    case DType::kFloat16:
      return "<f2";
    case DType::kFloat:
      return "<f4";
    case DType::kDouble:
      return "<f8";
    case DType::kComplex64:
      return "<c8";
    case DType::kComplex128:
      return "<c16";
    default:
      return "";
  }
}

/// Calls fn(c_index, f_index) for every element: its place in row-major and in column-major order.
template <class Fn>
void ForEachPlace(const Shape& shape, int64_t elements, Fn&& fn) {
  int64_t index[kMaxRank] = {}, stride[kMaxRank] = {};
  int64_t step = 1;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    stride[axis] = step;
    step *= shape[axis];
  }
  int64_t place = 0;
  for (int64_t i = 0; i < elements; ++i) {
    fn(static_cast<size_t>(i), static_cast<size_t>(place));
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      place += stride[axis];
      if (++index[axis] < shape[axis]) break;
      place -= stride[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

std::string ReadString(const std::byte* data, const ElementType& type, const std::string& file) {
  if (type.strings == 'S') {
    std::string s(reinterpret_cast<const char*>(data), type.size);
    s.resize(s.find_last_not_of('\0') + 1);
    return s;
  }
  std::u32string code_points(type.size / 4, U'\0');
  if (type.size) std::memcpy(code_points.data(), data, type.size);
  code_points.resize(code_points.find_last_not_of(U'\0') + 1);
  std::string s;
  if (!AppendUtf8(code_points, s)) Throw(Code::kInvalidInput, file, ": a string that is no Unicode");
  return s;
}

}  // namespace

bool NumpyHas(DType dtype) {
  return dtype == DType::kString || !DescrOf(dtype).empty();
}

HostTensor ParseNpy(std::span<const std::byte> bytes, const std::string& name) {
  const auto fail = [&](const auto&... parts) { Throw(Code::kInvalidInput, name, ": ", parts...); };
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (file.size() < 10 || file.substr(0, kMagic.size()) != kMagic) fail("no .npy file");
  const auto byte_at = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(file[i])); };
  const size_t major = byte_at(6);
  if (major < 1 || major > 3) fail("unknown .npy version ", major, ".", byte_at(7));
  const size_t prefix = major == 1 ? 10 : 12;
  if (file.size() < prefix) fail("cut off in the header");
  size_t length = byte_at(8) | byte_at(9) << 8;
  if (major > 1) length |= byte_at(10) << 16 | byte_at(11) << 24;
  if (length > file.size() - prefix) fail("header of ", length, " bytes in a file of ", file.size());
  const Header header = HeaderParser(file.substr(prefix, length), name).Parse();
  const ElementType type = TypeOf(header.descr, name);

  HostTensor t;
  t.name = name;
  t.dtype = type.dtype;
  t.shape = header.shape;
  int64_t elements = 1;
  size_t size = 0;
  for (const int64_t dim : header.shape)
    if (__builtin_mul_overflow(elements, dim, &elements)) fail("impossible shape ", header.shape.ToString());
  const size_t stored = file.size() - prefix - length;
  if (__builtin_mul_overflow(static_cast<size_t>(elements), type.size, &size) || size != stored)
    fail("holds ", stored, " bytes of data; ", header.shape.ToString(), " of '", header.descr, "' needs ",
         elements, " * ", type.size);
  if (type.size == 0 && static_cast<size_t>(elements) > file.size())
    fail("impossible shape ", header.shape.ToString(), " of empty strings");
  const std::byte* data = bytes.data() + prefix + length;
  const bool reorder = header.fortran && header.shape.rank() > 1;
  if (type.strings) {
    t.strings.resize(static_cast<size_t>(elements));
    const auto read = [&](size_t to, size_t from) {
      t.strings[to] = ReadString(data + from * type.size, type, name);
    };
    if (reorder)
      ForEachPlace(t.shape, elements, read);
    else
      for (size_t i = 0; i < t.strings.size(); ++i) read(i, i);
    return t;
  }
  t.bytes.resize(size);
  if (reorder)
    ForEachPlace(t.shape, elements, [&](size_t to, size_t from) {
      std::memcpy(t.bytes.data() + to * type.size, data + from * type.size, type.size);
    });
  else if (size)
    std::memcpy(t.bytes.data(), data, size);
  return t;
}

std::string SerializeNpy(const HostTensor& t) {
  std::string descr(DescrOf(t.dtype));
  std::vector<std::u32string> strings;
  size_t longest = 1;
  if (t.dtype == DType::kString) {
    for (const auto& s : t.strings) {
      std::u32string code_points;
      if (!AppendCodePoints(s, code_points) || (!code_points.empty() && code_points.back() == U'\0'))
        Throw(Code::kUnsupported, "tensor ", t.name, ": numpy cannot hold the string \"", s,
              "\"; write .pb files");
      longest = std::max(longest, code_points.size());
      strings.push_back(std::move(code_points));
    }
    // Every string takes the room of the longest.
    if (longest * strings.size() > kMaxCodePoints)
      Throw(Code::kUnsupported, "tensor ", t.name, ": ", strings.size(), " strings of up to ", longest,
            " characters are too much for numpy's form; write .pb files");
    descr = "<U" + std::to_string(longest);
  }
  if (descr.empty())
    Throw(Code::kUnsupported, "tensor ", t.name, ": numpy has no element type ", NameOf(t.dtype),
          "; write .pb files");
  std::string header = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (int i = 0; i < t.shape.rank(); ++i)
    header += (i ? " " : "") + std::to_string(t.shape[i]) + (i + 1 < t.shape.rank() || i == 0 ? "," : "");
  header += "), }";
  const size_t prefix = kMagic.size() + 4;
  header.append(kHeaderAlignment - 1 - (prefix + header.size()) % kHeaderAlignment, ' ');
  header += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\x00';
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  for (std::u32string& s : strings) {
    s.resize(longest, U'\0');
    out.append(reinterpret_cast<const char*>(s.data()), longest * 4);
  }
  out.append(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
  return out;
}

HostTensor ReadNpy(const std::string& path) {
  const auto file = OpenInput(path);
  return ParseNpy(file->bytes(), path);
}

void WriteNpy(const std::string& path, const HostTensor& tensor) {
  WriteFile(path, SerializeNpy(tensor));
}

}  // namespace ullage::onnx
