/// Element-wise operators on floats as elementwise.cl knows them: by number.
#pragma once

#include "op.h"

namespace ullage_opencl {

/// applied(number, x, alpha, beta); number -1: not one of these.
struct UnaryForm {
  int number = -1;
  float alpha = 1, beta = 0;
};
UnaryForm UnaryOf(const Node& node);
/// joined(number, a, b); -1: not one of these.
int BinaryOf(const Node& node);

}  // namespace ullage_opencl
