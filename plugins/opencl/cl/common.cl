// Element types by number: 0 float, 1 half, 2 bfloat16, 3 int64, 4 int32, 5 bool, 6 uint8, 7 int8, 8 uint32,
// 9 uint64, 10 int16, 11 uint16. Tensors come as a buffer and the byte where they begin.
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)

#define E_0 float
#define E_1 half
#define E_2 ushort
#define E_3 long
#define E_4 int
#define E_5 uchar
#define E_6 uchar
#define E_7 char
#define E_8 uint
#define E_9 ulong
#define E_10 short
#define E_11 ushort
// How elements of a type are stored.
#define ELEMENT(t) CAT(E_, t)
// The tensor `name` of type t, of parameters `name` and `name_at`.
#define IN(t, name) ((__global const ELEMENT(t)*)(name + name##_at))
#define OUT(t, name) ((__global ELEMENT(t)*)(name + name##_at))
#define TENSOR(name) __global uchar *name, ulong name##_at

// What one computes with.
#define C_0 float
#define C_1 float
#define C_2 float
#define C_3 long
#define C_4 int
#define C_5 int
#define C_6 int
#define C_7 int
#define C_8 uint
#define C_9 ulong
#define C_10 int
#define C_11 int
#define COMPUTED(t) CAT(C_, t)

// Of what one computes with.
#define LEAST_0 (-INFINITY)
#define LEAST_1 (-INFINITY)
#define LEAST_2 (-INFINITY)
#define LEAST_3 LONG_MIN
#define LEAST_4 INT_MIN
#define LEAST(t) CAT(LEAST_, t)
#define MOST_0 INFINITY
#define MOST_1 INFINITY
#define MOST_2 INFINITY
#define MOST_3 LONG_MAX
#define MOST_4 INT_MAX
#define MOST(t) CAT(MOST_, t)

ushort bf16_of(float v) {
  uint u = as_uint(v);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (ushort)((u >> 16) | 0x40u);
  return (ushort)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
float of_bf16(ushort u) {
  return as_float((uint)u << 16);
}

#define LOAD_0(p, i) ((p)[i])
#define LOAD_1(p, i) vload_half(i, p)
#define LOAD_2(p, i) of_bf16((p)[i])
#define LOAD_3(p, i) ((p)[i])
#define LOAD_4(p, i) ((p)[i])
#define LOAD_5(p, i) ((int)((p)[i] != 0))
#define LOAD_6(p, i) ((int)(p)[i])
#define LOAD_7(p, i) ((int)(p)[i])
#define LOAD_8(p, i) ((p)[i])
#define LOAD_9(p, i) ((p)[i])
#define LOAD_10(p, i) ((int)(p)[i])
#define LOAD_11(p, i) ((int)(p)[i])
#define LOAD(t, p, i) CAT(LOAD_, t)(p, i)

#define STORE_0(p, i, v) ((p)[i] = (float)(v))
#define STORE_1(p, i, v) vstore_half_rte((float)(v), i, p)
#define STORE_2(p, i, v) ((p)[i] = bf16_of((float)(v)))
#define STORE_3(p, i, v) ((p)[i] = (long)(v))
#define STORE_4(p, i, v) ((p)[i] = (int)(v))
#define STORE_5(p, i, v) ((p)[i] = (uchar)((v) != 0))
#define STORE_6(p, i, v) ((p)[i] = (uchar)(v))
#define STORE_7(p, i, v) ((p)[i] = (char)(v))
#define STORE_8(p, i, v) ((p)[i] = (uint)(v))
#define STORE_9(p, i, v) ((p)[i] = (ulong)(v))
#define STORE_10(p, i, v) ((p)[i] = (short)(v))
#define STORE_11(p, i, v) ((p)[i] = (ushort)(v))
#define STORE(t, p, i, v) CAT(STORE_, t)(p, i, v)

// Eight floats from element i on.
#define LOAD8_0(p, i) vload8(0, (p) + (i))
#define LOAD8_1(p, i) vload_half8(0, (p) + (i))
#define LOAD8_2(p, i) as_float8(convert_uint8(vload8(0, (p) + (i))) << 16)
#define LOAD8(t, p, i) CAT(LOAD8_, t)(p, i)
#define LOAD4_0(p, i) vload4(0, (p) + (i))
#define LOAD4_1(p, i) vload_half4(0, (p) + (i))
#define LOAD4_2(p, i) as_float4(convert_uint4(vload4(0, (p) + (i))) << 16)
#define LOAD4(t, p, i) CAT(LOAD4_, t)(p, i)

// Elements that are only moved, of SIZE bytes.
#define UNIT_1 uchar
#define UNIT_2 ushort
#define UNIT_4 uint
#define UNIT_8 ulong
#define UNIT CAT(UNIT_, SIZE)
#define UNITS(name) ((__global UNIT*)(name + name##_at))

// Places in up to four tensors of up to eight dimensions; the last dimension is d[rank - 1].
typedef struct {
  int rank;
  uint d[8];
} dims8;
typedef struct {
  long s[8];
} strides8;

// Where element i of a dense tensor of those dimensions lies by the strides.
long place(uint i, const dims8* dims, const strides8* strides) {
  long at = 0;
  for (int k = dims->rank - 1; k >= 0; --k) {
    const uint n = dims->d[k];
    const uint q = i / n;
    at += (long)(i - q * n) * strides->s[k];
    i = q;
  }
  return at;
}

// JOIN of one number of each of `lanes` items of a group, a power of two, for all of them. `part` has room for the numbers;
// what was in it has been read by then.
#define JOINED_OVER(NAME, JOIN)                                  \
  float NAME(__local float* part, float v, int lanes) {          \
    const int l = get_local_id(0);                               \
    barrier(CLK_LOCAL_MEM_FENCE);                                \
    part[l] = v;                                                 \
    for (int n = lanes / 2; n > 0; n >>= 1) {                    \
      barrier(CLK_LOCAL_MEM_FENCE);                              \
      if (l < n) part[l] = JOIN(part[l], part[l + n]);           \
    }                                                            \
    barrier(CLK_LOCAL_MEM_FENCE);                                \
    return part[0];                                              \
  }
#define PLUS(a, b) ((a) + (b))
JOINED_OVER(sum_over, PLUS)
JOINED_OVER(most_over, fmax)

float gelu_erf(float x) {
  return 0.5f * x * (1.0f + erf(x * 0.70710678118654752f));
}
float gelu_tanh(float x) {
  return 0.5f * x * (1.0f + tanh(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}
float sigmoid(float x) {
  return 1.0f / (1.0f + exp(-x));
}
