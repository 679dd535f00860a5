// Y [m, n] = alpha * A [m, k] W + beta * C, for a batch. T: type of A, C and Y. FORM of W: 0 [n, k] and 1 [k, n]
// of type WT (T where it is not given), 2 quantised [n, k] in planes (weights.h says how), each with its own offset in the
// block.
//
// Quantised: w = S * (code - Z) or S * code + M. LOW and HIGH bits of a code lie in two planes; SPAN elements share a
// scale. SCALE: 0 float, 1 half, 2 int8 times a half per 256 elements. ZERO: 0 the number ZC, 1 uint8, 2 float per
// span; as M: 3 half, 4 uint8 times a half per 256, subtracted. TABLE: codes are places in IQ4's table.
typedef struct {
  int m, n, k, batch;              // batch: the inner of two batch dimensions
  long a_row, a_column, w_row, y_row;  // elements between neighbours
  long a_batch[2], w_batch[2], y_batch[2], c_batch[2];
  long c_row, c_column;
  float alpha, beta;
  int padded_k, spans;  // per row of a quantised W
  ulong high_at, scale_at, zero_at, d_at, dmin_at;
} gemm_args;

#ifndef WT
#define WT T
#endif

#if FORM == 2
#if TABLE
__constant float iq4[16] = {-127.0f, -104.0f, -83.0f, -65.0f, -49.0f, -35.0f, -22.0f, -10.0f,
                            1.0f,    13.0f,   25.0f,  38.0f,  53.0f,  69.0f,  89.0f,  113.0f};
#endif

// Codes 8 * chunk and the seven behind it of a row.
float8 codes_of(__global const uchar* w, const gemm_args* g, uint row, uint chunk) {
#if LOW == 8
  const uint8 low = convert_uint8(vload8(0, w + (ulong)row * g->padded_k + chunk * 8));
#elif LOW == 4
  const uint word = ((__global const uint*)w)[(ulong)row * (g->padded_k / 8) + chunk];
  const uint8 low = ((uint8)(word) >> (uint8)(0, 4, 8, 12, 16, 20, 24, 28)) & 15u;
#else
  const uint word = ((__global const ushort*)w)[(ulong)row * (g->padded_k / 8) + chunk];
  const uint8 low = ((uint8)(word) >> (uint8)(0, 2, 4, 6, 8, 10, 12, 14)) & 3u;
#endif
#if HIGH == 1
  const uint more = (w + g->high_at)[(ulong)row * (g->padded_k / 8) + chunk];
  return convert_float8(low | (((uint8)(more) >> (uint8)(0, 1, 2, 3, 4, 5, 6, 7)) & 1u) << LOW);
#elif HIGH == 2
  const uint more = ((__global const ushort*)(w + g->high_at))[(ulong)row * (g->padded_k / 8) + chunk];
  return convert_float8(low | (((uint8)(more) >> (uint8)(0, 2, 4, 6, 8, 10, 12, 14)) & 3u) << LOW);
#elif TABLE
  return (float8)(iq4[low.s0], iq4[low.s1], iq4[low.s2], iq4[low.s3], iq4[low.s4], iq4[low.s5], iq4[low.s6],
                  iq4[low.s7]);
#else
  return convert_float8(low);
#endif
}

float8 weights_of(__global const uchar* w, const gemm_args* g, uint row, uint chunk) {
  const uint span = chunk * 8 / SPAN;
  const ulong at = (ulong)row * g->spans + span;
#if SCALE == 2 || ZERO == 4
  const ulong super = (ulong)row * (g->padded_k / 256) + chunk / 32;
#endif
#if SCALE == 0
  const float s = ((__global const float*)(w + g->scale_at))[at];
#elif SCALE == 1
  const float s = vload_half(at, (__global const half*)(w + g->scale_at));
#else
  const float s =
      vload_half(super, (__global const half*)(w + g->d_at)) * (float)((__global const char*)(w + g->scale_at))[at];
#endif
  const float8 code = codes_of(w, g, row, chunk);
#if ZERO == 0
  return s * (code - (float)ZC);
#elif ZERO == 1
  return s * (code - (float)(w + g->zero_at)[at]);
#elif ZERO == 2
  return s * (code - ((__global const float*)(w + g->zero_at))[at]);
#elif ZERO == 3
  return s * code + vload_half(at, (__global const half*)(w + g->zero_at));
#else
  return s * code - vload_half(super, (__global const half*)(w + g->dmin_at)) * (float)(w + g->zero_at)[at];
#endif
}
#endif

