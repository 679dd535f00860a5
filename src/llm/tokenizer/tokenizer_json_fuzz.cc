// Reads the input as a tokenizer.json, or as a SentencePiece model if it begins with the tag of one; whatever
// loads must encode and decode a short text, and decode the same in one go and token by token.
#include <cstdlib>

#include "llm/tokenizer/tokenizer.h"
#include "ullage/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ullage::llm;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = bytes.starts_with('\n') ? ParseSentencePiece(bytes) : ParseTokenizerJson(bytes);
    // A part of the input is text, too, so that a mutation can reach tokens of its vocabulary.
    std::string text = "Hello  wörld's <s>1234\n\u65E5\u672C\u2581 x\u0301 \xFF\xF0\x9F\x91\x8D";
    text += bytes.substr(size / 2, 64);
    for (const bool special : {true, false}) {
      const std::vector<TokenId> ids = tokenizer->Encode(text, special);
      const std::string decoded = tokenizer->Decode(ids, special);
      StreamDecoder stream(tokenizer, special);
      std::string streamed;
      for (const TokenId id : ids) streamed += stream.Push(id);
      streamed += stream.Finish();
      if (streamed != decoded) std::abort();
    }
    const PairEncoding pair = tokenizer->EncodePair("a b", text);
    if (pair.ids.size() != pair.type_ids.size()) std::abort();
  } catch (const ullage::Error&) {
  }
  return 0;
}
