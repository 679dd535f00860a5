#!/usr/bin/env python3
"""The command line as a script meets it: exit codes, JSON, limits, plans, and that results do not depend on threads,
chunks or passes.

    cli_check.py --ullage BIN

Uses the tiny models of tests/ and, where it is in the store, the default model. The last line is
`cli: N passed, N failed, N skipped`.
"""
import argparse
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
STORE = os.environ.get("ULLAGE_HOME", os.path.expanduser("~/.ullage/models"))
DEFAULT = os.path.join(STORE, "smollm2.gguf")
MODELS = sorted(glob.glob(os.path.join(ROOT, "tests/gguf/models/*.gguf")))


class Cli:
    def __init__(self, exe):
        self.exe, self.passed, self.failed, self.skipped = exe, 0, 0, 0

    def run(self, *args, stdin=None, **kw):
        p = subprocess.run([self.exe, *map(str, args)], input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                           capture_output=True, timeout=300, **kw)
        return p.returncode, p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")

    def json(self, *args, **kw):
        rc, out, err = self.run(*args, "--json", **kw)
        try:
            return rc, json.loads(out)
        except ValueError:
            return rc, {"broken": out[-300:] + err[-300:]}

    def check(self, what, ok, more=""):
        self.passed += bool(ok)
        self.failed += not ok
        if not ok:
            print(f"FAIL cli: {what}: {str(more)[:400]}")


def errors(c):
    m = MODELS[0]
    for args, rc, code, word in [
            (["run", m, "--promt", "x"], 2, "usage", "--prompt"),
            (["frobnicate"], 2, "usage", "frobnicate"),
            (["plan", "no-such-model"], 2, "usage", "no-such-model"),
            (["plan", m, "--option", "session.intra_op_num_thread=2"], 2, "usage", "session.intra_op_num_threads"),
            (["plan", m, "--limit", "cpu=12 apples"], 2, "usage", "12 apples"),
            (["plan", m, "--limit", "cpu"], 2, "usage", "DEVICE=SIZE"),
            (["plan", m, "--context", "0"], 2, "usage", "--context"),
            (["run", m, "--prompt-ids", "1,x"], 2, "usage", "x"),
            (["run", m, "--prompt-ids", "1,99999999"], 3, "invalid_input", "99999999"),
            (["plan", m, "--device", "fpga"], 5, "unsupported", "fpga"),
            (["plan", m, "--option", "session.disabled_passes=nonsense"], 2, "usage", "nonsense"),
            (["plan", m, "--assign", "gpu(layers.0/)"], 5, "unsupported", "there is no device gpu"),
            (["plan", m, "--assign", "cpu(layers.0/) cpu(lm_head)"], 2, "usage", "position 15"),
            (["plan", m, "--assign", "cpu(layers.[3-1])"], 2, "usage", "position 11"),
            (["plan", m, "--annotations", "cpu(a, a)"], 2, "usage", "twice"),
            (["plan", m, "--assign", "cpu(a)", "--annotations", "cpu(b)"], 2, "usage", "exclude each other"),
            (["plan", m, "--assign", "cpu(layer.[0-1]/)", "--strict"], 2, "usage", "layers.0"),
            (["plan", m, "--assign", "cpu(layers.[0-0]/, layers.0)", "--strict"], 2, "usage", "layers.0"),
            (["plan", m, "--limit", "gpu=1GiB"], 5, "unsupported", "there is no device gpu"),
            (["plan", m, "--option", "session.resource_cuda_partitioning_settings=1000"], 2, "usage", "two fields"),
    ]:
        got, o = c.json(*args)
        e = o.get("error", {})
        c.check(f"{' '.join(args[:1] + args[2:])} exits {rc}", got == rc and e.get("code") == code and word in e.get("message", ""), (got, o))
        got, out, err = c.run(*args)
        c.check("the same as text", got == rc and word in err and out == "", (got, out, err))
    with tempfile.TemporaryDirectory() as d:
        broken = os.path.join(d, "broken.gguf")
        open(broken, "wb").write(open(m, "rb").read()[:200])
        got, o = c.json("plan", broken)
        c.check("a truncated header is an invalid model", got == 3 and o.get("error", {}).get("code") == "invalid_model", o)
        bad = os.path.join(d, "bad.onnx")
        open(bad, "wb").write(b"\x08\x07garbage" * 20)
        got, o = c.json("plan", bad)
        c.check("garbage is an invalid model", got == 3, o)
        os.makedirs(os.path.join(d, "empty"))
        got, o = c.json("plan", os.path.join(d, "empty"))
        c.check("an empty folder is an invalid model", got == 3, o)
    got, o = c.json("options")
    c.check("options", got == 0 and all({"key", "type", "default", "doc"} <= set(x) for x in o["options"]), o)
    got, o = c.json("devices")
    c.check("devices", got == 0 and o["devices"][0]["name"] == "cpu" and o["devices"][0]["capacity_bytes"] > 0, o)
    got, o = c.json("version")
    c.check("version", got == 0 and o["version"], o)


