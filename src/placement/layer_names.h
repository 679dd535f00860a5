/// Layers in names: "/model/layers.3/attn/q_proj/MatMul", "transformer.h.3.mlp.c_fc.weight", "blk.3.attn_q".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace ullage::placement {

/// The outermost layer that a name states.
struct LayerName {
  int64_t number = 0;
  size_t begin = 0;         ///< of the word before the number
  size_t number_begin = 0;  ///< the number is [number_begin, number_end)
  size_t number_end = 0;

  /// What names the stack: everything before the number ("/model/layers.").
  std::string_view stack(std::string_view name) const { return name.substr(0, number_begin); }
};

/// A word that means a layer (`layers`, `layer`, `h`, `blk`, `block`, `blocks`, also as the end of a longer
/// word), a separator or nothing, a number.
std::optional<LayerName> FindLayer(std::string_view name);

/// "m.model.layers.0.self_attn" as names of TorchScript exports write it: "/m/model/layers.0/self_attn/".
std::string PathOfModule(std::string_view dotted);

/// Where the exporter's metadata say that a node belongs, as a path ("/m/model/layers.0/self_attn/view"),
/// then as the dotted module ("m.model.layers.0.self_attn"); empty without such metadata. Sources: torch's
/// `pkg.torch.onnx.name_scopes` (a Python list of strings) and `namespace` ("a: Class/a.b: Class/op: kind").
std::vector<std::string> ScopesOfMetadata(const graph::Node& node);

/// The name has no path in it ("Attention_0", "node_MatMul_226"): it tells nothing about where it belongs.
bool IsScopeless(std::string_view name);

}  // namespace ullage::placement
