#!/usr/bin/env python3
"""check_vectors.py PROGRAM: renders the snippets with the reference and with the program, shows every difference."""
import sys

import compare
import reference
import snippets

env = reference.environment()
rows = list(snippets.snippets())
variables = {"tools": None, "documents": None, "add_generation_prompt": False, **snippets.VARS}
got = compare.answers(sys.argv[1:], [compare.request(t, snippets.VARS) for _, t in rows])
bad = unsupported = 0
for (name, template), answer in zip(rows, got):
    expected = reference.render(env, template, variables)
    why = compare.verdict(expected, answer)
    if why == "unsupported":
        unsupported += 1
        why = answer["error"]["message"] + f"   (reference: {expected['text'][:100]!r})"
    elif why:
        bad += 1
    if why:
        print(f"--- {name}: {template}\n     {why}")
print(f"{len(rows)} snippets, {bad} differ, {unsupported} not supported")
sys.exit(1 if bad else 0)
