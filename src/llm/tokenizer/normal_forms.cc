#include <utf8proc.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "llm/tokenizer/unicode.h"
#include "llm/tokenizer/unicode_tables.h"

namespace ullage::llm {
namespace {

bool Listed(char32_t c, const CodePointRange* ranges, size_t size) {
  return std::any_of(ranges, ranges + size,
                     [&](const CodePointRange& r) { return c >= r.first && c <= r.last; });
}

/// Marks younger than the tables of `tokenizers` do not take part in reordering.
int CombiningClass(char32_t c) {
  if (c < 0x300) return 0;
  const int value = utf8proc_get_property(static_cast<utf8proc_int32_t>(c))->combining_class;
  return value != 0 && IsMark(c) ? value : 0;
}

void Decompose(char32_t c, bool compatible, std::vector<utf8proc_int32_t>& out) {
  const bool keep = compatible ? Listed(c, kNoCompatibilityDecomposition, kNoCompatibilityDecompositionSize)
                               : Listed(c, kNoDecomposition, kNoDecompositionSize);
  if (c < 0xA0 || keep) {
    out.push_back(static_cast<utf8proc_int32_t>(c));
    return;
  }
  utf8proc_int32_t buffer[64];  // the longest decomposition has 18 code points
  int last = 0;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
  const utf8proc_ssize_t n =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), buffer, std::size(buffer), options, &last);
  if (n < 0 || n > static_cast<utf8proc_ssize_t>(std::size(buffer))) {
    Throw(Code::kRuntime, "Unicode decomposition of code point ", static_cast<uint32_t>(c), " failed");
  }
  out.insert(out.end(), buffer, buffer + n);
}

/// Puts runs of combining marks into canonical order.
void Reorder(std::vector<utf8proc_int32_t>& points) {
  std::vector<std::pair<int, utf8proc_int32_t>> run;
  for (size_t i = 0; i < points.size();) {
    size_t end = i;
    run.clear();
    for (int ccc; end < points.size() && (ccc = CombiningClass(static_cast<char32_t>(points[end]))) != 0;
         ++end) {
      run.emplace_back(ccc, points[end]);
    }
    if (run.size() > 1) {
      std::stable_sort(run.begin(), run.end(), [](auto& a, auto& b) { return a.first < b.first; });
      for (size_t k = 0; k < run.size(); ++k) points[i + k] = run[k].second;
    }
    i = end + 1;
  }
}

/// Canonical composition of decomposed, ordered text.
void Compose(std::vector<utf8proc_int32_t>& points) {
  // Hangul syllables have no trailing consonant U+11A7, yet utf8proc joins it to them, and so drops it.
  // Nothing composes with it: the text is cut there.
  constexpr utf8proc_int32_t kBeforeTrailing = 0x11A7;
  auto written = points.begin();
  for (auto begin = points.begin(); begin != points.end();) {
    const auto end = std::find(begin + 1, points.end(), kBeforeTrailing);
    const utf8proc_ssize_t size = utf8proc_normalize_utf32(
        &*begin, end - begin, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    if (size < 0) Throw(Code::kRuntime, "Unicode composition failed: ", utf8proc_errmsg(size));
    written = std::copy(begin, begin + size, written);
    begin = end;
  }
  points.erase(written, points.end());
}

/// True for characters that every form leaves alone and that combine with no neighbour, so that a text may be
/// cut before and after them: ASCII without letters and `<=>`, ideographs and the like, emoji, U+2581.
bool Boundary(char32_t c) {
  if (c < 0x80) return !((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '<' && c <= '>'));
  return (c >= 0x3400 && c < 0xA640) || (c >= 0x1F300 && c < 0x1FB00) || c == 0x2581;
}

}  // namespace

std::string Normalized(std::string_view text, NormalForm form) {
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  std::string out;
  out.reserve(text.size());
  std::vector<utf8proc_int32_t> points;
  size_t pos = 0;
  while (pos < text.size()) {
    // A stretch of characters below U+00A0 (below U+0300 for NFC) stays as it is; its last character may
    // belong to a mark that follows and is left for the slow way.
    const size_t start = pos;
    const char32_t limit = form == NormalForm::kNfc ? 0x300 : 0xA0;
    size_t last = pos;
    while (pos < text.size()) {
      size_t next = pos;
      const char32_t c = NextCodePoint(text, next);
      if (c >= limit && !Boundary(c)) break;
      last = pos;
      pos = next;
    }
    if (pos == text.size()) {
      out.append(text.substr(start));
      break;
    }
    out.append(text.substr(start, last - start));
    pos = last;
    points.clear();
    bool first = true;
    while (pos < text.size()) {
      size_t next = pos;
      const char32_t c = NextCodePoint(text, next);
      if (!first && Boundary(c)) break;
      first = false;
      Decompose(c, compatible, points);
      pos = next;
    }
    Reorder(points);
    if (compose) Compose(points);
    for (const utf8proc_int32_t c : points) AppendUtf8(out, static_cast<char32_t>(c));
  }
  return out;
}

}  // namespace ullage::llm
