/// The largest number whose plan fits a limit.
#pragma once

#include <algorithm>
#include <cstdint>

namespace ullage::session {

/// The largest n in [least, most] with bytes_of(n) <= limit, given that most does not fit; 0 when least does
/// not. What is asked for grows almost evenly, so the line through the ends is the best guess; bisection
/// bounds the number of tries where it is not.
template <class Fn>
int64_t LargestFitting(int64_t least, int64_t most, int64_t most_bytes, int64_t limit, const Fn& bytes_of) {
  if (least >= most) return 0;
  int64_t low = least, high = most, high_bytes = most_bytes;
  int64_t low_bytes = bytes_of(low);
  if (low_bytes > limit) return 0;
  for (int tries = 0; high - low > 1; ++tries) {
    const double part = static_cast<double>(limit - low_bytes) / static_cast<double>(high_bytes - low_bytes);
    int64_t n = low + static_cast<int64_t>(part * static_cast<double>(high - low));
    if (tries % 3 == 2) n = low + (high - low) / 2;
    n = std::clamp(n, low + 1, high - 1);
    const int64_t bytes = bytes_of(n);
    if (bytes <= limit) {
      low = n;
      low_bytes = bytes;
    } else {
      high = n;
      high_bytes = bytes;
    }
  }
  return low;
}

}  // namespace ullage::session
