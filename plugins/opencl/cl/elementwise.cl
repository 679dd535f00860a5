// Operators are numbers, those of the lists in ops/elementwise.cc: one program serves all of a pair of types.
#if defined(UNARY) || defined(GROUP)
// R of T; see kUnary and kConversions.
COMPUTED(R) applied(int op, COMPUTED(T) x, float alpha, float beta) {
#if T <= 2 && R <= 2
  switch (op) {
    case 0: return x < 0.0f ? 0.0f : x;
    case 1: return sigmoid(x);
    case 2: return tanh(x);
    case 3: return exp(x);
    case 4: return log(x);
    case 5: return sqrt(x);
    case 6: return erf(x);
    case 7: return sin(x);
    case 8: return cos(x);
    case 9: return floor(x);
    case 10: return ceil(x);
    case 11: return rint(x);
    case 12: return 1.0f / x;
    case 13: return fmax(x, 0.0f) + log1p(exp(-fabs(x)));
    case 14: return x / (1.0f + fabs(x));
    case 15: return x < 0.0f ? alpha * expm1(x) : x;
    case 16: return x < 0.0f ? alpha * x : x;
    case 17: return fmax(0.0f, fmin(1.0f, alpha * x + beta));
    case 18: return x * fmax(0.0f, fmin(1.0f, x * (1.0f / 6.0f) + 0.5f));
    case 19: return x * tanh(fmax(x, 0.0f) + log1p(exp(-fabs(x))));
    case 20: return gelu_erf(x);
    case 21: return gelu_tanh(x);
    case 22: return x * sigmoid(alpha * x);
    case 23: return fabs(x);
    case 24: return -x;
    case 25: return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;
    default: return x;
  }
#elif T <= 2 && R == 5
  return op == 1 ? isnan(x) != 0 : op == 2 ? isinf(x) != 0 : x != 0.0f;
#elif R == 5
  return op == 3 ? x == 0 : x != 0;
#else
  return op == 23 ? (x < 0 ? -x : x) : op == 24 ? -x : op == 25 ? (x > 0) - (x < 0) : x;
#endif
}

#endif
#if defined(UNARY)

__kernel void unary(TENSOR(x), TENSOR(y), uint count, int op, float alpha, float beta) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  STORE(R, OUT(R, y), i, applied(op, LOAD(T, IN(T, x), i), alpha, beta));
}

#elif defined(CLIP)
// Ends are tensors of one element, or left out.
__kernel void clip(TENSOR(x), TENSOR(y), TENSOR(lowest), TENSOR(highest), uint count, int ends) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  COMPUTED(T) v = LOAD(T, IN(T, x), i);
  if (ends & 1) {
    const COMPUTED(T) low = LOAD(T, IN(T, lowest), 0);
    v = v < low ? low : v;
  }
  if (ends & 2) {
    const COMPUTED(T) high = LOAD(T, IN(T, highest), 0);
    v = v > high ? high : v;
  }
  STORE(T, OUT(T, y), i, v);
}

#elif defined(BINARY) || defined(GROUP)
// Type of the second operand; it is computed with as T.
#ifndef TB
#define TB T
#endif
// Of numbers that are not unsigned: the least one divided by -1 is more than there is room for.
#if T == 8 || T == 9
#define NEGATES(b) 0
#else
#define NEGATES(b) ((b) == -1)
#endif

