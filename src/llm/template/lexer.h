/// Cuts a template into tokens, as jinja2 does with trim_blocks and lstrip_blocks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ullage::llm::jinja {

enum class TokenKind : uint8_t {
  kData,
  kBlockBegin,
  kBlockEnd,
  kVariableBegin,
  kVariableEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  ///< data, name, operator, or a string's value
  int64_t integer = 0;
  double real = 0;
};

/// `source` is well-formed UTF-8. Throws kInvalidInput or kUnsupported; `line` is set to where it stands. The
/// last token is kEnd.
std::vector<Token> Tokenize(std::string_view source, int& line);

/// How a message names the token.
std::string Describe(const Token& token);

}  // namespace ullage::llm::jinja
