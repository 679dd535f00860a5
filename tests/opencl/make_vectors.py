#!/usr/bin/env python3
"""Writes vectors.json: single nodes for the tests of the OpenCL plugin, computed by ONNX Runtime, numpy and gguf.

    python make_vectors.py            # rewrites the file beside the script

Needs the PyPI packages numpy, onnx, onnxruntime and gguf. A case is one node, as in
tests/conformance/make_contrib_vectors.py (`high16`: the upper halves of floats whose lower ones are 0); `blocks` names the block type of constant inputs whose bytes are GGUF blocks,
`must_run` says that a refusal is a fault. The seed is fixed.
"""
import base64
import json
import math
import pathlib

import gguf
import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

rng = np.random.default_rng(7)
cases = []


def short(a):
    """Floats whose lower 16 bits are 0, which the file spends half the bytes on."""
    return np.asarray(a, np.float32).astype(ml_dtypes.bfloat16).astype(np.float32)


def floats(*shape):
    return short(rng.standard_normal(shape))


class Nibbles:
    """Elements of 4 bits, two in a byte, low bits first."""

    def __init__(self, a, dtype):
        codes = (np.concatenate([a.reshape(-1), np.zeros(a.size % 2, a.dtype)]) & 15).astype(np.uint8)
        self.packed, self.shape, self.dtype = codes[0::2] | codes[1::2] << 4, a.shape, dtype


def tensor(a, shape=None):
    if isinstance(a, Nibbles):
        return {"dtype": int(a.dtype), "shape": list(a.shape), "data": base64.b64encode(a.packed.tobytes()).decode()}
    a = np.asarray(a, order="C")
    t = {"dtype": int(helper.np_dtype_to_tensor_dtype(a.dtype)), "shape": list(shape or a.shape)}
    halves = a.reshape(-1).view(np.uint16) if a.dtype == np.float32 else None
    if halves is not None and not halves[::2].any():
        return t | {"high16": base64.b64encode(halves[1::2].tobytes()).decode()}
    return t | {"data": base64.b64encode(a.tobytes()).decode()}


def add(name, op, inputs, outputs, domain="", opset=18, constant=(), blocks=None, rtol=1e-4, atol=1e-5, shapes=None,
        tolerance16=4e-3, **attrs):
    """shapes: of inputs whose bytes are blocks."""
    shapes = shapes or {}
    cases.append({
        "name": name, "op": op, "domain": domain, "opset": opset, "attributes": attrs, "constant": list(constant),
        "blocks": {str(k): v for k, v in (blocks or {}).items()}, "rtol": rtol, "atol": atol, "must_run": True,
        "tolerance16": tolerance16,
        "inputs": [None if x is None else tensor(x, shapes.get(i)) for i, x in enumerate(inputs)],
        "wanted": [i for i, o in enumerate(outputs) if o is not None],
        "outputs": [None if o is None else tensor(o) for o in outputs]})


