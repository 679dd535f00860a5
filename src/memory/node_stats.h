/// Memory statistics of nodes, as measured by Runs and kept in a CSV file between a session that measures and
/// one that places nodes by them.
///
/// The file. One row per node: its key and four sizes in bytes; the header begins with '#'. The columns are
/// those of ONNX Runtime's node memory statistics, whose files can be read here and the other way round; a
/// fifth size may follow. Fields are quoted as in RFC 4180 where a key needs it (comma, quote, line break, a
/// leading '#').
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ullage::memory {

/// Bytes. Within one Run each value is charged once, to the first node that touches it.
struct NodeStats {
  int64_t input_sizes = 0;             ///< inputs that no node before has touched
  int64_t initializers_sizes = 0;      ///< constants, likewise
  int64_t total_dynamic_sizes = 0;     ///< outputs
  int64_t total_temp_allocations = 0;  ///< sum of all requests for scratch
  int64_t peak_temp_allocations = 0;   ///< most scratch that was alive at once, padding included

  /// The larger of both, field by field: how several Runs are merged.
  void RaiseTo(const NodeStats& other);
  bool operator==(const NodeStats&) const = default;
};

/// By key.
using NodeStatsTable = std::map<std::string, NodeStats, std::less<>>;

/// What identifies a node in the file: its name (the operator's where it has none), "_" and, in decimal, a
/// hash of the names of its inputs and outputs ("" where one is left out): MurmurHash3 x86_128, each name
/// seeded with the first word of the hash so far; the first two words count.
std::string NodeStatsKey(std::string_view name, std::string_view op, std::span<const std::string_view> inputs,
                         std::span<const std::string_view> outputs);

/// The row of a node, or null. Where its own name is not in the table, the key of an unnamed node is tried:
/// nodes that a model leaves unnamed have a name of our making, which other writers do not know.
const NodeStats* FindNodeStats(const NodeStatsTable& table, std::string_view name, std::string_view op,
                               std::span<const std::string_view> inputs,
                               std::span<const std::string_view> outputs);

/// The file's text; with `live_peak` the fifth size, too.
std::string FormatNodeStats(const NodeStatsTable& table, bool live_peak);

/// Reads the text back. Lines that are empty or begin with '#' are skipped, rows without a key, too; of equal
/// keys the last counts. Commas in an unquoted key, which other writers leave there, belong to the key.
/// Throws kInvalidInput naming `where` and the line for a row with too few fields, a size that is no number,
/// or text behind a closing quote.
NodeStatsTable ParseNodeStats(std::string_view text, const std::string& where);

/// Throws kUsage when the file cannot be read; and what ParseNodeStats throws.
NodeStatsTable ReadNodeStats(const std::string& path);
/// Replaces the file as a whole: a reader sees the old contents or the new. Throws kRuntime with the reason.
void WriteNodeStats(const std::string& path, const NodeStatsTable& table, bool live_peak);

/// Collects the statistics of Runs, several at a time. Thread-safe.
class NodeStatsRecorder {
 public:
  /// Merges the rows of one Run. A node that ran several times in it has several rows.
  void Merge(const std::vector<std::pair<std::string, NodeStats>>& rows);
  NodeStatsTable table() const;

 private:
  mutable std::mutex mutex_;
  NodeStatsTable table_;
};

}  // namespace ullage::memory
