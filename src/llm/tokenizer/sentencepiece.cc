#include <cmath>
#include <cstring>

#include "core/error.h"
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/tokenizer_parts.h"
#include "llm/tokenizer/unicode.h"
#include "llm/tokenizer/word_models.h"

namespace ullage::llm {
namespace {

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

/// Reads the fields of one protobuf message.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  bool Next() {
    if (bytes_.empty()) return false;
    const uint64_t key = Varint();
    field_ = key >> 3;
    varint_ = 0;
    content_ = {};
    switch (key & 7) {
      case 0:
        varint_ = Varint();
        break;
      case 1:
        content_ = Take(8);
        break;
      case 2:
        content_ = Take(Varint());
        break;
      case 5:
        content_ = Take(4);
        break;
      default:
        Throw(Code::kInvalidModel, "protobuf wire type ", key & 7, " in a SentencePiece model");
    }
    if (field_ == 0) Throw(Code::kInvalidModel, "protobuf field 0 in a SentencePiece model");
    return true;
  }

  uint64_t field() const { return field_; }
  uint64_t varint() const { return varint_; }
  std::string_view content() const { return content_; }
  float number() const {
    float value = 0;
    if (content_.size() == 4) std::memcpy(&value, content_.data(), 4);
    return value;
  }

 private:
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(Take(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    Throw(Code::kInvalidModel, "protobuf varint of more than ten bytes in a SentencePiece model");
  }
  std::string_view Take(uint64_t size) {
    if (size > bytes_.size()) Throw(Code::kInvalidModel, "the SentencePiece model ends inside of a field");
    const std::string_view out = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return out;
  }

  std::string_view bytes_;
  uint64_t field_ = 0, varint_ = 0;
  std::string_view content_;
};

struct Piece {
  std::string_view text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

/// The messages of sentencepiece_model.proto, with the defaults that it states.
struct ModelProto {
  std::vector<Piece> pieces;
  uint64_t model_type = 1;
  bool suffix_space = false;
  std::string unknown_surface = " \xE2\x81\x87 ";
  std::string bos_piece = "<s>", eos_piece = "</s>";
  std::string_view character_map;
  bool add_dummy_prefix = true, remove_extra_spaces = true, escape_spaces = true;
};

Piece ParsePiece(std::string_view bytes) {
  Piece piece;
  for (WireReader r(bytes); r.Next();) {
    if (r.field() == 1) piece.text = r.content();
    if (r.field() == 2) piece.score = r.number();
    if (r.field() == 3) {
      if (r.varint() < 1 || r.varint() > 6) {
        Throw(Code::kInvalidModel, "SentencePiece piece '", piece.text, "' has the unknown type ",
              r.varint());
      }
      piece.type = static_cast<PieceType>(r.varint());
    }
  }
  if (!IsValidUtf8(piece.text)) Throw(Code::kInvalidModel, "a SentencePiece piece is not UTF-8");
  if (std::isnan(piece.score))
    Throw(Code::kInvalidModel, "SentencePiece piece '", piece.text, "' has no score");
  return piece;
}

ModelProto ParseProto(std::string_view bytes) {
  ModelProto proto;
  for (WireReader r(bytes); r.Next();) {
    if (r.field() == 1) {
      proto.pieces.push_back(ParsePiece(r.content()));
    } else if (r.field() == 2) {
      for (WireReader t(r.content()); t.Next();) {
        if (t.field() == 3) proto.model_type = t.varint();
        if (t.field() == 24) proto.suffix_space = t.varint() != 0;
        if (t.field() == 44) proto.unknown_surface = ToValidUtf8(t.content());
        if (t.field() == 46) proto.bos_piece = t.content();
        if (t.field() == 47) proto.eos_piece = t.content();
      }
    } else if (r.field() == 3) {
      for (WireReader n(r.content()); n.Next();) {
        if (n.field() == 2) proto.character_map = n.content();
        if (n.field() == 3) proto.add_dummy_prefix = n.varint() != 0;
        if (n.field() == 4) proto.remove_extra_spaces = n.varint() != 0;
        if (n.field() == 5) proto.escape_spaces = n.varint() != 0;
      }
    }
  }
  return proto;
}

/// The normalizer of the sentencepiece library.
class SentencePieceNormalizer final : public Normalizer {
 public:
  SentencePieceNormalizer(const ModelProto& proto, TokenTrie user_defined)
      : dummy_prefix_(proto.add_dummy_prefix),
        remove_extra_(proto.remove_extra_spaces),
        suffix_(proto.suffix_space),
        space_(proto.escape_spaces ? kSpaceMark : " "),
        user_defined_(std::move(user_defined)) {
    if (!proto.character_map.empty()) map_.emplace(std::string(proto.character_map));
  }

  void Apply(NormalText& t) const override {
    std::string_view rest = t.text;
    std::string out;
    size_t length = 0;
    while (remove_extra_ && !rest.empty() && Next(rest, length) == " ") rest.remove_prefix(length);
    if (rest.empty()) {
      t.text.clear();
      return;
    }
    if (dummy_prefix_ && !suffix_) out += space_;
    bool space_before = remove_extra_;
    while (!rest.empty()) {
      std::string_view piece = Next(rest, length);
      rest.remove_prefix(length);
      while (space_before && piece.starts_with(' ')) piece.remove_prefix(1);
      for (char c : piece) {
        if (c == ' ') {
          out += space_;
        } else {
          out += c;
        }
      }
      if (!piece.empty()) space_before = piece.back() == ' ';
      if (!remove_extra_) space_before = false;
      t.CheckSize(out.size());
    }
    if (remove_extra_) {
      while (out.ends_with(space_)) out.resize(out.size() - space_.size());
    }
    if (dummy_prefix_ && suffix_) out += space_;
    t.text = std::move(out);
  }

