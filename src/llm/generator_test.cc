#include "llm/generator.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/read_file.h"
#include "llm/model_text.h"

namespace ullage::llm {
namespace {

/// A tiny model with random weights, and what onnxruntime answers greedily after a prompt.
class GeneratorTest : public ::testing::Test {
 protected:
  static constexpr int64_t kContext = 64;

  void SetUp() override {
    const std::string folder = ULLAGE_SOURCE_DIR "/tests/zoo/genai-llama-int4-cpu";
    source_ = FindModel(folder, "", false);
    tokenizer_ = LoadTokenizer(source_);
    DecoderOptions options;
    options.context = kContext;
    options.threads = 2;
    decoder_ = Decoder::Create(source_, options);
    const auto greedy = nlohmann::json::parse(ReadFile(folder + "/ref/greedy.json"));
    prompt_ = greedy["cases"][0]["prompt_ids"].get<std::vector<int32_t>>();
    answer_ = greedy["cases"][0]["ort_tokens"].get<std::vector<int32_t>>();
    answer_.resize(std::min<size_t>(answer_.size(), 12));
  }

  Generation Generate(const GenerateOptions& options, std::vector<int32_t> stop_ids = {}) {
    pieces_.clear();
    return Generator(*decoder_, tokenizer_, std::move(stop_ids))
        .Generate(prompt_, options, [&](std::string_view piece) { pieces_.emplace_back(piece); });
  }
  std::string Streamed() const {
    std::string all;
    for (const auto& p : pieces_) all += p;
    return all;
  }
  GenerateOptions Limit(int64_t tokens) const {
    GenerateOptions o;
    o.max_tokens = tokens;
    return o;
  }
  int64_t size(const std::vector<int32_t>& ids) const { return static_cast<int64_t>(ids.size()); }

  ModelSource source_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Decoder> decoder_;
  std::vector<int32_t> prompt_, answer_;
  std::vector<std::string> pieces_;
};

TEST_F(GeneratorTest, AnswersLikeTheReference) {
  const Generation g = Generate(Limit(size(answer_)));
  EXPECT_EQ(g.token_ids, answer_);
  EXPECT_EQ(g.finish_reason, "length");
  EXPECT_EQ(g.text, tokenizer_->Decode(answer_, true));
  EXPECT_EQ(Streamed(), g.text);
  EXPECT_EQ(g.prompt_tokens, size(prompt_));
  EXPECT_EQ(g.prefilled_tokens, size(prompt_));
}

TEST_F(GeneratorTest, AStopIdEndsTheAnswerAndHasNoText) {
  const size_t at = 3;
  const auto first = std::find(answer_.begin(), answer_.end(), answer_[at]);
  const Generation g = Generate(Limit(50), {answer_[at]});
  EXPECT_EQ(g.finish_reason, "stop");
  EXPECT_EQ(g.token_ids, std::vector<int32_t>(answer_.begin(), first + 1));
  EXPECT_EQ(g.text, tokenizer_->Decode(std::vector<int32_t>(answer_.begin(), first), true));
}

TEST_F(GeneratorTest, AStopTextAcrossTokensIsNeverShown) {
  const std::string whole = tokenizer_->Decode(answer_, true);
  const size_t middle = whole.size() / 2;
  GenerateOptions o = Limit(size(answer_));
  o.stop_texts = {"no such text", whole.substr(middle, 3)};
  const Generation g = Generate(o);
  EXPECT_EQ(g.finish_reason, "stop");
  EXPECT_EQ(g.text, whole.substr(0, whole.find(o.stop_texts[1])));
  EXPECT_EQ(Streamed(), g.text);
}

TEST_F(GeneratorTest, TextHeldBackForAStopTextIsGivenAtTheEnd) {
  const std::string whole = tokenizer_->Decode(answer_, true);
  GenerateOptions o = Limit(size(answer_));
  o.stop_texts = {whole.substr(whole.size() - 2) + "\x01"};  // begins like the end of the answer
  const Generation g = Generate(o);
  EXPECT_EQ(g.finish_reason, "length");
  EXPECT_EQ(Streamed(), whole);
}

TEST_F(GeneratorTest, ZeroTokensAreNone) {
  const Generation g = Generate(Limit(0));
  EXPECT_TRUE(g.token_ids.empty());
  EXPECT_EQ(g.finish_reason, "length");
}

TEST_F(GeneratorTest, TheContextEndsTheAnswer) {
  const Generation g = Generate({});
  EXPECT_EQ(g.finish_reason, "length");
  EXPECT_LE(size(prompt_) + size(g.token_ids), kContext + 1);
  EXPECT_GE(size(prompt_) + size(g.token_ids), kContext);
}

TEST_F(GeneratorTest, ASharedPrefixIsNotComputedAgain) {
  const Generation first = Generate(Limit(6));
  // The conversation goes on: the first answer and one token more.
  const std::vector<int32_t> start = prompt_;
  prompt_.insert(prompt_.end(), answer_.begin(), answer_.begin() + 6);
  prompt_.push_back(start[1]);
  const Generation second = Generate(Limit(5));
  EXPECT_LE(second.prefilled_tokens, 2);
  EXPECT_EQ(second.prompt_tokens, size(prompt_));

  decoder_->Rewind(0);
  const Generation fresh = Generate(Limit(5));
  EXPECT_EQ(fresh.prefilled_tokens, size(prompt_));
  EXPECT_EQ(fresh.token_ids, second.token_ids);

  // The same prompt again: only what gives its logits is computed.
  EXPECT_EQ(Generate(Limit(5)).token_ids, fresh.token_ids);
}

TEST_F(GeneratorTest, AnInterruptionKeepsWhatWasSaid) {
  std::atomic<bool> stop{false};
  Generator generator(*decoder_, tokenizer_, {});
  int pieces = 0;
  const Generation g = generator.Generate(
      prompt_, {}, [&](std::string_view) { stop = ++pieces == 2; }, &stop);
  EXPECT_EQ(g.finish_reason, "interrupted");
  EXPECT_FALSE(g.text.empty());
  EXPECT_LT(size(g.token_ids), kContext - size(prompt_));
  stop = false;
  EXPECT_EQ(Generate(Limit(4)).token_ids, std::vector<int32_t>(answer_.begin(), answer_.begin() + 4));
}

TEST_F(GeneratorTest, BadPromptsAreRefusedAndChangeNothing) {
  const Generation before = Generate(Limit(4));
  const auto refused = [&](std::vector<int32_t> prompt, const std::string& part) {
    try {
      Generator(*decoder_, tokenizer_, {}).Generate(prompt, Limit(1));
      ADD_FAILURE() << "no error with " << part;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kInvalidInput);
      EXPECT_NE(e.message().find(part), std::string::npos) << e.message();
    }
  };
  refused({}, "empty");
  refused(std::vector<int32_t>(kContext + 1, 5), "65");
  refused({1, 456}, "456");
  refused({-1}, "-1");
  EXPECT_EQ(Generate(Limit(4)).token_ids, before.token_ids);
}

TEST_F(GeneratorTest, WithoutATokenizerThereAreTokensOnly) {
  const Generation g = Generator(*decoder_, nullptr, {}).Generate(prompt_, Limit(3));
  EXPECT_EQ(g.token_ids, std::vector<int32_t>(answer_.begin(), answer_.begin() + 3));
  EXPECT_EQ(g.text, "");
}

}  // namespace
}  // namespace ullage::llm
