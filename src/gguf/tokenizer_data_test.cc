#include "gguf/tokenizer_data.h"

#include <gtest/gtest.h>

#include "gguf/test_writer.h"

namespace ullage::gguf {
namespace {

std::string ModelPath(const std::string& name) {
  return std::string(ULLAGE_SOURCE_DIR) + "/tests/gguf/models/" + name;
}

TEST(TokenizerData, ByteLevelBpe) {
  const auto d = ReadTokenizerData(GgufFile::Open(ModelPath("llama.gguf")));
  EXPECT_EQ(d.model, "gpt2");
  EXPECT_EQ(d.pre, "qwen2");
  ASSERT_EQ(d.tokens.size(), 48u);
  EXPECT_EQ(d.tokens[1], "<|im_start|>");
  EXPECT_EQ(d.tokens[29], "\xc4\xa0");
  EXPECT_TRUE(d.scores.empty());
  EXPECT_EQ(d.token_types[2], 3);
  EXPECT_EQ(d.token_types[3], 1);
  ASSERT_EQ(d.merges.size(), 7u);
  EXPECT_EQ(d.merges[1], "h e");
  EXPECT_EQ(d.bos, 0);
  EXPECT_EQ(d.eos, 2);
  EXPECT_EQ(d.unknown, std::nullopt);
  EXPECT_EQ(d.add_bos, false);
  EXPECT_EQ(d.add_eos, std::nullopt);
  EXPECT_EQ(d.stop_ids, (std::vector<int32_t>{0, 2}));
  EXPECT_TRUE(d.chat_template.starts_with("{% for message in messages %}<|im_start|>"));
  ASSERT_EQ(d.named_templates.size(), 1u);
  EXPECT_EQ(d.named_templates.at("tool_use"), "{{ tools }}");
}

TEST(TokenizerData, SentencePiece) {
  const auto d = ReadTokenizerData(GgufFile::Open(ModelPath("gemma3.gguf")));
  EXPECT_EQ(d.model, "llama");
  EXPECT_EQ(d.scores.at(5), -1005.0f);
  EXPECT_EQ(d.token_types.at(5), 6);
  EXPECT_EQ(d.unknown, 3);
  EXPECT_EQ(d.add_bos, true);
  EXPECT_EQ(d.add_eos, false);
  EXPECT_EQ(d.add_space_prefix, false);
  EXPECT_EQ(d.stop_ids, (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(d.chat_template, "");
}

TestModel Base() {
  TestModel m;
  m.String("tokenizer.ggml.model", "gpt2")
      .Strings("tokenizer.ggml.tokens", {"a", "<|eot_id|>", "</s>", "<eom>"});
  return m;
}
TokenizerData Read(const TestModel& m) {
  return ReadTokenizerData(m.Build().Parse());
}
void ExpectRefused(const TestModel& m, const std::vector<std::string>& parts) {
  ExpectError(Code::kInvalidModel, parts, [&] { Read(m); });
}

TEST(TokenizerData, StopIdsAreAUnion) {
  auto d = Read(Base().U32("tokenizer.ggml.eos_token_id", 2).U32("tokenizer.ggml.eom_token_id", 3));
  EXPECT_EQ(d.stop_ids, (std::vector<int32_t>{1, 2, 3}));
  // A plain piece of text that looks like a marker is none.
  d = Read(Base().Numbers<int32_t>("tokenizer.ggml.token_type", ValueType::kInt32, {1, 1, 1, 1}));
  EXPECT_TRUE(d.stop_ids.empty());
  d = Read(Base().Numbers<int32_t>("tokenizer.ggml.token_type", ValueType::kInt32, {1, 3, 4, 3}));
  EXPECT_EQ(d.stop_ids, (std::vector<int32_t>{1}));
}

TEST(TokenizerData, IdsOutsideTheVocabulary) {
  ExpectRefused(Base().U32("tokenizer.ggml.eos_token_id", 4), {"eos_token_id", "token 4", "vocabulary of 4"});
  ExpectRefused(Base().U32("tokenizer.ggml.bos_token_id", 100), {"bos_token_id", "token 100"});
  const auto d =
      Read(Base().U32("tokenizer.ggml.padding_token_id", 4).U32("tokenizer.ggml.bos_token_id", 0xffffffff));
  EXPECT_EQ(d.padding, std::nullopt);
  EXPECT_EQ(d.bos, std::nullopt);
}

TEST(TokenizerData, FillInTheMiddleUnderBothNames) {
  EXPECT_EQ(Read(Base().U32("tokenizer.ggml.prefix_token_id", 1)).fim_prefix, 1);
  EXPECT_EQ(Read(Base().U32("tokenizer.ggml.fim_mid_token_id", 2)).fim_middle, 2);
}

TEST(TokenizerData, ContradictionsAreNamed) {
  ExpectRefused(TestModel(), {"tokenizer.ggml.model is missing"});
  ExpectRefused(TestModel().String("tokenizer.ggml.model", "gpt2"), {"no tokens", "tokenizer.ggml.tokens"});
  ExpectRefused(Base().Numbers<float>("tokenizer.ggml.scores", ValueType::kFloat32, {1, 2}),
                {"tokenizer.ggml.scores", "4 tokens, found 2"});
  ExpectRefused(Base().Numbers<int32_t>("tokenizer.ggml.token_type", ValueType::kInt32, {1, 1, 1, 9}),
                {"token_type", "token 3 has type 9"});
  ExpectRefused(Base().U32("tokenizer.ggml.merges", 1),
                {"tokenizer.ggml.merges", "expected an array of strings"});
  ExpectRefused(Base().U32("tokenizer.ggml.add_bos_token", 1), {"add_bos_token", "expected a bool"});
  ExpectRefused(Base().U32("tokenizer.chat_template", 1), {"tokenizer.chat_template", "expected a string"});
  ExpectRefused(Base().String("tokenizer.ggml.precompiled_charsmap", "x"), {"precompiled_charsmap", "bytes"});
  const auto d =
      Read(Base().Numbers<uint8_t>("tokenizer.ggml.precompiled_charsmap", ValueType::kUInt8, {65, 66}));
  EXPECT_EQ(d.precompiled_charsmap, "AB");
}

TEST(ModelDescription, NamesTheFileType) {
  TestModel m;
  m.String("general.name", "tiny").String("general.architecture", "llama").U32("general.file_type", 15);
  const auto d = ReadDescription(*m.Build().Parse());
  EXPECT_EQ(d.name, "tiny");
  EXPECT_EQ(d.file_type, "Q4_K_M");
  EXPECT_EQ(ReadDescription(*TestModel().U32("general.file_type", 1024).Build().Parse()).file_type,
            "unknown (1024)");
  EXPECT_EQ(ReadDescription(*TestModel().U32("general.file_type", 32).Build().Parse()).file_type, "BF16");
  EXPECT_EQ(ReadDescription(*TestModel().Build().Parse()).file_type, "");
}

}  // namespace
}  // namespace ullage::gguf
