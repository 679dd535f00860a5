#!/usr/bin/env python3
"""Writes the tiny models of tests/gguf/models: random weights, every architecture and every tensor type.

    make_models.py [OUT_DIR]
    make_models.py --seeds OUT_DIR           the headers alone, as seeds of the fuzzer (tests/fuzz/corpus/gguf)

For each model NAME.gguf there are NAME.ids.npy (token ids, int64) and NAME.logits.npy (float32 [tokens, vocabulary],
from reference.py, whose agreement with transformers `zoo_to_gguf.py --check` shows). Needs numpy and gguf; the output
depends only on this file and their versions.
"""
import os
import sys

import gguf
import numpy as np

import reference

F32, F16, BF16 = "F32", "F16", "BF16"
VOCABULARY = 48
TOKENS = 12
TEMPLATE = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"

# Where the float16 fields of a block lie, and numbers for them that make weights of about 0.1 out of random codes.
RANDOM_BLOCKS = {
    "Q2_K": {80: 0.006, 82: 0.009},
    "Q3_K": {108: 0.0015},
    "Q4_K": {0: 0.0003, 2: 0.0023},
    "Q5_K": {0: 0.00015, 2: 0.0023},
    "Q6_K": {208: 0.00005},
    "IQ4_NL": {0: 0.0015},
    "IQ4_XS": {0: 0.00006},
}


class Writer:
    def __init__(self, path, arch, seed):
        self.out = gguf.GGUFWriter(path, arch)
        self.rng = np.random.default_rng(seed)

    def tensor(self, name, shape, kind=F32, scale=None, offset=0.0):
        scale = scale if scale is not None else 1.5 / np.sqrt(shape[-1])
        values = (self.rng.standard_normal(shape) * scale + offset).astype(np.float32)
        qtype = gguf.GGMLQuantizationType[kind]
        if kind == F32:
            self.out.add_tensor(name, values)
        elif kind in RANDOM_BLOCKS:
            block, size = gguf.GGML_QUANT_SIZES[qtype]
            blocks = int(np.prod(shape)) // block
            data = self.rng.integers(0, 256, (blocks, size), dtype=np.uint8)
            for at, value in RANDOM_BLOCKS[kind].items():
                field = (value * self.rng.uniform(0.5, 1.5, blocks)).astype(np.float16)
                data[:, at:at + 2] = field[:, None].view(np.uint8)
            self.out.add_tensor(name, data.reshape(*shape[:-1], -1), raw_dtype=qtype)
        else:
            self.out.add_tensor(name, gguf.quants.quantize(values, qtype), raw_dtype=qtype)

    def norm(self, name, size, kind=F32):
        self.tensor(name, (size,), kind, scale=0.1, offset=1.0)

    def sizes(self, hidden, ff, heads, kv_heads, layers, context, head=None):
        w = self.out
        w.add_name("random")
        w.add_context_length(context)
        w.add_embedding_length(hidden)
        w.add_feed_forward_length(ff)
        w.add_block_count(layers)
        w.add_head_count(heads)
        w.add_head_count_kv(kv_heads)
        w.add_layer_norm_rms_eps(1e-5)
        w.add_quantization_version(2)
        if head:
            w.add_key_length(head)
            w.add_value_length(head)

    def bpe(self):
        w = self.out
        texts = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [chr(ord("a") + i) for i in range(26)]
        texts += ["\u0120", "th", "he", "in", "er", "an", "\u0120t", "\u0120a"] + [chr(ord("0") + i) for i in range(10)]
        texts += ["."]
        assert len(texts) == VOCABULARY
        w.add_tokenizer_model("gpt2")
        w.add_tokenizer_pre("qwen2")
        w.add_token_list(texts)
        w.add_token_types([3, 3, 3] + [1] * (VOCABULARY - 3))
        w.add_token_merges(["t h", "h e", "i n", "e r", "a n", "\u0120 t", "\u0120 a"])
        w.add_bos_token_id(0)
        w.add_eos_token_id(2)
        w.add_pad_token_id(0)
        w.add_add_bos_token(False)
        w.add_chat_template([{"name": "default", "template": TEMPLATE},
                             {"name": "tool_use", "template": "{{ tools }}"}])

    def spm(self):
        w = self.out
        texts = ["<pad>", "<eos>", "<bos>", "<unk>", "<end_of_turn>"] + [f"<0x{i:02X}>" for i in range(0x61, 0x61 + 26)]
        texts += ["\u2581", "\u2581the", "\u2581a", "\u2581of"] + [chr(ord("a") + i) for i in range(13)]
        assert len(texts) == VOCABULARY
        w.add_tokenizer_model("llama")
        w.add_tokenizer_pre("default")
        w.add_token_list(texts)
        w.add_token_scores([-1000.0 - i for i in range(VOCABULARY)])
        w.add_token_types([3, 3, 3, 2, 3] + [6] * 26 + [1] * (VOCABULARY - 31))
        w.add_bos_token_id(2)
        w.add_eos_token_id(1)
        w.add_unk_token_id(3)
        w.add_pad_token_id(0)
        w.add_add_bos_token(True)
        w.add_add_eos_token(False)
        w.add_add_space_prefix(False)

    def close(self):
        self.out.write_header_to_file()
        self.out.write_kv_data_to_file()
        self.out.write_tensors_to_file()
        self.out.close()


