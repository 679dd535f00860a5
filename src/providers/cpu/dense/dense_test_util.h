/// Helpers of the tests of the dense kernels: typed buffers, random values, every instruction set.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/half.h"
#include "core/thread_team.h"
#include "hwy/targets.h"
#include "providers/cpu/dense/array.h"

namespace ullage::dense {

inline constexpr DType kTypes[] = {DType::kFloat, DType::kFloat16, DType::kBFloat16};

/// Half a unit in the last place, relative.
inline double RoundingOf(DType dtype) {
  return dtype == DType::kFloat ? 0x1p-24 : dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-8;
}

/// Typed array with guard elements behind it.
class Buffer {
 public:
  Buffer(DType dtype, int64_t n)
      : dtype_(dtype), n_(n), bytes_((static_cast<size_t>(n) + kGuard) * ElementBytes(dtype)) {
    std::memset(bytes_.data(), 0xa5, bytes_.size());
  }
  static Buffer Random(DType dtype, int64_t n, uint32_t seed, float scale = 1) {
    Buffer b(dtype, n);
    std::mt19937 rng(seed);
    std::uniform_real_distribution<float> dist(-scale, scale);
    for (int64_t i = 0; i < n; ++i) b.Set(i, dist(rng));
    return b;
  }
  static Buffer Of(DType dtype, const std::vector<float>& values) {
    Buffer b(dtype, static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < values.size(); ++i) b.Set(static_cast<int64_t>(i), values[i]);
    return b;
  }

  int64_t size() const { return n_; }
  DType dtype() const { return dtype_; }
  double operator[](int64_t i) const {
    uint16_t h;
    float f;
    if (dtype_ == DType::kFloat) {
      std::memcpy(&f, bytes_.data() + i * 4, 4);
      return f;
    }
    std::memcpy(&h, bytes_.data() + i * 2, 2);
    return dtype_ == DType::kFloat16 ? HalfToFloat(h) : BFloat16ToFloat(h);
  }
  void Set(int64_t i, float value) {
    const uint16_t h = dtype_ == DType::kFloat16 ? FloatToHalf(value) : FloatToBFloat16(value);
    if (dtype_ == DType::kFloat) {
      std::memcpy(bytes_.data() + i * 4, &value, 4);
    } else {
      std::memcpy(bytes_.data() + i * 2, &h, 2);
    }
  }
  Array at(int64_t offset = 0) {
    return {bytes_.data() + offset * static_cast<int64_t>(ElementBytes(dtype_)), dtype_};
  }
  ConstArray in(int64_t offset = 0) const {
    return {bytes_.data() + offset * static_cast<int64_t>(ElementBytes(dtype_)), dtype_};
  }
  /// True while nothing behind the array was written.
  bool GuardIntact() const {
    for (size_t i = bytes_.size() - kGuard * ElementBytes(dtype_); i < bytes_.size(); ++i)
      if (static_cast<unsigned char>(bytes_[i]) != 0xa5) return false;
    return true;
  }
  friend bool operator==(const Buffer& a, const Buffer& b) { return a.bytes_ == b.bytes_; }

 private:
  static constexpr size_t kGuard = 64;
  DType dtype_;
  int64_t n_;
  std::vector<std::byte> bytes_;
};

/// Scratch of exactly the declared size, aligned, with a guard behind it.
class Scratch {
 public:
  explicit Scratch(size_t bytes) : bytes_(bytes), data_(bytes + 2 * kScratchAlignment, std::byte{0x7f}) {}
  void* get() {
    const auto address = reinterpret_cast<uintptr_t>(data_.data());
    return data_.data() + (kScratchAlignment - address % kScratchAlignment) % kScratchAlignment;
  }
  ~Scratch() {
    const auto* end = static_cast<std::byte*>(get()) + bytes_;
    for (const auto* p = end; p < data_.data() + data_.size(); ++p) {
      if (*p != std::byte{0x7f}) {
        ADD_FAILURE() << "scratch was overrun";
        return;
      }
    }
  }

 private:
  size_t bytes_;
  std::vector<std::byte> data_;
};

/// Calls fn once per instruction set that this machine runs.
template <class Fn>
void ForEachTarget(const Fn& fn) {
  const int64_t supported = hwy::SupportedTargets();
  for (const int64_t target : {HWY_AVX3, HWY_AVX2, HWY_NEON, HWY_SCALAR}) {
    if (target != HWY_SCALAR && (supported & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(target);
    fn();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace ullage::dense
