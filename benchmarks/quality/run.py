#!/usr/bin/env python3
"""How far the program's logits are from a float32 reference of the same weights.

    benchmarks/quality/run.py MODEL.gguf [--prompts 20] [--text FILE] [--tokens 10000] [--option KEY=VALUE]

The reference is tests/gguf/reference.py: the file's weights dequantised to float32, no quantised activations or caches.
Printed are, over all positions of all prompts, the mean and largest Kullback-Leibler divergence (nats) and the share of
positions with the same arg-max. With --text half of the prompts are passages of that text, of up to 512 tokens, and both
perplexities of its first tokens are printed (windows of 512). Needs numpy and gguf; a model of 0.5 billion parameters
takes minutes.

A public-domain text of the right length, for example (Debian package bible-kjv):
    bible -f 'Ruth1:1-Ruth4:22' 'Esther1:1-Esther10:3' | sed -E 's/^[^ ]+ //' > text.txt
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests/gguf"))
import reference  # noqa: E402

PROMPTS = [
    "The capital of France is", "Water boils at a temperature of", "Once upon a time, in a small village by the sea, there lived a fisherman who",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return", "Question: What is 12 times 12?\nAnswer:", "Dear Sir or Madam, I am writing to",
    "The three laws of thermodynamics state that", "In 1969 the first human being walked on the", "A recipe for bread needs flour, water, salt and",
    "SELECT name, age FROM people WHERE", "Photosynthesis is the process by which plants", "To be, or not to be, that is the",
    "The quick brown fox jumps over the lazy dog. The dog", "Le chat est assis sur la", "Der Hund läuft schnell durch den",
    "import numpy as np\n\nx = np.arange(10)\ny =", "Breaking news: scientists have discovered that", "My favourite season is autumn because",
    "The theory of relativity was published by", "Step 1: wash your hands. Step 2:",
]


def log_softmax(x):
    x = x.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def ours(model, ids, options):
    with tempfile.TemporaryDirectory() as d:
        json.dump(ids, open(d + "/ids.json", "w"))
        more = [x for o in options for x in ("--option", o)]
        subprocess.run([os.path.join(ROOT, "build/release/bin/ullage"), "perplexity", model, "--ids", d + "/ids.json", "--context", str(max(len(ids), 16)),
                        "--logits", d + "/logits.npy", "--json", *more], check=True, stdout=subprocess.DEVNULL)
        return np.load(d + "/logits.npy")


def tokens(model, text):
    out = subprocess.run([os.path.join(ROOT, "build/release/bin/ullage"), "tokenize", model, "--text", text, "--json"], check=True, capture_output=True).stdout
    return json.loads(out)["ids"]


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--prompts", type=int, default=20)
    ap.add_argument("--text")
    ap.add_argument("--tokens", type=int, default=10000)
    ap.add_argument("--option", action="append", default=[])
    a = ap.parse_args()
    m = reference.Model(a.model)
    text = tokens(a.model, open(a.text, encoding="utf-8").read()) if a.text else []
    passages = a.prompts // 2 if text else 0
    prompts = [tokens(a.model, p) for p in PROMPTS[:a.prompts - passages]]
    for k in range(passages):
        length = 512 * (k + 1) // passages
        at = (len(text) - length) * k // max(passages - 1, 1)
        prompts.append(text[at:at + length])
    kl, same = [], []
    for ids in prompts:
        want, got = log_softmax(m.logits(np.array(ids))), log_softmax(ours(a.model, ids, a.option))
        kl.append((np.exp(want) * (want - got)).sum(-1))
        same.append(want.argmax(-1) == got.argmax(-1))
    kl, same = np.concatenate(kl), np.concatenate(same)
    result = {"model": os.path.basename(a.model), "prompts": len(prompts), "positions": kl.size, "kl_mean": float(kl.mean()), "kl_max": float(kl.max()), "top1": float(same.mean())}
    if text:
        nll = np.zeros(2)
        count = 0
        for at in range(0, min(len(text), a.tokens) - 1, 512):
            window = text[at:min(at + 512, a.tokens)]
            for k, logits in enumerate((m.logits(np.array(window)), ours(a.model, window, a.option))):
                l = log_softmax(logits)
                nll[k] -= l[np.arange(len(window) - 1), window[1:]].sum()
            count += len(window) - 1
        result |= {"tokens": count, "perplexity_reference": float(np.exp(nll[0] / count)), "perplexity": float(np.exp(nll[1] / count))}
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
