#!/usr/bin/env python3
"""Speed of this program beside its peers: the same model file, threads and prompt length, in turns.

    benchmarks/peers/setup            once: installs the peers into build/peers (llama.cpp is compiled for this machine)
    benchmarks/peers/run.py [--model GGUF] [--folder GENAI_FOLDER] [--threads 2] [-p 512] [-n 128] [--depth 32] [-r 5]

GGUF models are compared with llama.cpp, onnxruntime-genai folders with onnxruntime-genai. Engines alternate within each
round, so that a noisy neighbour meets all of them; printed are medians and the ratio of medians (ours / theirs for
tokens per second, theirs / ours for load times, so more than 1 is always in our favour).
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", ".."))
PEERS = os.path.join(ROOT, "build/peers/bin/python")


def ours(a, model):
    out = subprocess.run([os.path.join(ROOT, "build/release/bin/ullage"), "bench", model, "-p", str(a.p), "-n", str(a.n), "--depth", str(a.depth),
                          "-r", "1", "--threads", str(a.threads), "--json"], capture_output=True, text=True, check=True).stdout
    o = json.loads(out)
    return {"prefill": o["prefill_tokens_per_s"]["median"], "decode": o["decode_tokens_per_s"]["median"], "load": o["load_s"]}


def peer(a, script, model):
    out = subprocess.run([PEERS, os.path.join(HERE, script), model, str(a.p), str(a.n), str(a.depth), str(a.threads)],
                         capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{script}: {out.stderr[-800:]}")
    return json.loads(out.stdout.strip().split("\n")[-1])


def compare(a, name, script, model):
    rounds = {"ullage": [], name: []}
    for r in range(a.r):
        rounds["ullage"].append(ours(a, model))
        rounds[name].append(peer(a, script, model))
        print(f"round {r + 1}: " + "; ".join(f"{k} prefill {v[-1]['prefill']:.0f} decode {v[-1]['decode']:.1f} load {v[-1]['load']:.3f}" for k, v in rounds.items()), flush=True)
    median = {k: {m: statistics.median(x[m] for x in v) for m in ("prefill", "decode", "load")} for k, v in rounds.items()}
    u, p = median["ullage"], median[name]
    print(f"\n{os.path.basename(model)}, {a.threads} threads, prompt {a.p}, {a.n} tokens at depth {a.depth}, {a.r} rounds")
    print(f"{'':10}{'ullage':>12}{name:>20}{'ratio':>8}")
    for m, unit in (("prefill", "tokens/s"), ("decode", "tokens/s"), ("load", "s")):
        ratio = u[m] / p[m] if m != "load" else p[m] / u[m]
        print(f"{m:10}{u[m]:12.3f}{p[m]:20.3f}{ratio:8.2f}   {unit}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--model", default=os.path.join(os.environ.get("ULLAGE_HOME", os.path.expanduser("~/.ullage/models")), "smollm2.gguf"))
    ap.add_argument("--folder", help="an onnxruntime-genai folder")
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("-p", type=int, default=512)
    ap.add_argument("-n", type=int, default=128)
    ap.add_argument("--depth", type=int, default=32)
    ap.add_argument("-r", type=int, default=5)
    a = ap.parse_args()
    if not os.path.exists(PEERS):
        sys.exit("the peers are not installed: run benchmarks/peers/setup")
    compare(a, "llama.cpp", "llama_cpp_peer.py", a.model)
    if a.folder:
        compare(a, "onnxruntime-genai", "genai_peer.py", a.folder)


if __name__ == "__main__":
    main()
