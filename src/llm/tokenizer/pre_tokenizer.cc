#include "llm/tokenizer/pre_tokenizer.h"

#include <optional>
#include <utility>

#include "llm/tokenizer/byte_alphabet.h"
#include "llm/tokenizer/json_fields.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {

const char kGpt2Pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

namespace {

constexpr std::string_view kWhere = "tokenizer.json: pre_tokenizer";

void CheckSize(size_t bytes, size_t limit) {
  if (bytes > limit)
    Throw(Code::kInvalidInput, "the pre-tokenizer makes more than ", limit, " bytes out of the text");
}

/// A part of a piece: what the pattern matched, or what lies between two matches.
struct Part {
  uint32_t begin, end;
  bool match;
};

/// Collects the parts of one piece and appends the pieces they make.
void JoinParts(std::vector<Part>& parts, SplitBehavior behavior, std::vector<Pieces::Span>& out) {
  const size_t start = out.size();
  const auto add = [&](const Part& p) { out.push_back({p.begin, p.end}); };
  const auto previous = [&]() -> Pieces::Span* { return out.size() > start ? &out.back() : nullptr; };
  bool before = false;
  switch (behavior) {
    case SplitBehavior::kIsolated:
      for (const Part& p : parts) add(p);
      break;
    case SplitBehavior::kRemoved:
      for (const Part& p : parts) {
        if (!p.match) add(p);
      }
      break;
    case SplitBehavior::kContiguous:
      for (const Part& p : parts) {
        if (p.match == before && previous() != nullptr) {
          previous()->end = p.end;
        } else {
          add(p);
        }
        before = p.match;
      }
      break;
    case SplitBehavior::kMergedWithPrevious:
      for (const Part& p : parts) {
        if (p.match && !before && previous() != nullptr) {
          previous()->end = p.end;
        } else {
          add(p);
        }
        before = p.match;
      }
      break;
    case SplitBehavior::kMergedWithNext:
      for (size_t i = 0; i < parts.size(); ++i) {
        // A match joins the gap behind it; of several matches in a row the last.
        if (parts[i].match && i + 1 < parts.size() && !parts[i + 1].match) {
          out.push_back({parts[i].begin, parts[i + 1].end});
          ++i;
        } else {
          add(parts[i]);
        }
      }
      break;
  }
  std::erase_if(out, [](const Pieces::Span& s) { return s.begin == s.end; });
}

/// Cuts every piece where Finder says. Finder: void operator()(text, emit), which calls emit(begin, end) for
/// each match, from left to right.
template <class Finder>
class SplitPreTokenizer final : public PreTokenizer {
 public:
  SplitPreTokenizer(Finder finder, SplitBehavior behavior, bool invert)
      : finder_(std::move(finder)), behavior_(behavior), invert_(invert) {}

  void Apply(Pieces& pieces, Pieces& spare) const override {
    spare.spans.clear();
    const bool simple = behavior_ == SplitBehavior::kIsolated;
    std::vector<Part> parts;
    std::vector<Pieces::Span> joined;
    for (const Pieces::Span& span : pieces.spans) {
      const std::string_view text = pieces.Text(span);
      uint32_t done = 0;
      parts.clear();
      const auto part = [&](size_t begin, size_t end, bool match) {
        const auto b = static_cast<uint32_t>(span.begin + begin), e = static_cast<uint32_t>(span.begin + end);
        if (!simple) {
          parts.push_back({b, e, match != invert_});
        } else if (b < e) {
          spare.spans.push_back({b, e});
        }
      };
      finder_(text, [&](size_t begin, size_t end) {
        if (done < begin) part(done, begin, false);
        part(begin, end, true);
        done = static_cast<uint32_t>(end);
      });
      if (done < text.size()) part(done, text.size(), false);
      if (simple) continue;
      joined.clear();
      JoinParts(parts, behavior_, joined);
      spare.spans.insert(spare.spans.end(), joined.begin(), joined.end());
    }
    std::swap(pieces.spans, spare.spans);
  }

 private:
  Finder finder_;
  SplitBehavior behavior_;
  bool invert_;
};

struct RegexFinder {
  Regex regex;
  template <class Emit>
  void operator()(std::string_view text, const Emit& emit) const {
    Regex::Matcher matcher(regex, text);
    for (size_t begin, end; matcher.Next(begin, end);) emit(begin, end);
  }
};

struct LiteralFinder {
  std::string literal;
  template <class Emit>
  void operator()(std::string_view text, const Emit& emit) const {
    if (literal.empty()) return;
    for (size_t at = 0; (at = text.find(literal, at)) != std::string_view::npos; at += literal.size()) {
      emit(at, at + literal.size());
    }
  }
};

struct CharacterFinder {
  bool (*wanted)(char32_t);
  template <class Emit>
  void operator()(std::string_view text, const Emit& emit) const {
    for (size_t pos = 0; pos < text.size();) {
      const size_t begin = pos;
      if (wanted(NextCodePoint(text, pos))) emit(begin, pos);
    }
  }
};

template <class Finder>
std::unique_ptr<const PreTokenizer> MakeSplit(Finder finder, SplitBehavior behavior, bool invert = false) {
  return std::make_unique<SplitPreTokenizer<Finder>>(std::move(finder), behavior, invert);
}

class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(std::vector<std::unique_ptr<const PreTokenizer>> parts)
      : parts_(std::move(parts)) {}
  void Apply(Pieces& pieces, Pieces& spare) const override {
    for (const auto& part : parts_) part->Apply(pieces, spare);
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
};

class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(bool add_prefix_space, bool use_regex) : add_prefix_space_(add_prefix_space) {
    if (use_regex) regex_ = Regex::Compile(kGpt2Pattern);
  }

