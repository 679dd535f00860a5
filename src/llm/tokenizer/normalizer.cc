#include "llm/tokenizer/normalizer.h"

#include <optional>
#include <utility>
#include <vector>

#include "llm/tokenizer/byte_alphabet.h"
#include "llm/tokenizer/json_fields.h"
#include "llm/tokenizer/regex.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

constexpr std::string_view kWhere = "tokenizer.json: normalizer";

/// Calls fn(code point, text of it, out) for each character; what fn leaves out at the beginning is no longer
/// there.
template <class Fn>
void MapCharacters(NormalText& t, const Fn& fn) {
  std::string out;
  out.reserve(t.text.size());
  bool first = true;
  for (size_t pos = 0; pos < t.text.size();) {
    const size_t start = pos;
    const char32_t c = NextCodePoint(t.text, pos);
    fn(c, std::string_view(t.text).substr(start, pos - start), out);
    if (std::exchange(first, false) && out.empty()) t.from_start = false;
  }
  t.text = std::move(out);
}

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(std::vector<std::unique_ptr<const Normalizer>> parts)
      : parts_(std::move(parts)) {}
  void Apply(NormalText& t) const override {
    for (const auto& part : parts_) part->Apply(t);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

class UnicodeNormalizer final : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form) : form_(form) {}
  void Apply(NormalText& t) const override {
    t.text = Normalized(t.text, form_);
    t.CheckSize(t.text.size());
  }

 private:
  NormalForm form_;
};

class LowercaseNormalizer final : public Normalizer {
 public:
  void Apply(NormalText& t) const override {
    MapCharacters(t, [](char32_t c, std::string_view, std::string& out) { AppendLowercase(out, c); });
  }
};

class StripAccentsNormalizer final : public Normalizer {
 public:
  void Apply(NormalText& t) const override {
    MapCharacters(t, [](char32_t c, std::string_view text, std::string& out) {
      if (!IsMark(c)) out += text;
    });
  }
};

