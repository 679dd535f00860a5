#include "llm/tokenizer/tokenizer.h"

#include <thread>

#include "llm/tokenizer/test_support.h"
#include "llm/tokenizer/tokenize_service.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

using nlohmann::json;
using Ids = std::vector<TokenId>;

json SmallTokenizer() {
  return json::parse(R"({
    "version":"1.0","truncation":null,"padding":null,
    "added_tokens":[
      {"id":9,"content":"<s>","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":true},
      {"id":10,"content":"<x>","single_word":false,"lstrip":false,"rstrip":true,"normalized":false,"special":false}],
    "normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
    "pre_tokenizer":null,
    "post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
      "pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],
      "special_tokens":{"<s>":{"id":"<s>","ids":[9],"tokens":["<s>"]}}},
    "decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
    "model":{"type":"BPE","dropout":null,"unk_token":null,"byte_fallback":true,"fuse_unk":false,
      "vocab":{"▁":0,"a":1,"b":2,"▁a":3,"ab":4,"▁ab":5,"<0xE6>":6,"<0x97>":7,"<0xA5>":8},
      "merges":["▁ a",["a","b"],["▁a","b"]]}})");
}

TEST(Tokenizer, EncodesAndDecodes) {
  const auto t = ParseTokenizerJson(SmallTokenizer().dump());
  EXPECT_EQ(t->Encode("ab ab"), (Ids{9, 5, 5}));
  EXPECT_EQ(t->Encode("ab", false), (Ids{5}));
  EXPECT_EQ(t->Encode("a<x>  b日", false), (Ids{3, 10, 0, 2, 6, 7, 8}));
  EXPECT_EQ(t->Encode("", true), (Ids{9}));
  EXPECT_EQ(t->Encode("<s>a", false), (Ids{9, 3}));
  EXPECT_EQ(t->Encode("<s>a", false, false),
            (Ids{3}));  // "<s>" as text: characters that the vocabulary lacks vanish
  const PairEncoding pair = t->EncodePair("a", "ab");
  EXPECT_EQ(pair.ids, (Ids{3, 5}));
  EXPECT_EQ(pair.type_ids, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(t->Decode(Ids{9, 5, 5}), "<s> ab ab");
  EXPECT_EQ(t->Decode(Ids{9, 5, 5}, true), "ab ab");
  EXPECT_EQ(t->Decode(Ids{6, 7, 8, 1, 6, 7}), "日a\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(t->Decode(Ids{-1, 5, 1000000}), "ab");
  EXPECT_EQ(t->Decode(Ids{}), "");
  EXPECT_EQ(t->vocab_size(), 11u);
  EXPECT_EQ(t->IdOf("<x>"), 10);
  EXPECT_EQ(t->IdOf("▁ab"), 5);
  EXPECT_EQ(t->IdOf("zz"), std::nullopt);
  EXPECT_EQ(t->TokenOf(9), "<s>");
  EXPECT_EQ(t->TokenOf(11), std::nullopt);
  EXPECT_TRUE(t->is_special(9));
  EXPECT_FALSE(t->is_special(10));
  EXPECT_FALSE(t->is_special(99));
}

TEST(Tokenizer, InvalidUtf8IsReplaced) {
  json config = SmallTokenizer();
  config["model"]["vocab"]["\xEF\xBF\xBD"] = 9;
  const auto t = ParseTokenizerJson(config.dump());
  EXPECT_EQ(t->Encode("a\xFF\xE6\x97", false), (Ids{3, 9, 9}));
}

TEST(Tokenizer, StreamGivesWholeCharactersInTime) {
  const auto t = ParseTokenizerJson(SmallTokenizer().dump());
  StreamDecoder stream(t);
  EXPECT_EQ(stream.Push(5), "ab");
  EXPECT_EQ(stream.Push(5), " ab");
  EXPECT_EQ(stream.Push(6), "");
  EXPECT_EQ(stream.Push(7), "");
  EXPECT_EQ(stream.Push(8), "");
  EXPECT_EQ(stream.Push(1), "日a");
  EXPECT_EQ(stream.Push(6), "");
  EXPECT_EQ(stream.Finish(), "\xEF\xBF\xBD");
}

TEST(Tokenizer, ThreadsShareOne) {
  const auto t = ParseTokenizerJson(SmallTokenizer().dump());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 500; ++k) {
        const std::string text = std::string(static_cast<size_t>(k % 50 + i), 'a') + " ab";
        const Ids ids = t->Encode(text, false);
        if (t->Decode(ids) != text) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(TokenizerConfig, AddsMissingTokens) {
  const std::string config = R"({"added_tokens_decoder":{
    "9":{"content":"<s>","special":true},"30":{"content":"<new>","special":true,"normalized":false},
    "1":{"content":"<clash>","special":true}}})";
  const auto t = ParseTokenizerJson(SmallTokenizer().dump(), "tokenizer.json", config);
  EXPECT_EQ(t->Encode("<new>", false), (Ids{30}));
  EXPECT_EQ(t->IdOf("<clash>"), std::nullopt);
  EXPECT_EQ(t->vocab_size(), 31u);
  ExpectError(Code::kInvalidModel, "added_tokens_decoder", [&] {
    ParseTokenizerJson(SmallTokenizer().dump(), "tokenizer.json",
                       R"({"added_tokens_decoder":{"x":{"content":"y"}}})");
  });
}

