/// Structs of the device ABI that another version of the header may have made longer or shorter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/error.h"
#include "ullage/plugin/abi.h"

namespace ullage::plugin_host {

/// What this header knows of a struct that a plugin made; members that the plugin does not know are zero.
/// Throws kUnsupported naming `what` when there is none, or its size cannot be one.
template <class T>
T Known(const T* made, const char* what) {
  constexpr size_t kMost = 1 << 16;
  if (!made) Throw(Code::kUnsupported, what, " is missing");
  if (made->size < sizeof(size_t) || made->size > kMost)
    Throw(Code::kUnsupported, what, " states a size of ", made->size, " bytes");
  T known{};
  std::memcpy(&known, made, std::min(made->size, sizeof(T)));
  known.size = sizeof(T);
  return known;
}

/// Writes as much of `value` as the plugin that made `out` knows.
template <class T>
void Fill(T* out, T value, const char* what) {
  if (!out || out->size < sizeof(size_t)) Throw(Code::kUnsupported, what, ": the struct states no size");
  value.size = out->size;
  std::memcpy(out, &value, std::min(out->size, sizeof(T)));
}

/// An empty struct for a plugin to fill.
template <class T>
T Empty() {
  T made{};
  made.size = sizeof(T);
  return made;
}

}  // namespace ullage::plugin_host
