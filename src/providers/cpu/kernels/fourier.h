/// Discrete Fourier transforms of any length, in double precision.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>

namespace ullage::cpu {

/// Powers of two by radix-2 steps, other lengths by a convolution with a chirp (Bluestein). Owns nothing: the
/// tables lie in memory of the caller, and every thread that calls Run() has a buffer of its own.
class Fourier {
 public:
  using Complex = std::complex<double>;

  /// Numbers for the tables and for the buffer; they grow with n. Throws kInvalidModel on overflow.
  static int64_t TableSize(int64_t n);
  static int64_t BufferSize(int64_t n);

  /// Fills tables of TableSize(n) numbers. n >= 1.
  Fourier(int64_t n, Complex* tables);

  /// data[n] becomes sum_j data[j] exp(-2 pi i j k / n); with `inverse` the sign is turned and the result
  /// divided by n.
  void Run(Complex* data, bool inverse, Complex* buffer) const;

 private:
  void PowerOfTwo(Complex* data) const;

  int64_t n_;
  int64_t padded_;        ///< the power of two that is transformed
  Complex* roots_;        ///< [padded / 2]
  Complex* chirp_;        ///< [n], unless n is a power of two
  Complex* transformed_;  ///< [padded], transform of the conjugate chirp
};

}  // namespace ullage::cpu
