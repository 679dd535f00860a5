// tokenizer_check tokenize|detokenize MODEL --batch FILE
//
// The batch modes of `ullage tokenize` and `ullage detokenize` by themselves.
#include <cstring>
#include <fstream>
#include <iostream>

#include "llm/tokenizer/tokenize_service.h"
#include "ullage/error.h"

int main(int argc, char** argv) {
  using namespace ullage::llm;
  const bool tokenize = argc > 1 && std::strcmp(argv[1], "tokenize") == 0;
  const bool detokenize = argc > 1 && std::strcmp(argv[1], "detokenize") == 0;
  const char *model = nullptr, *batch = nullptr;
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "--batch") == 0 && i + 1 < argc) {
      batch = argv[++i];
    } else if (std::strcmp(argv[i], "--json") != 0) {
      model = argv[i];
    }
  }
  if ((!tokenize && !detokenize) || model == nullptr || batch == nullptr) {
    std::cerr << "usage: tokenizer_check tokenize|detokenize MODEL --batch FILE\n";
    return 2;
  }
  try {
    const auto tokenizer = OpenTokenizer(model);
    std::ifstream in(batch, std::ios::binary);
    if (!in) {
      std::cerr << batch << ": cannot be opened\n";
      return 3;
    }
    AnswerLines(in, std::cout, [&](std::string_view line) {
      return tokenize ? AnswerTokenize(*tokenizer, line) : AnswerDetokenize(*tokenizer, line);
    });
    return 0;
  } catch (const ullage::Error& e) {
    std::cerr << e.what() << "\n";
    return ullage::ExitStatus(e.code());
  }
}
