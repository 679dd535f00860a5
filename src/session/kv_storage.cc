#include "session/kv_storage.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "kernels/kv_rows.h"
#include "placement/host_values.h"

namespace ullage::session {
namespace {

using graph::kNone;
using graph::Node;
using graph::ValueId;

constexpr int64_t kBlock = 32;

ValueId Named(const std::vector<ValueId>& values, const graph::Graph& graph, const std::string& name) {
  for (ValueId v : values)
    if (graph.value(v).name == name) return v;
  return kNone;
}

/// The output that appends to the cache at input `i` of the node, or -1; and whether a kernel takes that type
/// there.
int AppendsTo(const kernels::Registry& registry, const Node& node, size_t i, DType dtype) {
  for (const kernels::KernelDef& def : registry.all()) {
    if (def.op != node.op || def.domain != node.domain) continue;
    if (i >= def.types.size() || !def.types[i].contains(dtype)) continue;
    for (const auto& [in, out] : def.cache_pairs)
      if (static_cast<size_t>(in) == i) return out;
  }
  return -1;
}

/// A shape that is read for anything but the number of rows would change with the width of a row.
bool ReadsRowsOnly(const graph::Graph& graph, const Node& shape) {
  const int64_t start = shape.Int("start", 0), end = shape.has_attr("end") ? shape.Int("end", 0) : 4;
  if (shape.op == "Shape" && start >= 0 && end > 0 && end <= 3) return true;
  if (shape.op != "Shape" || start != 0) return false;
  for (graph::NodeId id : graph.value(shape.output(0)).consumers) {
    const Node& gather = graph.node(id);
    const graph::Constant* index = gather.Is("", "Gather") ? graph.ConstantOf(gather.input(1)) : nullptr;
    if (!index || !index->available()) return false;
    for (int64_t at : index->AsInts())
      if (at < -4 || at == -1 || at >= 3) return false;
  }
  return !graph.IsOutput(shape.output(0));
}

bool IsCache(const graph::Graph& graph, const kernels::Registry& registry, ValueId v) {
  for (graph::NodeId id : graph.value(v).consumers) {
    const Node& node = graph.node(id);
    for (size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i] == v && AppendsTo(registry, node, i, graph.value(v).dtype) >= 0) return true;
  }
  return false;
}

struct Cache {
  ValueId input = kNone, output = kNone;
  StateSpec* state = nullptr;
};

}  // namespace

std::optional<KvStorage> ParseKvStorage(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name == "float32") return KvStorage{DType::kFloat, 0};
  if (name == "float16") return KvStorage{DType::kFloat16, 0};
  if (name == "bfloat16") return KvStorage{DType::kBFloat16, 0};
  if (name == "int8") return KvStorage{DType::kInt8, kBlock};
  if (name == "int8_head") return KvStorage{DType::kInt8, 0};
  Throw(Code::kUsage,
        "option session.kv_type: expected float32, float16, bfloat16, int8 or int8_head, found \"", name,
        "\"");
}

void StoreCaches(graph::Graph& graph, std::vector<StateSpec>& states, const KvStorage& storage,
                 const kernels::Registry& registry) {
  std::vector<Cache> caches;
  std::set<graph::NodeId> nodes;
  const bool codes = storage.dtype == DType::kInt8;
  for (StateSpec& state : states) {
    Cache cache{Named(graph.inputs, graph, state.input), Named(graph.outputs, graph, state.output), &state};
    if (cache.input == kNone || cache.output == kNone || state.max_shape.rank() != 4) continue;
    const graph::Value& value = graph.value(cache.input);
    if (value.dtype == storage.dtype && !codes) continue;
    if (!state.grows && !IsCache(graph, registry, cache.input)) continue;  // a recurrent state
    const auto fail = [&](const auto&... why) {
      Throw(Code::kUnsupported, "the cache ", state.input, " cannot be stored as ", NameOf(storage.dtype),
            ": ", why...);
    };
    if (!kernels::kFloats.contains(value.dtype)) fail("the model makes it ", NameOf(value.dtype));
    bool appended = false;
    const auto check = [&](ValueId v) {
      for (graph::NodeId id : graph.value(v).consumers) {
        const Node& node = graph.node(id);
        if (placement::ReadsOnlyShape(node)) {
          if (codes && !ReadsRowsOnly(graph, node)) fail("node ", node.name, " reads its shape");
          continue;
        }
        for (size_t i = 0; i < node.inputs.size(); ++i) {
          if (node.inputs[i] != v) continue;
          const int out = AppendsTo(registry, node, i, storage.dtype);
          if (out < 0) fail("node ", node.name, " (", node.OpName(), ") reads it as it is");
          appended = appended || node.output(static_cast<size_t>(out)) == cache.output;
          nodes.insert(id);
        }
      }
    };
    check(cache.input);
    if (!appended) fail("no attention appends to it");
    check(cache.output);
    caches.push_back(cache);
  }
  if (codes) {
    // Keys and values of a node are stored alike.
    std::set<ValueId> stored;
    for (const Cache& cache : caches) stored.insert({cache.input, cache.output});
    for (graph::NodeId id : nodes) {
      const Node& node = graph.node(id);
      for (size_t i = 0; i < node.inputs.size(); ++i)
        if (node.inputs[i] != kNone && AppendsTo(registry, node, i, storage.dtype) >= 0 &&
            stored.count(node.inputs[i]) == 0)
          Throw(Code::kUnsupported, "the caches of node ", node.name,
                " cannot be stored as int8: ", graph.value(node.inputs[i]).name,
                " is no key/value cache of the session's");
    }
  }
  for (const Cache& cache : caches) {
    for (ValueId v : {cache.input, cache.output}) graph.value(v).dtype = storage.dtype;
    if (!codes) continue;
    int64_t& width = cache.state->max_shape[3];
    width = kernels::KvRowBytes(width, storage.block > 0 ? storage.block : width);
    for (ValueId v : {cache.input, cache.output})
      if (auto& declared = graph.value(v).declared; declared && declared->size() == 4)
        (*declared)[3] = {width, ""};
  }
  if (!codes) return;
  // Heads of one size share the attribute; a scale per head needs the head's size.
  for (graph::NodeId id : nodes) {
    Node& node = graph.node(id);
    int64_t block = storage.block;
    if (block == 0)
      for (const Cache& cache : caches)
        for (ValueId v : node.inputs)
          if (v == cache.input) block = std::max(block, cache.state->max_shape[3] - 2);
    node.attributes[std::string(kernels::kKvBlockAttribute)] = block;
  }
}

}  // namespace ullage::session
