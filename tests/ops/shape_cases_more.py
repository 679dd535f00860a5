"""More operators for make_shape_vectors.py: those of vision, quantisation, losses and machine-learning models."""
import math

from shape_cases import Case, T, dim, dims, full, ints, scalar, squeeze_ones, stretch

GENERATORS = []
ML = "ai.onnx.ml"
MS = "com.microsoft"


def case(weight=12):
    def add(fn):
        GENERATORS.append((fn, weight))
        return fn
    return add


UNARY = {"Acosh": 9, "Asin": 7, "Asinh": 9, "Atan": 7, "Atanh": 9, "Cosh": 9, "Sinh": 9, "Tan": 7, "MeanVarianceNormalization": 13}


@case(40)
def unary(r):
    op = r.choice(sorted(UNARY))
    shape = full(r, 4, 4) if op == "MeanVarianceNormalization" else dims(r)
    return Case(op, 13, [T("float32", shape)])


@case(30)
def bitwise(r):
    op = r.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
    shape = dims(r)
    inputs = [T("int32", shape)] if op == "BitwiseNot" else [T("int32", stretch(r, shape)), T("int32", squeeze_ones(r, shape))]
    return Case(op, 18, inputs)


@case()
def bit_shift(r):
    shape = dims(r)
    return Case("BitShift", 11, [T("uint32", stretch(r, shape)), T("uint32", shape)], direction=r.choice(["LEFT", "RIGHT"]))


@case()
def cast_like(r):
    n = r.randint(0, 5)
    return Case("CastLike", 15, [T("int64", [n], [r.randint(0, 90) for _ in range(n)]), T(r.choice(["float32", "int32", "bool"]), dims(r))])


@case(24)
def center_crop_pad(r):
    shape = full(r, 1, 4)
    axes = sorted(r.sample(range(len(shape)), r.randint(1, len(shape))))
    wanted = ints([r.randint(1, 7) for _ in axes])
    signed = [a - len(shape) if r.random() < 0.3 else a for a in axes]
    return Case("CenterCropPad", 18, [T("float32", shape), wanted], axes=signed)


