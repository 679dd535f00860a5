#!/usr/bin/env python3
"""What each planning technique saves: plans models with it and without it, and prints a table in Markdown.

    benchmarks/memory/run.py [--ullage PROGRAM] [--context N] MODEL...

MODEL is whatever `ullage plan` takes; a folder without a model of its own stands for the .onnx files in it. The arena
(activations and workspaces) of the largest profile counts, in bytes; no weight is read.
"""
import argparse
import glob
import json
import os
import subprocess
import sys

SWITCHES = ["order", "views", "in_place", "concat"]


def plan(args, model, off):
    """(arena bytes, arena / lower bound), or a message."""
    command = [args.ullage, "plan", model, "--json"] + args.rest
    for switch in off:
        command += ["--option", f"session.plan_{switch}=0"]
    p = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        out = json.loads(p.stdout)
    except ValueError:
        return f"exit code {p.returncode}"
    if "error" in out:
        return out["error"]["message"]
    worst = max(out["profiles"], key=lambda profile: profile["arena_bytes"])
    return worst["arena_bytes"], max(profile["arena_ratio"] for profile in out["profiles"])


def models(paths):
    for path in paths:
        inside = sorted(glob.glob(os.path.join(path, "*.onnx")) + glob.glob(os.path.join(path, "onnx", "*.onnx")))
        language_model = os.path.exists(os.path.join(path, "genai_config.json"))
        if os.path.isdir(path) and inside and not language_model:
            yield from inside
        else:
            yield path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ullage", default="build/release/bin/ullage")
    parser.add_argument("models", nargs="+")
    args, args.rest = parser.parse_known_args()
    print("| model | arena, none | all | all / none | " + " | ".join(f"without {s}" for s in SWITCHES) + " | arena / bound |")
    print("|---|---|---|---|" + "---|" * len(SWITCHES) + "---|")
    for model in models(args.models):
        name = os.path.basename(os.path.dirname(model)) if model.endswith(".onnx") else os.path.basename(model.rstrip("/"))
        full = plan(args, model, [])
        if isinstance(full, str):
            print(f"{model}: {full[:150]}", file=sys.stderr)
            continue
        none = plan(args, model, SWITCHES)[0]
        cells = [f"{plan(args, model, [switch])[0] / full[0] - 1:+.1%}" for switch in SWITCHES]
        print(f"| {name} | {none} | {full[0]} | {full[0] / none:.3f} | " + " | ".join(cells) + f" | {full[1]:.4f} |", flush=True)


if __name__ == "__main__":
    main()
