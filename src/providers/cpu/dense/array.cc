#include "providers/cpu/dense/array.h"

#include "core/error.h"

namespace ullage::dense {

size_t ElementBytes(DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return 4;
    case DType::kFloat16:
    case DType::kBFloat16:
      return 2;
    default:
      Throw(Code::kUnsupported, "dense CPU kernels take float32, float16 and bfloat16, not ", NameOf(dtype));
  }
}

}  // namespace ullage::dense