#ifdef GATHER
// y [count, k] of type T = rows of a quantised W [n, k]; indices of type I.
__kernel void look_up(TENSOR(w), TENSOR(indices), TENSOR(y), gemm_args g, uint count) {
  const uint chunks = (g.k + 7) / 8;
  const uint i = get_global_id(0);
  if (i >= count * chunks) return;
  const uint r = i / chunks, chunk = i - r * chunks;
  long row = LOAD(I, IN(I, indices), r);
  row = row < 0 ? row + g.n : row;
  row = row < 0 ? 0 : row >= g.n ? g.n - 1 : row;
  float v[8];
  vstore8(weights_of(w + w_at, &g, (uint)row, chunk), 0, v);
  for (uint j = 0; j < 8 && chunk * 8 + j < g.k; ++j) STORE(T, OUT(T, y), (ulong)r * g.k + chunk * 8 + j, v[j]);
}
#else

float dot8(float8 a, float8 b) {
  return dot(a.lo, b.lo) + dot(a.hi, b.hi);
}

// Eight elements of a row of `count` from `first` on; what is beyond is 0.
#define EIGHT(NAME, type)                                                                            \
  float8 NAME(__global const ELEMENT(type)* p, long step, int first, int count) {                    \
    if (step == 1 && first + 8 <= count) return LOAD8(type, p, first);                               \
    float v[8];                                                                                      \
    for (int i = 0; i < 8; ++i) v[i] = first + i < count ? LOAD(type, p, (first + i) * step) : 0.0f; \
    return vload8(0, v);                                                                             \
  }
EIGHT(eight, T)
#if FORM != 2
EIGHT(eight_weights, WT)
#endif

float finished(const gemm_args* g, __global const ELEMENT(T)* c, int row, int column, float sum) {
  const float v = g->alpha * sum;
  return g->beta == 0.0f ? v : v + g->beta * LOAD(T, c, row * g->c_row + column * g->c_column);
}