def layer(w, i, hidden, ff, q, kv, kinds, bias=None):
    """Attention and MLP of one layer; `kinds`: types of q, k, v, output, gate, up, down."""
    blk = f"blk.{i}."
    w.norm(blk + "attn_norm.weight", hidden)
    w.norm(blk + "ffn_norm.weight", hidden)
    shapes = {"attn_q": (q, hidden), "attn_k": (kv, hidden), "attn_v": (kv, hidden), "attn_output": (hidden, q),
              "ffn_gate": (ff, hidden), "ffn_up": (ff, hidden), "ffn_down": (hidden, ff)}
    for (name, shape), kind in zip(shapes.items(), kinds):
        w.tensor(f"{blk}{name}.weight", shape, kind)
        if bias and name in bias:
            w.tensor(f"{blk}{name}.bias", shape[:1], F32, scale=0.3)


def llama(path):
    """Llama 3 frequency factors; biases everywhere; a head of its own."""
    w = Writer(path, "llama", 1)
    w.sizes(64, 96, 4, 2, 2, 128)
    w.out.add_vocab_size(VOCABULARY)
    w.out.add_rope_dimension_count(16)
    w.out.add_rope_freq_base(500000.0)
    w.bpe()
    w.tensor("token_embd.weight", (VOCABULARY, 64), "Q8_0", scale=1.0)
    w.tensor("output.weight", (VOCABULARY, 64), F32)
    w.tensor("output.bias", (VOCABULARY,), F32)
    w.norm("output_norm.weight", 64)
    w.out.add_tensor("rope_freqs.weight", np.array([1, 1, 1, 1.5, 3, 8, 8, 8], np.float32))
    everything = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    layer(w, 0, 64, 96, 64, 32, ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "Q4_1"), everything)
    layer(w, 1, 64, 96, 64, 32, (F16, BF16, F32, "Q4_0", "Q5_1", "Q5_0", F16))
    w.close()


def llama_k(path):
    """Super-blocks of 256; partial rotation."""
    w = Writer(path, "llama", 2)
    w.sizes(256, 256, 4, 1, 1, 64, head=16)
    w.out.add_rope_dimension_count(8)
    w.bpe()
    w.tensor("token_embd.weight", (VOCABULARY, 256), "Q6_K")
    w.norm("output_norm.weight", 256)
    layer(w, 0, 256, 256, 64, 16, ("Q2_K", "Q3_K", "IQ4_XS", "IQ4_NL", "Q4_K", "Q5_K", "Q6_K"))
    w.close()


def qwen2(path):
    """Biases of q, k, v; tied embedding; linear scaling of positions; a window on every layer."""
    w = Writer(path, "qwen2", 3)
    w.sizes(64, 64, 4, 2, 1, 128)
    w.out.add_rope_freq_base(1e6)
    w.out.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    w.out.add_rope_scaling_factor(2.0)
    w.out.add_sliding_window(5)
    w.bpe()
    w.tensor("token_embd.weight", (VOCABULARY, 64), F16, scale=0.5)
    w.norm("output_norm.weight", 64)
    layer(w, 0, 64, 64, 64, 32, ("Q8_0", "Q8_0", "Q8_0", "Q4_0", "Q4_1", "Q4_1", "Q5_0"), ("attn_q", "attn_k", "attn_v"))
    w.close()


