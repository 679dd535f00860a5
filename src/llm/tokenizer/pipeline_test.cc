// Normalizers, pre-tokenizers, post-processors and decoders. Expected values: tokenizers 0.23.3.
#include "llm/tokenizer/decoder.h"
#include "llm/tokenizer/normalizer.h"
#include "llm/tokenizer/post_processor.h"
#include "llm/tokenizer/pre_tokenizer.h"
#include "llm/tokenizer/test_support.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

using nlohmann::json;

std::string Normalize(const char* config, std::string text) {
  NormalText t{std::move(text), true, 1 << 20};
  BuildNormalizer(json::parse(config))->Apply(t);
  return t.text;
}

TEST(Normalizer, EachType) {
  EXPECT_EQ(Normalize(R"({"type":"NFC"})", "e\u0301"), "é");
  EXPECT_EQ(Normalize(R"({"type":"NFKD"})", "ﬁ"), "fi");
  EXPECT_EQ(Normalize(R"({"type":"Lowercase"})", "ÀİΣ"), "ài̇σ");
  EXPECT_EQ(Normalize(R"({"type":"StripAccents"})", "e\u0301é"), "eé");
  EXPECT_EQ(Normalize(R"({"type":"Strip","strip_left":true,"strip_right":false})", "\u2003 a "), "a ");
  EXPECT_EQ(Normalize(R"({"type":"Replace","pattern":{"String":" "},"content":"▁"})", " a  b"), "▁a▁▁b");
  EXPECT_EQ(Normalize(R"({"type":"Replace","pattern":{"Regex":" {2,}"},"content":"▁"})", " a   b"), " a▁b");
  EXPECT_EQ(Normalize(R"({"type":"Replace","pattern":{"Regex":"x*"},"content":"-"})", "axb"), "-a-b-");
  EXPECT_EQ(Normalize(R"({"type":"Prepend","prepend":"▁"})", "a"), "▁a");
  EXPECT_EQ(Normalize(R"({"type":"Prepend","prepend":"▁"})", ""), "");
  EXPECT_EQ(Normalize(R"({"type":"ByteLevel"})", "é a"), "Ã©Ġa");
  EXPECT_EQ(Normalize(R"({"type":"Nmt"})", "a\u200Bb\x01▁"), "a b ");
  EXPECT_EQ(
      Normalize(
          R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true})",
          "Hé\tL\u00AD中文"),
      "he l 中  文 ");
  EXPECT_EQ(
      Normalize(
          R"({"type":"Sequence","normalizers":[{"type":"NFD"},{"type":"StripAccents"},{"type":"Lowercase"}]})",
          "ÉÀ"),
      "ea");
  EXPECT_EQ(BuildNormalizer(json()), nullptr);
}

TEST(Normalizer, Errors) {
  ExpectError(Code::kUnsupported, "'Foo'", [] { BuildNormalizer({{"type", "Foo"}}); });
  ExpectError(Code::kInvalidModel, "'type' is missing", [] { BuildNormalizer(json::object()); });
  ExpectError(Code::kInvalidModel, "'prepend' must be a string", [] {
    BuildNormalizer({{"type", "Prepend"}, {"prepend", 1}});
  });
  ExpectError(Code::kInvalidModel, "base64", [] {
    BuildNormalizer({{"type", "Precompiled"}, {"precompiled_charsmap", "***"}});
  });
  ExpectError(Code::kInvalidModel, "character map", [] {
    BuildNormalizer({{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}});
  });
  json chain = {{"type", "Sequence"}, {"normalizers", json::array()}};
  for (int i = 0; i < 60; ++i) {
    chain["normalizers"].push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  }
  NormalText text{"a", true, 1 << 20};
  ExpectError(Code::kInvalidInput, "more than", [&] { BuildNormalizer(chain)->Apply(text); });
}

std::vector<std::string> Cut(const char* config, std::string text, bool from_start = true) {
  Pieces pieces, spare;
  pieces.AddText(text);
  pieces.from_start = from_start;
  pieces.limit = 1 << 20;
  BuildPreTokenizer(json::parse(config))->Apply(pieces, spare);
  std::vector<std::string> out;
  for (const auto& span : pieces.spans) out.emplace_back(pieces.Text(span));
  return out;
}
using Parts = std::vector<std::string>;

