// Renders the stored vectors of tests/templates/vectors.jsonl (made with jinja2 by make_vectors.py) and the
// zoo's.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "llm/template/template_service.h"
#include "ullage/error.h"

namespace ullage::llm {
namespace {

using Json = nlohmann::ordered_json;

std::vector<Json> ReadLines(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<Json> rows;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) rows.push_back(Json::parse(line));
  }
  return rows;
}

/// Compares with what the reference gave: the text, or that it failed (and its message if the template raised
/// it).
void Check(const Json& row, const std::string& text_key, const std::string& template_text,
           const Json& variables, const RenderOptions& options) {
  SCOPED_TRACE(row["name"].get<std::string>() + ": " + template_text);
  std::string text;
  try {
    text = Template::Parse(template_text).Render(variables, options);
  } catch (const Error& e) {
    ASSERT_TRUE(row.contains("error")) << "failed: " << e.message() << "\nexpected: " << row[text_key];
    if (row["error"]["type"] == "TemplateError") {
      EXPECT_EQ(e.message(), row["error"]["message"].get<std::string>());
      EXPECT_NE(e.details_json().find("\"raised\":true"), std::string::npos);
    }
    return;
  }
  ASSERT_TRUE(row.contains(text_key)) << "must fail: " << row["error"] << "\ngot: " << text;
  EXPECT_EQ(text, row[text_key].get<std::string>());
}

TEST(TemplateVectors, SnippetsRenderAsJinjaDoes) {
  const std::vector<Json> rows = ReadLines(std::string(ULLAGE_SOURCE_DIR) + "/tests/templates/vectors.jsonl");
  ASSERT_GT(rows.size(), 350u);
  RenderOptions options;
  options.now = LocalTime::Parse(rows[0]["now"].get<std::string>());
  // Integers beyond 64 bits, and a macro that reads the variable of a loop that has ended.
  const std::set<std::string> unsupported = {"literals/016", "expressions/049", "expressions/050",
                                             "statements/043"};
  size_t refused = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    const Json& row = rows[i];
    const auto source = row["template"].get<std::string>();
    if (unsupported.contains(row["name"].get<std::string>())) {
      ++refused;
      try {
        Template::Parse(source).Render(rows[0]["variables"], options);
        ADD_FAILURE() << "must be refused: " << source;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::kUnsupported) << e.message();
      }
      continue;
    }
    Check(row, "text", source, rows[0]["variables"], options);
  }
  EXPECT_EQ(refused, unsupported.size());
}

TEST(TemplateVectors, ZooChats) {
  const char* shared = std::getenv("ULLAGE_SHARED");
  const std::string folder =
      (shared != nullptr ? std::string(shared) : std::string(ULLAGE_SOURCE_DIR) + "/../shared") +
      "/data/zoo/chat-templates";
  const std::vector<Json> rows = ReadLines(folder + "/ref/chat.jsonl");
  if (rows.empty()) GTEST_SKIP() << "no " << folder;
  std::ifstream meta(folder + "/meta.json");
  RenderOptions options;
  options.now = LocalTime::Parse(Json::parse(meta)["now"].get<std::string>());
  for (const Json& row : rows) {
    ChatRequest request;
    request.messages = row["messages"];
    request.add_generation_prompt = false;
    request.variables = row["kwargs"];
    Check(row, "rendered", row["template"].get<std::string>(), ChatVariables(ChatSource(), request), options);
  }
}

}  // namespace
}  // namespace ullage::llm
