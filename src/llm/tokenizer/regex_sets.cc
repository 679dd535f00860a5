#include "llm/tokenizer/regex_sets.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cstdio>

#include "core/error.h"
#include "llm/tokenizer/unicode_tables.h"

namespace ullage::llm {
namespace {

void AppendHex(std::string& out, char32_t c) {
  char buffer[16];
  std::snprintf(buffer, sizeof(buffer), "\\x{%x}", static_cast<unsigned>(c));
  out += buffer;
}

struct LongName {
  std::string_view name, category;
};
constexpr LongName kLongNames[] = {
    {"letter", "L"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"},
};
constexpr std::string_view kCategories =
    " L Lu Ll Lt Lm Lo M Mn Mc Me N Nd Nl No P Pc Pd Ps Pe Pi Pf Po S Sm Sc Sk So Z Zs Zl Zp C Cc Cf Co Cn ";

bool PcreKnows(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

}  // namespace

void AppendClassCharacter(std::string& out, char32_t c) {
  const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  if (plain) {
    out += static_cast<char>(c);
  } else if (c > ' ' && c < 0x7F) {
    out += '\\';
    out += static_cast<char>(c);
  } else {
    AppendHex(out, c);
  }
}

std::string SpaceItems() {
  return "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}"
         "\\x{3000}";
}

std::string WordItems(bool in_class) {
  std::string out = in_class ? "\\p{Alphabetic}" : "\\p{Alphabetic}\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}";
  for (const char* category : {"L", "M", "Nd", "Pc"}) out += CategoryItems(category);
  return out;
}

std::string CategoryItems(std::string_view category) {
  std::string out = "\\p{" + std::string(category) + "}";
  for (size_t i = 0; i < kNewerCategoriesSize; ++i) {
    const CategoryRange& newer = kNewerCategories[i];
    if (!std::string_view(newer.name).starts_with(category)) continue;
    AppendHex(out, newer.range.first);
    if (newer.range.last == newer.range.first) continue;
    out += '-';
    AppendHex(out, newer.range.last);
  }
  return out;
}

std::string PosixItems(std::string_view name) {
  if (name == "alpha") return "\\p{Alphabetic}" + CategoryItems("L");
  if (name == "digit") return CategoryItems("Nd");
  if (name == "alnum") return "\\p{Alphabetic}" + CategoryItems("L") + CategoryItems("Nd");
  if (name == "space") return SpaceItems();
  if (name == "upper") return "\\p{Uppercase}" + CategoryItems("Lu");
  if (name == "lower") return "\\p{Lowercase}" + CategoryItems("Ll");
  if (name == "punct") return CategoryItems("P") + CategoryItems("S");
  if (name == "word") return WordItems(true);
  if (name == "cntrl") return "\\p{Cc}";
  if (name == "xdigit") return "0-9A-Fa-f";
  if (name == "blank") return "\\x{9}\\p{Zs}";
  if (name == "ascii") return "\\x{0}-\\x{7f}";
  if (name == "graph" || name == "print") {
    std::string out;
    for (const char* category : {"L", "M", "N", "P", "S", "Cf", "Co"}) out += CategoryItems(category);
    if (name == "print") out += "\\p{Zs}";
    return out;
  }
  return "";
}

std::string PropertyItems(std::string_view name) {
  std::string key;
  for (char c : name) {
    if (c == ' ' || c == '-' || c == '_') continue;
    const bool upper = c >= 'A' && c <= 'Z';
    if (!upper && !(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9')) {
      Throw(Code::kUnsupported, "unknown character property '", name, "'");
    }
    key += static_cast<char>(upper ? c + 32 : c);
  }
  if (key.size() == 1 || key.size() == 2) {
    std::string category = key;
    category[0] = static_cast<char>(category[0] - 32);
    if (kCategories.find(" " + category + " ") != std::string_view::npos) return CategoryItems(category);
  }
  for (const LongName& entry : kLongNames) {
    if (entry.name == key) return CategoryItems(entry.category);
  }
  if (key == "any") return "\\x{0}-\\x{10ffff}";
  if (key == "alphabetic") return PosixItems("alpha");
  if (key == "whitespace") return SpaceItems();
  if (key == "uppercase") return PosixItems("upper");
  if (key == "lowercase") return PosixItems("lower");
  if (std::string posix = PosixItems(key); !posix.empty()) return posix;
  // In PCRE2 a bare script name includes the script extensions; Oniguruma means the script alone.
  if (std::string script = "\\p{sc:" + key + "}"; PcreKnows(script)) {
    if (key == "han") script += "\\x{2b739}\\x{2ebf0}-\\x{2ee5d}\\x{31350}-\\x{323af}";
    return script;
  }
  if (std::string binary = "\\p{" + key + "}"; PcreKnows(binary)) return binary;
  Throw(Code::kUnsupported, "unknown character property '", name, "'");
}

}  // namespace ullage::llm
