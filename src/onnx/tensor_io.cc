#include "onnx/tensor_io.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <protozero/pbf_writer.hpp>

#include "core/mapped_file.h"
#include "onnx/file_io.h"
#include "onnx/tensor_pb.h"

namespace ullage::onnx {

using graph::TypeKind;

namespace {

// SequenceProto.DataType and OptionalProto.DataType
constexpr int64_t kElementUndefined = 0;
constexpr int64_t kElementTensor = 1;
constexpr int64_t kElementSequence = 3;

constexpr size_t kMaxMessage = (size_t{1} << 31) - 1;

HostTensor ToHost(const TensorPb& pb) {
  const Source& source = pb.message.source();
  if (pb.external && pb.size_bytes) Throw(source.code, pb.Where(), ": external data are not allowed here");
  HostTensor t;
  t.name = pb.name;
  t.dtype = pb.dtype;
  t.shape = pb.shape;
  if (pb.dtype == DType::kString) {
    t.strings = DecodeStrings(pb);
  } else {
    t.bytes.resize(pb.size_bytes);
    if (!pb.external) DecodeTensor(pb, t.bytes.data());
  }
  return t;
}

HostValue ParseSequence(Message m) {
  HostValue v;
  v.kind = TypeKind::kSequence;
  const auto unsupported = [&](const char* what) {
    Throw(Code::kUnsupported, m.source().name, ": a sequence of ", what);
  };
  while (m.Next()) {
    switch (m.field()) {
      case 1:
        v.name = m.String("name");
        break;
      case 2: {
        const int64_t type = m.Int("elem_type");
        if (type != kElementUndefined && type != kElementTensor) unsupported("anything but tensors");
        break;
      }
      case 3:
        v.tensors.push_back(ToHost(ParseTensor(m.Sub("tensor_values", "TensorProto"))));
        break;
      case 4:
        unsupported("sparse tensors");
        break;
      case 5:
        unsupported("sequences");
        break;
      case 6:
        unsupported("maps");
        break;
      case 7:
        unsupported("optionals");
        break;
      default:
        m.Skip();
    }
  }
  return v;
}

HostValue ParseOptional(Message m) {
  HostValue v;
  v.kind = TypeKind::kOptional;
  v.present = false;
  std::string name;
  while (m.Next()) {
    switch (m.field()) {
      case 1:
        name = m.String("name");
        break;
      case 2:
        if (m.Int("elem_type") == kElementSequence) v.inner = TypeKind::kSequence;
        break;
      case 3:
        v.tensors.assign(1, ToHost(ParseTensor(m.Sub("tensor_value", "TensorProto"))));
        v.present = true;
        v.inner = TypeKind::kTensor;
        break;
      case 5:
        v.tensors = ParseSequence(m.Sub("sequence_value", "SequenceProto")).tensors;
        v.present = true;
        v.inner = TypeKind::kSequence;
        break;
      case 4:
      case 6:
      case 7:
        Throw(Code::kUnsupported, m.source().name, ": an optional of anything but tensors and sequences");
      default:
        m.Skip();
    }
  }
  v.name = std::move(name);
  return v;
}

void WriteTensor(protozero::pbf_writer& w, const HostTensor& t) {
  for (const int64_t dim : t.shape) w.add_int64(1, dim);
  w.add_int32(2, static_cast<int32_t>(t.dtype));
  for (const auto& s : t.strings) w.add_bytes(6, s);
  if (!t.name.empty()) w.add_string(8, t.name);
  if (t.dtype != DType::kString)
    w.add_bytes(9, reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
}

void WriteSequence(protozero::pbf_writer& w, const HostValue& v) {
  w.add_int32(2, kElementTensor);
  for (const auto& t : v.tensors) {
    protozero::pbf_writer sub(w, 3);
    WriteTensor(sub, t);
  }
}

void CheckSize(std::span<const HostTensor> tensors, const std::string& name) {
  size_t total = 0;
  for (const auto& t : tensors) {
    total += t.bytes.size() + 1024 + t.name.size();
    for (const auto& s : t.strings) total += s.size() + 16;
  }
  if (total > kMaxMessage)
    Throw(Code::kRuntime, "tensor ", name, ": ", total, " bytes are too large for a protobuf file (2 GiB)");
}

}  // namespace

TensorView HostTensor::view() {
  TensorView v;
  v.data = dtype == DType::kString ? static_cast<void*>(strings.data()) : bytes.data();
  v.dtype = dtype;
  v.shape = shape;
  return v;
}

HostTensor ParseTensorProto(std::span<const std::byte> bytes, const std::string& name) {
  const Source source{name, bytes, nullptr, Code::kInvalidInput};
  return ToHost(ParseTensor(Message(source, "TensorProto")));
}

HostValue ParseValueProto(std::span<const std::byte> bytes, TypeKind kind, const std::string& name) {
  const Source source{name, bytes, nullptr, Code::kInvalidInput};
  switch (kind) {
    case TypeKind::kSequence:
      return ParseSequence(Message(source, "SequenceProto"));
    case TypeKind::kOptional:
    case TypeKind::kOptionalSequence:
      return ParseOptional(Message(source, "OptionalProto"));
    case TypeKind::kMap:
      Throw(Code::kUnsupported, name, ": maps are not supported");
    case TypeKind::kTensor:
      break;
  }
  HostValue v;
  v.tensors.push_back(ToHost(ParseTensor(Message(source, "TensorProto"))));
  v.name = v.tensors[0].name;
  return v;
}

std::string SerializeTensorProto(const HostTensor& tensor) {
  CheckSize({&tensor, 1}, tensor.name);
  std::string out;
  protozero::pbf_writer w(out);
  WriteTensor(w, tensor);
  return out;
}

std::string SerializeValueProto(const HostValue& value) {
  CheckSize(value.tensors, value.name);
  std::string out;
  protozero::pbf_writer w(out);
  switch (value.kind) {
    case TypeKind::kTensor: {
      if (value.tensors.size() != 1)
        Throw(Code::kRuntime, "value ", value.name, " is a tensor, but holds ", value.tensors.size());
      WriteTensor(w, value.tensors[0]);
      break;
    }
    case TypeKind::kSequence:
      if (!value.name.empty()) w.add_string(1, value.name);
      WriteSequence(w, value);
      break;
    case TypeKind::kOptionalSequence:
    case TypeKind::kOptional: {
      if (!value.name.empty()) w.add_string(1, value.name);
      const bool sequence = value.inner == TypeKind::kSequence;
      if (!value.present) {
        w.add_int32(2, kElementUndefined);
      } else if (sequence) {
        w.add_int32(2, kElementSequence);
        protozero::pbf_writer sub(w, 5);
        WriteSequence(sub, value);
      } else {
        w.add_int32(2, kElementTensor);
        protozero::pbf_writer sub(w, 3);
        if (!value.tensors.empty()) WriteTensor(sub, value.tensors[0]);
      }
      break;
    }
    case TypeKind::kMap:
      Throw(Code::kUnsupported, "value ", value.name, ": maps are not supported");
  }
  return out;
}

HostValue ReadValueProto(const std::string& path, TypeKind kind) {
  const auto file = OpenInput(path);
  return ParseValueProto(file->bytes(), kind, path);
}

void WriteValueProto(const std::string& path, const HostValue& value) {
  WriteFile(path, SerializeValueProto(value));
}

std::shared_ptr<const MappedFile> OpenInput(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    Throw(Code::kInvalidInput, "cannot read ", path, ": ", error ? error.message() : "no regular file");
  try {
    return MappedFile::Open(path);
  } catch (const Error& e) {
    throw Error(Code::kInvalidInput, e.message());
  }
}

void WriteFile(const std::string& path, std::string_view contents) {
  errno = 0;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  out.close();
  if (!out) Throw(Code::kRuntime, "cannot write ", path, ": ", errno ? std::strerror(errno) : "write error");
}

}  // namespace ullage::onnx
