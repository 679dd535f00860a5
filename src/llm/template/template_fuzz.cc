// Input: a template, then, behind the first zero byte, JSON with its variables.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "llm/template/chat_template.h"
#include "llm/template/json_value.h"
#include "ullage/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ullage::llm;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  RenderOptions options;
  options.now = LocalTime::Parse("2026-01-05T08:07:09");
  options.max_output_bytes = size_t{1} << 20;
  options.max_memory_bytes = size_t{16} << 20;
  options.max_steps = 100'000;
  try {
    nlohmann::ordered_json variables = nlohmann::ordered_json::object();
    if (zero != std::string_view::npos && zero + 1 < size)
      variables = ParseJson(input.substr(zero + 1), "variables");
    Template::Parse(input.substr(0, zero)).Render(variables, options);
  } catch (const ullage::Error&) {
  }
  return 0;
}
