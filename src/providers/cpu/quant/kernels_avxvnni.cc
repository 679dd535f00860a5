#define ULLAGE_QUANT_VNNI 1
#include "providers/cpu/quant/avx2-inl.h"

namespace ullage::quant {

const KernelSet& KernelsAvxVnni() {
  return kSet;
}

}  // namespace ullage::quant