 private:
  /// What the characters at the beginning become, and how many bytes they are.
  std::string_view Next(std::string_view text, size_t& length) const {
    if (const TokenTrie::Match user = user_defined_.Longest(text, 0); user.length > 0) {
      length = user.length;
      return text.substr(0, length);
    }
    if (map_) {
      if (const CharacterMap::Match match = map_->Longest(text.substr(0, 64)); match.length > 0) {
        length = match.length;
        return match.replacement;
      }
    }
    length = Utf8Length(text[0]);
    return text.substr(0, length);
  }

  bool dummy_prefix_, remove_extra_, suffix_;
  std::string space_;
  TokenTrie user_defined_;
  std::optional<CharacterMap> map_;
};

std::unique_ptr<const Model> BuildModel(const ModelProto& proto, TokenTable tokens, TokenId unknown) {
  std::vector<float> scores;
  std::vector<PieceType> types;
  bool bytes = false;
  for (const Piece& p : proto.pieces) {
    scores.push_back(p.score);
    types.push_back(p.type);
    bytes = bytes || p.type == PieceType::kByte;
  }
  if (proto.model_type == 2) {
    return std::make_unique<ScoreBpeModel>(std::move(tokens), scores, std::move(types),
                                           ScoreBpeModel::Options{unknown, bytes, true, true});
  }
  if (proto.model_type != 1) {
    Throw(Code::kUnsupported, "SentencePiece model type ", proto.model_type,
          " (only unigram and BPE are supported)");
  }
  // A user defined piece beats every other way to cut its text.
  float best = 0;
  for (const Piece& p : proto.pieces) {
    if (p.type == PieceType::kNormal) best = std::max(best, p.score);
  }
  std::vector<double> unigram_scores;
  std::vector<bool> used;
  for (const Piece& p : proto.pieces) {
    const bool user = p.type == PieceType::kUserDefined;
    used.push_back(user || p.type == PieceType::kNormal);
    unigram_scores.push_back(user ? static_cast<double>(p.text.size()) * best - 0.1 : p.score);
  }
  return std::make_unique<UnigramModel>(std::move(tokens), std::move(unigram_scores), used,
                                        UnigramModel::Options{unknown, bytes});
}

}  // namespace

std::shared_ptr<const Tokenizer> ParseSentencePiece(std::string_view bytes, std::string_view name,
                                                    std::string_view config_bytes) {
  try {
    const TokenizerConfig config = TokenizerConfig::Parse(config_bytes);
    const ModelProto proto = ParseProto(bytes);
    if (proto.pieces.empty()) Throw(Code::kInvalidModel, "a SentencePiece model without pieces");
    TokenizerParts parts;
    TokenTable tokens;
    SentencePieceDecoderOptions decoder;
    decoder.strip_first = proto.add_dummy_prefix;
    decoder.strip_all = proto.remove_extra_spaces;
    decoder.unknown_surface = proto.unknown_surface;
    std::vector<std::pair<std::string, int32_t>> user;
    TokenId unknown = kNoToken, bos = kNoToken, eos = kNoToken;
    for (size_t i = 0; i < proto.pieces.size(); ++i) {
      const Piece& p = proto.pieces[i];
      const auto id = static_cast<TokenId>(i);
      tokens.Add(p.text, id);
      const std::string text(p.text);
      if (p.type == PieceType::kUserDefined) user.emplace_back(text, id);
      if (p.type == PieceType::kUnknown) {
        if (unknown != kNoToken) Throw(Code::kInvalidModel, "a SentencePiece model with two unknown pieces");
        unknown = id;
        decoder.unknown_piece = text;
      }
      if (p.type != PieceType::kControl && p.type != PieceType::kUnknown) continue;
      if (p.type == PieceType::kControl) decoder.control.push_back(text);
      if (text == config.bos.value_or(proto.bos_piece)) bos = id;
      if (text == config.eos.value_or(proto.eos_piece)) eos = id;
      parts.added.push_back({text, id, false, false, false, false, true, false});
    }
    tokens.Freeze();
    parts.normalizer = std::make_unique<SentencePieceNormalizer>(proto, TokenTrie(std::move(user)));
    parts.model = BuildModel(proto, std::move(tokens), unknown);
    std::vector<TokenId> before, after;
    if (bos != kNoToken && config.add_bos.value_or(proto.model_type == 2)) before.push_back(bos);
    if (eos != kNoToken && config.add_eos.value_or(proto.model_type == 1)) after.push_back(eos);
    parts.post_processor = MakeSurroundProcessor(std::move(before), std::move(after));
    parts.decoder.push_back(MakeSentencePieceDecoder(std::move(decoder)));
    config.AddMissing(parts);
    return std::make_shared<const Tokenizer>(std::move(parts));
  } catch (const Error& e) {
    throw Error(e.code(), StrCat(name, ": ", e.message()), e.details_json());
  }
}

}  // namespace ullage::llm
