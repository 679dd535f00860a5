// Transposed convolutions of x [batch, groups * channels, in..] with filters [groups * channels, filters, taps..] over
// three spatial axes (fewer: 1 in front), then a bias. T: type of all tensors.
typedef struct {
  int batch, groups, channels, filters;
  int in[3], out[3], taps[3], stride[3], dilation[3], before[3];
  int biased, room;
} transposed_args;

#define SPACE(a) (a[0] * a[1] * a[2])

// The input element under tap t of output p of an axis; -1: none.
int under(const transposed_args* g, int axis, int p, int t) {
  const int at = p + g->before[axis] - t * g->dilation[axis];
  return at < 0 || at % g->stride[axis] != 0 || at / g->stride[axis] >= g->in[axis] ? -1 : at / g->stride[axis];
}

// One output per item.
__kernel void transposed(TENSOR(x), TENSOR(w), TENSOR(bias), TENSOR(y), transposed_args g) {
  const int pixels = SPACE(g.out), taps = SPACE(g.taps), space = SPACE(g.in), p = get_global_id(0);
  if (p >= pixels) return;
  const int filter = get_group_id(1), b = get_group_id(2), group = filter / g.filters;
  const int p2 = p % g.out[2], p1 = p / g.out[2] % g.out[1], p0 = p / g.out[2] / g.out[1];
  __global const ELEMENT(T)* xs = IN(T, x) + ((long)b * g.groups + group) * g.channels * space;
  __global const ELEMENT(T)* ws =
      IN(T, w) + ((long)group * g.channels * g.filters + filter % g.filters) * taps;
  float sum = g.biased ? LOAD(T, IN(T, bias), filter) : 0.0f;
  for (int t0 = 0; t0 < g.taps[0]; ++t0) {
    const int i0 = under(&g, 0, p0, t0);
    if (i0 < 0) continue;
    for (int t1 = 0; t1 < g.taps[1]; ++t1) {
      const int i1 = under(&g, 1, p1, t1);
      if (i1 < 0) continue;
      for (int t2 = 0; t2 < g.taps[2]; ++t2) {
        const int i2 = under(&g, 2, p2, t2);
        if (i2 < 0) continue;
        const int from = (i0 * g.in[1] + i1) * g.in[2] + i2, tap = (t0 * g.taps[1] + t1) * g.taps[2] + t2;
        for (int c = 0; c < g.channels; ++c)
          sum += LOAD(T, xs, (long)c * space + from) * LOAD(T, ws, (long)c * g.filters * taps + tap);
      }
    }
  }
  STORE(T, OUT(T, y), ((ulong)b * g.groups * g.filters + filter) * pixels + p, sum);
}
