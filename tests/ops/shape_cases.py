"""Random, valid calls of ai.onnx and com.microsoft operators, for make_shape_vectors.py.

Each generator takes a random.Random and returns a Case. Sizes are small, 0 and 1 occur often enough to matter.
"""
import math


class Case:
    def __init__(self, op, version, inputs, outputs=1, domain="", **attrs):
        self.op, self.version, self.domain = op, version, domain
        self.inputs = inputs  # T(...) or None
        self.outputs = outputs  # number, or list of bools (False: not wanted)
        self.attrs = attrs


class T:
    """A tensor: type, dims, contents when they matter to the shape (else random)."""

    def __init__(self, dtype, dims, values=None, low=None, high=None):
        self.dtype, self.dims, self.values = dtype, list(dims), values
        self.low, self.high = low, high  # range of random contents


class TensorAttr:
    def __init__(self, dtype, dims, values):
        self.dtype, self.dims, self.values = dtype, dims, values


GENERATORS = []


def case(weight=20):
    def add(fn):
        GENERATORS.append((fn, weight))
        return fn
    return add


def dim(r, zero=0.06):
    p = r.random()
    return 0 if p < zero else 1 if p < 0.25 else r.randint(2, 6)


def dims(r, low=0, high=4, zero=0.06):
    return [dim(r, zero) for _ in range(r.randint(low, high))]


def full(r, low, high):
    """Dimensions of at least 1."""
    return dims(r, low, high, zero=0)


def ints(values, dtype="int64"):
    return T(dtype, [len(values)], list(values))


def scalar(value, dtype="int64"):
    return T(dtype, [], [value])


def stretch(r, shape):
    """A shape that broadcasts with `shape`."""
    s = [1 if r.random() < 0.3 else d for d in shape]
    return s[r.randint(0, len(s)):] if r.random() < 0.4 else s


def squeeze_ones(r, shape):
    return [1 if r.random() < 0.25 else d for d in shape]


UNARY = {"Abs": 13, "Acos": 7, "Ceil": 13, "Cos": 7, "Elu": 6, "Erf": 13, "Exp": 13, "Floor": 13, "HardSigmoid": 6,
         "HardSwish": 14, "LeakyRelu": 16, "Log": 13, "Mish": 18, "Neg": 13, "Reciprocal": 13, "Relu": 14, "Round": 11,
         "Selu": 6, "Shrink": 9, "Sigmoid": 13, "Sign": 13, "Sin": 7, "Softplus": 1, "Softsign": 1, "Sqrt": 13,
         "Tanh": 13, "ThresholdedRelu": 10, "Celu": 12, "Gelu": 20, "Identity": 16, "IsNaN": 13, "IsInf": 10}


@case(60)
def unary(r):
    op = r.choice(sorted(UNARY))
    return Case(op, max(UNARY[op], 13), [T("float32", dims(r))])


@case(40)
def binary(r):
    op = r.choice(["Add", "Sub", "Mul", "Div", "Pow", "Equal", "Less", "Greater", "GreaterOrEqual", "LessOrEqual"])
    shape = dims(r)
    pair = [stretch(r, shape), squeeze_ones(r, shape)]
    r.shuffle(pair)
    return Case(op, 16, [T("float32", pair[0]), T("float32", pair[1])])


@case(120)
def binary_values(r):
    op = r.choice(["Add", "Sub", "Mul", "Div", "Mod", "Equal", "Less", "Greater", "GreaterOrEqual", "LessOrEqual",
                   "Max", "Min"])
    n = r.randint(1, 5)
    shapes = r.choice([([n], [n]), ([n], []), ([], [n]), ([n], [1]), ([], []), ([2, n], [n])])
    dtype = r.choice(["int64", "int64", "int32"])
    size = lambda s: math.prod(s)
    low = r.choice([0, 0, -6])
    a = [r.randint(low, 40) for _ in range(size(shapes[0]))]
    b = [r.randint(low, 9) for _ in range(size(shapes[1]))]
    if op in ("Div", "Mod"):
        b = [v if v else 3 for v in b]
    return Case(op, 16, [T(dtype, shapes[0], a), T(dtype, shapes[1], b)])


@case(30)
def logic(r):
    op = r.choice(["And", "Or", "Xor"])
    n = r.randint(1, 6)
    return Case(op, 13, [T("bool", [n], [r.randint(0, 1) for _ in range(n)]),
                         T("bool", [1] if r.random() < 0.3 else [n], None)
                         if r.random() < 0.3 else T("bool", [n], [r.randint(0, 1) for _ in range(n)])])


@case(40)
def unary_values(r):
    op = r.choice(["Neg", "Abs", "Sign", "Relu", "Identity", "Not"])
    n = r.randint(1, 6)
    if op == "Not":
        return Case(op, 13, [T("bool", [n], [r.randint(0, 1) for _ in range(n)])])
    return Case(op, 14, [T("int32" if op == "Relu" else "int64", [n], [r.randint(-5, 9) for _ in range(n)])])


@case(40)
def cast(r):
    n = r.randint(0, 5)
    to = r.choice([6, 7, 9, 1, 2, 3, 11, 10])
    return Case("Cast", 13, [T("int64", [n], [r.randint(0, 90) for _ in range(n)])], to=to)


@case(20)
def variadic(r):
    op = r.choice(["Max", "Min", "Sum", "Mean"])
    shape = dims(r, 1, 3)
    return Case(op, 13, [T("float32", squeeze_ones(r, shape)) for _ in range(r.randint(1, 4))])


