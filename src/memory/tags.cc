#include "memory/tags.h"

#include <algorithm>

#include "core/checked.h"

namespace ullage::memory {
namespace {

constexpr std::array<std::string_view, kTagCount> kNames = {
    "weights", "prepacked", "kv", "activations", "workspace", "staging", "overhead"};

}  // namespace

std::string_view TagName(Tag tag) {
  return kNames[static_cast<size_t>(tag)];
}

std::optional<Tag> TagFromName(std::string_view name) {
  for (Tag tag : kAllTags)
    if (TagName(tag) == name) return tag;
  return std::nullopt;
}

void TagBytes::Add(Tag tag, int64_t count) {
  (*this)[tag] = CheckedAdd((*this)[tag], count, "bytes of one tag");
}

TagBytes& TagBytes::operator+=(const TagBytes& other) {
  for (Tag tag : kAllTags) Add(tag, other[tag]);
  return *this;
}

void TagBytes::RaiseTo(const TagBytes& other) {
  for (size_t i = 0; i < kTagCount; ++i) bytes[i] = std::max(bytes[i], other.bytes[i]);
}

int64_t TagBytes::Sum() const {
  int64_t sum = 0;
  for (int64_t count : bytes) sum = CheckedAdd(sum, count, "sum of bytes");
  return sum;
}

std::string TagBytes::ToString() const {
  std::array<Tag, kTagCount> order = kAllTags;
  std::stable_sort(order.begin(), order.end(), [this](Tag a, Tag b) { return (*this)[a] > (*this)[b]; });
  std::string text;
  for (Tag tag : order)
    if ((*this)[tag] != 0) text += StrCat(TagName(tag), " ", (*this)[tag], ", ");
  return text + StrCat("total ", Sum());
}

}  // namespace ullage::memory
