/// A language model's graph in a session: tokens in, logits out, caches in between.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "llm/model_source.h"
#include "session/session.h"

namespace ullage::llm {

inline constexpr int64_t kDefaultContext = 4096;
inline constexpr int64_t kDefaultChunk = 512;
/// Tokens that windowed caches keep beyond their window, so that a conversation can go back a little.
inline constexpr int64_t kWindowReserve = 256;
inline constexpr int64_t kLargestContext = -1;

struct DecoderOptions {
  OptionBag options;
  int threads = 0;
  /// Most tokens that the caches hold; 0: the model's context, at most kDefaultContext; kLargestContext: the
  /// model's context.
  int64_t context = 0;
  /// Most tokens of a prompt per Run; 0: kDefaultChunk, at most the context.
  int64_t chunk = 0;
  /// Logits for every token of a Run rather than for the last only.
  bool all_logits = false;
  bool plan_only = false;
  std::optional<int64_t> cpu_limit;
  /// Memory of the caller's to plan with the session's.
  std::vector<session::ExtraMemory> extra;
};

/// Decodes one sequence. Not thread-safe. After Create(), Feed() allocates nothing.
class Decoder {
 public:
  /// Recognises a decoder by its inputs and outputs. Throws kUnsupported, naming what is missing, for other
  /// graphs (no logits, no token ids, inputs that nothing can feed).
  static std::unique_ptr<Decoder> Create(const ModelSource& source, const DecoderOptions& options);

  /// What the same decoder would take with other bounds, none above those it was made with: planned over the
  /// graph as it is, so that the file is not read again. For decoders that were made with plan_only. Where
  /// all prompts are fed token by token (chunk 1), passes can do more with a graph that is read for that, and
  /// its plan may differ by a little.
  memory::TagBytes Planned(int64_t context, int64_t chunk) const;
  /// The chunk of a decoder with this context and the chunk that the options asked for.
  int64_t ChunkFor(int64_t context) const;

  /// Runs the tokens through the model, in chunks, behind those that the caches hold. Throws kInvalidInput
  /// when they do not fit in the context (naming both numbers) or an id is not in the vocabulary; then
  /// nothing has changed. On kInterrupted the tokens of the chunks that were done stay.
  void Feed(std::span<const int32_t> ids, const std::atomic<bool>* stop = nullptr);
  /// Logits of the last token that was fed: vocabulary() floats, valid until the next call.
  std::span<const float> logits();
  /// Logits of all tokens of the last Feed() of at most chunk() tokens (all_logits): row-major, as floats.
  void CopyLogits(float* out);
  int64_t logit_rows() const;

  /// Tokens in the caches.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  /// Keeps the first `count` tokens if the caches allow it, else none (recurrent states cannot go back,
  /// windowed caches by kWindowReserve tokens at least). Returns how many were kept.
  int64_t Rewind(int64_t count);

  int64_t context() const { return context_; }
  int64_t chunk() const { return chunk_; }
  int64_t vocabulary() const { return vocabulary_; }
  session::Session& session() { return *session_; }
  const session::Session& session() const { return *session_; }

 private:
  enum class Role {
    kIds,
    kMask,
    kPositions,
    kState,
    kLongContext,
    kCacheBranch,
    kLogitsToKeep,
    kPast,
    kTotal,
    kSequence
  };
  struct Input {
    Role role = Role::kIds;
    DType dtype = DType::kInt64;
    bool fixed_mask = false;
    int64_t mask_length = 0;
    int rank = 2;
    std::vector<std::byte> data;
  };
  /// A cache that holds the last tokens only.
  struct Window {
    std::string input;
    int64_t sees = 0;  ///< tokens, the query's own included
    int64_t keep = 0;
    int64_t capacity = 0;
    int64_t FirstToken(int64_t tokens) const;
  };
  /// How the largest shape of a state follows from the context.
  struct StateShape {
    Shape fixed;
    int rows_axis = -1;  ///< whose size follows from the context; -1: none
    int64_t window = 0;  ///< > 0: of a cache that keeps no more than a window, and room to slide it
    Shape For(int64_t context) const;
  };

  Decoder() = default;
  void Recognise(const ModelSource& source, const graph::Graph& graph);
  /// Lowers context and chunk to what session.max_shape_override says of the inputs.
  void KeepLimits(const graph::Graph& graph, const TensorNames& names, const std::string& text);
  /// Bytes of an input's data.
  static size_t InputBytes(const Input& in, int64_t context, int64_t chunk);
  session::SessionSpec Spec(std::shared_ptr<graph::Graph> graph, int64_t context, int64_t chunk) const;
  void FindLongContextSwitch(graph::Graph& graph);
  void WindowCaches(graph::Graph& graph) const;
  void Run(std::span<const int32_t> ids, const std::atomic<bool>* stop);
  std::vector<ops::ValueFacts> Facts(const graph::Graph& graph, ops::SymbolTable& table, int64_t context,
                                     int64_t most_new) const;

  std::unique_ptr<session::Session> session_;
  session::Execution execution_;
  std::vector<Input> inputs_;
  DecoderOptions options_;
  std::string model_name_, model_folder_;
  std::shared_ptr<graph::Graph> graph_;
  bool gguf_ = false;
  int64_t chunk_limit_ = INT64_MAX;         // of session.max_shape_override
  bool whole_prompts_ = false;              // unless a chunk is asked for
  std::vector<session::StateSpec> states_;  // max_shape: for context_
  std::vector<StateShape> state_shapes_;
  std::vector<Window> windows_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> replay_;
  std::vector<float> row_;
  size_t logits_index_ = 0;
  std::string logits_name_;
  int64_t context_ = 0, chunk_ = 0, vocabulary_ = 0;
  int64_t long_threshold_ = 0;  // > 0: contexts beyond it use other position tables
  bool long_context_ = false;
  bool can_rewind_ = true;
  bool single_profile_ = false;
};

}  // namespace ullage::llm
