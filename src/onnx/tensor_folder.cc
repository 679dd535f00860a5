#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "core/error.h"
#include "onnx/tensor_io.h"

namespace ullage::onnx {
namespace fs = std::filesystem;

namespace {

bool Plain(unsigned char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool EndsWith(std::string_view s, std::string_view end) {
  return s.size() >= end.size() && s.substr(s.size() - end.size()) == end;
}

struct Listing {
  std::map<uint64_t, std::string> numbered;    ///< input_N.pb
  std::map<std::string, std::string> by_name;  ///< NAME.npy, name unescaped
};

Listing List(const std::string& dir) {
  std::error_code error;
  fs::directory_iterator it(dir, error);
  if (error) Throw(Code::kInvalidInput, "cannot read the folder ", dir, ": ", error.message());
  Listing files;
  for (; it != fs::directory_iterator(); it.increment(error)) {
    const std::string file = it->path().filename().string();
    constexpr std::string_view kPrefix = "input_", kProto = ".pb", kNpy = ".npy";
    if (EndsWith(file, kNpy)) {
      const std::string name = UnescapeName(std::string_view(file).substr(0, file.size() - kNpy.size()));
      if (!files.by_name.emplace(name, it->path().string()).second)
        Throw(Code::kInvalidInput, dir, " holds two files for input ", name);
    } else if (file.rfind(kPrefix, 0) == 0 && EndsWith(file, kProto)) {
      const char* begin = file.data() + kPrefix.size();
      const char* end = file.data() + file.size() - kProto.size();
      uint64_t number = 0;
      const auto [stop, bad] = std::from_chars(begin, std::max(begin, end), number);
      if (bad == std::errc() && stop == end) files.numbered.emplace(number, it->path().string());
    }
    if (error) break;
  }
  if (error) Throw(Code::kInvalidInput, "cannot read the folder ", dir, ": ", error.message());
  return files;
}

}  // namespace

std::string EscapeName(std::string_view name) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (Plain(byte))
      out += c;
    else
      out += {'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out;
}

std::string UnescapeName(std::string_view escaped) {
  std::string out;
  for (size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != '%') {
      out += escaped[i];
      continue;
    }
    const int high = i + 2 < escaped.size() ? HexDigit(escaped[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(escaped[i + 2]) : -1;
    if (low < 0) Throw(Code::kInvalidInput, "broken escape in the file name ", escaped, ": expected %XX");
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

InputsFolder ReadInputsFolder(const std::string& dir, const graph::Graph& graph) {
  Listing files = List(dir);
  if (!files.numbered.empty() && !files.by_name.empty())
    Throw(Code::kInvalidInput, dir, " holds both input_N.pb and NAME.npy files; expected one form");
  InputsFolder folder;
  folder.form = files.by_name.empty() ? FileForm::kProtobuf : FileForm::kNumpy;
  uint64_t number = 0;
  for (const graph::ValueId id : graph.inputs) {
    const graph::Value& input = graph.value(id);
    HostValue value;
    if (folder.form == FileForm::kProtobuf) {
      if (input.constant) continue;
      const auto file = files.numbered.find(number);
      if (file == files.numbered.end())
        Throw(Code::kInvalidInput, "input ", input.name, " is missing: no input_", number, ".pb in ", dir);
      value = ReadValueProto(file->second, input.kind);
      files.numbered.erase(file);
      ++number;
    } else {
      const auto file = files.by_name.find(input.name);
      if (file == files.by_name.end()) {
        if (input.constant) continue;
        Throw(Code::kInvalidInput, "input ", input.name, " is missing: no ", EscapeName(input.name),
              ".npy in ", dir);
      }
      if (input.kind != graph::TypeKind::kTensor)
        Throw(Code::kUnsupported, "input ", input.name, " is no tensor: only .pb files can hold it");
      value.tensors.push_back(ReadNpy(file->second));
      files.by_name.erase(file);
    }
    value.name = input.name;
    if (value.kind == graph::TypeKind::kTensor) value.tensors[0].name = input.name;
    folder.values.push_back(std::move(value));
  }
  if (!files.numbered.empty())
    Throw(Code::kInvalidInput, files.numbered.begin()->second, ": the graph has ", number, " inputs");
  if (!files.by_name.empty())
    Throw(Code::kInvalidInput, files.by_name.begin()->second, ": the graph has no input ",
          files.by_name.begin()->first);
  return folder;
}

void WriteOutputsFolder(const std::string& dir, FileForm form, std::span<const HostValue> outputs) {
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) Throw(Code::kRuntime, "cannot make the folder ", dir, ": ", error.message());
  size_t number = 0;
  for (const HostValue& value : outputs) {
    if (form == FileForm::kProtobuf) {
      WriteValueProto((fs::path(dir) / ("output_" + std::to_string(number++) + ".pb")).string(), value);
      continue;
    }
    if (value.kind != graph::TypeKind::kTensor || value.tensors.size() != 1)
      Throw(Code::kUnsupported, "output ", value.name, " is no tensor: only .pb files can hold it");
    WriteNpy((fs::path(dir) / (EscapeName(value.name) + ".npy")).string(), value.tensors[0]);
  }
}

}  // namespace ullage::onnx
