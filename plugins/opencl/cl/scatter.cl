// Elements of SIZE bytes to the places that indices (type I) name. Indices beyond the ends write nothing.

// Runs of `inner` elements; an index has `depth` numbers, for dimensions of `dims`.
__kernel void scatter_nd(TENSOR(indices), TENSOR(updates), TENSOR(y), uint count, uint inner, int depth, dims8 dims,
                         strides8 strides) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  const uint r = i / inner;
  long at = i - r * inner;
  for (int k = 0; k < depth; ++k) {
    long v = LOAD(I, IN(I, indices), (ulong)r * depth + k);
    if (v < 0) v += dims.d[k];
    if (v < 0 || v >= dims.d[k]) return;
    at += v * strides.s[k];
  }
  UNITS(y)[at] = UNITS(updates)[i];
}

// Updates of shape `dims`; the number along `axis`, where y has `size` elements, is an index.
__kernel void scatter_elements(TENSOR(indices), TENSOR(updates), TENSOR(y), uint count, int axis, long size, dims8 dims,
                               strides8 strides) {
  const uint first = get_global_id(0);
  if (first >= count) return;
  long v = LOAD(I, IN(I, indices), first);
  if (v < 0) v += size;
  if (v < 0 || v >= size) return;
  uint i = first;
  long at = 0;
  for (int k = dims.rank - 1; k >= 0; --k) {
    const uint q = i / dims.d[k];
    at += (k == axis ? v : (long)(i - q * dims.d[k])) * strides.s[k];
    i = q;
  }
  UNITS(y)[at] = UNITS(updates)[first];
}
