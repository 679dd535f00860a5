#!/usr/bin/env python3
"""Installs the built library, builds examples/run_graph against the installation as a stranger would, and compares
what it prints with ONNX Runtime.

    library_check.py --ullage BUILD/bin/ullage
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from checks import check, finish

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))


def run(args, **kw):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, **kw)


def model(path):
    """y = relu(x W), n = rows of x; the number of rows is open."""
    w = (np.arange(12, dtype=np.float32) - 5).reshape(4, 3) / 4
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["m"], name="product"), helper.make_node("Relu", ["m"], ["y"], name="relu")],
        "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 3])], [onnx.numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--ullage", required=True)
    a = ap.parse_args()
    build = os.path.abspath(os.path.join(os.path.dirname(a.ullage), ".."))
    with tempfile.TemporaryDirectory() as tmp:
        prefix, out = os.path.join(tmp, "prefix"), os.path.join(tmp, "build")
        p = run(["cmake", "--install", build, "--prefix", prefix])
        if not check("install", p.returncode == 0, p.stdout[-2000:]):
            return
        private = [f for f in os.listdir(os.path.join(prefix, "include")) if f != "ullage"]
        check("only public headers are installed", not private, private)
        p = run(["cmake", "-S", os.path.join(ROOT, "examples/run_graph"), "-B", out, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release"])
        if not check("find_package", p.returncode == 0, p.stdout[-2000:]):
            return
        p = run(["cmake", "--build", out])
        if not check("build", p.returncode == 0, p.stdout[-3000:]):
            return
        exe, path = os.path.join(out, "run_graph"), os.path.join(tmp, "model.onnx")
        model(path)
        x = (np.arange(20) % 3).astype(np.float32).reshape(5, 4)
        want = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0].reshape(-1)[:8]
        for extra in ([], ["session.pre_allocate_execution_buffers=1"]):
            p = run([exe, path, "x=5x4"] + extra)
            found = re.search(r"^result y \[5,3\]:(.*)$", p.stdout, re.M)
            got = np.array(found.group(1).split(), dtype=np.float32) if found else None
            check(f"results {extra}", p.returncode == 0 and got is not None and np.allclose(got, want, atol=1e-4), p.stdout)
            check(f"bounds {extra}", "input  x: float32 [<= 5, 4]" in p.stdout and "output y: float32 [<= 5, 3]" in p.stdout, p.stdout)
            if extra:
                check("a Run allocates nothing", "allocations while running 0" in p.stdout, p.stdout)
        p = run([exe, path])
        check("no bounds", p.returncode == 0 and "input  x: float32 [rows, 4]" in p.stdout and "result y [1,3]" in p.stdout, p.stdout)
        p = run([exe, path, "session.pre_allocate_execution_buffers=1"])
        check("no bounds, pre-allocated: refused by name", p.returncode == 1 and "y" in p.stdout and "bound" in p.stdout, p.stdout)
        p = run([exe, path, "session.no_such_option=1"])
        check("unknown option", p.returncode == 1 and "session.no_such_option" in p.stdout, p.stdout)
        p = run([exe, os.path.join(tmp, "none.onnx")])
        check("missing model", p.returncode == 1 and "none.onnx" in p.stdout, p.stdout)


if __name__ == "__main__":
    main()
    sys.exit(finish("library"))
