/// The pages under constants that lie in mapped files. Other constants are left alone.
#pragma once

#include <cstdint>
#include <span>

#include "graph/constant.h"

namespace ullage::graph {

/// Gives back the pages that lie wholly inside bytes [first, last) of the constant; they are read again when
/// touched.
void ReleasePages(const Constant& constant, int64_t first, int64_t last);
/// Tells the system that all of it will be read soon.
void WillNeedPages(const Constant& constant);
/// The whole pages that hold any of these bytes.
std::span<const std::byte> PagesAround(std::span<const std::byte> bytes);

}  // namespace ullage::graph
