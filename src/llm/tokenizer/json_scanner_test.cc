#include "llm/tokenizer/json_scanner.h"

#include "llm/tokenizer/test_support.h"

namespace ullage::llm {
namespace {

std::string OneString(std::string_view text) {
  JsonScanner scanner(text, "t");
  std::string out(scanner.String());
  scanner.End();
  return out;
}

void SkipAll(std::string_view text) {
  JsonScanner scanner(text, "t");
  scanner.Skip();
  scanner.End();
}

TEST(JsonScanner, Strings) {
  EXPECT_EQ(OneString(R"("plain é")"), "plain é");
  EXPECT_EQ(OneString(R"(  "a\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00z" )"), "a\"\\/\b\f\n\r\té😀z");
  for (const char* bad : {R"("a)", R"("\x")", R"("\u12")", R"("\ud800")", R"("\ud800\u0041")", R"("\udc00")",
                          "\"a\nb\"", "\"\\"}) {
    ExpectError(Code::kInvalidModel, "t: JSON at byte", [&] { OneString(bad); });
  }
}

TEST(JsonScanner, WalksObjectsAndArrays) {
  JsonScanner scanner(R"({"a":[1,-2,3e0],"b":{"c":null},"d":[]})", "t");
  std::string seen;
  scanner.Object([&](std::string_view key) {
    seen += key;
    if (key == "a") {
      scanner.Array([&] { seen += std::to_string(static_cast<int>(scanner.Number())) + ","; });
    } else {
      seen += scanner.Skip();
    }
  });
  scanner.End();
  EXPECT_EQ(seen, R"(a1,-2,3,b{"c":null}d[])");
}

TEST(JsonScanner, RefusesBadGrammar) {
  for (const char* good : {"{}", "[ ]", "[1 , 2]", "true", "-0.5E+3", R"({"a":{"b":[false]}})"})
    EXPECT_NO_THROW(SkipAll(good));
  for (const char* bad : {"", "{", "[", "[1,]", "{\"a\"}", "{\"a\":}", "{a:1}", "tru", "01", "-", "1.", "1e",
                          "[1 2]", "{} x", "'a'", "\xC3"}) {
    ExpectError(Code::kInvalidModel, "t: JSON at byte", [&] { SkipAll(bad); });
  }
  ExpectError(Code::kInvalidModel, "nested", [] { SkipAll(std::string(100000, '[')); });
  JsonScanner scanner("1.5", "t");
  ExpectError(Code::kInvalidModel, "integer", [&] { scanner.Integer(); });
  JsonScanner huge("99999999999999999999", "t");
  ExpectError(Code::kInvalidModel, "integer", [&] { huge.Integer(); });
}

}  // namespace
}  // namespace ullage::llm
