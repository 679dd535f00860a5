#!/usr/bin/env python3
"""Decoders split over devices and the host against the host alone.

    splits_check.py --ullage BIN [--all [--zoo DIR] [--gguf DIR] [--model NAME]...] [--device NAME]... [--only REGEX] [--table FILE]

Without --all a few decoders of tests/zoo; with it every decoder of tests/zoo (or --zoo), of tests/gguf (or --gguf) and
each --model (a folder, a file or a name in the store). Devices: reference and opencl, where the machine has them.

Each decoder runs in each split of SPLITS: greedy tokens (prompt in chunks, then token by token), the logits of prompt and
tokens, and where the folder has reference inputs, its graph by itself. The reference device runs the host's kernels, so
that there all bits must be equal. OpenCL multiplies floats, so the host then keeps activations exact, too; values must
agree within the tolerance of the folder's references, and tokens may differ from where on the host's two best logits are
closer than that.

The plan must keep to the split: each rule has nodes, a node of a layer lies where the rule says unless the device has no
kernel for it or it computes a shape. Names are derived from the plan: what stands before a layer's number, and the words for attention and
feed-forward parts; where nodes have no names, the program finds layers by the exporter's metadata. --table adds a row
per decoder and split to FILE. The last line is `splits: N passed, N failed, N skipped`.
"""
import argparse
import collections
import copy
import fnmatch
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import run as suite  # noqa: E402

FEW = {"reference": ["genai-llama-int4-cpu", "genai-gemma3-fp32-cpu", "dynamo-llama-op23", "llama_k.gguf"],
       "opencl": ["genai-llama-int4-cpu", "optimum-llama"]}
FEW_ON_OPENCL = ["first half", "alternating", "attention", "with reference"]
PROMPT, TOKENS = [1, 5, 9, 2, 7, 3, 8, 4], 12
CONTEXT, CHUNK = ["--context", "64"], ["--batch-chunk", "5"]
EXACT = ["--option", "ep.cpu.activation_bits=24"]
# Of models that do not say what their values may be off by.
TOLERANCE, TOLERANCE_BF16 = {"rtol": 2e-2, "atol": 2e-2}, {"rtol": 0.15, "atol": 0.15}


class Program:
    def __init__(self, exe):
        self.exe = exe

    def __call__(self, *args):
        """Exit status, what it says in JSON, and the end of its other words."""
        p = subprocess.run([self.exe, *map(str, args), "--json"], stdin=subprocess.DEVNULL, capture_output=True, timeout=600)
        lines = p.stdout.decode("utf-8", "replace").strip().split("\n")
        try:
            said = json.loads(lines[-1])
        except ValueError:
            said = {}
        return p.returncode, said, (json.dumps(said.get("error", "")) + p.stderr.decode("utf-8", "replace"))[-400:]


