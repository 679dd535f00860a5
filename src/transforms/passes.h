/// The passes that pipeline.cc lists, one per file.
#pragma once

#include "transforms/pass.h"

namespace ullage::transforms {

int RemoveDead(PassContext& context);

}  // namespace ullage::transforms
