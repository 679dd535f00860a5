#!/usr/bin/env python3
"""Latency of vision graphs beside ONNX Runtime's, on this machine.

    run.py --ullage BIN [--only NAME,...] [--threads 1,2] [--repeat 10] [--cpu-time]

Builds networks with random weights (ResNet-50, MobileNetV2, a small ViT, a detector with SiLU, an audio encoder), runs
both programs over each, one after the other, and prints medians and their ratio (ONNX Runtime's time through ours: above
1 we are faster). --cpu-time takes processor seconds instead of the clock, one thread: use it on a machine that is busy.
Needs the PyPI packages numpy, onnx and onnxruntime.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(1)


class Net:
    def __init__(self, shape):
        self.nodes, self.weights, self.shape, self.n = [], [], shape, 0

    def weight(self, array):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def random(self, *shape):
        scale = (2.0 / max(np.prod(shape[1:]), 1)) ** 0.5 if len(shape) > 1 else 0.1
        return self.weight((rng.standard_normal(shape) * scale).astype(np.float32))

    def op(self, op, *inputs, outputs=1, domain="", **attrs):
        self.n += 1
        out = [f"v{self.n}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), out, domain=domain, **attrs))
        return out[0] if outputs == 1 else out

    def conv(self, x, cin, cout, k, stride=1, group=1, act=None):
        y = self.op("Conv", x, self.random(cout, cin // group, k, k), self.random(cout), kernel_shape=[k, k],
                    strides=[stride] * 2, pads=[k // 2] * 4, group=group)
        if act == "relu":
            return self.op("Relu", y)
        if act == "relu6":
            return self.op("Clip", y, self.weight(np.float32(0)), self.weight(np.float32(6)))
        if act == "silu":
            return self.op("Mul", y, self.op("Sigmoid", y))
        return y

    def linear(self, x, cin, cout):
        return self.op("Add", self.op("MatMul", x, self.random(cin, cout)), self.random(cout))

    def norm(self, x, d):
        return self.op("LayerNormalization", x, self.weight(np.ones(d, np.float32)), self.random(d), axis=-1)

    def attention(self, x, s, d, heads):
        q, k, v = (self.op("Transpose", self.op("Reshape", self.linear(x, d, d), self.weight(np.array([1, s, heads, d // heads]))),
                           perm=[0, 2, 1, 3]) for _ in range(3))
        scores = self.op("Mul", self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2])),
                         self.weight(np.float32((d // heads) ** -0.5)))
        y = self.op("MatMul", self.op("Softmax", scores, axis=-1), v)
        y = self.op("Reshape", self.op("Transpose", y, perm=[0, 2, 1, 3]), self.weight(np.array([1, s, d])))
        return self.linear(y, d, d)

    def block(self, x, s, d, heads):
        x = self.op("Add", x, self.attention(self.norm(x, d), s, d, heads))
        h = self.op("Gelu", self.linear(self.norm(x, d), d, 4 * d))
        return self.op("Add", x, self.linear(h, 4 * d, d))

    def save(self, path, y):
        graph = helper.make_graph(self.nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
                                  [helper.make_empty_tensor_value_info(y)], self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


def resnet50(size=224):
    n = Net([1, 3, size, size])
    x = n.conv("x", 3, 64, 7, 2, act="relu")
    x = n.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    cin = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)]):
        for b in range(blocks):
            stride = 2 if b == 0 and stage else 1
            y = n.conv(n.conv(n.conv(x, cin, width, 1, act="relu"), width, width, 3, stride, act="relu"), width, 4 * width, 1)
            short = n.conv(x, cin, 4 * width, 1, stride) if b == 0 else x
            x, cin = n.op("Relu", n.op("Add", y, short)), 4 * width
    return n, n.op("Gemm", n.op("Flatten", n.op("GlobalAveragePool", x)), n.random(1000, cin), n.random(1000), transB=1)


def mobilenet(size=224):
    n = Net([1, 3, size, size])
    x, cin = n.conv("x", 3, 32, 3, 2, act="relu6"), 32
    for t, c, blocks, s in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
        for b in range(blocks):
            stride, wide = (s if b == 0 else 1), cin * t
            y = n.conv(x, cin, wide, 1, act="relu6") if t > 1 else x
            y = n.conv(n.conv(y, wide, wide, 3, stride, group=wide, act="relu6"), wide, c, 1)
            x, cin = (n.op("Add", x, y) if stride == 1 and cin == c else y), c
    x = n.conv(x, cin, 1280, 1, act="relu6")
    return n, n.op("Gemm", n.op("Flatten", n.op("GlobalAveragePool", x)), n.random(1000, 1280), n.random(1000), transB=1)


def vit(size=224, d=384, layers=6):
    n = Net([1, 3, size, size])
    s = (size // 16) ** 2
    x = n.op("Conv", "x", n.random(d, 3, 16, 16), n.random(d), kernel_shape=[16, 16], strides=[16, 16])
    x = n.op("Transpose", n.op("Reshape", x, n.weight(np.array([1, d, s]))), perm=[0, 2, 1])
    for _ in range(layers):
        x = n.block(x, s, d, d // 64)
    return n, n.norm(x, d)


def detector(size=320):
    n = Net([1, 3, size, size])
    x = n.conv(n.conv("x", 3, 16, 3, 2, act="silu"), 16, 32, 3, 2, act="silu")
    levels = []
    for cin, c in [(32, 64), (64, 128), (128, 256)]:
        x = n.conv(x, cin, c, 3, 2, act="silu")
        for _ in range(2):
            x = n.op("Add", x, n.conv(n.conv(x, c, c // 2, 3, act="silu"), c // 2, c, 3, act="silu"))
        levels.append(x)
    up = n.op("Resize", levels[2], "", n.weight(np.array([1, 1, 2, 2], np.float32)), mode="nearest",
              coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    x = n.conv(n.op("Concat", up, levels[1], axis=1), 384, 128, 3, act="silu")
    return n, n.op("Sigmoid", n.conv(x, 128, 84, 1))


def audio(steps=1000, d=256, layers=3):
    n = Net([1, 80, steps])
    x = n.op("Gelu", n.op("Conv", "x", n.random(d, 80, 3), n.random(d), kernel_shape=[3], pads=[1, 1]))
    x = n.op("Gelu", n.op("Conv", x, n.random(d, d, 3), n.random(d), kernel_shape=[3], strides=[2], pads=[1, 1]))
    x = n.op("Transpose", x, perm=[0, 2, 1])
    for _ in range(layers):
        x = n.block(x, steps // 2, d, 4)
    return n, n.norm(x, d)


NETS = {"resnet50": resnet50, "mobilenet": mobilenet, "vit": vit, "detector": detector, "audio": audio}


def ullage(exe, path, threads, repeat):
    args = [exe, "bench", path, "--threads", str(threads), "-r", str(repeat), "--json"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(args, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return json.loads(out)["latency_s"]["median"], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--ullage", required=True)
    ap.add_argument("--only", default=",".join(NETS))
    ap.add_argument("--threads", default="1,2")
    ap.add_argument("--repeat", type=int, default=10)
    ap.add_argument("--cpu-time", action="store_true")
    a = ap.parse_args()
    for name in a.only.split(","):
        net, y = NETS[name]()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name + ".onnx")
            net.save(path, y)
            feed = {"x": rng.standard_normal(net.shape).astype(np.float32)}
            for threads in [1] if a.cpu_time else map(int, a.threads.split(",")):
                options = ort.SessionOptions()
                options.intra_op_num_threads = threads
                session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
                session.run(None, feed)
                theirs, clock = [], time.process_time if a.cpu_time else time.perf_counter
                for _ in range(a.repeat):
                    start = clock()
                    session.run(None, feed)
                    theirs.append(clock() - start)
                if a.cpu_time:
                    few, many = 2, 2 + a.repeat
                    ours = (ullage(a.ullage, path, 1, many)[1] - ullage(a.ullage, path, 1, few)[1]) / a.repeat
                else:
                    ours = ullage(a.ullage, path, threads, a.repeat)[0]
                t = statistics.median(theirs)
                print(f"{name:10} {threads} threads: ONNX Runtime {t * 1e3:8.2f} ms, ullage {ours * 1e3:8.2f} ms, ratio {t / ours:.2f}", flush=True)


if __name__ == "__main__":
    main()
