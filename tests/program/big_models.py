"""Models of real sizes without weights, for checks of planning: graphs and headers whose data files do not exist.

    big_models.py KIND FOLDER [LAYERS]      KIND: genai-llama, genai-llama-fp16, gguf-llama, gguf-qwen2
"""
import json
import os
import re
import struct
import sys

import onnx
from onnx import TensorProto as T
from onnx import helper

LLAMA_7B = dict(hidden=4096, heads=32, kv_heads=32, head=128, mlp=11008, vocab=32000, context=4096)
LLAMA_8B = dict(hidden=4096, heads=32, kv_heads=8, head=128, mlp=14336, vocab=128256, context=131072)
QWEN_05B = dict(hidden=896, heads=14, kv_heads=2, head=64, mlp=4864, vocab=151936, context=32768)


class Absent:
    """Initializers in a data file that is never written."""

    def __init__(self, location="model.onnx.data"):
        self.location, self.offset, self.tensors = location, 0, []

    def add(self, name, shape, dtype):
        bits = {T.FLOAT: 32, T.FLOAT16: 16, T.UINT8: 8}[dtype]
        size = bits // 8
        for d in shape:
            size *= d
        t = onnx.TensorProto(name=name, data_type=dtype, dims=shape, data_location=onnx.TensorProto.EXTERNAL)
        for key, value in (("location", self.location), ("offset", self.offset), ("length", size)):
            t.external_data.add(key=key, value=str(value))
        self.offset += (size + 63) // 64 * 64
        self.tensors.append(t)
        return name


