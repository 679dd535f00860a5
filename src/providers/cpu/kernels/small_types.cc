#include "providers/cpu/kernels/small_types.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace ullage::cpu {
namespace {

enum class Special {
  kIeee,       ///< the top exponent holds infinity and NaN
  kAllOnes,    ///< all ones are NaN, there is no infinity
  kMinusZero,  ///< the pattern of -0 is NaN, there is no infinity and no -0
  kNone,       ///< all patterns are numbers
};
struct Format {
  int exponent_bits, mantissa_bits, bias;
  float largest;
  Special special;
};

Format FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN:
      return {4, 3, 7, 448, Special::kAllOnes};
    case DType::kFloat8E4M3FNUZ:
      return {4, 3, 8, 240, Special::kMinusZero};
    case DType::kFloat8E5M2:
      return {5, 2, 15, 57344, Special::kIeee};
    case DType::kFloat8E5M2FNUZ:
      return {5, 2, 16, 57344, Special::kMinusZero};
    case DType::kFloat4E2M1:
      return {2, 1, 1, 6, Special::kNone};
    default:
      Throw(Code::kUnsupported, "elements of type ", NameOf(dtype));
  }
}

uint8_t EncodePowerOfTwo(float value, bool saturate, SmallRounding rounding) {
  if (std::isnan(value)) return 0xff;
  value = std::abs(value);
  if (value == 0) return 0;
  if (std::isinf(value)) return saturate ? 0xfe : 0xff;
  int exponent = std::ilogb(value);
  const float fraction = std::ldexp(value, -exponent);  // in [1, 2)
  const bool up = rounding == SmallRounding::kUp        ? fraction > 1
                  : rounding == SmallRounding::kNearest ? fraction >= 1.5f
                                                        : false;
  exponent += up;
  if (exponent < -127) return 0;
  if (exponent > 127) return saturate ? 0xfe : 0xff;
  return static_cast<uint8_t>(exponent + 127);
}

}  // namespace

bool IsSmallFloat(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
    case DType::kFloat4E2M1:
    case DType::kFloat8E8M0:
      return true;
    default:
      return false;
  }
}

bool IsPackedInteger(DType dtype) {
  return dtype == DType::kInt4 || dtype == DType::kUInt4 || dtype == DType::kInt2 || dtype == DType::kUInt2;
}

float DecodeSmallFloat(DType dtype, uint8_t code) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  if (dtype == DType::kFloat8E8M0) return code == 0xff ? nan : std::ldexp(1.0f, code - 127);
  const Format f = FormatOf(dtype);
  const int bits = f.exponent_bits + f.mantissa_bits;
  const bool negative = code >> bits & 1;
  const int exponent = code >> f.mantissa_bits & ((1 << f.exponent_bits) - 1);
  const int mantissa = code & ((1 << f.mantissa_bits) - 1);
  if (f.special == Special::kMinusZero && negative && (code & ((1 << bits) - 1)) == 0) return nan;
  if (f.special == Special::kAllOnes && (code & ((1 << bits) - 1)) == (1 << bits) - 1) return nan;
  if (f.special == Special::kIeee && exponent == (1 << f.exponent_bits) - 1) {
    if (mantissa != 0) return nan;
    return negative ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  }
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), 1 - f.bias - f.mantissa_bits)
                              : std::ldexp(static_cast<float>(mantissa + (1 << f.mantissa_bits)),
                                           exponent - f.bias - f.mantissa_bits);
  return negative ? -magnitude : magnitude;
}

uint8_t EncodeSmallFloat(DType dtype, float value, bool saturate, SmallRounding rounding) {
  if (dtype == DType::kFloat8E8M0) return EncodePowerOfTwo(value, saturate, rounding);
  const Format f = FormatOf(dtype);
  const int bits = f.exponent_bits + f.mantissa_bits;
  const int sign = std::signbit(value) ? 1 << bits : 0;
  const int nan = f.special == Special::kMinusZero ? 1 << bits
                  : f.special == Special::kNone    ? 0
                                                   : sign | ((1 << bits) - 1);
  if (std::isnan(value)) return static_cast<uint8_t>(nan);
  const float magnitude = std::abs(value);
  const auto beyond = [&]() -> int {
    if (saturate || f.special == Special::kNone) {
      const int least = ((1 << f.exponent_bits) - (f.special == Special::kIeee ? 2 : 1)) << f.mantissa_bits;
      const int mantissa = (1 << f.mantissa_bits) - (f.special == Special::kAllOnes ? 2 : 1);
      return sign | least | mantissa;
    }
    return f.special == Special::kIeee ? sign | ((1 << f.exponent_bits) - 1) << f.mantissa_bits : nan;
  };
  if (std::isinf(value)) return static_cast<uint8_t>(beyond());
  const int exponent = magnitude == 0 ? 1 - f.bias : std::max(std::ilogb(magnitude), 1 - f.bias);
  const double quanta =
      std::nearbyint(std::ldexp(static_cast<double>(magnitude), f.mantissa_bits - exponent));
  if (std::ldexp(quanta, exponent - f.mantissa_bits) > static_cast<double>(f.largest))
    return static_cast<uint8_t>(beyond());
  // A carry out of the mantissa moves on to the exponent by itself; so does the step into the normal numbers.
  const int code =
      ((exponent + f.bias) << f.mantissa_bits) + static_cast<int>(quanta) - (1 << f.mantissa_bits);
  if (code == 0 && f.special == Special::kMinusZero) return 0;
  return static_cast<uint8_t>(sign | code);
}

float SmallAt(const void* data, DType dtype, int64_t i) {
  if (dtype == DType::kFloat4E2M1)
    return DecodeSmallFloat(dtype, static_cast<uint8_t>(PackedAt(data, dtype, i)));
  if (IsSmallFloat(dtype)) return DecodeSmallFloat(dtype, static_cast<const uint8_t*>(data)[i]);
  return static_cast<float>(PackedAt(data, dtype, i));
}

}  // namespace ullage::cpu
