// Numbers to integers with scales and back. X: type of x, S: of scales, Y: of y, Z: of zero points; 20 and 21 two
// unsigned and signed codes in a byte, low bits first. Element i of [outer, axis, inner] has the scale of its place on
// the axis, or of its block of that axis: [outer, ceil(axis / block), inner].
typedef struct {
  uint count, axis, inner, block;  // block 0: none
  int zeros;                       // there are zero points
} scale_args;

uint scale_at_of(uint i, const scale_args* g) {
  const uint column = i % g->inner, row = i / g->inner;
  if (g->block == 0) return row % g->axis;
  return (row / g->axis * ((g->axis + g->block - 1) / g->block) + row % g->axis / g->block) * g->inner + column;
}

#define CODE_20(p, i) ((int)((p)[(i) / 2] >> (4 * ((i) & 1)) & 15))
#define CODE_21(p, i) (((int)((p)[(i) / 2] >> (4 * ((i) & 1)) & 15) ^ 8) - 8)
#define E_20 uchar
#define E_21 uchar
#define LOAD_20(p, i) CODE_20(p, i)
#define LOAD_21(p, i) CODE_21(p, i)

#if defined(DEQUANTIZE)
__kernel void dequantize(TENSOR(x), TENSOR(scales), TENSOR(zeros), TENSOR(y), scale_args g) {
  const uint i = get_global_id(0);
  if (i >= g.count) return;
  const uint at = scale_at_of(i, &g);
  const long code = (long)LOAD(X, IN(X, x), i) - (g.zeros ? (long)LOAD(Z, IN(Z, zeros), at) : 0l);
  STORE(Y, OUT(Y, y), i, (float)code * LOAD(S, IN(S, scales), at));
}
#elif defined(QUANTIZE)
// LOW and HIGH: ends of the codes. PRECISION: the type that the quotient is rounded to.
__kernel void quantize(TENSOR(x), TENSOR(scales), TENSOR(zeros), TENSOR(y), scale_args g) {
  const uint i = get_global_id(0);
  if (i >= g.count) return;
  const uint at = scale_at_of(i, &g);
  const float v = (float)LOAD(X, IN(X, x), i), s = (float)LOAD(S, IN(S, scales), at);
  float q = v / s;
  // A device's quotient may be a little off, and codes change where it is near a half.
  const float rest = fma(-q, s, v) / s;
  if (isfinite(rest)) q += rest;
#if PRECISION == 1
  ushort half_of;
  vstore_half_rte(q, 0, (half*)&half_of);
  q = vload_half(0, (const half*)&half_of);
#elif PRECISION == 2
  q = of_bf16(bf16_of(q));
#endif
  q = rint(q) + (g.zeros ? (float)LOAD(Z, IN(Z, zeros), at) : 0.0f);
  const int code = isnan(q) ? 0 : q <= LOW ? LOW : q >= HIGH ? HIGH : (int)q;
  OUT(Y, y)[i] = (ELEMENT(Y))code;
}
#else
// uint8 with one scale for all; the range always holds 0.
#define GROUP 128
#define PARTS 64

void ends_of(__local float* low, __local float* high, int l) {
  for (int n = GROUP / 2; n > 0; n >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < n) {
      low[l] = fmin(low[l], low[l + n]);
      high[l] = fmax(high[l], high[l + n]);
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
}

// Least and largest element of a part of x.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void range_of(TENSOR(x), TENSOR(parts), uint count) {
  __local float low[GROUP], high[GROUP];
  const int l = get_local_id(0), part = get_group_id(0);
  float least = 0.0f, most = 0.0f;
  for (uint i = part * GROUP + l; i < count; i += PARTS * GROUP) {
    const float v = IN(0, x)[i];
    least = fmin(least, v);
    most = fmax(most, v);
  }
  low[l] = least;
  high[l] = most;
  ends_of(low, high, l);
  if (l == 0) {
    OUT(0, parts)[2 * part] = low[0];
    OUT(0, parts)[2 * part + 1] = high[0];
  }
}

// Every group joins the parts; the first says scale and zero point.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void dynamic(TENSOR(x), TENSOR(parts), TENSOR(y),
                                                                          TENSOR(scale), TENSOR(zero), uint count,
                                                                          int wanted) {
  __local float low[GROUP], high[GROUP];
  const int l = get_local_id(0);
  low[l] = l < PARTS ? IN(0, parts)[2 * l] : 0.0f;
  high[l] = l < PARTS ? IN(0, parts)[2 * l + 1] : 0.0f;
  ends_of(low, high, l);
  const float s = high[0] == low[0] ? 1.0f : (high[0] - low[0]) / 255.0f;
  const float z = rint(clamp(0.0f - low[0] / s, 0.0f, 255.0f));
  const uint i = get_global_id(0);
  if (i == 0 && (wanted & 1)) OUT(0, scale)[0] = s;
  if (i == 0 && (wanted & 2)) OUT(6, zero)[0] = (uchar)z;
  if (i >= count) return;
  const float v = IN(0, x)[i];
  float q = v / s;
  const float rest = fma(-q, s, v) / s;
  if (isfinite(rest)) q += rest;
  q = rint(q) + z;
  OUT(6, y)[i] = q > 0.0f ? (q < 255.0f ? (uchar)q : 255) : 0;
}
#endif
