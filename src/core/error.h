/// Helpers to throw ullage::Error with a message put together from parts.
#pragma once

#include <sstream>
#include <string>

#include "ullage/error.h"

namespace ullage {

/// Concatenates the parts as an ostream prints them.
template <class... Parts>
std::string StrCat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return std::move(out).str();
}

/// Throws Error(code, parts put together).
template <class... Parts>
[[noreturn]] void Throw(Code code, const Parts&... parts) {
  throw Error(code, StrCat(parts...));
}

}  // namespace ullage
