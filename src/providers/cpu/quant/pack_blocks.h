/// Packing a weight in slabs along K, for sources stored [K, N].
#pragma once

#include <cstdint>

#include "providers/cpu/quant/packed_weight.h"

namespace ullage::quant {

/// As Pack(), for blocks [first_block, last_block) of 32 along K only, so that [K, N] sources can be read
/// front to back; the blocks from 0 on come first. GGUF sources are packed as a whole (all blocks).
void PackBlocks(const BlockWeightView& view, const PackedLayout& layout, int64_t first_group,
                int64_t last_group, int64_t first_block, int64_t last_block, void* packed);

}  // namespace ullage::quant
