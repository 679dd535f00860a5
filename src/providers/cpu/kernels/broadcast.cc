#include "providers/cpu/kernels/broadcast.h"

#include "core/error.h"

namespace ullage::cpu {

Broadcast::Broadcast(const Shape& out, const Shape* a, const Shape* b, const Shape* c) {
  const Shape* operands[kOperands] = {a, b, c};
  int64_t all[kOperands][kMaxRank] = {};
  for (int o = 0; o < kOperands; ++o) {
    if (!operands[o]) continue;
    const Shape& s = *operands[o];
    if (s.rank() > out.rank())
      Throw(Code::kInvalidModel, "shape ", s.ToString(), " does not spread over ", out.ToString());
    int64_t stride = 1;
    for (int i = s.rank() - 1; i >= 0; --i) {
      const int d = i + out.rank() - s.rank();
      if (s[i] != out[d] && s[i] != 1)
        Throw(Code::kInvalidModel, "shape ", s.ToString(), " does not spread over ", out.ToString());
      all[o][d] = s[i] == 1 ? 0 : stride;
      stride *= s[i];
    }
  }
  for (int d = 0; d < out.rank(); ++d) {
    if (out[d] == 1) continue;
    bool merged = rank > 0;
    for (int o = 0; merged && o < kOperands; ++o) merged = strides[o][rank - 1] == all[o][d] * out[d];
    if (!merged) {
      dims[rank] = out[d];
      ++rank;
    } else {
      dims[rank - 1] *= out[d];
    }
    for (int o = 0; o < kOperands; ++o) strides[o][rank - 1] = all[o][d];
  }
}

int64_t Broadcast::rows() const {
  int64_t n = 1;
  for (int d = 0; d + 1 < rank; ++d) n *= dims[d];
  return n;
}

int64_t Broadcast::offset(int operand, int64_t row) const {
  int64_t at = 0;
  for (int d = rank - 2; d >= 0; --d) {
    at += row % dims[d] * strides[operand][d];
    row /= dims[d];
  }
  return at;
}

}  // namespace ullage::cpu
