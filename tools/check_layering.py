#!/usr/bin/env python3
"""Checks that a module includes only what stands above it, and that files stay within their sizes.

    check_layering.py [ROOT]

Prints one line per fault and exits 1 if there is any.
"""
import os
import re
import sys

LAYERS = ["core", "memory", "graph", "ops", "shapes", "onnx", "gguf", "transforms", "kernels", "providers",
          "placement", "session", "llm", "api", "apps"]
# Tables and generated files may be longer.
MAX_HEADER, MAX_SOURCE = 300, 700
LONG = re.compile(r"(unicode_data|unicode_tables|character_map|_test)\.(cc|h)$")


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
    faults = []
    for folder, _, files in os.walk(os.path.join(root, "src")):
        for name in files:
            if not name.endswith((".h", ".cc")):
                continue
            path = os.path.join(folder, name)
            rel = os.path.relpath(path, os.path.join(root, "src"))
            module = rel.split(os.sep)[0]
            if module not in LAYERS:
                faults.append(f"src/{rel}: {module} is not a module")
                continue
            lines = open(path, encoding="utf-8").read().split("\n")
            for n, line in enumerate(lines, 1):
                m = re.match(r'\s*#include "([^"]+)"', line)
                if not m:
                    continue
                top = m.group(1).split("/")[0]
                if top in ("ullage", "hwy"):
                    continue
                if top not in LAYERS:
                    faults.append(f"src/{rel}:{n}: includes {m.group(1)}, which is not written from src/")
                elif LAYERS.index(top) > LAYERS.index(module):
                    faults.append(f"src/{rel}:{n}: {module} includes {m.group(1)} of a later module")
            limit = MAX_HEADER if name.endswith(".h") and not name.endswith("-inl.h") else MAX_SOURCE
            if len(lines) > limit and not LONG.search(name):
                faults.append(f"src/{rel}: {len(lines)} lines, more than {limit}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
