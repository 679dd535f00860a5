#!/usr/bin/env python3
"""Loading: memory while weights of every form are packed, packed weights in files, types of caches.

    load_check.py --ullage BUILD/bin/ullage
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from checks import check, finish

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))

# A small process between: the peak that the system reports for a child counts what its parent had when it was started.
MEASURE = ("import resource, subprocess, sys; p = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL); "
           "print(p.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)")


def run(exe, *args):
    p = subprocess.run([exe, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return p.returncode, p.stdout, p.stderr


def tensor(name, array, raw_type=None, dims=None):
    if raw_type is None:
        return numpy_helper.from_array(array, name)
    return helper.make_tensor(name, raw_type, dims, array.tobytes(), raw=True)


K, BLOCK = 1024, 32


def float_model(n, rng):
    w = rng.standard_normal((K, n), dtype=np.float32)
    return [helper.make_node("MatMul", ["x", "w"], ["y"])], [tensor("w", w)], w


def gemm_model(n, rng):
    w = rng.standard_normal((n, K), dtype=np.float32)
    return [helper.make_node("Gemm", ["x", "w"], ["y"], transB=1)], [tensor("w", w)], w.T


def nbits_model(n, rng):
    codes = rng.integers(0, 256, (n, K // BLOCK, BLOCK // 2), dtype=np.uint8)
    scales = rng.random((n, K // BLOCK), dtype=np.float32) * 0.1
    elements = np.stack([codes & 15, codes >> 4], -1).reshape(n, K // BLOCK, BLOCK).astype(np.float32) - 8
    node = helper.make_node("MatMulNBits", ["x", "q", "s"], ["y"], domain="com.microsoft", K=K, N=n, bits=4, block_size=BLOCK)
    return [node], [tensor("q", codes), tensor("s", scales)], (elements * scales[:, :, None]).reshape(n, K).T


def qdq_model(n, rng):
    codes = rng.integers(-8, 8, (K, n), dtype=np.int8)
    scales = rng.random((K // BLOCK, n), dtype=np.float32) * 0.1
    flat = (codes & 15).astype(np.uint8).reshape(-1)
    packed = flat[0::2] | flat[1::2] << 4
    nodes = [helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0, block_size=BLOCK), helper.make_node("MatMul", ["x", "w"], ["y"])]
    return nodes, [tensor("q", packed, TensorProto.INT4, [K, n]), tensor("s", scales)], codes * np.repeat(scales, BLOCK, 0)


def memory_while_packing(exe, folder):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((2, K), dtype=np.float32)
    for form, make, large in [("float [K,N]", float_model, 16384), ("float [N,K]", gemm_model, 16384), ("MatMulNBits", nbits_model, 131072),
                              ("QDQ [K,N]", qdq_model, 131072)]:
        peaks, planned = [], []
        for n in (64, large):
            path = os.path.join(folder, "model.onnx")
            nodes, weights, dense = make(n, rng)
            value = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
            graph = helper.make_graph(nodes, "g", [value("x", [2, K])], [value("y", [2, n])], weights)
            model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10)
            onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
            inputs, outputs = os.path.join(folder, "in"), os.path.join(folder, "out")
            os.makedirs(inputs, exist_ok=True)
            np.save(os.path.join(inputs, "x.npy"), x)
            args = ["infer", path, "--inputs", inputs, "--outputs", outputs]
            p = subprocess.run([sys.executable, "-S", "-c", MEASURE, exe, *args], capture_output=True, text=True)
            code, peak = map(int, p.stdout.split())
            check(f"{form}: runs", code == 0, p.stderr)
            if code == 0:
                y, want = np.load(os.path.join(outputs, "y.npy")), x @ dense
                check(f"{form}: result", np.allclose(y, want, rtol=1e-3, atol=1e-3 * np.abs(want).max()), np.abs(y - want).max())
            code, out, err = run(exe, "plan", path, "--json")
            check(f"{form}: plan", code == 0, err)
            peaks.append(peak)
            planned.append(json.loads(out)["devices"][0]["planned_bytes"])
            os.remove(os.path.join(folder, "weights"))
        grown, allowed = peaks[1] - peaks[0], 1.1 * (planned[1] - planned[0]) + (4 << 20)
        check(f"{form}: loading peaks at what stays", grown <= allowed, f"{grown} bytes more than a small model, expected at most {allowed:.0f}")


def answer(exe, model, *flags):
    code, out, err = run(exe, "run", model, "--prompt-ids", "5,42,79,116,153,190", "--max-tokens", "12", "--temperature", "0", "--context", "64", "--json", *flags)
    return json.loads(out)["token_ids"] if code == 0 else (code, out, err)


def packed_weights_in_files(exe, folder):
    model, cache = os.path.join(ROOT, "tests/zoo/genai-llama-int4-cpu"), os.path.join(folder, "cache")
    flags = ["--option", f"session.prepacked_cache={cache}"]
    want = answer(exe, model)
    check("cache: first", answer(exe, model, *flags) == want)
    files = [os.path.join(cache, f) for f in os.listdir(cache)]
    check("cache: one whole file", len(files) == 1 and files[0].endswith(".prepacked"), files)
    before = os.stat(files[0])
    check("cache: second", answer(exe, model, *flags) == want)
    check("cache: not written again", os.stat(files[0]).st_mtime_ns == before.st_mtime_ns and os.stat(files[0]).st_ino == before.st_ino)
    good = open(files[0], "rb").read()
    for name, bad in [("cut", good[:len(good) // 2]), ("empty", b""), ("changed", good[:-1000] + bytes([good[-1000] ^ 1]) + good[-999:]), ("foreign", os.urandom(len(good)))]:
        open(files[0], "wb").write(bad)
        check(f"cache: {name} file", answer(exe, model, *flags) == want)
        check(f"cache: {name} file is replaced", open(files[0], "rb").read() == good)
    answer(exe, model, *flags, "--option", "ep.cpu.activation_bits=8")
    check("cache: other options, other file", len(os.listdir(cache)) == 2, os.listdir(cache))


def types_of_caches(exe):
    for model in ("genai-llama-int4-cpu", "optimum-llama", "genai-gemma3-fp32-cpu"):
        path = os.path.join(ROOT, "tests/zoo", model)
        want, sizes = answer(exe, path, "--kv-type", "float32"), {}
        for kind in ("float32", "float16", "bfloat16", "int8", "int8_head"):
            code, out, err = run(exe, "plan", path, "--context", "64", "--kv-type", kind, "--json")
            sizes[kind] = json.loads(out)["devices"][0]["tags"]["kv"] if code == 0 else None
            got = answer(exe, path, "--kv-type", kind)
            check(f"{model}: {kind} answers", isinstance(got, list) and got[0] == want[0] and (kind not in ("float32", "float16") or got == want), f"{got}, expected {want}")
        check(f"{model}: sizes", sizes["float32"] == 2 * sizes["float16"] == 2 * sizes["bfloat16"] and sizes["int8_head"] <= sizes["int8"] < 0.6 * sizes["float16"], sizes)
    code, out, err = run(exe, "run", path, "--prompt-ids", "1", "--kv-type", "int3", "--json")
    check("unknown type", code == 2 and json.loads(out)["error"]["code"] == "usage", (code, out))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--ullage", required=True)
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        memory_while_packing(a.ullage, folder)
        packed_weights_in_files(a.ullage, folder)
    types_of_caches(a.ullage)
    return finish("load")


if __name__ == "__main__":
    sys.exit(main())