def genai_llama(folder, layers=32, size=None, bits=4, block=32):
    """A folder as the onnxruntime-genai builder writes it, int4 (bits 4) or fp16 weights (bits 16)."""
    s = size or LLAMA_7B
    h, head, heads, kv_heads = s["hidden"], s["head"], s["heads"], s["kv_heads"]
    io = T.FLOAT
    data, nodes = Absent(), []

    def node(op, name, inputs, outputs, domain="", **attributes):
        nodes.append(helper.make_node(op, inputs, outputs, name=name, domain=domain, **attributes))
        return outputs[0]

    def product(name, x, k, n, out=None):
        weight = name[1:].replace("/", ".") + ".MatMul.weight"
        out = out or name + "/MatMul/output_0"
        if bits == 16:
            return node("MatMul", name + "/MatMul", [x, data.add(weight, [k, n], io)], [out])
        return node("MatMulNBits", f"{name}/MatMul_Q{bits}",
                    [x, data.add(f"{weight}_Q{bits}", [n, k // block, block * bits // 8], T.UINT8), data.add(weight + "_scales", [n, k // block], io)],
                    [out], "com.microsoft", K=k, N=n, bits=bits, block_size=block, accuracy_level=4)

    mask = "/model/attn_mask_reformat/attn_mask_subgraph/"
    for value, dims in (("[1]", [1]), ("1", [])):
        nodes.append(helper.make_node("Constant", [], ["/model/constants/INT64/" + value], name="/model/constant_nodes/INT64/" + value,
                                      value=helper.make_tensor("value", T.INT64, dims, [1])))
    node("ReduceSum", mask + "ReduceSum", ["attention_mask", "/model/constants/INT64/[1]"], [mask + "ReduceSum/output_0"], keepdims=0)
    node("Sub", mask + "Sub", [mask + "ReduceSum/output_0", "/model/constants/INT64/[1]"], [mask + "Sub/output_0"])
    node("Cast", mask + "Sub/Cast", [mask + "Sub/output_0"], [mask + "Sub/Cast/output_0"], to=T.INT32)
    node("Shape", mask + "Shape", ["attention_mask"], [mask + "Shape/output_0"])
    node("Gather", mask + "Gather", [mask + "Shape/output_0", "/model/constants/INT64/1"], [mask + "Gather/output_0"], axis=0)
    node("Cast", mask + "Gather/Cast", [mask + "Gather/output_0"], [mask + "Gather/Cast/output_0"], to=T.INT32)
    cos, sin = (data.add(n, [s["context"], head // 2], io) for n in ("cos_cache", "sin_cache"))
    x = node("Gather", "/model/embed_tokens/Gather", [data.add("model.embed_tokens.weight", [s["vocab"], h], io), "input_ids"], ["/model/embed_tokens/Gather/output_0"])
    residual, added = x, None
    for i in range(layers + 1):
        base = f"/model/layers.{i}/"

        def norm(kind, last=False):
            nonlocal residual
            name, weight = base + kind, data.add(f"model.layers.{i}.{kind}.weight", [h], io)
            if added is None:
                return node("SimplifiedLayerNormalization", name + "/LayerNorm", [residual, weight], [name + "/output_0"], epsilon=1e-5, axis=-1, stash_type=1)
            y = node("SkipSimplifiedLayerNormalization", name + "/SkipLayerNorm", [residual, added, weight],
                     [name + "/output_0"] + ([] if last else ["", "", name + "/output_3"]), "com.microsoft", epsilon=1e-5)
            residual = name + "/output_3"
            return y

        if i == layers:
            product("/lm_head", norm("final_norm_layernorm", True), h, s["vocab"], "logits")
            break
        qkv = product(base + "attn/qkv_proj", norm("input_layernorm"), h, (heads + 2 * kv_heads) * head)
        attn = node("GroupQueryAttention", base + "attn/GroupQueryAttention",
                    [qkv, "", "", f"past_key_values.{i}.key", f"past_key_values.{i}.value", mask + "Sub/Cast/output_0", mask + "Gather/Cast/output_0", cos, sin, "", "", ""],
                    [base + "attn/GroupQueryAttention/output_0", f"present.{i}.key", f"present.{i}.value"], "com.microsoft", num_heads=heads,
                    kv_num_heads=kv_heads, scale=head ** -0.5, local_window_size=-1, softcap=0.0, do_rotary=1, rotary_interleaved=0)
        added = product(base + "attn/o_proj", attn, heads * head, h)
        y = norm("post_attention_layernorm")
        gate, up = (product(base + f"mlp/{p}_proj", y, h, s["mlp"]) for p in ("gate", "up"))
        act = node("Sigmoid", base + "mlp/act_fn/Sigmoid", [gate], [base + "mlp/act_fn/Sigmoid/output_0"])
        act = node("Mul", base + "mlp/act_fn/Mul", [gate, act], [base + "mlp/act_fn/Mul/output_0"])
        act = node("Mul", base + "mlp/Mul", [act, up], [base + "mlp/Mul/output_0"])
        added = product(base + "mlp/down_proj", act, s["mlp"], h)

    info = helper.make_tensor_value_info
    caches = [(p, i) for p in ("key", "value") for i in range(layers)]
    inputs = [info("input_ids", T.INT64, ["batch_size", "sequence_length"]), info("attention_mask", T.INT64, ["batch_size", "total_sequence_length"])]
    inputs += [info(f"past_key_values.{i}.{p}", io, ["batch_size", kv_heads, "past_sequence_length", "kv_cache_dim"]) for p, i in caches]
    outputs = [info("logits", io, ["batch_size", "sequence_length", s["vocab"]])]
    outputs += [info(f"present.{i}.{p}", io, ["batch_size", kv_heads, "total_sequence_length", "kv_cache_dim"]) for p, i in caches]
    graph = helper.make_graph(nodes, "main_graph", inputs, outputs, data.tensors)
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)])
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.onnx"), "wb") as f:
        f.write(model.SerializeToString())
    config = {"model": {"type": "llama", "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "context_length": s["context"], "vocab_size": s["vocab"],
                        "decoder": {"filename": "model.onnx", "head_size": head, "hidden_size": h, "num_attention_heads": heads,
                                    "num_hidden_layers": layers, "num_key_value_heads": kv_heads,
                                    "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", "past_key_names": "past_key_values.%d.key",
                                               "past_value_names": "past_key_values.%d.value"},
                                    "outputs": {"logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}}},
              "search": {"do_sample": False}}
    with open(os.path.join(folder, "genai_config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f)
    return data.offset


def more_layers(source, target, layers):
    """Writes the graph `source`, which has two layers ("layers.0", "layers.1"), with as many as asked; the copies share
    the weights that have no layer in their names."""
    model = onnx.load(source, load_external_data=False)
    graph = model.graph
    pattern = re.compile(r"(layers\.|past_key_values\.|present\.|blk\.|/h\.)(\d+)(?=\D|$)")

    def shifted(name, by):
        return pattern.sub(lambda m: m.group(1) + str(int(m.group(2)) + by), name)

    def last(name):  # of nodes behind the layers
        return pattern.sub(lambda m: m.group(1) + str(int(m.group(2)) + (layers - 2 if int(m.group(2)) >= 1 else 0)), name)

    def layer_of(name):
        m = pattern.search(name)
        return int(m.group(2)) if m else -1

    constant = {i.name for i in graph.initializer} | {""}
    for n in graph.node:
        if all(x in constant for x in n.input) and not any(a.HasField("g") for a in n.attribute):
            constant.update(n.output)
    nodes = []
    for n in graph.node:
        layer = layer_of(n.name)
        for by in range(layers - 1) if layer == 1 else [0]:
            c = onnx.NodeProto()
            c.CopyFrom(n)
            rename = (lambda x: shifted(x, by)) if layer == 1 else last if layer < 0 or layer > 1 else (lambda x: x)
            c.name = rename(n.name)
            c.input[:] = [x if x in constant and layer_of(x) != layer else rename(x) for x in n.input]
            c.output[:] = [rename(x) for x in n.output]
            nodes.append((by if layer == 1 else layers if layer > 1 else -1 if layer == 0 else -2, c))
    del graph.node[:]
    made, available, order = set(), {i.name for i in graph.input}, []

    def copies(things):
        kept = list(things)
        extra = []
        for t in kept:
            if layer_of(t.name) == 1:
                for by in range(1, layers - 1):
                    c = type(t)()
                    c.CopyFrom(t)
                    c.name = shifted(t.name, by)
                    extra.append(c)
            elif layer_of(t.name) > 1:
                t.name = last(t.name)
        things.extend(extra)

    for things in (graph.input, graph.output, graph.initializer):
        copies(things)
    del graph.value_info[:]
    available = {""} | {i.name for i in graph.input} | {i.name for i in graph.initializer}
    waiting = [n for _, n in sorted(nodes, key=lambda x: x[0])]
    while waiting:  # a topological order
        rest = []
        for n in waiting:
            if all(x in available for x in n.input):
                order.append(n)
                available.update(n.output)
            else:
                rest.append(n)
        if len(rest) == len(waiting):
            raise ValueError("no order: " + str([x for x in rest[0].input if x not in available]))
        waiting = rest
    graph.node.extend(order)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "wb") as f:
        f.write(model.SerializeToString())


def gguf_header(path, architecture="llama", layers=32, size=None, tensor_type=2):
    """A GGUF file that ends where the tensor data would start. tensor_type 2: Q4_0, 12: Q4_K. Returns the bytes that are
    missing."""
    s = size or LLAMA_7B
    kinds = {0: (1, 4), 2: (32, 18), 12: (256, 144), 8: (32, 34)}
    out = bytearray()

    def text(x):
        x = x.encode() if isinstance(x, str) else x
        return struct.pack("<Q", len(x)) + x

    def meta(key, kind, payload):
        return text(key) + struct.pack("<I", kind) + payload

    def u32(key, v):
        return meta(key, 4, struct.pack("<I", v))

    def f32(key, v):
        return meta(key, 6, struct.pack("<f", v))

    a = architecture
    kv = [meta("general.architecture", 8, text(a)), u32(a + ".context_length", s["context"]), u32(a + ".embedding_length", s["hidden"]),
          u32(a + ".block_count", layers), u32(a + ".feed_forward_length", s["mlp"]), u32(a + ".attention.head_count", s["heads"]),
          u32(a + ".attention.head_count_kv", s["kv_heads"]), f32(a + ".attention.layer_norm_rms_epsilon", 1e-5), f32(a + ".rope.freq_base", 10000.0),
          u32(a + ".rope.dimension_count", s["head"]), u32(a + ".vocab_size", s["vocab"])]
    tokens = [b"<unk>", b"<s>", b"</s>"] + [b"t%d" % i for i in range(s["vocab"] - 3)]
    kv += [meta("tokenizer.ggml.model", 8, text("llama")), meta("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, len(tokens)) + b"".join(text(t) for t in tokens)),
           meta("tokenizer.ggml.scores", 9, struct.pack("<IQ", 6, len(tokens)) + struct.pack(f"<{len(tokens)}f", *[-float(i) for i in range(len(tokens))])),
           meta("tokenizer.ggml.token_type", 9, struct.pack("<IQ", 5, len(tokens)) + struct.pack(f"<{len(tokens)}i", *([2, 3, 3] + [1] * (len(tokens) - 3)))),
           u32("tokenizer.ggml.bos_token_id", 1), u32("tokenizer.ggml.eos_token_id", 2)]
    tensors, offset = [], 0

    def tensor(name, shape, kind):
        nonlocal offset
        block, size_of = kinds[kind]
        elements = 1
        for d in shape:
            elements *= d
        tensors.append(text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", kind, offset))
        offset += (elements // block * size_of + 31) // 32 * 32

    h, q, k = s["hidden"], s["heads"] * s["head"], s["kv_heads"] * s["head"]
    tensor("token_embd.weight", [s["vocab"], h], tensor_type)
    for i in range(layers):
        b = f"blk.{i}."
        tensor(b + "attn_norm.weight", [h], 0)
        tensor(b + "attn_q.weight", [q, h], tensor_type)
        tensor(b + "attn_k.weight", [k, h], tensor_type)
        tensor(b + "attn_v.weight", [k, h], tensor_type)
        if a == "qwen2":
            for part, n in (("q", q), ("k", k), ("v", k)):
                tensor(b + f"attn_{part}.bias", [n], 0)
        tensor(b + "attn_output.weight", [h, q], tensor_type)
        tensor(b + "ffn_norm.weight", [h], 0)
        tensor(b + "ffn_gate.weight", [s["mlp"], h], tensor_type)
        tensor(b + "ffn_up.weight", [s["mlp"], h], tensor_type)
        tensor(b + "ffn_down.weight", [h, s["mlp"]], tensor_type)
    tensor("output_norm.weight", [h], 0)
    tensor("output.weight", [s["vocab"], h], tensor_type)
    out += b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(kv)) + b"".join(kv) + b"".join(tensors)
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "wb") as f:
        f.write(out)
    return offset


def main():
    kind, folder = sys.argv[1], sys.argv[2]
    layers = int(sys.argv[3]) if len(sys.argv) > 3 else 32
    if kind == "genai-llama":
        genai_llama(folder, layers)
    elif kind == "genai-llama-fp16":
        genai_llama(folder, layers, LLAMA_8B, 16)
    elif kind == "gguf-llama":
        gguf_header(os.path.join(folder, "model.gguf"), layers=layers, size=LLAMA_8B, tensor_type=12)
    elif kind == "gguf-qwen2":
        gguf_header(os.path.join(folder, "model.gguf"), "qwen2", layers=layers, size=QWEN_05B)
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
