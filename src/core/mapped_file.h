/// Read-only memory maps of files.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace ullage {

/// The whole file, mapped read-only and private. Immutable and thread-safe. Pages are read when they are
/// touched.
class MappedFile {
 public:
  /// Throws kInvalidModel naming the path when it cannot be opened or mapped. An empty file maps to an empty
  /// span.
  static std::shared_ptr<const MappedFile> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

  /// Tells the kernel that the range will be read from front to back soon.
  void WillNeed(std::span<const std::byte> range) const;
  /// Gives back the pages that lie wholly inside the range; they are read again when touched.
  void DontNeed(std::span<const std::byte> range) const;

 private:
  MappedFile() = default;
  std::string path_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace ullage
