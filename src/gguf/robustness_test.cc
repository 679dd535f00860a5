// Damaged models through the whole importer: every outcome is a graph or an ullage::Error.

#include <gtest/gtest.h>

#include "gguf/import.h"
#include "gguf/test_writer.h"
#include "gguf/tokenizer_data.h"

namespace ullage::gguf {
namespace {

TestModel Whole() {
  TestModel m = TinyLlama();
  m.F32("llama.rope.freq_base", 1e4f)
      .String("llama.rope.scaling.type", "yarn")
      .F32("llama.rope.scaling.factor", 2);
  m.U32("llama.attention.sliding_window", 5).U32("llama.rope.dimension_count", 8);
  m.String("tokenizer.ggml.model", "gpt2").Strings("tokenizer.ggml.tokens", {"a", "b", "c"});
  m.Strings("tokenizer.ggml.merges", {"a b"}).U32("tokenizer.ggml.eos_token_id", 2);
  m.String("tokenizer.chat_template", "{{ x }}");
  m.Find("blk.0.attn_q.weight").type = 8;
  m.Find("token_embd.weight").type = 2;
  return m;
}

/// Whether the file was accepted.
bool Import(const TestWriter& w, bool require_data) {
  ImportOptions options;
  options.max_positions = 4;
  try {
    const auto f = w.Parse(require_data);
    ReadTokenizerData(f);
    ReadDescription(*f);
    ImportGguf(f, options);
    return true;
  } catch (const Error& e) {
    EXPECT_FALSE(e.message().empty());
    return false;
  }
}

size_t HeaderSize(const TestModel& m) {
  return m.Build(false).bytes.size();
}

TEST(Robustness, EveryTruncation) {
  const TestModel m = Whole();
  const TestWriter w = m.Build();
  const size_t header = HeaderSize(m);
  EXPECT_TRUE(Import(w, true));
  for (size_t size = 0; size < w.bytes.size(); size += size < header ? 1 : 61) {
    TestWriter cut = w;
    cut.bytes.resize(size);
    EXPECT_FALSE(Import(cut, true)) << size;
    EXPECT_EQ(Import(cut, false), size >= header) << size;
  }
}

TEST(Robustness, EveryFlippedBit) {
  const TestModel m = Whole();
  const TestWriter w = m.Build();
  const size_t bits = HeaderSize(m) * 8;
  size_t refused = 0;
  for (size_t bit = 0; bit < bits; ++bit) {
    TestWriter flipped = w;
    flipped.bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    refused += !Import(flipped, true);
    if (bit % 5 == 0) Import(flipped, false);
  }
  // Most of the header is names, types, sizes and offsets, and each of them matters.
  EXPECT_GT(refused, bits / 2);
}

}  // namespace
}  // namespace ullage::gguf
