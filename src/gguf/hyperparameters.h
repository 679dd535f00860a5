/// What a GGUF file says about the shape of its decoder, checked and with defaults filled in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "gguf/gguf_file.h"

namespace ullage::gguf {

enum class Architecture { kLlama, kQwen2, kQwen3, kPhi3, kGemma3 };
/// "llama, qwen2, ...": the names that general.architecture may have.
std::string KnownArchitectures();

enum class RopeScaling { kNone, kLinear, kYarn, kLongRope };

/// Parameters of the rotary embedding of one kind of layer.
struct Rope {
  int64_t dimensions = 0;    ///< rotated elements of a head, even; the rest passes unchanged
  bool interleaved = false;  ///< pairs (2i, 2i+1) instead of (i, i + dimensions/2)
  double base = 10000;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1;             ///< linear and yarn: positions are divided by it
  int64_t original_context = 0;  ///< yarn and longrope: context length before scaling
  double attention_factor = 1;   ///< multiplies sines and cosines
  double yarn_extrapolation = 1;
  double yarn_beta_fast = 32;
  double yarn_beta_slow = 1;
  double yarn_log_multiplier = 0;
};

/// Sizes of one model. Head counts are the same in all layers (others are refused).
struct Hyperparameters {
  Architecture architecture = Architecture::kLlama;
  std::string architecture_name;
  int64_t context_length = 0;
  int64_t layers = 0;
  int64_t hidden = 0;  ///< embedding_length
  int64_t feed_forward = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_size = 0;
  int64_t vocab_size = 0;  ///< rows of the embedding table
  float norm_epsilon = 0;
  float attention_scale = 0;    ///< multiplies q.k
  float attention_softcap = 0;  ///< 0: none
  float final_softcap = 0;      ///< 0: none
  float embedding_scale = 1;
  std::vector<int64_t> windows;  ///< per layer: keys that a token sees including itself; -1: all
  Rope rope;  ///< of layers without a window, and of all layers where `local_rope` is false
  bool local_rope = false;
  Rope rope_local;  ///< of layers with a window
};

/// Reads and checks the metadata. kInvalidModel names the key and what was expected; kUnsupported names the
/// architecture or feature (mixture of experts, a rope scaling type, head counts that vary) that is not
/// built.
Hyperparameters ReadHyperparameters(const GgufFile& file);

}  // namespace ullage::gguf
