// x [outer, n, inner], along n; LOG: its logarithm. One group of 64 per (outer, inner).
#define GROUP 64

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void softmax(TENSOR(x), TENSOR(y), uint n, uint inner) {
  __local float part[GROUP];
  const uint g = get_group_id(0), l = get_local_id(0);
  const ulong first = (ulong)(g / inner) * n * inner + g % inner;
  __global const ELEMENT(T)* xs = IN(T, x) + first;
  __global ELEMENT(T)* ys = OUT(T, y) + first;
  float most = -INFINITY;
  for (uint i = l; i < n; i += GROUP) most = fmax(most, LOAD(T, xs, (ulong)i * inner));
  most = most_over(part, most, GROUP);
  float sum = 0.0f;
  for (uint i = l; i < n; i += GROUP) sum += exp(LOAD(T, xs, (ulong)i * inner) - most);
  sum = sum_over(part, sum, GROUP);
#if LOG
  const float less = most + log(sum);
  for (uint i = l; i < n; i += GROUP) STORE(T, ys, (ulong)i * inner, LOAD(T, xs, (ulong)i * inner) - less);
#else
  const float scale = 1.0f / sum;
  for (uint i = l; i < n; i += GROUP)
    STORE(T, ys, (ulong)i * inner, exp(LOAD(T, xs, (ulong)i * inner) - most) * scale);
#endif
}