class Decoder:
    """A model, what its nodes are called, and what the host computes."""

    def __init__(self, program, path, scratch):
        self.program, self.path, self.scratch = program, path, scratch
        self.name = os.path.basename(path.rstrip("/"))
        meta = os.path.join(path, "meta.json")
        self.meta = json.load(open(meta, encoding="utf-8")) if os.path.exists(meta) else {}
        files = [os.path.join(path, *folder, m["file"]) for m in self.meta.get("models", [])[:1] for folder in ((), ("onnx",))]
        self.file = next((f for f in files if os.path.exists(f)), None)
        noise = self.meta.get("reference", {}).get("measured", {}).get("ort_default_vs_no_optimisation", {}).get("max_abs", 0.0)
        inputs = onnx.load(self.file, load_external_data=False).graph.input if self.file else []
        bf16 = any(i.type.tensor_type.elem_type == onnx.TensorProto.BFLOAT16 for i in inputs)
        tolerance = self.meta.get("recommended_tolerance", TOLERANCE_BF16 if bf16 else TOLERANCE)
        if "rtol" not in tolerance:  # one per variant
            tolerance = max(tolerance.values(), key=lambda t: t["atol"])
        self.rtol, self.atol = tolerance["rtol"], max(tolerance["atol"], 1.5 * noise)
        self.cases = self.write_cases()
        self.bounds, self.generates = CONTEXT, True
        rc, plan, why = self.plan()
        if rc == 5 and self.cases:
            self.bounds = [x for name, v in self.cases[0][1].items() for x in ("--shape", f"{name}={'x'.join(map(str, v.shape))}")]
            self.generates = False
            rc, plan, why = self.plan()
        self.refusal = why if rc else None
        nodes = plan.get("placement", [])
        self.layers = 1 + max((n["layer"] for n in nodes if n["layer"] is not None), default=-1)
        words = collections.Counter(m.group(1) for n in nodes for m in re.finditer(r"([A-Za-z_]+)\.%s/" % n["layer"], n["node"]))
        self.word = words.most_common(1)[0][0] if words else "layers"

    def write_cases(self):
        """[(folder of inputs, {name: value})] of the folder's references."""
        file = os.path.join(self.path, "ref", "ref.npz")
        if not self.file or not os.path.exists(file):
            return []
        reference = dict(np.load(file))
        graph = onnx.load(self.file, load_external_data=False).graph
        constants = {t.name for t in graph.initializer}
        inputs = [i.name for i in graph.input if i.name not in constants]
        def part(arrays, prefix):
            return {k[len(prefix):]: v for k, v in arrays.items() if k.startswith(prefix)}
        cases = []
        for case in ("prefill/", "decode/", "alt/", ""):
            feeds = part(reference, case + "in/")
            if case == "decode/":
                cache = part(reference, "prefill/out/")
                for name in inputs:
                    past = [p for p in (name.replace("past_key_values", "present"), name.replace("past", "present")) if p in cache]
                    feeds.update({name: cache[p] for p in past[:1] if name not in feeds})
            if not feeds or set(inputs) - set(feeds):
                continue
            folder = os.path.join(self.scratch, f"{self.name}-{len(cases)}")
            os.makedirs(folder)
            for i, name in enumerate(inputs):
                with open(os.path.join(folder, f"input_{i}.pb"), "wb") as f:
                    f.write(numpy_helper.from_array(feeds[name], name).SerializeToString())
            cases.append((folder, {name: feeds[name] for name in inputs}))
        return cases

    def plan(self, *args):
        return self.program("plan", self.path, *self.bounds, "--nodes", *args)

    def tokens(self, *args):
        return self.program("run", self.path, "--prompt-ids", ",".join(map(str, PROMPT)), "--temperature", "0", "--max-tokens", TOKENS,
                            *self.bounds, *args)

    def logits(self, ids, *args):
        """[tokens, vocabulary], or words; None where the graph gives them for the last token only."""
        where = os.path.join(self.scratch, "ids.json")
        with open(where, "w", encoding="utf-8") as f:
            json.dump(ids, f)
        out = os.path.join(self.scratch, "logits.npy")
        rc, _, why = self.program("perplexity", self.path, "--ids", where, "--logits", out, *self.bounds, *args)
        if rc == 5 and "last token only" in why:
            return None
        return why if rc else np.load(out)

    def outputs(self, *args):
        """Per case, the arrays of the graph's outputs; or words."""
        if not self.cases:
            return []
        with tempfile.TemporaryDirectory(dir=self.scratch) as d:
            batch = os.path.join(d, "batch")
            with open(batch, "w", encoding="utf-8") as f:
                f.writelines(f"{self.file}\t{folder}\t{d}/{i}\n" for i, (folder, _) in enumerate(self.cases))
            rc, _, why = self.program("infer", "--batch", batch, *args)
            if rc:
                return why
            results = []
            for i in range(len(self.cases)):
                with open(f"{d}/{i}/status", encoding="utf-8") as f:
                    status = f.read()
                if not status.startswith("ok"):
                    return status
                results.append([])
                for o in range(len(glob.glob(f"{d}/{i}/output_*.pb"))):
                    with open(f"{d}/{i}/output_{o}.pb", "rb") as f:
                        results[-1].append(numpy_helper.to_array(onnx.TensorProto.FromString(f.read())))
            return results

    def measure_host(self, *args):
        """Words, or None."""
        self.host_outputs = self.outputs(*args)
        if isinstance(self.host_outputs, str) or not self.generates:
            return self.host_outputs if isinstance(self.host_outputs, str) else None
        # Some exports build masks that fit a whole prompt or one token, but no part of a prompt.
        if self.tokens(*CHUNK)[0] == 0:
            self.bounds = CONTEXT + CHUNK
        rc, said, why = self.tokens(*args)
        self.host_tokens = said.get("token_ids")
        if rc or not self.host_tokens:
            return why or "no tokens"
        self.host_logits = self.logits(PROMPT + self.host_tokens, *args)
        return self.host_logits if isinstance(self.host_logits, str) else None

    def annotated(self):
        """The same with a property `layer_ann` in every node ("first" or "rest"); None where there is no ONNX graph."""
        graphs = [] if os.path.isfile(self.path) else glob.glob(self.path + "/**/*.onnx", recursive=True)
        if not graphs:
            return None
        folder = os.path.join(self.scratch, self.name + "-annotated")
        if not os.path.isdir(folder):
            for base, _, names in os.walk(self.path):
                to = os.path.join(folder, os.path.relpath(base, self.path))
                os.makedirs(to)
                for name in names:
                    if os.path.join(base, name) not in graphs:
                        os.symlink(os.path.join(base, name), os.path.join(to, name))
            for file in graphs:
                model = onnx.load(file, load_external_data=False)
                for node in model.graph.node:
                    layer = re.search(r"\b%s\.(\d+)\b" % self.word, node.name + " ".join(p.value for p in node.metadata_props))
                    first = layer and int(layer.group(1)) < max(1, self.layers // 2)
                    node.metadata_props.add(key="layer_ann", value="first" if first else "rest")
                onnx.save(model, os.path.join(folder, os.path.relpath(file, self.path)))
        other = copy.copy(self)
        other.path, other.file = folder, self.file and os.path.join(folder, os.path.relpath(self.file, self.path))
        return other


def splits(decoder, device):
    """{name: (arguments, {layer: device})}; rules in the arguments must each have nodes."""
    n, word = decoder.layers, decoder.word
    half = max(1, n // 2)
    exact = [] if device == "reference" else EXACT
    one = ["--device", device, *exact]

    def layers(assigned):
        by_device = collections.defaultdict(list)
        for layer, where in assigned.items():
            by_device[where].append(f"{word}.{layer}/")
        return "; ".join(f"{where}({', '.join(names)})" for where, names in by_device.items())

    def by_layer(choose, args=(), outside=""):
        assigned = {k: choose(k) for k in range(n)}
        return [*args, "--assign", layers(assigned) + outside], assigned

    def words(text, args=()):
        return [*args, "--assign", text], {}
    all_of = {
        "everything": (one, {}),
        "first half": by_layer(lambda k: device if k < half else "cpu", one),
        "second half": by_layer(lambda k: "cpu" if k < half else device, one),
        "alternating": by_layer(lambda k: (device, "cpu")[k % 2], one),
        "range": ([*one, "--assign", f"{device}({word}.[0-{half - 1}]/); cpu({word}.[{half}-{max(half, n)}]/)"],
                  {k: device if k < half else "cpu" for k in range(n)}),
        "attention": words(f"{device}(attn); cpu(mlp)", one),
        "mlp": words(f"{device}(mlp); cpu(attn)", one),
        "annotations": ([*one, "--annotations", f"{device}(fir); cpu(=rest)"], {k: device if k < half else "cpu" for k in range(n)}),
    }
    if device == "reference":
        two = [*one, "--option", "ep.reference.devices=2"]
        by_host = [*two, "--option", "ep.reference.peer_copies=0"]
        all_of.update({
            "two devices, halves": by_layer(lambda k: "reference:0" if k < half else "reference:1", two),
            "two devices, alternating": by_layer(lambda k: f"reference:{k % 2}", two),
            "two devices, alternating, by the host": by_layer(lambda k: f"reference:{k % 2}", by_host),
            "two devices, attention and mlp": words("reference:0(attn); reference:1(mlp)", two),
            "two devices and the host": by_layer(lambda k: ("reference:0", "reference:1", "cpu")[k % 3], two),
            "two devices, late": words("reference:0(attn); reference:1(mlp)", [*two, "--option", "ep.reference.jitter_us=100"]),
            "some operators": ([*one, "--option", "ep.reference.kernels=MatMulNBits,MatMul,Linear,MultiLinear,Mul,Add"], {}),
        })
    else:
        all_of["with reference"] = by_layer(lambda k: device if k < half else "reference", ["--device", f"{device},reference", *exact])
        all_of["attention, mlp on reference"] = words(f"{device}(attn); reference(mlp)", ["--device", f"{device},reference", *exact])
    if n < 2:
        all_of = {k: v for k, v in all_of.items() if k not in ("second half", "two devices, alternating", "two devices, alternating, by the host")}
    return all_of


class Check:
    def __init__(self, table):
        self.passed = self.failed = self.skipped = 0
        self.table = table

    def row(self, decoder, device, split, faults, worst=0.0):
        self.passed += not faults
        self.failed += bool(faults)
        self.write(decoder, device, split, "; ".join(faults)[:300] or "ok", f"{worst:.2g}")
        if faults:
            print(f"FAIL splits {decoder}, {device}, {split}: {'; '.join(faults)[:400]}", flush=True)

    def skip(self, decoder, device, split, why):
        self.skipped += 1
        self.write(decoder, device, split, "skipped: " + why[:200])

    def write(self, *row):
        if self.table:
            with open(self.table, "a", encoding="utf-8") as f:
                f.write("\t".join(row) + "\n")


def off(got, want, rtol, atol):
    """The largest |got - want| over atol + rtol |want|; 0: all bits equal, inf: another kind."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return np.inf
    if got.tobytes() == want.tobytes():
        return 0.0
    if got.dtype.kind in "biu":
        return np.inf
    a, b = got.astype(np.float64), want.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore"):
        used = np.where(same, 0, np.abs(a - b) / (atol + rtol * np.abs(b)))
    return float(np.max(np.nan_to_num(used, nan=np.inf), initial=1e-12))


def faults_of_plan(decoder, args, layers):
    rc, plan, why = decoder.plan(*args)
    if rc:
        return [f"plan: {why}"]
    faults = [f"rule {r['device']}({r['pattern']}) has no nodes" for r in plan["rules"]
              if r["nodes"] == 0 and not r["pattern"].startswith(f"{decoder.word}.[{max(1, decoder.layers // 2)}-")]
    placement = [n for n in plan["placement"] if n["layer"] in layers]
    kept = [n for n in placement if n["device"].startswith(layers[n["layer"]])]
    faults += [f"node {n['node']} ({n['op']}) of layer {n['layer']} lies on {n['device']}" for n in placement
               if n not in kept and n["reason"] != "no_kernel" and not (n["device"] == "cpu" and n["reason"] == "default")][:2]
    faults += [f"layer {k} has no node on {layers[k]}" for k in layers if not any(n["layer"] == k for n in kept)]
    if all(n["device"] == "cpu" for n in plan["placement"]):
        faults.append("no node lies on a device")
    return faults


def compare(decoder, args, exact):
    """Faults, and how much of the tolerance was used."""
    faults, worst = [], 0.0
    outputs = decoder.outputs(*args)
    if isinstance(outputs, str):
        return ["infer: " + outputs], worst
    for case, (got, host) in enumerate(zip(outputs, decoder.host_outputs)):
        for o, (value, want) in enumerate(zip(got, host)):
            used = off(value, want, decoder.rtol, decoder.atol)
            worst = max(worst, used)
            if used > (0 if exact else 1):
                faults.append(f"output {o} of case {case}: {used:.3g} of the tolerance")
    if not decoder.generates:
        return faults, worst
    rc, said, why = decoder.tokens(*args)
    if rc:
        return faults + ["run: " + why], worst
    for memory in said["memory"]:
        if memory["peak_bytes"] != memory["planned_bytes"] or memory["allocations_during_run"]:
            faults.append(f"memory: {memory}")
    logits = decoder.logits(PROMPT + decoder.host_tokens, *args)
    if isinstance(logits, str):
        return faults + ["perplexity: " + logits], worst
    if logits is not None:
        used = off(logits, decoder.host_logits, decoder.rtol, decoder.atol)
        worst = max(worst, used)
        if used > (0 if exact else 1):
            faults.append(f"logits: {used:.3g} of the tolerance")
    tokens = said.get("token_ids", [])
    first = next((k for k, t in enumerate(decoder.host_tokens) if k >= len(tokens) or tokens[k] != t), None)
    if first is not None:
        close = False
        if not exact and logits is not None:
            best = np.sort(decoder.host_logits[len(PROMPT) - 1 + first])[-2:]
            close = best[1] - best[0] <= 2 * (decoder.atol + decoder.rtol * abs(best[1]))
        if not close:
            faults.append(f"token {first} of {tokens}, expected {decoder.host_tokens}")
    return faults, worst


def check_decoder(check, program, path, devices, chosen):
    with tempfile.TemporaryDirectory() as scratch:
        decoder = Decoder(program, path, scratch)
        for device in devices:
            why = decoder.refusal or decoder.measure_host(*([] if device == "reference" else EXACT))
            if why or not decoder.layers:
                check.row(decoder.name, device, "host", [why or "no layers"])
                continue
            for split, (args, layers) in splits(decoder, device).items():
                if not chosen(device, split):
                    continue
                used = decoder.annotated() if split == "annotations" else decoder
                if not used:
                    check.skip(decoder.name, device, split, "no ONNX graph beside the configuration")
                    continue
                wrong, worst = compare(used, args, device == "reference")
                check.row(decoder.name, device, split, faults_of_plan(used, args, layers) + wrong, worst)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ullage", required=True)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--zoo", default=os.path.join(ROOT, "tests", "zoo"))
    parser.add_argument("--gguf", default=os.path.join(ROOT, "tests", "gguf", "models"))
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--device", action="append", choices=["reference", "opencl"])
    parser.add_argument("--only", default="")
    parser.add_argument("--table")
    args = parser.parse_args()
    program, check = Program(os.path.abspath(args.ullage)), Check(args.table)
    devices = []
    for device in args.device or ["reference", "opencl"]:
        if program("devices", "--device", device)[0] == 0:
            devices.append(device)
        else:
            check.skip("all", device, "all", "there is no such device on this machine")
    paths = [p.rstrip("/") for p in glob.glob(args.zoo + "/*/")] + glob.glob(args.gguf + "/*.gguf")
    paths = [p for p in sorted(paths) if p.endswith(".gguf") or
             (any(fnmatch.fnmatch(os.path.basename(p), x) for x in suite.ZOO_DECODERS) and
              not any(fnmatch.fnmatch(os.path.basename(p), x) for x in suite.ZOO_SKIP))] + args.model
    for path in paths:
        name = os.path.basename(path)
        taken = [d for d in devices if args.all or name in FEW[d]]
        if taken and re.search(args.only, name):
            check_decoder(check, program, path, taken,
                          lambda device, split: args.all or device != "opencl" or split in FEW_ON_OPENCL)
    print(f"splits: {check.passed} passed, {check.failed} failed, {check.skipped} skipped")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
