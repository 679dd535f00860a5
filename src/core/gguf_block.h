/// The parts of GGUF blocks: integer codes, and the numbers that they are scaled with. What DequantizeRow and
/// the packing of weights for a device both start from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/block_format.h"

namespace ullage {

/// A weight is  d * scale[j] * (u - offset) - dmin * min[j]  with u the code, j = element / span; without
/// sub-scales d * (u - offset) + m, where m is stored in `dmin`.
struct GgufTraits {
  const char* name;
  int elements;  ///< of a block
  int bytes;     ///< of a block
  int bits;      ///< of a code
  int span;      ///< elements with one scale
  bool super;    ///< has 8-bit sub-scales
  bool has_min;
  bool iq4;    ///< codes are indices of kIq4Values
  int offset;  ///< where has_min is false
};
const GgufTraits& TraitsOf(GgufType type);
/// The block type of that name in lower case ("q4_k"), or nothing.
std::optional<GgufType> GgufTypeOf(std::string_view name);

struct GgufScales {
  uint16_t d = 0;     ///< float16
  uint16_t dmin = 0;  ///< float16
  int8_t scale[16] = {};
  uint8_t min[16] = {};
};
GgufScales GgufScalesOf(GgufType type, const std::byte* block);

/// All codes of a block, in the order of the elements: TraitsOf(type).elements values.
void GgufCodesOf(GgufType type, const std::byte* block, uint8_t* codes);

}  // namespace ullage