TEST(PreTokenizer, SplitBehaviours) {
  const auto split = [](const std::string& behavior, const char* invert) {
    return Cut((R"({"type":"Split","pattern":{"String":"-"},"behavior":")" + behavior + R"(","invert":)" +
                invert + "}")
                   .c_str(),
               "the-final--countdown");
  };
  EXPECT_EQ(split("Removed", "false"), (Parts{"the", "final", "countdown"}));
  EXPECT_EQ(split("Isolated", "false"), (Parts{"the", "-", "final", "-", "-", "countdown"}));
  EXPECT_EQ(split("MergedWithPrevious", "false"), (Parts{"the-", "final-", "-", "countdown"}));
  EXPECT_EQ(split("MergedWithNext", "false"), (Parts{"the", "-final", "-", "-countdown"}));
  EXPECT_EQ(split("Contiguous", "false"), (Parts{"the", "-", "final", "--", "countdown"}));
  EXPECT_EQ(split("Removed", "true"), (Parts{"-", "-", "-"}));
  EXPECT_EQ(split("MergedWithNext", "true"), (Parts{"the-", "final-", "-", "countdown"}));
}

TEST(PreTokenizer, EachType) {
  EXPECT_EQ(Cut(R"({"type":"ByteLevel","add_prefix_space":false})", "Hello my é\n\n x"),
            (Parts{"Hello", "Ġmy", "ĠÃ©", "ĊĊ", "Ġx"}));
  EXPECT_EQ(Cut(R"({"type":"ByteLevel"})", "a b"), (Parts{"Ġa", "Ġb"}));
  EXPECT_EQ(Cut(R"({"type":"ByteLevel","use_regex":false})", "a b"), (Parts{"ĠaĠb"}));
  EXPECT_EQ(Cut(R"({"type":"Metaspace","replacement":"▁"})", "Hey  friend"), (Parts{"▁Hey", "▁", "▁friend"}));
  EXPECT_EQ(
      Cut(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":false})", "a b", false),
      (Parts{"a▁b"}));
  EXPECT_EQ(Cut(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":false})", "a b"),
            (Parts{"▁a▁b"}));
  EXPECT_EQ(Cut(R"({"type":"Metaspace","replacement":"▁","add_prefix_space":false})", "a b"),
            (Parts{"a", "▁b"}));
  EXPECT_EQ(Cut(R"({"type":"Whitespace"})", "Hey man!?  ok½"), (Parts{"Hey", "man", "!?", "ok", "½"}));
  EXPECT_EQ(Cut(R"({"type":"WhitespaceSplit"})", " a\u3000b!"), (Parts{"a", "b!"}));
  EXPECT_EQ(Cut(R"({"type":"BertPreTokenizer"})", "Hey, (x)"), (Parts{"Hey", ",", "(", "x", ")"}));
  EXPECT_EQ(Cut(R"({"type":"Digits","individual_digits":true})", "a12b"), (Parts{"a", "1", "2", "b"}));
  EXPECT_EQ(Cut(R"({"type":"Digits","individual_digits":false})", "a12b"), (Parts{"a", "12", "b"}));
  EXPECT_EQ(Cut(R"({"type":"Punctuation"})", "a!?b"), (Parts{"a", "!", "?", "b"}));
  EXPECT_EQ(Cut(R"({"type":"Punctuation","behavior":"Contiguous"})", "a!?b"), (Parts{"a", "!?", "b"}));
  EXPECT_EQ(Cut(R"({"type":"CharDelimiterSplit","delimiter":"e"})", "theexe"), (Parts{"th", "x"}));
  EXPECT_EQ(Cut(R"({"type":"FixedLength","length":2})", "aéb日c"), (Parts{"aé", "b日", "c"}));
  EXPECT_EQ(
      Cut(R"({"type":"Sequence","pretokenizers":[{"type":"WhitespaceSplit"},{"type":"Metaspace","replacement":"▁"}]})",
          "a b"),
      (Parts{"▁a", "▁b"}));
}

