#!/usr/bin/env python3
"""What makes plans smaller must not change a bit of any result: every graph runs with each technique switched off, and
with all of them.

    plan_switches_check.py --ullage BIN [--zoo DIR] [--models DIR]

Uses tests/zoo and tests/gguf; --zoo and --models add folders of exported models and .gguf files. The inputs are those
of ref/ref.npz. The last line is `switches: N passed, N failed, N skipped`.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
SWITCHES = ["order", "views", "in_place", "concat", "tiles"]
WAYS = {"all": [], **{f"without {s}": [f"plan_{s}=0"] for s in SWITCHES}, "none": [f"plan_{s}=0" for s in SWITCHES],
        "tiles of 3 rows": ["plan_tile_rows=3"], "tiles of 4 rows": ["plan_tile_rows=4"]}


def options(way):
    return [x for s in WAYS[way] for x in ("--option", f"session.{s}")]


class Check:
    def __init__(self, exe, tmp):
        self.exe, self.tmp, self.passed, self.failed, self.skipped = exe, tmp, 0, 0, 0

    def check(self, what, fault):
        self.passed += not fault
        self.failed += bool(fault)
        if fault:
            print(f"FAIL plan switches: {what}: {str(fault)[:300]}")

    def run(self, *args):
        return subprocess.run([self.exe, *args, "--json"], capture_output=True, stdin=subprocess.DEVNULL, timeout=600)


def cases(folder):
    """(case, model, feeds) of one folder."""
    ref = os.path.join(folder, "ref", "ref.npz")
    if not os.path.exists(ref):
        return
    with np.load(ref) as f:
        groups = {}
        for key in f.files:
            m = re.match(r"(?:(.*)/)?in/(.*)", key)
            if m:
                groups.setdefault(m.group(1) or "", {})[m.group(2)] = f[key]
        outs = {k: f[k] for k in f.files if k.startswith("prefill/out/present")}
    for case, feeds in groups.items():
        for name, value in groups.get("prefill", {}).items():
            if name in feeds or "past" not in name:
                continue
            present = outs.get("prefill/out/" + re.sub(r"past(_key_values)?", "present", name))
            batch = next(v.shape[0] for k, v in feeds.items() if "ids" in k or "embeds" in k)
            feeds[name] = present if case == "decode" and present is not None else np.zeros((batch, *value.shape[1:]), value.dtype)
        models = [p for p in (os.path.join(folder, f"{case}_model_merged.onnx"), os.path.join(folder, f"{case}_model.onnx"),
                              os.path.join(folder, f"{case}.onnx"), os.path.join(folder, "model.onnx")) if case and os.path.exists(p)]
        yield case or "in", models[0] if models else folder, feeds


def file_name(tensor):
    return re.sub(rb"[^A-Za-z0-9._-]", lambda m: b"%%%02X" % m.group()[0], tensor.encode()).decode() + ".npy"


def same(a, b):
    """What differs between two folders of results."""
    names = sorted(os.listdir(a))
    if names != sorted(os.listdir(b)):
        return f"results {names} and {sorted(os.listdir(b))}"
    for name in names:
        if name != "status" and open(os.path.join(a, name), "rb").read() != open(os.path.join(b, name), "rb").read():
            return f"{name} differs"
    return None


def graphs(c, folders):
    todo = []
    for folder in folders:
        for case, model, feeds in cases(folder):
            at = os.path.join(c.tmp, "in", str(len(todo)))
            os.makedirs(at)
            for name, value in feeds.items():
                np.save(os.path.join(at, file_name(name)), np.ascontiguousarray(value))
            todo.append((f"{os.path.basename(folder)}/{case}", model, at))
    for w, way in enumerate(WAYS):
        with open(os.path.join(c.tmp, "batch"), "w") as f:
            f.writelines(f"{model}\t{at}\t{c.tmp}/out{w}/{i}\n" for i, (_, model, at) in enumerate(todo))
        p = c.run("infer", "--batch", os.path.join(c.tmp, "batch"), *options(way))
        c.check(f"infer --batch, {way}", p.returncode and p.stderr.decode("utf-8", "replace"))
    for i, (what, _, _) in enumerate(todo):
        status = [open(f"{c.tmp}/out{w}/{i}/status").read() for w in range(len(WAYS))]
        if all(s == status[0] for s in status) and not status[0].startswith("ok"):
            c.skipped += 1
            continue
        for w, way in enumerate(WAYS):
            if w or not status[0].startswith("ok"):
                c.check(f"{what}, {way}", status[w] if not status[w].startswith("ok") else same(f"{c.tmp}/out0/{i}", f"{c.tmp}/out{w}/{i}"))


def decoders(c, models):
    """Logits of a prompt in chunks, with the caches of a session."""
    ids = os.path.join(c.tmp, "ids.json")
    with open(ids, "w") as f:
        json.dump([(np.arange(3, 40) * 7 % 200).tolist(), (np.arange(9) * 11 % 190).tolist()], f)
    for model in models:
        results = []
        for way in WAYS:
            at = os.path.join(c.tmp, "logits.npy")
            p = c.run("perplexity", model, "--ids", ids, "--logits", at, "--batch-chunk", "16", "--context", "64", *options(way))
            results.append(open(at, "rb").read() if p.returncode == 0 else p.stdout.decode("utf-8", "replace"))
        what = os.path.basename(model)
        if all(isinstance(r, str) for r in results):
            c.skipped += 1
            continue
        for way, result in zip(WAYS, results):
            c.check(f"{what}, {way}", result if isinstance(result, str) else result != results[0] and "logits differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ullage", required=True)
    parser.add_argument("--zoo")
    parser.add_argument("--models")
    args = parser.parse_args()
    zoos = [os.path.join(ROOT, "zoo")] + ([args.zoo] if args.zoo else [])
    folders = [f for zoo in zoos for f in sorted(glob.glob(os.path.join(zoo, "*"))) if os.path.isdir(f)]
    models = [f for f in folders if os.path.exists(os.path.join(f, "ref", "greedy.json"))]
    models += sorted(glob.glob(os.path.join(ROOT, "gguf", "**", "*.gguf"), recursive=True))
    models += sorted(glob.glob(os.path.join(args.models, "*.gguf"))) if args.models else []
    with tempfile.TemporaryDirectory() as tmp:
        c = Check(args.ullage, tmp)
        graphs(c, folders)
        decoders(c, models)
    print(f"switches: {c.passed} passed, {c.failed} failed, {c.skipped} skipped")
    return 1 if c.failed else 0


if __name__ == "__main__":
    sys.exit(main())
