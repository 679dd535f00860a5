#!/usr/bin/env python3
"""Writes vectors.jsonl: the snippets of snippets.py, each with what the reference renders.

    make_vectors.py > vectors.jsonl

The first line holds the variables that all of them see. Needs the packages named in reference.py.
"""
import json
import sys

import reference
import snippets


def main():
    sys.stdout.reconfigure(encoding="utf-8")
    print(json.dumps({"variables": snippets.VARS, "now": reference.NOW.isoformat()}))
    env = reference.environment()
    for name, template in snippets.snippets():
        row = reference.render(env, template, snippets.VARS)
        if " at 0x" not in row.get("text", ""):  # what differs from run to run
            print(json.dumps({"name": name, "template": template, **row}))


if __name__ == "__main__":
    main()