#define BATCH_OF(name) \
  ((long)(get_group_id(2) / g.batch) * g.name##_batch[1] + (long)(get_group_id(2) % g.batch) * g.name##_batch[0])

#ifndef BM
#if FORM != 1
// One row of A with four rows of W per group of 64: lanes go along k.
#define LANES 64
#define ROWS 4
__kernel __attribute__((reqd_work_group_size(LANES, 1, 1))) void vector(TENSOR(a), TENSOR(w), TENSOR(c), TENSOR(y),
                                                                         gemm_args g) {
  __local float part[ROWS][LANES];
  const int l = get_local_id(0), row = get_group_id(1), first = get_group_id(0) * ROWS;
  __global const ELEMENT(T)* as = IN(T, a) + BATCH_OF(a) + row * g.a_row;
  const int chunks = (g.k + 7) / 8;
  float sum[ROWS] = {0.0f, 0.0f, 0.0f, 0.0f};
#if FORM == 0
  __global const ELEMENT(WT)* ws = IN(WT, w) + BATCH_OF(w);
#endif
  for (int chunk = l; chunk < chunks; chunk += LANES) {
    const float8 v = eight(as, g.a_column, chunk * 8, g.k);
    for (int r = 0; r < ROWS; ++r) {
      const int n = min(first + r, g.n - 1);
#if FORM == 0
      sum[r] += dot8(v, eight_weights(ws + n * g.w_row, 1, chunk * 8, g.k));
#else
      sum[r] += dot8(v, weights_of(w + w_at, &g, n, chunk));
#endif
    }
  }
  for (int r = 0; r < ROWS; ++r) part[r][l] = sum[r];
  for (int half_lanes = LANES / 2; half_lanes > 0; half_lanes >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < half_lanes)
      for (int r = 0; r < ROWS; ++r) part[r][l] += part[r][l + half_lanes];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  if (l < ROWS && first + l < g.n) {
    __global ELEMENT(T)* ys = OUT(T, y) + BATCH_OF(y) + row * g.y_row;
    STORE(T, ys, first + l, finished(&g, IN(T, c) + BATCH_OF(c), row, first + l, part[l][0]));
  }
}
#else
// One row of A with 32 columns of W per group: lanes go along n, and k is split in four.
#define COLUMNS 32
#define PARTS 4
__kernel __attribute__((reqd_work_group_size(COLUMNS, PARTS, 1))) void vector(TENSOR(a), TENSOR(w), TENSOR(c),
                                                                               TENSOR(y), gemm_args g) {
  __local float part[PARTS][COLUMNS];
  const int l = get_local_id(0), p = get_local_id(1), row = get_group_id(1), n = get_group_id(0) * COLUMNS + l;
  __global const ELEMENT(T)* as = IN(T, a) + BATCH_OF(a) + row * g.a_row;
  __global const ELEMENT(WT)* ws = IN(WT, w) + BATCH_OF(w) + min(n, g.n - 1);
  float sum = 0.0f;
  for (int k = p; k < g.k; k += PARTS) sum += LOAD(T, as, k * g.a_column) * LOAD(WT, ws, k * g.w_row);
  part[p][l] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (p == 0 && n < g.n) {
    for (int i = 1; i < PARTS; ++i) sum += part[i][l];
    __global ELEMENT(T)* ys = OUT(T, y) + BATCH_OF(y) + row * g.y_row;
    STORE(T, ys, n, finished(&g, IN(T, c) + BATCH_OF(c), row, n, sum));
  }
}
#endif
#else
// Tiles of BM x 64 results, 16 of k at a time; a group of 8 x BM / 4 items, each with 4 x 8 results.
#define BN 64
#define BK 16
#define ITEMS (2 * BM)
__kernel __attribute__((reqd_work_group_size(8, BM / 4, 1))) void tiles(TENSOR(a), TENSOR(w), TENSOR(c), TENSOR(y),
                                                                         gemm_args g) {
  __local float at[BK * BM], wt[BK * BN];
  const int tx = get_local_id(0), ty = get_local_id(1), t = ty * 8 + tx;
  const int first_n = get_group_id(0) * BN, first_m = get_group_id(1) * BM;
  __global const ELEMENT(T)* as = IN(T, a) + BATCH_OF(a) + min(first_m + t / 2, g.m - 1) * g.a_row;
#if FORM != 2
  __global const ELEMENT(WT)* ws = IN(WT, w) + BATCH_OF(w);
#endif
  float8 s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
  for (int k0 = 0; k0 < g.k; k0 += BK) {
    {
      const int k = t % 2 * 8;
      float v[8];
      vstore8(eight(as, g.a_column, k0 + k, g.k), 0, v);
      for (int i = 0; i < 8; ++i) at[(k + i) * BM + t / 2] = v[i];
    }
    for (int u = t; u < BN * BK / 8; u += ITEMS) {
#if FORM == 1
      const int k = u / 8, n = u % 8 * 8;
      const float8 v = k0 + k < g.k ? eight_weights(ws + (k0 + k) * g.w_row, 1, first_n + n, g.n) : (float8)(0.0f);
      vstore8(v, u, wt);
#else
      const int n = u / 2, k = u % 2 * 8;
      const int row = min(first_n + n, g.n - 1);
      float v[8];
#if FORM == 0
      vstore8(eight_weights(ws + row * g.w_row, 1, k0 + k, g.k), 0, v);
#else
      vstore8(k0 + k < g.padded_k ? weights_of(w + w_at, &g, row, (k0 + k) / 8) : (float8)(0.0f), 0, v);
#endif
      for (int i = 0; i < 8; ++i) wt[(k + i) * BN + n] = v[i];
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < BK; ++k) {
      const float4 u = vload4(ty, at + k * BM);
      const float8 v = vload8(tx, wt + k * BN);
      s0 += u.x * v;
      s1 += u.y * v;
      s2 += u.z * v;
      s3 += u.w * v;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  float sums[32];
  vstore8(s0, 0, sums);
  vstore8(s1, 1, sums);
  vstore8(s2, 2, sums);
  vstore8(s3, 3, sums);
  __global ELEMENT(T)* ys = OUT(T, y) + BATCH_OF(y);
  __global const ELEMENT(T)* cs = IN(T, c) + BATCH_OF(c);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 8; ++j) {
      const int row = first_m + ty * 4 + i, n = first_n + tx * 8 + j;
      if (row < g.m && n < g.n) STORE(T, ys, row * g.y_row + n, finished(&g, cs, row, n, sums[i * 8 + j]));
    }
}
#endif
#endif
