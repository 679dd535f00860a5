#!/usr/bin/env python3
"""Writes models/: small models that use every corner of the ONNX format, made with the onnx package.

    make_models.py

Needs the packages onnx, numpy and ml_dtypes. The output is the same on every run.
"""
import os

import ml_dtypes
import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, inliner, numpy_helper

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
F32 = TensorProto.FLOAT


def info(name, dtype=F32, shape=("N",)):
    return helper.make_tensor_value_info(name, dtype, list(shape) if shape is not None else None)


def model(graph, opset=21, ir=10, functions=(), extra=()):
    imports = [helper.make_opsetid("", opset), *[helper.make_opsetid(*e) for e in extra]]
    m = helper.make_model(graph, opset_imports=imports, functions=list(functions), producer_name="test")
    m.ir_version = ir
    return m


def save(m, name):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(m.SerializeToString(deterministic=True))


# ------------------------------------------------------------------------------------------------ element types

def types():
    """Every element type twice: typed_NAME in its typed field, raw_NAME in raw_data."""
    ml = ml_dtypes
    small = [0, 1, 2, 3, 1, 0, 2]
    cases = {
        TensorProto.FLOAT: np.array([0, -1.5, 3.25, np.inf, 1e-40], np.float32),
        TensorProto.UINT8: np.array([0, 1, 200, 255], np.uint8),
        TensorProto.INT8: np.array([0, -1, -128, 127], np.int8),
        TensorProto.UINT16: np.array([0, 65535, 300], np.uint16),
        TensorProto.INT16: np.array([0, -32768, 32767], np.int16),
        TensorProto.INT32: np.array([0, -2**31, 2**31 - 1], np.int32),
        TensorProto.INT64: np.array([0, -2**63, 2**63 - 1, 7], np.int64),
        TensorProto.BOOL: np.array([True, False, True], np.bool_),
        TensorProto.FLOAT16: np.array([0, 1, -2, 65504, np.inf], np.float16),
        TensorProto.DOUBLE: np.array([0, -1.5, 1e300], np.float64),
        TensorProto.UINT32: np.array([0, 2**32 - 1], np.uint32),
        TensorProto.UINT64: np.array([0, 2**64 - 1], np.uint64),
        TensorProto.COMPLEX64: np.array([1 + 2j, -3.5j], np.complex64),
        TensorProto.COMPLEX128: np.array([1 + 2j, -3.5j], np.complex128),
        TensorProto.BFLOAT16: np.array([0, 1, -2, 1e30], ml.bfloat16),
        TensorProto.FLOAT8E4M3FN: np.array([0, 1, -2, 448], ml.float8_e4m3fn),
        TensorProto.FLOAT8E4M3FNUZ: np.array([0, 1, -2, 240], ml.float8_e4m3fnuz),
        TensorProto.FLOAT8E5M2: np.array([0, 1, -2, 57344], ml.float8_e5m2),
        TensorProto.FLOAT8E5M2FNUZ: np.array([0, 1, -2, 57344], ml.float8_e5m2fnuz),
        TensorProto.FLOAT8E8M0: np.array([1, 2, 0.5, 1024], ml.float8_e8m0fnu),
        TensorProto.UINT4: np.array([0, 1, 15, 8, 7], ml.uint4),
        TensorProto.INT4: np.array([0, 1, -1, -8, 7], ml.int4),
        TensorProto.FLOAT4E2M1: np.array([0, 1, -6, 0.5, 3], ml.float4_e2m1fn),
        TensorProto.UINT2: np.array(small, ml.uint2),
        TensorProto.INT2: np.array([0, 1, -1, -2, 1, 0, -2], ml.int2),
    }
    tensors = []
    for dtype, values in cases.items():
        name = TensorProto.DataType.Name(dtype)
        raw = numpy_helper.from_array(values, "raw_" + name)
        assert raw.data_type == dtype and raw.HasField("raw_data"), name
        tensors.append(raw)
        typed = TensorProto(name="typed_" + name, data_type=dtype, dims=values.shape)
        bits = values.dtype.itemsize * 8
        if dtype in (TensorProto.FLOAT, TensorProto.COMPLEX64):
            typed.float_data.extend(values.view(np.float32).tolist())
        elif dtype in (TensorProto.DOUBLE, TensorProto.COMPLEX128):
            typed.double_data.extend(values.view(np.float64).tolist())
        elif dtype == TensorProto.INT64:
            typed.int64_data.extend(values.tolist())
        elif dtype in (TensorProto.UINT32, TensorProto.UINT64):
            typed.uint64_data.extend(values.tolist())
        elif dtype in (TensorProto.INT32, TensorProto.INT16, TensorProto.INT8, TensorProto.UINT16, TensorProto.UINT8,
                       TensorProto.BOOL):
            typed.int32_data.extend(int(v) for v in values)
        elif dtype in (TensorProto.UINT4, TensorProto.INT4, TensorProto.FLOAT4E2M1, TensorProto.UINT2, TensorProto.INT2):
            typed.int32_data.extend(raw.raw_data)
        else:
            typed.int32_data.extend(values.view({8: np.uint8, 16: np.uint16}[bits]).tolist())
        tensors.append(typed)
    tensors.append(helper.make_tensor("strings", TensorProto.STRING, [2, 2], [b"", b"one", "zwei \u00fc".encode(), b"\x00\xff"]))
    tensors.append(helper.make_tensor("no_strings", TensorProto.STRING, [0], []))
    tensors.append(helper.make_tensor("empty", F32, [0, 3], []))
    tensors.append(helper.make_tensor("scalar", F32, [], [4.5]))
    tensors.append(numpy_helper.from_array(np.arange(2000, dtype=np.float32).reshape(40, 50), "large"))
    sparse = []
    for name, indices in (("sparse_linear", [1, 5, 11]), ("sparse_pairs", [[0, 1], [1, 1], [2, 3]])):
        values = numpy_helper.from_array(np.array([1.5, 2.5, 3.5], np.float32), name)
        index = numpy_helper.from_array(np.array(indices, np.int64), name + "_i")
        sparse.append(helper.make_sparse_tensor(values, index, [3, 4]))
    nibbles = numpy_helper.from_array(np.array([1, -2, 3], ml.int4), "sparse_int4")
    sparse.append(helper.make_sparse_tensor(nibbles, numpy_helper.from_array(np.array([0, 3, 4], np.int64), "i"), [5]))
    g = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "types", [info("x")], [info("y")], tensors,
                          sparse_initializer=sparse)
    save(model(g, 25, 13), "types.onnx")


