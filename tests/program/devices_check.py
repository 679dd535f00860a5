#!/usr/bin/env python3
"""Devices and their options on the command line.

    devices_check.py --ullage BIN

The last line is `devices: N passed, N failed`. Models on devices: splits_check.py; plugins of one's own: examples_check.py.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from checks import Program, check, finish  # noqa: E402

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ullage", required=True)
    args = parser.parse_args()
    program = Program(args.ullage)
    model = os.path.join(ROOT, "tests", "zoo", "genai-llama-int4-cpu")
    rc, got, _ = program("devices", "--device", "reference")
    check("devices", rc == 0 and [d["name"] for d in got["devices"]] == ["reference:0", "cpu"], got)
    rc, got, _ = program("devices")
    check("devices that must be named", rc == 0 and all(d["provider"] != "reference" for d in got["devices"]), got)
    rc, got, _ = program("options")
    check("options", any(o["key"] == "ep.reference.capacity" and o["type"] == "size" for o in got["options"]), got)
    rc, got, _ = program("run", model, "--prompt-ids", "1,5,9", "--option", "ep.reference.capacty=1")
    check("nearest option", rc == 2 and "ep.reference.capacity" in got["error"]["message"], got)
    return finish("devices")


if __name__ == "__main__":
    sys.exit(main())
