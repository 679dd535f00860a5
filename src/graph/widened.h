/// Constants of float16 and bfloat16 as float32.
#pragma once

#include "graph/constant.h"

namespace ullage::graph {

/// float16 or bfloat16.
bool IsHalf(DType dtype);

/// The numbers of `source`, which is of a half type, as float32. Small ones are converted at once where the
/// source is there. Others, with `reserve`, have an address: the bytes there are zero but between
/// FillWidened() and DiscardWidened(), and take no memory then. Without it they are absent.
ConstantPtr Widened(const ConstantPtr& source, bool reserve);

/// The constant's bytes are made by FillWidened().
bool IsFilledLater(const Constant& widened);
/// Converts all of the source. Not for two threads at once.
void FillWidened(const Constant& widened, const Constant& source);
/// Gives the memory behind the bytes back.
void DiscardWidened(const Constant& widened);

}  // namespace ullage::graph
