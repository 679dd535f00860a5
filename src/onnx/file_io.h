/// Files of tensors, opened and written with the right kind of error. Internal to src/onnx.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/mapped_file.h"

namespace ullage::onnx {

/// Maps an input file; throws kInvalidInput when it is missing or no regular file.
std::shared_ptr<const MappedFile> OpenInput(const std::string& path);
/// Writes a whole file; throws kRuntime.
void WriteFile(const std::string& path, std::string_view contents);

}  // namespace ullage::onnx