def constants():
    value = numpy_helper.from_array(np.array([[1, 2], [3, 4]], np.int32), "inner_name")
    sparse = helper.make_sparse_tensor(numpy_helper.from_array(np.array([7], np.int64), "v"),
                                       numpy_helper.from_array(np.array([2], np.int64), "i"), [4])
    nodes = [
        helper.make_node("Constant", [], ["c_tensor"], value=value),
        helper.make_node("Constant", [], ["c_sparse"], sparse_value=sparse),
        helper.make_node("Constant", [], ["c_int"], value_int=-5),
        helper.make_node("Constant", [], ["c_ints"], value_ints=[1, -2, 2**40]),
        helper.make_node("Constant", [], ["c_float"], value_float=0.5),
        helper.make_node("Constant", [], ["c_floats"], value_floats=[1.0, -2.0]),
        helper.make_node("Constant", [], ["c_string"], value_string="text"),
        helper.make_node("Constant", [], ["c_strings"], value_strings=["a", "", "c"]),
        helper.make_node("Constant", [], ["c_zero"], domain="ai.onnx"),
        helper.make_node("Add", ["x", "c_float"], ["y"]),
    ]
    nodes[8].attribute.append(AttributeProto(name="value_ints", type=AttributeProto.INTS))
    g = helper.make_graph(nodes, "constants", [info("x")], [info("y"), info("c_tensor", TensorProto.INT32, (2, 2)), info("x")])
    save(model(g), "constants.onnx")


# ------------------------------------------------------------------------------------------------ graph structure

def legacy():
    """IR 3: initializers are listed as inputs, too."""
    w = numpy_helper.from_array(np.array([1, 2, 3], np.float32), "w")
    g = helper.make_graph([helper.make_node("Mul", ["x", "w"], ["y"])], "legacy", [info("x", F32, (3,)), info("w", F32, (3,))],
                          [info("y", F32, (3,))], [w])
    save(model(g, 8, 3), "legacy.onnx")


