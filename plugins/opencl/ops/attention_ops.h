/// Files of the attention operators.
#pragma once

#include <vector>

#include "op.h"

namespace ullage_opencl {

void AddGroupQueryAttention(std::vector<OpEntry>& ops);
void AddMultiHeadAttention(std::vector<OpEntry>& ops);
void AddPackedAttention(std::vector<OpEntry>& ops);

}  // namespace ullage_opencl
