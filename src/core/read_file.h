/// Small files as text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "ullage/error.h"

namespace ullage {

/// Files beyond this are refused: configurations, tokenizers and prompts are smaller.
inline constexpr uintmax_t kMostFileText = uintmax_t{256} << 20;

/// The whole file, or pipe. Throws `failure`, naming the path, when it cannot be read or is larger than
/// kMostFileText.
std::string ReadFile(const std::filesystem::path& path, Code failure = Code::kInvalidInput);

}  // namespace ullage
