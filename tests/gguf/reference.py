#!/usr/bin/env python3
"""Logits of a GGUF language model in float32: the yardstick for the quality of our own output.

    reference.py MODEL.gguf --ids 1,2,3 --out logits.npy
    reference.py MODEL.gguf --ids-file ids.npy --context 4096 --last --out logits.npy

Every weight is dequantised to float32 (by the `gguf` package) and the network is evaluated with numpy, without any
quantisation of activations or of the key/value cache. Architectures: llama, qwen2, qwen3, phi3, gemma3. The result
is float32 [tokens, vocabulary] ([1, vocabulary] with --last).

    reference.py MODEL.gguf --ids-file ids.npy --compare ours.npy

`--compare` prints, as JSON, how far other logits of the same tokens are from the reference: mean and largest
Kullback-Leibler divergence in nats, share of positions with the same arg-max, largest difference of a logit, and
both perplexities of the tokens.

`--context` is the context length that the model is run with; it matters for LongRoPE only, which has one set of
frequencies for short and one for long contexts.

As a module: Model(path).logits(ids). Needs numpy and gguf.
"""
import argparse
import json
import math
import sys

import gguf
import numpy as np


def scalar(field):
    value = field.contents()
    if isinstance(value, list):
        if len(set(value)) != 1:
            raise SystemExit(f"{field.name} varies by layer")
        return value[0]
    return value


