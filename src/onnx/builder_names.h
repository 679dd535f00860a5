/// Values that the names of constants state.
#pragma once

#include <string_view>

#include "graph/constant.h"

namespace ullage::onnx {

/// The constant of that type and shape whose values the name states in the convention of the
/// onnxruntime-genai model builder (see ValuesFromBuilderName in import.h); null when the name states none,
/// or others. int32, int64, float16, float32.
graph::ConstantPtr ConstantFromBuilderName(std::string_view value_name, DType dtype, const Shape& shape);

}  // namespace ullage::onnx
