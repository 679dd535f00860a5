#include "memory/tags.h"

#include <gtest/gtest.h>

#include <limits>

#include "core/error.h"

namespace ullage::memory {
namespace {

TEST(Tags, NamesRoundTrip) {
  const char* names[] = {"weights", "prepacked", "kv", "activations", "workspace", "staging", "overhead"};
  for (size_t i = 0; i < kTagCount; ++i) {
    EXPECT_EQ(TagName(kAllTags[i]), names[i]);
    EXPECT_EQ(TagFromName(names[i]), kAllTags[i]);
  }
  EXPECT_EQ(TagFromName("Weights"), std::nullopt);
}

TEST(Tags, SumsAndText) {
  TagBytes bytes;
  EXPECT_EQ(bytes.ToString(), "total 0");
  bytes.Add(Tag::kKv, 512);
  bytes.Add(Tag::kWeights, 1000);
  bytes.Add(Tag::kWeights, 24);
  EXPECT_EQ(bytes.Sum(), 1536);
  EXPECT_EQ(bytes.ToString(), "weights 1024, kv 512, total 1536");
  TagBytes other;
  other[Tag::kKv] = 600;
  TagBytes high = bytes;
  high.RaiseTo(other);
  EXPECT_EQ(high[Tag::kKv], 600);
  EXPECT_EQ(high[Tag::kWeights], 1024);
  bytes += other;
  EXPECT_EQ(bytes[Tag::kKv], 1112);
}

TEST(Tags, OverflowIsAnError) {
  TagBytes bytes;
  bytes[Tag::kWeights] = std::numeric_limits<int64_t>::max();
  EXPECT_THROW(bytes.Add(Tag::kWeights, 1), Error);
  bytes[Tag::kKv] = 1;
  EXPECT_THROW(bytes.Sum(), Error);
}

}  // namespace
}  // namespace ullage::memory
