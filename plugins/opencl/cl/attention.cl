// Scaled dot-product attention with a running maximum and sum. Q: type of queries, K: of keys and values, Y: of the
// result, M: of the mask (5: bool), L: of lengths, S: of sinks, P: of the padding.
//
// Query s of batch b stands at position p = offset of b + s, and sees key j when j < keys of b,
// p - left <= j (left >= 0), j <= p + right (right >= 0), and the mask allows it. Padding keys are not hidden: `filter`
// is added to their scores.
//
// Caches of integers: KC says how keys are stored, VC values: 0 as floats of type K; 1 codes of int8, then one half per
// BLOCK elements; 2 int8, and 3 two codes (plus 8) in a byte, with scales given for all rows.
typedef struct {
  int seq, q_heads, group, size, values, keys;  // group: query heads per key head
  long q_batch, q_row, q_head, k_batch, k_row, k_head, v_batch, v_row, v_head, y_batch, y_row, y_head;
  long m_batch, m_head, m_row, m_key;
  int m_keys;  // keys beyond are hidden
  int mask;    // 1: there is one
  int left, right;
  int lengths;  // 0: all keys, queries at `past`; 1: seqlens_k (last index of each batch row); 2: number of keys
  int first;    // a first prompt: nothing is past
  int sink;     // 0 none, 1 a logit per head, 2 a logit of 0
  int split, splits;  // keys per part, parts
  int padding;  // 0 none; 1 where keys end, per batch row; 2 the same, then where they begin; 3 a mask
  long past;
  long p_batch, p_row, p_first;  // of a mask of padding
  int k_head_scales, v_head_scales;  // scales per head: 0, or `size` and `values` of them
  float scale, softcap, filter;
  int room;
} attention_args;

float own_scale(__global const uchar* row, int size, int e) {
  __global const uchar* p = row + size + 2 * (e / BLOCK);
  const ushort bits = (ushort)(p[0] | p[1] << 8);  // rows of any length: not aligned
  return vload_half(0, (const half*)&bits);
}
float8 own_scales(__global const uchar* row, int size, int e) {
#if BLOCK % 8 == 0
  return (float8)(own_scale(row, size, e));
#else
  float s[8];
  for (int i = 0; i < 8; ++i) s[i] = own_scale(row, size, min(e + i, size - 1));
  return vload8(0, s);
#endif
}
float8 nibbles(__global const uchar* p) {
  const uchar4 b = vload4(0, p);
  const uint8 w = convert_uint8((uchar8)(b.s0, b.s0, b.s1, b.s1, b.s2, b.s2, b.s3, b.s3));
  return convert_float8((w >> (uint8)(0, 4, 0, 4, 0, 4, 0, 4)) & 15u) - 8.0f;
}

// Elements of a row of `n` elements; s: scales of its head, `step` apart.
#define ROW_0 ELEMENT(K)
#define ROW_1 uchar
#define ROW_2 uchar
#define ROW_3 uchar
#define ONE_0(p, e, n, s, step) LOAD(K, p, e)
#define ONE_1(p, e, n, s, step) ((float)as_char((p)[e]) * own_scale(p, n, e))
#define ONE_2(p, e, n, s, step) ((float)as_char((p)[e]) * (s)[(e) * (step)])
#define ONE_3(p, e, n, s, step) ((float)((int)((p)[(e) / 2] >> (4 * ((e) & 1)) & 15) - 8) * (s)[(e) * (step)])
#define EIGHT_0(p, e, n, s, step) LOAD8(K, p, e)
#define EIGHT_1(p, e, n, s, step) (convert_float8(as_char8(vload8(0, (p) + (e)))) * own_scales(p, n, e))
#define EIGHT_2(p, e, n, s, step) (convert_float8(as_char8(vload8(0, (p) + (e)))) * SCALES(s, e, step))
#define EIGHT_3(p, e, n, s, step) (nibbles((p) + (e) / 2) * SCALES(s, e, step))
#define SCALES(s, e, step) ((step) ? vload8(0, (s) + (e)) : (float8)((s)[0]))
// CAT() is not expanded again within itself.
#define PICK_(a, b) a##b
#define PICK(a, b) PICK_(a, b)
#define KEY_ROW PICK(ROW_, KC)
#define VALUE_ROW PICK(ROW_, VC)
#define KEY(p, e) PICK(ONE_, KC)(p, e, SIZE, k_scale, g.k_head_scales != 0)
#define KEY8(p, e) PICK(EIGHT_, KC)(p, e, SIZE, k_scale, g.k_head_scales != 0)
#define VALUE(p, e) PICK(ONE_, VC)(p, e, VALUES, v_scale, g.v_head_scales != 0)
#define VALUE8(p, e) PICK(EIGHT_, VC)(p, e, VALUES, v_scale, g.v_head_scales != 0)

