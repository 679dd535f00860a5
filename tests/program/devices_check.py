#!/usr/bin/env python3
"""Devices and their options on the command line, and the example plugin, which brings an operator of its own, built by itself.

    devices_check.py --ullage BIN

The last line is `devices: N passed, N failed`. Models on devices: splits_check.py.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checks import check, finish  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


class Program:
    def __init__(self, exe, plugins=None):
        self.exe = exe
        self.env = {**os.environ, "ULLAGE_PLUGIN_PATH": plugins} if plugins else None

    def __call__(self, *args):
        p = subprocess.run([self.exe, *args, "--json"], capture_output=True, timeout=300, env=self.env)
        try:
            return p.returncode, json.loads(p.stdout.decode("utf-8", "replace").strip().split("\n")[-1]), p.stderr.decode("utf-8", "replace")
        except ValueError:
            return p.returncode, {}, p.stderr.decode("utf-8", "replace")


def example(exe):
    """The plugin of examples/plugin, built by itself, with an operator that only it knows."""
    with tempfile.TemporaryDirectory() as d:
        source = os.path.join(ROOT, "examples", "plugin")
        for step in (["cmake", "-S", source, "-B", d + "/cube"], ["cmake", "--build", d + "/cube"]):
            p = subprocess.run(step, capture_output=True)
            if not check("example: " + step[1], p.returncode == 0, p.stderr.decode("utf-8", "replace")[-500:]):
                return
        f32, shape = onnx.TensorProto.FLOAT, ["n", 3]
        graph = onnx.helper.make_graph(
            [onnx.helper.make_node("Add", ["x", "x"], ["twice"]), onnx.helper.make_node("Cube", ["twice"], ["cubed"], domain="com.example", name="cube"),
             onnx.helper.make_node("Neg", ["cubed"], ["y"])],
            "g", [onnx.helper.make_tensor_value_info("x", f32, shape)], [onnx.helper.make_tensor_value_info("y", f32, shape)])
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("com.example", 1)]), d + "/model.onnx")
        x = np.arange(12, dtype=np.float32).reshape(4, 3)
        os.mkdir(d + "/in")
        np.save(d + "/in/x.npy", x)
        run = ["infer", d + "/model.onnx", "--inputs", d + "/in", "--outputs", d + "/out"]
        rc, got, err = Program(exe, d + "/cube")(*run, "--device", "cube")
        if check("example: infer", rc == 0, (rc, got, err[-300:])):
            check("example: result", np.array_equal(np.load(d + "/out/y.npy"), -(2 * x) ** 3))
        rc, got, _ = Program(exe, d + "/cube")("plan", d + "/model.onnx", "--shape", "x=100x3", "--device", "cube", "--nodes")
        check("example: plan", rc == 0 and {"cube:0"} == {n["device"] for n in got["placement"] if n["node"] == "cube"}, (rc, got))
        rc, got, _ = Program(exe)(*run)
        check("example: unknown without the plugin", rc == 5 and "Cube" in got["error"]["message"], (rc, got))
        os.rename(d + "/cube/libullage_plugin_cube.so", d + "/cube/libullage_plugin_whole.so")
        open(d + "/cube/libullage_plugin_cube.so", "wb").write(open(d + "/cube/libullage_plugin_whole.so", "rb").read()[:5000])
        rc, got, err = Program(exe, d + "/cube/libullage_plugin_cube.so")(*run, "--device", "cube")
        check("example: broken and named", rc == 5 and "libullage_plugin_cube.so" in got["error"]["message"], (rc, got))
        rc, got, err = Program(exe, d + "/cube/libullage_plugin_cube.so")("devices")
        check("example: broken and not named", rc == 0 and "libullage_plugin_cube.so" in err, (rc, got, err))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ullage", required=True)
    args = parser.parse_args()
    program = Program(args.ullage)
    model = os.path.join(ROOT, "tests", "zoo", "genai-llama-int4-cpu")
    example(args.ullage)
    rc, got, _ = program("devices", "--device", "reference")
    check("devices", rc == 0 and [d["name"] for d in got["devices"]] == ["reference:0", "cpu"], got)
    rc, got, _ = program("devices")
    check("devices that must be named", rc == 0 and all(d["provider"] != "reference" for d in got["devices"]), got)
    rc, got, _ = program("options")
    check("options", any(o["key"] == "ep.reference.capacity" and o["type"] == "size" for o in got["options"]), got)
    rc, got, _ = program("run", model, "--prompt-ids", "1,5,9", "--option", "ep.reference.capacty=1")
    check("nearest option", rc == 2 and "ep.reference.capacity" in got["error"]["message"], got)
    return finish("devices")


if __name__ == "__main__":
    sys.exit(main())
