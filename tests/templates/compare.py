"""Runs `template --batch` of a program that keeps the command line's contract, and compares its answers with the
reference's."""
import json
import subprocess
import tempfile

import reference

# Errors of the implementation that say "not built" where the reference renders text: counted, not failures, but only
# for these reasons.
ADDRESS = "holds an address"


def answers(program, requests, timeout=600):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as f:
        for r in requests:
            f.write(json.dumps(r) + "\n")
        f.flush()
        run = subprocess.run([*program, "template", "--batch", f.name, "--json"], capture_output=True, timeout=timeout)
    lines = run.stdout.decode("utf-8").rstrip("\n").split("\n")
    if run.returncode != 0 or len(lines) != len(requests):
        raise SystemExit(f"exit {run.returncode}, {len(lines)} answers to {len(requests)} requests; the next one was\n"
                         + json.dumps(requests[min(len(lines), len(requests) - 1)]) + "\n" + run.stderr.decode()[-2000:])
    return [json.loads(line) for line in lines]


def request(template, variables):
    return {**variables, "template": template, "messages": variables.get("messages", []),
            "now": reference.NOW.isoformat()}


def verdict(expected, got):
    """None if the answer is right, "unsupported" if it says what is not built, else a complaint."""
    if "text" in expected:
        if got.get("text") == expected["text"]:
            return None
        if got.get("error", {}).get("code") == "unsupported":
            return "unsupported"
        return f"expected {expected['text']!r}\n     got {got.get('text', got)!r}"
    if "error" not in got:
        return f"expected {expected['error']}\n     got {got.get('text')!r}"
    if expected["error"]["type"] == "TemplateError" and got["error"]["message"] != expected["error"]["message"]:
        return f"expected the message {expected['error']['message']!r}\n     got {got['error']['message']!r}"
    return None