def qwen3(path):
    """Norms of the heads of q and k; heads wider than hidden / heads; YaRN."""
    w = Writer(path, "qwen3", 4)
    w.sizes(64, 64, 2, 1, 2, 128, head=64)
    w.out.add_rope_freq_base(1e4)
    w.out.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    w.out.add_rope_scaling_factor(4.0)
    w.out.add_rope_scaling_orig_ctx_len(32)
    w.bpe()
    w.tensor("token_embd.weight", (VOCABULARY, 64), "Q4_0", scale=0.5)
    w.norm("output_norm.weight", 64, F16)
    for i in range(2):
        layer(w, i, 64, 64, 128, 64, ("Q4_0",) * 4 + ("IQ4_NL",) * 3)
        w.norm(f"blk.{i}.attn_q_norm.weight", 64, BF16)
        w.norm(f"blk.{i}.attn_k_norm.weight", 64)
    w.close()


def phi3(path):
    """Fused matrices; LongRoPE; partial rotation; a window."""
    w = Writer(path, "phi3", 5)
    w.sizes(64, 64, 4, 2, 2, 128)
    w.out.add_rope_dimension_count(12)
    w.out.add_rope_scaling_orig_ctx_len(16)
    w.out.add_rope_scaling_attn_factors(1.19)
    w.out.add_sliding_window(7)
    w.bpe()
    w.tensor("token_embd.weight", (VOCABULARY, 64), BF16, scale=0.5)
    w.tensor("output.weight", (VOCABULARY, 64), "Q8_0")
    w.norm("output_norm.weight", 64)
    w.out.add_tensor("rope_factors_long.weight", np.array([1, 1.5, 2, 4, 6, 8], np.float32))
    w.out.add_tensor("rope_factors_short.weight", np.array([1, 1.1, 1.2, 1.2, 1.3, 1.3], np.float32))
    for i in range(2):
        blk = f"blk.{i}."
        w.norm(blk + "attn_norm.weight", 64)
        w.norm(blk + "ffn_norm.weight", 64)
        w.tensor(blk + "attn_qkv.weight", (128, 64), "Q4_1")
        w.tensor(blk + "attn_output.weight", (64, 64), "Q5_1")
        w.tensor(blk + "ffn_up.weight", (128, 64), "Q5_0" if i else F16)
        w.tensor(blk + "ffn_down.weight", (64, 64), "Q8_0")
    w.close()


def gemma3(path):
    """Four norms; windows with their own rope base on two layers of three; soft-capped logits."""
    w = Writer(path, "gemma3", 6)
    w.sizes(64, 64, 2, 1, 3, 128, head=32)
    w.out.add_rope_freq_base(1e6)
    w.out.add_sliding_window(4)
    w.out.add_sliding_window_pattern([True, False, True])
    w.out.add_final_logit_softcapping(20.0)
    w.spm()
    w.tensor("token_embd.weight", (VOCABULARY, 64), "Q8_0", scale=0.2)
    w.norm("output_norm.weight", 64)
    for i in range(3):
        layer(w, i, 64, 64, 64, 32, ("Q4_0", "Q4_0", "Q8_0", "Q4_1", "Q5_0", "Q5_0", "Q8_0"))
        for name in ("attn_q_norm", "attn_k_norm"):
            w.norm(f"blk.{i}.{name}.weight", 32)
        for name in ("post_attention_norm", "post_ffw_norm"):
            w.norm(f"blk.{i}.{name}.weight", 64)
    w.close()


MODELS = (llama, llama_k, qwen2, qwen3, phi3, gemma3)


def seeds(out):
    os.makedirs(out, exist_ok=True)
    for make in MODELS:
        path = os.path.join(out, make.__name__)
        make(path)
        header = gguf.GGUFReader(path).data_offset
        with open(path, "r+b") as f:
            f.truncate(header)


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--seeds":
        return seeds(sys.argv[2])
    out = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
    os.makedirs(out, exist_ok=True)
    for make in MODELS:
        path = os.path.join(out, make.__name__ + ".gguf")
        make(path)
        ids = np.array([(7 * i + 3) % VOCABULARY for i in range(TOKENS)], np.int64)
        logits = reference.Model(path).logits(ids)
        np.save(path.replace(".gguf", ".ids.npy"), ids)
        np.save(path.replace(".gguf", ".logits.npy"), logits)
        print(f"{make.__name__}: {os.path.getsize(path)} bytes, logits up to {np.abs(logits).max():.1f}, "
              f"std {logits.std():.2f}")
    # LongRoPE with the other set of factors.
    logits = reference.Model(os.path.join(out, "phi3.gguf"), context=16).logits(ids)
    np.save(os.path.join(out, "phi3.short.logits.npy"), logits)


if __name__ == "__main__":
    main()