@case(20)
def clip(r):
    if r.random() < 0.5:
        return Case("Clip", 13, [T("float32", dims(r)), T("float32", [], [0.0]),
                                 None if r.random() < 0.5 else T("float32", [], [6.0])])
    n = r.randint(1, 5)
    return Case("Clip", 13, [T("int64", [n], [r.randint(-9, 9) for _ in range(n)]), scalar(r.randint(-4, 0)),
                             scalar(r.randint(1, 6))])


@case(60)
def where(r):
    if r.random() < 0.4:
        shape = dims(r)
        three = [squeeze_ones(r, shape), stretch(r, shape), stretch(r, shape)]
        return Case("Where", 16, [T("bool", three[0]), T("float32", three[1]), T("float32", three[2])])
    n = r.randint(1, 5)
    return Case("Where", 16, [T("bool", [n], [r.randint(0, 1) for _ in range(n)]),
                              T("int64", [n], [r.randint(-2, 20) for _ in range(n)]),
                              T("int64", [1] if r.random() < 0.3 else [n], None if r.random() < 0.1 else
                                [r.randint(0, 9)] * 0 or None)
                              if r.random() < 0.2 else T("int64", [n], [r.randint(-2, 20) for _ in range(n)])])


@case(20)
def prelu(r):
    shape = full(r, 2, 4)
    slope = r.choice([[1], [shape[-1]], [shape[1]] + [1] * (len(shape) - 2), shape])
    return Case("PRelu", 16, [T("float32", shape), T("float32", slope)])


REDUCE = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
          "ReduceLogSumExp", "ReduceSumSquare"]


def some_axes(r, rank):
    axes = [a for a in range(rank) if r.random() < 0.5]
    r.shuffle(axes)
    return [a - rank if r.random() < 0.4 else a for a in axes]


@case(120)
def reduce(r):
    op = r.choice(REDUCE)
    shape = full(r, 1, 4)
    attrs = {} if r.random() < 0.3 else {"keepdims": r.randint(0, 1)}
    axes = some_axes(r, len(shape))
    if r.random() < 0.4:
        if axes:
            attrs["axes"] = axes
        return Case(op, 11, [T("float32", shape)], **attrs)
    if r.random() < 0.3:
        attrs["noop_with_empty_axes"] = r.randint(0, 1)
    inputs = [T("float32", shape)]
    if axes or r.random() < 0.5:
        inputs.append(ints(axes))
    return Case(op, r.choice([18, 20]), inputs, **attrs)


@case(60)
def reduce_values(r):
    op = r.choice(["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd"])
    shape = r.choice([[r.randint(1, 6)], [2, r.randint(1, 4)], [3, 2]])
    n = math.prod(shape)
    inputs = [T("int64", shape, [r.randint(-3, 9) for _ in range(n)])]
    axes = some_axes(r, len(shape))
    if axes:
        inputs.append(ints(axes))
    return Case(op, 18, inputs, keepdims=r.randint(0, 1))


@case(40)
def arg_reduce(r):
    shape = full(r, 1, 4)
    return Case(r.choice(["ArgMax", "ArgMin"]), 13, [T("float32", shape)],
                axis=r.randint(-len(shape), len(shape) - 1), keepdims=r.randint(0, 1))


@case(30)
def softmax(r):
    shape = dims(r, 1, 4)
    op = r.choice(["Softmax", "LogSoftmax", "Hardmax"])
    version = r.choice([11, 13])
    axis = r.randint(-len(shape), len(shape) - 1) if version == 13 else r.randint(0, len(shape) - 1)
    return Case(op, version, [T("float32", shape)], axis=axis)


@case(40)
def cumsum(r):
    if r.random() < 0.5:
        shape = full(r, 1, 3)
        return Case("CumSum", 14, [T("float32", shape), scalar(r.randint(-len(shape), len(shape) - 1))])
    n = r.randint(1, 6)
    return Case("CumSum", 14, [T("int64", [n], [r.randint(0, 7) for _ in range(n)]), scalar(0)],
                exclusive=r.randint(0, 1), reverse=r.randint(0, 1))


@case(60)
def shape_of(r):
    shape = dims(r, 0, 5)
    attrs = {}
    if r.random() < 0.6:
        attrs["start"] = r.randint(-7, 7)
    if r.random() < 0.6:
        attrs["end"] = r.randint(-7, 7)
    return Case("Shape", 15, [T("float32", shape)], **attrs)


@case(15)
def size_of(r):
    return Case("Size", 13, [T("float32", dims(r))])


def factor(r, n, parts):
    """`parts` factors of n > 0."""
    out = []
    for _ in range(parts - 1):
        divisors = [d for d in range(1, n + 1) if n % d == 0]
        d = r.choice(divisors)
        out.append(d)
        n //= d
    out.append(n)
    r.shuffle(out)
    return out


@case(200)
def reshape(r):
    shape = full(r, 0, 4) if r.random() < 0.8 else dims(r, 1, 4, zero=0.3)
    n = math.prod(shape)
    allow_zero = r.random() < 0.2
    if n == 0:
        target = shape[:]
        r.shuffle(target)
        if not allow_zero:
            # zeros copy: they must stand where the input has them
            target = shape[:]
    else:
        target = factor(r, n, r.randint(1, 5)) if n > 1 or r.random() < 0.8 else []
        if not target and n == 1:
            target = []
    if target and n and r.random() < 0.6:
        target[r.randrange(len(target))] = -1
    if not allow_zero:
        for i in range(min(len(target), len(shape))):
            if target[i] == shape[i] and r.random() < 0.5:
                target[i] = 0
    if allow_zero and -1 in target and 0 in target:
        target = [abs(t) for t in target]
    return Case("Reshape", 14, [T("float32", shape), ints(target)], **({"allowzero": 1} if allow_zero else {}))


