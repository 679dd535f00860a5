// Scaled dot-product attention, one query row and head per group of 64: keys are taken 64 at a time with a running
// maximum and sum. Q: type of queries, K: of keys and values, Y: of the result, M: of the mask (5: bool), L: of
// lengths, S: of sinks. VALUES: elements of a value, of which a lane keeps every 64th.
//
// Query s of batch b stands at position p = offset of b + s, and sees key j when j < keys of b,
// p - left <= j (left >= 0), j <= p + right (right >= 0), and the mask allows it.
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
  int room;
  long past;
  float scale, softcap;
} attention_args;

#define GROUP 64
#define KEPT ((VALUES + GROUP - 1) / GROUP)

float largest(__local float* part, float v, int l) {
  barrier(CLK_LOCAL_MEM_FENCE);
  part[l] = v;
  for (int n = GROUP / 2; n > 0; n >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < n) part[l] = fmax(part[l], part[l + n]);
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return part[0];
}

float total_of(__local float* part, float v, int l) {
  barrier(CLK_LOCAL_MEM_FENCE);
  part[l] = v;
  for (int n = GROUP / 2; n > 0; n >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < n) part[l] += part[l + n];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return part[0];
}

// Keys and position of query s of batch b.
void ends_of(const attention_args* g, __global const ELEMENT(L)* lengths, int b, int s, long* keys, long* position) {
  long n = g->keys, p = g->past;
  if (g->lengths == 1) {
    n = (long)LOAD(L, lengths, b) + 1;
    p = g->first ? 0 : n - g->seq;
  } else if (g->lengths == 2) {
    n = LOAD(L, lengths, b);
    p = n - g->seq;
  }
  *keys = n < 0 ? 0 : n > g->keys ? g->keys : n;
  *position = p + s;
}

// With splits > 1 a part writes its maximum, sum and sums of values (floats) to `parts`; else the result to y.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void attend(TENSOR(q), TENSOR(k), TENSOR(v), TENSOR(y),
                                                                         TENSOR(mask), TENSOR(lengths), TENSOR(sinks),
                                                                         TENSOR(parts), attention_args g) {
  __local float query[SIZE], weight[GROUP], part[GROUP];
  const int l = get_local_id(0), h = get_group_id(1);
  const int s = get_group_id(0) / g.splits, split = get_group_id(0) % g.splits, b = get_group_id(2);
  long keys, position;
  ends_of(&g, IN(L, lengths), b, s, &keys, &position);
  long from = g.left >= 0 ? max(position - g.left, 0l) : 0, to = g.right >= 0 ? min(keys, position + g.right + 1) : keys;
  if (g.splits > 1) {
    from = max(from, (long)split * g.split);
    to = min(to, (long)(split + 1) * g.split);
  }
  __global const ELEMENT(Q)* qs = IN(Q, q) + b * g.q_batch + s * g.q_row + h * g.q_head;
  __global const ELEMENT(K)* ks = IN(K, k) + b * g.k_batch + (h / g.group) * g.k_head;
  __global const ELEMENT(K)* vs = IN(K, v) + b * g.v_batch + (h / g.group) * g.v_head;
  __global const ELEMENT(M)* ms = IN(M, mask) + b * g.m_batch + h * g.m_head + s * g.m_row;
  for (int e = l; e < g.size; e += GROUP) query[e] = LOAD(Q, qs, e) * g.scale;
  float most = -INFINITY, sum = 0.0f, kept[KEPT];
  for (int i = 0; i < KEPT; ++i) kept[i] = 0.0f;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (long tile = from; tile < to; tile += GROUP) {
    const long j = tile + l;
    float score = -INFINITY;
    if (j < to && !(g.mask && j >= g.m_keys)) {
      __global const ELEMENT(K)* key = ks + j * g.k_row;
      float d = 0.0f;
      int e = 0;
      for (; e + 4 <= g.size; e += 4) d += dot(vload4(0, query + e), LOAD4(K, key, e));
      for (; e < g.size; ++e) d += query[e] * LOAD(K, key, e);
      if (g.softcap > 0.0f) d = g.softcap * tanh(d / g.softcap);
#if M == 5
      score = !g.mask || LOAD(M, ms, j * g.m_key) ? d : -INFINITY;
#else
      score = g.mask ? d + LOAD(M, ms, j * g.m_key) : d;
#endif
    }
    const float above = fmax(most, largest(part, score, l));
    if (above == -INFINITY) continue;
    const float shrink = exp(most - above);
    const float w = exp(score - above);
    weight[l] = w;
    sum = sum * shrink + total_of(part, w, l);
    most = above;
    const int n = (int)min((long)GROUP, to - tile);
    for (int i = 0; i < KEPT; ++i) {
      const int e = i * GROUP + l;
      if (e >= g.values) break;
      float a = kept[i] * shrink;
      for (int t = 0; t < n; ++t) a += weight[t] * LOAD(K, vs, (tile + t) * g.v_row + e);
      kept[i] = a;
    }
  }
  if (g.splits > 1) {
    __global float* out = (__global float*)(parts + parts_at) +
                          ((((ulong)b * g.q_heads + h) * g.seq + s) * g.splits + split) * (g.values + 2);
    if (l == 0) {
      out[0] = most;
      out[1] = sum;
    }
    for (int i = 0; i < KEPT; ++i)
      if (i * GROUP + l < g.values) out[2 + i * GROUP + l] = kept[i];
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
    if (i * GROUP + l < g.values) STORE(Y, ys, i * GROUP + l, sum > 0.0f ? kept[i] / sum : 0.0f);
}

// Joins the parts of one query row and head.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void join(TENSOR(y), TENSOR(sinks), TENSOR(parts),
                                                                       attention_args g) {
  const int l = get_local_id(0), s = get_group_id(0), h = get_group_id(1), b = get_group_id(2);
  __global const float* in = (__global const float*)(parts + parts_at) +
                             (((ulong)b * g.q_heads + h) * g.seq + s) * g.splits * (g.values + 2);
  float most = g.sink == 1 ? LOAD(S, IN(S, sinks), h) : g.sink == 2 ? 0.0f : -INFINITY;
  const float logit = most;
  for (int i = 0; i < g.splits; ++i) most = fmax(most, in[i * (g.values + 2)]);
  float sum = g.sink ? exp(logit - most) : 0.0f;
  if (most > -INFINITY)
    for (int i = 0; i < g.splits; ++i) sum += exp(in[i * (g.values + 2)] - most) * in[i * (g.values + 2) + 1];
  __global ELEMENT(Y)* ys = OUT(Y, y) + b * g.y_batch + s * g.y_row + h * g.y_head;
  for (int e = l; e < g.values; e += GROUP) {
    float a = 0.0f;
    if (most > -INFINITY)
      for (int i = 0; i < g.splits; ++i) a += exp(in[i * (g.values + 2)] - most) * in[i * (g.values + 2) + 2 + e];
    STORE(Y, ys, e, sum > 0.0f ? a / sum : 0.0f);
  }
}
