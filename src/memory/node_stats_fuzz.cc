// libFuzzer target: files of node statistics.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"
#include "memory/node_stats.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ullage;
  using namespace ullage::memory;
  try {
    const NodeStatsTable table = ParseNodeStats({reinterpret_cast<const char*>(data), size}, "fuzz");
    // What is written is what was read.
    if (ParseNodeStats(FormatNodeStats(table, true), "again") != table) __builtin_trap();
  } catch (const Error& error) {
    if (error.code() != Code::kInvalidInput) __builtin_trap();
  }
  return 0;
}
