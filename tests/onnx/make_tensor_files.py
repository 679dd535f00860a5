#!/usr/bin/env python3
"""Writes tensors/: tensors, sequences, optionals and arrays as the onnx and numpy packages store them.

    make_tensor_files.py

All hold the same numbers where their types allow. Needs the packages onnx, numpy and ml_dtypes.
"""
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tensors")
os.makedirs(OUT, exist_ok=True)


def save(name, data):
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(data)


numbers = np.arange(24).reshape(2, 3, 4)
for dtype in ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32",
              "float64", "complex64", "complex128"):
    np.save(os.path.join(OUT, f"c_{dtype}.npy"), numbers.astype(dtype))
    np.save(os.path.join(OUT, f"f_{dtype}.npy"), np.asfortranarray(numbers.astype(dtype)))
    save(f"{dtype}.pb", numpy_helper.from_array(numbers.astype(dtype), "t").SerializeToString())
np.save(os.path.join(OUT, "scalar.npy"), np.float32(2.5))
np.save(os.path.join(OUT, "empty.npy"), np.zeros((0, 3), np.int64))
np.save(os.path.join(OUT, "unicode.npy"), np.array([["", "one"], ["zwei \u00fc", "\U0001f600"]]))
np.save(os.path.join(OUT, "unicode_f.npy"), np.asfortranarray(np.array([["", "one"], ["zwei \u00fc", "\U0001f600"]])))
np.save(os.path.join(OUT, "bytes.npy"), np.array([b"ab", b"", b"c"]))
np.save(os.path.join(OUT, "big_endian.npy"), np.arange(3, dtype=">i4"))
np.save(os.path.join(OUT, "structured.npy"), np.zeros(2, dtype=[("a", "<i4"), ("b", "<f4")]))
np.save(os.path.join(OUT, "object.npy"), np.array([{}, 1], dtype=object))
for version in ((1, 0), (2, 0), (3, 0)):
    with open(os.path.join(OUT, f"version{version[0]}.npy"), "wb") as f:
        np.lib.format.write_array(f, numbers.astype(np.float32), version=version)

seq = [np.arange(3, dtype=np.float32), np.ones((2, 2), np.float32)]
save("sequence.pb", numpy_helper.from_list(seq, "s").SerializeToString())
save("empty_sequence.pb", onnx.SequenceProto(name="s", elem_type=onnx.SequenceProto.TENSOR).SerializeToString())
save("optional_tensor.pb", numpy_helper.from_optional(seq[0], "o").SerializeToString())
save("optional_sequence.pb", numpy_helper.from_optional(seq, "o").SerializeToString())
save("optional_none.pb", numpy_helper.from_optional(None, "o").SerializeToString())
save("nested_sequence.pb", numpy_helper.from_list([seq, seq], "s").SerializeToString())
save("strings.pb", helper.make_tensor("s", TensorProto.STRING, [2], [b"one", b"\xff\x00z"]).SerializeToString())
