#!/usr/bin/env python3
"""Writes contrib_vectors.json: results of ONNX Runtime for operators of com.microsoft, for the kernel tests.

    python make_contrib_vectors.py            # rewrites the file beside the script

Needs the PyPI packages numpy, onnx and onnxruntime (made with onnxruntime 1.23.2). A case is one node. Tensors are
base64 of their little-endian bytes. `constant` lists the inputs that are initializers. The seed is fixed.
"""
import base64
import json
import pathlib

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

MS = "com.microsoft"
rng = np.random.default_rng(20240612)
cases = []


def tensor(array):
    array = np.ascontiguousarray(array)
    return {"dtype": int(helper.np_dtype_to_tensor_dtype(array.dtype)), "shape": list(array.shape),
            "data": base64.b64encode(array.tobytes()).decode()}


def case(name, op, inputs, outputs, constant=(), domain=MS, opset=None, rtol=1e-4, atol=1e-5, wanted=None,
         reference=None, compare=None, **attrs):
    """inputs: list of arrays or None; outputs: their number; wanted: indices of outputs to ask for (all);
    reference: what ONNX Runtime gets instead, where its CPU kernel lacks a form; compare: indices of outputs that are
    specified in full (all)."""
    given, inputs = inputs, inputs if reference is None else reference
    wanted = list(range(outputs)) if wanted is None else wanted
    names = [f"i{i}" if x is not None else "" for i, x in enumerate(inputs)]
    while names and not names[-1]:
        names.pop()
    outs = [f"o{i}" if i in wanted else "" for i in range(max(wanted) + 1)]
    node = helper.make_node(op, names, outs, domain=domain, name=name, **attrs)
    info = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(inputs[i].dtype), inputs[i].shape)
            for i, n in enumerate(names) if n]
    graph = helper.make_graph([node], "g", info, [onnx.ValueInfoProto(name=o) for o in outs if o])
    opsets = [helper.make_opsetid("", opset or 17)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1  # with more, rows of a batch of quantised states are rounded apart
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    results = dict(zip([o for o in outs if o],
                       session.run(None, {n: inputs[i] for i, n in enumerate(names) if n})))
    cases.append({
        "name": name, "op": op, "domain": domain, "opset": (opset or 17) if not domain else 1,
        "attributes": attrs, "constant": list(constant), "rtol": rtol, "atol": atol,
        "inputs": [tensor(x) if x is not None else None for x in given],
        "wanted": wanted,
        "outputs": [tensor(results[o]) if o and (compare is None or i in compare) else None
                    for i, o in enumerate(outs)],
    })


def f32(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def i32(*values):
    return np.array(values, np.int32)


def rope_tables(rows, half):
    angles = np.arange(rows)[:, None] / 10000 ** (np.arange(half) / half)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def multi_head_attention():
    b, s, n, h = 2, 3, 2, 8
    d = n * h

    def mha(name, inputs, outputs=1, **kw):
        case("mha_" + name, "MultiHeadAttention", inputs, outputs, num_heads=n, **kw)

    q, k, v = f32(b, s, d), f32(b, 5, d), f32(b, 5, d)
    mha("plain", [q, k, v])
    mha("scale", [q, k, v], scale=0.7)
    mha("one_query", [f32(b, 1, d), k, v])
    mha("value_width", [q, k, f32(b, 5, n * 12)])
    mha("bias", [q, k, v, f32(3 * d)])
    x = f32(b, s, n, 3, h)
    mha("packed_qkv", [x], reference=[x[:, :, :, i].reshape(b, s, d) for i in range(3)])
    bias = f32(3 * d)
    mha("packed_qkv_bias", [x, None, None, bias],
        reference=[x[:, :, :, i].reshape(b, s, d) for i in range(3)] + [bias])
    x = f32(b, 5, n, 2, h)
    mha("packed_kv", [q, x], reference=[q] + [x[:, :, :, i].reshape(b, 5, d) for i in range(2)])
    mha("cross_cache", [q, f32(b, n, 5, h), f32(b, n, 5, h)])
    mha("cross_cache_query_bias", [q, f32(b, n, 5, h), f32(b, n, 5, h), f32(3 * d)])
    mha("causal", [f32(b, 5, d), k, v], unidirectional=1)
    mha("padding_lengths", [q, k, v, None, i32(5, 2)])
    mha("padding_keys", [q, k, v, None, np.array([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1]], np.int32)])
    mha("padding_all", [q, k, v, None, np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], np.int32)])
    mha("padding_queries", [q, k, v, None, rng.integers(0, 2, (b, s, 5)).astype(np.int32)])
    mha("padding_filter", [q, k, v, None, i32(3, 5)], mask_filter_value=-3.0)
    for shape in [(b, n, s, 5), (1, n, s, 5), (b, 1, s, 5), (1, 1, s, 5)]:
        mha("scores_" + "x".join(map(str, shape)), [q, k, v, None, None, f32(*shape)])
    mha("scores_and_padding", [q, k, v, None, i32(4, 5), f32(1, n, s, 5)])
    past = [f32(b, n, 4, h), f32(b, n, 4, h)]
    new = [f32(b, s, d) for _ in range(3)]
    mha("past", new + [None, None, None] + past, 3)
    mha("past_causal", new + [None, None, None] + past, 3, unidirectional=1)
    mha("past_bias", new + [f32(3 * d), None, None] + past, 3)
    mha("past_scores", new + [None, None, f32(b, n, s, 4 + s)] + past, 3)
    mha("past_empty", new + [None, None, None, f32(b, n, 0, h), f32(b, n, 0, h)], 3)
    mha("past_one_token", [f32(b, 1, d) for _ in range(3)] + [None, None, None] + past, 3)
    mha("present_without_past", new, 3)
    mha("present_bias", new + [f32(3 * d)], 3)


