#!/usr/bin/env python3
"""What each planning technique saves: plans models with it and without it, and prints a table in Markdown.

    benchmarks/memory/run.py [--ullage PROGRAM] [--max-ratio R] [--context N] [--shape NAME=DIMS]... [MODEL...]

MODEL is whatever `ullage plan` takes; a folder without a model of its own stands for the .onnx files in it. Without a MODEL, graphs that branch are made: an inception net, a U-net, and diamonds whose
branches the model interleaves. The arena (activations and workspaces) of the largest profile counts, in bytes; no
weight is read. Exit status 1 when an arena is more than R (1.01) times its lower bound.
"""
import argparse
import glob
import json
import os
import subprocess
import sys
import tempfile

SWITCHES = ["order", "views", "in_place", "concat", "tiles"]


class Graph:
    """A graph of convolutions, with weights of zeros."""

    def __init__(self, channels, size):
        from onnx import TensorProto, helper
        self.helper, self.f32 = helper, TensorProto.FLOAT
        self.nodes, self.weights, self.count = [], [], 0
        self.inputs = [helper.make_tensor_value_info("x", self.f32, [1, channels, size, size])]
        self.width = {"x": channels}

    def node(self, op, inputs, width, **attributes):
        self.count += 1
        out = f"{op.lower()}_{self.count}"
        self.nodes.append(self.helper.make_node(op, inputs, [out], name=out, **attributes))
        self.width[out] = width
        return out

    def conv(self, x, width, kernel=3, stride=1):
        name = f"w_{self.count}"
        shape = [width, self.width[x], kernel, kernel]
        data = bytes(4 * width * self.width[x] * kernel * kernel)
        self.weights.append(self.helper.make_tensor(name, self.f32, shape, data, raw=True))
        y = self.node("Conv", [x, name], width, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)
        return self.node("Relu", [y], width)

    def concat(self, xs):
        return self.node("Concat", xs, sum(self.width[x] for x in xs), axis=1)

    def save(self, path, y):
        import onnx
        out = self.helper.make_tensor_value_info(y, self.f32, None)
        graph = self.helper.make_graph(self.nodes, "net", self.inputs, [out], self.weights)
        onnx.save(self.helper.make_model(graph, opset_imports=[self.helper.make_opsetid("", 17)], ir_version=8), path)
        return path


def inception(path):
    g = Graph(32, 64)
    x = "x"
    for _ in range(4):
        a = g.conv(x, 32, 1)
        b = g.conv(g.conv(x, 48, 1), 64)
        c = g.conv(g.conv(g.conv(x, 48, 1), 64), 64)
        d = g.conv(g.node("AveragePool", [x], g.width[x], kernel_shape=[3, 3], pads=[1] * 4), 32, 1)
        x = g.conv(g.concat([a, b, c, d]), 64, 1)
    return g.save(path, x)


def unet(path):
    g = Graph(3, 128)
    x, skips = "x", []
    for width in (16, 32, 64):
        x = g.conv(g.conv(x, width), width)
        skips.append(x)
        x = g.node("MaxPool", [x], width, kernel_shape=[2, 2], strides=[2, 2])
    x = g.conv(x, 128)
    for width, skip in zip((64, 32, 16), reversed(skips)):
        w = f"t_{g.count}"
        g.weights.append(g.helper.make_tensor(w, g.f32, [g.width[x], width, 2, 2], bytes(16 * g.width[x] * width), raw=True))
        up = g.node("ConvTranspose", [x, w], width, kernel_shape=[2, 2], strides=[2, 2])
        x = g.conv(g.conv(g.concat([skip, up]), width), width)
    return g.save(path, g.conv(x, 1, 1))


def diamonds(path):
    """Branches that shrink, written level by level."""
    g = Graph(16, 64)
    x = "x"
    for _ in range(3):
        heads = [x] * 6
        for level in range(4):
            heads = [g.conv(h, 4 if level == 3 else 32) for h in heads]
        x = g.concat(heads)
    return g.save(path, x)


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


def name_of(model):
    base = os.path.basename(model.rstrip("/"))
    return os.path.basename(os.path.dirname(model)) if base == "model.onnx" else os.path.splitext(base)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ullage", default="build/release/bin/ullage")
    parser.add_argument("--max-ratio", type=float, default=1.01)
    parser.add_argument("--context")
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("models", nargs="*")
    args = parser.parse_args()
    args.rest = [x for shape in args.shape for x in ("--shape", shape)] + (["--context", args.context] if args.context else [])
    worst = 1.0
    print("| model | arena, none | all | all / none | " + " | ".join(f"without {s}" for s in SWITCHES) + " | arena / bound |")
    print("|---|---|---|---|" + "---|" * len(SWITCHES) + "---|")
    with tempfile.TemporaryDirectory() as tmp:
        made = [make(os.path.join(tmp, f"{make.__name__}.onnx")) for make in (inception, unet, diamonds)] if not args.models else []
        for model in models(args.models or made):
            full = plan(args, model, [])
            if isinstance(full, str):
                print(f"{model}: {full[:150]}", file=sys.stderr)
                continue
            none = plan(args, model, SWITCHES)[0]
            cells = [f"{plan(args, model, [switch])[0] / max(full[0], 1) - 1:+.1%}" for switch in SWITCHES]
            worst = max(worst, full[1])
            print(f"| {name_of(model)} | {none} | {full[0]} | {full[0] / max(none, 1):.3f} | " + " | ".join(cells) + f" | {full[1]:.4f} |", flush=True)
    return 1 if worst > args.max_ratio else 0


if __name__ == "__main__":
    sys.exit(main())
