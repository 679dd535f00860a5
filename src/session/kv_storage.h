/// The type in which a session keeps key/value caches (option session.kv_type).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "kernels/registry.h"
#include "session/session.h"

namespace ullage::session {

struct KvStorage {
  DType dtype = DType::kFloat16;
  /// kInt8: elements of a row with one scale; 0: the whole row of a head.
  int64_t block = 0;
};

/// "float32", "float16", "bfloat16", "int8" (a scale per 32 elements), "int8_head" (a scale per row of a
/// head); nothing for "". Throws kUsage for anything else.
std::optional<KvStorage> ParseKvStorage(const std::string& name);

/// Gives all key/value caches among the states (float, rank 4) that type: graph inputs, outputs, and the
/// nodes that append to them; and, for int8, the last dimension of `states`. Throws kUnsupported naming the
/// first cache that cannot be stored so, and why; then nothing has changed.
void StoreCaches(graph::Graph& graph, std::vector<StateSpec>& states, const KvStorage& storage,
                 const kernels::Registry& registry);

}  // namespace ullage::session