@case(30)
def flatten(r):
    shape = dims(r, 0, 4)
    return Case("Flatten", 13, [T("float32", shape)], axis=r.randint(-len(shape), len(shape)))


@case(60)
def squeeze(r):
    shape = squeeze_ones(r, squeeze_ones(r, dims(r, 0, 5)))
    ones = [i for i, d in enumerate(shape) if d == 1]
    r.shuffle(ones)
    chosen = [a - len(shape) if r.random() < 0.5 else a for a in ones[:r.randint(0, len(ones))]]
    version = r.choice([11, 13])
    if not chosen:
        return Case("Squeeze", version, [T("float32", shape)])
    if version == 11:
        return Case("Squeeze", version, [T("float32", shape)], axes=chosen)
    return Case("Squeeze", version, [T("float32", shape), ints(chosen)])


@case(60)
def unsqueeze(r):
    shape = dims(r, 0, 4)
    n = r.randint(1, 3)
    rank = len(shape) + n
    axes = r.sample(range(rank), n)
    axes = [a - rank if r.random() < 0.5 else a for a in axes]
    if r.random() < 0.4:
        return Case("Unsqueeze", 11, [T("float32", shape)], axes=axes)
    return Case("Unsqueeze", 13, [T("float32", shape), ints(axes)])


@case(50)
def transpose(r):
    if r.random() < 0.3:
        shape = r.choice([[2, 3], [3, 2, 2], [1, 4]])
        n = math.prod(shape)
        t = T("int64", shape, [r.randint(0, 50) for _ in range(n)])
    else:
        shape = dims(r, 0, 5)
        t = T("float32", shape)
    perm = list(range(len(shape)))
    r.shuffle(perm)
    return Case("Transpose", 13, [t], **({"perm": perm} if r.random() < 0.8 and perm else {}))


@case(80)
def expand(r):
    shape = dims(r, 0, 4)
    source = stretch(r, shape)
    target = [1 if r.random() < 0.2 and len(shape) - i <= len(source) else d for i, d in enumerate(shape)]
    return Case("Expand", 13, [T("float32", source), ints(target)])


@case(40)
def tile(r):
    shape = dims(r, 1, 4)
    return Case("Tile", 13, [T("float32", shape), ints([r.randint(0, 3) for _ in shape])])


@case(80)
def concat(r):
    if r.random() < 0.5:
        inputs = []
        for _ in range(r.randint(1, 4)):
            n = r.randint(0, 3)
            inputs.append(ints([r.randint(-1, 30) for _ in range(n)]))
        return Case("Concat", 13, inputs, axis=r.choice([0, -1]))
    shape = dims(r, 1, 4)
    axis = r.randrange(len(shape))
    inputs = []
    for _ in range(r.randint(1, 4)):
        s = shape[:]
        s[axis] = dim(r, 0.15)
        inputs.append(T("float32", s))
    return Case("Concat", 13, inputs, axis=axis - len(shape) if r.random() < 0.5 else axis)


@case(100)
def gather(r):
    if r.random() < 0.5:
        n = r.randint(1, 6)
        data = ints([r.randint(0, 60) for _ in range(n)])
        k = r.choice([[], [1], [2], [2, 2]])
        return Case("Gather", 13, [data, T("int64", k, [r.randint(-n, n - 1) for _ in range(math.prod(k))])], axis=0)
    shape = full(r, 1, 4)
    axis = r.randrange(len(shape))
    return Case("Gather", 13, [T("float32", shape), T("int64", dims(r, 0, 3), None, 0, shape[axis] - 1)],
                axis=axis - len(shape) if r.random() < 0.5 else axis)


@case(20)
def gather_elements(r):
    shape = full(r, 1, 4)
    axis = r.randrange(len(shape))
    index = [r.randint(1, d) for d in shape]
    return Case("GatherElements", 13, [T("float32", shape), T("int64", index, None, 0, shape[axis] - 1)], axis=axis)


@case(40)
def gather_nd(r):
    shape = full(r, 1, 4)
    batch = r.randint(0, len(shape) - 1)
    k = r.randint(1, len(shape) - batch)
    return Case("GatherND", 13, [T("float32", shape), T("int64", shape[:batch] + full(r, 0, 2) + [k], None, 0, 0)],
                batch_dims=batch)


@case(220)
def slice_(r):
    values = r.random() < 0.4
    shape = [r.randint(1, 8)] if values else dims(r, 1, 4)
    data = ints([r.randint(0, 99) for _ in range(shape[0])]) if values else T("float32", shape)
    n = r.randint(1, len(shape))
    axes = r.sample(range(len(shape)), n)
    huge = (1 << 63) - 1
    starts, ends, steps = [], [], []
    for a in axes:
        d = shape[a]
        step = r.choice([1, 1, 1, 2, 3, -1, -2])
        starts.append(r.choice([0, r.randint(-d - 2, d + 2), r.randint(-d - 2, d + 2), huge if step < 0 else 0]))
        ends.append(r.choice([huge if step > 0 else -huge, r.randint(-d - 2, d + 2), r.randint(-d - 2, d + 2), d]))
        steps.append(step)
    named = [a - len(shape) if r.random() < 0.4 else a for a in axes]
    if all(s == 1 for s in steps) and r.random() < 0.3:
        return Case("Slice", 9, [data], starts=starts, ends=ends, axes=[a for a in axes])
    inputs = [data, ints(starts), ints(ends), ints(named), ints(steps)]
    if all(s == 1 for s in steps) and r.random() < 0.5:
        inputs.pop()
    return Case("Slice", 13, inputs)