def ort_case(name, op, inputs, outputs=1, opset=18, constant=(), **attrs):
    inputs = [None if x is None else np.asarray(x) for x in inputs]
    names = [f"i{i}" if x is not None else "" for i, x in enumerate(inputs)]
    outs = [f"o{i}" for i in range(outputs)]
    kept = {k: attrs.pop(k) for k in ("rtol", "atol", "tolerance16") if k in attrs}
    node = helper.make_node(op, names, outs, **attrs)
    info = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(inputs[i].dtype), inputs[i].shape)
            for i, n in enumerate(names) if n]
    graph = helper.make_graph([node], "g", info, [onnx.ValueInfoProto(name=o) for o in outs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    results = session.run(None, {n: inputs[i] for i, n in enumerate(names) if n})
    add(name, op, inputs, results, opset=opset, constant=constant, **kept, **attrs)


def elementwise():
    x = floats(3, 7, 5)
    for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Sin", "Cos", "Floor", "Ceil", "Round", "Abs", "Neg", "Softplus",
               "Softsign", "Elu", "LeakyRelu", "HardSigmoid", "HardSwish", "Mish", "Sign", "Reciprocal"):
        ort_case(op.lower(), op, [x], tolerance16=1e-2 if op in ("Sin", "Cos") else 4e-3)
    for op in ("Sqrt", "Log"):
        ort_case(op.lower(), op, [np.abs(x) + 0.5])
    for mode in ("none", "tanh"):
        ort_case("gelu_" + mode, "Gelu", [x], opset=20, approximate=mode)
    ort_case("isnan", "IsNaN", [np.where(x > 1, np.nan, x).astype(np.float32)])
    ort_case("clip", "Clip", [x, np.float32(-0.5), np.float32(0.25)])
    ort_case("clip_above", "Clip", [x, None, np.float32(0.25)])
    ort_case("clip_int", "Clip", [rng.integers(-9, 9, (40, 3)).astype(np.int64), np.int64(-3), np.int64(2)])
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
        ort_case(op.lower(), op, [x, floats(3, 7, 5)], tolerance16=1e-2)
        ort_case(op.lower() + "_spread", op, [floats(3, 1, 5), floats(7, 1)], tolerance16=1e-2)
    ort_case("add_scalar", "Add", [x, np.float32(2)])
    ort_case("mul_row", "Mul", [x, floats(5)])
    ort_case("pow", "Pow", [np.abs(x) + 0.1, floats(5)], tolerance16=2e-2)
    ort_case("prelu", "PRelu", [x, floats(7, 1)])
    i, j = (rng.integers(-50, 50, (2, 90)).astype(np.int64) for _ in range(2))
    j[j == 0] = 3
    for op in ("Add", "Sub", "Mul", "Min", "Max", "Mod"):
        ort_case(op.lower() + "_int", op, [i, j])
    for op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
        ort_case(op.lower(), op, [i, rng.integers(-50, 50, (90,)).astype(np.int64)])
        ort_case(op.lower() + "_float", op, [np.round(x), np.round(floats(7, 5))])
    p, q = (rng.random((4, 33)) < 0.5 for _ in range(2))
    for op in ("And", "Or", "Xor"):
        ort_case(op.lower(), op, [p, q[0]])
    ort_case("not", "Not", [p])
    ort_case("where", "Where", [p, floats(4, 1), floats(33)])
    ort_case("where_int", "Where", [p, i[:1, :33], np.int64([7])])
    ort_case("cast_long_float", "Cast", [i], to=1)
    ort_case("cast_float_long", "Cast", [3 * x], to=7)
    ort_case("cast_bool_float", "Cast", [p], to=1)
    ort_case("cast_long_int", "Cast", [i], to=6)
    ort_case("cast_long_bool", "Cast", [i], to=9)


def movement():
    x = floats(3, 4, 5, 6)
    ort_case("transpose", "Transpose", [x], perm=[0, 2, 1, 3])
    ort_case("transpose_all", "Transpose", [x])
    ort_case("transpose_bool", "Transpose", [x > 0], perm=[3, 0, 1, 2])
    ints = lambda *v: np.array(v, np.int64)
    ort_case("expand", "Expand", [floats(3, 1, 5), ints(2, 1, 4, 5)])
    ort_case("slice", "Slice", [x, ints(1, -4), ints(3, 100), ints(0, 3), ints(1, 2)])
    ort_case("slice_back", "Slice", [x, ints(-1, 4), ints(-100, 0), ints(1, 3), ints(-1, -2)])
    ort_case("concat", "Concat", [x, floats(3, 2, 5, 6), floats(3, 1, 5, 6)], axis=1)
    ort_case("concat_last", "Concat", [floats(2, 3), floats(2, 4)], axis=-1)
    ort_case("concat_long", "Concat", [np.arange(80).reshape(8, 10), np.arange(20).reshape(2, 10)], axis=0)
    ort_case("split", "Split", [x, ints(1, 2, 3)], outputs=3, axis=-1)
    ort_case("split_even", "Split", [x], outputs=2, axis=1, num_outputs=2)
    ort_case("tile", "Tile", [floats(2, 1, 3), ints(2, 3, 2)])
    for mode in ("constant", "reflect", "edge"):
        ort_case("pad_" + mode, "Pad", [floats(2, 4, 5), ints(0, 2, 1, 1, 1, 3)] +
                 ([np.float32(1.5)] if mode == "constant" else []), mode=mode)
    for upper in (0, 1):
        ort_case(f"trilu_{upper}", "Trilu", [floats(2, 5, 7), np.int64(1 - 2 * upper)], upper=upper)
    ort_case("gather", "Gather", [floats(9, 2, 3), ints(8, -1, 0, 4).reshape(2, 2)], axis=0)
    ort_case("gather_columns", "Gather", [floats(4, 90), np.array([5, 3, 89], np.int32)], axis=1)
    ort_case("gather_long", "Gather", [np.arange(200).reshape(20, 10), ints(3, 1)], axis=0)
    ort_case("gather_elements", "GatherElements", [floats(3, 5), rng.integers(-5, 5, (2, 4)).astype(np.int64)], axis=1)
    ort_case("gather_nd", "GatherND", [floats(3, 5, 4), np.array([[0, 1], [2, -1]], np.int64)])
    ort_case("gather_nd_batch", "GatherND", [floats(2, 5, 4), np.array([[1], [3]], np.int64)], batch_dims=1)
    ort_case("range", "Range", [np.int64(3), np.int64(300), np.int64(4)])
    add("last_token", "LastToken", [a := floats(2, 5, 8)], [a[:, -1:]], domain="ullage", opset=1)


def reductions():
    x = floats(2, 3, 4, 70)
    axes = lambda *v: np.array(v, np.int64)
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare", "ReduceL2", "ReduceL1",
               "ReduceLogSumExp"):
        ort_case(op.lower(), op, [x[..., :9], axes(1, -1)], keepdims=0, tolerance16=2e-2)
        ort_case(op.lower() + "_rows", op, [x[:, :1], axes(-1)], rtol=1e-3, tolerance16=2e-2)
    ort_case("reducesum_all", "ReduceSum", [x], keepdims=0, tolerance16=2e-2, rtol=1e-3, atol=1e-3)
    ort_case("reducesum_long", "ReduceSum", [np.ones((2, 100), np.int64), axes(1)], keepdims=0)
    ort_case("reducemean_13", "ReduceMean", [x], opset=13, axes=[0, 2], tolerance16=2e-2)
    for axis in (-1, 1):
        ort_case(f"softmax_{axis % 4}", "Softmax", [3 * x], axis=axis, tolerance16=1e-2)
        ort_case(f"logsoftmax_{axis % 4}", "LogSoftmax", [x], axis=axis)
    ort_case("softmax_11", "Softmax", [x[..., :5]], axis=2, opset=11)
    ort_case("layer_norm", "LayerNormalization", [x[0], floats(70), floats(70)], opset=17)
    ort_case("layer_norm_axis", "LayerNormalization", [x[0], floats(4, 70)], opset=17, axis=1)
    ort_case("batch_norm", "BatchNormalization", [x[..., :6], floats(3), floats(3), floats(3), np.abs(floats(3)) + 0.1],
             opset=15, tolerance16=2e-2)
    ort_case("instance_norm", "InstanceNormalization", [x, floats(3), floats(3)], tolerance16=1e-2, rtol=1e-3)
    a, w = floats(2, 3, 96), floats(96)
    add("rms_normalization", "RMSNormalization", [a, w], [a / np.sqrt((a * a).mean(-1, keepdims=True) + 1e-6) * w], opset=23,
        epsilon=1e-6)


