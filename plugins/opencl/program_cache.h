/// Programs from the sources in cl/, compiled once per device, driver, source and options: kept as binaries
/// in $ULLAGE_HOME/cache/opencl, else $XDG_CACHE_HOME/ullage/opencl, else ~/.cache/ullage/opencl. A file that
/// does not match, or that the driver refuses, is written anew; a folder that cannot be written is done
/// without.
#pragma once

#include <string>
#include <string_view>

#include "device.h"

namespace ullage_opencl {

/// The source of a program, common.cl before it; empty: there is none of that name.
std::string SourceOf(std::string_view name);

/// `text` follows the source of that name. Throws a failure with the compiler's words.
cl_program BuildProgram(cl_context context, const DeviceFacts& device, const std::string& name,
                        const std::string& options, const std::string& text = "");

}  // namespace ullage_opencl
