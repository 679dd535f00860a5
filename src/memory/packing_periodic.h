/// Repeated structure: the layers of a model ask for the same buffers again and again. Internal to the
/// packer.
#pragma once

#include <optional>

#include "memory/packing_instance.h"

namespace ullage::memory::internal {

/// Finds the time shift after which most items come again and joins each with its repetitions into one item,
/// so that every layer gets the same offsets. Packings of the result are packings of the original; the
/// reverse does not hold. Nothing when fewer than half of the items repeat.
std::optional<Instance> JoinRepetitions(const Instance& instance);

}  // namespace ullage::memory::internal
