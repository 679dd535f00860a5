#!/usr/bin/env python3
"""Models of half floats on a simulated device that computes in float32 only: casts around its nodes.

    casts_check.py --ullage BIN

Decoders of tests/zoo are compared with their references, a graph with large weights with numpy. Memory must be what was
planned, whatever the limit. The last line is `casts: N passed, N failed`.
"""
import argparse
import json
import os
import stat
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import zoo_check
from checks import check, finish

TYPES = ["--option", "ep.reference.types=float32,int64,int32,bool,uint8"]
DEVICE = ["--device", "reference", *TYPES]
DECODERS = ["genai-llama-fp16-cpu", "genai-qwen2-fp16-cuda"]
SPLITS = {"one device": [], "two devices": ["--option", "ep.reference.devices=2", "--assign", "reference:0(layers.0/); reference:1(layers.1/)"],
          "mlp": ["--assign", "reference(mlp); cpu(attn, embed_tokens, lm_head)"], "late": ["--option", "ep.reference.jitter_us=100"]}


def run(exe, *args):
    p = subprocess.run([exe, *args, "--json"], capture_output=True, timeout=300)
    try:
        return p.returncode, json.loads(p.stdout.decode().strip().split("\n")[-1])
    except ValueError:
        return p.returncode, {"raw": p.stdout.decode("utf-8", "replace"), "stderr": p.stderr.decode("utf-8", "replace")}


def always(folder, exe, args):
    """A program that is `exe` with those arguments, too."""
    path = os.path.join(folder, "with")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'#!/bin/sh\nexec "{exe}" "$@" ' + " ".join(f"'{a}'" for a in args) + "\n")
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path


def exact(memory):
    return all(m["peak_bytes"] == m["planned_bytes"] and m["allocations_during_run"] == 0 for m in memory) and memory


def decoders(exe, folder):
    for name in DECODERS:
        model = os.path.join(zoo_check.ROOT, name)
        ask = ["run", model, "--prompt-ids", "1,5,9,2,7,3", "--temperature", "0", "--max-tokens", "10", "--context", "64"]
        for split, args in SPLITS.items():
            z = zoo_check.Zoo(always(folder, exe, [*TYPES, *args]), "reference")
            zoo_check.decoder(z, model)
            check(f"{name}, {split}: as the reference", z.passed > 0 and z.failed == 0, (z.passed, z.failed))
            rc, got = run(exe, *ask, *DEVICE, *args)
            check(f"{name}, {split}: memory", rc == 0 and exact(got["memory"]), (rc, got))
        plan = ["plan", model, "--context", "64", "--nodes"]
        rc, got = run(exe, *plan, *DEVICE)
        wide = [n for n in got.get("placement", []) if n.get("computes_in") == "float32"]
        check(f"{name}: plan", rc == 0 and len(wide) > 8 and all(n["device"] == "reference:0" for n in wide), (rc, len(wide), got.get("error")))
        check(f"{name}: told", any("nodes run in float32 on reference:0, which has no float16 kernel for" in w for w in got["warnings"]), got["warnings"])
        rc, off = run(exe, *plan, *DEVICE, "--option", "session.insert_casts=0")
        check(f"{name}: switched off", rc == 0 and off["devices"][0]["nodes"] < got["devices"][0]["nodes"] and off["devices"][0]["tags"]["weights"] + off["devices"][0]["tags"]["prepacked"] == 0
              and not any("computes_in" in n for n in off["placement"]), (rc, off["devices"][0]))
        rc, strict = run(exe, *plan, *DEVICE, "--strict")
        check(f"{name}: strict", rc == 5 and "float16" in strict["error"]["message"], (rc, strict))
        whole = got["devices"][0]["planned_bytes"]
        nodes = -1
        rc, want = run(exe, *ask)
        for limit in range(0, whole + whole // 4, whole // 4):
            rc, got = run(exe, *ask, *DEVICE, "--limit", f"reference={limit}")
            device = next((m for m in got.get("memory", []) if m["device"] == "reference:0"), None)
            check(f"{name}: limit of {limit}", rc == 0 and device["planned_bytes"] <= limit and exact(got["memory"]) and len(got["token_ids"]) == len(want["token_ids"]), (rc, got))
            rc, got = run(exe, *plan, *DEVICE, "--limit", f"reference={limit}")
            check(f"{name}: limit of {limit}: more fits in more", rc == 0 and got["devices"][0]["nodes"] >= nodes, (rc, nodes, got["devices"][0]["nodes"]))
            nodes = got["devices"][0]["nodes"]


def large_weights(exe, folder):
    """Weights that are converted while they are loaded: packed, read as they are, and by two nodes."""
    rng = np.random.default_rng(3)
    w = (rng.standard_normal((384, 384)) / 20).astype(np.float16)
    u = rng.standard_normal((300, 384)).astype(np.float16)
    node = helper.make_node
    graph = helper.make_graph(
        [node("MatMul", ["x", "w"], ["a"], name="first"), node("Relu", ["a"], ["r"], name="second"), node("MatMul", ["r", "w"], ["b"], name="third"),
         node("Add", ["b", "u"], ["c"], name="fourth"), node("Mul", ["c", "u"], ["y"], name="fifth")], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, [300, 384])], [helper.make_tensor_value_info("y", TensorProto.FLOAT16, [300, 384])],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(u, "u")])
    model = folder + "/large.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    x = rng.standard_normal((300, 384)).astype(np.float16)
    os.mkdir(folder + "/in")
    np.save(folder + "/in/x.npy", x)
    f = np.float32
    want = ((np.maximum(x.astype(f) @ w.astype(f), 0) @ w.astype(f)) + u.astype(f)) * u.astype(f)
    infer = ["infer", model, "--inputs", folder + "/in", "--outputs", folder + "/out"]
    for what, args in (("casts", DEVICE), ("casts, strict and asked for", [*DEVICE, "--strict", "--option", "session.insert_casts=1"]),
                       ("one pass less", [*DEVICE, "--option", "session.disabled_passes=all"])):
        rc, got = run(exe, *infer, *args)
        if check(f"large weights, {what}", rc == 0, (rc, got)):
            y = np.load(folder + "/out/y.npy")
            check(f"large weights, {what}: float32 but for the ends", y.dtype == np.float16 and np.allclose(y.astype(f), want, rtol=1.5e-3, atol=2e-3), np.abs(y.astype(f) - want).max())
            check(f"large weights, {what}: memory", exact(got["memory"]), got["memory"])
    rc, plan = run(exe, "plan", model, *DEVICE, "--nodes")
    tags, host = plan["devices"][0]["tags"], plan["devices"][-1]["tags"]
    both = w.size * 4 + u.size * 4
    check("large weights: in float32 on the device", rc == 0 and both <= tags["weights"] + tags["prepacked"] <= both + both // 8, tags)
    check("large weights: one at a time on the host", host["staging"] == w.size * 4 and host["weights"] == 0, host)
    casts = [n for n in plan["placement"] if n["op"] == "Cast"]
    check("large weights: two casts", len(casts) == 2 and all(n["device"] == "cpu" for n in casts), casts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ullage", required=True)
    exe = os.path.abspath(parser.parse_args().ullage)
    with tempfile.TemporaryDirectory() as folder:
        large_weights(exe, folder)
        decoders(exe, folder)
    return finish("casts")


if __name__ == "__main__":
    sys.exit(main())
