#define ULLAGE_QUANT_VNNI 0
#include "providers/cpu/quant/avx2-inl.h"

namespace ullage::quant {

const KernelSet& KernelsAvx2() {
  return kSet;
}

}  // namespace ullage::quant
