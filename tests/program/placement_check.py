#!/usr/bin/env python3
"""Rules, budgets and fallbacks as a user meets them: what is refused, what is told, and what strict mode makes of it.

    placement_check.py --ullage BIN

Graphs are made with the onnx package and run on the simulated device; results are compared with numpy. The last line is
`placement: N passed, N failed`.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checks import check, finish  # noqa: E402

DEVICE = ["--device", "reference"]


def run(exe, *args, cwd=None):
    p = subprocess.run([exe, *args, "--json"], capture_output=True, timeout=300, cwd=cwd)
    try:
        return p.returncode, json.loads(p.stdout.decode().strip().split("\n")[-1])
    except ValueError:
        return p.returncode, {"raw": p.stdout.decode("utf-8", "replace"), "stderr": p.stderr.decode("utf-8", "replace")}


def save(path, nodes, inputs, outputs, constants=()):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value(n, TensorProto.INT64 if n == "shape" else TensorProto.FLOAT, s) for n, s in inputs],
                              [value(n, TensorProto.FLOAT, s) for n, s in outputs], [numpy_helper.from_array(v, n) for n, v in constants])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def layers(path):
    """Four layers of a product with 16 KiB of weights and a Relu; what they are called, what they are marked with."""
    nodes, constants, last = [], [], "x"
    for i in range(4):
        product = helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"], name=f"/model/layers.{i}/MatMul")
        relu = helper.make_node("Relu", [f"m{i}"], [f"r{i}"], name=f"/model/layers.{i}/Relu, the \"last\"")
        for node in (product, relu):
            node.metadata_props.add(key="layer_ann", value=f"stage{i // 2}")
        nodes += [product, relu]
        constants.append((f"w{i}", np.full((64, 64), 0.01 * (i + 1), np.float32)))
        last = f"r{i}"
    save(path, nodes, [("x", ["rows", 64])], [(last, ["rows", 64])], constants)


def unbounded(path):
    """A product between what grows with n; its result does not."""
    save(path, [helper.make_node("Abs", ["x"], ["a"], name="grows/Abs"), helper.make_node("Transpose", ["a"], ["t"], name="grows/Transpose"),
                helper.make_node("MatMul", ["t", "a"], ["p"], name="grows/MatMul"), helper.make_node("Exp", ["p"], ["e"], name="fixed/Exp"),
                helper.make_node("Neg", ["e"], ["y"], name="fixed/Neg")],
         [("x", ["n", 4])], [("y", [4, 4])])


def from_data(path):
    """A size that the contents of an input decide."""
    save(path, [helper.make_node("ConstantOfShape", ["shape"], ["z"], name="grows/ConstantOfShape"), helper.make_node("Cos", ["z"], ["c"], name="grows/Cos"),
                helper.make_node("ReduceSum", ["c"], ["s"], name="grows/ReduceSum"), helper.make_node("Neg", ["s"], ["y"], name="fixed/Neg")],
         [("shape", [2])], [("y", [1, 1])])


def rules(exe, model):
    plan = ["plan", model, "--shape", "x=8x64", *DEVICE]
    for flag, text, code, says in (
            ("--assign", "cpu(layers.0/) reference(layers.1/)", 2, "position 15"),
            ("--assign", "reference layers.0", 2, "no parenthesis"),
            ("--assign", "reference(layers.0/", 2, "'(' without ')'"),
            ("--assign", "(layers.0/)", 2, "no device"),
            ("--assign", "npu:intel(layers.0/)", 2, "position 4"),
            ("--assign", "gpu:(layers.0/)", 2, "position 4"),
            ("--assign", "reference(=layers.0/)", 2, "'='"),
            ("--annotations", "reference(stage0, =stage0, stage0)", 2, "twice"),
            ("--assign", "npu(layers.0/)", 5, "there is no device npu"),
            ("--assign", "reference:1(layers.0/)", 5, "there is no device reference:1")):
        rc, got = run(exe, *plan, flag, text)
        check(f"{flag} {text}", rc == code and says in got.get("error", {}).get("message", ""), (rc, got))
    for text in ("", ";  ;", "reference(layers.[0-1]/); cpu(layers.2/)", "REFERENCE(x)"):
        rc, got = run(exe, *plan, "--assign", text)
        want = 5 if text.startswith("REF") else 0  # providers are compared exactly
        check(f"--assign {text!r}", rc == want, (rc, got))
    rc, got = run(exe, *plan, "--nodes", "--assign", "GPU(layers.[0-1]/); cpu(layers.2/)")
    placed = {n["node"]: (n["device"], n["reason"]) for n in got.get("placement", [])}
    check("rules: nodes and bytes", rc == 0 and [(r["nodes"], r["bytes"]) for r in got["rules"]] in ([(4, 32768), (2, 16384)], [(2, 32768), (1, 16384)]), (rc, got.get("rules")))
    check("rules: where", all(where == (("reference:0", "rule") if "layers.0/" in n or "layers.1/" in n else ("cpu", "rule") if "layers.2/" in n else ("reference:0", "automatic"))
                              for n, where in placed.items()) and placed, placed)
    rc, got = run(exe, *plan, "--annotations", "cpu(stage1)", "--nodes")
    check("annotations", rc == 0 and {n["device"] for n in got["placement"] if "layers.3/" in n["node"]} == {"cpu"}, (rc, got))
    rc, got = run(exe, *plan, "--assign", "cpu(layer.[0-1]/)")
    check("a rule that matches nothing is told", rc == 0 and any("matches nothing" in w and "layers.0" in w for w in got["warnings"]), (rc, got.get("warnings")))
    for strict in (["--strict"], ["--option", "session.strict_layer_assignment=1"]):
        rc, got = run(exe, *plan, *strict, "--assign", "cpu(layer.[0-1]/)")
        check(f"… and refused with {strict[0]}", rc == 2 and "layers.0" in got["error"]["message"], (rc, got))
    rc, got = run(exe, *plan, "--strict", "--assign", "cpu(layers.0)")
    check("a whole number is no cut one", rc == 0, (rc, got))
    rc, got = run(exe, *plan, "--strict", "--assign", "cpu(layers.0/); reference(layers.[0-0]/)")
    check("a rule whose nodes another has", rc == 2 and "fall under" in got["error"]["message"], (rc, got))


def budgets(exe, model, folder):
    plan = ["plan", model, "--shape", "x=8x64", *DEVICE]
    for value in ("100,", ",", "100,stats.csv", ",stats.csv"):
        rc, got = run(exe, *plan, "--option", f"session.resource_cuda_partitioning_settings={value}")
        check(f"cuda settings {value}: nothing without CUDA", rc == 0 and got["devices"][0]["limit_bytes"] == 4 << 30, (rc, got))
    for value in ("1000", "1,2,3", "x,"):
        rc, got = run(exe, *plan, "--option", f"session.resource_cuda_partitioning_settings={value}")
        check(f"cuda settings {value}", rc == 2 and "session.resource_cuda_partitioning_settings" in got["error"]["message"], (rc, got))
    os.mkdir(folder + "/in")
    np.save(folder + "/in/x.npy", np.ones((8, 64), np.float32))
    rc, got = run(exe, "infer", model, "--inputs", folder + "/in", "--outputs", folder + "/out", "--profile-csv", folder + "/stats.csv", "--device", "cpu",
                  "--option", "session.disabled_passes=all")
    header = open(folder + "/stats.csv").readline() if os.path.exists(folder + "/stats.csv") else ""
    check("statistics", rc == 0 and header.startswith("#name,input_sizes,initializers_sizes,total_dynamic_sizes,total_temp_allocations"), (rc, got, header))
    for size, nodes in (("1GiB", 4), ("40KiB", None), ("0", 0)):
        setting = f"session.resource_partitioning_settings=reference:{size},stats.csv"
        rc, got = run(exe, *plan, "--option", setting)
        here = got.get("devices", [{}])[0].get("nodes")
        check(f"budget {size} by statistics beside the model", rc == 0 and (0 < here < 4 if nodes is None else here in (nodes, 2 * nodes)), (rc, got))
    rc, got = run(exe, *plan, "--option", "session.resource_partitioning_settings=reference:1GiB,not_there.csv")
    check("statistics that are not there", rc == 2 and "not_there.csv" in got["error"]["message"], (rc, got))
    rc, got = run(exe, *plan, "--option", "session.resource_partitioning_settings=reference:40KiB")
    check("a budget divides what no rule names, untold", rc == 0 and not got["warnings"] and any(f["reason"] == "budget" for f in got["fallbacks"]), (rc, got))
    rc, got = run(exe, *plan, "--strict", "--assign", "reference(layers.)", "--option", "session.resource_partitioning_settings=reference:20KiB")
    check("strict: a rule's device is full", rc == 4 and "layers." in got["error"]["message"], (rc, got))


def fallbacks(exe, model, folder):
    os.makedirs(folder + "/open")
    rng = np.random.default_rng(1)
    for n in (3, 200):
        x = rng.standard_normal((n, 4)).astype(np.float32) / n
        np.save(folder + "/open/x.npy", x)
        rc, got = run(exe, "infer", model, "--inputs", folder + "/open", "--outputs", folder + "/result", *DEVICE)
        want = -np.exp(np.abs(x).T @ np.abs(x))
        check(f"sizes that nothing bounds run: {n} rows", rc == 0 and np.allclose(np.load(folder + "/result/y.npy"), want, rtol=1e-5), (rc, got))
    from_data(folder + "/from_data.onnx")
    os.makedirs(folder + "/shape")
    for rows in (1, 300, 7):
        np.save(folder + "/shape/shape.npy", np.array([rows, 5], np.int64))
        infer = ["infer", folder + "/from_data.onnx", "--inputs", folder + "/shape", "--outputs", folder + "/result", *DEVICE]
        rc, got = run(exe, *infer)
        check(f"sizes that data decide run: {rows} rows", rc == 0 and np.array_equal(np.load(folder + "/result/y.npy"), [[-5.0 * rows]]), (rc, got))
        check("… with the device", [m["planned_bytes"] > 0 for m in got["memory"] if m["device"] == "reference:0"] == [True], got)
    rc, got = run(exe, *infer, "--strict")
    check("strict: they are refused by name", rc == 5 and "(shape): nothing bounds the size of" in got.get("error", {}).get("message", ""), (rc, got))
    rc, got = run(exe, "plan", model, *DEVICE)
    check("a plan needs bounds", rc == 5 and got["error"]["details"]["unbounded"], (rc, got))
    rc, got = run(exe, "plan", model, *DEVICE, "--shape", "x=50x4", "--option", "ep.reference.kernels=Exp,Abs", "--nodes")
    where = {n["node"]: n["device"] for n in got.get("placement", [])}
    missing = [f for f in got.get("fallbacks", []) if f["reason"] == "no_kernel" and f["device"] == "reference:0"]
    check("missing kernels are counted", rc == 0 and where.get("fixed/Exp") == "reference:0" and where.get("fixed/Neg") == "cpu" and missing
          and any("did not go to reference:0 (no_kernel)" in w for w in got["warnings"]), (rc, got))
    rc, got = run(exe, "plan", model, *DEVICE, "--shape", "x=50x4", "--option", "ep.reference.kernels=Exp,Abs", "--strict")
    check("strict: a missing kernel", rc == 5 and "strict mode" in got["error"]["message"], (rc, got))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ullage", required=True)
    exe = os.path.abspath(parser.parse_args().ullage)
    with tempfile.TemporaryDirectory() as folder:
        layers(folder + "/layers.onnx")
        unbounded(folder + "/unbounded.onnx")
        rules(exe, folder + "/layers.onnx")
        budgets(exe, folder + "/layers.onnx", folder)
        fallbacks(exe, folder + "/unbounded.onnx", folder)
    return finish("placement")


if __name__ == "__main__":
    sys.exit(main())