TEST(TokenizerJson, MalformedFilesAreNamed) {
  const auto expect = [](Code code, const std::string& part, const std::string& bytes) {
    ExpectError(code, part, [&] { ParseTokenizerJson(bytes, "some/tokenizer.json"); });
    ExpectError(code, "some/tokenizer.json", [&] { ParseTokenizerJson(bytes, "some/tokenizer.json"); });
  };
  const auto changed = [](const char* pointer, const json& value) {
    json t = SmallTokenizer();
    t[json::json_pointer(pointer)] = value;
    return t.dump();
  };
  expect(Code::kInvalidModel, "expected '{'", "");
  expect(Code::kInvalidModel, "'model' is missing", "{}");
  expect(Code::kInvalidModel, "expected '{'", "[]");
  expect(Code::kInvalidModel, "UTF-8", "{\"model\":\"\xFF\"}");
  expect(Code::kInvalidModel, "nested", "{\"x\":" + std::string(100000, '['));
  expect(Code::kInvalidModel, "after the end", SmallTokenizer().dump() + "x");
  expect(Code::kInvalidModel, "'vocab' is missing", R"({"model":{"type":"BPE","merges":[]}})");
  expect(Code::kInvalidModel, "'merges' is missing", R"({"model":{"type":"BPE","vocab":{}}})");
  expect(Code::kUnsupported, "'Magic'", R"({"model":{"type":"Magic","vocab":{}}})");
  expect(Code::kInvalidModel, "out of range", changed("/model/vocab/a", -1));
  expect(Code::kInvalidModel, "out of range", changed("/model/vocab/a", 4294967295));
  expect(Code::kInvalidModel, "out of range", changed("/model/vocab/a", 2000000000));
  expect(Code::kInvalidModel, "integer", changed("/model/vocab/a", 1.5));
  expect(Code::kInvalidModel, "same id", changed("/model/vocab/a", 0));
  expect(Code::kInvalidModel, "twice", R"({"model":{"type":"BPE","vocab":{"a":0,"a":1},"merges":[]}})");
  expect(Code::kInvalidModel, "one space", changed("/model/merges/0", "ab"));
  expect(Code::kInvalidModel, "two tokens", changed("/model/merges/0", json::array({"a"})));
  expect(Code::kInvalidModel, "not in the vocabulary", changed("/model/merges/0", "a q"));
  expect(Code::kInvalidModel, "'fuse_unk'", changed("/model/fuse_unk", 1));
  expect(Code::kInvalidModel, "'added_tokens' must be an array", changed("/added_tokens", "x"));
  expect(Code::kInvalidModel, "'id'", changed("/added_tokens/0/id", -5));
  expect(Code::kInvalidModel, "'content' is missing", changed("/added_tokens/0", json{{"id", 9}}));
  expect(Code::kUnsupported, "'Nothing'", changed("/normalizer", json{{"type", "Nothing"}}));
  expect(Code::kUnsupported, "(?~",
         changed("/pre_tokenizer",
                 json{{"type", "Split"}, {"pattern", {{"Regex", "(?~a)"}}}, {"behavior", "Isolated"}}));
  expect(Code::kInvalidModel, "unk_id", R"({"model":{"type":"Unigram","unk_id":3,"vocab":[["a",0.5]]}})");
  expect(Code::kInvalidModel, "score", R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["a"]]}})");
}

TEST(TokenizeService, AnswersRequests) {
  const auto t = ParseTokenizerJson(SmallTokenizer().dump());
  EXPECT_EQ(AnswerTokenize(*t, R"({"text":"ab"})"), R"({"ids":[9,5]})");
  EXPECT_EQ(AnswerTokenize(*t, R"({"text":"ab","special":false})"), R"({"ids":[5]})");
  EXPECT_EQ(json::parse(AnswerTokenize(*t, R"({"text":"a","pair":"ab"})")),
            (json{{"ids", {3, 5}}, {"type_ids", {0, 1}}}));
  EXPECT_EQ(AnswerDetokenize(*t, R"({"ids":[9,5],"skip_special":true})"), R"({"text":"ab"})");
  EXPECT_EQ(json::parse(AnswerDetokenize(*t, R"({"ids":[6,7,8]})")), (json{{"text", "日"}}));
  for (const char* bad :
       {"", "[]", "{", R"({"text":1})", R"({})", R"({"text":"a","special":1})", R"({"text":"a","pair":null})",
        R"({"text":"\ud800"})", R"({"text":[[[[[[[[[[[[]]]]]]]]]]]]})"}) {
    EXPECT_EQ(json::parse(AnswerTokenize(*t, bad))["error"]["code"], "invalid_input") << bad;
  }
  for (const char* bad : {R"({"ids":1})", R"({"ids":[-1]})", R"({"ids":[1.5]})", R"({"ids":[99999999999]})",
                          R"({"ids":["a"]})"}) {
    EXPECT_EQ(json::parse(AnswerDetokenize(*t, bad))["error"]["code"], "invalid_input") << bad;
  }
  std::istringstream in("{\"text\":\"a\"}\n\n{\"text\":\"\xFF\"}\nx\n");
  std::ostringstream out;
  AnswerLines(in, out, [&](std::string_view line) { return AnswerTokenize(*t, line); });
  std::istringstream lines(out.str());
  std::vector<json> answers;
  for (std::string line; std::getline(lines, line);) answers.push_back(json::parse(line));
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(answers[0]["ids"], (json{9, 3}));
  EXPECT_EQ(answers[1]["ids"], (json{9, 0}));
  EXPECT_TRUE(answers[2].contains("error"));
}

}  // namespace
}  // namespace ullage::llm