@case(80)
def split(r):
    values = r.random() < 0.3
    n = r.randint(1, 4)
    parts = [r.randint(0, 3) for _ in range(n)]
    shape = dims(r, 1, 4, zero=0)
    axis = 0 if values else r.randrange(len(shape))
    if values:
        shape = [sum(parts)]
    form = r.choice(["input13", "attr", "equal13", "num_outputs"])
    if form in ("input13", "attr"):
        shape[axis] = sum(parts)
    elif form == "equal13":
        shape[axis] = n * r.randint(1, 3)
    else:
        chunk = r.randint(1, 3)
        shape[axis] = chunk * (n - 1) + r.randint(1, chunk)
    data = ints([r.randint(0, 50) for _ in range(shape[0])]) if values else T("float32", shape)
    if form == "input13":
        return Case("Split", 13, [data, ints(parts)], n, axis=axis)
    if form == "attr":
        return Case("Split", 11, [data], n, axis=axis, split=parts)
    if form == "equal13":
        return Case("Split", 13, [data], n, axis=axis)
    return Case("Split", 18, [data], n, axis=axis, num_outputs=n)


@case(20)
def compress(r):
    shape = full(r, 1, 3)
    if r.random() < 0.5:
        n = math.prod(shape)
        return Case("Compress", 11, [T("float32", shape), T("bool", [r.randint(0, n)])])
    axis = r.randrange(len(shape))
    return Case("Compress", 11, [T("float32", shape), T("bool", [r.randint(0, shape[axis])])], axis=axis)


@case(20)
def scatter_elements(r):
    shape = full(r, 1, 3)
    axis = r.randrange(len(shape))
    index = [r.randint(1, d) for d in shape]
    return Case("ScatterElements", 16, [T("float32", shape), T("int64", index, None, 0, 0), T("float32", index)],
                axis=axis)


@case(20)
def scatter_nd(r):
    if r.random() < 0.4:
        n = r.randint(2, 6)
        k = r.randint(1, 2)
        at = r.sample(range(n), k)
        return Case("ScatterND", 16, [ints([r.randint(0, 40) for _ in range(n)]), T("int64", [k, 1], at),
                                      ints([r.randint(0, 40) for _ in range(k)])])
    shape = full(r, 1, 3)
    k = r.randint(1, len(shape))
    lead = full(r, 0, 2)
    return Case("ScatterND", 16, [T("float32", shape), T("int64", lead + [k], None, 0, 0),
                                  T("float32", lead + shape[k:])])


@case(15)
def trilu(r):
    return Case("Trilu", 14, [T("float32", full(r, 2, 4))] + ([scalar(r.randint(-2, 2))] if r.random() < 0.5 else []))


@case(80)
def pad(r):
    shape = full(r, 1, 4)
    version = r.choice([2, 11, 13, 18])
    lead = [r.randint(-1, 3) if d > 2 else r.randint(0, 3) for d in shape]
    tail = [r.randint(-1, 3) if d > 2 else r.randint(0, 3) for d in shape]
    if version == 2:
        return Case("Pad", 2, [T("float32", shape)], pads=lead + tail)
    if version == 18 and r.random() < 0.6:
        axes = r.sample(range(len(shape)), r.randint(1, len(shape)))
        named = [a - len(shape) if r.random() < 0.5 else a for a in axes]
        return Case("Pad", 18, [T("float32", shape), ints([lead[a] for a in axes] + [tail[a] for a in axes]), None,
                                ints(named)])
    return Case("Pad", version, [T("float32", shape), ints(lead + tail)])


@case(60)
def constant_of_shape(r):
    target = dims(r, 0, 4) if r.random() < 0.6 else [r.randint(0, 6)]
    attrs = {}
    if r.random() < 0.7:
        attrs["value"] = TensorAttr("int64", [1], [r.randint(-2, 7)]) if r.random() < 0.7 else TensorAttr(
            "float32", [1], [1.5])
    return Case("ConstantOfShape", 9, [ints(target)], **attrs)


@case(100)
def range_(r):
    if r.random() < 0.7:
        start, limit = r.randint(-4, 9), r.randint(-4, 12)
        return Case("Range", 11, [scalar(start), scalar(limit), scalar(r.choice([1, 1, 1, 2, 3, -1, -2]))])
    values = [r.choice([0.0, 1.0, 0.5]), r.choice([3.0, 7.5, 4.0, -2.0]), r.choice([1.0, 0.5, 0.3, -1.0])]
    return Case("Range", 11, [scalar(v, "float32") for v in values])


@case(10)
def eye_like(r):
    return Case("EyeLike", 9, [T("float32", dims(r, 2, 2))], **({"dtype": 7} if r.random() < 0.5 else {}))


@case(30)
def topk(r):
    shape = full(r, 1, 4)
    axis = r.randrange(len(shape))
    k = r.randint(0, shape[axis])
    return Case("TopK", 11, [T("float32", shape), ints([k])], 2, axis=axis - len(shape) if r.random() < 0.5 else axis)


@case(40)
def non_zero(r):
    if r.random() < 0.5:
        n = r.randint(0, 7)
        return Case("NonZero", 13, [T("int64", [n], [r.randint(0, 1) * r.randint(-2, 5) for _ in range(n)])])
    return Case("NonZero", 13, [T("bool", dims(r, 1, 4))])


