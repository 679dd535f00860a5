#!/usr/bin/env python3
"""Bounds of plain graphs on the command line: --shape, session.max_shape_override, what they promise and refuse.

    bounds_check.py --ullage BIN

Needs the PyPI packages numpy and onnx. References are numpy's. The last line is `bounds: N passed, N failed`.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPTION = "session.max_shape_override"
FIXED = "session.pre_allocate_execution_buffers=1"


class Program:
    def __init__(self, exe, root):
        self.exe, self.root, self.passed, self.failed = exe, root, 0, 0

    def json(self, *args):
        p = subprocess.run([self.exe, *map(str, args), "--json"], stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False)
        try:
            return p.returncode, json.loads(p.stdout)
        except ValueError:
            return p.returncode, {"broken": (p.stdout[-300:] + p.stderr[-300:]).decode("utf-8", "replace")}

    def check(self, what, ok, more=""):
        self.passed += bool(ok)
        self.failed += not ok
        if not ok:
            print(f"FAIL bounds: {what}: {str(more)[:500]}")

    def refused(self, what, status, code, words, *args):
        got, o = self.json(*args)
        e = o.get("error", {})
        self.check(what, got == status and e.get("code") == code and all(w in e.get("message", "") for w in words), (got, o))
        return e

    def infer(self, model, inputs, *args):
        """(exit status, answer, outputs)"""
        with tempfile.TemporaryDirectory(dir=self.root) as folder:
            folder = pathlib.Path(folder)
            (folder / "in").mkdir()
            for i, value in enumerate(inputs):
                (folder / "in" / f"input_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(value)).SerializeToString())
            got, o = self.json("infer", model, "--inputs", folder / "in", "--outputs", folder / "out", *args)
            outputs = [numpy_helper.to_array(onnx.load_tensor(p)) for p in sorted((folder / "out").glob("output_*.pb"))]
            return got, o, outputs


def model(path, nodes, inputs, outputs, initializers=()):
    infos = [[helper.make_tensor_value_info(n, t, s) for n, t, s in part] for part in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *infos, [numpy_helper.from_array(a, n) for n, a in initializers])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return path


def grammar(p, m):
    for text in ["x:[8,4", "x[8,4]", ":[8,4]", "x:[a,4]", "x:[0,4]", "x:[-1,4]", "x:[8,]", "x:[,4]", "x:[8,,4]", "x:[8,4];",
                 "x:[8,4];x:[8,4]", "x:[8,4];;y:[8,4]", "z:[1]", "x:[8]", "x:[8,5]", "x:[8,4];y:[7,4]"]:
        p.refused(f"override {text}", 2, "usage", [OPTION], "plan", m, "--option", f"{OPTION}={text}")
    for text in ["x", "=8x4", "x=8xx4", "x=-8x4", "x=8,4", "z=1", "x=8", "x=8x5"]:
        p.refused(f"--shape {text}", 2, "usage", ["--shape"], "plan", m, "--shape", text)
    p.refused("given twice", 2, "usage", ["x", "twice"], "plan", m, "--shape", "x=8x4", "--option", f"{OPTION}=x:[8,4]")


def plans(p, m):
    # y has the label of x, so one bound serves both.
    got, a = p.json("plan", m, "--shape", "x=8x4")
    p.check("--shape bounds the label", got == 0 and a["profiles"][0]["bounds"] == {"x": [8, 4], "y": [8, 4]}, a)
    got, b = p.json("plan", m, "--option", f"{OPTION}= x : [ 8 , 4 ] ")
    p.check("the option plans the same bytes", got == 0 and a["devices"] == b["devices"], b)
    got, c = p.json("plan", m, "--shape", "x=16x4")
    small, large = (o["devices"][0]["tags"]["activations"] for o in (a, c))
    p.check("activations grow with the bound", large == 2 * small > 0, (small, large))
    e = p.refused("no bound", 5, "unsupported", ["dimension 0 of input x", "--shape"], "plan", m)
    p.check("the names are listed", {"x", "y", "s"} <= set(e["details"]["unbounded"]), e)
    what = {v["value"]: v for v in e["details"]["values"]}
    p.check("with node and remedy", what["s"]["node"] == "add" and "dimension 0 of input x" in what["s"]["bounded_by"], e)
    got, o = p.json("bench", m, "--shape", "x=8x4", "-r", "1")
    p.check("bench takes --shape", got == 0 and o["latency_s"]["min"] > 0, o)


def runs(p, m, loop):
    x, y = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((3, 4), np.float32)
    for flags in (["--shape", "x=8x4"], ["--option", f"{OPTION}=x:[8,4]"], ["--shape", "x=8x4", "--option", FIXED], []):
        got, o, out = p.infer(m, [x, y], *flags)
        p.check(f"runs with {flags}", got == 0 and np.array_equal(out[0], np.maximum(x + y, 0)), (got, o))
    got, o, _ = p.infer(m, [x, y], "--shape", "x=2x4")
    e = o.get("error", {})
    p.check("a larger input is refused", got == 3 and e.get("code") == "invalid_input"
            and all(w in e["message"] for w in ("input x", "[3,4]", "2")), (got, o))
    got, o, out = p.infer(m, [x[:0], y[:0]], "--shape", "x=2x4", "--option", FIXED)
    p.check("an empty input is within", got == 0 and out[0].shape == (0, 4), (got, o))
    n = np.array(3, np.int64)
    got, o, out = p.infer(loop, [n])
    p.check("a loop whose trips the data say", got == 0 and np.array_equal(out[0], np.arange(3)), (got, o, out))
    got, o, _ = p.infer(loop, [n], "--option", FIXED)
    e = o.get("error", {})
    p.check("is refused where memory is promised", got == 5 and e.get("code") == "unsupported" and "node count" in e["message"]
            and e["details"]["unbounded"] == ["all"], (got, o))


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--ullage", required=True)
    with tempfile.TemporaryDirectory() as root:
        p = Program(ap.parse_args().ullage, root)
        m = model(f"{root}/add.onnx", [helper.make_node("Add", ["x", "y"], ["s"], "add"), helper.make_node("Relu", ["s"], ["r"], "relu")],
                  [("x", TensorProto.FLOAT, ["rows", 4]), ("y", TensorProto.FLOAT, ["rows", 4])], [("r", TensorProto.FLOAT, ["rows", 4])])
        body = helper.make_graph([helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Identity", ["i"], ["k"])], "body",
                                 [helper.make_tensor_value_info("i", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, [])],
                                 [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("k", TensorProto.INT64, [])])
        loop = model(f"{root}/loop.onnx", [helper.make_node("Loop", ["n", ""], ["all"], "count", body=body)],
                     [("n", TensorProto.INT64, [])], [("all", TensorProto.INT64, [None])])
        grammar(p, m)
        plans(p, m)
        runs(p, m, loop)
    print(f"bounds: {p.passed} passed, {p.failed} failed")
    return 1 if p.failed else 0


if __name__ == "__main__":
    sys.exit(main())
