#!/usr/bin/env python3
"""Plans against sessions: what `plan --shape` says, `infer --shape` reserves and counts, to the byte; remedies of plain
graphs; where weights lie; locks that the system refuses.

    residency_check.py --ullage BUILD/bin/ullage
"""
import argparse
import glob
import json
import os
import re
import resource
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from checks import check, finish

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
MODES = ["mapped", "copied", "locked", "copied_locked"]


def run(exe, *args, **kw):
    p = subprocess.run([exe, *map(str, args), "--json"], capture_output=True, text=True, stdin=subprocess.DEVNULL, **kw)
    try:
        return p.returncode, json.loads(p.stdout), p.stderr
    except ValueError:
        return p.returncode, {"broken": p.stdout[-300:]}, p.stderr


def save(folder, feeds):
    os.makedirs(folder, exist_ok=True)
    for name, value in feeds.items():
        name = re.sub(rb"[^A-Za-z0-9._-]", lambda m: b"%%%02X" % m.group()[0], name.encode()).decode()
        np.save(f"{folder}/{name}.npy", np.ascontiguousarray(value))


def zoo(work):
    """Name, file, feeds and answers of the graphs of tests/zoo without a cache."""
    for folder in sorted(glob.glob(os.path.join(ROOT, "tests/zoo/*/"))):
        try:
            ref = dict(np.load(folder + "ref/ref.npz"))
            with open(folder + "meta.json", encoding="utf-8") as f:
                file = folder + json.load(f)["models"][0]["file"]
        except (OSError, ValueError, LookupError):
            continue
        feeds = {k[3:]: v for k, v in ref.items() if k.startswith("in/")}
        if feeds:
            yield os.path.basename(folder.rstrip("/")), file, feeds


def made(work, rng):
    """Graphs with free sizes: a batch, an image, a table that is read where it lies."""
    value = lambda name, kind, dims: helper.make_tensor_value_info(name, kind, dims)
    def model(name, nodes, inputs, outputs, weights, external=True):
        path = os.path.join(work, name + ".onnx")
        proto = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
        onnx.save(proto, path, save_as_external_data=external, location=name + ".data", size_threshold=0)
        return path
    f = TensorProto.FLOAT
    w = lambda name, *dims: numpy_helper.from_array(rng.standard_normal(dims, dtype=np.float32), name)
    mlp = model("mlp", [helper.make_node("MatMul", ["x", "w1"], ["h"]), helper.make_node("Tanh", ["h"], ["t"]), helper.make_node("MatMul", ["t", "w2"], ["y"])],
                [value("x", f, ["batch", 256])], [value("y", f, ["batch", 64])], [w("w1", 256, 2048), w("w2", 2048, 64)])
    yield "mlp", mlp, {"x": rng.standard_normal((16, 256), dtype=np.float32)}, {"x": [64, 256]}
    conv = model("conv", [helper.make_node("Conv", ["x", "w1"], ["h"], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["h"], ["r"]), helper.make_node("Conv", ["r", "w2"], ["y"], pads=[1, 1, 1, 1])],
                 [value("x", f, ["n", 3, "h", "w"])], [value("y", f, ["n", 3, "h", "w"])], [w("w1", 32, 3, 3, 3), w("w2", 3, 32, 3, 3)])
    yield "conv", conv, {"x": rng.standard_normal((2, 3, 64, 48), dtype=np.float32)}, {"x": [4, 3, 128, 128]}
    table = model("table", [helper.make_node("Gather", ["table", "ids"], ["e"]), helper.make_node("Add", ["e", "b"], ["y"])],
                  [value("ids", TensorProto.INT64, ["n"])], [value("y", f, ["n", 96])], [w("table", 20000, 96), w("b", 96)])
    yield "table", table, {"ids": np.arange(40, dtype=np.int64) * 37}, {"ids": [100]}


def flags(bounds):
    return [x for name, dims in bounds.items() for x in ("--shape", f"{name}={'x'.join(map(str, dims))}")]


def plan_is_what_runs(exe, work, models):
    for name, file, feeds, bounds in models:
        inputs, outputs = os.path.join(work, name + "-in"), os.path.join(work, name + "-out")
        save(inputs, feeds)
        results = {}
        for mode in MODES:
            for more in [[], ["--option", "session.pre_allocate_execution_buffers=1"]]:
                args = [*flags(bounds), "--threads", 2, "--option", f"session.weights_resident={mode}", *more]
                code, plan, err = run(exe, "plan", file, *args)
                where = f"{name}, {mode}{', reserved' if more else ''}"
                if not check(f"{where}: planned", code == 0, (code, plan, err)):
                    continue
                code, ran, err = run(exe, "infer", file, "--inputs", inputs, "--outputs", outputs, *args)
                device, memory = plan["devices"][0], ran.get("memory", [{}])[0]
                check(f"{where}: infer reserves what was planned", code == 0 and device["planned_bytes"] == memory.get("planned_bytes") == memory.get("peak_bytes"), (device["planned_bytes"], ran, err))
                check(f"{where}: tags add up", sum(device["tags"].values()) == device["planned_bytes"] and device["weights_resident"] == mode, device)
                check(f"{where}: mapped bytes", (device["mapped_bytes"] == 0) if mode.startswith("copied") else device["mapped_bytes"] <= device["tags"]["weights"], device)
                results[mode + str(more)] = {os.path.basename(f): np.load(f).tobytes() for f in glob.glob(outputs + "/*.npy")}
                for f in glob.glob(outputs + "/*"):
                    os.remove(f)
        check(f"{name}: the same results wherever weights lie", len(results) == 8 and len({json.dumps({k: v.hex() for k, v in sorted(r.items())}) for r in results.values()}) == 1)


