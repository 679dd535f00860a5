#!/usr/bin/env python3
"""Builds the examples by themselves, outside of the tree, and runs them against numpy.

    examples_check.py --ullage BIN

examples/plugin: a device and an operator in C, one header. examples/kernel: one kernel class in a program with its own
session and, the same source, in a plugin. They need the archives beside BIN. The last line is `examples: N passed, N failed`.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checks import Program, check, finish  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
MOST_LINES = 150  # what a newcomer is asked to write for a device and its kernel


def build(source, folder, *options):
    for step in (["cmake", "-S", os.path.join(ROOT, "examples", source), "-B", folder, *options], ["cmake", "--build", folder, "-j2"]):
        p = subprocess.run(step, capture_output=True)
        output = (p.stdout + p.stderr).decode("utf-8", "replace")
        if not check(f"{source}: {step[1]}", p.returncode == 0 and "warning:" not in output, output[-1500:]):
            return False
    return True


def lines(name, *files):
    count = sum(len(open(os.path.join(ROOT, "examples", f), encoding="utf-8").read().splitlines()) for f in files)
    check(f"{name}: lines", count <= MOST_LINES, count)


def model(path, nodes, x, y, constants=()):
    """A graph with one input and one output of floats."""
    f32 = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(nodes, "g", [onnx.helper.make_tensor_value_info("x", f32, x)], [onnx.helper.make_tensor_value_info("y", f32, y)],
                                   [onnx.numpy_helper.from_array(value, name) for name, value in constants])
    opsets = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("com.example", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets), path)


def pure_c(exe, d):
    """The plugin with an operator that only it knows."""
    lines("plugin", "plugin/cube.c")
    if not build("plugin", d + "/cube"):
        return
    node = onnx.helper.make_node
    model(d + "/model.onnx", [node("Add", ["x", "x"], ["twice"]), node("Cube", ["twice"], ["cubed"], domain="com.example", name="cube"), node("Neg", ["cubed"], ["y"])],
          ["n", 3], ["n", 3])
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    os.mkdir(d + "/in")
    np.save(d + "/in/x.npy", x)
    run = ["infer", d + "/model.onnx", "--inputs", d + "/in", "--outputs", d + "/out"]
    rc, got, err = Program(exe, d + "/cube")(*run, "--device", "cube")
    if check("plugin: infer", rc == 0, (rc, got, err[-300:])):
        check("plugin: result", np.array_equal(np.load(d + "/out/y.npy"), -(2 * x) ** 3))
    rc, got, _ = Program(exe, d + "/cube")("plan", d + "/model.onnx", "--shape", "x=100x3", "--device", "cube", "--nodes")
    check("plugin: plan", rc == 0 and {"cube:0"} == {n["device"] for n in got["placement"] if n["node"] == "cube"}, (rc, got))
    rc, got, _ = Program(exe)(*run)
    check("plugin: unknown without it", rc == 5 and "Cube" in got["error"]["message"], (rc, got))
    os.rename(d + "/cube/libullage_plugin_cube.so", d + "/cube/libullage_plugin_whole.so")
    with open(d + "/cube/libullage_plugin_whole.so", "rb") as whole, open(d + "/cube/libullage_plugin_cube.so", "wb") as broken:
        broken.write(whole.read()[:5000])
    rc, got, err = Program(exe, d + "/cube/libullage_plugin_cube.so")(*run, "--device", "cube")
    check("plugin: broken and named", rc == 5 and "libullage_plugin_cube.so" in got["error"]["message"], (rc, got))
    rc, got, err = Program(exe, d + "/cube/libullage_plugin_cube.so")("devices")
    check("plugin: broken and not named", rc == 0 and "libullage_plugin_cube.so" in err, (rc, got, err))


def close(path, want):
    """A result of float sums of a few products."""
    got = np.load(path)
    return got.shape == want.shape and bool(np.all(np.abs(got - want) <= 1e-4 * max(1, np.max(np.abs(want), initial=0))))


def kernel(exe, d):
    """One kernel class, on the host and in a plugin."""
    lines("kernel: plugin", "kernel/shared_source.cc")
    folder = os.path.dirname(os.path.dirname(os.path.abspath(exe)))
    if not build("kernel", d + "/kernel", "-DULLAGE_BUILD=" + folder):
        return
    node, rng = onnx.helper.make_node, np.random.default_rng(7)
    k, n = 37, 23
    w = rng.standard_normal((k, n), dtype=np.float32)
    product = node("CenteredProduct", ["twice", "w"], ["product"], domain="com.example", name="product")
    nodes = [node("Add", ["x", "x"], ["twice"]), product, node("Neg", ["product"], ["y"])]
    model(d + "/model.onnx", nodes, ["b", "r", k], ["b", "r", n], [("w", w)])
    program = Program(exe, d + "/kernel")
    for number, rows in enumerate([(2, 11), (1, 1), (3, 0)]):
        x = rng.standard_normal((*rows, k), dtype=np.float32)
        folder = f"{d}/in{number}"
        os.mkdir(folder)
        np.save(folder + "/x.npy", x)
        want = -((2 * x - (2 * x).mean(-1, keepdims=True, dtype=np.float64)) @ w.astype(np.float64))
        p = subprocess.run([d + "/kernel/in_tree", d + "/model.onnx", folder, d + "/host"], capture_output=True, timeout=60)
        planned = re.match(rb"prepacked (\d+) bytes, workspace (\d+) bytes", p.stdout)
        if check(f"kernel: in tree, {rows}", p.returncode == 0 and planned, p):
            check(f"kernel: in tree, {rows}: plan", int(planned[1]) >= 4 * k * n and int(planned[2]) >= 4 * k, p.stdout)
            check(f"kernel: in tree, {rows}: result", close(d + "/host/y.npy", want.astype(np.float32)))
        rc, got, err = program("infer", d + "/model.onnx", "--inputs", folder, "--outputs", d + "/device", "--device", "centered")
        if check(f"kernel: shared, {rows}", rc == 0, (rc, got, err[-300:])):
            check(f"kernel: shared, {rows}: result", close(d + "/device/y.npy", want.astype(np.float32)))
    rc, got, err = program("plan", d + "/model.onnx", "--shape", f"x=4x16x{k}", "--device", "centered", "--nodes")
    if check("kernel: plan", rc == 0, (rc, got, err)):
        tags = got["devices"][0]["tags"]
        check("kernel: plan of the device", tags["prepacked"] >= 4 * k * n and tags["workspace"] >= 4 * k and tags["weights"] == 0, got["devices"])
        check("kernel: placed", {p["device"] for p in got["placement"] if p["node"] == "product"} == {"centered:0"}, got["placement"])
        check("kernel: bound", {"value": "product", "from": "centered:0", "to": "cpu", "bytes": 4 * 4 * 16 * n} in got["copies"], got["copies"])
    # W as another value: the kernel refuses, and nobody else has one.
    model(d + "/other.onnx", [node("Transpose", ["x"], ["w"], perm=[1, 0]), node("CenteredProduct", ["x", "w"], ["y"], domain="com.example", name="product")],
          [3, k], [3, 3])
    rc, got, _ = program("plan", d + "/other.onnx", "--device", "centered")
    check("kernel: refused", rc == 5 and "product" in got["error"]["message"] and "constant matrix" in got["error"]["message"], (rc, got))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ullage", required=True)
    exe = parser.parse_args().ullage
    for example in (pure_c, kernel):
        with tempfile.TemporaryDirectory() as d:
            example(exe, d)
    return finish("examples")


if __name__ == "__main__":
    sys.exit(main())