TEST(PreTokenizer, Errors) {
  ExpectError(Code::kUnsupported, "'UnicodeScripts'", [] {
    BuildPreTokenizer({{"type", "UnicodeScripts"}});
  });
  ExpectError(Code::kUnsupported, "'Sideways'", [] {
    BuildPreTokenizer({{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Sideways"}});
  });
  ExpectError(Code::kInvalidModel, "one character", [] {
    BuildPreTokenizer({{"type", "Metaspace"}, {"replacement", "ab"}});
  });
  json chain = {{"type", "Sequence"}, {"pretokenizers", json::array()}};
  for (int i = 0; i < 40; ++i)
    chain["pretokenizers"].push_back({{"type", "ByteLevel"}, {"use_regex", false}});
  Pieces pieces, spare;
  pieces.AddText("é");
  pieces.limit = 1 << 20;
  ExpectError(Code::kInvalidInput, "more than", [&] { BuildPreTokenizer(chain)->Apply(pieces, spare); });
}

struct Sink final : TokenSink {
  void Text(std::string_view part) override {
    EXPECT_TRUE(IsValidUtf8(part));
    text += part;
  }
  void EndToken() override {}
  void Finish() override { finished = true; }
  std::string text;
  bool finished = false;
};

std::string Decode(const char* config, const Parts& tokens) {
  const DecodeSteps steps = BuildDecoder(json::parse(config));
  Sink sink;
  std::vector<std::unique_ptr<DecodeStage>> stages;
  TokenSink* next = &sink;
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    stages.push_back((*step)->NewStage(*next));
    next = stages.back().get();
  }
  for (const std::string& t : tokens) {
    next->Text(t);
    next->EndToken();
  }
  next->Finish();
  EXPECT_TRUE(sink.finished);
  return sink.text;
}

TEST(Decoder, EachType) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(Decode("null", {"a", "", "b"}), "a  b");
  EXPECT_EQ(Decode(R"({"type":"ByteLevel"})", {"Ġa", "Ã", "©", "Ã", "日"}), " aé" + r + "日");
  EXPECT_EQ(Decode(R"({"type":"ByteFallback"})",
                   {"<0xE6>", "<0x97>", "<0xA5>", "a", "<0xE6>", "<0x97>", "b", "<0x41>", "<0xFF>"}),
            "日a" + r + r + "b" + r + r);
  EXPECT_EQ(Decode(R"({"type":"ByteFallback"})", {"<0x+A>", "<0xgg>"}), "\n<0xgg>");
  EXPECT_EQ(Decode(R"({"type":"Metaspace","replacement":"▁"})", {"▁a▁", "▁b"}), "a b");
  EXPECT_EQ(Decode(R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"never"})", {"▁a", "▁b"}),
            " a b");
  EXPECT_EQ(Decode(R"({"type":"Replace","pattern":{"String":"▁"},"content":" "})", {"▁a▁", "▁"}), " a  ");
  EXPECT_EQ(Decode(R"({"type":"Replace","pattern":{"Regex":"[ab]+"},"content":"-"})", {"abc", "a"}), "-c-");
  EXPECT_EQ(Decode(R"({"type":"Strip","content":" ","start":1,"stop":1})", {"  a ", " b  "}), " ab ");
  EXPECT_EQ(Decode(R"({"type":"WordPiece","prefix":"##","cleanup":true})", {"##a", "##b", ".", "do", "not"}),
            "##ab. do not");
  EXPECT_EQ(Decode(R"({"type":"BPEDecoder","suffix":"</w>"})", {"a", "b</w>", "c</w>"}), "ab c");
  EXPECT_EQ(Decode(R"({"type":"CTC","pad_token":"<pad>","word_delimiter_token":"|","cleanup":true})",
                   {"h", "h", "<pad>", "h", "|", "|", "a"}),
            "hh a");
  EXPECT_EQ(
      Decode(
          R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})",
          {" ", " a"}),
      " a");
  EXPECT_EQ(Decode(R"({"type":"Fuse"})", {}), "");
}

