/// The requests of `ullage tokenize --batch` and `ullage detokenize --batch`: one JSON object a line, one
/// answer a line.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "llm/tokenizer/tokenizer.h"

namespace ullage::llm {

/// {"text":"…","special":true,"pair":"…"} -> {"ids":[…]}, with "type_ids":[…] for pairs; `special` defaults
/// to true. A failure is {"error":{"code":"…","message":"…"}}. Bytes that are not UTF-8 are read as U+FFFD.
/// Never throws an Error.
std::string AnswerTokenize(const Tokenizer& tokenizer, std::string_view request);
/// {"ids":[…],"skip_special":false} -> {"text":"…"}.
std::string AnswerDetokenize(const Tokenizer& tokenizer, std::string_view request);
/// {"ids":[…]} and {"text":"…"}, for one-shot commands.
std::string IdsAsJson(const std::vector<TokenId>& ids);
/// Not ASCII is escaped, so that no reader takes U+2028 or the like for the end of a line.
std::string TextAsJson(std::string_view text);

/// A tokenizer for MODEL of the command line: a folder, a tokenizer.json or a SentencePiece model.
std::shared_ptr<const Tokenizer> OpenTokenizer(const std::string& model);

/// Reads requests line by line (empty lines are passed over) and writes answers until `in` ends.
void AnswerLines(std::istream& in, std::ostream& out,
                 const std::function<std::string(std::string_view)>& answer);

}  // namespace ullage::llm
