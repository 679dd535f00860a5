// Recurrent networks of float, one group per sequence and direction: CELL 1 RNN, 3 GRU (gates z, r, h), 4 LSTM (i, o, f,
// c), each its number of gates; HIDDEN units. Products of the inputs with W come ready: [steps, batch, directions,
// gates, units].
typedef struct {
  int steps, batch, directions;
  int reverse;  // the first direction goes backwards
  int biased, lengths, begun, filled;  // inputs that are there: bias, lengths, states and cells to begin with
  int all, last, cells;                // outputs that are wanted
  int linear;                          // GRU: reset after the product
} recurrent_args;

#define GROUP 128

float product(__global const float* row, __local const float* state) {
  float8 sum = 0.0f;
  int e = 0;
  for (; e + 8 <= HIDDEN; e += 8) sum += vload8(0, row + e) * vload8(0, state + e);
  float d = dot(sum.lo + sum.hi, (float4)(1.0f));
  for (; e < HIDDEN; ++e) d += row[e] * state[e];
  return d;
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void recurrent(
    TENSOR(products), TENSOR(r), TENSOR(bias), TENSOR(lengths), TENSOR(first), TENSOR(first_cells), TENSOR(y),
    TENSOR(last), TENSOR(last_cells), recurrent_args g) {
  __local float state[HIDDEN], next[HIDDEN], more[HIDDEN];  // more: cells, or the state after the reset
  const int l = get_local_id(0), b = get_group_id(0), d = get_group_id(1);
  const int begin = (d * g.batch + b) * HIDDEN;
  const int backwards = d == 1 || g.reverse;
  int n = g.steps;
  if (g.lengths) n = clamp(IN(4, lengths)[b], 0, g.steps);
  __global const float* rs = IN(0, r) + (long)d * CELL * HIDDEN * HIDDEN;
  __global const float* bs = IN(0, bias) + (long)d * 2 * CELL * HIDDEN;
  for (int j = l; j < HIDDEN; j += GROUP) {
    state[j] = g.begun ? IN(0, first)[begin + j] : 0.0f;
#if CELL == 4
    more[j] = g.filled ? IN(0, first_cells)[begin + j] : 0.0f;
#endif
  }
  barrier(CLK_LOCAL_MEM_FENCE);
#define ROW(gate) (rs + (long)((gate)*HIDDEN + j) * HIDDEN)
#define INPUT(gate) (xs[(gate)*HIDDEN + j] + (g.biased ? bs[(gate)*HIDDEN + j] : 0.0f))
#define OWN_BIAS(gate) (g.biased ? bs[(CELL + (gate)) * HIDDEN + j] : 0.0f)
#define GATE(gate) (INPUT(gate) + OWN_BIAS(gate) + product(ROW(gate), state))
  for (int s = 0; s < n; ++s) {
    const int t = backwards ? n - 1 - s : s;
    __global const float* xs =
        IN(0, products) + (((long)t * g.batch + b) * g.directions + d) * CELL * HIDDEN;
#if CELL == 3
    if (!g.linear) {
      for (int j = l; j < HIDDEN; j += GROUP) more[j] = sigmoid(GATE(1)) * state[j];
      barrier(CLK_LOCAL_MEM_FENCE);
    }
#endif
    for (int j = l; j < HIDDEN; j += GROUP) {
#if CELL == 1
      next[j] = tanh(GATE(0));
#elif CELL == 3
      const float z = sigmoid(GATE(0));
      const float h = g.linear ? tanh(INPUT(2) + sigmoid(GATE(1)) * (product(ROW(2), state) + OWN_BIAS(2)))
                               : tanh(INPUT(2) + OWN_BIAS(2) + product(ROW(2), more));
      next[j] = (1.0f - z) * h + z * state[j];
#else
      const float c = sigmoid(GATE(2)) * more[j] + sigmoid(GATE(0)) * tanh(GATE(3));
      next[j] = sigmoid(GATE(1)) * tanh(c);
      more[j] = c;
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int j = l; j < HIDDEN; j += GROUP) {
      state[j] = next[j];
      if (g.all) OUT(0, y)[(((long)t * g.directions + d) * g.batch + b) * HIDDEN + j] = next[j];
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int j = l; j < HIDDEN; j += GROUP) {
    for (int t = n; g.all && t < g.steps; ++t)
      OUT(0, y)[(((long)t * g.directions + d) * g.batch + b) * HIDDEN + j] = 0.0f;
    if (g.last) OUT(0, last)[begin + j] = state[j];
#if CELL == 4
    if (g.cells) OUT(0, last_cells)[begin + j] = more[j];
#endif
  }
}
