// template_check template [MODEL] [--template FILE] --batch FILE | --messages FILE
//
// `ullage template` by itself.
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "llm/template/template_service.h"
#include "ullage/error.h"

namespace {

std::string ReadAll(const char* path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw ullage::Error(ullage::Code::kInvalidInput, std::string(path) + ": cannot be opened");
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace ullage::llm;
  const char *model = nullptr, *batch = nullptr, *file = nullptr, *messages = nullptr;
  for (int i = 2; i < argc; ++i) {
    if (std::strcmp(argv[i], "--batch") == 0 && i + 1 < argc) {
      batch = argv[++i];
    } else if (std::strcmp(argv[i], "--template") == 0 && i + 1 < argc) {
      file = argv[++i];
    } else if (std::strcmp(argv[i], "--messages") == 0 && i + 1 < argc) {
      messages = argv[++i];
    } else if (std::strcmp(argv[i], "--json") != 0) {
      model = argv[i];
    }
  }
  if (argc < 2 || std::strcmp(argv[1], "template") != 0 || (batch == nullptr) == (messages == nullptr)) {
    std::cerr << "usage: template_check template [MODEL] [--template FILE] --batch FILE | --messages FILE\n";
    return 2;
  }
  try {
    ChatSource source = model != nullptr ? ReadChatSource(model) : ChatSource();
    if (file != nullptr) source = MakeChatSource(file, ReadAll(file), source.special_tokens);
    if (messages != nullptr) {
      std::cout << AnswerTemplate(source, ReadAll(messages)) << "\n";
      return 0;
    }
    std::istringstream in(ReadAll(batch));
    AnswerTemplateLines(source, in, std::cout);
    return 0;
  } catch (const ullage::Error& e) {
    std::cerr << e.what() << "\n";
    return ullage::ExitStatus(e.code());
  }
}
