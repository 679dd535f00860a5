/// What MODEL on the command line stands for: a folder, an .onnx or .gguf file, or a name in the model store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"
#include "graph/graph.h"

namespace ullage::llm {

/// Defaults for choosing tokens, as the model's own files state them.
struct GenerationDefaults {
  bool do_sample = false;
  float temperature = 1;
  int64_t top_k = 50;
  float top_p = 1;
  float min_p = 0;
  float repetition_penalty = 1;
};

/// Names of graph inputs and outputs. Patterns hold one "%d" for the layer.
struct TensorNames {
  std::string input_ids = "input_ids";
  std::string inputs_embeds = "inputs_embeds";
  std::string attention_mask = "attention_mask";
  std::string position_ids = "position_ids";
  std::string past_key = "past_key_values.%d.key";
  std::string past_value = "past_key_values.%d.value";
  std::string logits = "logits";
  std::string present_key = "present.%d.key";
  std::string present_value = "present.%d.value";
};

/// A model that was found, with everything its configuration files say; no weight is read yet.
struct ModelSource {
  enum class Kind { kGenAi, kHuggingFace, kOnnx, kGguf };
  Kind kind = Kind::kOnnx;
  std::string name;                            ///< as the user wrote it
  std::string folder;                          ///< of the model's files
  std::string file;                            ///< the graph: .onnx or .gguf
  std::shared_ptr<const gguf::GgufFile> gguf;  ///< opened header, for kGguf

  std::string type;            ///< "llama", "qwen2"…; empty when unknown
  int64_t context_length = 0;  ///< 0: the files do not say
  int64_t head_size = 0;
  int64_t kv_heads = 0;
  int64_t sliding_window = 0;
  std::vector<std::string> variants;  ///< other graphs of a Hugging Face folder, as FindModel() takes them
  std::vector<int32_t> stop_ids;      ///< the union over all files, each once
  GenerationDefaults defaults;
  TensorNames names;
};

/// Finds the model. `variant` chooses among model*.onnx of a Hugging Face folder ("q4f16"); empty: the
/// preferred one for the CPU. Throws kUsage when nothing is there, kInvalidModel for broken configuration
/// files, kUnsupported for folders of a kind that cannot run. With `plan_only` the weights may be missing.
ModelSource FindModel(const std::string& model, const std::string& variant, bool plan_only);

/// The model store: $ULLAGE_HOME, or ~/.ullage/models.
std::string ModelStore();

/// Reads the graph. `max_positions` bounds position tables that are computed on import (0: the model's
/// context).
std::shared_ptr<graph::Graph> LoadGraph(const ModelSource& source, bool plan_only, int64_t max_positions);

}  // namespace ullage::llm