  void Apply(Pieces& pieces, Pieces& spare) const override {
    spare.text.clear();
    spare.spans.clear();
    std::string prefixed;
    const auto add = [&](std::string_view bytes) {
      const auto begin = static_cast<uint32_t>(spare.text.size());
      CheckSize(spare.text.size() + 2 * bytes.size(), pieces.limit);
      AppendByteCharacters(spare.text, bytes);
      spare.spans.push_back({begin, static_cast<uint32_t>(spare.text.size())});
    };
    for (const Pieces::Span& span : pieces.spans) {
      std::string_view text = pieces.Text(span);
      if (add_prefix_space_ && text[0] != ' ') {
        prefixed.assign(" ").append(text);
        text = prefixed;
      }
      if (!regex_) {
        add(text);
        continue;
      }
      Regex::Matcher matcher(*regex_, text);
      size_t done = 0;
      for (size_t begin, end; matcher.Next(begin, end); done = end) {
        if (done < begin) add(text.substr(done, begin - done));
        if (begin < end) add(text.substr(begin, end - begin));
      }
      if (done < text.size()) add(text.substr(done));
    }
    std::swap(pieces.text, spare.text);
    std::swap(pieces.spans, spare.spans);
  }

 private:
  bool add_prefix_space_;
  std::optional<Regex> regex_;
};

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  enum class Prepend { kAlways, kFirst, kNever };
  MetaspacePreTokenizer(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}

  void Apply(Pieces& pieces, Pieces& spare) const override {
    spare.text.clear();
    spare.spans.clear();
    for (const Pieces::Span& span : pieces.spans) {
      const std::string_view text = pieces.Text(span);
      const size_t begin = spare.text.size();
      CheckSize(begin + (text.size() + 1) * replacement_.size(), pieces.limit);
      const bool first = pieces.from_start && span.begin == 0;
      const bool marked = text[0] == ' ' || text.starts_with(replacement_);
      if (!marked && (prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && first))) {
        spare.text += replacement_;
      }
      for (char c : text) {
        if (c == ' ') {
          spare.text += replacement_;
        } else {
          spare.text += c;
        }
      }
      size_t from = begin;
      for (size_t at = begin; split_ && (at = spare.text.find(replacement_, at)) != std::string::npos;) {
        if (at > from) spare.spans.push_back({static_cast<uint32_t>(from), static_cast<uint32_t>(at)});
        from = at;
        at += replacement_.size();
      }
      spare.spans.push_back({static_cast<uint32_t>(from), static_cast<uint32_t>(spare.text.size())});
    }
    std::swap(pieces.text, spare.text);
    std::swap(pieces.spans, spare.spans);
  }

 private:
  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

class FixedLengthPreTokenizer final : public PreTokenizer {
 public:
  explicit FixedLengthPreTokenizer(size_t length) : length_(length) {}
  void Apply(Pieces& pieces, Pieces& spare) const override {
    spare.spans.clear();
    for (const Pieces::Span& span : pieces.spans) {
      for (uint32_t pos = span.begin; pos < span.end;) {
        const uint32_t begin = pos;
        for (size_t i = 0; i < length_ && pos < span.end; ++i) {
          pos += static_cast<uint32_t>(Utf8Length(pieces.text[pos]));
        }
        spare.spans.push_back({begin, pos});
      }
    }
    std::swap(pieces.spans, spare.spans);
  }

 private:
  size_t length_;
};

SplitBehavior BehaviorField(const nlohmann::json& config, std::optional<SplitBehavior> otherwise) {
  if (otherwise && FindField(config, "behavior", kWhere) == nullptr) return *otherwise;
  const std::string name = StringField(config, "behavior", kWhere);
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  Throw(Code::kUnsupported, kWhere, ": split behaviour '", name, "' is not supported");
}

std::string CharacterField(const nlohmann::json& config, const char* key) {
  std::string text = StringField(config, key, kWhere);
  if (CountCodePoints(text) != 1) Throw(Code::kInvalidModel, kWhere, ": '", key, "' must be one character");
  return text;
}

