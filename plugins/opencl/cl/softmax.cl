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
  part[l] = most;
  for (int k = GROUP / 2; k > 0; k >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < k) part[l] = fmax(part[l], part[l + k]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  most = part[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = 0.0f;
  for (uint i = l; i < n; i += GROUP) sum += exp(LOAD(T, xs, (ulong)i * inner) - most);
  part[l] = sum;
  for (int k = GROUP / 2; k > 0; k >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < k) part[l] += part[l + k];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  sum = part[0];
#if LOG
  const float less = most + log(sum);
  for (uint i = l; i < n; i += GROUP) STORE(T, ys, (ulong)i * inner, LOAD(T, xs, (ulong)i * inner) - less);
#else
  const float scale = 1.0f / sum;
  for (uint i = l; i < n; i += GROUP)
    STORE(T, ys, (ulong)i * inner, exp(LOAD(T, xs, (ulong)i * inner) - most) * scale);
#endif
}
