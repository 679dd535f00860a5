#!/usr/bin/env python3
"""What a limit promises: every limit from nothing to enough, each run either refused with a correct account or finished with
the right answer, in a process that may not take more; and the peak of resident memory against the plan.

    limits_check.py --ullage BIN [--zoo DIR] [--models DIR] [--graphs DIR --inputs DIR] [--all] [--only NAME,NAME]

--models holds .gguf files; --graphs holds NAME.onnx, --inputs NAME/inputs.npz with an array for each input.

Overhead of the process, which no plan counts: OVERHEAD bytes of resident memory (program, libraries, graph, tokenizer,
stacks as far as they are used). The runs get RLIMIT_DATA = limit + OVERHEAD + the whole stacks of their threads: the
system counts those as data from the beginning. Where the memory control group can be written and --all is given, runs are
put into a group of limit + OVERHEAD bytes, too. The last line is `limits: N passed, N failed, N skipped`.
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

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
OVERHEAD = 32 << 20
THREADS = 2
STACK = resource.getrlimit(resource.RLIMIT_STACK)[0]
STACKS = THREADS * (STACK if 0 < STACK < 1 << 30 else 8 << 20)
STEPS = 60
CGROUP = "/sys/fs/cgroup/memory"


class Run:
    def __init__(self, exe, args, data=None, group=None):
        """`data`: bytes of RLIMIT_DATA; `group`: bytes of a memory control group."""
        folder = None
        if group is not None:
            folder = os.path.join(CGROUP, f"ullage-check-{os.getpid()}")
            os.mkdir(folder)
            with open(folder + "/memory.limit_in_bytes", "w") as f:
                f.write(str(group))

        def restrict():
            if data is not None:
                resource.setrlimit(resource.RLIMIT_DATA, (data, data))
            if folder:
                with open(folder + "/cgroup.procs", "w") as f:
                    f.write(str(os.getpid()))

        try:
            with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
                p = subprocess.Popen([exe, *map(str, args), "--json"], stdin=subprocess.DEVNULL, stdout=out, stderr=err, preexec_fn=restrict)
                _, status, usage = os.wait4(p.pid, 0)
                p.returncode = os.waitstatus_to_exitcode(status)
                out.seek(0)
                err.seek(0)
                text, self.err = out.read(), err.read().decode("utf-8", "replace")
        finally:
            if folder:
                os.rmdir(folder)
        self.answer = None
        self.rc, self.peak = p.returncode, usage.ru_maxrss * 1024
        try:
            self.json = json.loads(text)
        except ValueError:
            self.json = {"broken": text[-300:].decode("utf-8", "replace") + self.err[-300:]}


class Limits:
    def __init__(self, exe):
        self.exe, self.passed, self.failed, self.skipped = exe, 0, 0, 0

    def check(self, what, ok, more=""):
        self.passed += bool(ok)
        self.failed += not ok
        if not ok:
            print(f"FAIL limits: {what}: {str(more)[:600]}")

    def runs(self, model, free):
        ok = free.rc == 0 and model.answer(free) is not None and "planned_bytes" in model.memory(free)
        self.check(f"{model.name} runs without a limit", ok, free.json)
        return ok


class Decoder:
    """A language model: the answer is its greedy tokens."""

    def __init__(self, model):
        self.model, self.name = model, os.path.basename(model.rstrip("/"))
        self.args = ["run", model, "--prompt-ids", "1,2,3,4,5", "--max-tokens", 4, "--temperature", 0, "--threads", THREADS]

    def answer(self, run):
        return run.json.get("token_ids")

    def memory(self, run):
        return run.json.get("memory", [{}])[0]


class Graph:
    """A plain graph: the answer is its outputs."""

    def __init__(self, folder, file, inputs, outputs):
        self.model, self.name, self.outputs = os.path.join(folder, file), os.path.basename(folder), outputs
        self.args = ["infer", self.model, "--inputs", inputs, "--outputs", outputs, "--threads", THREADS]

    def answer(self, run):
        if run.rc:
            return None
        if run.answer is not None:
            return run.answer
        files = sorted(glob.glob(self.outputs + "/*.npy"))
        run.answer = [np.load(f).tobytes() for f in files]
        for f in files:
            os.remove(f)
        return run.answer

    def memory(self, run):
        return run.json.get("memory", [{}])[0]


def graphs(folders, work):
    """The zoo's graphs without a cache, with the inputs that lie beside them."""
    for folder in folders:
        try:
            ref = dict(np.load(folder + "/ref/ref.npz"))
            with open(folder + "/meta.json", encoding="utf-8") as f:
                file = json.load(f)["models"][0]["file"]
        except (OSError, ValueError, LookupError):
            continue
        feeds = {k[3:]: v for k, v in ref.items() if k.startswith("in/")}
        if feeds:
            inputs = save(os.path.join(work, os.path.basename(folder)), feeds)
            yield Graph(folder, file, inputs, inputs + "-out")


def save(folder, feeds):
    os.makedirs(folder, exist_ok=True)
    for name, value in feeds.items():
        name = re.sub(rb"[^A-Za-z0-9._-]", lambda m: b"%%%02X" % m.group()[0], name.encode()).decode()
        np.save(f"{folder}/{name}.npy", np.ascontiguousarray(value))
    return folder


