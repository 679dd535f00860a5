/// The inner loops that exist once per instruction set. Internal to this folder.
///
/// Files built with wider instructions than the rest of the library include nothing that defines functions
/// with external linkage, so that no code with those instructions can be picked by the linker for others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/cpu_features.h"
#include "providers/cpu/quant/activations.h"
#include "providers/cpu/quant/packed_group.h"
#include "providers/cpu/quant/packed_weight.h"

namespace ullage::quant {

/// What identifies a loop: how codes are stored and what is done with them.
struct DotKind {
  int bits = 8;  ///< of packed codes; for codes as bytes: all are below 2^bits
  bool iq4 = false;
  bool half = false;  ///< two scales per block of 32
  bool min = false;
  int digits = 1;
};

/// acc[token][16] += a range of blocks of one row group times the activations of some tokens.
struct DotArgs {
  const uint8_t* codes = nullptr;  ///< of the first block
  const float* scales = nullptr;   ///< [blocks][16], or [blocks][2][16] with DotKind::half
  const float* mins = nullptr;     ///< likewise, with DotKind::min
  const uint8_t* activations =
      nullptr;               ///< record of the first block and the first token; tokens follow each other
  int64_t block_stride = 0;  ///< bytes from a block's records to the next block's
  int64_t blocks = 0;
  int32_t offset_shift = 0;  ///< log2 of the constant zero point; 32 where there is none
  float* acc = nullptr;
};
using DotFn = void (*)(const DotArgs& args);

/// acc[token][16] += the whole of K, for weights whose scales are looked up per element.
struct IndexedArgs {
  const PackedLayout* layout = nullptr;
  const int32_t* index = nullptr;
  const uint8_t* group = nullptr;
  const float* activations = nullptr;  ///< record of the first block and the first token
  int64_t block_stride = 0;            ///< floats
  int64_t tokens = 0;
  float* acc = nullptr;
};

inline constexpr int kMaxTile = 16;

/// Products of exactly 16 tokens with codes as bytes, for processors with a matrix unit. Null functions:
/// there is none.
struct Block16 {
  void (*begin)() = nullptr;  ///< sets the unit of this thread up; between the two no other loop uses it
  void (*end)() = nullptr;
  /// Takes a constant off the codes, which are signed from then on.
  void (*subtract)(int offset, int64_t blocks, uint8_t* codes) = nullptr;
  /// The loop (without use of DotArgs::offset_shift), or null where the kind is not built.
  DotFn (*find)(const DotKind& kind, bool is_signed) = nullptr;
};

struct KernelSet {
  /// One record from `count` <= 32 floats.
  void (*quantize)(Activations form, const float* a, int64_t count, void* record);
  /// Scales and minima of blocks [first, first+blocks) as float: [blocks][16], or [blocks][2][16] for
  /// span 16.
  void (*expand)(const PackedLayout& layout, const uint8_t* group, int64_t first, int64_t blocks,
                 float* scales, float* mins);
  /// Codes of blocks as bytes (as with 8 bits), IQ4 codes through their table.
  void (*unpack)(int bits, bool iq4, const uint8_t* codes, int64_t blocks, uint8_t* out);
  /// The loop over packed codes for exactly `tokens` tokens; null where it is to be done by unpack and tile.
  DotFn (*fused)(const DotKind& kind, int tokens);
  /// The loop over codes as bytes (kind.bits 8) for exactly `tokens` tokens; null where that number is not
  /// built.
  DotFn (*tile)(const DotKind& kind, int tokens);
  void (*indexed)(const IndexedArgs& args);
  Block16 block16 = {};
};

const KernelSet& KernelsScalar();
#if defined(__x86_64__)
const KernelSet& KernelsAvx2();
const KernelSet& KernelsAvxVnni();
const KernelSet& KernelsAvx512();
const KernelSet& KernelsAmx();
#elif defined(__aarch64__)
const KernelSet& KernelsNeon();
#endif
/// The set for an instruction set that IsSupported() here.
const KernelSet& KernelsFor(Isa isa);

}  // namespace ullage::quant
