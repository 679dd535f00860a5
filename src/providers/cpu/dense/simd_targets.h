/// Instruction sets that the dense kernels are compiled for. Include before any Highway header.
#pragma once

// AVX-512, AVX2 and NEON, and plain C++ for everything else: each target costs compile time.
#define HWY_DISABLED_TARGETS \
  (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_WASM_EMU256)
