#include "llm/tokenizer/token_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "core/error.h"

namespace ullage::llm {
namespace {

uint64_t Mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// Slots of a frozen table for each 7 texts.
constexpr size_t kSlotsPerSeven = 10;

size_t PlaceOf(uint32_t hash, size_t slots) {
  return static_cast<size_t>(static_cast<uint64_t>(hash) * slots >> 32);
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
  text_.reserve(bytes);
  Grow(std::bit_ceil(tokens * 3 / 2 + 16));
}

void TokenTable::Grow(size_t slots) {
  if (slots <= wide_.size()) return;
  const std::vector<WideSlot> old = std::exchange(wide_, std::vector<WideSlot>(slots));
  for (const WideSlot& slot : old) {
    if (slot.entry < 0) continue;
    size_t at = PlaceOf(slot.hash, slots);
    while (wide_[at].entry >= 0) at = (at + 1) & (slots - 1);
    wide_[at] = slot;
  }
}

void TokenTable::Add(std::string_view text, int64_t id, Duplicate duplicate) {
  if (id < 0 || id >= std::numeric_limits<TokenId>::max()) {
    Throw(Code::kInvalidModel, "token ", Quoted(text), ": id ", id, " is out of range");
  }
  if ((entries_.size() + 1) * 4 > wide_.size() * 3) Grow(std::bit_ceil(entries_.size() * 2 + 16));
  const auto hash = static_cast<uint32_t>(HashBytes(text) >> 32);
  size_t at = PlaceOf(hash, wide_.size());
  for (; wide_[at].entry >= 0; at = (at + 1) & (wide_.size() - 1)) {
    if (wide_[at].hash != hash) continue;
    const Entry& other = entries_[static_cast<size_t>(wide_[at].entry)];
    if (Text(other) != text) continue;
    if (duplicate == Duplicate::kThrow) {
      Throw(Code::kInvalidModel, "token ", Quoted(text), " occurs twice, with the ids ", other.id, " and ",
            id);
    }
    // The text keeps its first id; the new id still decodes to it.
    entries_.push_back({other.offset, other.length, static_cast<TokenId>(id)});
    return;
  }
  if (text_.size() + text.size() >= std::numeric_limits<uint32_t>::max()) {
    Throw(Code::kInvalidModel, "the vocabulary's text exceeds 4 GiB");
  }
  wide_[at] = {hash, static_cast<int32_t>(entries_.size())};
  entries_.push_back(
      {static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(text.size()), static_cast<TokenId>(id)});
  text_.append(text);
  max_bytes_ = std::max(max_bytes_, text.size());
}

void TokenTable::Freeze() {
  size_t highest = 0;
  for (const Entry& e : entries_) highest = std::max(highest, static_cast<size_t>(e.id) + 1);
  if (highest > 8 * entries_.size() + (size_t{1} << 20)) {
    Throw(Code::kInvalidModel, "token id ", highest - 1, " is out of range for ", entries_.size(), " tokens");
  }
  places_.assign(highest, Place());
  for (const Entry& e : entries_) {
    Place& place = places_[static_cast<size_t>(e.id)];
    if (place.length != kHole) {
      Throw(Code::kInvalidModel, "tokens ", Quoted(Text(place)), " and ", Quoted(Text(e)),
            " have the same id ", e.id);
    }
    place = {e.offset, e.length};
  }
  size_ = entries_.size();
  id_bits_ = static_cast<int>(std::bit_width(highest));
  slots_.assign(size_ * kSlotsPerSeven / 7 + 1, 0);
  for (const WideSlot& slot : wide_) {
    if (slot.entry < 0) continue;
    size_t at = PlaceOf(slot.hash, slots_.size());
    while (slots_[at] != 0) at = at + 1 == slots_.size() ? 0 : at + 1;
    const auto id = static_cast<uint32_t>(entries_[static_cast<size_t>(slot.entry)].id);
    slots_[at] = slot.hash << id_bits_ | (id + 1);
  }
  entries_ = {};
  wide_ = {};
  text_.shrink_to_fit();
}

TokenId TokenTable::FindHashed(std::string_view text, uint64_t full_hash) const {
  if (slots_.empty()) return kNoToken;
  const auto hash = static_cast<uint32_t>(full_hash >> 32);
  const uint32_t id_mask = (uint32_t{1} << id_bits_) - 1, part = hash << id_bits_;
  for (size_t at = PlaceOf(hash, slots_.size()); slots_[at] != 0; at = at + 1 == slots_.size() ? 0 : at + 1) {
    if ((slots_[at] & ~id_mask) != part) continue;
    const auto id = static_cast<TokenId>((slots_[at] & id_mask) - 1);
    if (Text(places_[static_cast<size_t>(id)]) == text) return id;
  }
  return kNoToken;
}

std::optional<std::string_view> TokenTable::TextOf(TokenId id) const {
  if (id < 0 || static_cast<size_t>(id) >= places_.size() || places_[static_cast<size_t>(id)].length == kHole)
    return std::nullopt;
  return Text(places_[static_cast<size_t>(id)]);
}

size_t TokenTable::memory_bytes() const {
  return text_.capacity() + places_.capacity() * sizeof(Place) + slots_.capacity() * sizeof(uint32_t);
}

}  // namespace ullage::llm