std::unique_ptr<const PreTokenizer> BuildMetaspace(const nlohmann::json& config) {
  using Prepend = MetaspacePreTokenizer::Prepend;
  const auto scheme = OptionalString(config, "prepend_scheme", kWhere);
  Prepend prepend = Prepend::kAlways;
  if (scheme == "first") {
    prepend = Prepend::kFirst;
  } else if (scheme == "never") {
    prepend = Prepend::kNever;
  } else if (scheme && scheme != "always") {
    Throw(Code::kUnsupported, kWhere, ": prepend_scheme '", *scheme, "' is not supported");
  }
  if (!BoolField(config, "add_prefix_space", true, kWhere)) prepend = Prepend::kNever;
  return std::make_unique<MetaspacePreTokenizer>(CharacterField(config, "replacement"), prepend,
                                                 BoolField(config, "split", true, kWhere));
}

std::unique_ptr<const PreTokenizer> BuildSplit(const nlohmann::json& config) {
  const nlohmann::json& pattern = RequireField(config, "pattern", kWhere);
  const SplitBehavior behavior = BehaviorField(config, std::nullopt);
  const bool invert = BoolField(config, "invert", false, kWhere);
  if (auto regex = OptionalString(pattern, "Regex", kWhere)) {
    return MakeRegexSplit(Regex::Compile(*regex), behavior, invert);
  }
  return MakeSplit(LiteralFinder{StringField(pattern, "String", kWhere)}, behavior, invert);
}

}  // namespace

void Pieces::AddText(std::string_view piece) {
  const auto begin = static_cast<uint32_t>(text.size());
  text += piece;
  spans.push_back({begin, static_cast<uint32_t>(text.size())});
}

std::unique_ptr<const PreTokenizer> MakeRegexSplit(Regex regex, SplitBehavior behavior, bool invert) {
  return MakeSplit(RegexFinder{std::move(regex)}, behavior, invert);
}

std::unique_ptr<const PreTokenizer> MakeByteLevel(bool add_prefix_space, bool use_regex) {
  return std::make_unique<ByteLevelPreTokenizer>(add_prefix_space, use_regex);
}

std::unique_ptr<const PreTokenizer> MakeSequence(std::vector<std::unique_ptr<const PreTokenizer>> parts) {
  return std::make_unique<SequencePreTokenizer>(std::move(parts));
}

std::unique_ptr<const PreTokenizer> BuildPreTokenizer(const nlohmann::json& config) {
  if (config.is_null()) return nullptr;
  const std::string type = StringField(config, "type", kWhere);
  if (type == "Sequence") {
    std::vector<std::unique_ptr<const PreTokenizer>> parts;
    for (const nlohmann::json& part : ArrayField(config, "pretokenizers", kWhere)) {
      if (auto built = BuildPreTokenizer(part)) parts.push_back(std::move(built));
    }
    return MakeSequence(std::move(parts));
  }
  if (type == "Split") return BuildSplit(config);
  if (type == "ByteLevel") {
    return MakeByteLevel(BoolField(config, "add_prefix_space", true, kWhere),
                         BoolField(config, "use_regex", true, kWhere));
  }
  if (type == "Metaspace") return BuildMetaspace(config);
  if (type == "Whitespace") {
    return MakeRegexSplit(Regex::Compile("[\\w\\u200C\\u200D]+|[^\\w\\s\\u200C\\u200D]+"),
                          SplitBehavior::kRemoved, true);
  }
  if (type == "WhitespaceSplit") return MakeSplit(CharacterFinder{IsWhiteSpace}, SplitBehavior::kRemoved);
  if (type == "BertPreTokenizer") {
    std::vector<std::unique_ptr<const PreTokenizer>> parts;
    parts.push_back(MakeSplit(CharacterFinder{IsWhiteSpace}, SplitBehavior::kRemoved));
    parts.push_back(MakeSplit(CharacterFinder{IsPunctuation}, SplitBehavior::kIsolated));
    return MakeSequence(std::move(parts));
  }
  if (type == "Digits") {
    const bool each = BoolField(config, "individual_digits", false, kWhere);
    return MakeSplit(CharacterFinder{IsNumeric},
                     each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "Punctuation") {
    return MakeSplit(CharacterFinder{IsPunctuation}, BehaviorField(config, SplitBehavior::kIsolated));
  }
  if (type == "CharDelimiterSplit") {
    return MakeSplit(LiteralFinder{CharacterField(config, "delimiter")}, SplitBehavior::kRemoved);
  }
  if (type == "FixedLength") {
    return std::make_unique<FixedLengthPreTokenizer>(
        static_cast<size_t>(IntegerField(config, "length", 1, INT32_MAX, kWhere)));
  }
  Throw(Code::kUnsupported, kWhere, " of type '", type, "' is not supported");
}

}  // namespace ullage::llm
