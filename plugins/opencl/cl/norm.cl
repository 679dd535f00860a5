// One group of 64 per row. T: inputs and outputs; W: scale and shift; RMS: no mean is taken; ROUND: the result is
// rounded to T before it is scaled.
#define GROUP 64

#if ROUND && T == 1
float rounded(float v, __local ushort* room) {
  vstore_half_rte(v, get_local_id(0), (__local half*)room);
  return vload_half(get_local_id(0), (__local half*)room);
}
#define ROUNDED(v) rounded(v, room)
#elif ROUND && T == 2
#define ROUNDED(v) of_bf16(bf16_of(v))
#else
#define ROUNDED(v) (v)
#endif

// flags: 1 scale, 2 shift, 4 skip, 8 skip bias, 16 sum is wanted, 32 mean, 64 inverse deviation.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void norm(
    TENSOR(x), TENSOR(skip), TENSOR(skip_bias), TENSOR(scale), TENSOR(shift), TENSOR(y), TENSOR(sum), TENSOR(mean),
    TENSOR(deviation), uint columns, uint skip_rows, float epsilon, int flags) {
  __local float part[GROUP];
#if ROUND && T == 1
  __local ushort room[GROUP];
#endif
  const uint row = get_group_id(0), l = get_local_id(0);
  __global const ELEMENT(T)* xs = IN(T, x) + (ulong)row * columns;
  __global const ELEMENT(T)* ss = IN(T, skip) + (ulong)(flags & 4 ? row % skip_rows : 0) * columns;
  __global ELEMENT(T)* ys = OUT(T, y) + (ulong)row * columns;
  __global ELEMENT(T)* sums = OUT(T, sum) + (ulong)row * columns;
#define VALUE(c)                                             \
  (LOAD(T, xs, c) + (flags & 4 ? LOAD(T, ss, c) : 0.0f) +    \
   (flags & 8 ? LOAD(T, IN(T, skip_bias), c) : 0.0f))
  float m = 0.0f, q = 0.0f;
#if !RMS
  for (uint c = l; c < columns; c += GROUP) m += VALUE(c);
  m = sum_over(part, m, GROUP) / columns;
#endif
  for (uint c = l; c < columns; c += GROUP) {
    const float v = VALUE(c) - m;
    q += v * v;
  }
  const float inverse = 1.0f / sqrt(sum_over(part, q, GROUP) / columns + epsilon);
  for (uint c = l; c < columns; c += GROUP) {
    const float v = VALUE(c);
    if (flags & 16) STORE(T, sums, c, v);
    float r = ROUNDED((v - m) * inverse);
    if (flags & 1) r *= LOAD(W, IN(W, scale), c);
    if (flags & 2) r += LOAD(W, IN(W, shift), c);
    STORE(T, ys, c, r);
  }
  if (l == 0 && flags & 32) OUT(0, mean)[row] = m;
  if (l == 0 && flags & 64) OUT(0, deviation)[row] = inverse;
}
