#!/usr/bin/env python3
"""Decoders split between the host and simulated devices against the host alone: same tokens, whatever runs where.

    devices_check.py --ullage BIN [--models DIR]

Each split must put nodes on the device (the plan says how many). The device runs the host's kernels, so the tokens must be
the very same. The example plugin, which brings an operator of its own, is built by itself and run. The last line is
`devices: N passed, N failed`.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checks import check, finish  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
MODELS = ["genai-llama-int4-cpu", "genai-gemma3-fp32-cpu", "genai-llama-tied-int4-shared", "genai-qwen3-int4-cpu"]
PROMPT = "1,5,9,2,7,3,8,4"
ONE = ["--device", "reference"]
TWO = ["--device", "reference", "--option", "ep.reference.devices=2"]
SPLITS = {
    "everything": ONE,
    "first half": ONE + ["--assign", "reference(layers.0/); cpu(layers.1/)"],
    "second half": ONE + ["--assign", "cpu(layers.0/, embed_tokens); reference(layers.[1-9]/, lm_head)"],
    "attention": ONE + ["--assign", "reference(attn); cpu(mlp, layernorm, embed_tokens, lm_head, norm)"],
    "mlp": ONE + ["--assign", "reference(mlp); cpu(attn, layernorm, embed_tokens, lm_head)"],
    "range": ONE + ["--assign", "reference(layers.[0-0]/); cpu(layers.[1-9]/)"],
    "two devices, halves": TWO + ["--assign", "reference:0(layers.0/); reference:1(layers.[1-9]/)"],
    "two devices, attention and mlp": TWO + ["--assign", "reference:0(attn); reference:1(mlp)"],
    "some operators": ONE + ["--option", "ep.reference.kernels=MatMulNBits,MatMul,Linear,MultiLinear,Mul,Add"],
    "late": ONE + ["--option", "ep.reference.jitter_us=200", "--assign", "reference(attn); cpu(mlp)"],
    "two devices, late": TWO + ["--option", "ep.reference.jitter_us=200", "--assign", "reference:0(attn); reference:1(mlp)"],
}


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

    def tokens(self, model, *args):
        return self("run", model, "--prompt-ids", PROMPT, "--temperature", "0", "--max-tokens", "12", "--context", "64", "--batch-chunk", "5", *args)


def on_devices(program, model, args):
    """Nodes on each device, and the exit code, of the plan."""
    rc, plan, err = program("plan", model, "--context", "64", *args)
    return rc, {d["name"]: d["nodes"] for d in plan.get("devices", [])}, err or plan


def annotated(model, folder):
    """A copy whose nodes say which half they belong to."""
    shutil.copytree(model, folder)
    path = os.path.join(folder, "model.onnx")
    m = onnx.load(path, load_external_data=False)
    for node in m.graph.node:
        layer = re.search(r"layers\.(\d+)", node.name)
        node.metadata_props.add(key="layer_ann", value="first" if layer and layer.group(1) == "0" else "rest")
    onnx.save(m, path)
    return folder


def splits(program, model, name):
    rc, want, err = program.tokens(model)
    if not check(f"{name} on the host", rc == 0 and want.get("token_ids"), (rc, want, err)):
        return
    chosen = dict(SPLITS)
    with tempfile.TemporaryDirectory() as d:
        marked = annotated(model, d + "/marked")
        for split, args in list(chosen.items()) + [("annotations", ONE + ["--annotations", "reference(first); cpu(rest)"])]:
            source = marked if split == "annotations" else model
            rc, nodes, detail = on_devices(program, source, args)
            used = [n for d, n in nodes.items() if d != "cpu"]
            check(f"{name}, {split}: plan", rc == 0 and used and all(used), (rc, nodes, detail))
            rc, got, err = program.tokens(source, *args)
            check(f"{name}, {split}", rc == 0 and got.get("token_ids") == want["token_ids"], (rc, got.get("token_ids", got), want["token_ids"], err[-300:]))
            for memory in got.get("memory", []):
                check(f"{name}, {split}: {memory['device']} takes what was planned", memory["peak_bytes"] == memory["planned_bytes"], memory)


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
    parser.add_argument("--models", default=os.path.join(ROOT, "tests", "zoo"))
    args = parser.parse_args()
    program = Program(args.ullage)
    for name in MODELS:
        splits(program, os.path.join(args.models, name), name)
    model = os.path.join(args.models, MODELS[0])
    example(args.ullage)
    rc, got, _ = program("devices", "--device", "reference")
    check("devices", rc == 0 and [d["name"] for d in got["devices"]] == ["reference:0", "cpu"], got)
    rc, got, _ = program("devices")
    check("devices that must be named", rc == 0 and all(d["provider"] != "reference" for d in got["devices"]), got)
    rc, got, _ = program("options")
    check("options", any(o["key"] == "ep.reference.capacity" and o["type"] == "size" for o in got["options"]), got)
    rc, got, _ = program.tokens(model, "--option", "ep.reference.capacty=1")
    check("nearest option", rc == 2 and "ep.reference.capacity" in got["error"]["message"], got)
    return finish("devices")


if __name__ == "__main__":
    sys.exit(main())
