#include "llm/tokenizer/token_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "core/error.h"

namespace ullage::llm {
namespace {

uint64_t Mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

std::string Quoted(std::string_view text) {
  return "'" + std::string(text.substr(0, 64)) + (text.size() > 64 ? "...'" : "'");
}

}  // namespace

uint64_t HashBytes(std::string_view bytes) {
  uint64_t h = 0x9E3779B97F4A7C15u ^ bytes.size();
  const char* p = bytes.data();
  size_t n = bytes.size();
  for (; n > 8; p += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    h = Mix(h ^ word, 0xD6E8FEB86659FD93u);
  }
  uint64_t tail = 0;
  if (n > 0) std::memcpy(&tail, p, n);
  return Mix(h ^ tail, 0xA0761D6478BD642Fu);
}

void TokenTable::Reserve(size_t tokens, size_t bytes) {
  entries_.reserve(tokens);
  arena_.reserve(bytes);
  Grow(std::bit_ceil(tokens * 2 + 16));
}

void TokenTable::Grow(size_t slots) {
  if (slots <= slots_.size()) return;
  slots_.assign(slots, Slot());
  const size_t mask = slots - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const auto hash = HashBytes(Text(entries_[i]));
    size_t at = hash & mask;
    while (slots_[at].entry >= 0) at = (at + 1) & mask;
    slots_[at] = {static_cast<uint32_t>(hash >> 32), static_cast<int32_t>(i)};
  }
}

void TokenTable::Add(std::string_view text, int64_t id, Duplicate duplicate) {
  if (id < 0 || id >= std::numeric_limits<TokenId>::max()) {
    Throw(Code::kInvalidModel, "token ", Quoted(text), ": id ", id, " is out of range");
  }
  if ((entries_.size() + 1) * 2 > slots_.size()) Grow(std::bit_ceil(entries_.size() * 4 + 16));
  const uint64_t hash = HashBytes(text);
  const size_t mask = slots_.size() - 1;
  size_t at = hash & mask;
  for (; slots_[at].entry >= 0; at = (at + 1) & mask) {
    if (slots_[at].hash != static_cast<uint32_t>(hash >> 32)) continue;
    const Entry& other = entries_[static_cast<size_t>(slots_[at].entry)];
    if (Text(other) != text) continue;
    if (duplicate == Duplicate::kThrow) {
      Throw(Code::kInvalidModel, "token ", Quoted(text), " occurs twice, with the ids ", other.id, " and ",
            id);
    }
    // The text keeps its first id; the new id still decodes to it.
    entries_.push_back({other.offset, other.length, static_cast<TokenId>(id)});
    return;
  }
  if (arena_.size() + text.size() > std::numeric_limits<uint32_t>::max()) {
    Throw(Code::kInvalidModel, "the vocabulary's text exceeds 4 GiB");
  }
  slots_[at] = {static_cast<uint32_t>(hash >> 32), static_cast<int32_t>(entries_.size())};
  entries_.push_back(
      {static_cast<uint32_t>(arena_.size()), static_cast<uint32_t>(text.size()), static_cast<TokenId>(id)});
  arena_.append(text);
  max_bytes_ = std::max(max_bytes_, text.size());
}

void TokenTable::Freeze() {
  size_t highest = 0;
  for (const Entry& e : entries_) highest = std::max(highest, static_cast<size_t>(e.id) + 1);
  if (highest > 8 * entries_.size() + (size_t{1} << 20)) {
    Throw(Code::kInvalidModel, "token id ", highest - 1, " is out of range for ", entries_.size(), " tokens");
  }
  id_limit_ = highest;
  by_id_.assign(highest, -1);
  for (size_t i = 0; i < entries_.size(); ++i) {
    int32_t& place = by_id_[static_cast<size_t>(entries_[i].id)];
    if (place >= 0) {
      Throw(Code::kInvalidModel, "tokens ", Quoted(Text(entries_[static_cast<size_t>(place)])), " and ",
            Quoted(Text(entries_[i])), " have the same id ", entries_[i].id);
    }
    place = static_cast<int32_t>(i);
  }
}

TokenId TokenTable::FindHashed(std::string_view text, uint64_t hash) const {
  if (slots_.empty()) return kNoToken;
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask; slots_[at].entry >= 0; at = (at + 1) & mask) {
    if (slots_[at].hash != static_cast<uint32_t>(hash >> 32)) continue;
    const Entry& e = entries_[static_cast<size_t>(slots_[at].entry)];
    if (Text(e) == text) return e.id;
  }
  return kNoToken;
}

std::optional<std::string_view> TokenTable::TextOf(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= by_id_.size() || by_id_[static_cast<size_t>(id)] < 0)
    return std::nullopt;
  return Text(entries_[static_cast<size_t>(by_id_[static_cast<size_t>(id)])]);
}

}  // namespace ullage::llm
