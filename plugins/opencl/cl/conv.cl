// Convolutions of x [batch, groups * channels, in..] with filters [groups * filters, channels, taps..] over three
// spatial axes (fewer: 1 in front), then bias, addend and activation ACT. T: type of all tensors.
typedef struct {
  int batch, groups, channels, filters;
  int in[3], out[3], taps[3], stride[3], dilation[3], before[3];
  int biased, added;
  float alpha, beta;
} conv_args;

#define act_None(x) (x)
#define act_Relu(x) ((x) < 0.0f ? 0.0f : (x))
#define act_Clip(x) fmin(fmax(x, g.alpha), g.beta)
#define act_LeakyRelu(x) ((x) < 0.0f ? g.alpha * (x) : (x))
#define act_Sigmoid(x) sigmoid(x)
#define act_Tanh(x) tanh(x)
#define act_HardSigmoid(x) fmax(0.0f, fmin(1.0f, g.alpha * (x) + g.beta))
#define act_HardSwish(x) ((x) * fmax(0.0f, fmin(1.0f, (x) * (1.0f / 6.0f) + 0.5f)))
#define act_Silu(x) ((x) * sigmoid(g.alpha * (x)))
#define act_Gelu(x) gelu_erf(x)

// The element of channel `c` (of its group) under tap `t` of output `p`; 0 in the padding.
float under(__global const ELEMENT(T)* x, const conv_args* g, int c, int t, int p) {
  const int p2 = p % g->out[2], p1 = p / g->out[2] % g->out[1], p0 = p / g->out[2] / g->out[1];
  const int t2 = t % g->taps[2], t1 = t / g->taps[2] % g->taps[1], t0 = t / g->taps[2] / g->taps[1];
  const int i0 = p0 * g->stride[0] + t0 * g->dilation[0] - g->before[0];
  const int i1 = p1 * g->stride[1] + t1 * g->dilation[1] - g->before[1];
  const int i2 = p2 * g->stride[2] + t2 * g->dilation[2] - g->before[2];
  if (i0 < 0 || i0 >= g->in[0] || i1 < 0 || i1 >= g->in[1] || i2 < 0 || i2 >= g->in[2]) return 0.0f;
  return LOAD(T, x, (((long)c * g->in[0] + i0) * g->in[1] + i1) * g->in[2] + i2);
}

#define SPACE(a) (a[0] * a[1] * a[2])
#define FINISH(to, filter, sum)                                         \
  {                                                                     \
    float r = sum;                                                      \
    if (g.biased) r += LOAD(T, IN(T, bias), filter);                    \
    if (g.added) r += LOAD(T, IN(T, addend), to);                       \
    STORE(T, OUT(T, y), to, ACT(r));                                    \
  }

// One result per item: few channels, or few filters per group.
__kernel void direct(TENSOR(x), TENSOR(w), TENSOR(bias), TENSOR(addend), TENSOR(y), conv_args g) {
  const int pixels = SPACE(g.out), taps = SPACE(g.taps), p = get_global_id(0);
  if (p >= pixels) return;
  const int filter = get_group_id(1), b = get_group_id(2), group = filter / g.filters;
  __global const ELEMENT(T)* xs = IN(T, x) + ((long)b * g.groups + group) * g.channels * SPACE(g.in);
  __global const ELEMENT(T)* ws = IN(T, w) + (long)filter * g.channels * taps;
  float sum = 0.0f;
  for (int c = 0; c < g.channels; ++c)
    for (int t = 0; t < taps; ++t) sum += under(xs, &g, c, t, p) * LOAD(T, ws, c * taps + t);
  const ulong to = ((ulong)b * g.groups * g.filters + filter) * pixels + p;
  FINISH(to, filter, sum)
}

// Tiles of 32 filters and 64 outputs, 16 of depth (channels and taps) at a time; 16 x 8 items with 4 x 4 results.
#define BM 32
#define BN 64
#define BK 16
__kernel __attribute__((reqd_work_group_size(16, 8, 1))) void tiles(TENSOR(x), TENSOR(w), TENSOR(bias),
                                                                     TENSOR(addend), TENSOR(y), conv_args g) {
  __local float wt[BK][BM], xt[BK][BN];
  const int tx = get_local_id(0), ty = get_local_id(1), t = ty * 16 + tx;
  const int pixels = SPACE(g.out), taps = SPACE(g.taps), depth = g.channels * taps;
  const int first_p = get_group_id(0) * BN;
  const int blocks = (g.filters + BM - 1) / BM, group = get_group_id(1) / blocks;
  const int first_f = get_group_id(1) % blocks * BM, b = get_group_id(2);
  __global const ELEMENT(T)* xs = IN(T, x) + ((long)b * g.groups + group) * g.channels * SPACE(g.in);
  __global const ELEMENT(T)* ws = IN(T, w) + (long)group * g.filters * depth;
  float4 s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
  for (int k0 = 0; k0 < depth; k0 += BK) {
    for (int u = t; u < BM * BK; u += 128) {
      const int f = u / BK, k = u % BK;
      wt[k][f] = k0 + k < depth && first_f + f < g.filters ? LOAD(T, ws, (long)(first_f + f) * depth + k0 + k) : 0.0f;
    }
    for (int u = t; u < BN * BK; u += 128) {
      const int k = u / BN, p = u % BN, d = k0 + k;
      xt[k][p] = d < depth && first_p + p < pixels ? under(xs, &g, d / taps, d % taps, first_p + p) : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < BK; ++k) {
      const float4 u = vload4(ty, wt[k]), v = vload4(tx, xt[k]);
      s0 += u.x * v;
      s1 += u.y * v;
      s2 += u.z * v;
      s3 += u.w * v;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float sums[16];
  vstore4(s0, 0, sums);
  vstore4(s1, 1, sums);
  vstore4(s2, 2, sums);
  vstore4(s3, 3, sums);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int f = first_f + ty * 4 + i, p = first_p + tx * 4 + j;
      if (f >= g.filters || p >= pixels) continue;
      const int filter = group * g.filters + f;
      const ulong to = ((ulong)b * g.groups * g.filters + filter) * pixels + p;
      FINISH(to, filter, sums[i * 4 + j])
    }
}
