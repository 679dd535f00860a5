/// The identity of a constant's data: tensors that share bytes are one buffer, whatever they are called.
#pragma once

#include <string>
#include <utility>

#include "graph/constant.h"

namespace ullage::placement {

/// Equal for constants over the same bytes in memory or, where no bytes are there, the same place in a file.
using BufferKey = std::pair<const void*, std::string>;

inline BufferKey KeyOf(const graph::Constant& constant) {
  if (constant.bytes) return {constant.bytes, ""};
  if (!constant.file.empty()) return {nullptr, constant.file + "@" + std::to_string(constant.file_offset)};
  return {&constant, "absent"};
}

}  // namespace ullage::placement
