"""Shapes of the inputs and outputs of the model zoo's references, for the propagation test.

    python3 tests/shapes/make_zoo_shapes.py ZOO > tests/shapes/zoo_shapes.tsv

One line per (model file, case): path, case, then tab-separated fields "i:NAME=dims:values" and "o:NAME=dims". Values
are given for integer and bool inputs of at most eight elements. Inputs that a case leaves out (past of a decode case)
are the outputs of the prefill case, as the zoo's README says.
"""
import io
import os
import sys
import zipfile

import numpy as np
import onnx


def npz_arrays(path):
    with zipfile.ZipFile(path) as z:
        for name in z.namelist():
            yield name[:-4], np.load(io.BytesIO(z.read(name)), allow_pickle=False)


def graph_io(path):
    """inputs: name -> dims (numbers or labels), outputs: names"""
    graph = onnx.load(path, load_external_data=False).graph
    initializers = {i.name for i in graph.initializer}
    inputs = {}
    for i in graph.input:
        if i.name not in initializers:
            inputs[i.name] = [d.dim_value or d.dim_param for d in i.type.tensor_type.shape.dim]
    return inputs, [o.name for o in graph.output]


def twin(name):
    return name.replace("past_key_values", "present").replace("past_", "present_").replace("past.", "present.")


def complete(case, given, inputs, cases, arrays):
    """Adds the inputs that the reference leaves out: the past, per the zoo's README and meta.json."""
    given = dict(given)
    kind = case.split("/")[-1]
    if kind.startswith("decode_C"):  # the same step with another cache capacity
        given = {**cases["decode"][0], **given}
    if "input_ids" not in given and "token_ids" in arrays and "/" in case:  # hub layout
        given["input_ids"] = arrays["token_ids"]
    if kind == "decode" or kind.startswith("decode_C"):
        source = cases.get(case.replace("decode", "prefill"), ({}, {}))[1]
    elif kind in ("merged_first", "merged_cached"):
        source = cases["decoder"][1]
    else:
        source = {}
    batch = next((a.shape[0] for a in given.values() if a.ndim), 1)
    length = given["input_ids"].shape[1] if "input_ids" in given and given["input_ids"].ndim == 2 else 0
    for name, dims in inputs.items():
        if name in given:
            continue
        if twin(name) in source:
            a = source[twin(name)]
            given[name] = a[:, :, :0] if kind == "merged_first" else a
        elif name.startswith("past") and len(dims) == 4 and isinstance(dims[3], int):
            rows = 1500 if "cross" in name else length if kind == "decode" else 0
            given[name] = np.zeros((batch, dims[1], rows, dims[3]), np.float32)
        elif name == "attention_mask":
            given[name] = np.ones((batch, length), np.int64)
        elif name == "position_ids":
            given[name] = np.zeros((batch, length), np.int64)
    if kind == "decode" and "token_ids" in arrays and case != "decode":  # hub layout, one token after the prompt
        total = arrays["token_ids"].shape[1] + 1
        for name, dims in inputs.items():
            if name.startswith("past"):
                given[name] = np.zeros((batch, dims[1], total - 1, dims[3]), np.float32)
        given["attention_mask"] = np.ones((batch, total), np.int64)
        given["position_ids"] = np.zeros((batch, 1), np.int64)
    return given


def cases_of(arrays):
    """case -> (inputs by name, outputs by name)"""
    cases = {}
    for key, array in arrays.items():
        parts = key.split("/")
        for i, part in enumerate(parts):
            if part in ("in", "out") and i + 1 < len(parts):
                case = "/".join(parts[:i]) or "main"
                cases.setdefault(case, ({}, {}))[part == "out"]["/".join(parts[i + 1:])] = array
                break
    return cases


def main(zoo):
    for folder in sorted(os.listdir(zoo)):
        ref = os.path.join(zoo, folder, "ref", "ref.npz")
        if not os.path.exists(ref):
            continue
        arrays = dict(npz_arrays(ref))
        cases = cases_of(arrays)
        models = []
        for root, _, files in os.walk(os.path.join(zoo, folder)):
            models += [os.path.join(root, f) for f in files if f.endswith(".onnx")]
        for model in sorted(models):
            inputs, outputs = graph_io(model)
            for case, (given, results) in sorted(cases.items()):
                if "/" in case and case.split("/")[0] != os.path.basename(model)[:-5]:
                    continue
                given = complete(case, given, inputs, cases, arrays)
                if not all(name in given for name in inputs):
                    continue
                checked = [name for name in outputs if name in results]
                if case == "decode" and "decoder" in cases and "decoder" not in os.path.basename(model):
                    continue
                if not checked:
                    continue
                fields = [os.path.relpath(model, zoo), case]
                for name in inputs:
                    a = given[name]
                    field = "i:%s=%s" % (name, ",".join(map(str, a.shape)))
                    if a.dtype.kind in "iub" and a.size <= 8:
                        field += ":" + ",".join(str(int(v)) for v in a.flatten())
                    fields.append(field)
                fields += ["o:%s=%s" % (name, ",".join(map(str, results[name].shape))) for name in checked]
                print("\t".join(fields))


if __name__ == "__main__":
    main(sys.argv[1])
