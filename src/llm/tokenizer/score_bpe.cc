#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "llm/tokenizer/bpe.h"
#include "llm/tokenizer/merge_queue.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {

ScoreBpeModel::ScoreBpeModel(TokenTable tokens, const std::vector<float>& scores,
                             std::vector<PieceType> types, Options options)
    : Model(std::move(tokens)),
      options_(options),
      types_(std::move(types)),
      order_(tokens_.id_limit(), kNoRank),
      byte_tokens_(ByteTokens(tokens_)) {
  std::vector<TokenId> ids;
  std::vector<std::pair<std::string, int32_t>> whole;
  for (size_t i = 0; i < tokens_.id_limit(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const PieceType type = types_[i];
    const auto text = tokens_.TextOf(id);
    if (!text) continue;
    if (type == PieceType::kUserDefined && options_.keep_user_defined_whole) whole.emplace_back(*text, id);
    if (type == PieceType::kNormal || type == PieceType::kUserDefined || type == PieceType::kUnused)
      ids.push_back(id);
  }
  whole_ = TokenTrie(std::move(whole));
  std::sort(ids.begin(), ids.end(), [&](TokenId a, TokenId b) { return scores[a] > scores[b]; });
  uint32_t order = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0 && scores[ids[i]] != scores[ids[i - 1]]) ++order;
    order_[ids[i]] = order;
  }
}

size_t ScoreBpeModel::memory_bytes() const {
  return Model::memory_bytes() + types_.capacity() * sizeof(PieceType) +
         order_.capacity() * sizeof(uint32_t) + whole_.memory_bytes();
}

void ScoreBpeModel::RatePair(std::string_view piece, ModelScratch& scratch, int32_t left) const {
  auto& s = scratch.symbols[static_cast<size_t>(left)];
  s.rank = kNoRank;
  if (s.next < 0) return;
  const auto& right = scratch.symbols[static_cast<size_t>(s.next)];
  // A symbol that was cut out whole carries its id and merges with nothing.
  if (s.id != kNoToken || right.id != kNoToken || right.end - s.begin > tokens_.max_bytes()) return;
  const TokenId merged = tokens_.Find(piece.substr(s.begin, right.end - s.begin));
  if (merged == kNoToken || order_[static_cast<size_t>(merged)] == kNoRank) return;
  s.rank = order_[static_cast<size_t>(merged)];
  s.merged = merged;
  if (types_[static_cast<size_t>(merged)] == PieceType::kUnused) scratch.halves[merged] = s.end - s.begin;
}

void ScoreBpeModel::Encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  scratch.halves.clear();
  for (size_t pos = 0; pos < piece.size();) {
    const TokenTrie::Match match = whole_.Longest(piece, pos);
    const size_t length = match.length > 0 ? match.length : Utf8Length(piece[pos]);
    const auto i = static_cast<int32_t>(symbols.size());
    const TokenId id = match.length > 0 ? match.value : kNoToken;
    symbols.push_back({id, i - 1, i + 1, kNoRank, kNoToken, static_cast<uint32_t>(pos),
                       static_cast<uint32_t>(pos + length)});
    pos += length;
  }
  symbols.back().next = -1;
  MergeByRank(
      scratch, [&](int32_t i) { RatePair(piece, scratch, i); },
      [](ModelScratch::Symbol& left, ModelScratch::Symbol& right) { left.end = right.end; });
  bool unknown_before = false;
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next) {
    const auto& s = symbols[static_cast<size_t>(i)];
    if (s.id != kNoToken) {
      out.push_back(s.id);
      unknown_before = false;
    } else {
      Emit(piece, s.begin, s.end, scratch, out, unknown_before);
    }
  }
}

void ScoreBpeModel::Emit(std::string_view piece, uint32_t begin, uint32_t end, ModelScratch& scratch,
                         std::vector<TokenId>& out, bool& unknown_before) const {
  // Unused pieces come apart again into the halves they were merged from; what is left to do is a stack of
  // ends.
  std::vector<uint32_t> ends{end};
  while (!ends.empty()) {
    const std::string_view text = piece.substr(begin, ends.back() - begin);
    const TokenId id = tokens_.Find(text);
    if (id != kNoToken && types_[static_cast<size_t>(id)] == PieceType::kUnused) {
      const auto half = scratch.halves.find(id);
      if (half != scratch.halves.end() && half->second < text.size()) {
        ends.push_back(begin + half->second);
        continue;
      }
    }
    begin = ends.back();
    ends.pop_back();
    if (id != kNoToken && types_[static_cast<size_t>(id)] != PieceType::kUnknown) {
      out.push_back(id);
      unknown_before = false;
      continue;
    }
    const auto has_token = [&](char b) { return byte_tokens_[static_cast<unsigned char>(b)] != kNoToken; };
    if (options_.byte_fallback && std::all_of(text.begin(), text.end(), has_token)) {
      for (char b : text) out.push_back(byte_tokens_[static_cast<unsigned char>(b)]);
      unknown_before = false;
    } else if (options_.unknown != kNoToken) {
      if (!unknown_before || !options_.fuse_unknown) out.push_back(options_.unknown);
      unknown_before = true;
    }
  }
}

}  // namespace ullage::llm
