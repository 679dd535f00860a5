#include "memory/node_stats.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "core/error.h"

namespace ullage::memory {
namespace {

constexpr std::string_view kHeader =
    "#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations";
constexpr std::string_view kPeakColumn = "peak_temp_allocations";
constexpr size_t kSizes = 4;  // columns behind the key, without the peak

using Words = std::array<uint32_t, 4>;

uint32_t Mix(uint32_t h) {
  h ^= h >> 16;
  h *= 0x85ebca6bu;
  h ^= h >> 13;
  h *= 0xc2b2ae35u;
  return h ^ (h >> 16);
}

/// MurmurHash3_x86_128 (Austin Appleby, public domain algorithm).
Words Murmur3(std::string_view data, uint32_t seed) {
  constexpr Words kC = {0x239b961bu, 0xab0e9789u, 0x38b34ae5u, 0xa1e38b93u};
  constexpr std::array<int, 4> kRotateKey = {15, 16, 17, 18};
  constexpr std::array<int, 4> kRotateHash = {19, 17, 15, 13};
  constexpr Words kAdd = {0x561ccd1bu, 0x0bcaa747u, 0x96cd1c35u, 0x32ac3b17u};
  Words h = {seed, seed, seed, seed};
  const auto scramble = [&](size_t i, uint32_t k) {
    return std::rotl(k * kC[i], kRotateKey[i]) * kC[(i + 1) % 4];
  };
  size_t at = 0;
  for (; at + 16 <= data.size(); at += 16)
    for (size_t i = 0; i < 4; ++i) {
      uint32_t k = 0;
      for (size_t b = 0; b < 4; ++b)
        k |= static_cast<uint32_t>(static_cast<unsigned char>(data[at + 4 * i + b])) << (8 * b);
      h[i] ^= scramble(i, k);
      h[i] = (std::rotl(h[i], kRotateHash[i]) + h[(i + 1) % 4]) * 5 + kAdd[i];
    }
  Words tail = {};
  for (size_t i = at; i < data.size(); ++i)
    tail[(i - at) / 4] |= static_cast<uint32_t>(static_cast<unsigned char>(data[i])) << (8 * ((i - at) % 4));
  for (size_t i = 0; i < 4; ++i) h[i] ^= scramble(i, tail[i]) ^ static_cast<uint32_t>(data.size());
  const auto spread = [&] {
    h[0] += h[1] + h[2] + h[3];
    for (size_t i = 1; i < 4; ++i) h[i] += h[0];
  };
  spread();
  for (uint32_t& word : h) word = Mix(word);
  spread();
  return h;
}

std::string Quoted(const std::string& key) {
  if (key.find_first_of(",\"\r\n") == std::string::npos && key[0] != '#') return key;
  std::string out = "\"";
  for (char c : key) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

/// Takes records off a text, one after the other.
class Records {
 public:
  Records(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  /// The fields of the next record that is not empty; false at the end. Comments come as one field.
  bool Next(std::vector<std::string>* fields) {
    fields->clear();
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) Take();
    if (at_ == text_.size()) return false;
    record_line_ = line_;
    quoted_ = text_[at_] == '"';
    if (text_[at_] == '#') {
      fields->emplace_back();
      while (at_ < text_.size() && text_[at_] != '\n') fields->back() += Take();
      while (!fields->back().empty() && fields->back().back() == '\r') fields->back().pop_back();
      return true;
    }
    for (;;) {
      fields->push_back(Field());
      if (at_ == text_.size()) return true;
      const char c = Take();
      if (c == ',') continue;
      if (c == '\r' && at_ < text_.size() && text_[at_] == '\n') Take();
      return true;
    }
  }
  int64_t record_line() const { return record_line_; }
  bool quoted() const { return quoted_; }  // the first field of the record
  template <class... Parts>
  [[noreturn]] void Fail(const Parts&... parts) const {
    Throw(Code::kInvalidInput, where_, ": line ", record_line_, ": ", parts...);
  }

 private:
  char Take() {
    if (text_[at_] == '\n') ++line_;
    return text_[at_++];
  }
  /// Up to the comma or the end of the line, which stay.
  std::string Field() {
    std::string out;
    if (at_ < text_.size() && text_[at_] == '"') {
      Take();
      for (;;) {
        if (at_ == text_.size()) Fail("the quote is not closed");
        const char c = Take();
        if (c != '"') {
          out += c;
        } else if (at_ < text_.size() && text_[at_] == '"') {
          out += Take();
        } else {
          break;
        }
      }
      if (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r')
        Fail("text behind the closing quote");
      return out;
    }
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') out += Take();
    return out;
  }

  std::string_view text_;
  const std::string& where_;
  size_t at_ = 0;
  int64_t line_ = 1;
  int64_t record_line_ = 1;
  bool quoted_ = false;
};

}  // namespace

void NodeStats::RaiseTo(const NodeStats& other) {
  input_sizes = std::max(input_sizes, other.input_sizes);
  initializers_sizes = std::max(initializers_sizes, other.initializers_sizes);
  total_dynamic_sizes = std::max(total_dynamic_sizes, other.total_dynamic_sizes);
  total_temp_allocations = std::max(total_temp_allocations, other.total_temp_allocations);
  peak_temp_allocations = std::max(peak_temp_allocations, other.peak_temp_allocations);
}

std::string NodeStatsKey(std::string_view name, std::string_view op, std::span<const std::string_view> inputs,
                         std::span<const std::string_view> outputs) {
  Words hash = {};
  for (const auto& names : {inputs, outputs})
    for (std::string_view n : names) hash = Murmur3(n, hash[0]);
  return StrCat(name.empty() ? op : name, "_", uint64_t{hash[1]} << 32 | hash[0]);
}

const NodeStats* FindNodeStats(const NodeStatsTable& table, std::string_view name, std::string_view op,
                               std::span<const std::string_view> inputs,
                               std::span<const std::string_view> outputs) {
  auto it = table.find(NodeStatsKey(name, op, inputs, outputs));
  if (it == table.end()) it = table.find(NodeStatsKey("", op, inputs, outputs));
  return it == table.end() ? nullptr : &it->second;
}

std::string FormatNodeStats(const NodeStatsTable& table, bool live_peak) {
  std::ostringstream out;
  out << kHeader;
  if (live_peak) out << ',' << kPeakColumn;
  out << '\n';
  for (const auto& [key, s] : table) {
    if (key.empty()) continue;
    out << Quoted(key) << ',' << s.input_sizes << ',' << s.initializers_sizes << ',' << s.total_dynamic_sizes
        << ',' << s.total_temp_allocations;
    if (live_peak) out << ',' << s.peak_temp_allocations;
    out << '\n';
  }
  return std::move(out).str();
}

NodeStatsTable ParseNodeStats(std::string_view text, const std::string& where) {
  NodeStatsTable table;
  Records records(text, where);
  size_t sizes = kSizes;
  for (std::vector<std::string> fields; records.Next(&fields);) {
    if (!records.quoted() && fields.size() == 1 && fields[0].starts_with('#')) {
      if (fields[0].starts_with(kHeader)) sizes = kSizes + (fields[0].ends_with(kPeakColumn) ? 1 : 0);
      continue;
    }
    if (fields.size() < sizes + 1 || (records.quoted() && fields.size() > sizes + 1))
      records.Fail("expected ", sizes + 1, " fields, found ", fields.size());
    while (fields.size() > sizes + 1) {
      fields[0] += "," + fields[1];
      fields.erase(fields.begin() + 1);
    }
    if (fields[0].empty()) continue;
    std::array<int64_t, kSizes + 1> n = {};
    for (size_t i = 0; i < sizes; ++i) {
      const std::string& field = fields[i + 1];
      const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), n[i]);
      if (error != std::errc() || end != field.data() + field.size() || n[i] < 0)
        records.Fail("expected a number of bytes, found \"", field, "\"");
    }
    table[fields[0]] = {n[0], n[1], n[2], n[3], n[4]};
  }
  return table;
}

NodeStatsTable ReadNodeStats(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) Throw(Code::kUsage, "cannot read node statistics from ", path, ": ", std::strerror(errno));
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad() || text.fail()) Throw(Code::kUsage, "cannot read node statistics from ", path);
  return ParseNodeStats(std::move(text).str(), path);
}

void WriteNodeStats(const std::string& path, const NodeStatsTable& table, bool live_peak) {
  const std::string part = path + ".part";
  {
    std::ofstream out(part, std::ios::binary | std::ios::trunc);
    out << FormatNodeStats(table, live_peak);
    out.close();
    if (!out) {
      const int error = errno;
      std::remove(part.c_str());
      Throw(Code::kRuntime, "cannot write node statistics to ", path, ": ", std::strerror(error));
    }
  }
  if (std::rename(part.c_str(), path.c_str()) != 0) {
    const int error = errno;
    std::remove(part.c_str());
    Throw(Code::kRuntime, "cannot write node statistics to ", path, ": ", std::strerror(error));
  }
}

void NodeStatsRecorder::Merge(const std::vector<std::pair<std::string, NodeStats>>& rows) {
  const std::lock_guard lock(mutex_);
  for (const auto& [key, stats] : rows) table_[key].RaiseTo(stats);
}

NodeStatsTable NodeStatsRecorder::table() const {
  const std::lock_guard lock(mutex_);
  return table_;
}

}  // namespace ullage::memory
