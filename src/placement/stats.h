/// Measured node statistics as a source of costs.
#pragma once

#include <string>

#include "placement/accountant.h"

namespace ullage::placement {

/// Reads the file (memory/node_stats.h says its format and what it throws). The function gives nothing for a
/// node that the file does not know; its names decide, so a node that was changed since is not known.
ResourceAccountant::ProfileOf LoadProfile(const std::string& path);

}  // namespace ullage::placement
