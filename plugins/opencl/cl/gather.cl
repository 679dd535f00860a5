// x [outer, n, inner], indices [count] of type I -> y [outer, count, inner], elements of SIZE bytes. Negative
// indices count from the end; those beyond the ends read the nearest row.
long row_of(long i, long n) {
  i = i < 0 ? i + n : i;
  return i < 0 ? 0 : i >= n ? n - 1 : i;
}

__kernel void gather(TENSOR(x), TENSOR(indices), TENSOR(y), uint total, long n, uint inner, uint count) {
  const uint i = get_global_id(0);
  if (i >= total) return;
  const uint c = i % inner, r = i / inner, k = r % count;
  const ulong o = r / count;
  const long from = row_of(LOAD(I, IN(I, indices), k), n);
  UNITS(y)[i] = UNITS(x)[((long)o * n + from) * inner + c];
}

// GatherElements: x of dims `source`, y and indices of dims `dims`; along `axis`.
__kernel void gather_elements(TENSOR(x), TENSOR(indices), TENSOR(y), uint total, dims8 dims, strides8 sx, int axis,
                              long n) {
  uint i = get_global_id(0);
  if (i >= total) return;
  const uint to = i;
  long at = 0;
  for (int k = dims.rank - 1; k >= 0; --k) {
    const uint q = i / dims.d[k];
    if (k != axis) at += (long)(i - q * dims.d[k]) * sx.s[k];
    i = q;
  }
  at += row_of(LOAD(I, IN(I, indices), to), n) * sx.s[axis];
  UNITS(y)[to] = UNITS(x)[at];
}

// GatherND without batch dimensions beyond `batch` of them: indices [batch.., rows, depth], x [batch.., source..].
__kernel void gather_nd(TENSOR(x), TENSOR(indices), TENSOR(y), uint total, uint inner, uint rows_per_batch,
                        int depth, dims8 source, strides8 sx, long batch_stride) {
  const uint i = get_global_id(0);
  if (i >= total) return;
  const uint c = i % inner, r = i / inner;
  long at = (long)(r / rows_per_batch) * batch_stride + c;
  for (int k = 0; k < depth; ++k) at += row_of(LOAD(I, IN(I, indices), (ulong)r * depth + k), source.d[k]) * sx.s[k];
  UNITS(y)[i] = UNITS(x)[at];
}
