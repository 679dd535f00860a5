// Heads from one place to another: a bias is added, the head divided by its root mean square and scaled, its first
// elements rotated. X: type of the source, Y: of the target, W: of the norm's weight and bias, P: of the tables,
// I: of positions, L: of lengths. ROTATE: 0 no, 1 halves, 2 neighbours. NORM: 1 the norm. CODEC: rows are stored as
// integers: 1 codes of int8, then one half per BLOCK elements; 2 int8 and 3 two codes (plus 8) in a byte, with scales
// of their own for all rows; heads of SIZE elements.
//
// Source and target: element e of head h of row s of batch b. The position of a row: ids[b * ids_batch + s],
// else s, or where lengths are given: past of b + s. The target's row: row0 + s, or past of b + s.
typedef struct {
  int size, rotary, seq, heads;
  long x_batch, x_row, x_head, y_batch, y_row, y_head;
  int table_rows, table_pitch;
  long ids_batch;
  long offset;     // of positions; with tables per batch row: times b
  long row0;       // of targets; -1: past of b
  int rows;        // of the target: none is written beyond
  int ids;         // 0: none; 1: ids; 2: one id for the first of all rows
  int lengths;     // 0: none; 1: seqlens_k
  int first;       // a first prompt: nothing is past
  int biased, normed;
  float epsilon;
  int start;  // of positions that follow from s
  int head_scales;  // scales per head: 0, or as many as elements
  int room;
} heads_args;

#define GROUP 32

#ifdef CODEC
// Rounds to nearest even; a NaN is the least.
int code_of(float x, float low, float high) {
  return (int)rint(x >= low ? (x > high ? high : x) : low);
}
#define PUT(e, v) turned[e] = (v)
#else
#define PUT(e, v) STORE(Y, ys, e, v)
#endif

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void heads(TENSOR(x), TENSOR(y), TENSOR(weight),
                                                                        TENSOR(bias), TENSOR(cosines), TENSOR(sines),
                                                                        TENSOR(ids), TENSOR(lengths), TENSOR(scales),
                                                                        heads_args g) {
#ifdef CODEC
  __local float turned[SIZE + 1];
#endif
  const int s = get_group_id(0), h = get_group_id(1), b = get_group_id(2), l = get_local_id(0);
  long past = 0;
  if (g.lengths) {
    past = g.first ? 0 : (long)LOAD(L, IN(L, lengths), b) + 1 - g.seq;
    past = past < 0 ? 0 : past;
  }
  const long row = (g.row0 < 0 ? past : g.row0) + s;
  __global const ELEMENT(X)* xs = IN(X, x) + b * g.x_batch + s * g.x_row + h * g.x_head;
  __global ELEMENT(Y)* ys = OUT(Y, y) + b * g.y_batch + row * g.y_row + h * g.y_head;
#define BIASED(e) (LOAD(X, xs, e) + (g.biased ? LOAD(W, IN(W, bias), h * g.size + (e)) : 0.0f))
#if NORM
  __local float part[GROUP];
  float sum = 0.0f;
  for (int e = l; e < g.size; e += GROUP) sum += BIASED(e) * BIASED(e);
  part[l] = sum;
  for (int n = GROUP / 2; n > 0; n >>= 1) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < n) part[l] += part[l + n];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  const float inverse = 1.0f / sqrt(part[0] / g.size + g.epsilon);
#define VALUE(e) (BIASED(e) * inverse * LOAD(W, IN(W, weight), e))
#else
#define VALUE(e) BIASED(e)
#endif
  if (row >= g.rows || row < 0) return;
  int done = 0;
#if ROTATE
  long at = s;
  if (g.ids == 1)
    at = LOAD(I, IN(I, ids), b * g.ids_batch + s);
  else if (g.ids == 2)
    at = LOAD(I, IN(I, ids), 0) + s;
  else if (g.lengths)
    at = past + s;
  else
    at = b * g.offset + s + g.start;
  at = at < 0 ? 0 : at >= g.table_rows ? g.table_rows - 1 : at;
  __global const ELEMENT(P)* cs = IN(P, cosines) + at * g.table_pitch;
  __global const ELEMENT(P)* ss = IN(P, sines) + at * g.table_pitch;
  const int half_of = g.rotary / 2;
  for (int i = l; i < half_of; i += GROUP) {
#if ROTATE == 2
    const int e = 2 * i, f = 2 * i + 1;
#else
    const int e = i, f = i + half_of;
#endif
    const float u = VALUE(e), v = VALUE(f), c = LOAD(P, cs, i), d = LOAD(P, ss, i);
#if FULL_TABLE
    // Tables as wide as the rotated part: each half has factors of its own.
    const float c2 = LOAD(P, cs, f), d2 = LOAD(P, ss, f);
#else
    const float c2 = c, d2 = d;
#endif
    PUT(e, u * c - v * d);
    PUT(f, v * c2 + u * d2);
  }
  done = g.rotary;
#endif
  for (int e = done + l; e < g.size; e += GROUP) PUT(e, VALUE(e));
#ifdef CODEC
  if (l == 0) turned[SIZE] = 0.0f;
  barrier(CLK_LOCAL_MEM_FENCE);
#if CODEC == 1
  for (int e = l; e < SIZE; e += GROUP) {
    const int first = e / BLOCK * BLOCK, end = min(first + BLOCK, SIZE);
    float most = 0.0f;
    for (int i = first; i < end; ++i) most = fmax(most, fabs(turned[i]));
    ushort stored;
    vstore_half_rte(fmin(most / 127.0f, 65504.0f), 0, (half*)&stored);
    const float scale = vload_half(0, (const half*)&stored);
    ys[e] = (uchar)(char)code_of(turned[e] * (scale > 0.0f ? 1.0f / scale : 0.0f), -127.0f, 127.0f);
    if (e == first) {
      ys[SIZE + 2 * (e / BLOCK)] = (uchar)(stored & 255);
      ys[SIZE + 2 * (e / BLOCK) + 1] = (uchar)(stored >> 8);
    }
  }
#else
  __global const float* given = IN(0, scales) + h * g.head_scales;
#define CODE(e, low, high) \
  (given[g.head_scales ? (e) : 0] == 0.0f ? 0 : code_of(turned[e] / given[g.head_scales ? (e) : 0], low, high))
#if CODEC == 2
  for (int e = l; e < SIZE; e += GROUP) ys[e] = (uchar)(char)CODE(e, -128.0f, 127.0f);
#else
  for (int e = 2 * l; e < SIZE; e += 2 * GROUP) {
    const int low = CODE(e, -8.0f, 7.0f) + 8, high = e + 1 < SIZE ? CODE(e + 1, -8.0f, 7.0f) + 8 : 0;
    ys[e / 2] = (uchar)(low | high << 4);
  }
#endif
#endif
#endif
}
