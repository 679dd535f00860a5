// Pools over three spatial axes of x [planes, in..]; MODE: 0 largest, 1 mean. And channel-wise affine maps.
typedef struct {
  int in[3], out[3], taps[3], stride[3], dilation[3], before[3], after[3];
  int count_padding, room;
} pool_args;

#ifdef MODE
__kernel void pool(TENSOR(x), TENSOR(y), uint count, pool_args g) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  const int pixels = g.out[0] * g.out[1] * g.out[2], p = i % pixels;
  const int o[3] = {p / g.out[2] / g.out[1], p / g.out[2] % g.out[1], p % g.out[2]};
  __global const ELEMENT(T)* xs = IN(T, x) + (ulong)(i / pixels) * g.in[0] * g.in[1] * g.in[2];
  float value = MODE == 0 ? -INFINITY : 0.0f;
  int seen = 0, within = 1;
  for (int a = 0; a < 3; ++a) {
    const int first = o[a] * g.stride[a] - g.before[a];
    int cells = 0;
    for (int t = 0; t < g.taps[a]; ++t) cells += first + t * g.dilation[a] < g.in[a] + g.after[a];
    within *= cells;
  }
  for (int t0 = 0; t0 < g.taps[0]; ++t0) {
    const int i0 = o[0] * g.stride[0] + t0 * g.dilation[0] - g.before[0];
    if (i0 < 0 || i0 >= g.in[0]) continue;
    for (int t1 = 0; t1 < g.taps[1]; ++t1) {
      const int i1 = o[1] * g.stride[1] + t1 * g.dilation[1] - g.before[1];
      if (i1 < 0 || i1 >= g.in[1]) continue;
      for (int t2 = 0; t2 < g.taps[2]; ++t2) {
        const int i2 = o[2] * g.stride[2] + t2 * g.dilation[2] - g.before[2];
        if (i2 < 0 || i2 >= g.in[2]) continue;
        const float v = LOAD(T, xs, ((ulong)i0 * g.in[1] + i1) * g.in[2] + i2);
        value = MODE == 0 ? (v > value || isnan(v) ? v : value) : value + v;
        ++seen;
      }
    }
  }
  if (MODE == 1) value /= (float)(g.count_padding ? within : seen);
  STORE(T, OUT(T, y), i, value);
}
#else

// y = (x - mean[c]) * scale[c] / sqrt(variance[c] + epsilon) + shift[c] for x [.., channels, inner].
__kernel void batch_norm(TENSOR(x), TENSOR(scale), TENSOR(shift), TENSOR(mean), TENSOR(variance), TENSOR(y),
                         uint count, uint channels, uint inner, float epsilon) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  const uint c = i / inner % channels;
  const float s = LOAD(W, IN(W, scale), c) / sqrt(LOAD(V, IN(V, variance), c) + epsilon);
  STORE(T, OUT(T, y), i, (LOAD(T, IN(T, x), i) - LOAD(V, IN(V, mean), c)) * s + LOAD(W, IN(W, shift), c));
}

// One group of 64 per plane [inner] of x [batch, channels, inner]: normalised by its own mean and deviation.
#define GROUP 64
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void instance_norm(TENSOR(x), TENSOR(scale),
                                                                                TENSOR(shift), TENSOR(y), uint channels,
                                                                                uint inner, float epsilon) {
  __local float part[GROUP];
  const uint plane = get_group_id(0), l = get_local_id(0), c = plane % channels;
  __global const ELEMENT(T)* xs = IN(T, x) + (ulong)plane * inner;
  __global ELEMENT(T)* ys = OUT(T, y) + (ulong)plane * inner;
  float m = 0.0f, q = 0.0f;
  for (uint i = l; i < inner; i += GROUP) m += LOAD(T, xs, i);
  m = sum_over(part, m, GROUP) / inner;
  for (uint i = l; i < inner; i += GROUP) q += (LOAD(T, xs, i) - m) * (LOAD(T, xs, i) - m);
  const float s = LOAD(T, IN(T, scale), c) / sqrt(sum_over(part, q, GROUP) / inner + epsilon);
  for (uint i = l; i < inner; i += GROUP) STORE(T, ys, i, (LOAD(T, xs, i) - m) * s + LOAD(T, IN(T, shift), c));
}
#endif