// Keys of batch b, and the position of its first query.
void ends_of(const attention_args* g, __global const ELEMENT(L)* lengths, int b, int* keys, int* position) {
  long n = g->keys, p = g->past;
  if (g->lengths == 1) {
    n = (long)LOAD(L, lengths, b) + 1;
    p = g->first ? 0 : n - g->seq;
  } else if (g->lengths == 2) {
    n = LOAD(L, lengths, b);
    p = n - g->seq;
  }
  *keys = n < 0 ? 0 : n > g->keys ? g->keys : (int)n;
  *position = (int)p;
}

// The score of key j for query s of batch b and head h, from the product.
float score_of(const attention_args* g, __global const ELEMENT(M)* mask, __global const ELEMENT(P)* padding, int b, int h,
               int s, int j, float d) {
  if (g->softcap > 0.0f) d = g->softcap * tanh(d / g->softcap);
  if (g->mask) {
    if (j >= g->m_keys) return -INFINITY;
    const long at = b * g->m_batch + h * g->m_head + s * g->m_row + j * g->m_key;
#if M == 5
    if (!LOAD(M, mask, at)) return -INFINITY;
#else
    d += LOAD(M, mask, at);
#endif
  }
  if (g->padding) {
    const int batches = (int)get_num_groups(2);
    const bool padded = g->padding == 3 ? LOAD(P, padding, g->p_first + b * g->p_batch + s * g->p_row + j) <= 0
                                        : j >= LOAD(P, padding, b) ||
                                              (g->padding == 2 && j < LOAD(P, padding, batches + b));
    if (padded) d += g->filter;
  }
  return d;
}

#define PARAMETERS                                                                                                  \
  TENSOR(q), TENSOR(k), TENSOR(v), TENSOR(y), TENSOR(mask), TENSOR(padding), TENSOR(lengths), TENSOR(sinks),        \
      TENSOR(k_scales), TENSOR(v_scales), TENSOR(parts), attention_args g
// Of key head h of batch b.
#define KEYS_AND_VALUES(h)                                                                                          \
  __global const KEY_ROW* ks = (__global const KEY_ROW*)(k + k_at) + b * g.k_batch + (h) * g.k_head;                \
  __global const VALUE_ROW* vs = (__global const VALUE_ROW*)(v + v_at) + b * g.v_batch + (h) * g.v_head;            \
  __global const float* k_scale = IN(0, k_scales) + (h) * g.k_head_scales;                                          \
  __global const float* v_scale = IN(0, v_scales) + (h) * g.v_head_scales
// Where a part of a query row and head writes its maximum, sum and sums of values.
#define PART(b, h, s, split) \
  ((__global float*)(parts + parts_at) + ((((ulong)(b)*g.q_heads + (h)) * g.seq + (s)) * g.splits + (split)) * (VALUES + 2))

#if defined(JOIN)
// Joins the parts of one query row and head.
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void join(TENSOR(y), TENSOR(sinks), TENSOR(parts),
                                                                       attention_args g) {
  const int l = get_local_id(0), s = get_group_id(0), h = get_group_id(1), b = get_group_id(2);
  __global const float* in = PART(b, h, s, 0);
  float most = g.sink == 1 ? LOAD(S, IN(S, sinks), h) : g.sink == 2 ? 0.0f : -INFINITY;
  const float logit = most;
  for (int i = 0; i < g.splits; ++i) most = fmax(most, in[i * (VALUES + 2)]);
  float sum = g.sink ? exp(logit - most) : 0.0f;
  if (most > -INFINITY)
    for (int i = 0; i < g.splits; ++i) sum += exp(in[i * (VALUES + 2)] - most) * in[i * (VALUES + 2) + 1];
  __global ELEMENT(Y)* ys = OUT(Y, y) + b * g.y_batch + s * g.y_row + h * g.y_head;
  for (int e = l; e < VALUES; e += 64) {
    float a = 0.0f;
    if (most > -INFINITY)
      for (int i = 0; i < g.splits; ++i) a += exp(in[i * (VALUES + 2)] - most) * in[i * (VALUES + 2) + 2 + e];
    STORE(Y, ys, e, sum > 0.0f ? a / sum : 0.0f);
  }
}
#elif !defined(TILES)
// One query row and head per group of 64: STRIDE keys at a time, of which a lane takes EACH, and every 64th of
// the values.
#define GROUP 64
#define STRIDE (GROUP * EACH)
#define KEPT ((VALUES + GROUP - 1) / GROUP)

