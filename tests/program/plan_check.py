#!/usr/bin/env python3
"""Plans without weights: the same with and without the data files, the same as the session's own, fast, and what would
make a model fit.

    plan_check.py --ullage BIN [--zoo DIR] [--models DIR]

Uses tests/zoo, tests/gguf and generated headers of real sizes; --zoo and --models add folders of exported models and
.gguf files. The last line is `plan: N passed, N failed, N skipped`.
"""
import argparse
import ctypes
import glob
import json
import mmap
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from html.parser import HTMLParser

import big_models

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Check:
    def __init__(self, exe):
        self.exe, self.passed, self.failed, self.skipped = exe, 0, 0, 0

    def run(self, *args):
        """Exit status, JSON, CPU seconds."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        p = subprocess.run([self.exe, *map(str, args), "--json"], capture_output=True, stdin=subprocess.DEVNULL, timeout=300)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        try:
            return p.returncode, json.loads(p.stdout), seconds
        except ValueError:
            return p.returncode, {"broken": (p.stdout + p.stderr)[-400:].decode("utf-8", "replace")}, seconds

    def check(self, what, ok, more=""):
        self.passed += bool(ok)
        self.failed += not ok
        if not ok:
            print(f"FAIL plan: {what}: {str(more)[:500]}")

    def skip(self, what, why):
        self.skipped += 1
        print(f"skip plan: {what}: {why}")


def planned(o):
    return o["devices"][0]["planned_bytes"] if "devices" in o else None


def anonymous(o):
    return {k: v for k, v in o.items() if k != "model"}


def gguf_data_offset(path):
    """Where the tensor data start, by the gguf package."""
    import gguf
    return min(int(t.data_offset) for t in gguf.GGUFReader(path).tensors)


def copy_folder(source, target, data):
    """The folder with its external data kept, left out, cut or emptied."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("ref"))
    for f in glob.glob(target + "/**/*", recursive=True):
        os.chmod(f, 0o755 if os.path.isdir(f) else 0o644)
        if os.path.isdir(f) or not (".onnx_data" in f or ".onnx.data" in f):
            continue
        size = os.path.getsize(f)
        if data == "missing":
            os.remove(f)
        elif data == "cut":
            os.truncate(f, size // 2)
        elif data == "sparse":
            os.truncate(f, 0)
            os.truncate(f, size)


def without_data(c, folders, ggufs):
    """One plan, whatever is there of the weights."""
    for folder in folders:
        name = os.path.basename(folder)
        rc, whole, _ = c.run("plan", folder)
        if rc == 5:
            continue
        c.check(f"{name} is planned", rc == 0, whole)
        if not any(".data" in f or "_data" in f for f in glob.glob(folder + "/**/*", recursive=True)):
            continue
        for data in ("missing", "cut", "sparse"):
            with tempfile.TemporaryDirectory() as d:
                copy_folder(folder, d + "/m", data)
                rc, part, _ = c.run("plan", d + "/m")
                c.check(f"{name} with {data} data has the same plan", rc == 0 and anonymous(part) == anonymous(whole), (planned(part), planned(whole), part if rc else ""))
    for path in ggufs:
        name = os.path.basename(path)
        rc, whole, _ = c.run("plan", path)
        c.check(f"{name} is planned", rc == 0, whole)
        with tempfile.TemporaryDirectory() as d:
            header = os.path.join(d, "header.gguf")
            with open(path, "rb") as f, open(header, "wb") as out:
                out.write(f.read(gguf_data_offset(path)))
            rc, part, _ = c.run("plan", header)
            c.check(f"the header of {name} has the same plan", rc == 0 and anonymous(part) == anonymous(whole), (planned(part), planned(whole), part if rc else ""))


def same_as_run(c, models):
    """The plan is what a session reserves, to the byte."""
    for model in models:
        name = os.path.basename(model)
        rc, plan, _ = c.run("plan", model)
        if rc == 5:
            continue
        for more in ([], ["--context", 48, "--batch-chunk", 7], ["--batch-chunk", 1]):
            rc, plan, _ = c.run("plan", model, *more)
            rc2, run, _ = c.run("run", model, "--prompt-ids", "1,2,3", "--max-tokens", 2, "--temperature", 0, *more)
            m = run.get("memory", [{}])[0]
            c.check(f"{name} {more}: planned = reserved", rc == 0 and rc2 == 0 and planned(plan) == m.get("planned_bytes") == m.get("peak_bytes"),
                    (planned(plan), run.get("error", m)))
            tags = plan.get("devices", [{}])[0].get("tags", {})
            c.check(f"{name} {more}: the tags add up", sum(tags.values()) == planned(plan), tags)


def resident(path, start):
    """Bytes of the file behind `start` that are in the page cache."""
    with open(path, "r+b") as f:
        size = os.fstat(f.fileno()).st_size
        m = mmap.mmap(f.fileno(), size)
        pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
        vector = (ctypes.c_ubyte * pages)()
        address = ctypes.addressof(ctypes.c_char.from_buffer(m))
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), vector) != 0:
            return None
        return sum(v & 1 for v in vector[start // mmap.PAGESIZE + 1:]) * mmap.PAGESIZE


def real_sizes(c, folder):
    """Models of real sizes without a byte of weights: planned at once; sparse files are not read."""
    made = []
    big_models.genai_llama(folder + "/genai-7b")
    made.append(("genai int4 7B", folder + "/genai-7b"))
    big_models.genai_llama(folder + "/genai-8b-fp32", size=big_models.LLAMA_8B, bits=16)
    made.append(("genai fp32 8B", folder + "/genai-8b-fp32"))
    missing = big_models.gguf_header(folder + "/llama-8b.gguf", size=big_models.LLAMA_8B, tensor_type=12)
    made.append(("gguf Q4_K 8B", folder + "/llama-8b.gguf"))
    big_models.gguf_header(folder + "/qwen2.gguf", "qwen2", 24, big_models.QWEN_05B)
    made.append(("gguf qwen2 0.5B", folder + "/qwen2.gguf"))
    for name, path in made:
        tries = [c.run("plan", path) for _ in range(5)]
        fastest = min(t[2] for t in tries)
        c.check(f"{name} is planned", tries[0][0] == 0 and planned(tries[0][1]), tries[0][1])
        c.check(f"{name} is planned in less than 0.3 s", fastest < 0.3, fastest)
        print(f"     plan {name}: {fastest * 1000:.0f} ms, {planned(tries[0][1])} bytes")
    with open(folder + "/llama-8b.gguf", "rb") as f:
        header = f.read()
    sparse = folder + "/sparse.gguf"
    with open(sparse, "wb") as f:
        f.write(header)
        f.truncate((len(header) + 31) // 32 * 32 + missing)
    rc, whole, _ = c.run("plan", sparse)
    c.check("a sparse file has the plan of its header", rc == 0 and planned(whole) == planned(c.run("plan", folder + "/llama-8b.gguf")[1]), whole)
    in_cache = resident(sparse, len(header))
    if in_cache is None:
        c.skip("planning reads no weight", "mincore is not available")
    else:
        c.check("planning reads no weight", in_cache <= 256 << 10, in_cache)  # the read-ahead behind the header
    os.remove(sparse)
    return made


def contexts(c, models):
    """--context auto takes the largest context that fits; one token more does not."""
    for name, model in models:
        rc, small, _ = c.run("plan", model, "--context", 1)
        rc, large, _ = c.run("plan", model, "--context", "auto")
        c.check(f"{name}: --context auto without a limit", rc == 0 and large.get("context", 0) >= 1, large)
        most, low = large.get("context", 0), planned(small)
        rc, widest, seconds = c.run("plan", model, "--context", "auto", "--limit", f"cpu={1 << 50}")
        c.check(f"{name}: all of the model's context where there is room", widest.get("context", 0) >= most, widest.get("context"))
        most, high = widest["context"], planned(widest)
        for part in (0.0, 0.03, 0.31, 0.77, 0.999):
            limit = low + int((high - low) * part)
            rc, got, seconds = c.run("plan", model, "--context", "auto", "--limit", f"cpu={limit}")
            n = got.get("context", 0)
            c.check(f"{name}: auto at {part} fits", rc == 0 and got.get("fits") and planned(got) <= limit, (n, planned(got), limit))
            rc, more, _ = c.run("plan", model, "--context", n + 1, "--limit", f"cpu={limit}")
            c.check(f"{name}: one token more than {n} does not fit", n == most or rc == 4, (rc, planned(more), limit))
        rc, none, _ = c.run("plan", model, "--context", "auto", "--limit", "cpu=1000")
        c.check(f"{name}: no context fits in 1000 bytes", rc == 4 and none.get("fits") is False and none.get("shortfall"), none)


def remedies(c, models):
    """What is offered was planned, and fits when it is done."""
    offered = 0
    for name, model in models:
        rc, plan, _ = c.run("plan", model)
        for part in (0.999, 0.9, 0.6, 0.3):
            limit = int(planned(plan) * part)
            rc, short, seconds = c.run("plan", model, "--limit", f"cpu={limit}")
            s = short.get("shortfall", [{}])
            c.check(f"{name} at {part} does not fit", rc == 4 and short["fits"] is False and len(s) == 1, short)
            c.check(f"{name} at {part}: shortfall + limit = need", s[0].get("missing_bytes", 0) + limit == planned(short), s)
            sizes = [x["bytes"] for x in s[0].get("largest", [])]
            c.check(f"{name} at {part}: the largest consumers, largest first", sizes and sizes == sorted(sizes, reverse=True), s)
            for r in s[0].get("remedies", []):
                offered += 1
                rc, done, _ = c.run("plan", model, "--limit", f"cpu={limit}", *r["change"].split())
                c.check(f"{name} at {part}: {r['change']} fits as promised", rc == 0 and planned(done) == r["planned_bytes"] <= limit, (r, rc, planned(done), limit))
    c.check("remedies were offered", offered > 0)


class Page(HTMLParser):
    """Scripts, and everything that would load something."""

    def __init__(self):
        super().__init__()
        self.scripts, self.loads, self.inside, self.open = {}, [], None, []

    def handle_starttag(self, tag, attrs):
        a = dict(attrs)
        self.loads += [v for k, v in attrs if k in ("src", "href", "srcset", "action", "poster", "data")]
        if tag == "link":
            self.loads.append("link")
        if tag == "script":
            self.inside = a.get("id", "code")
        if tag not in ("meta", "link", "br", "input", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.loads.append(f"unbalanced {tag}")
        if tag == "script":
            self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.scripts[self.inside] = self.scripts.get(self.inside, "") + data


def pages(c, models):
    """--html: one file that loads nothing, whose data are the plan."""
    with tempfile.TemporaryDirectory() as d:
        for name, model, more in models:
            file = os.path.join(d, "plan.html")
            rc, plan, _ = c.run("plan", model, "--html", file, *more)
            with open(file, encoding="utf-8") as f:
                text = f.read()
            page = Page()
            page.feed(text)
            c.check(f"{name}: a closed document that loads nothing", not page.loads and not page.open, page.loads + page.open)
            c.check(f"{name}: no address in it", "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text and "url(" not in text)
            data = json.loads(page.scripts.get("data", "null"))
            c.check(f"{name}: the page holds the plan", data and data["plan"] == plan, data and data["plan"].keys())
            device = data["devices"][0]
            resident_bytes = sum(r["bytes"] for r in device["resident"])
            arena = max(p["arena_bytes"] for p in device["profiles"])
            # Blocks of weights and caches lie at multiples of 64 bytes.
            rest = planned(plan) - resident_bytes - arena
            c.check(f"{name}: what it draws adds up", 0 <= rest <= 64 * len(device["resident"]), rest)
            for p in device["profiles"]:
                bad = [b for b in p["buffers"] if not (0 <= b[2] and b[2] + b[3] <= p["arena_bytes"] and 0 <= b[4] < b[5] <= len(p["steps"]) and b[0])]
                c.check(f"{name}: buffers of {p['name']} lie inside", p["buffers"] and not bad, bad[:2])
            if not CHROMIUM:
                c.skip(f"{name} in a browser", "there is no chromium")
                continue
            dom = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom", "file://" + file],
                                 capture_output=True, timeout=120).stdout.decode("utf-8", "replace")
            drawn = sum(len(p["buffers"]) for p in device["profiles"])
            c.check(f"{name} in a browser: every buffer is drawn", 'data-ready="1"' in dom and dom.count('class="buffer"') == drawn, (drawn, dom.count('class="buffer"'), dom[-300:]))
            c.check(f"{name} in a browser: verdict and tags", ("fits" if plan["fits"] else "does not fit") + "</span>" in dom and dom.count("data-tag=") == sum(v > 0 for v in plan["devices"][0]["tags"].values()))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--ullage", required=True)
    ap.add_argument("--zoo")
    ap.add_argument("--models")
    a = ap.parse_args()
    c = Check(a.ullage)
    folders = [f.rstrip("/") for f in sorted(glob.glob(os.path.join(ROOT, "tests/zoo/*/")) + (glob.glob(a.zoo + "/*/") if a.zoo else []))
               if glob.glob(f + "/**/*.onnx", recursive=True)]
    ggufs = sorted(glob.glob(os.path.join(ROOT, "tests/gguf/models/*.gguf")) + (glob.glob(a.models + "/*.gguf") if a.models else []))
    runnable = [f for f in folders if c.run("plan", f)[1].get("context")]
    without_data(c, folders, ggufs)
    same_as_run(c, (runnable if a.zoo else runnable[:8]) + (ggufs if a.models else ggufs[:4]))
    with tempfile.TemporaryDirectory() as d:
        made = real_sizes(c, d)
        small = [(os.path.basename(x), x) for x in runnable[:3] + ggufs[:2]]
        contexts(c, made + small)
        remedies(c, made + small)
        pages(c, [(n, m, []) for n, m in made[:1] + small[:2]] + [("too large", made[0][1], ["--limit", "cpu=1GiB"])])
    print(f"plan: {c.passed} passed, {c.failed} failed, {c.skipped} skipped")
    return 1 if c.failed else 0


if __name__ == "__main__":
    sys.exit(main())
