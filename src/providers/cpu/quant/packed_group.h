/// Where the parts of one row group lie (see packed_weight.h). Internal to this folder.
#pragma once

#include <cstddef>
#include <cstdint>

#include "providers/cpu/quant/packed_weight.h"

namespace ullage::quant {

inline constexpr int64_t kSuperBlocks = 8;  ///< blocks of 32 that share the float16 of ScaleForm::kSuper

/// Byte offsets from the start of a group. Every part is an array [count][16]; offsets are multiples of 16.
struct GroupParts {
  size_t super_scale = 0;  ///< float16 [supers]
  size_t scale = 0;        ///< [scale_count] in the layout's form
  size_t super_min = 0;    ///< float16 [supers]
  size_t min = 0;          ///< [scale_count]
  size_t scale_end = 0;
  size_t code = 0;
};

static inline size_t ScaleEntryBytes(ScaleForm form) {
  return form == ScaleForm::kSuper ? 1 : form == ScaleForm::kFloat32 ? 4 : 2;
}

static inline size_t MinEntryBytes(MinForm form) {
  switch (form) {
    case MinForm::kOffset:
      return 0;
    case MinForm::kZeroPoint:
    case MinForm::kSuper:
      return 1;
    case MinForm::kFloat16:
      return 2;
    case MinForm::kFloat32:
      return 4;
  }
  return 0;
}

static inline GroupParts PartsOf(const PackedLayout& l) {
  const size_t supers = static_cast<size_t>((l.blocks + kSuperBlocks - 1) / kSuperBlocks);
  const size_t count = static_cast<size_t>(l.scale_count);
  GroupParts p;
  p.super_scale = l.row_bytes;
  p.scale = p.super_scale + (l.scale_form == ScaleForm::kSuper ? supers * 32 : 0);
  p.super_min = p.scale + count * 16 * ScaleEntryBytes(l.scale_form);
  p.min = p.super_min + (l.min_form == MinForm::kSuper ? supers * 32 : 0);
  p.scale_end = p.min + count * 16 * MinEntryBytes(l.min_form);
  p.code = l.row_bytes + l.scale_bytes;
  return p;
}

static inline const uint8_t* GroupOf(const PackedLayout& l, const void* packed, int64_t group) {
  return static_cast<const uint8_t*>(packed) + l.index_bytes + static_cast<size_t>(group) * l.group_bytes;
}

/// Bytes of the codes of one block of 32 for 16 rows.
static inline size_t CodeBlockBytes(int bits) {
  return static_cast<size_t>(bits) * 64;
}

}  // namespace ullage::quant
