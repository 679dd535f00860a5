/// The packer by itself: reads a problem in minimalloc's CSV format and packs it.
///
/// The format: a header line that names the columns, then one buffer a line. Columns in any order: `id`
/// (text), `lower` and `upper` (life [lower, upper)) or `end` (inclusive) in place of `upper`, `size`;
/// optional `alignment` (default 1) and `offset` (-1 or empty: free). `hint` is read and ignored, `gaps` must
/// be empty. Spaces around fields, CR LF and empty lines are accepted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "memory/packing.h"

namespace ullage::memory {

struct CsvProblem {
  std::vector<std::string> ids;
  std::vector<Buffer> buffers;  ///< Buffer::id is the index
};

/// Throws Error(kInvalidInput) with the line number and what is wrong in it.
CsvProblem ReadMinimallocCsv(std::string_view text);

struct CsvPacking {
  std::vector<std::string> ids;
  Packing packing;
  double seconds = 0;  ///< wall time of the packing, reading not included
  /// {"peak":n,"lower_bound":n,"offsets":{"id":n,...},"seconds":x,"proved_optimal":bool,...}
  std::string ToJson() const;
};

/// Reads, packs for at most `time_limit_s` seconds (0 = greedy only), judges the result with the checker.
/// Throws Error(kInvalidInput) on bad text, Error(kDoesNotFit) when `capacity` is given and no packing that
/// small was found (the message says whether there is none).
CsvPacking PackCsv(std::string_view text, double time_limit_s, std::optional<int64_t> capacity = {});

}  // namespace ullage::memory
