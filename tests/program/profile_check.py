#!/usr/bin/env python3
"""Node memory statistics: the file that `infer --profile-csv` and the option session.collect_node_memory_stats_to_file
write, compared with ONNX Runtime's keys and with sizes computed from the tensors' shapes.

    profile_check.py --ullage BUILD/bin/ullage
"""
import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from checks import check, finish

COLUMNS = ["#name", "input_sizes", "initializers_sizes", "total_dynamic_sizes", "total_temp_allocations"]


# Nodes as exporters and people name them. The second reads the weight of the first, the last reads an input again.
NODES = [("MatMul", ["x", "w"], ["m"], "/layer.0/MatMul, \"quoted\", and more"), ("Relu", ["m"], ["r"], ""),
         ("MatMul", ["r", "w"], ["p"], "# not a comment"), ("Clip", ["p", "", "hi"], ["c"], "clip"), ("Add", ["c", "x"], ["y"], "the end\"")]


def make_model(path):
    graph = helper.make_graph(
        [helper.make_node(op, i, o, name=n) for op, i, o, n in NODES], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 4])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", 4])],
        [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w"), numpy_helper.from_array(np.float32(3), "hi")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def reference_keys(path, folder):
    """ONNX Runtime's keys: everything before the last four commas of a line."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.collect_node_memory_stats_to_file", "ort.csv")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    session.run(None, {"x": np.ones((2, 4), np.float32)})
    del session
    with open(os.path.join(folder, "ort.csv")) as f:
        return {line.rsplit(",", 4)[0] for line in f.read().splitlines()[1:] if line}


def expected(rows):
    """By position: sizes of inputs, initializers and outputs, each value charged once."""
    size = {"x": 16 * rows, "w": 64, "hi": 4, **{v: 16 * rows for v in "mrpcy"}}
    seen, out = set(), []
    for _, inputs, outputs, _ in NODES:
        row = [0, 0, 0]
        for names, kind in ((inputs, None), (outputs, 2)):
            for n in names:
                if n and n not in seen:
                    seen.add(n)
                    row[kind if kind is not None else (1 if n in ("w", "hi") else 0)] += size[n]
        out.append(row)
    return out


def read(path):
    with open(path, newline="") as f:
        return list(csv.reader(f))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--ullage", required=True)
    a = ap.parse_args()
    a.ullage = os.path.abspath(a.ullage)
    with tempfile.TemporaryDirectory() as tmp:
        model, keys = os.path.join(tmp, "model.onnx"), None
        make_model(model)
        keys = reference_keys(model, tmp)
        check("reference", len(keys) == 5, keys)
        cases = []
        for rows in (2, 7, 3):
            folder = os.path.join(tmp, f"in{rows}")
            os.makedirs(folder)
            np.save(os.path.join(folder, "x.npy"), np.ones((rows, 4), np.float32))
            cases.append(f"{model}\t{folder}\t{os.path.join(tmp, f'out{rows}')}")
        plain = ["--option", "session.disabled_passes=all", "--threads", "1"]

        def infer(*args):
            return subprocess.run([a.ullage, "infer", *args, *plain], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, cwd=tmp)

        # One run.
        p = infer(model, "--inputs", "in2", "--outputs", "out", "--profile-csv", "one.csv")
        if check("infer --profile-csv", p.returncode == 0, p.stdout):
            rows = read(os.path.join(tmp, "one.csv"))
            check("columns", rows[0] == COLUMNS, rows[0])
            table = {r[0]: [int(n) for n in r[1:]] for r in rows[1:]}
            check("five fields each", all(len(r) == 5 for r in rows), rows)
            keys = {k.replace("Relu_", "r_") for k in keys}  # an unnamed node is named after its output here
            check("keys are ONNX Runtime's", set(table) == keys, (sorted(table), sorted(keys)))
            for (_, _, _, name), want in zip(NODES, expected(2)):
                got = [v[:3] for k, v in table.items() if k.rsplit("_", 1)[0] == (name or "r")]
                check(f"sizes of {name or 'r'}", got == [want], (got, want))

        # Several runs: the largest of each field.
        batch = os.path.join(tmp, "batch.tsv")
        with open(batch, "w") as f:
            f.write("\n".join(cases) + "\n")
        p = infer("--batch", batch, "--profile-csv", "many.csv", "--option", "session.collect_node_memory_stats_live_peak=1")
        if check("infer --batch --profile-csv", p.returncode == 0 and p.stdout.count('"ok"') == 3, p.stdout):
            rows = read(os.path.join(tmp, "many.csv"))
            check("columns with the live peak", rows[0] == COLUMNS + ["peak_temp_allocations"], rows[0])
            check("peaks are not below sums", all(int(r[5]) >= int(r[4]) for r in rows[1:]), rows)
            for (_, _, _, name), want in zip(NODES, expected(7)):
                got = [[int(n) for n in r[1:4]] for r in rows[1:] if r[0].rsplit("_", 1)[0] == (name or "r")]
                check(f"largest sizes of {name or 'r'}", got == [want], (got, want))

        # The session's option: relative to the model's folder, whatever the current one is.
        decoder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../gguf/models")
        gguf = sorted(f for f in os.listdir(decoder) if f.endswith(".gguf"))[0]
        os.symlink(os.path.join(decoder, gguf), os.path.join(tmp, gguf))
        p = subprocess.run([a.ullage, "run", os.path.join(tmp, gguf), "--prompt-ids", "1,2,3", "--max-tokens", "4", "--context", "32", "--json",
                            "--option", "session.collect_node_memory_stats_to_file=decoder.csv"], stdout=subprocess.PIPE, text=True, timeout=120)
        path = os.path.join(tmp, "decoder.csv")
        if check("option", p.returncode == 0 and os.path.exists(path), p.stdout):
            rows = read(path)
            check("rows of a decoder", rows[0] == COLUMNS and len(rows) > 5 and all(len(r) == 5 for r in rows), rows[:3])
            check("scratch is counted", sum(int(r[4]) for r in rows[1:]) > 0, rows[:5])
            check("weights are counted", sum(int(r[2]) for r in rows[1:]) > 1000, rows[:5])
        p = subprocess.run([a.ullage, "run", os.path.join(tmp, gguf), "--prompt-ids", "1", "--max-tokens", "1", "--json",
                            "--option", "session.collect_node_memory_stats_to_file=/no/such/folder/x.csv"], stdout=subprocess.PIPE, text=True, timeout=120)
        check("a file that cannot be written is refused at once", p.returncode == 2 and json.loads(p.stdout)["error"]["code"] == "usage", p.stdout)


if __name__ == "__main__":
    main()
    sys.exit(finish("profile"))
