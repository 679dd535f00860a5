/// Element-wise kernels: arithmetic, activations, gated activations, casts, softmax.
/// Accuracy of the functions: within 1e-6 relative of the exact value, before rounding to the output type.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/thread_team.h"
#include "providers/cpu/dense/array.h"

namespace ullage::dense {

enum class BinaryOp { kAdd, kSub, kMul, kDiv, kMin, kMax };

/// How `b` (or `a`) spreads over the result of rows x cols.
enum class Spread {
  kFull,    ///< [rows, cols]
  kScalar,  ///< one element
  kRow,     ///< [cols], the same for every row
  kColumn,  ///< [rows], one value per row
};

/// out[r,c] = a op b. The operands may have different types. out may be a or b where that one is kFull.
void Binary(ThreadTeam& team, BinaryOp op, ConstArray a, Spread a_spread, ConstArray b, Spread b_spread,
            int64_t rows, int64_t cols, Array out);

enum class UnaryOp {
  kIdentity,
  kSigmoid,
  kSilu,      ///< x * sigmoid(alpha * x): SiLU with alpha 1, QuickGelu with alpha 1.702
  kGeluErf,   ///< x/2 * (1 + erf(x / sqrt 2))
  kGeluTanh,  ///< x/2 * (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
  kTanh,
  kExp,
  kErf,
  kRelu,
  kSoftplus,
  kSoftcap,  ///< alpha * tanh(x / alpha)
  kSqrt,
  kReciprocal,
  kNeg,
  kAbs,
  kScale,  ///< alpha * x
};

/// out[i] = op(x[i]) for i in [0, n). Types may differ; out may be x when they do not.
void Unary(ThreadTeam& team, UnaryOp op, ConstArray x, int64_t n, Array out, float alpha = 1);

/// out = x, another type.
void Cast(ThreadTeam& team, ConstArray x, int64_t n, Array out);

enum class GateOp { kSilu, kGeluErf, kGeluTanh, kSigmoid, kRelu };

/// y[r,c] = act(gate) * (up + beta). SiLU is gate * sigmoid(alpha * gate); the others have no alpha. With a
/// limit > 0, first gate = min(gate, limit) and up = clamp(up, -limit, limit). Element c of row r is at gate
/// + r*gate_pitch + c*stride, and up likewise: separate arrays and packed halves have stride 1 (packed: up =
/// gate + cols), interleaved pairs stride 2 (up = gate + 1). y may be the gate or the up array where its
/// stride is 1 and types and pitches agree.
struct GatedArgs {
  GateOp op = GateOp::kSilu;
  int64_t rows = 0;
  int64_t cols = 0;
  ConstArray gate;
  ConstArray up;  ///< type of gate
  int64_t gate_pitch = 0;
  int64_t up_pitch = 0;
  int stride = 1;  ///< 1 or 2
  float alpha = 1;
  float beta = 0;
  float limit = 0;  ///< <= 0: none
  Array y;
  int64_t y_pitch = 0;
};
void Gated(ThreadTeam& team, const GatedArgs& args);

/// y[r,:] = softmax(scale * x[r,:]), or its logarithm. A row of -inf only gives zeros (-inf for the
/// logarithm). y may be x when the types agree.
void Softmax(ThreadTeam& team, ConstArray x, int64_t rows, int64_t cols, Array y, bool log = false,
             float scale = 1);

}  // namespace ullage::dense
