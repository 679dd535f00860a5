/// Constants whose contents are not there, for planning, and what tells the data of constants apart.
#pragma once

#include <memory>
#include <string>

#include "graph/constant.h"

namespace ullage::graph {

/// A constant of which only type and shape are known; `why` is the message of reading it. No two made so
/// count as the same data.
std::shared_ptr<Constant> MakeAbsent(DType dtype, const Shape& shape, std::string why);

/// Equal keys mean that both are views of the same bytes, or would be if the bytes were there. A constant
/// that lies in a file has the same key whether its file is read or not.
std::string DataKey(const Constant& constant);

}  // namespace ullage::graph
