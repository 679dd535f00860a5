// Elements of SIZE bytes.
// y[y_first + places by sy] = x[x_first + places by sx], for all places of dims.
__kernel void strided(TENSOR(x), TENSOR(y), uint count, dims8 dims, strides8 sx, strides8 sy, long x_first,
                      long y_first) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  UNITS(y)[y_first + place(i, &dims, &sy)] = UNITS(x)[x_first + place(i, &dims, &sx)];
}

// The same where the runs of x and y are dense: `count` elements in rows of `row`.
__kernel void rows(TENSOR(x), TENSOR(y), uint count, uint row, long x_pitch, long y_pitch, long x_first,
                   long y_first) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  const uint r = i / row, c = i - r * row;
  UNITS(y)[y_first + r * y_pitch + c] = UNITS(x)[x_first + r * x_pitch + c];
}

__kernel void tile(TENSOR(x), TENSOR(y), uint count, dims8 dims, dims8 source, strides8 sx) {
  uint i = get_global_id(0);
  if (i >= count) return;
  const uint to = i;
  long at = 0;
  for (int k = dims.rank - 1; k >= 0; --k) {
    const uint q = i / dims.d[k];
    at += (long)((i - q * dims.d[k]) % source.d[k]) * sx.s[k];
    i = q;
  }
  UNITS(y)[to] = UNITS(x)[at];
}

// mode 0: `fill` (its bytes, or element 0 of value where given); 1: reflect; 2: edge; 3: wrap.
__kernel void pad(TENSOR(x), TENSOR(y), TENSOR(value), uint count, dims8 dims, dims8 source, strides8 sx,
                  strides8 before, int mode, int has_value) {
  uint i = get_global_id(0);
  if (i >= count) return;
  const uint to = i;
  long at = 0;
  bool inside = true;
  for (int k = dims.rank - 1; k >= 0; --k) {
    const uint q = i / dims.d[k];
    long c = (long)(i - q * dims.d[k]) - before.s[k];
    const long n = source.d[k];
    if (c < 0 || c >= n) {
      if (mode == 0) inside = false;
      if (mode == 1) {
        const long period = n > 1 ? 2 * (n - 1) : 1;
        c = ((c % period) + period) % period;
        c = c >= n ? period - c : c;
      }
      if (mode == 2) c = c < 0 ? 0 : n - 1;
      if (mode == 3) c = ((c % n) + n) % n;
    }
    if (inside) at += c * sx.s[k];
    i = q;
  }
  UNITS(y)[to] = inside ? UNITS(x)[at] : has_value ? UNITS(value)[0] : (UNIT)0;
}

__kernel void fill(TENSOR(y), uint count, ulong bits) {
  const uint i = get_global_id(0);
  if (i < count) UNITS(y)[i] = (UNIT)bits;
}

// Lower or upper triangles of matrices [rows, columns].
__kernel void trilu(TENSOR(x), TENSOR(y), uint count, uint rows, uint columns, long diagonal, int upper) {
  const uint i = get_global_id(0);
  if (i >= count) return;
  const long c = i % columns, r = i / columns % rows;
  const bool keep = upper ? c >= r + diagonal : c <= r + diagonal;
  UNITS(y)[i] = keep ? UNITS(x)[i] : (UNIT)0;
}
