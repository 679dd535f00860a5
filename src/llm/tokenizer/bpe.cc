#include "llm/tokenizer/bpe.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "llm/tokenizer/merge_queue.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

constexpr size_t kSmallPiece = 32;

}  // namespace

const PieceCache::Entry* PieceCache::Find(std::string_view piece, uint64_t hash) const {
  if (slots_.empty() || piece.size() > Entry().key.size()) return nullptr;
  const Entry& e = slots_[(hash >> 16) % kSlots];
  const bool hit = e.hash == hash && e.key_length == piece.size() &&
                   std::memcmp(e.key.data(), piece.data(), piece.size()) == 0;
  return hit ? &e : nullptr;
}

void PieceCache::Store(std::string_view piece, uint64_t hash, const TokenId* ids, size_t count) {
  if (piece.size() > Entry().key.size() || count > Entry().ids.size()) return;
  if (slots_.empty()) slots_.resize(kSlots);
  Entry& e = slots_[(hash >> 16) % kSlots];
  e.hash = hash;
  e.key_length = static_cast<uint8_t>(piece.size());
  e.count = static_cast<uint8_t>(count);
  std::copy(piece.begin(), piece.end(), e.key.begin());
  std::copy(ids, ids + count, e.ids.begin());
}

std::array<TokenId, 256> ByteTokens(const TokenTable& tokens) {
  std::array<TokenId, 256> out;
  constexpr char kHex[] = "0123456789ABCDEF";
  for (size_t b = 0; b < 256; ++b) {
    const char text[] = {'<', '0', 'x', kHex[b >> 4], kHex[b & 15], '>'};
    out[b] = tokens.Find(std::string_view(text, 6));
  }
  return out;
}

void MergeTable::Reserve(size_t merges) {
  Grow(merges * 10 / 7 + 16);
}

void MergeTable::Grow(size_t slots) {
  if (slots <= slots_.size()) return;
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(slots));
  for (const Slot& s : old) {
    if (s.key == kEmpty) continue;
    size_t at = PlaceOf(s.key);
    while (slots_[at].key != kEmpty) at = Next(at);
    slots_[at] = s;
  }
}

void MergeTable::Add(TokenId left, TokenId right, Merge merge) {
  if ((size_ + 1) * 4 > slots_.size() * 3) Grow(size_ * 2 + 16);
  const uint64_t key = Key(left, right);
  size_t at = PlaceOf(key);
  while (slots_[at].key != kEmpty && slots_[at].key != key) at = Next(at);
  if (slots_[at].key == kEmpty) ++size_;
  slots_[at] = {key, merge.rank, merge.merged};
}

void BpeModel::Builder::AddMerge(std::string_view left, std::string_view right, bool lenient) {
  const uint32_t rank = rank_++;
  const size_t prefix = options_.subword_prefix ? options_.subword_prefix->size() : 0;
  if (right.size() < prefix) {
    Throw(Code::kInvalidModel, "merge ", rank, ": '", right, "' is shorter than the subword prefix");
  }
  const TokenId l = tokens_.Find(left), r = tokens_.Find(right);
  joined_.assign(left).append(right.substr(prefix));
  // Trainers number tokens in the order of merges: the next id is a good guess.
  const TokenId merged = tokens_.TextOf(guess_) == joined_ ? guess_ : tokens_.Find(joined_);
  guess_ = merged + 1;
  if (l == kNoToken || r == kNoToken || merged == kNoToken) {
    if (lenient) return;
    Throw(Code::kInvalidModel, "merge ", rank, ": token '",
          l == kNoToken   ? left
          : r == kNoToken ? right
                          : joined_,
          "' is not in the vocabulary");
  }
  merges_.Add(l, r, {rank, merged});
}

void BpeModel::Builder::AddMergeLine(std::string_view line, bool lenient) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    Throw(Code::kInvalidModel, "merge ", rank_, " is '", line,
          "'; expected two tokens with one space between them");
  }
  AddMerge(line.substr(0, space), line.substr(space + 1), lenient);
}

std::unique_ptr<Model> BpeModel::Builder::Build() {
  return std::unique_ptr<Model>(new BpeModel(std::move(tokens_), std::move(options_), std::move(merges_)));
}

BpeModel::BpeModel(TokenTable tokens, BpeOptions options, MergeTable merges)
    : Model(std::move(tokens)),
      options_(std::move(options)),
      merges_(std::move(merges)),
      byte_tokens_(ByteTokens(tokens_)),
      character_tokens_(0x800, kNoToken) {
  std::string text;
  for (char32_t c = 0; c < 0x800; ++c) {
    text.clear();
    AppendUtf8(text, c);
    character_tokens_[c] = tokens_.Find(text);
  }
}

size_t BpeModel::memory_bytes() const {
  return Model::memory_bytes() + merges_.memory_bytes() + character_tokens_.capacity() * sizeof(TokenId) +
         PieceCache::MemoryBytes();
}

