#include "providers/cpu/quant/kernels.h"

namespace ullage::quant {

const KernelSet& KernelsFor(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
      return KernelsAvx2();
    case Isa::kAvxVnni:
      return KernelsAvxVnni();
    case Isa::kAvx512Vnni:
      return KernelsAvx512();
    case Isa::kAmxInt8:
      return KernelsAmx();
#elif defined(__aarch64__)
    case Isa::kNeon:
      return KernelsNeon();
#endif
    default:
      return KernelsScalar();
  }
}

}  // namespace ullage::quant