def odd():
    """Unordered, unnamed and doubly named nodes, left-out inputs and outputs, unused domains, non-tensor types."""
    nodes = [
        helper.make_node("Add", ["b", "a"], ["c"], name="twin"),
        helper.make_node("Relu", ["x"], ["a"], name="twin"),
        helper.make_node("Clip", ["a", "", "limit"], ["b"]),
        helper.make_node("Dropout", ["c"], ["", "mask"], name="only_mask"),
        helper.make_node("Custom", ["c"], ["d"], name="named", domain="org.example", note="hi", list=[1, 2], weight=0.5),
        helper.make_node("SequenceAt", ["seq", "zero"], ["e"]),
    ]
    for key, value in (("layer_ann", "decoder.3"), ("namespace", "model/layers.3")):
        nodes[4].metadata_props.add(key=key, value=value)
    limit = numpy_helper.from_array(np.array(6, np.float32), "limit")
    zero = numpy_helper.from_array(np.array(0, np.int64), "zero")
    tensor = helper.make_tensor_type_proto(F32, ["N", 3])
    seq = helper.make_value_info("seq", helper.make_sequence_type_proto(tensor))
    opt = helper.make_value_info("opt", helper.make_optional_type_proto(helper.make_sequence_type_proto(tensor)))
    mapped = onnx.ValueInfoProto(name="map")
    mapped.type.map_type.key_type = TensorProto.STRING
    mapped.type.map_type.value_type.tensor_type.elem_type = F32
    unknown = info("x", F32, ("N", 3, -1))
    g = helper.make_graph(nodes, "odd", [unknown, seq, opt, mapped],
                          [info("d"), info("e"), info("limit", F32, ()), info("x"), info("mask", TensorProto.BOOL)],
                          [limit, zero], value_info=[info("a", F32, ("N", 3)), info("nowhere")], doc_string="doc")
    m = model(g, 17, 8, extra=[("org.example", 2), ("com.microsoft.nchwc", 1), ("ai.onnx.training", 1)])
    helper.set_model_props(m, {"author": "nobody", "empty": ""})
    g_meta = m.graph.metadata_props.add()
    g_meta.key, g_meta.value = "graph_key", "graph_value"
    save(m, "odd.onnx")


def subgraphs():
    """Loop around If around If: captures through three levels, a name used again inside, initializers inside."""
    deep_then = helper.make_graph([helper.make_node("Add", ["x", "w"], ["dt"], name="deep_add")], "deep_then", [], [info("dt")])
    deep_else = helper.make_graph([helper.make_node("Neg", ["state"], ["de"])], "deep_else", [], [info("de")])
    inner_w = numpy_helper.from_array(np.array([9], np.float32), "own")
    branch_then = helper.make_graph(
        [helper.make_node("If", ["flag"], ["deep"], name="inner_if", then_branch=deep_then, else_branch=deep_else),
         helper.make_node("Mul", ["deep", "own"], ["t"])], "then", [], [info("t")], [inner_w])
    # "y" is also the name of an outer value: inside, it means the inner one.
    branch_else = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Exp", ["y"], ["u"])], "else", [], [info("u")])
    body = helper.make_graph(
        [helper.make_node("If", ["flag"], ["next"], name="outer_if", then_branch=branch_then, else_branch=branch_else),
         helper.make_node("Identity", ["cond"], ["cond_out"])], "body",
        [info("i", TensorProto.INT64, ()), info("cond", TensorProto.BOOL, ()), info("state")],
        [info("cond_out", TensorProto.BOOL, ()), info("next"), info("w")])
    w = numpy_helper.from_array(np.array([2], np.float32), "w")
    n = numpy_helper.from_array(np.array(3, np.int64), "n")
    g = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["last", "scan"], name="loop", body=body),
         helper.make_node("Abs", ["last"], ["y"])], "subgraphs",
        [info("x"), info("flag", TensorProto.BOOL, ())], [info("y"), info("scan")], [w, n])
    save(model(g, 19, 9), "subgraphs.onnx")


# ------------------------------------------------------------------------------------------------ functions

def reference(node, name, target, kind):
    a = AttributeProto(name=name, ref_attr_name=target, type=kind)
    node.attribute.append(a)
    return node


