#include "providers/cpu/kernels/fourier.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/checked.h"

namespace ullage::cpu {
namespace {

bool IsPowerOfTwo(int64_t n) {
  return (n & (n - 1)) == 0;
}

/// exp(-pi i k / n), with k reduced so that large k lose nothing.
std::complex<double> Root(int64_t k, int64_t n) {
  const double angle = -M_PI * static_cast<double>(k % (2 * n)) / static_cast<double>(n);
  return {std::cos(angle), std::sin(angle)};
}

int64_t Padded(int64_t n) {
  CheckedMul(n, int64_t{64}, "transform");
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n)));
}

}  // namespace

int64_t Fourier::TableSize(int64_t n) {
  n = std::max<int64_t>(n, 1);
  return 2 * Padded(n) + n;
}
int64_t Fourier::BufferSize(int64_t n) {
  return Padded(std::max<int64_t>(n, 1));
}

Fourier::Fourier(int64_t n, Complex* tables)
    : n_(n),
      padded_(IsPowerOfTwo(n) ? n : Padded(n)),
      roots_(tables),
      chirp_(roots_ + padded_),
      transformed_(chirp_ + n) {
  for (int64_t k = 0; k < padded_ / 2; ++k) roots_[k] = Root(2 * k, padded_);
  if (IsPowerOfTwo(n)) return;
  int64_t square = 0;  // k * k modulo 2 n
  for (int64_t k = 0; k < n; ++k) {
    chirp_[k] = Root(square, n);
    square = (square + 2 * k + 1) % (2 * n);
  }
  std::fill_n(transformed_, padded_, Complex(0));
  transformed_[0] = std::conj(chirp_[0]);
  for (int64_t k = 1; k < n; ++k) transformed_[k] = transformed_[padded_ - k] = std::conj(chirp_[k]);
  PowerOfTwo(transformed_);
}

void Fourier::PowerOfTwo(Complex* data) const {
  for (int64_t i = 1, j = 0; i < padded_; ++i) {
    int64_t bit = padded_ >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(data[i], data[j]);
  }
  for (int64_t size = 2; size <= padded_; size *= 2) {
    const int64_t half = size / 2, step = padded_ / size;
    for (int64_t i = 0; i < padded_; i += size) {
      for (int64_t k = 0; k < half; ++k) {
        const Complex &w = roots_[k * step], &b = data[i + k + half];
        const Complex product(w.real() * b.real() - w.imag() * b.imag(),
                              w.real() * b.imag() + w.imag() * b.real());
        data[i + k + half] = data[i + k] - product;
        data[i + k] += product;
      }
    }
  }
}

void Fourier::Run(Complex* data, bool inverse, Complex* buffer) const {
  if (inverse)
    for (int64_t i = 0; i < n_; ++i) data[i] = std::conj(data[i]);
  if (IsPowerOfTwo(n_)) {
    PowerOfTwo(data);
  } else {
    for (int64_t i = 0; i < n_; ++i) buffer[i] = data[i] * chirp_[i];
    std::fill(buffer + n_, buffer + padded_, Complex(0));
    PowerOfTwo(buffer);
    // The inverse of the product, by conjugation.
    for (int64_t i = 0; i < padded_; ++i) buffer[i] = std::conj(buffer[i] * transformed_[i]);
    PowerOfTwo(buffer);
    const double scale = 1 / static_cast<double>(padded_);
    for (int64_t i = 0; i < n_; ++i) data[i] = std::conj(buffer[i]) * scale * chirp_[i];
  }
  if (inverse)
    for (int64_t i = 0; i < n_; ++i) data[i] = std::conj(data[i]) / static_cast<double>(n_);
}

}  // namespace ullage::cpu
