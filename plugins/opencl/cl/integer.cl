// Y [m, n] int32 = (A [m, k] - zeros of A) (W [k, n] - zeros of W). A, W: types, 6 uint8 or 7 int8. Tiles of 32 x 64
// results, 32 of k at a time; a group of 16 x 8 items, each with 4 x 4 results.
typedef struct {
  int m, n, k;
  int a_zeros, w_zeros;  // 0: none, 1: one for all, 2: one per row of A, per column of W
} integer_args;

#define BM 32
#define BN 64
#define BK 32
__kernel __attribute__((reqd_work_group_size(16, 8, 1))) void tiles(TENSOR(a), TENSOR(w), TENSOR(a_zero),
                                                                     TENSOR(w_zero), TENSOR(y), integer_args g) {
  __local int at[BK][BM], wt[BK][BN];
  const int tx = get_local_id(0), ty = get_local_id(1), t = ty * 16 + tx;
  const int first_n = get_group_id(0) * BN, first_m = get_group_id(1) * BM;
  int4 s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  for (int k0 = 0; k0 < g.k; k0 += BK) {
    for (int u = t; u < BM * BK; u += 128) {
      const int m = min(first_m + u / BK, g.m - 1), k = k0 + u % BK;
      const int zero = g.a_zeros == 0 ? 0 : LOAD(A, IN(A, a_zero), g.a_zeros == 1 ? 0 : m);
      at[u % BK][u / BK] = k < g.k ? LOAD(A, IN(A, a), (long)m * g.k + k) - zero : 0;
    }
    for (int u = t; u < BN * BK; u += 128) {
      const int n = min(first_n + u % BN, g.n - 1), k = k0 + u / BN;
      const int zero = g.w_zeros == 0 ? 0 : LOAD(W, IN(W, w_zero), g.w_zeros == 1 ? 0 : n);
      wt[u / BN][u % BN] = k < g.k ? LOAD(W, IN(W, w), (long)k * g.n + n) - zero : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < BK; ++k) {
      const int4 u = vload4(ty, at[k]), v = vload4(tx, wt[k]);
      s0 += u.x * v;
      s1 += u.y * v;
      s2 += u.z * v;
      s3 += u.w * v;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  int sums[16];
  vstore4(s0, 0, sums);
  vstore4(s1, 1, sums);
  vstore4(s2, 2, sums);
  vstore4(s3, 3, sums);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      const int row = first_m + ty * 4 + i, n = first_n + tx * 4 + j;
      if (row < g.m && n < g.n) OUT(4, y)[(long)row * g.n + n] = sums[i * 4 + j];
    }
}
