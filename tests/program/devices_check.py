#!/usr/bin/env python3
"""Devices and their options on the command line.

    devices_check.py --ullage BIN

The last line is `devices: N passed, N failed`. Models on devices: splits_check.py; plugins of one's own: examples_check.py.
"""
import argparse
import os
import sys
import tempfile

import numpy as np
import onnx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checks import Program, check, finish  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def groups(program):
    """Groups that the simulated device proposes run as one, with the host's very tokens; passes would leave it few."""
    bare = ["--option", "session.disabled_passes=all", "--context", "64"]
    fused = ["--device", "reference", "--option", "ep.reference.fuse=16"]
    halves = ["--device", "reference", "--option", "ep.reference.fuse=3", "--option", "ep.reference.devices=2", "--option",
              "ep.reference.jitter_us=100", "--assign", "reference:0(layers.0/); reference:1(layers.[1-9]/)"]
    for name in ("optimum-llama", "genai-llama-fp16-cpu"):
        model = os.path.join(ROOT, "tests", "zoo", name)
        run = ["run", model, "--prompt-ids", "1,5,9,2,7,3,8,4", "--temperature", "0", "--max-tokens", "12", *bare]
        rc, want, err = program(*run)
        if not check(f"groups: {name} on the host", rc == 0 and want.get("token_ids"), (rc, want, err)):
            continue
        for kind, args in (("one device", fused), ("two devices", halves)):
            rc, plan, err = program("plan", model, "--nodes", *bare, *args)
            in_groups = [n for n in plan.get("placement", []) if "group" in n]
            check(f"groups: {name}, {kind}: plan", rc == 0 and len(in_groups) >= 4 and not any(n["device"] == "cpu" for n in in_groups), (rc, len(in_groups), err))
            rc, got, err = program(*run, *args)
            check(f"groups: {name}, {kind}", rc == 0 and got.get("token_ids") == want["token_ids"], (rc, got.get("token_ids", got), want["token_ids"], err[-300:]))
            for memory in got.get("memory", []):
                check(f"groups: {name}, {kind}: {memory['device']} takes what was planned", memory["peak_bytes"] == memory["planned_bytes"], memory)


def contents(program):
    """A few numbers on a device, that the host must not look at to find a shape."""
    f32, i64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    zero = onnx.numpy_helper.from_array(np.array(0, np.float32), "zero")
    nodes = [onnx.helper.make_node(*n) for n in (("Tanh", ["x"], ["t"]), ("Greater", ["t", "zero"], ["m"]), ("NonZero", ["m"], ["y"]))]
    graph = onnx.helper.make_graph(nodes, "g", [onnx.helper.make_tensor_value_info("x", f32, [2, 4])],
                                   [onnx.helper.make_tensor_value_info("y", i64, [2, "n"])], [zero])
    with tempfile.TemporaryDirectory() as d:
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), d + "/model.onnx")
        x = np.array([[-1, 2, 3, -4], [5, -6, 7, 8]], np.float32)
        os.mkdir(d + "/in")
        np.save(d + "/in/x.npy", x)
        rc, plan, err = program("plan", d + "/model.onnx", "--device", "reference", "--nodes")
        check("contents: on the device", rc == 0 and all(n["device"] == "reference:0" for n in plan["placement"]), (rc, plan, err))
        rc, got, err = program("infer", d + "/model.onnx", "--inputs", d + "/in", "--outputs", d + "/out", "--device", "reference")
        check("contents: result", rc == 0 and np.array_equal(np.load(d + "/out/y.npy"), np.array(np.nonzero(x > 0))), (rc, got, err))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ullage", required=True)
    args = parser.parse_args()
    program = Program(args.ullage)
    model = os.path.join(ROOT, "tests", "zoo", "genai-llama-int4-cpu")
    groups(program)
    contents(program)
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
