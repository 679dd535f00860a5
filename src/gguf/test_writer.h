/// Writes GGUF files for tests, right or deliberately wrong.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "gguf/gguf_file.h"

namespace ullage::gguf {

/// The error of fn; its message must hold every part.
inline void ExpectError(Code code, const std::vector<std::string>& parts, const std::function<void()>& fn) {
  try {
    fn();
    ADD_FAILURE() << "no error, expected one with \"" << (parts.empty() ? "" : parts[0]) << "\"";
  } catch (const Error& e) {
    EXPECT_EQ(CodeName(e.code()), CodeName(code)) << e.what();
    for (const auto& part : parts)
      EXPECT_NE(e.message().find(part), std::string::npos) << part << " in: " << e.what();
  }
}
class TestWriter {
 public:
  // Pieces of the format; every function returns *this.
  template <class T>
  TestWriter& Put(T value) {
    const size_t at = bytes.size();
    bytes.resize(at + sizeof(T));
    std::memcpy(bytes.data() + at, &value, sizeof(T));
    return *this;
  }
  TestWriter& Text(std::string_view text) {
    Put<uint64_t>(text.size());
    for (char c : text) bytes.push_back(static_cast<std::byte>(c));
    return *this;
  }
  TestWriter& Start(uint64_t tensors, uint64_t keys, uint32_t version = 3) {
    return Put<uint32_t>(0x46554747).Put<uint32_t>(version).Put<uint64_t>(tensors).Put<uint64_t>(keys);
  }
  TestWriter& Key(std::string_view key, ValueType type) { return Text(key).Put(static_cast<uint32_t>(type)); }
  TestWriter& U32(std::string_view key, uint32_t v) { return Key(key, ValueType::kUInt32).Put(v); }
  TestWriter& F32(std::string_view key, float v) { return Key(key, ValueType::kFloat32).Put(v); }
  TestWriter& Bool(std::string_view key, bool v) { return Key(key, ValueType::kBool).Put<uint8_t>(v); }
  TestWriter& String(std::string_view key, std::string_view v) {
    return Key(key, ValueType::kString).Text(v);
  }
  TestWriter& Array(std::string_view key, ValueType element, uint64_t count) {
    return Key(key, ValueType::kArray).Put(static_cast<uint32_t>(element)).Put(count);
  }
  TestWriter& Strings(std::string_view key, const std::vector<std::string>& values) {
    Array(key, ValueType::kString, values.size());
    for (const auto& v : values) Text(v);
    return *this;
  }
  /// A directory entry; `dims` in the order of the file (contiguous first).
  TestWriter& Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                     uint64_t offset) {
    Text(name).Put(static_cast<uint32_t>(dims.size()));
    for (uint64_t d : dims) Put(d);
    return Put(type).Put(offset);
  }
  /// Zeros up to a multiple of `alignment`, then `size` bytes 1, 2, 3...
  TestWriter& Data(size_t size, size_t alignment = 32) {
    while (bytes.size() % alignment) bytes.push_back(std::byte{0});
    for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(i + 1));
    return *this;
  }

  std::shared_ptr<const GgufFile> Parse(bool require_data = true) const {
    // A copy of exactly this size on the heap, so that a sanitizer sees every read beyond it.
    std::shared_ptr<std::byte[]> copy(new std::byte[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), copy.get());
    return GgufFile::Parse({copy.get(), bytes.size()}, copy, "test.gguf", require_data);
  }

  std::vector<std::byte> bytes;
};

/// A whole model, key by key and tensor by tensor: the counts and offsets are filled in when it is built.
class TestModel {
 public:
  struct Entry {
    std::string name;
    std::vector<uint64_t> dims;  // order of the file
    uint32_t type = 0;           // f32
  };

  TestWriter keys;
  uint64_t key_count = 0;
  std::vector<Entry> tensors;

  TestModel& U32(std::string_view key, uint32_t v) { return ++key_count, keys.U32(key, v), *this; }
  TestModel& F32(std::string_view key, float v) { return ++key_count, keys.F32(key, v), *this; }
  TestModel& Bool(std::string_view key, bool v) { return ++key_count, keys.Bool(key, v), *this; }
  TestModel& String(std::string_view key, std::string_view v) {
    return ++key_count, keys.String(key, v), *this;
  }
  TestModel& Strings(std::string_view key, const std::vector<std::string>& v) {
    return ++key_count, keys.Strings(key, v), *this;
  }
  template <class T>
  TestModel& Numbers(std::string_view key, ValueType type, const std::vector<T>& values) {
    ++key_count;
    keys.Array(key, type, values.size());
    for (T v : values) keys.Put(v);
    return *this;
  }
  TestModel& Tensor(std::string name, std::vector<uint64_t> dims, uint32_t type = 0) {
    tensors.push_back({std::move(name), std::move(dims), type});
    return *this;
  }
  void Drop(std::string_view name) {
    std::erase_if(tensors, [&](const Entry& e) { return e.name == name; });
  }
  Entry& Find(std::string_view name) {
    for (Entry& e : tensors)
      if (e.name == name) return e;
    throw std::runtime_error("no such tensor");
  }

  TestWriter Build(bool with_data = true) const {
    TestWriter w;
    w.Start(tensors.size(), key_count);
    w.bytes.insert(w.bytes.end(), keys.bytes.begin(), keys.bytes.end());
    uint64_t offset = 0;
    for (const Entry& e : tensors) {
      w.Tensor(e.name, e.dims, e.type, offset);
      const TensorType* type = FindTensorType(e.type);
      uint64_t elements = 1;
      for (uint64_t d : e.dims) elements *= d;
      const uint64_t size = type ? elements / type->block * type->block_bytes : 0;
      offset += (size + 31) / 32 * 32;
    }
    if (with_data) w.Data(offset);
    return w;
  }
};

/// A complete llama of one layer: hidden 32, 4 heads, 2 key heads, vocabulary 8, all weights f32.
inline TestModel TinyLlama(const std::string& arch = "llama") {
  TestModel m;
  m.String("general.architecture", arch);
  m.U32(arch + ".context_length", 64).U32(arch + ".block_count", 1).U32(arch + ".embedding_length", 32);
  m.U32(arch + ".feed_forward_length", 48).U32(arch + ".attention.head_count", 4);
  m.U32(arch + ".attention.head_count_kv", 2).F32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  m.Tensor("token_embd.weight", {32, 8}).Tensor("output_norm.weight", {32});
  m.Tensor("blk.0.attn_norm.weight", {32}).Tensor("blk.0.ffn_norm.weight", {32});
  m.Tensor("blk.0.attn_q.weight", {32, 32}).Tensor("blk.0.attn_k.weight", {32, 16});
  m.Tensor("blk.0.attn_v.weight", {32, 16}).Tensor("blk.0.attn_output.weight", {32, 32});
  m.Tensor("blk.0.ffn_gate.weight", {32, 48}).Tensor("blk.0.ffn_up.weight", {32, 48});
  m.Tensor("blk.0.ffn_down.weight", {48, 32});
  return m;
}

}  // namespace ullage::gguf