@case(30)
def one_hot(r):
    shape = full(r, 0, 3)
    return Case("OneHot", 11, [T("int64", shape, None, 0, 2), scalar(r.randint(1, 6)), T("float32", [2])],
                axis=r.randint(-len(shape) - 1, len(shape)))


@case(20)
def unique(r):
    shape = full(r, 1, 3)
    attrs = {"axis": r.randrange(len(shape))} if r.random() < 0.5 else {}
    return Case("Unique", 11, [T("float32", shape, None, 0, 3)], 4, **attrs)


@case(15)
def nms(r):
    b, n, c = r.randint(1, 2), r.randint(1, 6), r.randint(1, 3)
    return Case("NonMaxSuppression", 11, [T("float32", [b, n, 4]), T("float32", [b, c, n]), ints([r.randint(0, 4)])])


@case(80)
def matmul(r):
    batch = dims(r, 0, 3)
    m, k, n = dim(r), dim(r), dim(r)
    a, b = stretch(r, batch) + [m, k], squeeze_ones(r, batch) + [k, n]
    p = r.random()
    if p < 0.1:
        a = [k]
    elif p < 0.2:
        b = [k]
    elif p < 0.25:
        a, b = [k], [k]
    return Case("MatMul", 13, [T("float32", a), T("float32", b)])


@case(30)
def gemm(r):
    m, k, n = r.randint(1, 5), r.randint(1, 5), r.randint(1, 5)
    ta, tb = r.randint(0, 1), r.randint(0, 1)
    inputs = [T("float32", [k, m] if ta else [m, k]), T("float32", [n, k] if tb else [k, n])]
    if r.random() < 0.6:
        inputs.append(T("float32", r.choice([[m, n], [1, n], [n], [1], [], [m, 1]])))
    return Case("Gemm", 13, inputs, transA=ta, transB=tb)


@case(20)
def matmul_integer(r):
    batch = full(r, 0, 2)
    m, k, n = r.randint(1, 5), r.randint(1, 5), r.randint(1, 5)
    return Case("MatMulInteger", 10, [T("uint8", batch + [m, k]), T("uint8", [k, n]), scalar(3, "uint8"),
                                      scalar(1, "uint8")])


@case(60)
def einsum(r):
    equation, count = r.choice([("bij,bjk->bik", 2), ("ij,jk", 2), ("...ij,...jk->...ik", 2), ("bhid,bhjd->bhij", 2),
                                ("ii->i", 1), ("ij->ji", 1), ("i,j->ij", 2), ("bij->b", 1), ("...i,i->...", 2),
                                ("ij,ij->", 2), ("abc,cd,de->abe", 3), ("b...->...b", 1), ("ij", 1), ("ba", 1)])
    size = {c: r.randint(1, 5) for c in "abcdehijk"}
    extra = full(r, 0, 2)
    terms = equation.split("->")[0].split(",")
    inputs = []
    for term in terms:
        shape, i = [], 0
        while i < len(term):
            if term[i] == ".":
                shape += extra
                i += 3
            else:
                shape.append(size[term[i]])
                i += 1
        inputs.append(T("float32", shape))
    return Case("Einsum", 12, inputs, equation=equation)


def spatial_attrs(r, n, pool=False):
    attrs = {}
    if r.random() < 0.7:
        attrs["strides"] = [r.randint(1, 3) for _ in range(n)]
    if r.random() < 0.4:
        attrs["dilations"] = [r.randint(1, 2) for _ in range(n)]
    p = r.random()
    if p < 0.4:
        attrs["pads"] = [r.randint(0, 1) for _ in range(2 * n)]
    elif p < 0.7:
        attrs["auto_pad"] = r.choice(["SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"])
        if attrs["auto_pad"].startswith("SAME"):
            attrs.pop("dilations", None)
    return attrs


