#!/usr/bin/env python3
"""The models, tokenizers and templates of tests/zoo against the references that lie beside them.

    zoo_check.py --ullage BIN [--device NAME]

With --device only models are checked, on that device.

The last line is `zoo: N passed, N failed, N skipped`.
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
import onnx

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "zoo"))


class Zoo:
    def __init__(self, exe, device=None):
        self.exe, self.passed, self.failed = exe, 0, 0
        self.device = ["--device", device] if device else []

    def check(self, where, fault):
        self.passed += not fault
        self.failed += bool(fault)
        if fault:
            print(f"FAIL zoo {where}: {str(fault)[:300]}")

    def json_lines(self, args, requests):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as f:
            f.writelines(json.dumps(r) + "\n" for r in requests)
            f.flush()
            out = subprocess.run([self.exe, *args, "--batch", f.name, "--json"], capture_output=True, timeout=120).stdout
        return [json.loads(x) for x in out.decode("utf-8").split("\n") if x.strip()]

    def infer(self, model, feeds):
        with tempfile.TemporaryDirectory() as d:
            for name, value in feeds.items():
                file = re.sub(rb"[^A-Za-z0-9._-]", lambda m: b"%%%02X" % m.group()[0], name.encode()).decode()
                os.makedirs(d + "/in", exist_ok=True)
                np.save(f"{d}/in/{file}.npy", np.ascontiguousarray(value))
            p = subprocess.run([self.exe, "infer", model, *self.device, "--inputs", d + "/in", "--outputs", d + "/out", "--json"], capture_output=True, timeout=120)
            if p.returncode:
                return p.stdout.decode()
            return {os.path.basename(x)[:-4]: np.load(x) for x in glob.glob(d + "/out/*.npy")}

    def compare(self, where, got, wants, tolerance):
        """`wants`: the readings that are allowed."""
        if isinstance(got, str):
            return self.check(where, got)
        for name in wants[0]:
            faults = []
            for want in wants:
                a, b = got[name].astype(np.float64), want[name].astype(np.float64)
                if a.shape != b.shape or got[name].dtype != want[name].dtype:
                    faults.append(f"{name}: {got[name].dtype}{a.shape}, expected {want[name].dtype}{b.shape}")
                elif b.size and not (np.abs(a - b) <= tolerance["atol"] + tolerance["rtol"] * np.abs(b)).all():
                    faults.append(f"{name}: off by {np.abs(a - b).max():.4g}")
                else:
                    faults = []
                    break
            self.check(where, faults)


def part(arrays, prefix):
    return {k[len(prefix):]: v for k, v in arrays.items() if k.startswith(prefix)}


def decoder(z, folder):
    name = os.path.basename(folder)
    meta = json.load(open(folder + "/meta.json"))
    ref = dict(np.load(folder + "/ref/ref.npz"))
    other_file = folder + "/ref/fp32_activations.npz"
    other = dict(np.load(other_file)) if os.path.exists(other_file) else {}
    tolerance = meta["recommended_tolerance"]
    noise = meta.get("reference", {}).get("measured", {}).get("ort_default_vs_no_optimisation", {}).get("max_abs", 0.0)
    tolerance = {"rtol": tolerance["rtol"], "atol": max(tolerance["atol"], 1.5 * noise)}
    model = os.path.join(folder, meta["models"][0]["file"])
    graph = onnx.load(model, load_external_data=False).graph
    sliding = any("sliding" in d.dim_param for i in graph.input for d in i.type.tensor_type.shape.dim)
    if not part(ref, "prefill/in/"):  # a graph without a cache
        for case in ("", "alt/"):
            if part(ref, case + "in/"):
                z.compare(f"{name}/{case or 'main'}", z.infer(model, part(ref, case + "in/")), [part(ref, case + "out/")], tolerance)
        return
    for case in ("prefill", "decode"):
        feeds = part(ref, f"{case}/in/")
        if case == "decode":
            cache = part(ref, "prefill/out/")
            for i in graph.input:
                if i.name.startswith("past"):
                    feeds[i.name] = cache[i.name.replace("past_key_values", "present")]
        wants = [w for w in (part(ref, f"{case}/out/"), part(other, f"{case}/out/")) if w]
        if sliding:  # rows of windowed caches beyond those in use are unspecified
            wants = [{"logits": w["logits"]} for w in wants]
        wants = [{k: v for k, v in w.items() if k in wants[0]} for w in wants if set(wants[0]) <= set(w)]
        z.compare(f"{name}/{case}", z.infer(model, feeds), wants, tolerance)
    greedy = folder + "/ref/greedy.json"
    if not os.path.exists(greedy):
        return
    small = max(2 * tolerance["atol"], 0.25 if other else 0)
    for i, c in enumerate(json.load(open(greedy))["cases"]):
        p = subprocess.run([z.exe, "run", folder, *z.device, "--prompt-ids", ",".join(map(str, c["prompt_ids"])), "--temperature", "0",
                            "--max-tokens", str(len(c["ort_tokens"])), "--json"], capture_output=True, timeout=120)
        got = json.loads(p.stdout).get("token_ids")
        k = next((k for k, t in enumerate(c["ort_tokens"]) if got is None or k >= len(got) or got[k] != t), None)
        z.check(f"{name}/greedy {i}", k is not None and c["margins"][k] > small and f"token {k} of {got}, expected {c['ort_tokens']}")


def tokenizer(z, folder):
    name = os.path.basename(folder)
    rows = [json.loads(x) for x in open(folder + "/ref/vectors.jsonl", encoding="utf-8") if x.strip()]
    for special, field in ((True, "ids"), (False, "ids_without_special")):
        for row, a in zip(rows, z.json_lines(["tokenize", folder], [{"text": r["text"], "special": special} for r in rows])):
            z.check(f"{name}/{field}", a.get("ids") != row[field] and (row["text"], a))
    for skip, field in ((False, "decoded"), (True, "decoded_skip_special")):
        for row, a in zip(rows, z.json_lines(["detokenize", folder], [{"ids": r["ids"], "skip_special": skip} for r in rows])):
            z.check(f"{name}/{field}", a.get("text") != row[field] and (row["ids"][:20], a))


def templates(z, folder):
    meta = json.load(open(folder + "/meta.json"))
    rows = [json.loads(x) for x in open(folder + "/ref/chat.jsonl", encoding="utf-8") if x.strip()]
    requests = [{**r["kwargs"], "template": r["template"], "messages": r["messages"], "now": meta.get("now")} for r in rows]
    for row, a in zip(rows, z.json_lines(["template"], requests)):
        if "rendered" in row:
            z.check(f"templates/{row['name']}", a.get("text") != row["rendered"] and a)
        else:
            z.check(f"templates/{row['name']}", "error" not in a and a)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--ullage", required=True)
    ap.add_argument("--device")
    args = ap.parse_args()
    z = Zoo(args.ullage, args.device)
    for folder in sorted(glob.glob(ROOT + "/*/")):
        folder = folder.rstrip("/")
        if os.path.exists(folder + "/ref/ref.npz"):
            decoder(z, folder)
        if args.device:
            continue
        if os.path.exists(folder + "/ref/vectors.jsonl"):
            tokenizer(z, folder)
        if os.path.exists(folder + "/ref/chat.jsonl"):
            templates(z, folder)
    print(f"zoo: {z.passed} passed, {z.failed} failed, 0 skipped")
    return 1 if z.failed else 0


if __name__ == "__main__":
    sys.exit(main())
