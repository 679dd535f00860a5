#include "memory/minimalloc_csv.h"

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <unordered_set>

#include "core/error.h"
#include "memory/checker.h"

namespace ullage::memory {
namespace {

enum Column { kId, kLower, kUpper, kEnd, kSize, kAlignment, kOffset, kHint, kGaps, kColumns };

constexpr std::array<std::string_view, kColumns> kNames = {"id",        "lower",  "upper", "end", "size",
                                                           "alignment", "offset", "hint",  "gaps"};
constexpr std::array<std::pair<std::string_view, Column>, 4> kSynonyms = {
    {{"buffer", kId}, {"buffer_id", kId}, {"start", kLower}, {"begin", kLower}}};

std::string_view Trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::vector<std::string_view> Split(std::string_view line) {
  std::vector<std::string_view> fields;
  for (size_t at = 0;;) {
    const size_t comma = line.find(',', at);
    fields.push_back(Trim(line.substr(at, comma == std::string_view::npos ? comma : comma - at)));
    if (comma == std::string_view::npos) return fields;
    at = comma + 1;
  }
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  CsvProblem Read() {
    CsvProblem problem;
    bool header = false;
    while (NextLine()) {
      if (fields_.size() == 1 && fields_[0].empty()) continue;
      if (!header)
        ReadHeader();
      else
        ReadBuffer(&problem);
      header = true;
    }
    if (!header) Fail("the text is empty; a header line such as id,lower,upper,size was expected");
    return problem;
  }

 private:
  template <class... Parts>
  [[noreturn]] void Fail(const Parts&... parts) const {
    Throw(Code::kInvalidInput, "line ", line_number_, ": ", parts...);
  }

  bool NextLine() {
    if (at_ >= text_.size()) return false;
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    ++line_number_;
    fields_ = Split(text_.substr(at_, end - at_));
    at_ = end + 1;
    return true;
  }

  void ReadHeader() {
    at_column_.fill(-1);
    for (size_t i = 0; i < fields_.size(); ++i) {
      int column = -1;
      for (int c = 0; c < kColumns; ++c)
        if (fields_[i] == kNames[c]) column = c;
      for (const auto& [name, c] : kSynonyms)
        if (fields_[i] == name) column = c;
      if (column < 0) Fail("unknown column '", fields_[i], "'");
      if (at_column_[column] >= 0) Fail("column '", fields_[i], "' is there twice");
      at_column_[column] = static_cast<int>(i);
    }
    columns_ = fields_.size();
    for (Column c : {kId, kLower, kSize})
      if (at_column_[c] < 0) Fail("column '", kNames[c], "' is missing");
    if ((at_column_[kUpper] < 0) == (at_column_[kEnd] < 0))
      Fail("one of the columns 'upper' and 'end' is needed");
  }

  int64_t Number(Column column) const {
    const std::string_view field = fields_[at_column_[column]];
    int64_t value = 0;
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
    if (error != std::errc() || end != field.data() + field.size())
      Fail("column '", kNames[column], "' holds '", field.substr(0, 40), "', not an integer of 64 bits");
    return value;
  }

  bool Given(Column column) const { return at_column_[column] >= 0 && !fields_[at_column_[column]].empty(); }

  void ReadBuffer(CsvProblem* problem) {
    if (fields_.size() != columns_) Fail("has ", fields_.size(), " fields, the header has ", columns_);
    std::string id(fields_[at_column_[kId]]);
    if (!ids_.insert(id).second) Fail("id '", id, "' is there twice");
    Buffer b;
    b.id = static_cast<int64_t>(problem->buffers.size());
    b.first = Number(kLower);
    b.last = at_column_[kUpper] >= 0 ? Number(kUpper) : Number(kEnd);
    if (at_column_[kEnd] >= 0 && __builtin_add_overflow(b.last, 1, &b.last)) Fail("'end' is out of range");
    b.size = Number(kSize);
    b.alignment = Given(kAlignment) ? Number(kAlignment) : 1;
    if (b.last < b.first) Fail("the life of '", id, "' ends (", b.last, ") before it begins (", b.first, ")");
    if (b.size < 0) Fail("the size of '", id, "' is negative: ", b.size);
    if (b.alignment <= 0 || (b.alignment & (b.alignment - 1)) != 0)
      Fail("the alignment of '", id, "' is no power of two: ", b.alignment);
    if (Given(kOffset) && Number(kOffset) != -1) {
      b.fixed_offset = Number(kOffset);
      if (*b.fixed_offset < 0 || *b.fixed_offset % b.alignment != 0)
        Fail("the offset of '", id, "' is no multiple of its alignment: ", *b.fixed_offset);
    }
    if (Given(kGaps)) Throw(Code::kUnsupported, "line ", line_number_, ": lives with gaps are not supported");
    problem->buffers.push_back(b);
    problem->ids.push_back(std::move(id));
  }

  std::string_view text_;
  size_t at_ = 0;
  int64_t line_number_ = 0;
  std::vector<std::string_view> fields_;
  std::array<int, kColumns> at_column_{};
  size_t columns_ = 0;
  std::unordered_set<std::string> ids_;
};

void AppendJsonString(const std::string& text, std::string* out) {
  *out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      *out += escape;
    } else {
      *out += c;
    }
  }
  *out += '"';
}

}  // namespace

CsvProblem ReadMinimallocCsv(std::string_view text) {
  return Reader(text).Read();
}

std::string CsvPacking::ToJson() const {
  std::string out =
      StrCat("{\"peak\":", packing.peak, ",\"lower_bound\":", packing.lower_bound, ",\"offsets\":{");
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    AppendJsonString(ids[i], &out);
    out += ':';
    out += std::to_string(packing.offsets[i]);
  }
  char number[32];
  std::snprintf(number, sizeof(number), "%.6f", seconds);
  out += StrCat("},\"seconds\":", number, ",\"proved_optimal\":", packing.proved_optimal ? "true" : "false",
                ",\"method\":");
  AppendJsonString(packing.method, &out);
  return out + StrCat(",\"nodes\":", packing.nodes, "}");
}

CsvPacking PackCsv(std::string_view text, double time_limit_s, std::optional<int64_t> capacity) {
  CsvProblem problem = ReadMinimallocCsv(text);
  CsvPacking result;
  PackLimits limits;
  limits.work_limit = time_limit_s > 0 ? int64_t{1} << 62 : 0;
  limits.time_limit_s = time_limit_s;
  limits.capacity = capacity;
  const auto start = std::chrono::steady_clock::now();
  result.packing = Pack(problem.buffers, limits);
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.ids = std::move(problem.ids);
  RequireSound(problem.buffers, result.packing);
  if (capacity && result.packing.lower_bound > *capacity)
    Throw(Code::kDoesNotFit, "the buffers need at least ", result.packing.lower_bound,
          " bytes, the capacity is ", *capacity);
  if (capacity && result.packing.peak > *capacity)
    Throw(Code::kDoesNotFit, "no packing within ", *capacity, " bytes was found; the best needs ",
          result.packing.peak, ", the lower bound is ", result.packing.lower_bound);
  return result;
}

}  // namespace ullage::memory
