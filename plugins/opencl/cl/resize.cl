// Resizes x [outer, in..] to y [outer, out..] over three axes. T: type of both. MODE: 0 nearest, 1 linear, 2 cubic.
// POSITION: 0 half_pixel, 1 half_pixel_symmetric, 2 pytorch_half_pixel, 3 align_corners, 4 asymmetric,
// 5 tf_half_pixel_for_nn. ROUND: 0 round_prefer_floor, 1 round_prefer_ceil, 2 floor, 3 ceil.
typedef struct {
  uint count;
  int in[3], out[3];
  float scale[3];
  float cubic;
  int exclude;
} resize_args;

// Where output o lies among the input's elements.
float source_of(const resize_args* g, int axis, int o) {
  const float x = o, in = g->in[axis], scale = g->scale[axis], rounded = g->out[axis], wanted = scale * in;
  if (scale == 1.0f && g->in[axis] == g->out[axis]) return x;
#if POSITION == 0
  return (x + 0.5f) / scale - 0.5f;
#elif POSITION == 1
  const float out = fabs(wanted - rounded) < 1e-4f * rounded ? rounded : wanted;
  return in / 2.0f * (1.0f - rounded / out) + (x + 0.5f) / scale - 0.5f;
#elif POSITION == 2
  return g->out[axis] > 1 ? (x + 0.5f) / scale - 0.5f : 0.0f;
#elif POSITION == 3
  const float out = fabs(wanted - rounded) < 1e-4f * rounded ? rounded : wanted;
  return out != 1.0f ? x * (in - 1.0f) / (out - 1.0f) : 0.0f;
#elif POSITION == 4
  return x / scale;
#else
  return (x + 0.5f) / scale;
#endif
}

float cubic_weight(float x, float a) {
  x = fabs(x);
  if (x <= 1.0f) return ((a + 2.0f) * x - (a + 3.0f)) * x * x + 1.0f;
  return x < 2.0f ? ((a * x - 5.0f * a) * x + 8.0f * a) * x - 4.0f * a : 0.0f;
}

#define TAPS (MODE == 0 ? 1 : 2 * MODE)
// The elements that make output o of an axis, and their weights; their number.
int taps_of(const resize_args* g, int axis, int o, int* at, float* weight) {
  const float x = source_of(g, axis, o), last = g->in[axis] - 1;
#if MODE == 0
#if ROUND == 0
  const float r = ceil(x - 0.5f);
#elif ROUND == 1
  const float r = floor(x + 0.5f);
#elif ROUND == 2
  const float r = floor(x);
#else
  const float r = ceil(x);
#endif
  at[0] = (int)clamp(r, 0.0f, last);
  weight[0] = 1.0f;
  return 1;
#else
  if (g->scale[axis] == 1.0f && g->in[axis] == g->out[axis]) {
    at[0] = o;
    weight[0] = 1.0f;
    return 1;
  }
  const float base = ceil(x) - 1.0f, ratio = x - base;
  float sum = 0.0f;
  for (int i = 0; i < TAPS; ++i) {
    const float offset = 1 - MODE + i, from = base + offset, distance = offset - ratio;
    float w = MODE == 1 ? fmax(0.0f, 1.0f - fabs(distance)) : cubic_weight(distance, g->cubic);
    if (g->exclude && (from < 0.0f || from > last)) w = 0.0f;
    at[i] = (int)clamp(from, 0.0f, last);
    weight[i] = w;
    sum += w;
  }
  if (g->exclude && sum != 0.0f)
    for (int i = 0; i < TAPS; ++i) weight[i] /= sum;
  return TAPS;
#endif
}

__kernel void resize(TENSOR(x), TENSOR(y), resize_args g) {
  const uint i = get_global_id(0);
  if (i >= g.count) return;
  const uint o2 = i % g.out[2], o1 = i / g.out[2] % g.out[1], o0 = i / g.out[2] / g.out[1] % g.out[0];
  const uint outer = i / g.out[2] / g.out[1] / g.out[0];
  int a0[TAPS], a1[TAPS], a2[TAPS];
  float w0[TAPS], w1[TAPS], w2[TAPS];
  const int n0 = taps_of(&g, 0, o0, a0, w0), n1 = taps_of(&g, 1, o1, a1, w1), n2 = taps_of(&g, 2, o2, a2, w2);
  __global const ELEMENT(T)* xs = IN(T, x) + (ulong)outer * g.in[0] * g.in[1] * g.in[2];
#if MODE == 0
  STORE(T, OUT(T, y), i, LOAD(T, xs, ((ulong)a0[0] * g.in[1] + a1[0]) * g.in[2] + a2[0]));
#else
  float sum = 0.0f;
  for (int p = 0; p < n0; ++p)
    for (int q = 0; q < n1; ++q) {
      float row = 0.0f;
      for (int r = 0; r < n2; ++r) row += w2[r] * LOAD(T, xs, ((ulong)a0[p] * g.in[1] + a1[q]) * g.in[2] + a2[r]);
      sum += w0[p] * w1[q] * row;
    }
  STORE(T, OUT(T, y), i, sum);
#endif
}