def products():
    for name, a, b in (("vector", (1, 70), (70, 45)), ("tiles", (37, 40), (40, 70)), ("few", (5, 33), (33, 9)),
                       ("batch", (2, 3, 9, 17), (2, 3, 17, 20)), ("batch_spread", (2, 1, 4, 17), (3, 17, 20)),
                       ("batch_deep", (2, 1, 2, 1, 9, 8), (1, 3, 1, 2, 8, 7)), ("stack", (4, 5, 12), (12, 30)),
                       ("left_vector", (12,), (2, 12, 6)), ("right_vector", (3, 5, 12), (12,)), ("dot", (40,), (40,))):
        ort_case("matmul_" + name, "MatMul", [floats(*a), floats(*b)], tolerance16=1e-2, rtol=1e-3)
    for ta in (0, 1):
        for tb in (0, 1):
            a, b = (19, 20) if not ta else (20, 19), (20, 70) if not tb else (70, 20)
            ort_case(f"gemm_{ta}{tb}", "Gemm", [floats(*a), floats(*b), floats(70)], transA=ta, transB=tb, alpha=0.5,
                     beta=2.0, rtol=1e-3, tolerance16=1e-2)
    ort_case("gemm_column", "Gemm", [floats(3, 8), floats(8, 6), floats(3, 1)], tolerance16=1e-2)
    ort_case("gemm_scalar", "Gemm", [floats(3, 8), floats(8, 6), np.float32(3)], tolerance16=1e-2)
    ort_case("gemm_plain", "Gemm", [floats(3, 8), floats(8, 6)], tolerance16=1e-2)
    for rows in (1, 33):
        for form in ("dense_nk", "dense_kn"):
            a, w, bias = floats(rows, 44), floats(66, 44), floats(66)
            add(f"linear_{form}_{rows}", "Linear", [a, w if form == "dense_nk" else w.T, None, None, None, bias],
                [a @ w.T + bias], domain="ullage", opset=1, constant=[1, 5], K=44, N=66, format=form, rtol=1e-3,
                atol=1e-4, tolerance16=1e-2)


