/// Codes of one row in the bit planes of the packed form (packed_weight.h). Internal to this folder.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/gguf_block.h"

namespace ullage::quant {

/// 32 codes of `bits` bits to `bits` words of 4 bytes; word i of 16 rows makes line i of a packed block.
void PlanesOfCodes(int bits, const uint8_t* codes, uint8_t* planes);
/// All blocks of 32 of one GGUF block, one after the other: TraitsOf(type).elements / 8 * bits bytes.
void PlanesOfGguf(GgufType type, const std::byte* block, uint8_t* planes);

}  // namespace ullage::quant
