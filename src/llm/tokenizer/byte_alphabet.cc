#include "llm/tokenizer/byte_alphabet.h"

#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

constexpr char32_t kLimit = 0x144;

struct Tables {
  std::array<char16_t, 256> character;
  std::array<int16_t, kLimit> byte;
  std::array<std::array<char, 2>, 256> utf8;
  std::array<uint8_t, 256> length;
};

Tables MakeTables() {
  Tables t;
  t.byte.fill(-1);
  char16_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool self = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const auto at = static_cast<size_t>(b);
    t.character[at] = self ? static_cast<char16_t>(b) : next++;
    t.byte[t.character[at]] = static_cast<int16_t>(b);
    std::string text;
    AppendUtf8(text, t.character[at]);
    t.length[at] = static_cast<uint8_t>(text.size());
    t.utf8[at] = {text[0], text.size() > 1 ? text[1] : '\0'};
  }
  return t;
}

const Tables& GetTables() {
  static const Tables kTables = MakeTables();
  return kTables;
}

}  // namespace

const std::array<char16_t, 256>& ByteAlphabet() {
  return GetTables().character;
}

int ByteOfCharacter(char32_t c) {
  return c < kLimit ? GetTables().byte[c] : -1;
}

void AppendByteCharacters(std::string& out, std::string_view bytes) {
  const Tables& t = GetTables();
  const size_t start = out.size();
  out.resize(start + 2 * bytes.size());
  char* p = out.data() + start;
  for (char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    p[0] = t.utf8[b][0];
    p[1] = t.utf8[b][1];
    p += t.length[b];
  }
  out.resize(static_cast<size_t>(p - out.data()));
}

}  // namespace ullage::llm