def attention():
    b, s, n, d = 2, 4, 2, 16

    def att(name, inputs, outputs=1, **kw):
        case("attention_" + name, "Attention", inputs, outputs, constant=[1], num_heads=n, **kw)

    x, w, bias = f32(b, s, d), f32(d, 3 * d, scale=0.3), f32(3 * d)
    att("plain", [x, w, bias])
    att("no_bias", [x, w], reference=[x, w, np.zeros(3 * d, np.float32)])
    att("causal", [x, w, bias], unidirectional=1)
    att("lengths", [x, w, bias, i32(4, 2)])
    att("ends_and_starts", [x, w, bias, i32(4, 3, 0, 1)])
    att("keys", [x, w, bias, np.array([[1, 1, 1, 1], [1, 0, 1, 0]], np.int32)])
    att("queries", [x, w, bias, rng.integers(0, 2, (b, s, s)).astype(np.int32)])
    att("scores", [x, w, bias, None, None, f32(b, n, s, s)])
    att("sizes", [x, f32(d, 2 * 16 + 24, scale=0.3), f32(2 * 16 + 24)], qkv_hidden_sizes=[16, 16, 24])
    att("past", [x, w, bias, None, f32(2, b, n, 3, 8)], 2, unidirectional=1)
    att("past_keys", [x, w, bias, rng.integers(0, 2, (b, s + 3)).astype(np.int32), f32(2, b, n, 3, 8)], 2)
    att("present", [x, w, bias], 2)
    att("scale", [x, w, bias], scale=0.1)


def rotary():
    b, s, n, h = 2, 3, 2, 16
    for name, half, interleaved in [("half", 8, 0), ("interleaved", 8, 1)]:
        cos, sin = rope_tables(12, half)
        case(f"rotary_{name}_4d", "RotaryEmbedding", [f32(b, n, s, h), np.array([4], np.int64), cos, sin], 1,
             interleaved=interleaved)
        case(f"rotary_{name}_ids", "RotaryEmbedding",
             [f32(b, s, n * h), np.array([[0, 1, 2], [7, 3, 11]], np.int64), cos, sin], 1, interleaved=interleaved)
    cos, sin = rope_tables(12, 4)
    case("rotary_partial", "RotaryEmbedding",
         [f32(b, s, n * h), np.array([[0, 1, 2], [7, 3, 11]], np.int64), cos, sin], 1, num_heads=n,
         rotary_embedding_dim=8)
    case("rotary_partial_interleaved", "RotaryEmbedding",
         [f32(b, s, n * h), np.array([[0, 1, 2], [7, 3, 11]], np.int64), cos, sin], 1, num_heads=n,
         rotary_embedding_dim=8, interleaved=1)


