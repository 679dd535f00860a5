// Index of the largest (or with SMALLEST that) of `n` elements that lie `inner` apart; LAST: of equal ones the
// last. T: type of x. One group per result.
#define GROUP 64
#if SMALLEST
#define BETTER(a, b) ((a) < (b))
#else
#define BETTER(a, b) ((a) > (b))
#endif
#if LAST
#define FIRST(i, j) ((i) > (j))
#else
#define FIRST(i, j) ((i) < (j))
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void arg(TENSOR(x), TENSOR(y), uint n, uint inner) {
  __local COMPUTED(T) value[GROUP];
  __local uint index[GROUP];
  const uint l = get_local_id(0), to = get_group_id(0);
  __global const ELEMENT(T)* xs = IN(T, x) + (ulong)(to / inner) * n * inner + to % inner;
  uint best = min(l, n - 1);
  COMPUTED(T) most = LOAD(T, xs, (ulong)best * inner);
  for (uint i = l + GROUP; i < n; i += GROUP) {
    const COMPUTED(T) v = LOAD(T, xs, (ulong)i * inner);
    if (BETTER(v, most) || (v == most && FIRST(i, best))) {
      most = v;
      best = i;
    }
  }
  value[l] = most;
  index[l] = best;
  for (uint s = GROUP / 2; s > 0; s >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < s && (BETTER(value[l + s], value[l]) || (value[l + s] == value[l] && FIRST(index[l + s], index[l])))) {
      value[l] = value[l + s];
      index[l] = index[l + s];
    }
  }
  if (l == 0) OUT(3, y)[to] = index[0];
}