// A remainder, moved to the divisor's side of zero.
COMPUTED(T) sign_of_divisor(COMPUTED(T) r, COMPUTED(T) b) {
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// R of two T; see kArithmetic, kComparisons and kLogic.
COMPUTED(R) joined(int op, COMPUTED(T) a, COMPUTED(T) b) {
#if T == 5
  return op == 0 ? a && b : op == 1 ? a || b : op == 2 ? a != b : a == b;
#elif R == 5
  switch (op) {
    case 0: return a == b;
    case 1: return a < b;
    case 2: return a <= b;
    case 3: return a > b;
    default: return a >= b;
  }
#else
  switch (op) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
#if T <= 2
    case 3: return a / b;
    // What is no number wins.
    case 4: return a > b || isnan(a) ? a : b;
    case 5: return a < b || isnan(a) ? a : b;
    case 6: return pow(a, b);
    case 7: return fmod(a, b);
    case 8: return sign_of_divisor(fmod(a, b), b);
#else
    case 3: return b == 0 ? 0 : NEGATES(b) ? -a : a / b;
    case 4: return a > b ? a : b;
    case 5: return a < b ? a : b;
    case 7: return b == 0 || NEGATES(b) ? 0 : a % b;
    case 8: return b == 0 || NEGATES(b) ? 0 : sign_of_divisor(a % b, b);
#endif
    default: return a < 0 ? a * b : a;
  }
#endif
}

#if defined(GROUP)
// Results are those of the nodes one by one.
#pragma OPENCL FP_CONTRACT OFF
// What a value of type half is when it is written and read again; the kernels follow (ops/group.cc).
float half_of(float v) {
  ushort u;
  vstore_half_rte(v, 0, (half*)&u);
  return vload_half(0, (const half*)&u);
}
#else

// step 0: one element serves all.
__kernel void binary(TENSOR(a), TENSOR(b), TENSOR(y), uint count, int op, uint a_step, uint b_step) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  STORE(R, OUT(R, y), i, joined(op, LOAD(T, IN(T, a), i * a_step), LOAD(TB, IN(TB, b), i * b_step)));
}

__kernel void binary_spread(TENSOR(a), TENSOR(b), TENSOR(y), uint count, int op, dims8 dims, strides8 sa,
                            strides8 sb) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  STORE(R, OUT(R, y), i, joined(op, LOAD(T, IN(T, a), place(i, &dims, &sa)), LOAD(TB, IN(TB, b), place(i, &dims, &sb))));
}

#endif

#elif defined(WHERE)

__kernel void where(TENSOR(c), TENSOR(a), TENSOR(b), TENSOR(y), uint count, dims8 dims, strides8 sc, strides8 sa,
                    strides8 sb) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  const bool take = (c + c_at)[place(i, &dims, &sc)] != 0;
  __global const ELEMENT(T)* from = take ? IN(T, a) : IN(T, b);
  STORE(T, OUT(T, y), i, LOAD(T, from, take ? place(i, &dims, &sa) : place(i, &dims, &sb)));
}

#elif defined(GATED)

float activated(int act, float x) {
  switch (act) {
    case 0: return x * sigmoid(x);
    case 1: return gelu_erf(x);
    case 2: return gelu_tanh(x);
    case 3: return x < 0.0f ? 0.0f : x;
    default: return sigmoid(x);
  }
}

// y[r, c] = act(gate[r, c]) * up[r, c]; rows of gate and up begin `pitch` elements apart.
__kernel void gated(TENSOR(gate), TENSOR(up), TENSOR(y), uint count, uint columns, uint pitch, uint up_first,
                    int act) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  const uint r = i / columns, c = i - r * columns;
  const float g = LOAD(T, IN(T, gate), (ulong)r * pitch + c), u = LOAD(T, IN(T, up), (ulong)r * pitch + up_first + c);
  STORE(T, OUT(T, y), i, activated(act, g) * u);
}

#elif defined(BIASED)

// FastGelu, BiasGelu, BiasAdd forms: ACT(x + bias[i % columns]).
#define act_gelu(x) gelu_erf(x)
#define act_gelu_tanh(x) gelu_tanh(x)
__kernel void biased(TENSOR(x), TENSOR(bias), TENSOR(y), uint count, uint columns) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  const float v = LOAD(T, IN(T, x), i) + LOAD(T, IN(T, bias), i % columns);
  STORE(T, OUT(T, y), i, ACT(v));
}

#endif