def plans(c):
    for m in MODELS:
        name = os.path.basename(m)
        got, plan = c.json("plan", m, "--context", "64", "--nodes")
        d = plan.get("devices", [{}])[0]
        c.check(f"{name}: plan", got == 0 and plan["fits"] and sum(d["tags"].values()) == d["planned_bytes"] > 0, plan)
        c.check(f"{name}: lower bound", 0 < d["lower_bound_bytes"] <= d["planned_bytes"], d)
        c.check(f"{name}: placement lists every node", len(plan["placement"]) == d["nodes"], d)
        c.check(f"{name}: layers have numbers", any(n["layer"] == 0 for n in plan["placement"]), plan["placement"][:3])
        c.check(f"{name}: the norm behind the last layer is no layer", d["layers"].split("-")[0] == "0"
                and max(n["layer"] or 0 for n in plan["placement"]) == int(d["layers"].split("-")[-1]), d["layers"])
        got, ruled = c.json("plan", m, "--context", "64", "--nodes", "--strict", "--assign", "cpu(layers.[0-0]/, lm_head)")
        rules = ruled.get("rules", [])
        here = [n for n in ruled.get("placement", []) if n["reason"] == "rule"]
        c.check(f"{name}: rules are counted", got == 0 and len(rules) == 2 and all(r["nodes"] > 0 and r["bytes"] > 0 for r in rules)
                and sum(r["nodes"] for r in rules) == len(here)
                and ruled["unmatched_nodes"] == len(ruled["placement"]) - len(here)
                and {n["layer"] for n in here} == {0, None}, (rules, ruled.get("error")))
        got, run = c.json("run", m, "--context", "64", "--prompt-ids", "1,2,3", "--max-tokens", "4", "--temperature", "0")
        mem = run.get("memory", [{}])[0]
        c.check(f"{name}: the run takes what was planned", got == 0 and mem["planned_bytes"] == mem["peak_bytes"] == d["planned_bytes"], (run, d["planned_bytes"]))
        c.check(f"{name}: no allocation during the run", mem["allocations_during_run"] == 0, mem)
        c.check(f"{name}: counts", run["generated_tokens"] == len(run["token_ids"]) and run["prompt_ids"] == [1, 2, 3] and run["prompt_tokens"] == 3, run)
        # The header alone is enough for a plan.
        with tempfile.TemporaryDirectory() as tmp:
            cut = os.path.join(tmp, name)
            shutil.copyfile(m, cut)
            os.truncate(cut, os.path.getsize(m) - 64)
            got, again = c.json("plan", cut, "--context", "64")
            c.check(f"{name}: plan without the weights", got == 0 and again["devices"][0]["planned_bytes"] == d["planned_bytes"], again)
            got, o = c.json("run", cut, "--context", "64", "--prompt-ids", "1", "--max-tokens", "1")
            c.check(f"{name}: run without the weights is refused", got == 3, o)
        # Limits, to the byte.
        need = d["planned_bytes"]
        got, o = c.json("plan", m, "--context", "64", "--limit", f"cpu={need}")
        c.check(f"{name}: fits exactly", got == 0 and o["fits"], o)
        got, o = c.json("plan", m, "--context", "64", "--limit", f"cpu={need - 1}")
        c.check(f"{name}: one byte too few", got == 4 and not o["fits"] and o["shortfall"][0]["missing_bytes"] == 1, o)
        got, o = c.json("run", m, "--context", "64", "--limit", f"cpu={need - 1}", "--prompt-ids", "1")
        short = o.get("error", {}).get("details", {}).get("shortfall", [{}])[0]
        c.check(f"{name}: the run says so too", got == 4 and o["error"]["code"] == "does_not_fit" and short.get("largest"), o)
        for r in short.get("remedies", []):
            got, o = c.json("plan", m, "--context", "64", *r["change"].split(), "--limit", f"cpu={need - 1}")
            c.check(f"{name}: {r['change']} fits", got == 0 and o["devices"][0]["planned_bytes"] == r["planned_bytes"], o)
        # A prompt that is too long is refused with both numbers.
        got, o = c.json("run", m, "--context", "16", "--prompt-ids", ",".join(["1"] * 17))
        c.check(f"{name}: a long prompt", got == 3 and "17" in o["error"]["message"] and "16" in o["error"]["message"], o)


