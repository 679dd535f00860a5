/// ONNX model files to the intermediate representation.
///
/// The protobuf is walked in place over the mapped file (onnx.proto of ONNX 1.23, IR versions 1 to 14 and
/// later ones that only add fields). Nothing here knows any operator except Constant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace ullage::onnx {

struct ImportOptions {
  /// True: a missing or too short external data file fails the import. False (planning): the tensors
  /// concerned become constants without bytes, `absent` naming file and tensor; small ones whose names state
  /// their values (see ValuesFromBuilderName) get those values.
  bool require_data = true;
  /// True: an initializer that is also listed as a graph input stays an input, with the constant as its
  /// default. False: it is a constant only.
  bool keep_default_inputs = false;
  /// Answers whether (domain, op, version) has kernels of its own, so that a model-local function of that
  /// name is left as one node. Empty: no function is known, all are inlined.
  std::function<bool(std::string_view domain, std::string_view op, int version)> is_known = {};
  /// Limit of the nodes that inlining may add, against functions that call one another exponentially.
  size_t max_inlined_nodes = 200'000;
};

/// Reads the model file and builds its graph, verified (graph::Verify).
///
/// Constants. Tensors of 4 KiB and more that are stored raw, in the model file or in external data files, are
/// views into the mapped files, which stay mapped while a constant lives. A VIEW MAY BE MISALIGNED for its
/// type: protobuf and external offsets promise nothing. Smaller tensors and those in typed fields own aligned
/// memory. String tensors hold std::string objects (`size_bytes` = count * sizeof(std::string)). External
/// locations are relative to the folder of `path` as written (not to where a symbolic link leads); absolute
/// ones, `..` and folders that are links leading elsewhere are refused. Sparse tensors are made dense.
/// Constant nodes become constants of the name of their output.
///
/// Names. Unnamed nodes are named after their first output; nodes of an inlined function get the name of the
/// call and "/" in front, and inherit its annotation and metadata. TypeProto attributes become their ONNX
/// type strings
/// ("tensor(float)"). The domain "ai.onnx" is written "". A domain used but not imported counts as version 1.
///
/// Sub-graphs. Every sub-graph of a node lists all captures of the node, in the order of Node::captures,
/// whether it reads them or not. A captured constant is visible as the constant of the capture value, too.
///
/// Throws kInvalidModel naming the file and the place for anything broken, kUnsupported for what has no
/// counterpart here. Memory used is bounded by a small multiple of the file's size and `max_inlined_nodes`.
std::shared_ptr<graph::Graph> ImportOnnx(const std::string& path, const ImportOptions& options = {});

/// The same for a model in memory. `owner` keeps `bytes` alive for the constants that view them (null: the
/// caller does). `name` is used in messages; external data are looked for in `folder`.
std::shared_ptr<graph::Graph> ImportOnnxBytes(std::span<const std::byte> bytes,
                                              std::shared_ptr<const void> owner, const std::string& name,
                                              const std::string& folder, const ImportOptions& options = {});

/// The integers that the name of a value states in the convention of the onnxruntime-genai model builder:
/// "/model/constants/INT64/[0, 1]", ".../INT32/2", ".../TensorProto.INT64/1D/0, 1". Empty when the name
/// states nothing or anything but integers.
std::optional<std::vector<int64_t>> ValuesFromBuilderName(std::string_view value_name);

}  // namespace ullage::onnx