def rms_norm(x, weight, epsilon):
    return x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + epsilon) * weight


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class Model:
    def __init__(self, path, context=None):
        reader = gguf.GGUFReader(path)
        self.fields = reader.fields
        self.stored = {t.name: t for t in reader.tensors}
        self.cache = {}
        self.arch = self.fields["general.architecture"].contents()
        if self.arch not in ("llama", "qwen2", "qwen3", "phi3", "gemma3"):
            raise SystemExit(f"architecture {self.arch} is not known")
        self.layers = self.key("block_count")
        self.hidden = self.key("embedding_length")
        self.ff = self.key("feed_forward_length")
        self.heads = self.key("attention.head_count")
        self.kv_heads = self.key("attention.head_count_kv", self.heads)
        self.head = self.key("attention.key_length", self.hidden // self.heads)
        self.epsilon = self.key("attention.layer_norm_rms_epsilon")
        self.context = context or self.key("context_length")
        self.scale = self.key("attention.scale", 0) or 1 / math.sqrt(
            self.hidden // self.heads if self.arch == "gemma3" and self.layers == 62 else self.head)
        self.rope_pairs = self.key("rope.dimension_count", self.head) // 2

    def key(self, name, default=None):
        field = self.fields.get(f"{self.arch}.{name}")
        if field is None:
            if default is None:
                raise SystemExit(f"key {self.arch}.{name} is missing")
            return default
        return scalar(field)

    def w(self, name, optional=False, keep=True):
        """A tensor in float32, in the order of rows and columns."""
        if name in self.cache:
            return self.cache[name]
        if name not in self.stored:
            if optional:
                return None
            raise SystemExit(f"tensor {name} is missing")
        t = self.stored[name]
        value = gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float32)
        value = value.reshape([int(n) for n in reversed(t.shape)])
        if keep:
            self.cache[name] = value
        return value

    def linear(self, x, name):
        y = x @ self.w(name + ".weight").T
        bias = self.w(name + ".bias", optional=True)
        return y if bias is None else y + bias

    def window(self, layer):
        """Number of keys a token sees in this layer, itself included; 0: all."""
        size = self.key("attention.sliding_window", 0)
        field = self.fields.get(f"{self.arch}.attention.sliding_window_pattern")
        pattern = field.contents() if field else (6 if self.arch == "gemma3" else 0)
        if isinstance(pattern, list):
            local = bool(pattern[layer])
        else:
            local = pattern == 0 or layer % pattern < pattern - 1
        return size if local else 0

    def frequencies(self, layer):
        """Radians per position of each pair, and the magnitude of the rotation."""
        if self.arch == "gemma3" and self.window(layer):
            base = self.key("rope.freq_base_swa", 10000.0)
            return base ** (-np.arange(self.rope_pairs) / self.rope_pairs), 1.0
        base = self.key("rope.freq_base", 10000.0)
        f = base ** (-np.arange(self.rope_pairs) / self.rope_pairs)
        magnitude = self.key("rope.scaling.attn_factor", 1.0)
        original = self.key("rope.scaling.original_context_length", self.key("context_length"))
        if "rope_freqs.weight" in self.stored:
            f = f / self.w("rope_freqs.weight")
        elif "rope_factors_long.weight" in self.stored:
            f = f / self.w("rope_factors_long.weight" if self.context > original else "rope_factors_short.weight")
        kind = self.key("rope.scaling.type", "linear")
        factor = self.key("rope.scaling.factor", 1.0) or 1.0
        if kind == "yarn":
            # The published formula: pairs that turn often keep their frequency, slow ones are stretched.
            def pair(rotations):
                return self.rope_pairs * math.log(original / (rotations * 2 * math.pi)) / math.log(base)
            low = max(math.floor(pair(self.key("rope.scaling.yarn_beta_fast", 32.0))), 0)
            high = min(math.ceil(pair(self.key("rope.scaling.yarn_beta_slow", 1.0))), 2 * self.rope_pairs - 1)
            ramp = np.clip((np.arange(self.rope_pairs) - low) / max(high - low, 0.001), 0, 1)
            f = f / factor * ramp + f * (1 - ramp)
            magnitude *= 0.1 * math.log(factor) + 1 if factor > 1 else 1.0
        elif kind != "none":
            f = f / factor
        return f, magnitude

    def rotate(self, x, layer):
        """x [tokens, heads, head size]. llama's converter stores pairs next to each other."""
        f, magnitude = self.frequencies(layer)
        angle = np.arange(x.shape[0])[:, None] * f[None, :]
        c = (np.cos(angle) * magnitude).astype(np.float32)[:, None, :]
        s = (np.sin(angle) * magnitude).astype(np.float32)[:, None, :]
        n = self.rope_pairs
        out = x.copy()
        if self.arch == "llama":
            first, second = x[..., 0:2 * n:2], x[..., 1:2 * n:2]
            out[..., 0:2 * n:2] = first * c - second * s
            out[..., 1:2 * n:2] = second * c + first * s
        else:
            first, second = x[..., :n], x[..., n:2 * n]
            out[..., :n] = first * c - second * s
            out[..., n:2 * n] = second * c + first * s
        return out

    def attention(self, x, layer):
        blk = f"blk.{layer}."
        tokens = x.shape[0]
        q_size, kv_size = self.heads * self.head, self.kv_heads * self.head
        if blk + "attn_qkv.weight" in self.stored:
            qkv = self.linear(x, blk + "attn_qkv")
            q, k, v = np.split(qkv, [q_size, q_size + kv_size], axis=-1)
        else:
            q, k, v = (self.linear(x, blk + "attn_" + part) for part in "qkv")
        q = q.reshape(tokens, self.heads, self.head)
        k = k.reshape(tokens, self.kv_heads, self.head)
        v = v.reshape(tokens, self.kv_heads, self.head)
        if self.arch in ("qwen3", "gemma3"):
            q = rms_norm(q, self.w(blk + "attn_q_norm.weight"), self.epsilon)
            k = rms_norm(k, self.w(blk + "attn_k_norm.weight"), self.epsilon)
        q, k = self.rotate(q, layer), self.rotate(k, layer)
        distance = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
        hidden = distance < 0
        if window := self.window(layer):
            hidden |= distance >= window
        cap = self.key("attn_logit_softcapping", 0.0)
        out = np.empty((tokens, self.heads, self.head), np.float32)
        group = self.heads // self.kv_heads
        for h in range(self.heads):
            scores = q[:, h] @ k[:, h // group].T * np.float32(self.scale)
            if cap:
                scores = cap * np.tanh(scores / cap)
            out[:, h] = softmax(np.where(hidden, -np.inf, scores).astype(np.float32)) @ v[:, h // group]
        return self.linear(out.reshape(tokens, q_size), blk + "attn_output")

    def mlp(self, x, layer):
        blk = f"blk.{layer}."
        if self.arch == "phi3":
            gate, up = np.split(self.linear(x, blk + "ffn_up"), 2, axis=-1)
        else:
            gate, up = self.linear(x, blk + "ffn_gate"), self.linear(x, blk + "ffn_up")
        active = gelu_tanh(gate) if self.arch == "gemma3" else silu(gate)
        return self.linear(active * up, blk + "ffn_down")

    def logits(self, ids, last=False):
        ids = np.asarray(ids, np.int64)
        x = self.w("token_embd.weight")[ids]
        if self.arch == "gemma3":
            x = x * np.float32(math.sqrt(self.hidden))
        for layer in range(self.layers):
            blk = f"blk.{layer}."
            a = self.attention(rms_norm(x, self.w(blk + "attn_norm.weight"), self.epsilon), layer)
            if self.arch == "gemma3":
                a = rms_norm(a, self.w(blk + "post_attention_norm.weight"), self.epsilon)
            x = x + a
            m = self.mlp(rms_norm(x, self.w(blk + "ffn_norm.weight"), self.epsilon), layer)
            if self.arch == "gemma3":
                m = rms_norm(m, self.w(blk + "post_ffw_norm.weight"), self.epsilon)
            x = (x + m).astype(np.float32)
        if last:
            x = x[-1:]
        x = rms_norm(x, self.w("output_norm.weight"), self.epsilon)
        head = "output" if "output.weight" in self.stored else "token_embd"
        out = self.linear(x, head)
        if cap := self.key("final_logit_softcapping", 0.0):
            out = cap * np.tanh(out / cap)
        return out.astype(np.float32)


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def compare(reference, other, ids):
    if reference.shape != other.shape:
        raise SystemExit(f"logits of shape {list(other.shape)}, expected {list(reference.shape)}")
    p, q = log_softmax(reference), log_softmax(other)
    divergence = (np.exp(p) * (p - q)).sum(axis=-1)
    result = {"positions": len(p), "kl_mean": float(divergence.mean()), "kl_max": float(divergence.max()),
              "top1": float((p.argmax(-1) == q.argmax(-1)).mean()),
              "max_difference": float(np.abs(reference - other).max())}
    if len(p) == len(ids) > 1:
        for name, x in (("perplexity_reference", p), ("perplexity", q)):
            result[name] = float(np.exp(-x[np.arange(len(ids) - 1), ids[1:]].mean()))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--ids", help="token ids, separated by commas")
    parser.add_argument("--ids-file", help=".npy, or text with token ids separated by commas or white space")
    parser.add_argument("--context", type=int, help="context length that the model is run with")
    parser.add_argument("--last", action="store_true", help="only the logits of the last token")
    parser.add_argument("--out", help="where to write the logits (.npy)")
    parser.add_argument("--compare", help=".npy with the logits to judge")
    args = parser.parse_args()
    if args.out is None and args.compare is None:
        parser.error("give --out or --compare")
    if (args.ids is None) == (args.ids_file is None):
        parser.error("give either --ids or --ids-file")
    if args.ids_file and args.ids_file.endswith(".npy"):
        ids = np.load(args.ids_file).reshape(-1)
    else:
        text = args.ids if args.ids is not None else open(args.ids_file).read()
        ids = [int(part) for part in text.replace(",", " ").split()]
    logits = Model(args.model, args.context).logits(ids, args.last)
    if args.out:
        np.save(args.out, logits)
    if args.compare:
        other = np.load(args.compare).astype(np.float32)
        json.dump(compare(logits, other.reshape(-1, other.shape[-1]), np.asarray(ids, np.int64)), sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
