#!/usr/bin/env python3
"""Runs all tests of a built tree and counts them. The last line is `N passed, N failed, N skipped`.

    tests/run.py [--stage NAME]... [--build DIR]

Stages: style (formatting, layers), unit (GoogleTest programs of build/release), program (the built program: zoo
selection, conversations in a pseudo-terminal, allocations, limits), shared (the checks of a folder ../shared, skipped
where there is none), sanitizers (the fast tests under ASan+UBSan and TSan), fuzz (every fuzzer for --fuzz-seconds).
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
PYTHON = os.path.join(ROOT, ".venv/bin/python")
SHARED = os.environ.get("ULLAGE_SHARED", os.path.join(ROOT, "..", "shared"))
STAGES = ["style", "unit", "program", "shared", "sanitizers", "fuzz"]

# Decoders, tokenizers and templates that are built; the rest of a zoo is left out of the check.
ZOO_DECODERS = ["genai-*", "genai05-*", "genai09-*", "optimum-llama", "optimum-qwen3", "optimum-gemma3", "optimum-gpt2",
                "dynamo-llama-op23", "ortq-llama-q4*", "ortq-llama-fp16*", "ortq-qwen3-q8-b32", "hub-layout-qwen3"]
ZOO_SKIP = ["genai-gptoss-*", "genai-lfm2-*", "genai-qwen35-*", "genai-whisper-*", "genai-llama-fp16-cuda-paged",
            "genai-llama-fp32-exclude-*", "hub-layout-qwen3/model_quantized/*"]


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def add(self, passed, failed, skipped):
        self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + skipped


def run(args, timeout, **kw):
    """(exit status, output); a time-out is status None."""
    try:
        p = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=timeout, cwd=ROOT, **kw)
        return p.returncode, p.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired as e:
        return None, (e.stdout or b"").decode("utf-8", "replace")


def report(count, name, status, output, counts, seconds):
    passed, failed, skipped = counts
    if status != 0 and failed == 0:
        failed = 1
    count.add(passed, failed, skipped)
    mark = "ok  " if failed == 0 else "FAIL"
    print(f"{mark} {name}: {passed} passed, {failed} failed, {skipped} skipped ({seconds:.1f} s)", flush=True)
    if failed:
        lines = output.strip().split("\n")
        interesting = [x for x in lines if re.search(r"FAIL|Failure|rror|expected|Expected|Which is|runtime error|SUMMARY", x)]
        for line in (interesting or lines)[-40:]:
            print("     " + line[:300])


def one(count, name, args, timeout, **kw):
    start = time.time()
    status, output = run(args, timeout, **kw)
    counts = (1, 0, 0) if status == 0 else (0, 1, 0)
    report(count, name, status, output, counts, time.time() - start)


def counted(count, name, args, timeout, **kw):
    """A program that prints its own counts, the last line `…N passed, N failed[, N skipped]`."""
    start = time.time()
    status, output = run(args, timeout, **kw)
    found = re.findall(r"^\w+: (\d+) passed, (\d+) failed(?:, (\d+) skipped)?", output, re.M)
    if found and output.strip().split("\n")[-1].startswith("all:"):
        found = found[-1:]
    counts = tuple(sum(int(x[i] or 0) for x in found) for i in range(3)) if found else (0, 1, 0)
    report(count, name, status, output, counts, time.time() - start)


def gtest(count, name, program, timeout, extra=(), **kw):
    start = time.time()
    status, output = run([program, "--gtest_brief=1", *extra], timeout, **kw)
    ran = re.search(r"\[==========\] (\d+) tests? from", output)
    skipped = len(re.findall(r"^\[  SKIPPED \] \w+[./]", output, re.M))
    failed = len(set(re.findall(r"^\[  FAILED  \] (\S+)", output, re.M)))
    total = int(ran.group(1)) if ran else 0
    counts = (max(total - failed - skipped, 0), failed, skipped) if ran else (0, 1, 0)
    report(count, name, status, output, counts, time.time() - start)


def style(count):
    one(count, "style: formatting", ["tools/check_format.sh"], 300)
    one(count, "style: layers and sizes", [sys.executable, "tools/check_layering.py"], 60)


def unit(count, build):
    for program in sorted(glob.glob(os.path.join(build, "bin", "*_test"))):
        gtest(count, "unit: " + os.path.basename(program), program, 900)


def program(count, build):
    exe = os.path.join(build, "bin", "ullage")
    for script in sorted(glob.glob(os.path.join(ROOT, "tests/program/*_check.py"))):
        counted(count, "program: " + os.path.basename(script), [PYTHON, script, "--ullage", exe], 900)
    cases = [PYTHON, os.path.join(ROOT, "tests/conformance/onnx_cases.py"), "--ullage", exe]
    counted(count, "program: onnx_cases.py", cases, 900)
    for device in ("reference", "opencl"):
        counted(count, f"program: onnx_cases.py on {device}", [*cases, "--device", device], 900)
    counted(count, "program: zoo_check.py on reference",
            [PYTHON, os.path.join(ROOT, "tests/program/zoo_check.py"), "--ullage", exe, "--device", "reference"], 900)


def shared(count, build):
    zoo, tool = os.path.join(SHARED, "data", "zoo"), os.path.join(SHARED, "tools", "zoo_check.py")
    if not (os.path.isdir(zoo) and os.path.exists(tool)):
        count.add(0, 0, 1)
        print("skip shared: there is no folder ../shared", flush=True)
        return
    base = [PYTHON, tool, "--ullage", os.path.join(build, "bin", "ullage"), "--zoo", zoo, "--jobs", "2"]
    only, skip = ["--only", ",".join(ZOO_DECODERS)], ["--skip", ",".join(ZOO_SKIP)]
    counted(count, "shared: decoders", base + only + skip + ["decoders"], 900)
    counted(count, "shared: greedy", base + only + skip + ["greedy"], 900)
    counted(count, "shared: placed", base + only + skip + ["placed"], 900)
    counted(count, "shared: graphs", base + ["graphs"], 900)
    counted(count, "shared: tokenizers", base + ["tokenizers"], 900)
    counted(count, "shared: templates", base + ["templates"], 600)
    counted(count, "shared: load", base + ["load"], 600)


def sanitizers(count):
    fast = {"asan": ["core_test", "memory_test", "graph_test", "onnx_test", "gguf_test", "tokenizer_test", "template_test"],
            "tsan": ["core_test", "memory_test", "plugin_host_test", "reference_test", "session_test"]}
    # What has threads, but not what is mostly planning.
    filters = ["Concurrent.*", "Session.*", "Prepacked.*", "Residency.*", "Devices.*-Devices.AnySplit*", "Devices.BudgetsAreKept"]
    extra = {("tsan", "session_test"): ["--gtest_filter=" + ":".join(filters)]}
    env = {**os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1:detect_leaks=1"}
    for kind, names in fast.items():
        for name in names:
            path = os.path.join(ROOT, "build", kind, "bin", name)
            if os.path.exists(path):
                gtest(count, f"{kind}: {name}", path, 1200, extra.get((kind, name), ()), env=env)


def fuzz(count, seconds):
    jobs = []
    for path in sorted(glob.glob(os.path.join(ROOT, "build/fuzz/bin/*_fuzz"))):
        name = os.path.basename(path)
        kind = {"tokenizer_json_fuzz": "tokenizer", "template_fuzz": "template", "onnx_fuzz": "onnx", "gguf_fuzz": "gguf",
                "tensor_io_fuzz": "tensor_io"}.get(name, name[:-5])
        corpus = os.path.join(ROOT, "tests/fuzz/corpus", kind)
        work = os.path.join(ROOT, "build/fuzz/corpus", kind)
        os.makedirs(work, exist_ok=True)
        args = [path, work] + ([corpus] if os.path.isdir(corpus) else [])
        args += [f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=3000", "-print_final_stats=0", "-verbosity=0"]
        jobs.append((name, args))
    # Two at a time.
    for i in range(0, len(jobs), 2):
        running = [(n, time.time(), subprocess.Popen(a, cwd=os.path.join(ROOT, "build/fuzz"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)) for n, a in jobs[i:i + 2]]
        for name, start, p in running:
            output = p.communicate()[0].decode("utf-8", "replace")
            report(count, f"fuzz: {name}", p.returncode, output, (1, 0, 0) if p.returncode == 0 else (0, 1, 0), time.time() - start)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--stage", action="append", choices=STAGES, help="default: all")
    ap.add_argument("--build", default=os.path.join(ROOT, "build/release"))
    ap.add_argument("--fuzz-seconds", type=int, default=60)
    a = ap.parse_args()
    count = Count()
    for stage in a.stage or STAGES:
        if stage == "style":
            style(count)
        elif stage == "unit":
            unit(count, a.build)
        elif stage == "program":
            program(count, a.build)
        elif stage == "shared":
            shared(count, a.build)
        elif stage == "sanitizers":
            sanitizers(count)
        elif stage == "fuzz":
            fuzz(count, a.fuzz_seconds)
    print(f"{count.passed} passed, {count.failed} failed, {count.skipped} skipped")
    return 1 if count.failed else 0


if __name__ == "__main__":
    sys.exit(main())