def quantised():
    blocks = {"Q4_0": gguf.GGMLQuantizationType.Q4_0, "Q4_1": gguf.GGMLQuantizationType.Q4_1,
              "Q5_0": gguf.GGMLQuantizationType.Q5_0, "Q5_1": gguf.GGMLQuantizationType.Q5_1,
              "Q8_0": gguf.GGMLQuantizationType.Q8_0, "Q2_K": gguf.GGMLQuantizationType.Q2_K,
              "Q3_K": gguf.GGMLQuantizationType.Q3_K, "Q4_K": gguf.GGMLQuantizationType.Q4_K,
              "Q5_K": gguf.GGMLQuantizationType.Q5_K, "Q6_K": gguf.GGMLQuantizationType.Q6_K,
              "IQ4_NL": gguf.GGMLQuantizationType.IQ4_NL, "IQ4_XS": gguf.GGMLQuantizationType.IQ4_XS}
    for name, kind in blocks.items():
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        n, k = 6, max(elements, 64)
        data = rng.integers(0, 256, (n, k // elements, size)).astype(np.uint8)
        # Scales: halves at the end or the beginning, small numbers.
        at = {"Q2_K": (80, 82), "Q3_K": (108,), "Q6_K": (208,), "Q4_1": (0, 2), "Q5_1": (0, 2), "Q4_K": (0, 2),
              "Q5_K": (0, 2)}.get(name, (0,))
        for first in at:
            scale = (rng.random((n, k // elements)) * 0.02 + 0.001).astype(np.float16)
            data[:, :, first:first + 2] = scale.view(np.uint8).reshape(n, k // elements, 2)
        data = data.reshape(n, -1)
        w = gguf.quants.dequantize(data, kind).reshape(n, k)
        for rows in (1, 9):
            a = floats(rows, k)
            add(f"linear_{name.lower()}_{rows}", "Linear", [a, data], [a @ w.T], domain="ullage", opset=1, constant=[1],
                blocks={1: name.lower()}, shapes={1: [n, k]}, K=k, N=n, format="ggml", rtol=1e-3, atol=1e-3,
                tolerance16=1e-2)
        ids = np.array([[0, 5, -1]], np.int64)
        add(f"block_gather_{name.lower()}", "BlockGather", [data, ids], [w[ids]], domain="ullage", opset=1, constant=[0],
            blocks={0: name.lower()}, shapes={0: [n, k]}, rtol=1e-5, atol=1e-6)

    def pack(codes, bits):
        codes = codes.reshape(*codes.shape[:-1], -1, 8 // bits).astype(np.uint8)
        return sum((codes[..., i] << (bits * i)) for i in range(8 // bits)).astype(np.uint8)

    for bits in (2, 4, 8):
        for block, zero in ((16, "none"), (32, "packed"), (128, "float"), (32, "none")):
            n, k = 7, 200 if block < 128 else 256
            count = math.ceil(k / block)
            codes = rng.integers(0, 1 << bits, (n, count, block)).astype(np.uint8)
            scales = (rng.random((n, count)) * 0.1).astype(np.float32)
            zeros = rng.integers(0, 1 << bits, (n, count)).astype(np.float32)
            if zero == "none":
                zeros[:] = 1 << (bits - 1)
            w = ((codes - zeros[..., None]) * scales[..., None]).reshape(n, -1)[:, :k]
            inputs = [None, pack(codes, bits), scales.reshape(-1)]
            if zero == "packed":
                padded = np.zeros((n, math.ceil(count * bits / 8) * 8 // bits), np.uint8)
                padded[:, :count] = zeros
                inputs.append(pack(padded, bits).reshape(-1))
            elif zero == "float":
                inputs.append(zeros.reshape(-1))
            for rows in (1, 12):
                inputs[0] = a = floats(rows, k)
                add(f"nbits_{bits}_{block}_{zero}_{rows}", "MatMulNBits", list(inputs), [a @ w.T],
                    domain="com.microsoft", opset=1, constant=[1, 2, 3], K=k, N=n, bits=bits, block_size=block,
                    rtol=1e-3, atol=1e-3, tolerance16=1e-2)


def attend(q, k, v, scale, bias=0.0, left=None, right=None, softcap=0.0, sinks=None, lengths=None):
    """Queries [B, N, S, H] behind all keys [B, Kv, T, H] but their own, or behind the last ones of `lengths` keys."""
    group, seq, total = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = np.repeat(k, group, 1), np.repeat(v, group, 1)
    s = q @ k.transpose(0, 1, 3, 2) * scale
    if softcap:
        s = softcap * np.tanh(s / softcap)
    s = s + bias
    lengths = np.full(q.shape[0], total) if lengths is None else lengths
    position = (np.asarray(lengths) - seq)[:, None, None, None] + np.arange(seq)[:, None]
    j = np.arange(total)
    seen = j < np.asarray(lengths)[:, None, None, None]
    if left is not None:
        seen = seen & (j >= position - left)
    if right is not None:
        seen = seen & (j <= position + right)
    s = np.where(seen, s, -np.inf)
    if sinks is not None:
        s = np.concatenate([s, np.broadcast_to(sinks[:, None, None], (*s.shape[:3], 1))], -1)
    p = np.exp(s - s.max(-1, keepdims=True))
    return ((p / p.sum(-1, keepdims=True))[..., :total] @ v).astype(np.float32)


def packed(x):
    """[B, heads, S, H] as [B, S, heads * H]."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


class Rows:
    """Rows of caches as integers: with scales of their own per `block` elements, or with those given per head."""

    def __init__(self, bits, block=0, scales=None):
        self.bits, self.block, self.scales = bits, block, scales

    def store(self, x):
        size = x.shape[-1]
        if self.block:
            parts, scales = [], []
            for first in range(0, size, self.block):
                part = x[..., first:first + self.block]
                scale = (np.abs(part).max(-1, keepdims=True) / np.float32(127)).astype(np.float16)
                wide = scale.astype(np.float32)
                parts.append(np.clip(np.rint(part * np.where(wide > 0, 1 / wide, 0)), -127, 127).astype(np.int8))
                scales.append(scale.view(np.int8))
            return np.concatenate(parts + scales, -1)
        low = -(1 << (self.bits - 1))
        codes = np.clip(np.rint(x / self.scales), low, -low - 1).astype(np.int32)
        if self.bits == 8:
            return codes.astype(np.int8)
        codes = (codes + 8).astype(np.uint8)
        return codes[..., 0::2] | codes[..., 1::2] << 4

    def load(self, rows, size):
        if self.block:
            scales = np.ascontiguousarray(rows[..., size:]).view(np.float16).astype(np.float32)
            return rows[..., :size].astype(np.float32) * np.repeat(scales, self.block, -1)[..., :size]
        if self.bits == 8:
            return rows.astype(np.float32) * self.scales
        codes = np.stack([rows & 15, rows >> 4], -1).reshape(*rows.shape[:-1], size)
        return (codes.astype(np.float32) - 8) * self.scales


def long_attention():
    """Prompts behind prompts, in tiles of many and of few rows, cut along the keys, with all that hides keys."""
    for name, heads, kv, seq, past, size, values, attrs in (
            ("tiles", 6, 2, 23, 60, 16, 24, {}),
            ("tiles_window", 4, 2, 40, 100, 16, 24, dict(left_window_size=40)),
            ("tiles_softcap", 1, 1, 70, 0, 16, 24, dict(softcap=2.0)),
            ("tiles_wide_values", 2, 1, 20, 33, 13, 135, dict(is_causal=0)),
            ("few_rows", 6, 2, 3, 40, 16, 24, {}),
            ("few_rows_window", 8, 1, 2, 130, 16, 24, dict(left_window_size=70)),
            ("few_rows_split", 4, 1, 3, 600, 16, 24, {}),
            ("many_rows_split", 2, 1, 30, 600, 16, 24, {}),
            ("row_split", 2, 1, 1, 700, 16, 24, {}),
            ("row_split_window", 2, 1, 1, 600, 16, 24, dict(left_window_size=300))):
        batch = 2 if name == "few_rows" else 1
        q, k, v = floats(batch, heads, seq, size), floats(batch, kv, seq, size), floats(batch, kv, seq, values)
        pk, pv = floats(batch, kv, past, size), floats(batch, kv, past, values)
        attrs = dict(is_causal=1, scale=float(size ** -0.5)) | attrs
        keys, new_values = np.concatenate([pk, k], 2), np.concatenate([pv, v], 2)
        y = attend(q, keys, new_values, attrs["scale"], left=attrs.get("left_window_size"),
                   right=0 if attrs["is_causal"] else None, softcap=attrs.get("softcap", 0.0))
        add("cached_attention_" + name, "CachedAttention", [q, k, v, pk, pv],
            [y, keys, new_values] if batch > 1 else [y], domain="ullage", opset=1, rtol=1e-3, atol=1e-4, tolerance16=2e-2, **attrs)
        if name == "tiles":
            mask = rng.random((batch, 1, seq, past + seq)) < 0.7
            mask[..., 0] = True
            y = attend(q, keys, new_values, attrs["scale"], np.where(mask, 0, -np.inf), right=0)
            add("cached_attention_tiles_mask", "CachedAttention", [q, k, v, pk, pv, mask], [y],
                domain="ullage", opset=1, rtol=1e-3, atol=1e-4, tolerance16=2e-2, **attrs)
    k, v = floats(2, 37, 2 * 16), floats(2, 37, 2 * 24)
    lengths = np.array([37, 20], np.int32)
    query = floats(2, 60, 2 * 16)
    split = lambda x, n: x.reshape(*x.shape[:2], n, -1).transpose(0, 2, 1, 3)
    bias = np.where(np.arange(37) < lengths[:, None], 0.0, -10000.0)[:, None, None]
    y = attend(split(query, 2), split(k, 2), split(v, 2), 0.25, bias)
    add("mha_tiles_padding", "MultiHeadAttention", [query, k, v, None, lengths], [packed(y)], domain="com.microsoft",
        opset=1, num_heads=2, rtol=1e-3, atol=1e-4, tolerance16=2e-2)

    # com.microsoft:GroupQueryAttention, prompts behind a past of unequal lengths, with sinks.
    for name, heads, kv, seq, last, attrs in (("tiles", 3, 1, 20, [69, 30], {}), ("few", 4, 1, 2, [80, 41], {}),
                                              ("window", 4, 1, 30, [70, 47], dict(local_window_size=25)),
                                              ("row", 2, 1, 1, [80, 41], dict(local_window_size=25))):
        for sink in (name != "window",):
            q, k, v = floats(2, heads, seq, 24), floats(2, kv, seq, 24), floats(2, kv, seq, 24)
            total, lens = max(last) + 1, np.array(last, np.int32)
            pk, pv = floats(2, kv, total, 24), floats(2, kv, total, 24)
            keys, values = pk.copy(), pv.copy()
            for b in range(2):
                keys[b, :, last[b] + 1 - seq:last[b] + 1] = k[b]
                values[b, :, last[b] + 1 - seq:last[b] + 1] = v[b]
            window = attrs.get("local_window_size")
            sinks = floats(heads) if sink else None
            y = attend(q, keys, values, 24 ** -0.5, left=None if window is None else window - 1, right=0, sinks=sinks,
                       lengths=lens + 1)
            add(f"gqa_long_{name}{'_sinks' if sink else ''}", "GroupQueryAttention",
                [packed(q), packed(k), packed(v), pk, pv, lens, np.array(total, np.int32), None, None, None, None, sinks],
                [packed(y), keys, values], domain="com.microsoft", opset=1, num_heads=heads, kv_num_heads=kv, rtol=1e-3,
                atol=1e-4, tolerance16=2e-2, **attrs)


def integer_caches():
    heads, kv, size = 4, 2, 24
    given = lambda bits: (rng.random((kv, 1, size)) * (0.03 if bits == 8 else 0.4) + 0.01).astype(np.float32)
    one = lambda bits: np.float32([0.03 if bits == 8 else 0.4])
    for name, bits, block, scales, attrs in (
            ("block16", 8, 16, None, dict(kv_block=16)), ("block9", 8, 9, None, dict(kv_block=9)),
            ("int8", 8, 0, one, dict(k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", kv_cache_bit_width=8)),
            ("int8_channel", 8, 0, given, dict(k_quant_type="PER_CHANNEL", v_quant_type="PER_CHANNEL",
                                               kv_cache_bit_width=8)),
            ("int4", 4, 0, one, dict(k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", kv_cache_bit_width=4)),
            ("int4_channel", 4, 0, given, dict(k_quant_type="PER_CHANNEL", v_quant_type="PER_CHANNEL",
                                               kv_cache_bit_width=4))):
        forms = [Rows(bits, block), Rows(bits, block)]
        inputs = [None, None]
        if scales:
            for i, form in enumerate(forms):
                form.scales = scales(bits)
                inputs[i] = form.scales.reshape(-1)
        for seq, past in ((1, 70), (20, 45)):
            q, k, v = floats(1, heads, seq, size), floats(1, kv, seq, size), floats(1, kv, seq, size)
            old = [form.store(floats(1, kv, past, size)) for form in forms]
            new = [np.concatenate([o, form.store(x)], 2) for o, form, x in zip(old, forms, (k, v))]
            keys, values = (form.load(rows, size) for form, rows in zip(forms, new))
            y = attend(q, keys, values, size ** -0.5, right=0)
            total = past + seq
            room = [np.concatenate([o, np.zeros((1, kv, seq, o.shape[-1]), o.dtype)], 2) for o in old]
            add(f"gqa_{name}_{seq}", "GroupQueryAttention",
                [packed(q), packed(k), packed(v), *room, np.array([total - 1], np.int32), np.array(total, np.int32),
                 None, None, None, None, None, *inputs], [packed(y), *new], domain="com.microsoft", opset=1,
                num_heads=heads, kv_num_heads=kv, rtol=1e-3, atol=1e-4, **attrs)
            if block:
                add(f"cached_attention_{name}_{seq}", "CachedAttention", [q, k, v, *old], [y, *new], domain="ullage",
                    opset=1, is_causal=1, rtol=1e-3, atol=1e-4, **attrs)


def integers(name, a, w, a_zero=None, w_zero=None):
    """numpy's: ONNX Runtime 1.23.2 gets the last columns of some rows wrong where there are 75."""
    less = lambda x, zero: x.astype(np.int32) - (0 if zero is None else zero.astype(np.int32))
    add(name, "MatMulInteger", [a, w, a_zero, w_zero], [less(a, a_zero) @ less(w, w_zero)])


def codes():
    """Numbers to integers and back."""
    x = 3 * floats(3, 10, 6)
    for name, dtype, zero in (("uint8", np.uint8, 100), ("int8", np.int8, -3), ("uint16", np.uint16, 30000),
                              ("int16", np.int16, 9)):
        scale = np.float32(0.04 if "8" in name else 0.0004)
        ort_case("quantize_" + name, "QuantizeLinear", [x, scale, dtype(zero)], opset=21)
        q = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (3, 10, 6)).astype(dtype)
        ort_case("dequantize_" + name, "DequantizeLinear", [q, scale, dtype(zero)], opset=21)
    scales = (rng.random(10) * 0.1 + 0.01).astype(np.float32)
    ort_case("quantize_axis", "QuantizeLinear", [x, scales, rng.integers(-9, 9, 10).astype(np.int8)], axis=-2, opset=21)
    ort_case("quantize_plain", "QuantizeLinear", [np.float32([[-1, 0.5, 1.5, 2.5, 1e9, -1e9, 300]]), np.float32(1)])
    q = rng.integers(-128, 128, (3, 10, 6)).astype(np.int8)
    ort_case("dequantize_axis", "DequantizeLinear", [q, scales], axis=1, opset=21)
    ort_case("dequantize_int", "DequantizeLinear", [rng.integers(-99999, 99999, (5, 4)).astype(np.int32), np.float32(0.01)])
    blocks = (rng.random((3, 4, 6)) * 0.1 + 0.01).astype(np.float32)
    ort_case("quantize_blocks", "QuantizeLinear", [x, blocks, rng.integers(0, 9, (3, 4, 6)).astype(np.uint8)], axis=1,
             block_size=3, opset=21)
    ort_case("dequantize_blocks", "DequantizeLinear", [q, blocks, rng.integers(-9, 9, (3, 4, 6)).astype(np.int8)], axis=1,
             block_size=3, opset=21)
    for kind, low, dtype in (("uint4", 0, onnx.TensorProto.UINT4), ("int4", -8, onnx.TensorProto.INT4)):
        q, zeros = rng.integers(low, low + 16, (5, 7)).astype(np.int32), rng.integers(low, low + 16, 5).astype(np.int32)
        s = (rng.random(5) * 0.1).astype(np.float32)
        add("dequantize_" + kind, "DequantizeLinear", [Nibbles(q, dtype), s, Nibbles(zeros, dtype)],
            [((q - zeros[:, None]) * s[:, None]).astype(np.float32)], opset=21, axis=0)
    for name, v in (("", x), ("_positive", np.abs(x)), ("_zeros", np.zeros((2, 3), np.float32)), ("_long", floats(9000))):
        ort_case("dynamic_quantize" + name, "DynamicQuantizeLinear", [v], outputs=3)
    for a, b in ((np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8)):
        u = rng.integers(np.iinfo(a).min, np.iinfo(a).max, (2, 19, 70)).astype(a)
        w = rng.integers(np.iinfo(b).min, np.iinfo(b).max, (70, 75)).astype(b)
        name = f"matmul_integer_{a.__name__}_{b.__name__}"
        integers(name, u, w, a(5), b(7))
        integers(name + "_columns", u[0, :1], w, None, rng.integers(0, 99, 75).astype(b))
    integers("matmul_integer_plain", u, w)


def resizing():
    x = floats(2, 3, 5, 7)
    sizes = lambda *v: np.array(v, np.int64)
    none = np.array([], np.float32)
    for position in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric"):
        for mode in ("nearest", "linear", "cubic"):
            ort_case(f"resize_{mode}_{position}", "Resize", [x, None, None, sizes(2, 3, 8, 4)], mode=mode,
                     coordinate_transformation_mode=position, rtol=1e-3)
    for nearest in ("floor", "ceil", "round_prefer_ceil"):
        ort_case("resize_" + nearest, "Resize", [x, None, np.float32([1, 1, 1.7, 0.6])], constant=[2], nearest_mode=nearest)
    ort_case("resize_nhwc", "Resize", [x, None, np.float32([1, 2, 1.5, 1])], constant=[2], mode="linear")
    ort_case("resize_axes", "Resize", [x, None, np.float32([2.5, 0.5])], constant=[2], mode="linear", axes=[3, 2], opset=18)
    ort_case("resize_one_axis", "Resize", [floats(2, 3, 9), None, np.float32([1, 1, 2.3])], constant=[2], mode="linear")
    ort_case("resize_exclude", "Resize", [x, None, np.float32([1, 1, 2.3, 1.2])], constant=[2], mode="cubic", exclude_outside=1,
             cubic_coeff_a=-0.5, rtol=1e-3)
    ort_case("resize_bytes", "Resize", [(x * 50).astype(np.int8), None, np.float32([1, 1, 2, 2])], constant=[2])
    ort_case("upsample", "Upsample", [x, np.float32([1, 1, 2, 3])], constant=[1], opset=9)
    ort_case("resize_10", "Resize", [x, np.float32([1, 1, 2, 2])], constant=[1], mode="linear", opset=10)
    for name, x, w, attrs in (
            ("", (2, 6, 5, 4), (6, 5, 3, 3), {}),
            ("_stride", (1, 8, 6, 5), (8, 3, 4, 2), dict(strides=[2, 3], pads=[1, 0, 2, 1], dilations=[2, 1])),
            ("_extra", (1, 4, 5, 5), (4, 6, 3, 3), dict(strides=[2, 2], output_padding=[1, 1], pads=[1, 1, 1, 1])),
            ("_groups", (2, 6, 4, 4), (6, 2, 2, 2), dict(group=3, strides=[2, 2])),
            ("_1d", (1, 5, 9), (5, 7, 4), dict(strides=[2], pads=[1, 1])),
            ("_same", (1, 3, 5, 5), (3, 4, 3, 3), dict(strides=[2, 2], auto_pad="SAME_UPPER")),
            ("_lower", (1, 3, 5, 5), (3, 4, 4, 4), dict(strides=[2, 2], auto_pad="SAME_LOWER")),
            ("_shape", (1, 3, 5, 5), (3, 4, 3, 3), dict(strides=[3, 2], output_shape=[14, 10]))):
        filters = w[1] * attrs.get("group", 1)
        ort_case("conv_transpose" + name, "ConvTranspose", [floats(*x), floats(*w), floats(filters)], rtol=1e-3,
                 tolerance16=1e-2, **attrs)
    x = floats(3, 90, 4)
    x[0, 40] = x[0, 7] = 9
    for op in ("ArgMax", "ArgMin"):
        ort_case(op.lower(), op, [x if op == "ArgMax" else -x], axis=1)
        ort_case(op.lower() + "_last", op, [x if op == "ArgMax" else -x], axis=-2, keepdims=0, select_last_index=1)
    ort_case("argmax_row", "ArgMax", [x], axis=-1)
    ort_case("argmax_int", "ArgMax", [rng.integers(0, 9, (4, 70)).astype(np.int32)], axis=1)


def scatters():
    x = floats(4, 5, 6)
    ints = lambda *v: np.array(v, np.int64)
    ort_case("scatter_nd", "ScatterND", [x, ints(3, -4, 1).reshape(3, 1), floats(3, 5, 6)], opset=16)
    ort_case("scatter_nd_deep", "ScatterND", [x, ints(0, 1, 2, -1, -1, -1, 3, 0, 5).reshape(1, 3, 3), floats(1, 3)], opset=16)
    ort_case("scatter_nd_long", "ScatterND", [np.arange(40).reshape(8, 5), ints(2, 3, 7, 1).reshape(2, 2), ints(-1, -2)],
             opset=13)
    rows = np.stack([rng.permutation(5)[:2] for _ in range(12)], -1).reshape(2, 3, 4).transpose(1, 0, 2).astype(np.int64)
    ort_case("scatter_elements", "ScatterElements", [x, rows, floats(3, 2, 4)], axis=1, opset=16)
    ort_case("scatter_elements_last", "ScatterElements", [x[0], np.array([[0, -1], [3, 2]], np.int32), floats(2, 2)], axis=-1,
             opset=16)
    ort_case("scatter_elements_bool", "ScatterElements", [x[0] > 0, ints(4, 0).reshape(1, 2), np.ones((1, 2), bool)], axis=0,
             opset=16)


def recurrent():
    steps, batch, inputs, hidden = 6, 3, 9, 13
    for op, gates, states in (("RNN", 1, 1), ("GRU", 3, 1), ("LSTM", 4, 2)):
        for directions, direction in ((1, "forward"), (1, "reverse"), (2, "bidirectional")):
            size = gates * hidden
            x, w, r = floats(steps, batch, inputs), 0.3 * floats(directions, size, inputs), 0.3 * floats(directions, size, hidden)
            kw = dict(outputs=1 + states, opset=14, direction=direction, hidden_size=hidden, rtol=1e-3)
            name = f"{op.lower()}_{direction}"
            ort_case(name, op, [x, w, r], **kw)
            first = [floats(directions, batch, hidden) for _ in range(states)]
            lengths = np.array([4, 6, 1], np.int32)
            full = [x, w, r, floats(directions, 2 * size), lengths, *first]
            ort_case(name + "_full", op, full, **kw)
            if op == "GRU":
                ort_case(name + "_linear", op, full, linear_before_reset=1, **kw)
    x = floats(40, 1, 16)
    ort_case("lstm_wide", "LSTM", [x, short(0.2 * floats(1, 520, 16)), short(0.1 * floats(1, 520, 130))], outputs=3, opset=14,
             hidden_size=130, rtol=1e-3, atol=1e-4)


def attention():
    a = floats(2, 3, 4, 10)
    angles = floats(2, 4, 8)
    cos, sin = np.cos(angles), np.sin(angles)
    turned = a.copy()
    x = a[..., :8]
    turned[..., :8] = x * cos[:, None] + np.concatenate([-x[..., 4:], x[..., :4]], -1) * sin[:, None]
    add("apply_rotary", "ApplyRotary", [a, cos.astype(np.float32), sin.astype(np.float32)], [turned], domain="ullage",
        opset=1, tolerance16=1e-2)
    gate, up = floats(3, 40), floats(3, 40)
    silu = lambda v: v / (1 + np.exp(-v))
    add("swiglu", "SwiGLU", [gate, up], [silu(gate) * up], domain="ullage", opset=1, activation="silu", tolerance16=1e-2)
    add("swiglu_packed", "SwiGLU", [np.concatenate([gate, up], -1)], [silu(gate) * up], domain="ullage", opset=1,
        activation="silu", tolerance16=1e-2)

    for name, seq, past, causal in (("prompt", 7, 0, 1), ("step", 1, 70, 0), ("long", 1, 520, 0), ("more", 5, 66, 1)):
        batch = 1 if past > 500 else 2
        q, k, v = floats(batch, 4, seq, 12), floats(batch, 2, seq, 12), floats(batch, 2, seq, 20)
        pk, pv = floats(batch, 2, past, 12), floats(batch, 2, past, 20)
        keys, values = np.concatenate([pk, k], 2), np.concatenate([pv, v], 2)
        bias = floats(batch, 1, seq, past + seq)
        y = attend(q, keys, values, 0.3, bias, right=0 if causal else None)
        add("cached_attention_" + name, "CachedAttention", [q, k, v, pk, pv, bias], [y, keys, values] if batch > 1 else [y],
            domain="ullage", opset=1, scale=0.3, is_causal=causal, rtol=1e-3, atol=1e-4, tolerance16=2e-2)


def vision():
    for name, x, w, attrs in (
            ("conv", (2, 3, 9, 11), (10, 3, 3, 3), dict(pads=[1, 1, 1, 1])),
            ("conv_stride", (1, 4, 13, 12), (33, 4, 3, 5), dict(strides=[2, 3], pads=[0, 2, 1, 2], dilations=[2, 1])),
            ("conv_depthwise", (1, 6, 8, 8), (6, 1, 3, 3), dict(group=6)),
            ("conv_groups", (1, 8, 6, 6), (16, 4, 3, 3), dict(group=2, auto_pad="SAME_UPPER", strides=[2, 2])),
            ("conv_1d", (2, 5, 30), (40, 5, 3), dict(pads=[1, 1])),
            ("conv_3d", (1, 2, 4, 5, 6), (9, 2, 2, 3, 2), {}),
            ("conv_point", (1, 16, 5, 5), (70, 16, 1, 1), {})):
        ort_case(name, "Conv", [floats(*x), floats(*w), floats(w[0])], rtol=1e-3, tolerance16=1e-2, **attrs)
    x = floats(2, 3, 9, 10)
    ort_case("max_pool", "MaxPool", [x], kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1])
    ort_case("max_pool_ceil", "MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, dilations=[1, 2])
    ort_case("average_pool", "AveragePool", [x], kernel_shape=[3, 3], strides=[2, 1], pads=[1, 1, 1, 1])
    ort_case("average_pool_counted", "AveragePool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1],
             count_include_pad=1)
    ort_case("global_average_pool", "GlobalAveragePool", [x], tolerance16=1e-2)
    ort_case("global_max_pool", "GlobalMaxPool", [x])


def corners():
    """What operator cases of ONNX and ONNX Runtime leave out."""
    for kind in (np.float16, ml_dtypes.bfloat16):
        for rows, form in ((1, "dense_nk"), (33, "dense_nk"), (1, "dense_kn"), (33, "dense_kn")):
            a, w = floats(rows, 44), floats(66, 44).astype(kind)
            add(f"linear_{kind.__name__}_{form}_{rows}", "Linear", [a, w if form == "dense_nk" else w.T], [a @ w.T.astype(np.float32)],
                domain="ullage", opset=1, constant=[1], K=44, N=66, format=form, rtol=1e-3, atol=1e-4)
    ort_case("pow_int", "Pow", [floats(3, 40), np.int32([2])])
    for kind in (np.int32, np.int64):
        least = np.iinfo(kind).min
        a, b = np.array([[least] * 70, [7, -7] * 35], kind), np.array([[-1] * 70, [-1, 3] * 35], kind)
        others = np.where(b == -1, np.array(1, kind), b)
        add(f"div_least_{kind.__name__}", "Div", [a, b], [np.where(b == -1, np.array(0, kind) - a, np.trunc(a / others).astype(kind))])
        add(f"mod_least_{kind.__name__}", "Mod", [a, b], [np.where(b == -1, np.array(0, kind), np.mod(a, others))])
        add(f"max_of_none_{kind.__name__}", "ReduceMax", [np.zeros((2, 0, 90), kind), np.int64([1])], [np.full((2, 1, 90), least, kind)])


IN_16_BITS = {"sigmoid", "gelu_tanh", "add", "mul_spread", "softmax_3", "layer_norm", "rms_normalization", "matmul_vector",
              "matmul_tiles", "linear_dense_nk_33", "linear_q4_k_9", "linear_q6_k_1", "nbits_4_32_packed_12",
              "nbits_4_32_packed_1", "cached_attention_more", "cached_attention_tiles", "cached_attention_few_rows", "apply_rotary", "swiglu", "conv", "max_pool",
              "quantize_axis", "dequantize_axis", "resize_linear_half_pixel", "resize_nearest_half_pixel", "conv_transpose", "argmax"}

for part in (elementwise, movement, reductions, products, quantised, attention, vision, long_attention, integer_caches, codes,
             resizing, recurrent, corners, scatters):
    part()
for c in cases:
    c["in_16_bits"] = c["name"] in IN_16_BITS
path = pathlib.Path(__file__).with_name("vectors.json")
path.write_text('{"cases": [\n' + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
print(len(cases), "cases")
