#!/usr/bin/env python3
"""How much of the time for copies a device hides behind what it computes.

    overlap.py --ullage BIN [--repeats N]

A graph of independent towers runs on the simulated device, whose link is so slow that the copies take about as long as the
products: with copies that take no time, with copies beside the products, and with copies instead of them
(ep.reference.overlap=0). Rounds of the three take turns; medians.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

import numpy as np
import onnx

TOWERS, ROWS, WIDTH, PRODUCTS = 8, 1024, 512, 3


def towers(path):
    node, rng, f32 = onnx.helper.make_node, np.random.default_rng(3), onnx.TensorProto.FLOAT
    nodes, weights, inputs, outputs = [], [], [], []
    for t in range(TOWERS):
        value = f"x{t}"
        inputs.append(onnx.helper.make_tensor_value_info(value, f32, [ROWS, WIDTH]))
        for p in range(PRODUCTS):
            w, name = f"w{t}.{p}", f"y{t}.{p}"
            weights.append(onnx.numpy_helper.from_array(rng.standard_normal((WIDTH, WIDTH), dtype=np.float32) / 16, w))
            nodes.append(node("MatMul", [value, w], [name], name=name))
            value = name
        outputs.append(onnx.helper.make_tensor_value_info(value, f32, [ROWS, WIDTH]))
    graph = onnx.helper.make_graph(nodes, "towers", inputs, outputs, weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), path)


def bench(exe, model, bandwidth, overlap):
    options = [f"ep.reference.copy_bandwidth={bandwidth}", f"ep.reference.overlap={overlap}"]
    p = subprocess.run([exe, "bench", model, "--device", "reference", *[x for o in options for x in ("--option", o)], "--json"],
                       capture_output=True, check=True)
    return json.loads(p.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ullage", required=True)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as d:
        model = os.path.join(d, "towers.onnx")
        towers(model)
        first = bench(args.ullage, model, 0, 1)
        copied = 2 * TOWERS * ROWS * WIDTH * 4
        bandwidth = int(copied / first["latency_s"]["median"])
        times = {key: [] for key in [(0, 1), (bandwidth, 1), (bandwidth, 0)]}
        for _ in range(args.repeats):
            for key in times:
                result = bench(args.ullage, model, *key)
                times[key].append(result["latency_s"]["median"])
        compute, beside, instead = (1000 * statistics.median(times[key]) for key in times)
        print(f"without copies {compute:.0f} ms, beside {beside:.0f} ms, in turns {instead:.0f} ms")
        print(f"copies {1000 * copied / bandwidth:.0f} ms at {bandwidth / 1e6:.0f} MB/s")


if __name__ == "__main__":
    main()
