#!/usr/bin/env python3
"""Writes zoo_counts.tsv: what the onnx package sees in every model below a folder of exported models.

    make_zoo_counts.py MODELS_FOLDER > zoo_counts.tsv

Columns: path; nodes without Constant, sub-graphs included; Constant nodes; captured outer values, summed over the
nodes with sub-graphs; inputs that are no initializers; outputs; CRC-32 of the bytes of the initializers and Constant
nodes of the main graph in order of name; operator histogram. Needs the packages onnx and numpy.
"""
import collections
import os
import sys
import zlib

import numpy as np
import onnx
from onnx import numpy_helper


def subgraphs(node):
    for a in node.attribute:
        if a.type == onnx.AttributeProto.GRAPH:
            yield a.g
        yield from a.graphs


def free_names(graph):
    """Names that the graph reads but does not define."""
    defined = {i.name for i in graph.input} | {i.name for i in graph.initializer}
    defined |= {o for n in graph.node for o in n.output}
    used = {o.name for o in graph.output}
    for n in graph.node:
        used |= set(n.input)
        for g in subgraphs(n):
            used |= free_names(g)
    return {u for u in used if u} - defined


def walk(graph):
    for n in graph.node:
        yield n
        for g in subgraphs(n):
            yield from walk(g)


def contents(tensor, folder):
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        info = {e.key: e.value for e in tensor.external_data}
        with open(os.path.join(folder, info["location"]), "rb") as f:
            f.seek(int(info.get("offset", 0)))
            return f.read(int(info["length"]) if "length" in info else -1)
    if tensor.HasField("raw_data"):
        return tensor.raw_data
    return numpy_helper.to_array(tensor).tobytes()


def constant(node, folder):
    a = node.attribute[0]
    if a.name == "value":
        return contents(a.t, folder)
    kind = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32, "value_floats": np.float32}[a.name]
    return np.asarray(onnx.helper.get_attribute_value(a), kind).tobytes()


def main(root):
    for path in sorted(os.path.join(d, f) for d, _, files in os.walk(root) for f in files if f.endswith(".onnx")):
        graph = onnx.load(path, load_external_data=False).graph
        ops = collections.Counter()
        constants = captures = 0
        for n in walk(graph):
            if n.op_type == "Constant":
                constants += 1
                continue
            ops[(n.domain + ":" if n.domain not in ("", "ai.onnx") else "") + n.op_type] += 1
            captures += len(set().union(*[free_names(g) for g in subgraphs(n)]) if list(subgraphs(n)) else ())
        initializers = {t.name: t for t in graph.initializer}
        folder = os.path.dirname(path)
        data = {name: contents(t, folder) for name, t in initializers.items()}
        data |= {n.output[0]: constant(n, folder) for n in graph.node if n.op_type == "Constant"}
        crc = 0
        for name in sorted(data):
            crc = zlib.crc32(data[name], crc)
        inputs = sum(i.name not in initializers for i in graph.input)
        print(os.path.relpath(path, root), sum(ops.values()), constants, captures, inputs, len(graph.output), f"{crc:08x}",
              " ".join(f"{k}:{v}" for k, v in sorted(ops.items())), sep="\t")


main(sys.argv[1])
