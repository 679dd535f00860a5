"""Test vectors of the shape rules: random valid operator calls and what an independent implementation makes of them.

    python3 tests/ops/make_shape_vectors.py > tests/ops/shape_vectors.jsonl
    python3 tests/ops/make_shape_vectors.py more > tests/ops/shape_vectors_more.jsonl

Needs onnx and onnxruntime (1.23.2). The truth of each case is ONNX Runtime's execution where it has the operator, else
onnx.reference; ONNX's own shape inference must agree wherever it knows a shape. One JSON object a line: o operator,
d domain, v opset, a attributes, i inputs [type, dims, contents?] or null, r results [type, dims, contents?] or null.
Contents are given where they decide the shape, and for small integer results.
"""
import json
import random
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import shape_cases
import shape_cases_more
from shape_cases import TensorAttr

ort.set_default_logger_severity(4)
OPTIONS = ort.SessionOptions()
OPTIONS.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
OPTIONS.intra_op_num_threads = 1
SEED = 20240607
# NaN and infinities in the way of ORT and the reference do not matter: only shapes and small integers are kept.


def numpy_of(t, rng):
    dtype = np.dtype(t.dtype)
    if t.values is not None:
        return np.array(t.values, dtype).reshape(t.dims)
    if dtype.kind == "f":
        low, high = (0.1, 1.0) if t.low is None else (t.low, t.high)
        return rng.uniform(low, high, t.dims).astype(dtype)
    low, high = (0, 2 if dtype == bool else 4) if t.low is None else (t.low, t.high + 1)
    return rng.integers(low, high, t.dims).astype(dtype)


def build(case, arrays):
    names, graph_inputs = [], []
    for i, (t, a) in enumerate(zip(case.inputs, arrays)):
        if t is None:
            names.append("")
            continue
        names.append("x%d" % i)
        if t.values is None:
            graph_inputs.append(helper.make_tensor_value_info(
                names[-1], helper.np_dtype_to_tensor_dtype(a.dtype), list(a.shape)))
    wanted = case.outputs if isinstance(case.outputs, list) else [True] * case.outputs
    outputs = ["y%d" % i if w else "" for i, w in enumerate(wanted)]
    while outputs and not outputs[-1]:
        outputs.pop()
    attrs = {}
    for key, value in case.attrs.items():
        if isinstance(value, TensorAttr):
            value = numpy_helper.from_array(np.array(value.values, value.dtype).reshape(value.dims))
        attrs[key] = value
    node = helper.make_node(case.op, names, outputs, domain=case.domain, **attrs)
    initializers = [numpy_helper.from_array(a, n) for t, a, n in zip(case.inputs, arrays, names)
                    if t is not None and t.values is not None]
    graph = helper.make_graph([node], "g", graph_inputs, [helper.make_empty_tensor_value_info(o) for o in outputs if o],
                              initializers)
    opsets = [helper.make_opsetid("", case.version if not case.domain else 17)]
    opsets.append(helper.make_opsetid("com.microsoft", 1))
    opsets.append(helper.make_opsetid("ai.onnx.ml", 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=8 if case.version < 21 else 10), outputs


def truth(case, arrays):
    model, outputs = build(case, arrays)
    feeds = {"x%d" % i: a for i, (t, a) in enumerate(zip(case.inputs, arrays)) if t is not None and t.values is None}
    results = None
    try:
        session = ort.InferenceSession(model.SerializeToString(), OPTIONS, providers=["CPUExecutionProvider"])
        results = session.run(None, feeds)
        by = "ort"
    except Exception as error:  # not implemented, or refused: the reference decides
        if case.domain or not any(word in str(error) for word in ("NOT_IMPLEMENTED", "ValidateOpsetForDomain")):
            return None, str(error).splitlines()[0]
        try:
            results = ReferenceEvaluator(model).run(None, feeds)
            by = "reference"
        except Exception as again:
            return None, "reference: " + str(again).splitlines()[0]
    if not case.domain and case.op != "SimplifiedLayerNormalization":
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output
        for got, info in zip(results, inferred):
            tt = info.type.tensor_type
            if tt.HasField("shape"):
                said = [d.dim_value if d.HasField("dim_value") else None for d in tt.shape.dim]
                if len(said) != got.ndim or any(s is not None and s != d for s, d in zip(said, got.shape)):
                    return None, "onnx infers %s, %s gives %s" % (said, by, list(got.shape))
    full, k = [], 0
    for o in outputs:
        full.append(results[k] if o else None)
        k += bool(o)
    return full, by


def describe(dtype):
    return {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11,
            "uint32": 12, "uint64": 13, "int16": 5, "uint16": 4}[str(dtype)]


def attr_json(value):
    if isinstance(value, TensorAttr):
        return {"t": [describe(value.dtype), value.dims, value.values]}
    return value


def main():
    rnd = random.Random(SEED)
    rng = np.random.default_rng(SEED)
    kept, refused = {}, {}
    more = sys.argv[1:] == ["more"]
    for generator, weight in (shape_cases_more if more else shape_cases).GENERATORS:
        done = 0
        for _ in range(weight * 8):
            if done == 2 * weight:
                break
            case = generator(rnd)
            arrays = [None if t is None else numpy_of(t, rng) for t in case.inputs]
            results, by = truth(case, arrays)
            if results is None:
                refused.setdefault(case.op, []).append(by)
                continue
            done += 1
            kept[by] = kept.get(by, 0) + 1
            line = {"o": case.op, "v": case.version}
            if case.domain:
                line["d"] = case.domain
            if case.attrs:
                line["a"] = {k: attr_json(v) for k, v in case.attrs.items()}
            line["i"] = []
            for t, a in zip(case.inputs, arrays):
                if t is None:
                    line["i"].append(None)
                else:
                    line["i"].append([describe(a.dtype), list(a.shape)])
                    if t.values is not None:
                        line["i"][-1].append([float(v) if a.dtype.kind == "f" else int(v) for v in a.flatten()])
            line["r"] = []
            for y in results:
                if y is None:
                    line["r"].append(None)
                    continue
                line["r"].append([describe(y.dtype), list(y.shape)])
                if y.dtype.kind in "iub" and y.size <= 32 and any(t is not None and t.values is not None
                                                                  for t in case.inputs) or case.op in ("Shape", "Size"):
                    line["r"][-1].append([int(v) for v in y.flatten()])
            print(json.dumps(line, separators=(",", ":")))
    print(kept, file=sys.stderr)
    for op, reasons in sorted(refused.items()):
        print(op, len(reasons), reasons[0][:300], file=sys.stderr)


if __name__ == "__main__":
    main()
