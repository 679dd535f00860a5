/// The text side of a model: its tokenizer and its chat templates, from its folder or its GGUF metadata.
#pragma once

#include <memory>

#include "llm/model_source.h"
#include "llm/template/chat_prompt.h"
#include "llm/tokenizer/tokenizer.h"

namespace ullage::llm {

/// Null when the model has none. Throws kInvalidModel or kUnsupported, naming the file, for one that cannot
/// be used.
std::shared_ptr<const Tokenizer> LoadTokenizer(const ModelSource& source);

/// The chat templates and special tokens; without templates when the model has none. Throws kInvalidModel for
/// broken files.
ChatSource LoadChatSource(const ModelSource& source);

}  // namespace ullage::llm
