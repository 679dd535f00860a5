#include "llm/template/chat_prompt.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "llm/template/json_value.h"
#include "llm/template/template_service.h"
#include "ullage/error.h"

namespace ullage::llm {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

class ChatFolder : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = fs::temp_directory_path() / ("ullage_chat_" + std::to_string(getpid()) + "_" + info->name());
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((dir_ / name).parent_path());
    std::ofstream(dir_ / name, std::ios::binary) << text;
  }
  ChatSource Read() const { return ReadChatSource(dir_.string()); }
  std::string Chosen(bool with_tools = false) const {
    const ChatSource source = Read();
    const ChatSource::Named* t = source.Choose(with_tools);
    return t == nullptr ? "none" : t->source;
  }
  fs::path dir_;
};

TEST_F(ChatFolder, TemplateFilesWinOverTheConfiguration) {
  EXPECT_EQ(Chosen(), "none");
  Write("tokenizer_config.json", R"({"chat_template": "config"})");
  EXPECT_EQ(Chosen(), "config");
  Write("chat_template.json", R"({"chat_template": "json"})");
  EXPECT_EQ(Chosen(), "json");
  Write("chat_template.jinja", "jinja");
  EXPECT_EQ(Chosen(), "jinja");
  EXPECT_EQ(Chosen(true), "jinja");
  Write("additional_chat_templates/tool_use.jinja", "tools");
  Write("additional_chat_templates/notes.txt", "no template");
  EXPECT_EQ(Chosen(), "jinja");
  EXPECT_EQ(Chosen(true), "tools");
  EXPECT_EQ(Read().templates.size(), 2u);
}

TEST_F(ChatFolder, NamedTemplatesInTheConfiguration) {
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "default", "template": "d"},
      {"name": "tool_use", "template": "t"}, {"name": "rag", "template": "r"}]})");
  EXPECT_EQ(Chosen(), "d");
  EXPECT_EQ(Chosen(true), "t");
  Write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "r"}]})");
  EXPECT_EQ(Chosen(), "r");
  Write("tokenizer_config.json",
        R"({"chat_template": [{"name": "a", "template": "r"}, {"name": "b", "template": "r"}]})");
  EXPECT_EQ(Chosen(), "none");
}

TEST_F(ChatFolder, SpecialTokens) {
  Write("tokenizer_config.json",
        R"({"bos_token": {"__type": "AddedToken", "content": "<s>"}, "eos_token": "</s>",
      "pad_token": null, "additional_special_tokens": ["<a>", {"content": "<b>"}],
      "extra_special_tokens": {"image_token": "<image>"}})");
  Write("special_tokens_map.json",
        R"({"bos_token": "other", "unk_token": {"content": "<unk>", "lstrip": false}})");
  EXPECT_EQ(Read().special_tokens, Json({{"bos_token", "<s>"},
                                         {"eos_token", "</s>"},
                                         {"additional_special_tokens", {"<a>", "<b>"}},
                                         {"image_token", "<image>"},
                                         {"unk_token", "<unk>"}}));
  Write("chat_template.jinja",
        "{{ bos_token }}{{ pad_token is defined }}{{ unk_token }}{{ messages[0].content }}");
  ChatRequest request;
  request.messages = {{{"role", "user"}, {"content", "hi"}}};
  EXPECT_EQ(ApplyChatTemplate(Read(), request), "<s>False<unk>hi");
  request.variables["bos_token"] = "<mine>";
  EXPECT_EQ(ApplyChatTemplate(Read(), request), "<mine>False<unk>hi");
}

TEST_F(ChatFolder, BrokenFiles) {
  Write("tokenizer_config.json", "{");
  EXPECT_THROW(Read(), Error);
  Write("tokenizer_config.json", "[]");
  EXPECT_THROW(Read(), Error);
  Write("tokenizer_config.json", R"({"chat_template": 5})");
  try {
    Read();
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInvalidModel);
    EXPECT_NE(e.message().find("tokenizer_config.json"), std::string::npos);
  }
}

TEST_F(ChatFolder, NoTemplate) {
  Write("tokenizer_config.json", "{}");
  try {
    ApplyChatTemplate(Read(), ChatRequest());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kInvalidInput);
    EXPECT_NE(e.message().find("no chat template"), std::string::npos);
    EXPECT_NE(e.message().find("--raw"), std::string::npos);
    EXPECT_NE(e.message().find("--template"), std::string::npos);
  }
}

std::string Apply(const std::string& source, const Json& messages, bool adapt = true) {
  ChatRequest request;
  request.messages = messages;
  request.adapt = adapt;
  return ApplyChatTemplate(MakeChatSource("t", source), request);
}

const Json kText = {{{"role", "user"}, {"content", "hi"}}};
const Json kParts = {
    {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}}};

