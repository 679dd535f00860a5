#!/usr/bin/env python3
"""Devices that fail, and devices that are too small: a run ends with an error that tells, or with the right answer.

    faults_check.py --ullage BIN

Uses the simulated GPU (ep.reference.*) and tests/zoo. The last line is `faults: N passed, N failed`.
"""
import argparse
import concurrent.futures
import json
import os
import subprocess
import sys

import checks

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = os.path.join(ROOT, "zoo", "genai-llama-int4-cpu")


class Program:
    def __init__(self, exe):
        self.exe = exe

    def run(self, *args):
        p = subprocess.run([self.exe, "run", MODEL, "--prompt-ids", "1,2,3", "--max-tokens", "3", "--temperature", "0", "--json",
                            *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
        try:
            return p.returncode, json.loads(p.stdout)
        except ValueError:
            return p.returncode, {"broken": (p.stdout[-300:] + p.stderr[-300:]).decode("utf-8", "replace")}


def every_call_fails_once(program, pool, want):
    """N-th device call, for every N there is: opening, reserving, copying, computing, waiting."""
    split = ["--device", "reference", "--assign", "gpu(layers.0/); cpu(layers.1/)", "--option",
             "session.pre_allocate_execution_buffers=1"]
    failed = set()
    for first in range(1, 1000, 32):
        numbers = range(first, first + 32)
        for n, (rc, o) in zip(numbers, pool.map(lambda n: program.run(*split, "--option", f"ep.reference.fail_at={n}"), numbers)):
            message = o.get("error", {}).get("message", "")
            if rc == 0:
                checks.check(f"call {n}: nothing failed, and the tokens are right", o["token_ids"] == want, o)
            elif checks.check(f"call {n}: an error that says who and what", rc in (4, 6) and "reference" in message and
                              f"fail_at={n}" in message, (rc, o)):
                failed.add(message.split(" fails")[0].split()[-1])
        if rc == 0:
            break
    checks.check("all kinds of calls were made to fail", {"open_device", "create_stream", "create_event", "copy", "finish",
                                                          "host_wait", "compute"} <= failed, failed)


def limits(program, pool, want):
    """The device's limit, and its capacity, in steps from nothing to enough."""
    rc, o = program.run("--device", "reference")
    whole = next(m for m in o["memory"] if m["device"] == "reference:0")["planned_bytes"]
    steps = [whole * i // 20 for i in range(21)]
    for what, flags in (("limit", lambda n: ["--limit", f"reference={n}"]),
                        ("capacity", lambda n: ["--option", f"ep.reference.capacity={max(n, 1)}"])):
        used = []
        for n, (rc, o) in zip(steps, pool.map(lambda n: program.run("--device", "reference", *flags(n)), steps)):
            device = next((m for m in o.get("memory", []) if m["device"] == "reference:0"), {})
            checks.check(f"{what} {n}: the same tokens", rc == 0 and o.get("token_ids") == want, (rc, o))
            checks.check(f"{what} {n}: kept", device.get("peak_bytes", n + 1) <= n and
                         device["peak_bytes"] == device["planned_bytes"], device)
            used.append(device.get("peak_bytes", 0))
        checks.check(f"{what}: what is there is used", used[-1] > 0.95 * whole and used[10] > 0.6 * steps[10], used)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ullage", required=True)
    program = Program(parser.parse_args().ullage)
    rc, o = program.run()
    if checks.check("the host alone", rc == 0, o):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            every_call_fails_once(program, pool, o["token_ids"])
            limits(program, pool, o["token_ids"])
    return checks.finish("faults")


if __name__ == "__main__":
    sys.exit(main())
