/// Arguments of the parts of element-wise kernels that are compiled per instruction set.
#pragma once

#include "providers/cpu/dense/elementwise.h"

namespace ullage::dense {

struct BinaryArgs {
  BinaryOp op;
  ConstArray a, b;
  Spread a_spread, b_spread;
  int64_t cols;
  Array out;
};

struct SoftmaxArgs {
  ConstArray x;
  int64_t cols;
  Array y;
  bool log;
  float scale;
};

}  // namespace ullage::dense
