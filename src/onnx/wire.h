/// Protobuf wire format, walked in place, with messages that name file, field and byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <protozero/types.hpp>
#include <protozero/varint.hpp>
#include <span>
#include <string>
#include <string_view>

#include "core/error.h"

namespace ullage::onnx {

/// The bytes that all messages of one file lie in, and how to speak of them.
struct Source {
  std::string name;  ///< path, for messages
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  ///< keeps `bytes` alive; may be null
  Code code = Code::kInvalidModel;    ///< what a broken message is reported as
};

/// A reader over one message: `while (m.Next()) switch (m.field()) ...`, where every case either consumes the
/// value with one of the getters or calls Skip(). A plain view: cheap to copy, valid as long as the Source. A
/// getter of the wrong wire type, a length beyond the message and every other fault throws
/// Error(source.code). Field names are only used in messages.
class Message {
 public:
  Message() = default;
  /// `type` is a literal, such as "TensorProto".
  Message(const Source& source, std::string_view bytes, const char* type)
      : source_(&source), at_(bytes.data()), end_(bytes.data() + bytes.size()), field_at_(at_), type_(type) {}
  /// The whole file.
  Message(const Source& source, const char* type)
      : Message(source, {reinterpret_cast<const char*>(source.bytes.data()), source.bytes.size()}, type) {}

  bool Next();
  uint32_t field() const { return field_; }
  void Skip();

  int64_t Int(const char* name);
  float Float(const char* name);
  double Double(const char* name);
  std::string_view Bytes(const char* name);
  std::string String(const char* name) { return std::string(Bytes(name)); }
  Message Sub(const char* name, const char* type) { return {*source_, Bytes(name), type}; }

  /// Calls fn(uint64_t) for the value or values of a repeated varint field, packed or not.
  template <class Fn>
  void Varints(const char* name, Fn&& fn);
  /// How many values the field holds at this place; consumes it.
  size_t CountVarints(const char* name);
  /// The bytes of the value or values of a repeated fixed-width field, packed or not, a multiple of `width`.
  std::string_view Fixed(const char* name, size_t width);

  bool empty() const { return at_ == end_; }
  /// Bytes that are not consumed yet.
  std::string_view rest() const { return {at_, static_cast<size_t>(end_ - at_)}; }
  const Source& source() const { return *source_; }
  /// Place of the current field in the file.
  uint64_t offset() const;
  /// "model.onnx: TensorProto at byte 17: " and the parts.
  template <class... Parts>
  [[noreturn]] void Fail(const Parts&... parts) const {
    Throw(source_->code, source_->name, ": ", type_, " at byte ", offset(), ": ", parts...);
  }

 private:
  enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  uint64_t Varint(const char*& at, const char* end) const;
  std::string_view Take(uint64_t length);
  void Expect(Wire wire, const char* name) const;

  const Source* source_ = nullptr;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  const char* field_at_ = nullptr;
  const char* type_ = "";
  uint32_t field_ = 0;
  uint32_t wire_ = 0;
};

template <class Fn>
void Message::Varints(const char* name, Fn&& fn) {
  if (wire_ == kVarint) {
    fn(Varint(at_, end_));
    return;
  }
  Expect(kBytes, name);
  const std::string_view packed = Bytes(name);
  const char* at = packed.data();
  const char* end = at + packed.size();
  while (at != end) fn(Varint(at, end));
}

}  // namespace ullage::onnx
