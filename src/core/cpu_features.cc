#include "core/cpu_features.h"

#include <atomic>
#include <cstdlib>

#include "core/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace ullage {
namespace {

constexpr std::string_view kNames[kIsaCount] = {"scalar",      "avx2",     "avx-vnni",
                                                "avx512-vnni", "amx-int8", "neon"};
constexpr int kNotForced = -1;

#if defined(__x86_64__)

uint64_t ReadXcr0() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

bool RequestTileData() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

CpuFeatures Detect() {
  CpuFeatures f;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return f;
  const auto bit = [](unsigned word, int i) { return (word >> i & 1) != 0; };
  const bool fma = bit(c, 12), osxsave = bit(c, 27), f16c = bit(c, 29);
  if (!osxsave) return f;
  const uint64_t xcr0 = ReadXcr0();
  const bool ymm = (xcr0 & 0x6) == 0x6;
  const bool zmm = (xcr0 & 0xe6) == 0xe6;
  const bool tiles = (xcr0 & 0x60000) == 0x60000;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return f;
  const unsigned leaves = a;
  f.avx2_fma_f16c = ymm && bit(b, 5) && fma && f16c;
  f.avx512_core = zmm && f.avx2_fma_f16c && bit(b, 16) && bit(b, 30) && bit(b, 17) && bit(b, 31);
  f.avx512_vbmi = f.avx512_core && bit(c, 1);
  f.avx512_vnni = f.avx512_core && bit(c, 11);
  f.avx512_fp16 = f.avx512_core && bit(d, 23);
  const bool amx = tiles && bit(d, 24) && (bit(d, 25) || bit(d, 22)) && RequestTileData();
  f.amx_int8 = amx && bit(d, 25);
  f.amx_bf16 = amx && bit(d, 22);
  if (leaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) {
    f.avx_vnni = f.avx2_fma_f16c && bit(a, 4);
    f.avx512_bf16 = f.avx512_core && bit(a, 5);
  }
  return f;
}

#elif defined(__aarch64__)

CpuFeatures Detect() {
  CpuFeatures f;
  f.neon = true;
  f.neon_dotprod = (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  return f;
}

#else

CpuFeatures Detect() {
  return {};
}

#endif

Isa FromEnvironment() {
  const char* name = std::getenv("ULLAGE_ISA");
  if (name == nullptr || *name == '\0') return BestIsa();
  const std::optional<Isa> isa = IsaFromName(name);
  if (!isa) Throw(Code::kUsage, "ULLAGE_ISA: unknown instruction set \"", name, "\"");
  if (!IsSupported(*isa)) Throw(Code::kUsage, "ULLAGE_ISA: this processor does not support ", name);
  return *isa;
}

std::atomic<int> forced_isa{kNotForced};

}  // namespace

std::string_view NameOf(Isa isa) {
  return kNames[static_cast<int>(isa)];
}

std::optional<Isa> IsaFromName(std::string_view name) {
  for (int i = 0; i < kIsaCount; ++i)
    if (kNames[i] == name) return static_cast<Isa>(i);
  return std::nullopt;
}

const CpuFeatures& Cpu() {
  static const CpuFeatures features = Detect();
  return features;
}

bool IsSupported(Isa isa) {
  const CpuFeatures& cpu = Cpu();
  switch (isa) {
    case Isa::kScalar:
      return true;
    case Isa::kAvx2:
      return cpu.avx2_fma_f16c;
    case Isa::kAvxVnni:
      return cpu.avx_vnni;
    case Isa::kAvx512Vnni:
      return cpu.avx512_vnni;
    case Isa::kAmxInt8:
      return cpu.avx512_vnni && cpu.amx_int8;
    case Isa::kNeon:
      return cpu.neon && cpu.neon_dotprod;
  }
  return false;
}

Isa BestIsa() {
  for (Isa isa : {Isa::kNeon, Isa::kAmxInt8, Isa::kAvx512Vnni, Isa::kAvxVnni, Isa::kAvx2})
    if (IsSupported(isa)) return isa;
  return Isa::kScalar;
}

Isa ActiveIsa() {
  const int forced = forced_isa.load(std::memory_order_relaxed);
  if (forced != kNotForced) return static_cast<Isa>(forced);
  static const Isa isa = FromEnvironment();
  return isa;
}

void ForceIsa(std::optional<Isa> isa) {
  if (isa && !IsSupported(*isa)) Throw(Code::kUsage, "this processor does not support ", NameOf(*isa));
  forced_isa.store(isa ? static_cast<int>(*isa) : kNotForced, std::memory_order_relaxed);
}

}  // namespace ullage
