#include "llm/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "core/error.h"
#include "llm/tokenizer/unicode.h"

namespace ullage::llm {
namespace {

constexpr uint32_t kMatchLimit = 20'000'000;
constexpr uint32_t kHeapLimitKib = 64 * 1024;
constexpr size_t kJitStackStart = 64 * 1024;
constexpr size_t kJitStackLimit = 16 * 1024 * 1024;
constexpr size_t kMaxPatternBytes = 64 * 1024;

/// Match memory of one thread.
class MatchMemory {
 public:
  MatchMemory() : data_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
    if (data_ == nullptr || context_ == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(context_, kMatchLimit);
    pcre2_set_heap_limit(context_, kHeapLimitKib);
    stack_ = pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr);
    if (stack_ != nullptr) pcre2_jit_stack_assign(context_, nullptr, stack_);
  }
  ~MatchMemory() {
    pcre2_jit_stack_free(stack_);
    pcre2_match_context_free(context_);
    pcre2_match_data_free(data_);
  }
  MatchMemory(const MatchMemory&) = delete;
  MatchMemory& operator=(const MatchMemory&) = delete;

  static MatchMemory& OfThread() {
    thread_local MatchMemory memory;
    return memory;
  }

  pcre2_match_data* data() { return data_; }
  pcre2_match_context* context() { return context_; }

 private:
  pcre2_match_data* data_;
  pcre2_match_context* context_;
  pcre2_jit_stack* stack_ = nullptr;
};

std::string Shortened(std::string_view pattern) {
  if (pattern.size() <= 120) return std::string(pattern);
  size_t cut = 117;
  while (cut > 0 && (static_cast<unsigned char>(pattern[cut]) & 0xC0) == 0x80) --cut;
  return std::string(pattern.substr(0, cut)) + "...";
}

std::string PcreMessage(int code) {
  PCRE2_UCHAR buffer[256];
  if (pcre2_get_error_message(code, buffer, sizeof(buffer)) < 0) return StrCat("error ", code);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  explicit Code(pcre2_code* c) : code(c) {}
  ~Code() { pcre2_code_free(code); }
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  pcre2_code* code;
};

Regex Regex::Compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    Throw(ullage::Code::kUnsupported, "regular expression of ", pattern.size(), " bytes; at most ",
          kMaxPatternBytes, " are supported");
  }
  std::string translated;
  try {
    translated = TranslateRegex(pattern);
  } catch (const Error& e) {
    Throw(e.code(), "regular expression '", Shortened(pattern), "': ", e.message());
  }
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 100);
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                   PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                                   &offset, context.get());
  if (code == nullptr) {
    Throw(ullage::Code::kUnsupported, "regular expression '", Shortened(pattern), "': ", PcreMessage(error));
  }
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);  // where there is no JIT, matching interprets
  Regex regex;
  regex.code_ = std::make_shared<const Code>(code);
  regex.pattern_ = std::string(pattern);
  return regex;
}

bool Regex::Search(std::string_view text, size_t from, size_t& begin, size_t& end) const {
  MatchMemory& memory = MatchMemory::OfThread();
  const auto subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  int rc = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, memory.data(),
                       memory.context());
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
    rc = pcre2_match(code_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                     memory.data(), memory.context());
  }
  if (rc == PCRE2_ERROR_NOMATCH) return false;
  if (rc < 0) {
    Throw(ullage::Code::kInvalidInput, "regular expression '", Shortened(pattern_), "' on a text of ",
          text.size(), " bytes: ", PcreMessage(rc));
  }
  const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(memory.data());
  begin = offsets[0];
  end = offsets[1];
  if (begin < from || end < begin) {  // \K inside a lookaround
    Throw(ullage::Code::kUnsupported, "regular expression '", Shortened(pattern_), "' matches backwards");
  }
  return true;
}

bool Regex::Matcher::Next(size_t& begin, size_t& end) {
  while (pos_ <= text_.size()) {
    if (!regex_.Search(text_, pos_, begin, end)) {
      pos_ = text_.size() + 1;
      return false;
    }
    if (begin == end && end == last_end_) {
      pos_ = pos_ < text_.size() ? pos_ + Utf8Length(text_[pos_]) : pos_ + 1;
      continue;
    }
    pos_ = end;
    last_end_ = end;
    return true;
  }
  return false;
}

}  // namespace ullage::llm
