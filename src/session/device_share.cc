#include "session/device_share.h"

#include <algorithm>

namespace ullage::session {

namespace {
constexpr int64_t kPiece = 1 << 20;
}

void DeviceShare::FillConstants(const WidenedWeights& widened) {
  std::vector<providers::Copy> copies;
  for (const auto& c : constants) {
    if (c.constant->size_bytes == 0) continue;
    const providers::Copy copy{c.constant->bytes, At(weight_regions, c.place),
                               static_cast<int64_t>(c.constant->size_bytes)};
    if (widened.has(c.constant))
      widened.With({&c.constant, 1}, [&] { memory.device().Run({&copy, 1}, nullptr); });
    else
      copies.push_back(copy);
  }
  if (!copies.empty()) memory.device().Run(copies, nullptr);
}

void DeviceShare::Fill(std::byte* target, int64_t bytes) {
  const std::vector<std::byte> zeros(static_cast<size_t>(std::min(bytes, kPiece)));
  for (int64_t at = 0; at < bytes; at += kPiece) {
    const providers::Copy copy{zeros.data(), target + at, std::min(kPiece, bytes - at)};
    memory.device().Run({&copy, 1}, nullptr);
  }
}

void DeviceShare::Move(std::byte* target, const std::byte* source, int64_t bytes) {
  if (target == source || bytes == 0) return;
  // Through the host, from the end that is overwritten last.
  std::vector<std::byte> piece(static_cast<size_t>(std::min(bytes, kPiece)));
  for (int64_t done = 0; done < bytes;) {
    const int64_t now = std::min(kPiece, bytes - done);
    const int64_t at = target < source ? done : bytes - done - now;
    const providers::Copy out{source + at, piece.data(), now}, in{piece.data(), target + at, now};
    memory.device().Run({&out, 1}, nullptr);
    memory.device().Run({&in, 1}, nullptr);
    done += now;
  }
}

}  // namespace ullage::session
