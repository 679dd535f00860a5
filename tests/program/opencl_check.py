#!/usr/bin/env python3
"""Decoders on an OpenCL device: results against the references of tests/zoo, and what runs where.

    opencl_check.py --ullage BIN

The last line is `opencl: N passed, N failed, N skipped`. Where there is no OpenCL device everything is skipped.
"""
import argparse
import json
import os
import subprocess
import sys

import zoo_check

# One of each kind: quantised weights, half floats with masks, norms of queries and keys, windowed caches, torch's
# own attention, a graph with convolutions.
DECODERS = ["genai-llama-int4-cpu", "genai-llama-fp16-cpu", "genai-qwen3-int4-cpu", "genai-gemma3-fp32-cpu",
            "genai-gemma2-fp32-cpu", "dynamo-llama-op23", "ts-resnet-op13"]
HEAVY = {"MatMul", "Gemm", "ullage:Linear", "ullage:MultiLinear", "com.microsoft:MatMulNBits", "Softmax",
         "com.microsoft:GroupQueryAttention", "com.microsoft:MultiHeadAttention", "Attention", "ullage:CachedAttention",
         "SimplifiedLayerNormalization", "com.microsoft:SkipSimplifiedLayerNormalization", "ullage:SwiGLU", "Conv",
         "com.microsoft:FusedConv", "com.microsoft:GatherBlockQuantized"}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--ullage", required=True)
    exe = os.path.abspath(ap.parse_args().ullage)
    listed = subprocess.run([exe, "devices", "--device", "opencl", "--json"], capture_output=True, timeout=120)
    devices = json.loads(listed.stdout).get("devices", []) if listed.returncode == 0 else []
    if not any(d["provider"] == "opencl" for d in devices):
        print("there is no OpenCL device on this machine")
        print("opencl: 0 passed, 0 failed, 1 skipped")
        return 0
    z = zoo_check.Zoo(exe, "opencl")
    for name in DECODERS:
        zoo_check.decoder(z, os.path.join(zoo_check.ROOT, name))
    for name in DECODERS[:5]:
        command = [z.exe, "plan", os.path.join(zoo_check.ROOT, name), *z.device, "--context", "128", "--nodes", "--json"]
        p = subprocess.run(command, capture_output=True, timeout=120)
        plan = json.loads(p.stdout)
        left = [f"{n['op']} {n['node']}" for n in plan.get("placement", [])
                if n["op"] in HEAVY and not n["device"].startswith("opencl")]
        z.check(f"{name}/placement", "placement" not in plan and plan or left)
    print(f"opencl: {z.passed} passed, {z.failed} failed, 0 skipped")
    return 1 if z.failed else 0


if __name__ == "__main__":
    sys.exit(main())
