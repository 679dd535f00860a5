/// Import of a GGUF file into the graph that an onnxruntime-genai decoder folder has: same inputs and
/// outputs, same node names, same operators, except that weights stay in their blocks.
///
/// Inputs: input_ids int64 [batch_size, sequence_length], attention_mask int64 [batch_size,
/// total_sequence_length], past_key_values.N.key and .value [batch_size, Nkv, past_sequence_length, H].
/// Outputs: logits float32 [batch_size, sequence_length, V], present.N.key and .value [batch_size, Nkv,
/// total_sequence_length, H]. Activations are float32.
///
/// Operators of domain "ullage" that only this importer makes:
/// - Linear: A [.., K] float, W -> Y [.., N] of A's type, Y = A * W^T. Attributes K, N, format. format
/// "ggml": W is a
///   constant in blocks (kUInt8, logical shape [N, K], block_type set); "dense_nk": W is float32, float16 or
///   bfloat16 [N, K].
/// - BlockGather: data (a constant in blocks, logical shape [V, D]), indices int64 -> float32 [indices.., D].
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "gguf/gguf_file.h"
#include "graph/graph.h"

namespace ullage::gguf {

struct ImportOptions {
  /// Rows of the sine and cosine tables: the longest context that will be run. 0: the model's context length.
  /// Chooses between the short and the long factors of LongRoPE.
  int64_t max_positions = 0;
  /// false: weights may be missing (GgufFile::Open), none is read, and what would be computed (rotary tables,
  /// converted vectors) are constants without contents.
  bool require_data = true;
  /// Type of the past and present tensors: kFloat16 or kFloat.
  DType kv_dtype = DType::kFloat16;
};

/// The decoder graph. Constants are views into the file, which stays open as long as they live.
///
/// Every tensor of the file is used or named in an error; so is every tensor that is missing or has a wrong
/// shape (kInvalidModel). Architectures and features that are not built are refused by name (kUnsupported).
std::shared_ptr<graph::Graph> ImportGguf(const std::shared_ptr<const GgufFile>& file,
                                         const ImportOptions& options = {});
std::shared_ptr<graph::Graph> ImportGguf(const std::string& path, const ImportOptions& options = {});

/// Gives the rotary tables of an imported graph that many rows, without contents: planning with another
/// context.
void SetPositions(graph::Graph& graph, int64_t positions);

}  // namespace ullage::gguf
