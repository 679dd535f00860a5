/// What a GGUF file says about its tokenizer, its chat templates and itself, as plain data. Nothing is
/// interpreted here: the meaning of `model` and `pre` is the tokenizer's business.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf_file.h"

namespace ullage::gguf {

/// Strings are views into `file`.
struct TokenizerData {
  std::shared_ptr<const GgufFile> file;

  std::string_view model;  ///< "gpt2" (byte-level BPE), "llama" (SentencePiece), "bert", "t5"...
  std::string_view pre;    ///< name of the pre-tokenizer; empty when the file has none
  std::vector<std::string_view> tokens;
  std::vector<float> scores;             ///< empty, or one per token
  std::vector<int32_t> token_types;      ///< empty, or one per token: 1 normal, 2 unknown, 3 control, 4 user
                                         ///< defined, 5 unused, 6 byte
  std::vector<std::string_view> merges;  ///< "left right", best first

  // Token ids, each inside `tokens`. An id of -1 means none; so does, except for bos, eos, eot and eom, an id
  // beyond the vocabulary.
  std::optional<int32_t> bos, eos, eot, eom, unknown, separator, padding, cls, mask;
  std::optional<int32_t> fim_prefix, fim_suffix, fim_middle;
  // Absent: the default of the tokenizer model.
  std::optional<bool> add_bos, add_eos, add_sep, add_space_prefix, remove_extra_whitespaces;
  std::string_view precompiled_charsmap;  ///< raw bytes; empty when the file has none

  /// Ids that end a turn: eos, eot, eom, and special tokens whose text is a known end-of-turn marker. Sorted,
  /// each once.
  std::vector<int32_t> stop_ids;

  std::string_view chat_template;  ///< the default one; empty when the file has none
  std::map<std::string, std::string_view, std::less<>> named_templates;  ///< "tool_use", "rag"...
};

/// kInvalidModel when the keys contradict each other (names the key, expected and found), or when there are
/// no tokens.
TokenizerData ReadTokenizerData(const std::shared_ptr<const GgufFile>& file);

/// general.* keys for people.
struct ModelDescription {
  std::string name;
  std::string architecture;
  std::string size_label;
  std::string license;
  std::string file_type;  ///< "Q4_1", "Q4_K_M"; "unknown (N)" for a number beyond the list; empty when absent
};
ModelDescription ReadDescription(const GgufFile& file);

}  // namespace ullage::gguf