@case(120)
def conv(r):
    n = r.choice([1, 2, 2, 3])
    group = r.choice([1, 1, 2])
    cin, cout = group * r.randint(1, 3), group * r.randint(1, 3)
    kernel = [r.randint(1, 3) for _ in range(n)]
    x = [r.choice([1, 1, 2]), cin] + [r.randint(6, 13) for _ in range(n)]
    attrs = spatial_attrs(r, n)
    if r.random() < 0.5:
        attrs["kernel_shape"] = kernel
    inputs = [T("float32", x), T("float32", [cout, cin // group] + kernel)]
    if r.random() < 0.5:
        inputs.append(T("float32", [cout]))
    return Case("Conv", 11, inputs, group=group, **attrs)


@case(20)
def conv_integer(r):
    x = [1, 2, r.randint(5, 9), r.randint(5, 9)]
    return Case("ConvInteger", 10, [T("uint8", x), T("uint8", [3, 2, 2, 3])], **spatial_attrs(r, 2))


@case(80)
def conv_transpose(r):
    n = r.choice([1, 2])
    group = r.choice([1, 1, 2])
    cin, per = group * r.randint(1, 2), r.randint(1, 2)
    kernel = [r.randint(1, 4) for _ in range(n)]
    attrs = {"strides": [r.randint(1, 3) for _ in range(n)]}
    p = r.random()
    if p < 0.4:
        attrs["pads"] = [r.randint(0, 1) if k > 2 else 0 for k in kernel] * 2
        if r.random() < 0.5:
            attrs["output_padding"] = [r.randint(0, s - 1) for s in attrs["strides"]]
    elif p < 0.6:
        attrs["auto_pad"] = r.choice(["SAME_UPPER", "VALID"])
    if r.random() < 0.3 and "auto_pad" not in attrs:
        attrs["dilations"] = [r.randint(1, 2) for _ in range(n)]
    return Case("ConvTranspose", 11, [T("float32", [1, cin] + [r.randint(2, 6) for _ in range(n)]),
                                      T("float32", [cin, per] + kernel)], group=group, **attrs)


@case(120)
def pool(r):
    op = r.choice(["MaxPool", "AveragePool", "MaxPool", "LpPool"])
    n = r.choice([1, 2, 2, 3])
    attrs = spatial_attrs(r, n)
    version = {"MaxPool": 12, "AveragePool": 19, "LpPool": 18}[op]
    if op == "LpPool":
        attrs.pop("dilations", None)
    kernel = [r.randint(2, 3) for _ in range(n)]
    if r.random() < 0.5:
        attrs["ceil_mode"] = 1
        if r.random() < 0.6:
            attrs.pop("auto_pad", None)
    outputs = 2 if op == "MaxPool" and r.random() < 0.3 else 1
    return Case(op, version, [T("float32", [1, 2] + [r.randint(6, 13) for _ in range(n)])], outputs,
                kernel_shape=kernel, **attrs)


@case(15)
def global_pool(r):
    return Case(r.choice(["GlobalAveragePool", "GlobalMaxPool"]), 1, [T("float32", full(r, 3, 5))])


@case(20)
def batch_norm(r):
    x = full(r, 2, 4)
    c = T("float32", [x[1]], None, 1, 2)
    return Case("BatchNormalization", 15, [T("float32", x), c, c, c, c])


@case(20)
def instance_norm(r):
    x = full(r, 3, 4)
    c = T("float32", [x[1]])
    return Case("InstanceNormalization", 6, [T("float32", x), c, c])


@case(30)
def layer_norm(r):
    x = full(r, 1, 4)
    axis = r.randrange(len(x))
    inputs = [T("float32", x), T("float32", x[axis:])]
    if r.random() < 0.5:
        inputs.append(T("float32", x[axis:]))
    return Case("LayerNormalization", 17, inputs, r.choice([1, 1, 3]), axis=axis - len(x) if r.random() < 0.5 else axis)


@case(100)
def resize(r):
    x = full(r, 2, 4)
    version = r.choice([11, 13, 18, 19])
    scales = [r.choice([0.5, 1.0, 2.0, 1.5, 0.7, 3.0]) for _ in x]
    attrs = {"mode": "nearest"}
    axes = None
    if version >= 18 and r.random() < 0.5:
        axes = r.sample(range(len(x)), r.randint(1, len(x)))
        attrs["axes"] = axes
    pick = axes if axes is not None else range(len(x))
    if r.random() < 0.5:
        out = T("float32", [len(list(pick))], [scales[a] for a in pick])
        if any(math.floor(x[a] * scales[a]) < 1 for a in pick):
            out.values = [1.0 for _ in pick]
        return Case("Resize", version, [T("float32", x), T("float32", [0], []) if version < 13 else None, out], **attrs)
    sizes = [r.randint(1, 9) for _ in pick]
    if version >= 18 and r.random() < 0.5:
        attrs["keep_aspect_ratio_policy"] = r.choice(["not_larger", "not_smaller"])
    none = T("float32", [0], []) if version < 13 else None
    return Case("Resize", version, [T("float32", x), none, none, ints(sizes)], **attrs)


@case(15)
def upsample(r):
    x = full(r, 4, 4)
    scales = [1.0, 1.0, r.choice([1.0, 2.0, 3.0]), r.choice([1.0, 2.0, 1.5])]
    if r.random() < 0.5:
        return Case("Upsample", 7, [T("float32", x)], scales=scales)
    return Case("Upsample", 9, [T("float32", x), T("float32", [4], scales)])


@case(15)
def grid_sample(r):
    n = r.randint(1, 2)
    return Case("GridSample", 16, [T("float32", [n, 2, r.randint(2, 5), r.randint(2, 5)]),
                                   T("float32", [n, r.randint(1, 4), r.randint(1, 4), 2])])


@case(20)
def depth_space(r):
    b = r.randint(1, 3)
    if r.random() < 0.5:
        return Case("DepthToSpace", 13, [T("float32", [1, b * b * r.randint(1, 2), r.randint(1, 3), r.randint(1, 3)])],
                    blocksize=b)
    return Case("SpaceToDepth", 13, [T("float32", [1, 2, b * r.randint(1, 3), b * r.randint(1, 3)])], blocksize=b)


@case(60)
def recurrent(r):
    op, gates = r.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    s, b, i, h = r.randint(1, 4), r.randint(1, 3), r.randint(1, 4), r.randint(1, 4)
    direction = r.choice(["forward", "reverse", "bidirectional"])
    d = 2 if direction == "bidirectional" else 1
    inputs = [T("float32", [s, b, i]), T("float32", [d, gates * h, i]), T("float32", [d, gates * h, h])]
    attrs = {"direction": direction, "hidden_size": h}
    return Case(op, 14, inputs, 3 if op == "LSTM" else 2, **attrs)


@case(30)
def quantize(r):
    x = full(r, 2, 4)
    axis = r.randrange(len(x))
    if r.random() < 0.5:
        return Case("QuantizeLinear", 13, [T("float32", x), scalar(0.5, "float32"), scalar(1, "int8")])
    return Case("DequantizeLinear", 13, [T("uint8", x), T("float32", [x[axis]]), T("uint8", [x[axis]])], axis=axis)


@case(20)
def dequantize_blocked(r):
    block = r.choice([2, 4])
    x = [r.randint(1, 4), block * r.randint(1, 4)]
    return Case("DequantizeLinear", 21, [T("uint8", x), T("float32", [x[0], x[1] // block])], axis=1, block_size=block)


@case(10)
def dynamic_quantize(r):
    return Case("DynamicQuantizeLinear", 11, [T("float32", full(r, 1, 3))], 3)


@case(15)
def qlinear_matmul(r):
    m, k, n = r.randint(1, 4), r.randint(1, 4), r.randint(1, 4)
    s, z = scalar(0.5, "float32"), scalar(2, "uint8")
    return Case("QLinearMatMul", 10, [T("uint8", [m, k]), s, z, T("uint8", [k, n]), s, z, s, z])


@case(15)
def qlinear_conv(r):
    s, z = scalar(0.5, "float32"), scalar(2, "uint8")
    return Case("QLinearConv", 10, [T("uint8", [1, 2, r.randint(4, 8), r.randint(4, 8)]), s, z, T("uint8", [3, 2, 2, 2]),
                                    s, z, s, z], **spatial_attrs(r, 2))


@case(60)
def attention23(r):
    nkv = r.randint(1, 2)
    nq = nkv * r.randint(1, 3)
    b, s, t, h = r.randint(1, 2), r.randint(1, 4), r.randint(1, 4), 2 * r.randint(1, 4)
    hv = h
    flat = r.random() < 0.5
    q = [b, s, nq * h] if flat else [b, nq, s, h]
    k = [b, t, nkv * h] if flat else [b, nkv, t, h]
    v = [b, t, nkv * hv] if flat else [b, nkv, t, hv]
    inputs = [T("float32", q), T("float32", k), T("float32", v)]
    attrs = {"q_num_heads": nq, "kv_num_heads": nkv} if flat else {}
    outputs = 1
    if r.random() < 0.5:
        p = r.randint(1, 4)
        inputs += [None, T("float32", [b, nkv, p, h]), T("float32", [b, nkv, p, hv])]
        outputs = 3
    return Case("Attention", 23, inputs, outputs, **attrs)


@case(15)
def rms_norm23(r):
    x = full(r, 1, 4)
    return Case("RMSNormalization", 23, [T("float32", x), T("float32", x[-1:])])


@case(15)
def stft_windows(r):
    op = r.choice(["HannWindow", "HammingWindow", "BlackmanWindow"])
    return Case(op, 17, [scalar(r.randint(1, 9))])


@case(20)
def dft(r):
    shape = [r.randint(1, 2), r.randint(4, 9), 1]
    attrs = {"axis": 1}
    if r.random() < 0.5:
        attrs["onesided"] = 1
    inputs = [T("float32", shape)]
    if r.random() < 0.4:
        inputs.append(scalar(r.randint(4, 9)))
    return Case("DFT", 17, inputs, **attrs)


@case(20)
def stft(r):
    frame = r.randint(2, 5)
    inputs = [T("float32", [1, r.randint(8, 20), 1]), scalar(r.randint(1, 4)), T("float32", [frame]), scalar(frame)]
    return Case("STFT", 17, inputs, onesided=r.randint(0, 1))


MS = "com.microsoft"


@case(60)
def ms_gqa(r):
    nkv = r.randint(1, 2)
    nq = nkv * r.randint(1, 3)
    b, h = r.randint(1, 2), 16
    p = r.choice([0, 0, 3, 5])
    s = r.randint(1, 4) if p == 0 or b == 1 else 1
    total = p + s
    packed = r.random() < 0.5
    shared = r.random() < 0.3
    cache = total + r.randint(0, 4) if shared else p
    if shared and r.random() < 0.3:
        cache = total
    q = T("float32", [b, s, (nq + (2 * nkv if packed else 0)) * h])
    kv = None if packed else T("float32", [b, s, nkv * h])
    past = T("float32", [b, nkv, cache, h])
    return Case("GroupQueryAttention", 1, [q, kv, kv, past, past, T("int32", [b], [total - 1] * b),
                                           scalar(total, "int32")], 3, domain=MS, num_heads=nq, kv_num_heads=nkv)


@case(40)
def ms_mha(r):
    n, h = r.randint(1, 3), 8
    b, s, t = r.randint(1, 2), r.randint(1, 4), r.randint(1, 4)
    kind = r.choice(["qkv", "cross", "past", "packed"])
    if kind == "packed":
        return Case("MultiHeadAttention", 1, [T("float32", [b, s, n, 3, h])], domain=MS, num_heads=n)
    q = T("float32", [b, s, n * h])
    if kind == "cross":
        kv = T("float32", [b, n, t, h])
        return Case("MultiHeadAttention", 1, [q, kv, kv], domain=MS, num_heads=n)
    if kind == "past":
        kv, p = T("float32", [b, s, n * h]), T("float32", [b, n, r.randint(1, 4), h])
        return Case("MultiHeadAttention", 1, [q, kv, kv, None, None, None, p, p], 3, domain=MS, num_heads=n)
    kv = T("float32", [b, t, n * h])
    return Case("MultiHeadAttention", 1, [q, kv, kv], r.choice([1, 3]), domain=MS, num_heads=n)


@case(20)
def ms_attention(r):
    n, h, d = r.randint(1, 3), 4, r.randint(1, 3) * 4
    b, s = r.randint(1, 2), r.randint(1, 4)
    inputs = [T("float32", [b, s, d]), T("float32", [d, 3 * n * h]), T("float32", [3 * n * h])]
    if r.random() < 0.5:
        return Case("Attention", 1, inputs, domain=MS, num_heads=n)
    inputs += [None, T("float32", [2, b, n, r.randint(0, 4), h])]
    return Case("Attention", 1, inputs, 2, domain=MS, num_heads=n, unidirectional=1)


@case(30)
def ms_matmul_nbits(r):
    k, n, block = r.randint(1, 70), r.randint(1, 6), r.choice([16, 32])
    kb = -(-k // block)
    inputs = [T("float32", full(r, 0, 2) + [k]), T("uint8", [n, kb, block // 2]), T("float32", [n * kb])]
    if r.random() < 0.5:
        inputs.append(T("uint8", [n * (-(-kb // 2))]))
    return Case("MatMulNBits", 1, inputs, domain=MS, K=k, N=n, bits=4, block_size=block)


@case(20)
def ms_gather_block(r):
    v, blocks = r.randint(1, 5), r.randint(1, 3)
    return Case("GatherBlockQuantized", 1, [T("uint8", [v, blocks * 8]), T("int64", dims(r, 0, 2, 0), None, 0, v - 1),
                                            T("float32", [v, blocks])], domain=MS, bits=4, block_size=16,
                gather_axis=0, quantize_axis=1)


@case(30)
def ms_norms(r):
    x = full(r, 3, 3)
    d = T("float32", x[-1:])
    if r.random() < 0.5:
        return Case("SkipLayerNormalization", 1, [T("float32", x), T("float32", x), d, d],
                    [True, False, False, r.random() < 0.5], domain=MS)
    return Case("SkipSimplifiedLayerNormalization", 1, [T("float32", x), T("float32", x), d],
                [True, False, False, r.random() < 0.5], domain=MS)


@case(20)
def ms_activations(r):
    x = full(r, 1, 3)
    op = r.choice(["Gelu", "QuickGelu", "FastGelu", "BiasGelu"])
    inputs = [T("float32", x)] + ([T("float32", x[-1:])] if op == "BiasGelu" else [])
    return Case(op, 1, inputs, domain=MS)


@case(30)
def ms_fused_matmul(r):
    m, k, n = r.randint(1, 4), r.randint(1, 4), r.randint(1, 4)
    batch = full(r, 0, 2)
    ta, tb = r.randint(0, 1), r.randint(0, 1)
    return Case("FusedMatMul", 1, [T("float32", batch + ([k, m] if ta else [m, k])),
                                   T("float32", batch + ([n, k] if tb else [k, n]))], domain=MS, transA=ta, transB=tb)


@case(20)
def ms_rotary(r):
    b, s, n, h = r.randint(1, 2), r.randint(1, 4), r.randint(1, 3), 8
    x = [b, s, n * h] if r.random() < 0.5 else [b, n, s, h]
    cache = T("float32", [16, h // 2])
    return Case("RotaryEmbedding", 1, [T("float32", x), T("int64", [b, s], None, 0, 9), cache, cache], domain=MS)


@case(20)
def ms_integer(r):
    m, k, n = r.randint(1, 4), r.randint(1, 4), r.randint(1, 4)
    one = scalar(0.5, "float32")
    if r.random() < 0.5:
        return Case("DynamicQuantizeMatMul", 1, [T("float32", [m, k]), T("uint8", [k, n]), T("float32", [1])], domain=MS)
    return Case("MatMulIntegerToFloat", 1, [T("uint8", [m, k]), T("uint8", [k, n]), one, one], domain=MS)


@case(30)
def ms_qlinear(r):
    s, z = scalar(0.5, "float32"), scalar(2, "uint8")
    kind = r.choice(["add", "sigmoid", "concat", "pool", "gap"])
    if kind == "add":
        shape = full(r, 1, 4)
        return Case(r.choice(["QLinearAdd", "QLinearMul"]), 1, [T("uint8", shape), s, z, T("uint8", stretch(r, shape)), s,
                                                                z, s, z], domain=MS)
    if kind == "sigmoid":
        return Case(r.choice(["QLinearSigmoid", "QLinearLeakyRelu"]), 1, [T("uint8", full(r, 1, 4)), s, z, s, z],
                    domain=MS)
    if kind == "concat":
        shape = full(r, 2, 3)
        inputs = [s, z]
        for _ in range(r.randint(1, 3)):
            part = shape[:]
            part[0] = r.randint(1, 3)
            inputs += [T("uint8", part), s, z]
        return Case("QLinearConcat", 1, inputs, domain=MS, axis=0)
    x = T("uint8", [1, 2, r.randint(4, 7), r.randint(4, 7)])
    if kind == "pool":
        return Case("QLinearAveragePool", 1, [x, s, z, s, z], domain=MS, kernel_shape=[2, 2], strides=[r.randint(1, 2)] * 2)
    return Case("QLinearGlobalAveragePool", 1, [x, s, z, s, z], domain=MS)


@case(15)
def simplified_norm(r):
    x = full(r, 2, 4)
    return Case("SimplifiedLayerNormalization", 17, [T("float32", x), T("float32", x[-1:])], axis=-1, stash_type=1)


@case(15)
def embed_norm(r):
    b, s, d = r.randint(1, 2), r.randint(1, 4), 4
    ids = T("int32", [b, s], None, 0, 2)
    e = T("float32", [8, d])
    g = T("float32", [d])
    return Case("EmbedLayerNormalization", 1, [ids, ids, e, e, e, g, g], 2, domain=MS)
