/// The OpenCL sources of cl/, put into the library when it is built.
#pragma once

#include <string_view>

namespace ullage_opencl {

struct Source {
  std::string_view name, text;
};

extern const Source kSources[];
extern const size_t kSourceCount;

}  // namespace ullage_opencl
