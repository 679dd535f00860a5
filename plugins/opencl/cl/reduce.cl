// x seen as [kept dims] x [reduced dims]; MODE: 0 sum, 1 mean, 2 max, 3 min, 4 product, 5 sum of squares, 6 L2,
// 7 L1, 8 log of the sum of exponents, 9 log of the sum.
#define GROUP 64
#define NUMBER COMPUTED(T)

// What JOIN leaves alone, and the result for no elements.
#if MODE == 2
#define NEUTRAL LEAST(T)
#define JOIN(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#elif MODE == 3
#define NEUTRAL MOST(T)
#define JOIN(a, b) ((b) < (a) || (b) != (b) ? (b) : (a))
#elif MODE == 4
#define NEUTRAL 1
#define JOIN(a, b) ((a) * (b))
#else
#define NEUTRAL 0
#define JOIN(a, b) ((a) + (b))
#endif
#if MODE == 5 || MODE == 6
#define PREPARED(v) ((v) * (v))
#elif MODE == 7
#define PREPARED(v) ((v) < 0 ? -(v) : (v))
#elif MODE == 8
#define PREPARED(v) exp((float)(v) - most)
#else
#define PREPARED(v) (v)
#endif

// One group per result: `inner` reduced elements, of which lane l takes every 64th.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void reduce(TENSOR(x), TENSOR(y), uint inner, dims8 kept,
                                                                        strides8 ks, dims8 reduced, strides8 rs) {
  __local NUMBER part[GROUP];
  const uint to = get_group_id(0), l = get_local_id(0);
  __global const ELEMENT(T)* xs = IN(T, x) + place(to, &kept, &ks);
  NUMBER a = NEUTRAL;
#if MODE == 8
  float most = -INFINITY;
  for (uint i = 0; i < inner; ++i) most = fmax(most, (float)LOAD(T, xs, place(i, &reduced, &rs)));
  if (!isfinite(most)) most = 0.0f;
#endif
  for (uint i = l; i < inner; i += GROUP) {
    const NUMBER v = LOAD(T, xs, place(i, &reduced, &rs));
    a = JOIN(a, PREPARED(v));
  }
  part[l] = a;
  for (int n = GROUP / 2; n > 0; n >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < n) part[l] = JOIN(part[l], part[l + n]);
  }
  if (l > 0) return;
  a = part[0];
#if MODE == 1
#if T > 2
  if (inner > 0)
#endif
    a = a / (NUMBER)inner;
#elif MODE == 6
  a = sqrt((float)a);
#elif MODE == 8
  a = log((float)a) + most;
#elif MODE == 9
  a = log((float)a);
#endif
  STORE(T, OUT(T, y), to, a);
}
