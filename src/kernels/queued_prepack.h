/// Kernels that pack their weights in a device's queue.
#pragma once

#include <cstddef>

namespace ullage::providers {
class Stream;
}  // namespace ullage::providers

namespace ullage::kernels {

/// What a kernel may be beside a Kernel.
class QueuedPrepack {
 public:
  virtual ~QueuedPrepack() = default;
  /// As Kernel::Prepack(), but it may return before the block is filled: source and target rest until the
  /// queue is done.
  virtual void PrepackIn(providers::Stream& stream, int index, std::byte* out) = 0;
};

}  // namespace ullage::kernels
