/// What sessions and attention kernels agree on about the rows of key/value caches.
#pragma once

#include <cstdint>
#include <string_view>

namespace ullage::kernels {

/// Attribute of attention nodes whose caches are kept as int8 rows with scales of their own, whatever type
/// the model gives them: how many elements of a row share one scale. Absent or 0: the caches are as the model
/// says. Present: past and present are int8 [B, heads, rows, KvRowBytes(head size, block)].
inline constexpr std::string_view kKvBlockAttribute = "kv_block";

/// A row: one code per element, then one float16 scale per block.
inline int64_t KvRowBytes(int64_t size, int64_t block) {
  return size + 2 * ((size + block - 1) / block);
}

/// Attribute of com.microsoft:GroupQueryAttention with sliding_window_cache: rows that stay when room is
/// made, at least local_window_size, which is also the default. More than the window sees lets a runner go
/// back.
inline constexpr std::string_view kWindowKeepAttribute = "window_keep";

/// Tokens that a windowed cache of `capacity` rows holds after `tokens` of them, in rows [0, n): the last
/// ones, at least `keep` of them when there were as many. Depends on nothing else, however the tokens were
/// cut into Runs.
inline int64_t WindowedRows(int64_t tokens, int64_t capacity, int64_t keep) {
  if (tokens <= capacity) return tokens;
  const int64_t step = capacity - keep + 1;
  return tokens - step * ((tokens - capacity + step - 1) / step);
}

}  // namespace ullage::kernels
