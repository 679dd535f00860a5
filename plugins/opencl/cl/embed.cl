// Sums of the rows of up to three tables, one item per element. T: type of tables, I, J, P: of ids, segments,
// positions; M: of the mask.
typedef struct {
  uint count, width, seq;
  uint words, places, segments;  // rows of the tables; segments 0: none
  int positions;                 // 0: 0, 1, ...; 1: for every row; 2: for all batch rows
} embed_args;

long inside(long row, uint rows) {
  return row < 0 ? 0 : row >= rows ? rows - 1 : row;
}

__kernel void embed(TENSOR(ids), TENSOR(segments), TENSOR(positions), TENSOR(word), TENSOR(place), TENSOR(segment),
                    TENSOR(y), embed_args g) {
  const uint i = get_global_id(0);
  if (i >= g.count) return;
  const uint row = i / g.width, e = i - row * g.width;
  long at = row % g.seq;
  if (g.positions) at = LOAD(P, IN(P, positions), g.positions == 1 ? row : row % g.seq);
  float v = LOAD(T, IN(T, word), inside(LOAD(I, IN(I, ids), row), g.words) * g.width + e) +
            LOAD(T, IN(T, place), inside(at, g.places) * g.width + e);
  if (g.segments) v += LOAD(T, IN(T, segment), inside(LOAD(J, IN(J, segments), row), g.segments) * g.width + e);
  STORE(T, OUT(T, y), i, v);
}

// How many elements of each row of a mask are 1.
__kernel void ones(TENSOR(mask), TENSOR(y), uint rows, uint seq, int given) {
  const uint b = get_global_id(0);
  if (b >= rows) return;
  int n = 0;
  for (uint s = 0; given && s < seq; ++s) n += LOAD(M, IN(M, mask), (ulong)b * seq + s) == 1;
  OUT(4, y)[b] = n;
}