TEST(ChatPrompt, ContentsAreFittedToTheTemplate) {
  const std::string text_only = "{% for m in messages %}[{{ m.content }}]{% endfor %}";
  const std::string parts_only =
      "{% for m in messages %}{% for p in m.content %}{% if p.type == 'text' %}<{{ p.text }}>{% endif %}{% "
      "endfor %}{% endfor %}";
  const std::string both =
      "{% for m in messages %}{% if m.content is string %}[{{ m.content }}]{% else %}"
      "{% for p in m.content %}<{{ p.text }}>{% endfor %}{% endif %}{% endfor %}";
  EXPECT_EQ(Apply(text_only, kText), "[hi]");
  EXPECT_EQ(Apply(text_only, kParts), "[a\nb]");
  EXPECT_EQ(Apply(parts_only, kText), "<hi>");
  EXPECT_EQ(Apply(parts_only, kParts), "<a><b>");
  EXPECT_EQ(Apply(both, kText), "[hi]");
  EXPECT_EQ(Apply(both, kParts), "<a><b>");
  EXPECT_EQ(Apply(text_only, kParts, false),
            "[[{'type': 'text', 'text': 'a'}, {'type': 'text', 'text': 'b'}]]");
  EXPECT_EQ(Apply(parts_only, kText, false), "");
}

TEST(ChatPrompt, SystemMessageThatIsRefused) {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
      "[{{ m.role }}:{{ m.content }}]{% endfor %}";
  const Json chat = {{{"role", "system"}, {"content", "S"}}, {{"role", "user"}, {"content", "U"}}};
  EXPECT_EQ(Apply(source, chat), "[user:S\n\nU]");
  EXPECT_THROW(Apply(source, chat, false), Error);
  EXPECT_THROW(Apply(source, {{{"role", "system"}, {"content", "S"}}}), Error);
}

TEST(ChatPrompt, ReasoningHasItsNames) {
  const Json chat = {{{"role", "assistant"}, {"content", "c"}, {"reasoning", "r"}}};
  EXPECT_EQ(
      Apply("{{ messages[0].thinking }}{{ messages[0].reasoning_content }}{{ messages[0].keys() | list }}",
            chat),
      "rr['thinking', 'role', 'content', 'reasoning', 'reasoning_content']");
}

TEST(ChatPrompt, Defaults) {
  ChatRequest request;
  request.now = LocalTime::Parse("2026-01-05");
  EXPECT_EQ(ApplyChatTemplate(
                MakeChatSource("t",
                               "{{ tools }}{{ documents }}{{ add_generation_prompt }}{{ x is defined }}"
                               "{{ strftime_now('%d %b') }}"),
                request),
            "NoneNoneTrueFalse05 Jan");
}

TEST(TemplateService, Answers) {
  const ChatSource source = MakeChatSource(
      "model", "M{{ messages[0].content }}{{ add_generation_prompt }}{{ q }}", {{"bos_token", "<s>"}});
  EXPECT_EQ(AnswerTemplate(source, R"({"messages":[{"role":"user","content":"é\n"}],"q":1})"),
            R"({"text":"Mé\nFalse1"})");
  EXPECT_EQ(
      AnswerTemplate(
          source,
          R"({"messages":[],"template":"{{ bos_token }}{{ strftime_now('%H:%M') }}","now":"2026-01-05T08:07:09"})"),
      R"({"text":"<s>08:07"})");
  EXPECT_EQ(
      AnswerTemplate(source, R"({"messages":[],"bos_token":"<o>","template":"{{ bos_token }}{{ tools }}"})"),
      R"({"text":"<o>None"})");
  EXPECT_EQ(AnswerTemplate(source, R"({"messages":[],"template":"{{ raise_exception('é\"') }}"})"),
            R"({"error":{"code":"invalid_input","message":"é\""}})");
  for (const char* bad :
       {"", "[]", "{", R"({"messages":5})", R"({"messages":[],"now":"x"})", R"({"messages":[],"now":5})",
        R"({"messages":[],"template":5})", R"({"messages":[],"template":"{{"})"}) {
    const Json answer = Json::parse(AnswerTemplate(source, bad));
    EXPECT_EQ(answer["error"]["code"], "invalid_input") << bad;
  }
  const Json big =
      Json::parse(AnswerTemplate(source, R"({"messages":[],"q":123456789012345678901234567890})"));
  EXPECT_EQ(big["error"]["code"], "unsupported");
  std::istringstream in("{\"messages\":[{\"content\":1}]}\n\nbroken\n{\"messages\":[{\"content\":2}]}\n");
  std::ostringstream out;
  AnswerTemplateLines(source, in, out);
  const std::string lines = out.str();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  EXPECT_NE(lines.find("{\"text\":\"M2False\"}"), std::string::npos);
}

TEST(ParseJson, KeepsOrderAndNumbers) {
  const Json json =
      ParseJson(R"({"z":[1,-2,3.5,1e2,true,null,"s"],"a":{"b":{}},"z2":18446744073709551615})", "x");
  EXPECT_EQ(json.dump(), R"({"z":[1,-2,3.5,100.0,true,null,"s"],"a":{"b":{}},"z2":18446744073709551615})");
  EXPECT_EQ(ParseJson(R"({"a":1,"b":2,"a":3})", "x").dump(), R"({"a":3,"b":2})");
  for (const char* bad : {"", "[1", "{\"a\"}", "nan", "[1] 2", "\"\\ud800\"", "1e999"})
    EXPECT_THROW(ParseJson(bad, "x"), Error);
  EXPECT_THROW(ParseJson(std::string(100000, '['), "x"), Error);
}

}  // namespace
}  // namespace ullage::llm
