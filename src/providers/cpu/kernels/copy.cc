#include "providers/cpu/kernels/copy.h"

#include <cstring>

#include "core/checked.h"

namespace ullage::cpu {
namespace {

template <class T>
void CopyRow(const std::byte* in, std::byte* out, int64_t n, int64_t stride) {
  for (int64_t i = 0; i < n; ++i) {
    T v;
    std::memcpy(&v, in + i * stride * static_cast<int64_t>(sizeof(T)), sizeof(T));
    std::memcpy(out + i * static_cast<int64_t>(sizeof(T)), &v, sizeof(T));
  }
}

}  // namespace

void CopyStrided(ThreadTeam& team, const std::byte* in, std::byte* out, const Shape& shape,
                 const int64_t* strides, size_t element) {
  int rank = 0;
  int64_t dims[kMaxRank + 1], steps[kMaxRank + 1];
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 0) return;
    if (shape[d] == 1) continue;
    if (rank > 0 && steps[rank - 1] == strides[d] * shape[d]) {
      dims[rank - 1] *= shape[d];
      steps[rank - 1] = strides[d];
    } else {
      dims[rank] = shape[d];
      steps[rank] = strides[d];
      ++rank;
    }
  }
  if (rank == 0) {
    std::memcpy(out, in, element);
    return;
  }
  const int64_t length = dims[rank - 1], step = steps[rank - 1];
  int64_t rows = 1;
  for (int d = 0; d + 1 < rank; ++d) rows *= dims[d];
  const auto row = [&](int64_t r) {
    int64_t at = 0, rest = r;
    for (int d = rank - 2; d >= 0; --d) {
      at += rest % dims[d] * steps[d];
      rest /= dims[d];
    }
    const std::byte* from = in + at * static_cast<int64_t>(element);
    std::byte* to = out + r * length * static_cast<int64_t>(element);
    if (step == 1) {
      std::memcpy(to, from, static_cast<size_t>(length) * element);
      return;
    }
    switch (element) {
      case 1:
        return CopyRow<uint8_t>(from, to, length, step);
      case 2:
        return CopyRow<uint16_t>(from, to, length, step);
      case 4:
        return CopyRow<uint32_t>(from, to, length, step);
      case 8:
        return CopyRow<uint64_t>(from, to, length, step);
      default:
        for (int64_t i = 0; i < length; ++i)
          std::memcpy(to + static_cast<size_t>(i) * element, from + i * step * static_cast<int64_t>(element),
                      element);
    }
  };
  constexpr int64_t kTaskElements = 16384;
  if (rows * length <= 2 * kTaskElements) {
    for (int64_t r = 0; r < rows; ++r) row(r);
    return;
  }
  const int64_t per = std::max<int64_t>(1, kTaskElements / length);
  team.Run(CeilDiv(rows, per), [&](int64_t t, int) {
    for (int64_t r = t * per; r < std::min(rows, (t + 1) * per); ++r) row(r);
  });
}

}  // namespace ullage::cpu
