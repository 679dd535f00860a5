#!/usr/bin/env python3
"""ONNX's own operator cases against the program. Needs the PyPI packages numpy and onnx (made with onnx 1.23.2).

    onnx_cases.py --ullage BIN [--only REGEX] [--update] [--device NAME [--placed]]

The cases are those that the onnx package makes in memory (kind "node"). A case that does not pass must be listed in
onnx_exceptions.tsv (name, status, reason); a listed case that passes is a failure, too, so that the list cannot go
stale. With --device the cases run on that device, and what does not pass there in the way it does not pass on the host is
listed in onnx_exceptions_NAME.tsv; --placed counts the cases that have a node there. Where the machine has no such device
all is skipped. --update rewrites the list from this run. The last line is `onnx_cases: N passed, N failed, N skipped`,
where skipped are the exceptions.

Comparison as in onnx.backend.test: rtol 1e-3 and atol 1e-7 unless the case says otherwise, equal shapes and types.
Outputs that depend on random numbers are compared by shape and type.
"""
import argparse
import concurrent.futures
import contextlib
import io
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import numpy_helper

LIST = pathlib.Path(__file__).with_name("onnx_exceptions.tsv")
RANDOM = re.compile(r"^test_(bernoulli|random_|multinomial)")


def read_list(path):
    return dict(line.split("\t")[:2] for line in path.read_text().splitlines()) if path.exists() else {}


def node_cases():
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()):
        from onnx.backend.test.loader import load_model_tests
        return load_model_tests(kind="node")


def to_proto(value, info):
    if info.type.HasField("optional_type"):
        return numpy_helper.from_optional(value)
    if info.type.HasField("sequence_type"):
        return numpy_helper.from_list(list(value))
    return value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(np.asarray(value))


def from_file(path, info):
    data = path.read_bytes()
    if info.type.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    if info.type.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def fault(got, want, rtol, atol, only_shape):
    if isinstance(want, onnx.TensorProto):
        want = numpy_helper.to_array(want)
    if want is None or isinstance(want, (list, tuple)):
        if want is None or got is None or len(got) != len(want):
            return None if got is None and want is None else "another number of elements"
        return next((f for g, w in zip(got, want) if (f := fault(g, w, rtol, atol, only_shape))), None)
    want = np.asarray(want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return f"{got.dtype}{list(got.shape)}, expected {want.dtype}{list(want.shape)}"
    if only_shape:
        return None
    if want.dtype.kind in "OSU" or want.dtype == bool:
        return None if np.array_equal(got, want) else "other values"
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    if want.dtype.name == "bfloat16":
        rtol = max(rtol, 2.0 ** -6)
    if want.dtype.kind in "iu":
        return None if np.array_equal(got, want) else "other values"
    got, want = got.astype(wide), want.astype(wide)
    bad = ~np.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    return f"{bad.sum()} of {bad.size} values differ, by up to {np.nanmax(np.abs(got - want)):.3g}" if bad.any() else None


def write_case(case, root):
    """[(model, inputs, outputs)] for the program."""
    root.mkdir()
    onnx.save(case.model, root / "model.onnx")
    inits = {t.name for t in case.model.graph.initializer}
    infos = [i for i in case.model.graph.input if i.name not in inits]
    lines = []
    for n, (inputs, _) in enumerate(case.data_sets):
        folder = root / f"in{n}"
        folder.mkdir()
        for i, (value, info) in enumerate(zip(inputs, infos)):
            (folder / f"input_{i}.pb").write_bytes(to_proto(value, info).SerializeToString())
        lines.append((root / "model.onnx", folder, root / f"out{n}"))
    return lines


def result(case, lines):
    for (_, _, out), (_, expected) in zip(lines, case.data_sets):
        status = out / "status"
        if not status.exists():
            return "crash", "no answer"
        word, _, message = status.read_text().strip().partition(" ")
        if word != "ok":
            return word, message
        for o, (want, info) in enumerate(zip(expected, case.model.graph.output)):
            try:
                got = from_file(out / f"output_{o}.pb", info)
            except (OSError, ValueError, RuntimeError) as e:
                return "wrong", f"output {o}: {e}"
            if f := fault(got, want, case.rtol, case.atol, RANDOM.match(case.name)):
                return "wrong", f"output {o}: {f}"
    return "pass", ""


def answer(exe, *args):
    """What the program says in JSON; {} where it fails."""
    p = subprocess.run([exe, *args, "--json"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    return json.loads(p.stdout) if p.returncode == 0 else {}


def has(exe, device):
    return any(d["provider"] == device for d in answer(exe, "devices", "--device", device).get("devices", []))


def count_placed(exe, device, models):
    """Of the models, how many have a node on the device, and how many have all of them there."""
    def nodes(model):
        placement = answer(exe, "plan", str(model), "--device", device, "--nodes").get("placement", [])
        return [n["device"].startswith(device) for n in placement]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        placed = list(pool.map(nodes, models))
    return sum(map(any, placed)), sum(bool(p) and all(p) for p in placed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ullage", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--device")
    parser.add_argument("--placed", action="store_true")
    args = parser.parse_args()
    if args.device not in (None, "reference") and not has(args.ullage, args.device):
        print(f"there is no device {args.device} on this machine\nonnx_cases: 0 passed, 0 failed, 1 skipped")
        return 0
    cases = [c for c in node_cases() if re.search(args.only, c.name)]
    exceptions = read_list(LIST)
    own = LIST.with_name(f"onnx_exceptions_{args.device}.tsv") if args.device else LIST
    of_host = dict(exceptions) if args.device else {}
    exceptions.update(read_list(own))
    device = ["--device", args.device] if args.device else []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        written = {c.name: write_case(c, root / c.name) for c in cases}
        todo = [line for c in cases for line in written[c.name]]
        while todo:  # a crash ends the batch: go on behind the case that it was at
            batch = root / "batch"
            batch.write_text("".join("\t".join(map(str, line)) + "\n" for line in todo))
            subprocess.run([args.ullage, "infer", *device, "--batch", str(batch)], stdin=subprocess.DEVNULL,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            answered = next((i for i, line in enumerate(todo) if not (line[2] / "status").exists()), len(todo))
            todo = todo[answered + 1:]
        results = {c.name: result(c, written[c.name]) for c in cases}
        if args.placed:
            some, whole = count_placed(args.ullage, args.device, [root / c.name / "model.onnx" for c in cases])
            print(f"{some} of {len(cases)} cases have nodes on {args.device}, {whole} all of them")
    if args.update:
        own.write_text("".join(f"{name}\t{status}\t{' '.join(reason.split())[:120]}\n"
                               for name, (status, reason) in sorted(results.items()) if status != of_host.get(name, "pass")))
        exceptions = {name: status for name, (status, _) in results.items() if status != "pass"}
    passed = failed = skipped = 0
    for name, (status, reason) in sorted(results.items()):
        if status == "pass" and name not in exceptions:
            passed += 1
        elif status != "pass" and exceptions.get(name) == status:
            skipped += 1
        else:
            failed += 1
            print(f"FAIL {name}: " + ("passes, but is listed as an exception" if status == "pass" else f"{status} {reason[:200]}"))
    print(f"onnx_cases: {passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