@case(24)
def col2im(r):
    image = [r.randint(4, 8), r.randint(4, 8)]
    block = [r.randint(1, 3), r.randint(1, 3)]
    strides = [r.randint(1, 2), r.randint(1, 2)]
    pads = [r.randint(0, 1) for _ in range(4)]
    columns = math.prod((i + pads[k] + pads[k + 2] - b) // s + 1 for k, (i, b, s) in enumerate(zip(image, block, strides)))
    n, c = r.randint(1, 2), r.randint(1, 3)
    return Case("Col2Im", 18, [T("float32", [n, c * math.prod(block), columns]), ints(image), ints(block)], pads=pads, strides=strides)


@case()
def det(r):
    n = r.randint(1, 4)
    return Case("Det", 11, [T("float32", full(r, 0, 2) + [n, n])])


@case(20)
def dropout(r):
    return Case("Dropout", 13, [T("float32", dims(r))], outputs=r.choice([1, 2]))


@case()
def lp_pool(r):
    return Case("GlobalLpPool", 2, [T("float32", full(r, 3, 4))], p=r.choice([1, 2]))


@case()
def lp_normal(r):
    shape = full(r, 1, 4)
    return Case("LpNormalization", 1, [T("float32", shape)], axis=r.randint(-len(shape), len(shape) - 1), p=r.choice([1, 2]))


@case()
def group_norm(r):
    groups, per = r.randint(1, 3), r.randint(1, 3)
    c = groups * per
    return Case("GroupNormalization", 21, [T("float32", [dim(r, 0), c] + full(r, 1, 2)), T("float32", [c]), T("float32", [c])], num_groups=groups)


@case()
def lrn(r):
    return Case("LRN", 13, [T("float32", full(r, 4, 4))], size=r.choice([1, 3, 5]))


@case(20)
def losses(r):
    n, c = r.randint(1, 3), r.randint(2, 4)
    rest = full(r, 0, 2)
    op = r.choice(["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"])
    inputs = [T("float32", [n, c] + rest), T("int64", [n] + rest, low=0, high=1)]
    if r.random() < 0.4:
        inputs.append(T("float32", [c]))
    outputs = r.choice([1, 2]) if op[0] == "S" else 1
    return Case(op, 13, inputs, outputs=outputs, reduction=r.choice(["none", "sum", "mean"]))


@case()
def reverse_sequence(r):
    time, batch = r.randint(1, 5), r.randint(1, 4)
    lead = r.randint(0, 1)
    shape = ([time, batch] if lead == 0 else [batch, time]) + full(r, 0, 2)
    return Case("ReverseSequence", 10, [T("float32", shape), T("int64", [batch], low=1, high=1)], time_axis=lead, batch_axis=1 - lead)


@case(20)
def roi(r):
    n, c, rois = r.randint(1, 2), r.randint(1, 3), r.randint(1, 3)
    image = T("float32", [n, c, r.randint(4, 7), r.randint(4, 7)])
    if r.random() < 0.5:
        return Case("RoiAlign", 16, [image, T("float32", [rois, 4]), T("int64", [rois], low=0, high=0)],
                    output_height=r.randint(1, 4), output_width=r.randint(1, 4))
    return Case("MaxRoiPool", 1, [image, T("float32", [rois, 5], low=0, high=0.9)], pooled_shape=[r.randint(1, 3), r.randint(1, 3)])


@case()
def max_unpool(r):
    n, c, h, w = r.randint(1, 2), r.randint(1, 2), r.randint(1, 3), r.randint(1, 3)
    inputs = [T("float32", [n, c, h, w]), T("int64", [n, c, h, w], low=0, high=0)]
    if r.random() < 0.4:
        inputs.append(ints([n, c, 2 * h + r.randint(0, 1), 2 * w + r.randint(0, 1)]))
    return Case("MaxUnpool", 11, inputs, kernel_shape=[2, 2], strides=[2, 2])


@case()
def scatter(r):
    shape = full(r, 1, 3)
    index = [r.randint(1, d) for d in shape]
    return Case("Scatter", 9, [T("float32", shape), T("int64", index, low=0, high=0), T("float32", index)], axis=r.randint(0, len(shape) - 1))


@case(20)
def affine_grid(r):
    n, size = r.randint(1, 2), [r.randint(1, 4) for _ in range(r.choice([2, 3]))]
    d = len(size)
    return Case("AffineGrid", 20, [T("float32", [n, d, d + 1]), ints([n, r.randint(1, 3)] + size)])


@case(20)
def random_like(r):
    op = r.choice(["RandomNormalLike", "RandomUniformLike", "Bernoulli"])
    attrs = {} if op == "Bernoulli" and r.random() < 0.5 else {"dtype": r.choice([1, 11])}
    return Case(op, 15, [T("float32", dims(r))], **attrs)


@case()
def random_shape(r):
    return Case(r.choice(["RandomNormal", "RandomUniform"]), 1, [], shape=full(r, 1, 3))


@case()
def multinomial(r):
    return Case("Multinomial", 7, [T("float32", [r.randint(1, 3), r.randint(1, 4)])], sample_size=r.randint(1, 5))


@case()
def mel(r):
    return Case("MelWeightMatrix", 17, [scalar(r.randint(2, 6)), scalar(r.choice([16, 32])), scalar(8000), scalar(0.0, "float32"), scalar(4000.0, "float32")])


@case()
def deform(r):
    n, c, o, k, size = 1, r.randint(1, 2), r.randint(1, 3), r.randint(1, 3), r.randint(3, 5)
    out = size - k + 1
    return Case("DeformConv", 19, [T("float32", [n, c, size, size]), T("float32", [o, c, k, k]), T("float32", [n, 2 * k * k, out, out])], kernel_shape=[k, k])


@case()
def tensor_scatter(r):
    b, most, n, d = r.randint(1, 2), r.randint(2, 5), r.randint(1, 2), r.randint(1, 3)
    return Case("TensorScatter", 24, [T("float32", [b, most, d]), T("float32", [b, n, d]), T("int64", [b], [0] * b)], axis=1)


@case()
def swish(r):
    return Case("Swish", 24, [T("float32", dims(r))])


@case()
def cum_prod(r):
    shape = full(r, 1, 3)
    return Case("CumProd", 26, [T("float32", shape), scalar(r.randint(-len(shape), len(shape) - 1))])


@case()
def qgemm(r):
    m, k, n = r.randint(1, 3), r.randint(1, 4), r.randint(1, 4)
    inputs = [T("uint8", [m, k]), scalar(0.1, "float32"), scalar(3, "uint8"), T("uint8", [k, n]), scalar(0.1, "float32"), scalar(3, "uint8"), None,
              scalar(0.1, "float32"), scalar(3, "uint8")]
    return Case("QGemm", 1, inputs, domain=MS)


@case()
def trans_matmul(r):
    m, k, n = r.randint(1, 3), r.randint(1, 4), r.randint(1, 4)
    lead = full(r, 0, 1)
    a, b = r.randint(0, 1), r.randint(0, 1)
    return Case("FusedMatMul", 1, [T("float32", lead + ([k, m] if a else [m, k])), T("float32", lead + ([n, k] if b else [k, n]))],
                domain=MS, transA=a, transB=b)


@case(20)
def feature_vectors(r):
    n, f = r.randint(1, 3), r.randint(1, 4)
    op = r.choice(["Binarizer", "Normalizer", "Scaler", "Imputer", "ArrayFeatureExtractor"])
    if op == "ArrayFeatureExtractor":
        return Case(op, 1, [T("float32", [n, f]), T("int64", [r.randint(1, 3)], low=0, high=0)], domain=ML)
    attrs = {"Binarizer": {"threshold": 0.5}, "Normalizer": {"norm": r.choice(["MAX", "L1", "L2"])},
             "Scaler": {"offset": [0.1] * f, "scale": [2.0] * f},
             "Imputer": {"imputed_value_floats": [0.5], "replaced_value_float": 0.25}}[op]
    return Case(op, 1, [T("float32", [n, f])], domain=ML, **attrs)


@case()
def linear_models(r):
    n, f, k = r.randint(1, 3), r.randint(1, 3), r.randint(2, 3)
    if r.random() < 0.5:
        return Case("LinearRegressor", 1, [T("float32", [n, f])], domain=ML, coefficients=[0.5] * (f * k), targets=k)
    return Case("LinearClassifier", 1, [T("float32", [n, f])], outputs=2, domain=ML, coefficients=[0.5] * (f * k), intercepts=[0.1] * k,
                classlabels_ints=list(range(k)))


@case()
def tfidf(r):
    n = r.choice([[5], [2, 6]])
    return Case("TfIdfVectorizer", 9, [T("int32", n)], mode="TF", min_gram_length=1, max_gram_length=1, max_skip_count=0, ngram_counts=[0],
                ngram_indexes=[0, 1, 2 + r.randint(0, 2)], pool_int64s=[1, 2, 3])
