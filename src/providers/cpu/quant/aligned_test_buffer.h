/// Aligned memory for tests, with a guard behind it.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace ullage::quant {

class AlignedTestBuffer {
 public:
  explicit AlignedTestBuffer(size_t bytes) : bytes_(bytes) {
    data_ = static_cast<uint8_t*>(std::aligned_alloc(64, (bytes + kGuard + 63) / 64 * 64));
    std::memset(data_, kFill, bytes + kGuard);
  }
  ~AlignedTestBuffer() { std::free(data_); }
  AlignedTestBuffer(const AlignedTestBuffer&) = delete;
  AlignedTestBuffer& operator=(const AlignedTestBuffer&) = delete;

  uint8_t* data() { return data_; }
  size_t size() const { return bytes_; }
  /// Nothing was written behind the end.
  void CheckEnd() const {
    for (size_t i = 0; i < kGuard; ++i)
      ASSERT_EQ(data_[bytes_ + i], kFill) << "byte " << i << " behind the end";
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr uint8_t kFill = 0xa5;
  size_t bytes_;
  uint8_t* data_;
};

}  // namespace ullage::quant
