/// Untyped arrays of the dense CPU kernels, and what all of these kernels have in common.
///
/// Elements are float, binary16 or bfloat16 (DType::kFloat, kFloat16, kBFloat16); arithmetic is done in
/// float, and results are rounded to nearest even when stored. The kernels allocate nothing: outputs and
/// scratch belong to the caller, who asks the function ...ScratchBytes() beside the kernel for the size
/// (scratch is aligned to 64 bytes and needs no initial content; 0 bytes may be nullptr). Sizes are int64 in
/// elements and may be 0. No function here validates its sizes or types beyond the documented: the callers
/// (graph kernels) did. An unsupported element type throws kUnsupported.
///
/// Thread-safety: a call uses the ThreadTeam it is given, so that calls on the same team must not overlap.
/// Results are the same bits for any number of threads; they may differ between instruction sets.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ullage/dtype.h"

namespace ullage::dense {

inline constexpr size_t kScratchAlignment = 64;

/// Memory to read. Not owned.
struct ConstArray {
  const void* data = nullptr;
  DType dtype = DType::kFloat;
};

/// Memory to write. Not owned.
struct Array {
  void* data = nullptr;
  DType dtype = DType::kFloat;

  operator ConstArray() const { return {data, dtype}; }
};

/// Bytes of one element of a type that these kernels know (4 or 2); throws kUnsupported for others.
size_t ElementBytes(DType dtype);

}  // namespace ullage::dense