def functions():
    domain = "local"
    ops = [helper.make_opsetid("", 21)]
    local = ops + [helper.make_opsetid(domain, 1)]
    # scale(x, factor): attribute without a default, through a Constant
    scale = helper.make_function(
        domain, "Scale", ["a"], ["b"],
        [reference(helper.make_node("Constant", [], ["k"]), "value_float", "factor", AttributeProto.FLOAT),
         helper.make_node("Mul", ["a", "k"], ["b"], name="mul")], ops, ["factor"])
    # leaky(x): attribute with a default, reference at an ordinary node
    leaky = helper.make_function(
        domain, "Leaky", ["a"], ["b"],
        [reference(helper.make_node("LeakyRelu", ["a"], ["b"]), "alpha", "slope", AttributeProto.FLOAT)], ops, [],
        [helper.make_attribute("slope", 0.25)])
    # nested calls, an optional input that may be left out, a second output that is an input
    block = helper.make_function(
        domain, "Block", ["a", "limit"], ["out", "skip"],
        [reference(helper.make_node("Scale", ["a"], ["s"], domain=domain, name="scale"), "factor", "gain",
                   AttributeProto.FLOAT),
         helper.make_node("Leaky", ["s"], ["l"], domain=domain, name="leaky"),
         helper.make_node("Leaky", ["l"], ["m"], domain=domain, slope=0.5),
         helper.make_node("Clip", ["m", "", "limit"], ["out"], name="clip"),
         helper.make_node("Identity", ["a"], ["skip"])], local, ["gain"])
    # a sub-graph in a body, which reads a value of the body and refers to an attribute
    then_branch = helper.make_graph(
        [reference(helper.make_node("LeakyRelu", ["v"], ["t"]), "alpha", "slope", AttributeProto.FLOAT)], "t", [], [info("t")])
    else_branch = helper.make_graph(
        [helper.make_node("Scale", ["v"], ["e"], domain=domain, factor=3.0)], "e", [], [info("e")])
    choose = helper.make_function(
        domain, "Choose", ["a", "flag"], ["b"],
        [helper.make_node("Neg", ["a"], ["v"]),
         helper.make_node("If", ["flag"], ["b"], then_branch=then_branch, else_branch=else_branch, name="if")],
        local, ["slope"])
    nodes = [
        helper.make_node("Block", ["x", "top"], ["p", "q"], domain=domain, name="/layers.0/block", gain=2.0),
        helper.make_node("Block", ["p"], ["r"], domain=domain, name="/layers.1/block", gain=4.0),
        helper.make_node("Choose", ["r", "flag"], ["c"], domain=domain, slope=0.125),
        helper.make_node("Add", ["c", "q"], ["y"], name="sum"),
    ]
    nodes[0].metadata_props.add(key="layer_ann", value="layer.0")
    top = numpy_helper.from_array(np.array(6, np.float32), "top")
    g = helper.make_graph(nodes, "functions", [info("x"), info("flag", TensorProto.BOOL, ())], [info("y")], [top])
    m = model(g, 21, 10, [scale, leaky, block, choose], [(domain, 1)])
    onnx.checker.check_model(m)
    save(m, "functions.onnx")
    # The inliner of onnx 1.23 forgets defaults of attributes: state them.
    for f in m.functions:
        for n in f.node:
            if n.op_type == "Leaky" and not n.attribute:
                n.attribute.append(helper.make_attribute("slope", 0.25))
    save(inliner.inline_local_functions(m), "functions_inlined.onnx")


# ------------------------------------------------------------------------------------------------ external data

def external():
    """Tensors in three files at odd offsets, with and without a length; also in a Constant and in a sub-graph."""
    rng = np.random.default_rng(7)
    files = {"part0.bin": b"abc", "part1.bin": b"", "part2.bin": b"x" * 17}

    def outside(tensor, file, length=True):
        data = tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=file)
        if files[file]:
            tensor.external_data.add(key="offset", value=str(len(files[file])))
        if length:
            tensor.external_data.add(key="length", value=str(len(data)))
        files[file] += data
        return tensor

    def numbers(name, *shape):
        return numpy_helper.from_array(rng.integers(-9, 9, shape).astype(np.float32), name)

    a = outside(numbers("a", 40, 32), "part0.bin")
    b = outside(numbers("b", 3), "part1.bin")
    c = outside(numbers("c", 1200), "part2.bin", length=False)
    d = outside(numbers("d", 4), "part0.bin")
    e = outside(numbers("e", 5), "part2.bin")
    one = outside(numpy_helper.from_array(np.array([1], np.int64), "unnamed"), "part1.bin")
    two = outside(numpy_helper.from_array(np.array(2, np.int32), "unnamed"), "part1.bin")
    nodes = [
        helper.make_node("Constant", [], ["d_out"], value=d),
        helper.make_node("Constant", [], ["/model/constants/INT64/[1]"], value=one),
        helper.make_node("Constant", [], ["/model/constants/TensorProto.INT32/0D/2"], value=two),
        helper.make_node("If", ["flag"], ["y"],
                         then_branch=helper.make_graph([helper.make_node("Identity", ["e"], ["t"])], "t", [], [info("t")], [e]),
                         else_branch=helper.make_graph([helper.make_node("Identity", ["b"], ["f"])], "f", [], [info("f")])),
    ]
    g = helper.make_graph(nodes, "external", [info("flag", TensorProto.BOOL, ())], [info("y")], [a, b, c])
    save(model(g), "external.onnx")
    for name, data in files.items():
        with open(os.path.join(OUT, name), "wb") as f:
            f.write(data)


os.makedirs(OUT, exist_ok=True)
types()
constants()
legacy()
odd()
subgraphs()
functions()
external()
