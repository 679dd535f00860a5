/// The pre-tokenizers that GGUF files name in tokenizer.ggml.pre.
#pragma once

#include <string_view>
#include <vector>

namespace ullage::llm {

struct GgufPreTokenizer {
  std::vector<const char*> patterns;  ///< each cuts the pieces of the one before; matches and gaps are pieces
  bool nfc = false;                   ///< the text is brought to NFC first
  bool ignore_merges = false;         ///< a piece that is a token is that token
  bool add_bos = false;               ///< where the file does not say
};

/// Throws Error(kUnsupported) naming an unknown one. An empty name is "default".
GgufPreTokenizer FindGgufPreTokenizer(std::string_view name);

}  // namespace ullage::llm