class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  void Apply(NormalText& t) const override {
    const std::string_view text = t.text;
    size_t begin = 0, end = text.size();
    while (left_ && begin < end) {
      size_t next = begin;
      if (!IsWhiteSpace(NextCodePoint(text, next))) break;
      begin = next;
    }
    while (right_ && end > begin) {
      const size_t before = PreviousBoundary(text, end);
      size_t at = before;
      if (!IsWhiteSpace(NextCodePoint(text, at))) break;
      end = before;
    }
    if (begin > 0) t.from_start = false;
    t.text = std::string(text.substr(begin, end - begin));
  }

 private:
  bool left_, right_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(std::string literal, std::optional<Regex> regex, std::string content)
      : literal_(std::move(literal)), regex_(std::move(regex)), content_(std::move(content)) {}

  void Apply(NormalText& t) const override {
    const std::string_view text = t.text;
    std::string out;
    size_t done = 0;
    const auto replace = [&](size_t begin, size_t end) {
      // `tokenizers` takes a replacement to come from the last of the replaced characters.
      if (begin == 0 && end > 0 && (content_.empty() || end > Utf8Length(text[0]))) t.from_start = false;
      out.append(text.substr(done, begin - done)).append(content_);
      t.CheckSize(out.size());
      done = end;
    };
    if (regex_) {
      size_t begin, end;
      for (Regex::Matcher matcher(*regex_, text); !text.empty() && matcher.Next(begin, end);)
        replace(begin, end);
    } else if (!literal_.empty()) {
      for (size_t at; (at = text.find(literal_, done)) != std::string_view::npos;)
        replace(at, at + literal_.size());
    }
    out.append(text.substr(done));
    t.text = std::move(out);
  }

 private:
  std::string literal_;
  std::optional<Regex> regex_;
  std::string content_;
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  void Apply(NormalText& t) const override {
    t.CheckSize(t.text.size() + prefix_.size());
    if (!t.text.empty()) t.text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class BertNormalizer final : public Normalizer {
 public:
  BertNormalizer(bool clean, bool cjk, bool strip_accents, bool lowercase)
      : clean_(clean), cjk_(cjk), strip_accents_(strip_accents), lowercase_(lowercase) {}

  void Apply(NormalText& t) const override {
    if (clean_) {
      MapCharacters(t, [](char32_t c, std::string_view text, std::string& out) {
        if (c == 0 || c == kReplacementCharacter || IsControl(c)) return;
        if (IsWhiteSpace(c)) {
          out += ' ';
        } else {
          out += text;
        }
      });
    }
    if (cjk_) {
      MapCharacters(t, [&t](char32_t c, std::string_view text, std::string& out) {
        const bool apart = IsCjk(c);
        if (apart) out += ' ';
        out += text;
        if (apart) out += ' ';
        t.CheckSize(out.size());
      });
    }
    if (strip_accents_) {
      t.text = Normalized(t.text, NormalForm::kNfd);
      MapCharacters(t, [](char32_t c, std::string_view text, std::string& out) {
        if (!IsNonspacingMark(c)) out += text;
      });
    }
    if (lowercase_) LowercaseNormalizer().Apply(t);
  }

 private:
  bool clean_, cjk_, strip_accents_, lowercase_;
};

class ByteLevelNormalizer final : public Normalizer {
 public:
  void Apply(NormalText& t) const override {
    std::string out;
    t.CheckSize(2 * t.text.size());
    AppendByteCharacters(out, t.text);
    t.text = std::move(out);
  }
};

class NmtNormalizer final : public Normalizer {
 public:
  void Apply(NormalText& t) const override {
    MapCharacters(t, [](char32_t c, std::string_view text, std::string& out) {
      const bool space = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                         c == 0xFEFF || c == 0xFFFD;
      const bool removed = (c >= 0x1 && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
      if (space) {
        out += ' ';
      } else if (!removed) {
        out += text;
      }
    });
  }
};

class PrecompiledNormalizer final : public Normalizer {
 public:
  explicit PrecompiledNormalizer(std::string bytes) : map_(std::move(bytes)) {}
  void Apply(NormalText& t) const override {
    std::string out;
    map_.Apply(t, out);
    t.text = std::move(out);
  }

 private:
  CharacterMap map_;
};

std::unique_ptr<const Normalizer> BuildReplace(const nlohmann::json& config) {
  const nlohmann::json& pattern = RequireField(config, "pattern", kWhere);
  std::optional<Regex> regex;
  std::string literal;
  if (auto text = OptionalString(pattern, "Regex", kWhere)) {
    regex = Regex::Compile(*text);
  } else {
    literal = StringField(pattern, "String", kWhere);
  }
  return std::make_unique<ReplaceNormalizer>(literal, std::move(regex),
                                             StringField(config, "content", kWhere));
}

}  // namespace

void NormalText::CheckSize(size_t bytes) const {
  if (bytes > limit)
    Throw(Code::kInvalidInput, "the normalizer makes more than ", limit, " bytes out of the text");
}

std::unique_ptr<const Normalizer> BuildNormalizer(const nlohmann::json& config) {
  if (config.is_null()) return nullptr;
  const std::string type = StringField(config, "type", kWhere);
  if (type == "Sequence") {
    std::vector<std::unique_ptr<const Normalizer>> parts;
    for (const nlohmann::json& part : ArrayField(config, "normalizers", kWhere)) {
      if (auto built = BuildNormalizer(part)) parts.push_back(std::move(built));
    }
    return std::make_unique<SequenceNormalizer>(std::move(parts));
  }
  if (type == "NFC") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfc);
  if (type == "NFD") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfd);
  if (type == "NFKC") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfkc);
  if (type == "NFKD") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<LowercaseNormalizer>();
  if (type == "StripAccents") return std::make_unique<StripAccentsNormalizer>();
  if (type == "Strip") {
    return std::make_unique<StripNormalizer>(BoolField(config, "strip_left", true, kWhere),
                                             BoolField(config, "strip_right", true, kWhere));
  }
  if (type == "Replace") return BuildReplace(config);
  if (type == "Prepend") return std::make_unique<PrependNormalizer>(StringField(config, "prepend", kWhere));
  if (type == "BertNormalizer") {
    const bool lowercase = BoolField(config, "lowercase", true, kWhere);
    return std::make_unique<BertNormalizer>(BoolField(config, "clean_text", true, kWhere),
                                            BoolField(config, "handle_chinese_chars", true, kWhere),
                                            BoolField(config, "strip_accents", lowercase, kWhere), lowercase);
  }
  if (type == "ByteLevel") return std::make_unique<ByteLevelNormalizer>();
  if (type == "Nmt") return std::make_unique<NmtNormalizer>();
  if (type == "Precompiled") {
    const auto map = OptionalString(config, "precompiled_charsmap", kWhere);
    if (!map || map->empty()) return nullptr;
    return std::make_unique<PrecompiledNormalizer>(DecodeBase64(*map, kWhere));
  }
  Throw(Code::kUnsupported, kWhere, " of type '", type, "' is not supported");
}

}  // namespace ullage::llm