def group_query_attention():
    n, kv, h = 4, 2, 16
    cos, sin = rope_tables(32, h // 2)

    def gqa(name, inputs, outputs=3, **kw):
        case("gqa_" + name, "GroupQueryAttention", inputs, outputs, num_heads=n, kv_num_heads=kv, **kw)

    def new(b, s):
        return [f32(b, s, n * h), f32(b, s, kv * h), f32(b, s, kv * h)]

    def past(b, p):
        return [f32(b, kv, p, h), f32(b, kv, p, h)]

    prompt = [i32(3, 3), np.array(4, np.int32)]
    step = [i32(6, 6), np.array(7, np.int32)]
    gqa("prompt", new(2, 4) + past(2, 0) + prompt)
    gqa("prompt_rotary", new(2, 4) + past(2, 0) + prompt + [cos, sin], do_rotary=1)
    gqa("prompt_interleaved", new(2, 4) + past(2, 0) + prompt + [cos, sin], do_rotary=1, rotary_interleaved=1)
    gqa("packed", [f32(2, 4, (n + 2 * kv) * h), None, None] + past(2, 0) + prompt + [cos, sin], do_rotary=1)
    gqa("padded_prompt", new(2, 5) + past(2, 0) + [i32(2, 4), np.array(5, np.int32)], compare=[1, 2])
    gqa("step", new(2, 1) + past(2, 6) + step)
    gqa("step_rotary", new(2, 1) + past(2, 6) + step + [cos, sin], do_rotary=1)
    gqa("step_unequal", new(2, 1) + past(2, 6) + [i32(3, 6), np.array(7, np.int32)] + [cos, sin], compare=[0],
        do_rotary=1)
    gqa("continued", new(1, 3) + past(1, 4) + [i32(6), np.array(7, np.int32)] + [cos, sin], do_rotary=1)
    gqa("scale", new(2, 4) + past(2, 0) + prompt, scale=0.9)
    gqa("softcap", new(2, 4) + past(2, 0) + prompt, softcap=1.5)
    gqa("smooth", new(2, 4) + past(2, 0) + prompt, smooth_softmax=1)
    gqa("shared_size", new(1, 1) + past(1, 12) + [i32(5), np.array(6, np.int32)], compare=[0])


def norms():
    x, skip, gamma, beta, bias = f32(2, 3, 20), f32(2, 3, 20), f32(20), f32(20), f32(20)
    case("skip_layer_norm", "SkipLayerNormalization", [x, skip, gamma, beta, bias], 4, wanted=[0, 3], epsilon=1e-5)
    case("skip_layer_norm_no_beta", "SkipLayerNormalization", [x, skip, gamma], 1)
    case("skip_rms_norm", "SkipSimplifiedLayerNormalization", [x, skip, gamma], 4, wanted=[0, 3], epsilon=1e-6)
    case("skip_rms_norm_bias", "SkipSimplifiedLayerNormalization", [x, skip, gamma, bias], 1, epsilon=1e-6)
    case("skip_rms_norm_row", "SkipSimplifiedLayerNormalization", [x, f32(3, 20), gamma], 1, epsilon=1e-6)
    case("rms_norm", "SimplifiedLayerNormalization", [x, gamma], 1, domain="", epsilon=1e-5)


def activations():
    x = np.concatenate([f32(2, 24, scale=3), np.array([[0, -0.0, 30, -30, 1e-4, -90] * 4], np.float32)])
    bias = f32(24)
    case("gelu", "Gelu", [x], 1)
    case("fast_gelu", "FastGelu", [x], 1)
    case("fast_gelu_bias", "FastGelu", [x, bias], 1)
    case("bias_gelu", "BiasGelu", [x, bias], 1)
    case("quick_gelu", "QuickGelu", [x], 1, alpha=1.702)


def products():
    case("fused_matmul", "FusedMatMul", [f32(3, 5, 4), f32(3, 4, 7)], 1, alpha=0.5)
    case("fused_matmul_trans", "FusedMatMul", [f32(3, 4, 5), f32(3, 7, 4)], 1, transA=1, transB=1)
    case("fused_matmul_spread", "FusedMatMul", [f32(2, 1, 5, 4), f32(3, 4, 7)], 1)
    for bits, block, k, zero in [(4, 16, 20, 0), (4, 16, 20, 1), (4, 32, 64, 1), (4, 128, 128, 0), (8, 32, 64, 0),
                                 (8, 32, 64, 1)]:
        n = 6
        blocks = -(-k // block)
        w = rng.integers(0, 256, (n, blocks, block * bits // 8)).astype(np.uint8)
        scales = (f32(n, blocks) * 0.1)
        inputs = [f32(3, k), w, scales.reshape(-1)]
        if zero:
            inputs.append(rng.integers(0, 256, (n * -(-blocks * bits // 8))).astype(np.uint8))
        case(f"nbits_{bits}_{block}_{k}{'_zero_points' if zero else ''}", "MatMulNBits", inputs, 1,
             constant=list(range(1, len(inputs))), K=k, N=n, bits=bits, block_size=block)


def lookups():
    for name, gather, quantize in [("rows", 0, 2), ("inner", 1, 0), ("columns", 2, 1), ("middle", 0, 1)]:
        for zero in (0, 1):
            shape, block = (3, 20, 34), 16
            grid = list(shape)
            grid[quantize] = -(-shape[quantize] // block)
            data = rng.integers(0, 256, -(-int(np.prod(shape)) // 2)).astype(np.uint8)
            scales = f32(*grid)
            zeros = rng.integers(0, 256, -(-int(np.prod(grid)) // 2)).astype(np.uint8) if zero else None
            indices = rng.integers(-shape[gather], shape[gather], (2, 2)).astype(np.int64)
            packed_case(f"gather_blocks_{name}{'_zero_points' if zero else ''}", data, shape, indices, scales, zeros,
                        grid, gather_axis=gather, quantize_axis=quantize, block_size=block)


def packed_case(name, data, shape, indices, scales, zeros, grid, **attrs):
    """GatherBlockQuantized on uint4 data, which numpy cannot hold: they are initializers."""
    init = [helper.make_tensor("data", TensorProto.UINT4, shape, data.tobytes(), raw=True)]
    names = ["data", "indices", "scales"]
    if zeros is not None:
        init.append(helper.make_tensor("zeros", TensorProto.UINT4, grid, zeros.tobytes(), raw=True))
        names.append("zeros")
    node = helper.make_node("GatherBlockQuantized", names, ["y"], domain=MS, **attrs)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("indices", TensorProto.INT64, indices.shape),
                      helper.make_tensor_value_info("scales", TensorProto.FLOAT, scales.shape)],
        [onnx.ValueInfoProto(name="y")], init)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)],
                              ir_version=10)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    y = session.run(None, {"indices": indices, "scales": scales})[0]

    def raw(bytes_, dims):
        return {"dtype": int(TensorProto.UINT4), "shape": list(dims),
                "data": base64.b64encode(bytes_.tobytes()).decode()}

    cases.append({"name": name, "op": "GatherBlockQuantized", "domain": MS, "opset": 1, "attributes": attrs,
                  "constant": [0], "rtol": 1e-6, "atol": 1e-6, "wanted": [0],
                  "inputs": [raw(data, shape), tensor(indices), tensor(scales)] +
                            ([raw(zeros, grid)] if zeros is not None else []),
                  "outputs": [tensor(y)]})


def quantisation():
    x = f32(3, 4, scale=20)
    case("ms_quantize", "QuantizeLinear", [x, np.array(0.25, np.float32), np.array(3, np.uint8)], 1)
    case("ms_quantize_axis", "QuantizeLinear", [x, np.array([0.25, 0.5, 1, 2], np.float32),
                                               np.array([3, 0, 1, 200], np.uint8)], 1, axis=1)
    case("ms_dequantize", "DequantizeLinear", [rng.integers(0, 255, (3, 4)).astype(np.uint8),
                                               np.array(0.25, np.float32), np.array(3, np.uint8)], 1)
    case("ms_dequantize_int16", "DequantizeLinear", [rng.integers(-9000, 9000, (3, 4)).astype(np.int16),
                                                     np.array([0.25, 0.5, 1], np.float32),
                                                     np.array([3, -30, 1], np.int16)], 1, axis=0)


def convolutions():
    x, w, bias = f32(2, 6, 9, 11), f32(8, 3, 3, 3, scale=0.3), f32(8)
    shape = dict(group=2, pads=[1, 1, 1, 1], strides=[2, 1])
    for name, params in [("Relu", []), ("Tanh", []), ("Sigmoid", []), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 1.5]),
                         ("HardSigmoid", [0.3, 0.4])]:
        case("fused_conv_" + name.lower(), "FusedConv", [x, w, bias], 1, constant=[1, 2], activation=name,
             **({"activation_params": params} if params else {}), **shape)
    case("fused_conv_addend", "FusedConv", [x, w, bias, f32(2, 8, 5, 11)], 1, constant=[1, 2], activation="Relu", **shape)
    case("fused_conv_dynamic", "FusedConv", [x, w, bias], 1, activation="Relu", auto_pad="SAME_LOWER", group=2,
         strides=[2, 2], dilations=[1, 1])


def embeddings():
    ids, segments = rng.integers(0, 20, (2, 5)).astype(np.int32), rng.integers(0, 2, (2, 5)).astype(np.int32)
    word, position, segment, gamma, beta = f32(20, 16), f32(8, 16), f32(2, 16), f32(16), f32(16)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], np.int32)
    case("embed_norm", "EmbedLayerNormalization", [ids, segments, word, position, segment, gamma, beta, mask], 3,
         epsilon=1e-5)
    case("embed_norm_no_segments", "EmbedLayerNormalization", [ids, None, word, position, None, gamma, beta], 2,
         epsilon=1e-5)
    case("embed_norm_positions", "EmbedLayerNormalization",
         [ids, None, word, position, None, gamma, beta, None, np.array([[7, 0, 3, 3, 1]], np.int32)], 2, epsilon=1e-5)


def recurrent():
    steps, b, n, h = 5, 3, 7, 6
    x = f32(steps, b, n)
    for directions, direction in [(1, "forward"), (1, "reverse"), (2, "bidirectional")]:
        for per_column in (0, 1):
            w = rng.integers(-100, 100, (directions, n, 4 * h)).astype(np.int8)
            r = rng.integers(-100, 100, (directions, h, 4 * h)).astype(np.int8)
            size = (directions, 4 * h) if per_column else (directions,)
            w_scale, r_scale = (np.abs(f32(*size)) * 0.01 + 0.001 for _ in range(2))
            zero = np.zeros(size, np.int8)
            case(f"quantized_lstm_{direction}{'_columns' if per_column else ''}", "DynamicQuantizeLSTM",
                 [x, w, r, f32(directions, 8 * h), i32(5, 2, 4), f32(directions, b, h), f32(directions, b, h), None,
                  w_scale.astype(np.float32), zero, r_scale.astype(np.float32), zero], 3,
                 constant=[1, 2, 8, 9, 10, 11], direction=direction, hidden_size=h)


def rotary_scale():
    cos, sin = rope_tables(12, 8)
    case("rotary_scale", "RotaryEmbedding", [f32(2, 2, 3, 16), np.array([4], np.int64), cos, sin], 1, scale=2.5)


for make in (multi_head_attention, attention, rotary, group_query_attention, norms, activations, products, lookups,
             quantisation, convolutions, embeddings, recurrent, rotary_scale):
    make()
out = pathlib.Path(__file__).with_name("contrib_vectors.json")
out.write_text("{\"cases\": [\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]}\n")
print(len(cases), "cases,", out.stat().st_size, "bytes")
