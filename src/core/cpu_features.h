/// What the processor can do, found at run time, and which of the code paths built for it is in use.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ullage {

/// Instruction sets that kernels are written for, weakest first within one architecture.
enum class Isa : uint8_t {
  kScalar,      ///< portable C++
  kAvx2,        ///< AVX2, FMA, F16C
  kAvxVnni,     ///< the same with 256-bit VPDPBUSD
  kAvx512Vnni,  ///< AVX-512 F, BW, DQ, VL, VNNI
  kAmxInt8,     ///< the same with 8-bit tiles; the kernel has given this process leave to use them
  kNeon,        ///< AArch64 with the dot-product instructions
};
inline constexpr int kIsaCount = 6;

/// "scalar", "avx2", "avx-vnni", "avx512-vnni", "amx-int8", "neon".
std::string_view NameOf(Isa isa);
/// The inverse of NameOf; nothing when there is no such name.
std::optional<Isa> IsaFromName(std::string_view name);

/// Single features, as far as both the processor and the operating system support them. Constant after the
/// first call, which is thread-safe.
struct CpuFeatures {
  bool avx2_fma_f16c = false;
  bool avx_vnni = false;
  bool avx512_core = false;  ///< F, BW, DQ, VL
  bool avx512_vnni = false;
  bool avx512_vbmi = false;
  bool avx512_bf16 = false;
  bool avx512_fp16 = false;
  bool amx_int8 = false;
  bool amx_bf16 = false;
  bool neon = false;
  bool neon_dotprod = false;
};
const CpuFeatures& Cpu();

/// Whether kernels for `isa` can run here.
bool IsSupported(Isa isa);
/// The strongest supported one.
Isa BestIsa();
/// The one that kernels use: BestIsa(), unless the environment variable ULLAGE_ISA names another (throws
/// kUsage when that is unknown or not supported) or ForceIsa() set one.
Isa ActiveIsa();
/// For tests and benchmarks: uses `isa` from now on, or the default again with nothing. Throws kUsage when it
/// is not supported. Not while kernels run.
void ForceIsa(std::optional<Isa> isa);

}  // namespace ullage