float largest(__local float* part, float v, int l) {
  part[l] = v;
  for (int n = GROUP / 2; n > 0; n >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < n) part[l] = fmax(part[l], part[l + n]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return part[0];
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void attend(PARAMETERS) {
  __local float query[SIZE], weight[STRIDE], part[GROUP];
  const int l = get_local_id(0), h = get_group_id(1);
  const int s = get_group_id(0) / g.splits, split = get_group_id(0) % g.splits, b = get_group_id(2);
  int keys, position;
  ends_of(&g, IN(L, lengths), b, &keys, &position);
  position += s;
  int from = g.left >= 0 ? max(position - g.left, 0) : 0, to = g.right >= 0 ? min(keys, position + g.right + 1) : keys;
  if (g.splits > 1) {
    from = max(from, split * g.split);
    to = min(to, (split + 1) * g.split);
  }
  __global const ELEMENT(Q)* qs = IN(Q, q) + b * g.q_batch + s * g.q_row + h * g.q_head;
  KEYS_AND_VALUES(h / g.group);
  for (int e = l; e < SIZE; e += GROUP) query[e] = LOAD(Q, qs, e) * g.scale;
  float most = -INFINITY, sum = 0.0f, kept[KEPT];
  for (int i = 0; i < KEPT; ++i) kept[i] = 0.0f;
  for (int tile = from; tile < to; tile += STRIDE) {
    barrier(CLK_LOCAL_MEM_FENCE);
    float above = -INFINITY;
    for (int i = 0; i < EACH; ++i) {
      const int j = tile + i * GROUP + l;
      float score = -INFINITY;
      if (j < to) {
        __global const KEY_ROW* key = ks + j * g.k_row;
        float d = 0.0f;
        int e = 0;
        for (; e + 8 <= SIZE; e += 8) {
          const float8 u = vload8(0, query + e), w = KEY8(key, e);
          d += dot(u.lo, w.lo) + dot(u.hi, w.hi);
        }
        for (; e < SIZE; ++e) d += query[e] * KEY(key, e);
        score = score_of(&g, IN(M, mask), IN(P, padding), b, h, s, j, d);
      }
      weight[i * GROUP + l] = score;
      above = fmax(above, score);
    }
    above = fmax(most, largest(part, above, l));
    if (above == -INFINITY) continue;
    const float shrink = exp(most - above);
    sum *= shrink;
    for (int i = 0; i < EACH; ++i) {
      const float w = exp(weight[i * GROUP + l] - above);
      weight[i * GROUP + l] = w;
      sum += w;
    }
    most = above;
    barrier(CLK_LOCAL_MEM_FENCE);
    const int n = min(STRIDE, to - tile);
    for (int i = 0; i < KEPT; ++i) {
      const int e = i * GROUP + l;
      float a = kept[i] * shrink;
      if (e < VALUES)
        for (int t = 0; t < n; ++t) a += weight[t] * VALUE(vs + (tile + t) * g.v_row, e);
      kept[i] = a;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  part[l] = sum;
  for (int n = GROUP / 2; n > 0; n >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < n) part[l] += part[l + n];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  sum = part[0];
  if (g.splits > 1) {
    __global float* out = PART(b, h, s, split);
    if (l == 0) {
      out[0] = most;
      out[1] = sum;
    }
    for (int i = 0; i < KEPT; ++i)
      if (i * GROUP + l < VALUES) out[2 + i * GROUP + l] = kept[i];
    return;
  }
  if (g.sink) {
    const float logit = g.sink == 1 ? LOAD(S, IN(S, sinks), h) : 0.0f;
    const float above = fmax(most, logit), shrink = exp(most - above);
    sum = sum * shrink + exp(logit - above);
    for (int i = 0; i < KEPT; ++i) kept[i] *= shrink;
  }
  __global ELEMENT(Y)* ys = OUT(Y, y) + b * g.y_batch + s * g.y_row + h * g.y_head;
  for (int i = 0; i < KEPT; ++i)
    if (i * GROUP + l < VALUES) STORE(Y, ys, i * GROUP + l, sum > 0.0f ? kept[i] / sum : 0.0f);
}

#else
// TILES rows (query rows by the heads that share a key head) against 64 keys at a time, per group of 8 x TILES / 4
// items with 4 rows and 8 keys, later 4 rows and 8 elements of values, each.
#define KEYS 64
#define SLICE 16  // elements, or keys, in local memory at a time
#define ITEMS (TILES * 2)
#define BLOCKS ((VALUES + 63) / 64)
#define WEIGHT_AT(key) ((key)*TILES + ((key) >> 3) * 4)

__kernel __attribute__((reqd_work_group_size(8, TILES / 4, 1))) void attend_tiles(PARAMETERS) {
  __local float query[SLICE * TILES], slice[SLICE * KEYS], weight[KEYS * TILES + 32], part[TILES * 8];
  const int tx = get_local_id(0), ty = get_local_id(1), t = ty * 8 + tx;
  const int first = get_group_id(0) / g.splits * TILES, split = get_group_id(0) % g.splits;
  const int head = get_group_id(1) * g.group, b = get_group_id(2);
  const int last = min(first + TILES, g.seq * g.group) - 1;
  int keys, position;
  ends_of(&g, IN(L, lengths), b, &keys, &position);
  int from = g.left >= 0 ? max(position + first / g.group - g.left, 0) : 0;
  int to = g.right >= 0 ? min(keys, position + last / g.group + g.right + 1) : keys;
  if (g.splits > 1) {
    from = max(from, split * g.split);
    to = min(to, (split + 1) * g.split);
  }
  KEYS_AND_VALUES(get_group_id(1));
  const int own = min(first + t / 2, last);
  __global const ELEMENT(Q)* qs =
      IN(Q, q) + b * g.q_batch + own / g.group * g.q_row + (head + own % g.group) * g.q_head;
  float most[4], sum[4];
  float8 kept[BLOCKS][4];
  for (int i = 0; i < 4; ++i) {
    most[i] = -INFINITY;
    sum[i] = 0.0f;
    for (int c = 0; c < BLOCKS; ++c) kept[c][i] = 0.0f;
  }
  for (int tile = from; tile < to; tile += KEYS) {
    float8 s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
    for (int e0 = 0; e0 < SIZE; e0 += SLICE) {
      barrier(CLK_LOCAL_MEM_FENCE);
      {
        const int e = e0 + t % 2 * 8;
        float v[8];
        if (e + 8 <= SIZE) {
          vstore8(LOAD8(Q, qs, e), 0, v);
        } else {
          for (int i = 0; i < 8; ++i) v[i] = e + i < SIZE ? LOAD(Q, qs, e + i) : 0.0f;
        }
        for (int i = 0; i < 8; ++i) query[(t % 2 * 8 + i) * TILES + t / 2] = v[i] * g.scale;
      }
      for (int u = t; u < 2 * KEYS; u += ITEMS) {
        const int e = e0 + u % 2 * 8;
        __global const KEY_ROW* key = ks + min(tile + u / 2, to - 1) * g.k_row;
        float v[8];
        if (e + 8 <= SIZE) {
          vstore8(KEY8(key, e), 0, v);
        } else {
          for (int i = 0; i < 8; ++i) v[i] = e + i < SIZE ? KEY(key, e + i) : 0.0f;
        }
        for (int i = 0; i < 8; ++i) slice[(u % 2 * 8 + i) * KEYS + u / 2] = v[i];
      }
      barrier(CLK_LOCAL_MEM_FENCE);
      for (int e = 0; e < SLICE; ++e) {
        const float4 a = vload4(ty, query + e * TILES);
        const float8 w = vload8(tx, slice + e * KEYS);
        s0 += a.x * w;
        s1 += a.y * w;
        s2 += a.z * w;
        s3 += a.w * w;
      }
    }
    float s[4][8], shrink[4];
    vstore8(s0, 0, s[0]);
    vstore8(s1, 0, s[1]);
    vstore8(s2, 0, s[2]);
    vstore8(s3, 0, s[3]);
    for (int i = 0; i < 4; ++i) {
      const int r = min(first + ty * 4 + i, last), row = r / g.group, h = head + r % g.group;
      const int low = g.left >= 0 ? position + row - g.left : 0;
      const int high = g.right >= 0 ? min(to, position + row + g.right + 1) : to;
      float m = -INFINITY;
      for (int j = 0; j < 8; ++j) {
        const int key = tile + tx * 8 + j;
        s[i][j] = key >= low && key < high
                      ? score_of(&g, IN(M, mask), IN(P, padding), b, h, row, key, s[i][j])
                      : -INFINITY;
        m = fmax(m, s[i][j]);
      }
      part[(ty * 4 + i) * 8 + tx] = m;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < 4; ++i) {
      const float8 p = vload8(ty * 4 + i, part);
      const float4 half_of = fmax(p.lo, p.hi);
      const float above = fmax(most[i], fmax(fmax(half_of.x, half_of.y), fmax(half_of.z, half_of.w)));
      const bool some = above > -INFINITY;
      shrink[i] = some ? exp(most[i] - above) : 1.0f;
      float total = 0.0f;
      for (int j = 0; j < 8; ++j) {
        s[i][j] = some ? exp(s[i][j] - above) : 0.0f;
        total += s[i][j];
      }
      sum[i] = sum[i] * shrink[i] + total;
      most[i] = above;
    }
    for (int j = 0; j < 8; ++j)
      vstore4((float4)(s[0][j], s[1][j], s[2][j], s[3][j]), 0, weight + WEIGHT_AT(tx * 8 + j) + ty * 4);
    for (int c = 0; c < BLOCKS; ++c) {
      s0 = kept[c][0] * shrink[0];
      s1 = kept[c][1] * shrink[1];
      s2 = kept[c][2] * shrink[2];
      s3 = kept[c][3] * shrink[3];
      for (int k0 = 0; k0 < KEYS && tile + k0 < to; k0 += SLICE) {
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int u = t; u < SLICE * 8; u += ITEMS) {
          const int e = c * 64 + u % 8 * 8;
          __global const VALUE_ROW* value = vs + min(tile + k0 + u / 8, to - 1) * g.v_row;
          float v[8];
          if (e + 8 <= VALUES) {
            vstore8(VALUE8(value, e), 0, v);
          } else {
            for (int i = 0; i < 8; ++i) v[i] = e + i < VALUES ? VALUE(value, e + i) : 0.0f;
          }
          vstore8(vload8(0, v), u, slice);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int key = 0; key < SLICE; ++key) {
          const float4 a = vload4(ty, weight + WEIGHT_AT(k0 + key));
          const float8 w = vload8(tx, slice + key * 64);
          s0 += a.x * w;
          s1 += a.y * w;
          s2 += a.z * w;
          s3 += a.w * w;
        }
      }
      kept[c][0] = s0;
      kept[c][1] = s1;
      kept[c][2] = s2;
      kept[c][3] = s3;
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < 4; ++i) part[(ty * 4 + i) * 8 + tx] = sum[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int i = 0; i < 4; ++i) {
    const int r = first + ty * 4 + i;
    if (r > last) break;
    const int row = r / g.group, h = head + r % g.group;
    const float8 p = vload8(ty * 4 + i, part);
    float total = dot(p.lo, (float4)(1.0f)) + dot(p.hi, (float4)(1.0f)), factor = 1.0f;
    __global float* out = PART(b, h, row, split);
    __global ELEMENT(Y)* ys = OUT(Y, y) + b * g.y_batch + row * g.y_row + h * g.y_head;
    if (g.splits > 1) {
      if (tx == 0) {
        out[0] = most[i];
        out[1] = total;
      }
    } else if (g.sink) {
      const float logit = g.sink == 1 ? LOAD(S, IN(S, sinks), h) : 0.0f;
      const float above = fmax(most[i], logit);
      factor = exp(most[i] - above);
      total = total * factor + exp(logit - above);
    }
    factor = total > 0.0f ? factor / total : 0.0f;
    for (int c = 0; c < BLOCKS; ++c) {
      float v[8];
      vstore8(kept[c][i], 0, v);
      for (int j = 0; j < 8; ++j) {
        const int e = c * 64 + tx * 8 + j;
        if (e >= VALUES) break;
        if (g.splits > 1)
          out[2 + e] = v[j];
        else
          STORE(Y, ys, e, v[j] * factor);
      }
    }
  }
}
#endif
