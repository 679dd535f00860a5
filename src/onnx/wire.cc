#include "onnx/wire.h"

#include <protozero/exception.hpp>

namespace ullage::onnx {
namespace {

const char* WireName(uint32_t wire) {
  switch (wire) {
    case 0:
      return "a varint";
    case 1:
      return "a 64-bit value";
    case 2:
      return "bytes";
    case 5:
      return "a 32-bit value";
    default:
      return "a group";
  }
}

}  // namespace

uint64_t Message::offset() const {
  return static_cast<uint64_t>(field_at_ - reinterpret_cast<const char*>(source_->bytes.data()));
}

uint64_t Message::Varint(const char*& at, const char* end) const {
  try {
    return protozero::decode_varint(&at, end);
  } catch (const protozero::exception& e) {
    Fail("broken varint in field ", field_, " (", e.what(), ")");
  }
}

std::string_view Message::Take(uint64_t length) {
  const auto left = static_cast<uint64_t>(end_ - at_);
  if (length > left) Fail("field ", field_, " claims ", length, " bytes, but only ", left, " are left");
  const std::string_view taken(at_, static_cast<size_t>(length));
  at_ += length;
  return taken;
}

void Message::Expect(Wire wire, const char* name) const {
  if (wire_ != wire)
    Fail("field ", field_, " (", name, ") is ", WireName(wire_), "; expected ", WireName(wire));
}

bool Message::Next() {
  if (at_ == end_) return false;
  field_at_ = at_;
  field_ = 0;
  const uint64_t key = Varint(at_, end_);
  if (key >> 32) Fail("broken field key ", key);
  field_ = static_cast<uint32_t>(key >> 3);
  wire_ = static_cast<uint32_t>(key & 7);
  if (field_ == 0) Fail("field number 0");
  if (wire_ != kVarint && wire_ != kFixed64 && wire_ != kBytes && wire_ != kFixed32)
    Fail("field ", field_, " has wire type ", wire_, ", which no ONNX file uses");
  return true;
}

void Message::Skip() {
  switch (wire_) {
    case kVarint:
      Varint(at_, end_);
      break;
    case kFixed64:
      Take(8);
      break;
    case kFixed32:
      Take(4);
      break;
    default:
      Take(Varint(at_, end_));
      break;
  }
}

int64_t Message::Int(const char* name) {
  Expect(kVarint, name);
  return static_cast<int64_t>(Varint(at_, end_));
}

float Message::Float(const char* name) {
  Expect(kFixed32, name);
  float value;
  std::memcpy(&value, Take(sizeof value).data(), sizeof value);
  return value;
}

double Message::Double(const char* name) {
  Expect(kFixed64, name);
  double value;
  std::memcpy(&value, Take(sizeof value).data(), sizeof value);
  return value;
}

std::string_view Message::Bytes(const char* name) {
  Expect(kBytes, name);
  return Take(Varint(at_, end_));
}

size_t Message::CountVarints(const char* name) {
  if (wire_ == kVarint) {
    Varint(at_, end_);
    return 1;
  }
  size_t count = 0;
  for (const char c : Bytes(name)) count += (static_cast<unsigned char>(c) & 0x80u) == 0;
  return count;
}

std::string_view Message::Fixed(const char* name, size_t width) {
  if (wire_ == (width == 4 ? kFixed32 : kFixed64)) return Take(width);
  const std::string_view packed = Bytes(name);
  if (packed.size() % width != 0)
    Fail("field ", field_, " (", name, ") has ", packed.size(), " bytes, no multiple of ", width);
  return packed;
}

}  // namespace ullage::onnx
