/// Moves of strided blocks of elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/thread_team.h"
#include "ullage/tensor.h"

namespace ullage::cpu {

/// out[i0,i1,…] = in[sum of i_d * stride_d] for a dense `out` of `shape`; strides in elements of `element`
/// bytes, may be 0 or negative. Adjacent dimensions are merged and rows that lie densely are copied whole.
void CopyStrided(ThreadTeam& team, const std::byte* in, std::byte* out, const Shape& shape,
                 const int64_t* strides, size_t element);

}  // namespace ullage::cpu