def files(models, inputs, work):
    """Graphs in files of their own."""
    for file in sorted(glob.glob(models + "/*.onnx")):
        name = os.path.basename(file)[:-len(".onnx")]
        feeds = os.path.join(inputs, name, "inputs.npz")
        if os.path.exists(feeds):
            folder = save(os.path.join(work, name), dict(np.load(feeds)))
            graph = Graph(models, os.path.basename(file), folder, folder + "-out")
            graph.name = name
            yield graph


def steps(need):
    """From nothing to enough, close together around what is needed."""
    near = sorted({need - 1, need, need + 1, need - 64, need + 64, need - 4096, need + 4096, need - (1 << 16), need + (1 << 16)})
    even = [need * i // (STEPS - len(near)) for i in range(STEPS - len(near))]
    return sorted(x for x in even + near if x >= 0)


def sweep(c, model, group):
    free = Run(c.exe, model.args)
    if not c.runs(model, free):
        return
    need, right = model.memory(free)["planned_bytes"], model.answer(free)
    finished = refused = 0
    for limit in steps(need):
        run = Run(c.exe, [*model.args, "--limit", f"cpu={limit}"], data=limit + OVERHEAD + STACKS, group=limit + OVERHEAD if group else None)
        where = f"{model.name} with {limit} of {need}"
        if run.rc == 0:
            finished += 1
            m = model.memory(run)
            c.check(f"{where}: enough", limit >= need and m.get("peak_bytes", limit + 1) <= limit and m.get("limit_bytes") == limit and m.get("allocations_during_run") == 0, m)
            c.check(f"{where}: the right answer", model.answer(run) == right, run.json)
            continue
        refused += 1
        error = run.json.get("error", {})
        short = error.get("details", {}).get("shortfall", [{}])[0]
        c.check(f"{where}: refused", run.rc == 4 and error.get("code") == "does_not_fit" and limit < need, (run.rc, run.json, run.err))
        c.check(f"{where}: shortfall + limit = need", short.get("missing_bytes", -1) + limit == need == short.get("planned_bytes") == sum(short.get("tags", {}).values()), short)
        sizes = [x["bytes"] for x in short.get("largest", [])]
        c.check(f"{where}: largest first", sizes and sizes == sorted(sizes, reverse=True) and sizes[0] <= need, short)
        c.check(f"{where}: remedies fit", all(r["planned_bytes"] <= limit for r in short.get("remedies", [{"planned_bytes": limit + 1}])), short)
        # Nothing large was there: the refusal costs the overhead at most. Pages of a file that holds its own weights
        # are the system's, but count for each of the two maps of it: the model's, and that of a remedy that is planned.
        maps = 2 * os.path.getsize(model.model) if model.model.endswith(".onnx") else 0
        c.check(f"{where}: refused early", run.peak <= OVERHEAD + (need >> 4) + maps, run.peak)
    c.check(f"{model.name}: refused below, finished above", finished >= 5 and refused >= STEPS - 20, (finished, refused))


def peak(c, model):
    free = Run(c.exe, model.args)
    if not c.runs(model, free):
        return
    planned = model.memory(free)["planned_bytes"]
    # What the system reports is not less than this script's own peak, from which the process was forked.
    print(f"     {model.name}: planned {planned / 2**20:.1f} MiB, resident {free.peak / 2**20:.1f} MiB, {(free.peak - planned) / 2**20:+.1f}")
    c.check(f"{model.name}: peak resident <= planned + {OVERHEAD >> 20} MiB", free.peak <= planned + OVERHEAD, (free.peak, planned))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--ullage", required=True)
    ap.add_argument("--zoo")
    ap.add_argument("--models")
    ap.add_argument("--graphs")
    ap.add_argument("--inputs")
    ap.add_argument("--only", help="sweep these only")
    ap.add_argument("--all", action="store_true", help="sweep every model, in a control group where that is possible")
    a = ap.parse_args()
    c = Limits(a.ullage)
    with tempfile.TemporaryDirectory() as work:
        folders = [f.rstrip("/") for f in sorted(glob.glob(os.path.join(ROOT, "tests/zoo/*/")) + (glob.glob(a.zoo + "/*/") if a.zoo else []))]
        plain = list(graphs(folders, work))
        others = list(files(a.graphs, a.inputs, work)) if a.graphs and a.inputs else []
        ggufs = sorted(glob.glob(os.path.join(ROOT, "tests/gguf/models/*.gguf")))
        real = sorted(glob.glob(a.models + "/*.gguf")) if a.models else []
        decoders = [Decoder(f) for f in folders if os.path.exists(f + "/genai_config.json") or "optimum" in f or "ortq-" in f]
        usable = [d for d in decoders if Run(c.exe, ["plan", d.model]).rc == 0]
        some = usable[:2] + [Decoder(x) for x in ggufs[:2]] + plain[:1]
        chosen = usable + [Decoder(x) for x in ggufs + real] + plain if a.all else some + [Decoder(x) for x in real]
        chosen += others
        if a.only:
            chosen = [x for x in chosen if x.name in a.only.split(",")]
        group = a.all and os.access(CGROUP + "/cgroup.procs", os.W_OK)
        for model in chosen:
            sweep(c, model, group)
        for model in usable[:6] + [Decoder(x) for x in ggufs[:3] + real] + plain[:3] + others:
            if not a.only or model.name in a.only.split(","):
                peak(c, model)
    print(f"limits: {c.passed} passed, {c.failed} failed, {c.skipped} skipped")
    return 1 if c.failed else 0


if __name__ == "__main__":
    sys.exit(main())
