#include "llm/tokenizer/gguf_pre.h"

#include <algorithm>

#include "core/error.h"
#include "llm/tokenizer/pre_tokenizer.h"

namespace ullage::llm {
namespace {

constexpr char kDigit[] = "\\p{N}";
constexpr char kThreeDigits[] = "\\p{N}{1,3}";
constexpr char kLlama3[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr char kQwen2[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr char kQwen35[] =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| "
    "?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr char kO200k[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'"
    "ve|'m|'ll|'d)?|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'"
    "ve|'m|'ll|'d)?|"
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr char kTekken[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}|"
    " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr char kBloom[] = " ?[^(\\s|.,!?…。，、।۔،)]+";
constexpr char kLineBreak[] = "[\\r\\n]";
constexpr char kCjkBlocks[] = "[一-龥ࠀ-一가-퟿]+";
constexpr char kHanKana[] = "[一-龥぀-ゟ゠-ヿ]+";
constexpr char kDeepSeekV3Words[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
    " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
// Latin, Greek, Cyrillic, Armenian and other letters with case, as DeepSeek's first models list them.
// clang-format off
constexpr char kDeepSeekLlmWords[] =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-"
    "ᲺᲽ-"
    "Ჿᴀ-"
    "ᴫᵫ-"
    "ᵷᵹ-"
    "ᶚḀ-"
    "ἕἘ-"
    "Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄ"
    "ῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-"
    "ꞎꭰ-"
    "ꮿﬀ-"
    "ﬆﬓ-"
    "ﬗＡ-"
    "Ｚａ-"
    "ｚ𐐀-"
    "𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
// clang-format on
constexpr char kFalconPunctuation[] = "[\\p{P}\\$\\+<=>\\^~\\|`]+";
constexpr char kDefaultPunctuation[] = "[\\p{P}\\$\\+<=>\\^~\\|]+";
constexpr char kAsciiTriple[] = "[0-9][0-9][0-9]";
constexpr char kBailing[] =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|"
    "\\s+(?!\\S)|\\s+";

struct Family {
  std::vector<std::string_view> names;
  GgufPreTokenizer pre;
};

const std::vector<Family>& Families() {
  static const std::vector<Family> kFamilies = {
      {{"default"}, {{kDefaultPunctuation, kGpt2Pattern, "\\p{N}+", kAsciiTriple}}},
      {{"gpt-2",           "gpt2",         "phi-2",       "mpt",     "olmo",    "jais",       "trillion",
        "granite-docling", "modern-bert",  "roberta-bpe", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es",
        "jina-v2-de",      "jina-v2-code", "gigachat",    "exaone4", "a.x-4.0", "mellum"},
       {{kGpt2Pattern}}},
      {{"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"},
       {{kLlama3}, false, true, true}},
      {{"dbrx", "smaug-bpe", "smaug", "chatglm-bpe", "glm4", "chatglm4", "chatglm"}, {{kLlama3}}},
      {{"qwen2", "stablelm2"}, {{kQwen2}, true}},
      {{"deepseek-r1-qwen", "megrez", "hunyuan", "solar-open"}, {{kQwen2}}},
      {{"qwen35"}, {{kQwen35}, true}},
      {{"gpt-4o", "llama4", "kanana2"}, {{kO200k}, false, true}},
      {{"tekken"}, {{kTekken}, false, true, true}},
      {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"},
       {{kDigit, kGpt2Pattern}}},
      {{"deepseek-llm"},
       {{kLineBreak, kDeepSeekLlmWords, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+\\z", kCjkBlocks,
         "\\p{N}+"}}},
      {{"deepseek-coder"}, {{kLineBreak, "\\s?\\p{L}+", "\\s?\\p{P}+", kCjkBlocks, kDigit}}},
      {{"deepseek-v3", "hunyuan-dense"}, {{kThreeDigits, kHanKana, kDeepSeekV3Words}}},
      {{"falcon"}, {{kFalconPunctuation, kGpt2Pattern, kAsciiTriple}}},
      {{"poro-chat", "poro", "bloom", "gpt3-finnish"}, {{kBloom}}},
      {{"viking"}, {{kBloom, kDigit}}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, {{kBailing}}},
  };
  return kFamilies;
}

}  // namespace

GgufPreTokenizer FindGgufPreTokenizer(std::string_view name) {
  if (name.empty()) name = "default";
  for (const Family& family : Families()) {
    if (std::find(family.names.begin(), family.names.end(), name) != family.names.end()) return family.pre;
  }
  Throw(Code::kUnsupported, "GGUF pre-tokenizer '", name, "' (tokenizer.ggml.pre) is not supported");
}

}  // namespace ullage::llm
