#!/usr/bin/env python3
"""Writes a float32 decoder folder of the onnxruntime-genai model builder as a GGUF file, and checks reference.py.

    zoo_to_gguf.py FOLDER OUT.gguf           convert
    zoo_to_gguf.py --check ZOO_DIR [TMP_DIR] convert every suitable folder and compare reference.py with the logits
                                             that transformers gave (ref/ref.npz, hf/logits)

The folder needs a meta.json with the Hugging Face configuration (`hf_config`). Needs numpy, onnx and gguf.
"""
import json
import os
import sys
import tempfile

import gguf
import numpy as np
import onnx
from onnx import numpy_helper

import reference

ARCHITECTURES = {
    "LlamaForCausalLM": "llama",
    "Qwen2ForCausalLM": "qwen2",
    "Qwen3ForCausalLM": "qwen3",
    "Phi3ForCausalLM": "phi3",
    "Gemma3ForCausalLM": "gemma3",
}
CHECKED = ["genai-llama-fp32-cpu", "genai-qwen2-fp32-cpu", "genai-qwen3-fp32-cpu", "genai-phi3-fp32-cpu",
           "genai-phi3longrope-fp32-cpu", "genai-gemma3-fp32-fullcache"]


def interleave_halves(w, heads):
    """Rows of each head from (first half, second half) to neighbouring pairs, as llama's converter does."""
    return w.reshape(heads, 2, w.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(w.shape)


def convert(folder, out):
    meta = json.load(open(os.path.join(folder, "meta.json")))
    config = meta["hf_config"]
    arch = ARCHITECTURES[meta["architecture"]]
    graph = onnx.load(os.path.join(folder, "model.onnx")).graph
    weights = {t.name: numpy_helper.to_array(t) for t in graph.initializer}

    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    head = config.get("head_dim") or hidden // heads
    writer = gguf.GGUFWriter(out, arch)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(hidden)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    rope = config["rope_parameters"]
    if arch == "gemma3":
        writer.add_rope_freq_base(rope["full_attention"]["rope_theta"])
        writer.add_sliding_window(config["sliding_window"])
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config["layer_types"]])
    else:
        writer.add_rope_freq_base(rope["rope_theta"])
    if rope.get("rope_type") == "longrope":
        original = rope["original_max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(original)
        factor = config["max_position_embeddings"] / original
        writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(factor) / np.log(original))))
        for length in ("long", "short"):
            writer.add_tensor(f"rope_factors_{length}.weight", np.array(rope[f"{length}_factor"], np.float32))

    def matrix(name):
        return np.ascontiguousarray(weights[name].T)

    head_weight = matrix("lm_head.MatMul.weight")
    writer.add_tensor("token_embd.weight", weights.get("model.embed_tokens.weight", head_weight))
    if not config["tie_word_embeddings"]:
        writer.add_tensor("output.weight", head_weight)
    writer.add_tensor("output_norm.weight", weights[f"model.layers.{layers}.final_norm_layernorm.weight"])
    names = {"input_layernorm.weight": "attn_norm", "attn.o_proj.MatMul.weight": "attn_output",
             "mlp.gate_proj.MatMul.weight": "ffn_gate", "mlp.up_proj.MatMul.weight": "ffn_up",
             "mlp.down_proj.MatMul.weight": "ffn_down", "attn.q_norm.layernorm.weight": "attn_q_norm",
             "attn.k_norm.layernorm.weight": "attn_k_norm"}
    if arch == "gemma3":
        names |= {"post_attention_layernorm.weight": "post_attention_norm",
                  "pre_feedforward_layernorm.weight": "ffn_norm",
                  "post_feedforward_layernorm.weight": "post_ffw_norm"}
    else:
        names["post_attention_layernorm.weight"] = "ffn_norm"
    for i in range(layers):
        source, blk = f"model.layers.{i}.", f"blk.{i}."
        found = {blk + to + ".weight": matrix(source + name) if "MatMul" in name else weights[source + name]
                 for name, to in names.items() if source + name in weights}
        qkv = matrix(source + "attn.qkv_proj.MatMul.weight")
        bias = weights.get(source + "attn.qkv_proj.Add.bias")
        if arch == "phi3":
            found[blk + "attn_qkv.weight"] = qkv
            found[blk + "ffn_up.weight"] = np.concatenate(
                [found.pop(blk + "ffn_gate.weight"), found[blk + "ffn_up.weight"]])
        else:
            cuts = [heads * head, (heads + kv_heads) * head]
            q, k, v = np.split(qkv, cuts)
            if arch == "llama":
                q, k = interleave_halves(q, heads), interleave_halves(k, kv_heads)
            for part, value in zip("qkv", (q, k, v)):
                found[f"{blk}attn_{part}.weight"] = value
            if bias is not None:
                for part, value in zip("qkv", np.split(bias, cuts)):
                    found[f"{blk}attn_{part}.bias"] = value
        for name, value in found.items():
            writer.add_tensor(name, np.ascontiguousarray(value, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check(zoo, directory):
    worst = 0.0
    for name in CHECKED:
        folder = os.path.join(zoo, name)
        path = os.path.join(directory, name + ".gguf")
        convert(folder, path)
        ref = np.load(os.path.join(folder, "ref", "ref.npz"))
        expected = ref["hf/logits"][0]
        ids = ref["token_ids"][0]
        # The references of LongRoPE were made within the original context.
        model = reference.Model(path, context=len(ids))
        found = model.logits(ids)[-len(expected):]
        error = float(np.abs(found - expected).max())
        worst = max(worst, error)
        print(f"{name}: max |error| {error:.2e}, logits of magnitude {np.abs(expected).max():.2f}")
    if worst > 1e-4:
        raise SystemExit(f"the reference is off by {worst:.2e}")


def main():
    if len(sys.argv) >= 3 and sys.argv[1] == "--check":
        if len(sys.argv) > 3:
            check(sys.argv[2], sys.argv[3])
        else:
            with tempfile.TemporaryDirectory() as directory:
                check(sys.argv[2], directory)
    elif len(sys.argv) == 3:
        convert(sys.argv[1], sys.argv[2])
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
