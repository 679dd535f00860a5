#!/usr/bin/env python3
"""Decoders on an OpenCL device: results against the references of tests/zoo, and what runs where; nodes that run as one.

    opencl_check.py --ullage BIN

The last line is `opencl: N passed, N failed, N skipped`. Where there is no OpenCL device everything is skipped.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import zoo_check

# One of each kind: quantised weights, half floats with masks, norms of queries and keys, windowed caches, torch's
# own attention, a graph with convolutions.
DECODERS = ["genai-llama-int4-cpu", "genai-llama-fp16-cpu", "genai-qwen3-int4-cpu", "genai-gemma3-fp32-cpu",
            "genai-gemma2-fp32-cpu", "dynamo-llama-op23", "ts-resnet-op13"]
HEAVY = {"MatMul", "Gemm", "ullage:Linear", "ullage:MultiLinear", "com.microsoft:MatMulNBits", "Softmax",
         "com.microsoft:GroupQueryAttention", "com.microsoft:MultiHeadAttention", "Attention", "ullage:CachedAttention",
         "SimplifiedLayerNormalization", "com.microsoft:SkipSimplifiedLayerNormalization", "ullage:SwiGLU", "Conv",
         "com.microsoft:FusedConv", "com.microsoft:GatherBlockQuantized"}


def groups(z, folder):
    """Nodes that run as one give what they give one by one, to the bit, and what numpy gives."""
    for kind, numpy_type, atol in ((onnx.TensorProto.FLOAT, np.float32, 1e-5), (onnx.TensorProto.FLOAT16, np.float16, 4e-3)):
        name = f"groups/{np.dtype(numpy_type)}"
        rng = np.random.default_rng(7)
        x, s, b = (rng.standard_normal(d).astype(numpy_type) for d in ((2, 5, 48), (48,), (2, 1, 1)))
        nodes = [onnx.helper.make_node(*n) for n in (("Mul", ["x", "s"], ["xs"]), ("Add", ["xs", "b"], ["sum"]), ("Tanh", ["sum"], ["t"]),
                                                     ("Sub", ["t", "x"], ["y"]), ("Relu", ["xs"], ["z"]), ("Neg", ["s"], ["ns"]), ("Exp", ["ns"], ["e"]))]
        values = {"x": ["n", 5, 48], "s": [48], "b": ["n", 1, 1], "y": ["n", 5, 48], "z": ["n", 5, 48], "e": [48]}
        infos = {k: onnx.helper.make_tensor_value_info(k, kind, v) for k, v in values.items()}
        graph = onnx.helper.make_graph(nodes, "g", [infos[k] for k in "xsb"], [infos[k] for k in "yze"])
        model = os.path.join(folder, "group.onnx")
        onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), model)
        given = os.path.join(folder, "given")
        os.makedirs(given, exist_ok=True)
        for k, v in (("x", x), ("s", s), ("b", b)):
            np.save(os.path.join(given, k + ".npy"), v)
        p = subprocess.run([z.exe, "plan", model, *z.device, "--shape", "x=2x5x48", "--shape", "b=2x1x1", "--nodes", "--json"], capture_output=True, timeout=120)
        grouped = collections.Counter(n.get("group") for n in json.loads(p.stdout).get("placement", []))
        z.check(name + "/plan", sorted(v for k, v in grouped.items() if k is not None) != [2, 5] and str(grouped))
        got = []
        for fuse in "01":
            out = os.path.join(folder, "out" + fuse)
            p = subprocess.run([z.exe, "infer", model, *z.device, "--option", "ep.opencl.fuse=" + fuse, "--inputs", given, "--outputs", out],
                               capture_output=True, timeout=300)
            z.check(f"{name}/fuse={fuse}", p.returncode != 0 and p.stderr.decode("utf-8", "replace")[-300:])
            if p.returncode != 0:
                break
            got.append({k: np.load(os.path.join(out, k + ".npy")) for k in "yze"})
        if len(got) < 2:
            continue
        xs = (x * s).astype(numpy_type)
        want = {"y": np.tanh((xs + b).astype(np.float32)) - x, "z": np.maximum(xs, 0), "e": np.exp(-s.astype(np.float32))}
        for k in "yze":
            z.check(f"{name}/{k}", got[0][k].tobytes() != got[1][k].tobytes() and float(np.max(np.abs(got[0][k].astype(float) - got[1][k]))))
            z.check(f"{name}/{k}/numpy", not np.allclose(got[1][k].astype(float), want[k], rtol=1e-3 if numpy_type is np.float16 else 1e-5, atol=atol)
                    and float(np.max(np.abs(got[1][k].astype(float) - want[k]))))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--ullage", required=True)
    exe = os.path.abspath(ap.parse_args().ullage)
    listed = subprocess.run([exe, "devices", "--device", "opencl", "--json"], capture_output=True, timeout=120)
    devices = json.loads(listed.stdout).get("devices", []) if listed.returncode == 0 else []
    if not any(d["provider"] == "opencl" for d in devices):
        print("there is no OpenCL device on this machine")
        print("opencl: 0 passed, 0 failed, 1 skipped")
        return 0
    z = zoo_check.Zoo(exe, "opencl")
    for name in DECODERS:
        zoo_check.decoder(z, os.path.join(zoo_check.ROOT, name))
    for name in DECODERS[:5]:
        command = [z.exe, "plan", os.path.join(zoo_check.ROOT, name), *z.device, "--context", "128", "--nodes", "--json"]
        p = subprocess.run(command, capture_output=True, timeout=120)
        plan = json.loads(p.stdout)
        left = [f"{n['op']} {n['node']}" for n in plan.get("placement", [])
                if n["op"] in HEAVY and not n["device"].startswith("opencl")]
        z.check(f"{name}/placement", "placement" not in plan and plan or left)
    with tempfile.TemporaryDirectory() as folder:
        groups(z, folder)
    print(f"opencl: {z.passed} passed, {z.failed} failed, 0 skipped")
    return 1 if z.failed else 0


if __name__ == "__main__":
    sys.exit(main())
