#include "llm/tokenizer/word_models.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

constexpr double kUnknownPenalty = 10;

TokenId RequireUnknown(const TokenTable& tokens, const std::string& text) {
  const TokenId id = tokens.Find(text);
  if (id == kNoToken) Throw(Code::kInvalidModel, "the unknown token '", text, "' is not in the vocabulary");
  return id;
}

}  // namespace

void WordPieceModel::Encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const {
  const size_t mark = out.size();
  bool known = CountCodePoints(piece) <= max_characters_;
  for (size_t begin = 0; known && begin < piece.size();) {
    size_t end = std::min(piece.size(), begin + tokens_.max_bytes());
    while (end < piece.size() && (static_cast<unsigned char>(piece[end]) & 0xC0) == 0x80) --end;
    TokenId id = kNoToken;
    for (; end > begin; end = PreviousBoundary(piece, end)) {
      if (begin == 0) {
        id = tokens_.Find(piece.substr(0, end));
      } else {
        scratch.text.assign(prefix_).append(piece.substr(begin, end - begin));
        id = tokens_.Find(scratch.text);
      }
      if (id != kNoToken) break;
    }
    known = id != kNoToken;
    if (known) out.push_back(id);
    begin = end;
  }
  if (known) return;
  out.resize(mark);
  out.push_back(RequireUnknown(tokens_, unknown_));
}

void WordLevelModel::Encode(std::string_view piece, ModelScratch&, std::vector<TokenId>& out) const {
  const TokenId id = tokens_.Find(piece);
  out.push_back(id != kNoToken ? id : RequireUnknown(tokens_, unknown_));
}

UnigramModel::UnigramModel(TokenTable tokens, std::vector<double> scores, const std::vector<bool>& used,
                           Options options)
    : Model(std::move(tokens)),
      options_(options),
      scores_(std::move(scores)),
      byte_tokens_(ByteTokens(tokens_)) {
  double least = std::numeric_limits<double>::infinity();
  std::vector<std::pair<std::string, int32_t>> entries;
  for (size_t i = 0; i < tokens_.id_limit(); ++i) {
    const auto text = tokens_.TextOf(static_cast<TokenId>(i));
    if (!text) continue;
    if (!used.empty() && !used[i]) continue;
    least = std::min(least, scores_[i]);
    entries.emplace_back(*text, static_cast<int32_t>(i));
  }
  unknown_score_ = least - kUnknownPenalty;
  trie_ = TokenTrie(std::move(entries));
}

void UnigramModel::Encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const {
  auto& nodes = scratch.nodes;  // the best way to each byte; `from` is where its last token begins
  constexpr uint32_t kUnreached = 0xFFFFFFFF;
  nodes.assign(piece.size() + 1, {0, kUnreached, kNoToken});
  for (size_t begin = 0; begin < piece.size();) {
    const double score = nodes[begin].score;
    const size_t character = Utf8Length(piece[begin]);
    bool single = false;
    const auto offer = [&](size_t end, double total, TokenId id) {
      auto& node = nodes[end];
      if (node.from == kUnreached || total > node.score) node = {total, static_cast<uint32_t>(begin), id};
    };
    trie_.Walk(piece, begin, [&](size_t length, int32_t id) {
      offer(begin + length, score + scores_[static_cast<size_t>(id)], id);
      single = single || length == character;
    });
    if (!single) {
      if (options_.unknown == kNoToken) {
        Throw(Code::kInvalidModel,
              "the text has a character that is not in the vocabulary, which has no unknown token");
      }
      offer(begin + character, score + unknown_score_, options_.unknown);
    }
    begin += character;
  }
  // Backwards over the best way; tokens are collected last to first.
  auto& ids = scratch.ids;
  ids.clear();
  const auto emit = [&](size_t begin, size_t end) {
    const std::string_view text = piece.substr(begin, end - begin);
    TokenId id = tokens_.Find(text);
    const auto has_token = [&](char b) { return byte_tokens_[static_cast<unsigned char>(b)] != kNoToken; };
    if (id == kNoToken && options_.byte_fallback && std::all_of(text.begin(), text.end(), has_token)) {
      for (size_t i = text.size(); i-- > 0;) ids.push_back(byte_tokens_[static_cast<unsigned char>(text[i])]);
      return;
    }
    ids.push_back(id == kNoToken ? options_.unknown : id);
  };
  size_t unknown_end = 0;  // of a run of unknown characters; 0 if there is none
  for (size_t end = piece.size(); end > 0;) {
    const auto& node = nodes[end];
    if (node.id == options_.unknown) {
      if (unknown_end == 0) unknown_end = end;
    } else {
      if (unknown_end > 0) emit(end, std::exchange(unknown_end, 0));
      ids.push_back(node.id);
    }
    end = node.from;
  }
  if (unknown_end > 0) emit(0, unknown_end);
  out.insert(out.end(), ids.rbegin(), ids.rend());
}

}  // namespace ullage::llm
