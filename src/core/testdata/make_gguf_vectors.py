#!/usr/bin/env python3
"""Writes gguf_vectors.txt: random GGUF blocks and their values as the Python package `gguf` (0.19.0) decodes them.

One line per type: name, rows, elements per row, blocks in hex, values (little-endian float32) in hex.
Needs numpy and gguf.
"""
import os

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

ROWS, ELEMENTS = 2, 256
# Type -> byte offsets of the float16 numbers of a block.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0],
}


def main():
    rng = np.random.default_rng(20)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gguf_vectors.txt")
    with open(path, "w", encoding="ascii") as out:
        for name, halves in HALVES.items():
            kind = GGMLQuantizationType[name]
            elements, size = GGML_QUANT_SIZES[kind]
            blocks = rng.integers(0, 256, (ROWS, ELEMENTS // elements, size), dtype=np.uint8)
            for offset in halves:
                d = (rng.standard_normal(blocks.shape[:2]) * 0.02).astype(np.float16)
                d[0, 0] = np.float16(3e-6)  # a subnormal
                blocks[:, :, offset:offset + 2] = d[..., None].view(np.uint8)
            rows = blocks.reshape(ROWS, -1)
            values = dequantize(rows, kind).astype("<f4")
            assert values.shape == (ROWS, ELEMENTS)
            print(name, ROWS, ELEMENTS, rows.tobytes().hex(), values.tobytes().hex(), file=out)


if __name__ == "__main__":
    main()
