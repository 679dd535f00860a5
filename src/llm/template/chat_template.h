/// Chat templates: the Jinja language as Hugging Face's libraries set it up (jinja2 3.1, immutable sandbox,
/// trim_blocks, lstrip_blocks, loop controls, the generation block, tojson without HTML escapes,
/// raise_exception, strftime_now). Rendered text equals jinja2's byte for byte; what this implementation
/// cannot do is an error, never other text. Not built: template inheritance and imports, autoescape, random,
/// urlize, lipsum, integers beyond 64 bits, values whose text holds an address (printing a function or a
/// generator).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace ullage::llm {

/// A date and time of day without a zone.
struct LocalTime {
  int year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0;
  int microsecond = 0;
  /// The clock in the local zone.
  static LocalTime Now();
  /// "2026-01-05T08:07:09", also with a space for T, a fraction, or the date alone. Throws kInvalidInput.
  static LocalTime Parse(std::string_view iso);
};

struct RenderOptions {
  LocalTime now = LocalTime::Now();
  size_t max_output_bytes = size_t{64} << 20;
  size_t max_memory_bytes = size_t{512} << 20;  ///< of the values alive at a time
  uint64_t max_steps = 50'000'000;              ///< evaluations, iterations, and 64-byte pieces of text
  int max_call_depth = 250;                     ///< nested macros and recursive loops
};

/// A parsed template. Immutable; any number of threads may render it at the same time. Cheap to copy.
class Template {
 public:
  /// Throws kInvalidInput (syntax; the message names the template and the line) or kUnsupported (a construct
  /// that is not built). `name` is used in messages only.
  static Template Parse(std::string_view source, std::string name = "template");

  /// `variables`: a JSON object, each member is a variable. Throws kInvalidInput or kUnsupported with the
  /// line; the message of the template's own raise_exception() is kept as it is, and the error's details say
  /// {"raised":true}.
  std::string Render(const nlohmann::ordered_json& variables, const RenderOptions& options = {}) const;

  const std::string& source() const;

  struct Parsed;

 private:
  explicit Template(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}
  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace ullage::llm