TEST(Decoder, ByteRunsAreHeldOnlySoLong) {
  // 3000 bytes of UTF-8 and then a byte that is none: what was given out stays, the rest is replaced.
  const DecodeSteps steps = BuildDecoder({{"type", "ByteFallback"}});
  Sink sink;
  const auto stage = steps[0]->NewStage(sink);
  for (int i = 0; i < 3000; ++i) {
    stage->Text("<0x41>");
    stage->EndToken();
  }
  EXPECT_GT(sink.text.size(), 1500u);
  const std::string before = sink.text;
  stage->Text("<0xFF>");
  stage->EndToken();
  stage->Finish();
  EXPECT_EQ(sink.text.substr(0, before.size()), before);
  EXPECT_EQ(CountCodePoints(sink.text), 3001u);
}

TEST(Decoder, Errors) {
  ExpectError(Code::kUnsupported, "'Foo'", [] { BuildDecoder({{"type", "Foo"}}); });
  ExpectError(Code::kInvalidModel, "'start'", [] {
    BuildDecoder({{"type", "Strip"}, {"content", " "}, {"start", -1}, {"stop", 0}});
  });
  json chain = {{"type", "Sequence"}, {"decoders", json::array()}};
  for (int i = 0; i < 64; ++i) {
    chain["decoders"].push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}});
  }
  ExpectError(Code::kInvalidInput, "more than", [&] { Decode(chain.dump().c_str(), {"a"}); });
  chain["decoders"].push_back({{"type", "Fuse"}});
  ExpectError(Code::kInvalidModel, "64", [&] { BuildDecoder(chain); });
}

std::string Process(const json& config, std::vector<TokenRun> runs, bool special = true) {
  BuildPostProcessor(config)->Apply(runs, special);
  std::string out;
  for (const TokenRun& run : runs) {
    for (TokenId id : run.ids) out += std::to_string(id) + "/" + std::to_string(run.type_id) + " ";
  }
  return out;
}

TEST(PostProcessor, EachType) {
  const json pieces = json::parse(R"({"type":"TemplateProcessing",
    "single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],
    "pair":[{"Sequence":{"id":"A","type_id":1}},{"SpecialToken":{"id":"two","type_id":2}},{"Sequence":{"id":"B","type_id":3}}],
    "special_tokens":{"<s>":{"id":"<s>","ids":[1],"tokens":["<s>"]},"two":{"id":"two","ids":[8,9],"tokens":["x","y"]}}})");
  const TokenRun a{{5, 6}, 0}, b{{7}, 1};
  EXPECT_EQ(Process(pieces, {a}), "1/0 5/0 6/0 ");
  EXPECT_EQ(Process(pieces, {a}, false), "5/0 6/0 ");
  EXPECT_EQ(Process(pieces, {a, b}), "5/1 6/1 8/2 9/2 7/3 ");
  json bert = {{"type", "BertProcessing"}, {"cls", {"[CLS]", 1}}, {"sep", {"[SEP]", 2}}};
  EXPECT_EQ(Process(bert, {a, b}), "1/0 5/0 6/0 2/0 7/1 2/1 ");
  bert["type"] = "RobertaProcessing";
  EXPECT_EQ(Process(bert, {a, b}), "1/0 5/0 6/0 2/0 2/0 7/0 2/0 ");
  EXPECT_EQ(BuildPostProcessor({{"type", "ByteLevel"}}), nullptr);
  EXPECT_EQ(Process({{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, pieces}}}, {a}),
            "1/0 5/0 6/0 ");
}

TEST(PostProcessor, Errors) {
  ExpectError(Code::kUnsupported, "'Foo'", [] { BuildPostProcessor({{"type", "Foo"}}); });
  ExpectError(Code::kInvalidModel, "not among special_tokens", [] {
    BuildPostProcessor(json::parse(
        R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x","type_id":0}}],"pair":[]})"));
  });
  ExpectError(Code::kInvalidModel, "neither A nor B", [] {
    BuildPostProcessor(json::parse(
        R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"C","type_id":0}}],"pair":[]})"));
  });
  ExpectError(Code::kInvalidModel, "'sep'", [] {
    BuildPostProcessor({{"type", "BertProcessing"}, {"cls", {"a", 1}}, {"sep", {"b", -1}}});
  });
}

}  // namespace
}  // namespace ullage::llm
