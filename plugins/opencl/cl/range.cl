// y[i] = start + i * delta; numbers in the type's own arithmetic.
#if T <= 2
#define NUMBER float
#else
#define NUMBER COMPUTED(T)
#endif
__kernel void range(TENSOR(y), uint count, float start, float delta, long start_int, long delta_int) {
  const uint i = get_global_id(0);
  if (i >= count) return;
#if T <= 2
  STORE(T, OUT(T, y), i, start + (float)i * delta);
#else
  STORE(T, OUT(T, y), i, (NUMBER)(start_int + (long)i * delta_int));
#endif
}