def logits(c, model, ids, *more):
    with tempfile.TemporaryDirectory() as d:
        f, out = os.path.join(d, "ids.json"), os.path.join(d, "logits.npy")
        json.dump(ids, open(f, "w"))
        got, o = c.json("perplexity", model, "--ids", f, "--logits", out, *more)
        return (np.load(out) if got == 0 else None), o


def invariants(c, model, ids, name, tolerance):
    base, o = logits(c, model, ids, "--context", str(len(ids)), "--threads", "1")
    c.check(f"{name}: logits", base is not None and base.shape[0] == len(ids) and np.isfinite(base).all(), o)
    if base is None:
        return
    for threads in ("2", "3", "5"):
        got, o = logits(c, model, ids, "--context", str(len(ids)), "--threads", threads)
        c.check(f"{name}: the same bits with {threads} threads", got is not None and np.array_equal(base, got), o)
    for chunk in ("1", "3", "7", str(len(ids))):
        got, o = logits(c, model, ids, "--context", str(len(ids)), "--batch-chunk", chunk)
        worst = np.abs(got - base).max() if got is not None else o
        c.check(f"{name}: chunks of {chunk}", got is not None and worst <= tolerance, worst)
    got, o = logits(c, model, ids, "--context", str(len(ids)), "--option", "session.disabled_passes=all")
    worst = np.abs(got - base).max() if got is not None else o
    c.check(f"{name}: without passes", got is not None and worst <= tolerance, worst)


def generation(c):
    if not os.path.exists(DEFAULT):
        c.skipped += 1
        return
    invariants(c, DEFAULT, list(range(400, 440)), "default model", 0.05)
    got, o = c.json("run", "smollm2", "--prompt", "What is the capital of France?", "--temperature", "0", "--max-tokens", "40")
    c.check("default model: answers", got == 0 and "Paris" in o["text"] and o["finish_reason"] == "stop", o)
    got, a = c.json("run", "smollm2", "--raw", "--prompt", "Once upon a time", "--temperature", "0.8", "--seed", "3", "--max-tokens", "24")
    got, b = c.json("run", "smollm2", "--raw", "--prompt", "Once upon a time", "--temperature", "0.8", "--seed", "3", "--max-tokens", "24")
    got, d = c.json("run", "smollm2", "--raw", "--prompt", "Once upon a time", "--temperature", "0.8", "--seed", "4", "--max-tokens", "24")
    c.check("a seed repeats, another differs", a["token_ids"] == b["token_ids"] != d["token_ids"], (a, d))
    got, o = c.json("run", "smollm2", "--raw", "--prompt", "The days of the week are Monday, Tuesday,", "--temperature", "0", "--stop", "Friday", "--max-tokens", "40")
    c.check("a stop text ends the answer and is not in it", o["finish_reason"] == "stop" and "Thursday" in o["text"] and "Friday" not in o["text"], o)
    got, out, err = c.run("run", "smollm2", "--temperature", "0", "--max-tokens", "8", stdin=b"Say hello.")
    c.check("a prompt from a pipe", got == 0 and len(out.strip()) > 0, (got, out, err))
    got, o = c.json("run", "smollm2", "--prompt", "x", "--max-tokens", "0", "--temperature", "0")
    c.check("no tokens asked for", got == 0 and o["token_ids"] == [] and o["finish_reason"] == "length", o)
    got, o = c.json("tokenize", "smollm2", "--text", "Hello world")
    got2, t = c.json("detokenize", "smollm2", "--ids", ",".join(map(str, o.get("ids", []))))
    c.check("tokenize and back", got == 0 and got2 == 0 and t["text"] == "Hello world", (o, t))
    got, o = c.json("bench", "smollm2", "-p", "32", "-n", "8", "-r", "2")
    c.check("bench", got == 0 and o["decode_tokens_per_s"]["min"] <= o["decode_tokens_per_s"]["median"] <= o["decode_tokens_per_s"]["max"]
            and o["read_bandwidth_bytes_per_s"] > 0 and o["weight_bytes_per_token"] > 5e7 and o["load_s"] > 0, o)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--ullage", required=True)
    c = Cli(ap.parse_args().ullage)
    errors(c)
    plans(c)
    for m in MODELS:
        ids = np.load(m[:-5] + ".ids.npy").ravel().tolist()[:24]
        invariants(c, m, ids, os.path.basename(m), 2e-3)
    generation(c)
    print(f"cli: {c.passed} passed, {c.failed} failed, {c.skipped} skipped")
    return 1 if c.failed else 0


if __name__ == "__main__":
    sys.exit(main())