def remedies(exe, work, models):
    for name, file, feeds, bounds in models:
        code, free, _ = run(exe, "plan", file, *flags(bounds), "--threads", 2)
        need = free["devices"][0]["planned_bytes"]
        fixed = sum(free["devices"][0]["tags"][t] for t in ("weights", "prepacked"))
        offered = 0
        for limit in [fixed + (need - fixed) * part // 8 for part in (1, 3, 5, 7)]:
            code, plan, err = run(exe, "plan", file, *flags(bounds), "--threads", 2, "--limit", f"cpu={limit}")
            check(f"{name} with {limit}: does not fit", code == 4 and plan["fits"] is False, (code, plan))
            for remedy in plan["shortfall"][0]["remedies"]:
                offered += 1
                words = remedy["change"].split(" ")
                again = [*words] if any(x.startswith("--shape") for x in words) else [*flags(bounds), *words]
                threads = [] if "--threads" in words else ["--threads", 2]
                code, plan, err = run(exe, "plan", file, *again, *threads, "--limit", f"cpu={limit}")
                check(f"{name} with {limit}: {remedy['change']} fits", code == 0 and plan["devices"][0]["planned_bytes"] == remedy["planned_bytes"] <= limit, (code, plan.get("devices"), err))
        check(f"{name}: remedies are offered", offered >= 3, offered)
        # A run knows its inputs: what is offered holds them.
        inputs = os.path.join(work, name + "-in")
        code, ran, _ = run(exe, "infer", file, "--inputs", inputs, "--outputs", work + "/out", *flags(bounds), "--threads", 2, "--limit", f"cpu={need - 64}")
        short = ran.get("error", {}).get("details", {}).get("shortfall", [{}])[0]
        check(f"{name}: infer refuses", code == 4 and short.get("planned_bytes") == need, ran)
        for remedy in short.get("remedies", []):
            words = remedy["change"].split(" ")
            again = [*words] if "--shape" in words else [*flags(bounds), *words]
            threads = [] if "--threads" in words else ["--threads", 2]
            code, ran, err = run(exe, "infer", file, "--inputs", inputs, "--outputs", work + "/out", *again, *threads, "--limit", f"cpu={need - 64}")
            check(f"{name}: infer with {remedy['change']}", code == 0 and ran["memory"][0]["planned_bytes"] == remedy["planned_bytes"], (code, ran, err))


def refused_locks(exe, file, work):
    """As a user who may lock one page."""
    inputs = os.path.join(work, "table-in")

    def ordinary():
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (4096, 4096))
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

    for folder in (work, inputs):
        os.chmod(folder, 0o755)
        for name in os.listdir(folder):
            if os.path.isfile(os.path.join(folder, name)):
                os.chmod(os.path.join(folder, name), 0o644)
    out = os.path.join(work, "unlocked")
    os.makedirs(out, exist_ok=True)
    os.chmod(out, 0o777)
    try:
        probe = subprocess.run([exe, "version"], capture_output=True, preexec_fn=ordinary).returncode
    except OSError as e:
        probe = e
    if probe != 0:
        print("     the program cannot be run by an ordinary user here; refused locks are not checked")
        return
    args = ["infer", file, "--inputs", inputs, "--outputs", out, "--shape", "ids=100", "--option", "session.weights_resident=locked"]
    code, ran, err = run(exe, *args, preexec_fn=ordinary)
    check("a refused lock is a warning", code == 0 and "cannot lock" in err and "4096" in err, (code, ran, err))
    code, ran, err = run(exe, *args, "--strict", preexec_fn=ordinary)
    check("strict: it is an error", code == 4 and "cannot lock" in ran["error"]["message"], (code, ran, err))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--ullage", required=True)
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as work:
        models = list(made(work, np.random.default_rng(3)))
        small = [(n, f, feeds, {k: list(v.shape) for k, v in feeds.items()}) for n, f, feeds in list(zoo(work))[:3]]
        plan_is_what_runs(a.ullage, work, models + small)
        remedies(a.ullage, work, models[:2])
        refused_locks(a.ullage, models[2][1], work)
    code, out, _ = run(a.ullage, "plan", os.path.join(ROOT, "tests/zoo/genai-llama-int4-cpu"), "--option", "session.weights_resident=here")
    check("an unknown residency is a usage error", code == 2, (code, out))
    return finish("residency")


if __name__ == "__main__":
    sys.exit(main())