TokenId BpeModel::CharacterToken(std::string_view character) const {
  if (character.size() > 2) return tokens_.Find(character);
  size_t pos = 0;
  return character_tokens_[NextCodePoint(character, pos)];
}

TokenId BpeModel::UnknownToken() const {
  const TokenId id = tokens_.Find(*options_.unknown);
  if (id == kNoToken)
    Throw(Code::kInvalidModel, "the unknown token '", *options_.unknown, "' is not in the vocabulary");
  return id;
}

void BpeModel::InitialSymbols(std::string_view piece, ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  TokenId pending_unknown = kNoToken;
  const auto add = [&](TokenId id) { symbols.push_back({id, 0, 0, 0, kNoToken, 0, 0}); };
  for (size_t pos = 0; pos < piece.size();) {
    const size_t length = Utf8Length(piece[pos]);
    std::string_view text = piece.substr(pos, length);
    const bool first = pos == 0;
    pos += length;
    const bool last = pos == piece.size();
    TokenId id;
    if ((options_.subword_prefix && !first) || (options_.word_suffix && last)) {
      scratch.text.clear();
      if (options_.subword_prefix && !first) scratch.text += *options_.subword_prefix;
      scratch.text += text;
      if (options_.word_suffix && last) scratch.text += *options_.word_suffix;
      text = scratch.text;
      id = tokens_.Find(text);
    } else {
      id = CharacterToken(text);
    }
    if (id != kNoToken) {
      if (pending_unknown != kNoToken) add(std::exchange(pending_unknown, kNoToken));
      add(id);
      continue;
    }
    const auto has_token = [&](char b) { return byte_tokens_[static_cast<unsigned char>(b)] != kNoToken; };
    if (options_.byte_fallback && std::all_of(text.begin(), text.end(), has_token)) {
      // An unknown token that is still pending comes after these bytes, as in `tokenizers`.
      for (char b : text) add(byte_tokens_[static_cast<unsigned char>(b)]);
      continue;
    }
    if (!options_.unknown) continue;
    if (pending_unknown != kNoToken && !options_.fuse_unknown) add(pending_unknown);
    pending_unknown = UnknownToken();
  }
  if (pending_unknown != kNoToken) add(pending_unknown);
}

void BpeModel::Encode(std::string_view piece, ModelScratch& scratch, std::vector<TokenId>& out) const {
  const uint64_t hash = HashBytes(piece);
  if (const PieceCache::Entry* hit = scratch.cache.Find(piece, hash)) {
    out.insert(out.end(), hit->ids.begin(), hit->ids.begin() + hit->count);
    return;
  }
  const size_t start = out.size();
  const TokenId whole = options_.ignore_merges ? tokens_.FindHashed(piece, hash) : kNoToken;
  if (whole != kNoToken) {
    out.push_back(whole);
  } else {
    InitialSymbols(piece, scratch);
    MergeSymbols(merges_, scratch, out);
  }
  scratch.cache.Store(piece, hash, out.data() + start, out.size() - start);
}

namespace {

/// For few symbols: looks for the lowest rank each time.
void MergeFew(const MergeTable& merges, std::vector<ModelScratch::Symbol>& symbols) {
  size_t n = symbols.size();
  const auto rate = [&](size_t i) {
    const MergeTable::Merge merge = merges.Find(symbols[i].id, symbols[i + 1].id);
    symbols[i].rank = merge.rank;
    symbols[i].merged = merge.merged;
  };
  for (size_t i = 0; i + 1 < n; ++i) rate(i);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (symbols[i].rank < symbols[best].rank) best = i;
    }
    if (symbols[best].rank == kNoRank) break;
    symbols[best].id = symbols[best].merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    --n;
    if (best + 1 < n) rate(best);
    if (best > 0) rate(best - 1);
  }
}

}  // namespace

void MergeSymbols(const MergeTable& merges, ModelScratch& scratch, std::vector<TokenId>& ids) {
  auto& symbols = scratch.symbols;
  const auto n = static_cast<int32_t>(symbols.size());
  if (symbols.size() <= kSmallPiece) {
    MergeFew(merges, symbols);
    for (const auto& s : symbols) ids.push_back(s.id);
    return;
  }
  for (int32_t i = 0; i < n; ++i) {
    symbols[static_cast<size_t>(i)].prev = i - 1;
    symbols[static_cast<size_t>(i)].next = i + 1 < n ? i + 1 : -1;
  }
  const auto rate = [&](int32_t i) {
    auto& s = symbols[static_cast<size_t>(i)];
    s.rank = kNoRank;
    if (s.next < 0) return;
    const MergeTable::Merge merge = merges.Find(s.id, symbols[static_cast<size_t>(s.next)].id);
    s.rank = merge.rank;
    s.merged = merge.merged;
  };
  MergeByRank(scratch, rate, [](ModelScratch::Symbol& left, ModelScratch::Symbol& right) {
    left.id = left.merged;
    right.id = kNoToken;
  });
  for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next)
    ids.push_back(symbols[static_cast<size_t>(i)].id);
}

}  // namespace ullage::llm
