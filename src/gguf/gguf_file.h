/// Reading of GGUF files, versions 2 and 3, little-endian: metadata and tensor directory. Source: the GGUF
/// specification (ggml, docs/gguf.md).
///
/// The file is walked once, in place: keys, strings, arrays and tensors are views into the map, so that
/// opening costs time proportional to the header and memory proportional to the number of keys and tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/mapped_file.h"
#include "gguf/tensor_type.h"
#include "graph/constant.h"
#include "ullage/tensor.h"

namespace ullage::gguf {

enum class ValueType : uint32_t {
  kUInt8 = 0,
  kInt8 = 1,
  kUInt16 = 2,
  kInt16 = 3,
  kUInt32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUInt64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};
/// "uint32", "string", "array".
std::string_view NameOf(ValueType type);

/// One key and its value. Views into the file.
struct MetaValue {
  std::string_view key;
  ValueType type = ValueType::kUInt8;
  ValueType element = ValueType::kUInt8;  ///< element type of an array; the type itself otherwise
  uint64_t count = 1;                     ///< elements of an array; 1 otherwise
  std::span<const std::byte> bytes;       ///< payload without type and count, as stored
  uint64_t offset = 0;                    ///< where the value starts in the file

  bool is_array() const { return type == ValueType::kArray; }
};

/// One entry of the tensor directory.
struct TensorInfo {
  std::string_view name;
  const TensorType* type = nullptr;
  Shape shape;          ///< row-major: the last dimension is the contiguous one (reverse of the file's order)
  uint64_t offset = 0;  ///< of the data, from the start of the file
  uint64_t size_bytes = 0;  ///< of the data
  uint64_t entry = 0;       ///< where the directory entry starts in the file
};

/// An open file. Immutable and thread-safe; everything it hands out lives as long as it does (Constants keep
/// the map alive themselves).
///
/// Errors: kInvalidModel naming file, key or tensor and byte offset for anything broken; kUnsupported, by
/// name, for big-endian files, other versions, tensor types that are not built and parts of a split model.
class GgufFile {
 public:
  /// With `require_data` every tensor must lie inside the file. Without it the header is enough, and tensors
  /// beyond the end become Constants without bytes: planning works with a file that was cut after its header.
  static std::shared_ptr<const GgufFile> Open(const std::string& path, bool require_data = true);
  /// The same over bytes in memory that `owner` keeps alive; `path` is only used in messages.
  static std::shared_ptr<const GgufFile> Parse(std::span<const std::byte> bytes,
                                               std::shared_ptr<const void> owner, std::string path,
                                               bool require_data = true);

  const std::string& path() const { return path_; }
  uint32_t version() const { return version_; }
  uint32_t alignment() const { return alignment_; }
  /// Where the tensor data start.
  uint64_t data_offset() const { return data_offset_; }
  /// general.architecture; kInvalidModel when it is missing.
  std::string_view architecture() const;

  std::span<const MetaValue> metadata() const { return metadata_; }
  const MetaValue* Find(std::string_view key) const;
  // Values by key: nothing when the key is missing, kInvalidModel when it has another type. Integers of all
  // widths are accepted for Int (beyond int64: kInvalidModel), both float types for Float.
  std::optional<int64_t> Int(std::string_view key) const;
  std::optional<double> Float(std::string_view key) const;
  std::optional<bool> Bool(std::string_view key) const;
  std::optional<std::string_view> String(std::string_view key) const;
  // Arrays by key. An empty array is accepted whatever its element type. Bools count as integers.
  std::optional<std::vector<int64_t>> Ints(std::string_view key) const;
  std::optional<std::vector<float>> Floats(std::string_view key) const;
  std::optional<std::vector<std::string_view>> Strings(std::string_view key) const;

  /// Gives back the header's pages of a file that is mapped, which vocabularies make large; they are read
  /// again when touched.
  void DropHeader() const;

  std::span<const TensorInfo> tensors() const { return tensors_; }
  const TensorInfo* FindTensor(std::string_view name) const;
  /// The data of a tensor as a view. Dense types keep their dtype; block types are kUInt8 with the logical
  /// shape and block_type set.
  graph::ConstantPtr ConstantOf(const TensorInfo& tensor) const;
  /// Rows [first, first + count) of dimension 0 of a tensor, as a view.
  graph::ConstantPtr RowsOf(const TensorInfo& tensor, int64_t first, int64_t count) const;

  /// Throws kInvalidModel "FILE: key KEY at byte N: " + reason.
  [[noreturn]] void FailKey(const MetaValue& value, std::string_view reason) const;

 private:
  friend class Reader;
  GgufFile() = default;
  const MetaValue* FindScalar(std::string_view key, std::string_view expected) const;
  const MetaValue* FindArray(std::string_view key) const;

  std::string path_;
  std::span<const std::byte> bytes_;
  std::shared_ptr<const void> owner_;
  std::shared_ptr<const MappedFile> map_;  // null: bytes in memory
  uint32_t version_ = 0;
  uint32_t alignment_ = 32;
  uint64_t data_offset_ = 0;
  std::vector<MetaValue> metadata_;
  std::vector<TensorInfo> tensors_;
  std::unordered_map<std::string_view, size_t> keys_;
  std::unordered_map<std::string_view, size_t> tensor_names_;
};

/// Text from a file, safe to print: control characters and bytes that are not ASCII are escaped, long text is
/// cut.
std::string Printable(std::string_view text);

}  // namespace ullage::gguf
