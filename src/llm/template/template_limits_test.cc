// What a hostile template or hostile variables may not do: crash, hang, or take memory without end.
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <thread>

#include "llm/template/chat_template.h"
#include "ullage/error.h"

namespace ullage::llm {
namespace {

using Json = nlohmann::ordered_json;

std::string Repeat(const std::string& s, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += s;
  return out;
}

/// The error that rendering ends in; fails the test if there is none or if it takes long.
Error RenderError(const std::string& source, const Json& variables = Json::object(),
                  RenderOptions options = {}) {
  const std::clock_t begin = std::clock();
  try {
    const std::string text = Template::Parse(source, "t").Render(variables, options);
    ADD_FAILURE() << "rendered " << text.size() << " bytes: " << source.substr(0, 200);
  } catch (const Error& e) {
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 30.0) << source.substr(0, 200);
    return e;
  }
  return Error(Code::kRuntime, "no error");
}

TEST(TemplateLimits, NestedBrackets) {
  for (const std::string open : {"(", "[", "{'a':", "-", "not ", "[[", "x[", "f(", "1 if 1 else ", "x|f("}) {
    EXPECT_EQ(RenderError("{{ " + Repeat(open, 100000)).code(), Code::kInvalidInput) << open;
  }
  EXPECT_EQ(RenderError("{{ " + Repeat("(", 100000) + "1" + Repeat(")", 100000) + " }}").code(),
            Code::kInvalidInput);
}

TEST(TemplateLimits, LongChains) {
  for (const std::string link :
       {" + 1", ".a", "[0]", "|string", " and 1", " ** 1", "()", " is string", " == 1"}) {
    const std::string source = "{{ 1" + Repeat(link, 100000) + " }}";
    try {
      Template::Parse(source).Render(Json::object());  // some chains are flat and fine
    } catch (const Error&) {
    }
  }
  EXPECT_EQ(Template::Parse("{{ 'a'" + Repeat(" ~ 'a'", 50000) + " }}").Render(Json::object()).size(),
            50001u);
}

TEST(TemplateLimits, NestedBlocks) {
  for (const std::string open :
       {"{% if 1 %}", "{% for i in [1] %}", "{% macro m() %}", "{% filter upper %}", "{% set x %}",
        "{% with a = 1 %}", "{% generation %}", "{% if 1 %}a{% else %}"}) {
    EXPECT_EQ(RenderError(Repeat(open, 100000)).code(), Code::kInvalidInput) << open;
  }
  const std::string chain = "{% if 0 %}" + Repeat("{% elif 0 %}", 20000) + "{% else %}x{% endif %}";
  EXPECT_EQ(Template::Parse(chain).Render(Json::object()), "x");
}

TEST(TemplateLimits, Loops) {
  EXPECT_NE(RenderError("{% for i in range(10**9) %}{% endfor %}").message().find("Range too big"),
            std::string::npos);
  RenderOptions options;
  options.max_steps = 2'000'000;
  const std::string loop = "{% for i in range(100000) %}";
  const Error e =
      RenderError(loop + loop + loop + "x{% endfor %}{% endfor %}{% endfor %}", Json::object(), options);
  EXPECT_NE(e.message().find("steps"), std::string::npos) << e.message();
}

TEST(TemplateLimits, Memory) {
  RenderOptions options;
  options.max_memory_bytes = size_t{16} << 20;
  const char* sources[] = {
      "{% set ns = namespace(x='abcdefgh') %}{% for i in range(100) %}{% set ns.x = ns.x ~ ns.x %}{% endfor "
      "%}",
      "{% set ns = namespace(x=[1]) %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
      "{{ 'x' * 10**12 }}",
      "{{ ([0] * 10**12) | length }}",
      "{{ 'x'.center(10**12) }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '{:1000000000}'.format(1) }}",
      "{{ 'a\\tb'.expandtabs(10**12) }}",
      "{{ ('x' * 1000000).replace('', 'y' * 1000) }}",
      "{{ ('x' * 1000000) | list | length }}",
      "{{ [1] | batch(10**12, 0) | list }}",
      "{{ [1] | slice(10**12) | list }}",
      "{{ 'a' | indent(10**12) }}",
      "{% set ns = namespace(x=[]) %}{% for i in range(900000) %}{% set ns.x = [ns.x, 'some text ' ~ i] %}{% "
      "endfor %}",
      "{% for i in range(100000) %}{{ 'x' * 10000 }}{% endfor %}",
  };
  for (const char* source : sources) {
    const Error e = RenderError(source, Json::object(), options);
    EXPECT_EQ(e.code(), Code::kInvalidInput) << source << ": " << e.message();
  }
}

TEST(TemplateLimits, Output) {
  RenderOptions options;
  options.max_output_bytes = 1000;
  EXPECT_NE(RenderError("{% for i in range(1001) %}x{% endfor %}", Json::object(), options)
                .message()
                .find("1000 bytes"),
            std::string::npos);
  EXPECT_EQ(Template::Parse("{% for i in range(1000) %}x{% endfor %}").Render(Json::object(), options).size(),
            1000u);
}

TEST(TemplateLimits, Recursion) {
  RenderError("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
  RenderError(
      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{% call a() %}{% endcall %}{% endmacro %}{{ b() "
      "}}");
  RenderError("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}");
  const std::string deep = Repeat("[", 400) + Repeat("]", 400);
  RenderError("{% macro m(n) %}{{ n }}{{ m(n) ~ (((((((((((m(n))))))))))) }}{% endmacro %}{{ m(1) }}",
              Json::parse("{\"a\":" + deep + "}"));
  EXPECT_EQ(
      Template::Parse("{% macro m(n) %}{% if n %}{{ n }},{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(150) }}")
          .Render(Json::object())
          .substr(0, 8),
      "150,149,");
}

TEST(TemplateLimits, ValuesThatNestWithoutEnd) {
  const char* bodies[] = {
      "{% set ns.x = [ns.x] %}",
      "{% set ns.x = {'a': ns.x} %}",
      "{% set ns.x = namespace(x=ns.x) %}",
      "{% set ns.x = [ns.x] | map('string') %}",
      "{% set ns.x = ns.x | default([]) | select %}",
      "{% set ns.x = [1] | map('default', ns.x) %}",
      "{% macro m(v) %}{% macro inner() %}{{ v }}{% endmacro %}{% set ns.x = inner %}{% endmacro %}{{ "
      "m(ns.x) }}",
      "{% for q in [ns.x] %}{% set ns.x = loop %}{% endfor %}",
      "{% for q in [ns.x] %}{% set ns.x = loop.changed %}{{ loop.changed(ns.x) }}{% endfor %}",
      "{% set ns.x = joiner(ns.x) %}",
      "{% set ns.x = cycler(ns.x) %}",
  };
  for (const char* body : bodies) {
    SCOPED_TRACE(body);
    const std::string source =
        "{% set ns = namespace(x=[]) %}{% for i in range(30000) %}" + std::string(body) + "{% endfor %}";
    RenderOptions options;
    options.max_memory_bytes = size_t{1} << 30;
    EXPECT_NO_THROW(Template::Parse(source).Render(Json::object(), options));
    EXPECT_NO_THROW(Template::Parse(source + "{% set ns.x = 0 %}").Render(Json::object(), options));
    EXPECT_THROW(Template::Parse(source + "{{ ns.x | list }}{{ ns.x }}{{ ns.x == [ns.x] }}{{ 1 / 0 }}")
                     .Render(Json::object(), options),
                 Error);
  }
}

TEST(TemplateLimits, Cycles) {
  for (const char* source :
       {"{% set ns = namespace() %}{% set ns.ns = ns %}{% set ns.l = [ns, {'a': ns}] %}ok",
        "{% set ns = namespace() %}{% macro m() %}{% endmacro %}{% set ns.m = m %}ok",
        "{% set ns = namespace() %}{% for i in [1] %}{% set ns.l = loop %}{% endfor %}ok",
        "{% for i in [1] %}{% if loop.changed(loop) %}ok{% endif %}{% endfor %}"}) {
    EXPECT_EQ(Template::Parse(source).Render(Json::object()), "ok");
  }
  RenderError("{% set ns = namespace() %}{% set ns.ns = ns %}{{ ns }}");
  RenderError(
      "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x == [namespace(x=ns.x)] }}{{ ns.x | string }}");
}

TEST(TemplateLimits, DeepVariables) {
  Json deep = Json::array();
  for (int i = 0; i < 20000; ++i) deep = Json::array({std::move(deep)});
  EXPECT_EQ(RenderError("{{ x }}", {{"x", std::move(deep)}}).code(), Code::kInvalidInput);
}

TEST(TemplateLimits, SlowSearches) {
  RenderOptions options;
  options.max_steps = 5'000'000;
  const Json variables = {{"a", std::string(2'000'000, 'a')}, {"b", std::string(1'000'000, 'a') + "b"}};
  const std::clock_t begin = std::clock();
  EXPECT_EQ(
      Template::Parse("{{ b in a }}{{ a.find(b) }}{{ a.rfind(b) }}{{ a.count(b) }}{{ a.rsplit(b) | length }}"
                      "{{ a.strip(b) }}{{ a.replace(b, '') | length }}{{ a.split(b) | length }}")
          .Render(variables, options),
      "False-1-101" + std::string() + "20000001");
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 20.0);
}

TEST(TemplateErrors, NameTheTemplateAndTheLine) {
  const auto message = [](const std::string& source) { return RenderError(source).message(); };
  EXPECT_EQ(message("a\n\n{{ x.y }}"), "t, line 3: 'x' is undefined");
  EXPECT_EQ(message("a\n{% for i in [1] %}\n{{ i.x.y }}{% endfor %}"),
            "t, line 3: 'int object' has no attribute 'x'");
  EXPECT_EQ(message("\n{% foo %}"), "t, line 2: Encountered unknown tag 'foo'.");
  EXPECT_EQ(message("\n\n{{ 1 | nope }}"), "t, line 3: No filter named 'nope'.");
  EXPECT_EQ(message("{% if 1 %}\n"),
            "t, line 1: Unexpected end of template: 'elif' is missing for the block 'if'");
  EXPECT_EQ(RenderError("\n{% include 'x' %}").code(), Code::kUnsupported);
  EXPECT_EQ(RenderError("{{ lipsum() }}").code(), Code::kUnsupported);
  EXPECT_EQ(RenderError("{{ [1] | random }}").code(), Code::kUnsupported);
  const Error raised = RenderError("\n{{ raise_exception('no \"system\" role') }}");
  EXPECT_EQ(raised.message(), "no \"system\" role");
  EXPECT_EQ(Json::parse(raised.details_json()), Json({{"template", "t"}, {"line", 2}, {"raised", true}}));
}

TEST(TemplateErrors, BadText) {
  EXPECT_EQ(RenderError("\xff").code(), Code::kInvalidInput);
  EXPECT_EQ(RenderError("{{ x }}", {{"x", "\xc3\x28"}}).code(), Code::kInvalidInput);
  EXPECT_EQ(RenderError("{{ '\\ud800' }}").code(), Code::kInvalidInput);
  EXPECT_EQ(Template::Parse("{{ '\\ud800' | length }}{{ '\\ud800' | tojson(true) }}").Render(Json::object()),
            "1\"\\ud800\"");
}

TEST(Template, RendersInManyThreads) {
  const Template t = Template::Parse(
      "{% set c = 'constant' %}{% macro m(x) %}[{{ x }}]{% endmacro %}{% for i in l %}{{ m(i) }}{{ c }}{% "
      "endfor %}");
  std::vector<std::string> texts(8);
  std::vector<std::thread> threads;
  for (size_t k = 0; k < texts.size(); ++k) {
    threads.emplace_back([&, k] {
      for (int n = 0; n < 50; ++n) texts[k] = t.Render({{"l", Json::array({k, "x"})}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t k = 0; k < texts.size(); ++k)
    EXPECT_EQ(texts[k], "[" + std::to_string(k) + "]constant[x]constant");
}

TEST(LocalTime, ReadsIso8601) {
  const LocalTime t = LocalTime::Parse("2024-02-29T23:59:58.250");
  EXPECT_EQ(t.year, 2024);
  EXPECT_EQ(t.month, 2);
  EXPECT_EQ(t.day, 29);
  EXPECT_EQ(t.hour, 23);
  EXPECT_EQ(t.second, 58);
  EXPECT_EQ(t.microsecond, 250000);
  EXPECT_EQ(LocalTime::Parse("2024-01-02").hour, 0);
  for (const char* bad :
       {"", "2024", "2023-02-29", "2024-13-01", "2024-01-01T24:00", "2024-01-01T10:00:00Z", "x"}) {
    EXPECT_THROW(LocalTime::Parse(bad), Error) << bad;
  }
}

}  // namespace
}  // namespace ullage::llm
