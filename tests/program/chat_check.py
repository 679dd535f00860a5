#!/usr/bin/env python3
"""A conversation in a pseudo-terminal, as a person has it. Needs the default model in the store.

    chat_check.py --ullage BIN

The last line is `chat: N passed, N failed, N skipped`.
"""
import argparse
import os
import re
import sys
import tempfile
import time

import pexpect

PROMPT = ">>> "


class Check:
    def __init__(self):
        self.passed = self.failed = 0

    def __call__(self, what, ok, more=""):
        if ok:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAIL chat: {what} {more!r}")


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", text)


def answer(p, question, timeout=120):
    """What is printed between the question and the next prompt."""
    p.send(question + "\r")
    p.expect_exact(PROMPT, timeout=timeout)
    return plain(p.before).replace(question, "", 1).strip()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--ullage", required=True)
    a = ap.parse_args()
    store = os.environ.get("ULLAGE_HOME", os.path.expanduser("~/.ullage/models"))
    if not os.path.exists(os.path.join(store, "smollm2.gguf")):
        print("chat: 0 passed, 0 failed, 1 skipped")
        return 0
    check = Check()
    home = tempfile.mkdtemp()
    env = {**os.environ, "HOME": home, "ULLAGE_HOME": store, "TERM": "xterm"}
    p = pexpect.spawn(a.ullage, ["run", "smollm2", "--temperature", "0", "--context", "1024"], env=env, encoding="utf-8", dimensions=(40, 200), timeout=120)
    p.expect_exact(PROMPT)
    check("the greeting names model and context", "smollm2" in p.before and "1024" in p.before, p.before)
    check("/help lists the commands", "/clear" in answer(p, "/help"))
    first = answer(p, "What is the capital of France? Answer in one sentence.")
    check("an answer", "Paris" in first, first)
    context = answer(p, "/context")
    used = int(re.search(r"(\d+) of 1024", context).group(1))
    check("the context holds the turn", used > 30, context)
    second = answer(p, "And of Italy?")
    check("the second turn knows the first", "Rome" in second, second)
    check("the context grew", int(re.search(r"(\d+) of", answer(p, "/context")).group(1)) > used)

    # Ctrl-C stops the answer and keeps the chat.
    p.send("Write a very long story about a dragon and a princess, with many chapters.\r")
    p.expect(r"[a-z]{3,} [a-z]{2,}", timeout=60)
    time.sleep(0.3)
    p.sendintr()
    before = time.time()
    p.expect_exact(PROMPT, timeout=30)
    check("Ctrl-C stops at once", time.time() - before < 5)
    third = answer(p, "What is 2 + 2? Answer with the number.")
    check("the chat goes on", p.isalive() and len(third) > 0, third)

    # Ctrl-C at the prompt does not end the program either.
    p.sendintr()
    p.expect_exact(PROMPT, timeout=10)
    check("Ctrl-C at the prompt", "/help" in answer(p, "/help"))

    # Line editing: the cursor moves, text is inserted. (The library may draw the prompt again at each change.)
    p.send("/contxt" + "\x1b[D" * 2 + "e\r")
    check("line editing", p.expect([r"\d+ of 1024", "unknown command"], timeout=20) == 0)
    p.expect_exact(PROMPT)
    # History: arrow up brings the last line back.
    p.send("\x1b[A")
    time.sleep(0.3)
    p.send("\r")
    check("history", p.expect([r"\d+ of 1024", pexpect.TIMEOUT], timeout=20) == 0)
    p.expect_exact(PROMPT)
    time.sleep(0.3)

    answer(p, "/clear")
    fourth = answer(p, "Which country did I ask about first? If you do not know, say unknown.")
    check("/clear forgets", len(fourth) > 0 and int(re.search(r"(\d+) of", answer(p, "/context")).group(1)) < 600)
    answer(p, "/system You answer every question with the single word BANANA.")
    check("/plan shows the memory", "planned" in answer(p, "/plan"))
    check("an unknown command is named", "/frobnicate" in answer(p, "/frobnicate"))
    p.sendeof()
    p.expect(pexpect.EOF, timeout=20)
    p.close()
    check("the end of input ends the program", p.exitstatus == 0, p.exitstatus)
    check("the history is kept", os.path.exists(os.path.join(home, ".ullage", "history")))

    # Turns that do not fit push out the oldest ones.
    p = pexpect.spawn(a.ullage, ["run", "smollm2", "--temperature", "0", "--context", "256", "--max-tokens", "60"], env=env, encoding="utf-8", dimensions=(40, 200), timeout=120)
    p.expect_exact(PROMPT)
    said = ""
    for n in range(4):
        said += answer(p, f"Tell me three facts about the number {n + 3}, please, in full sentences.")
    check("a full context is said", "dropped" in said, said[-300:])
    check("the chat goes on with a full context", p.isalive())
    p.sendeof()
    p.expect(pexpect.EOF, timeout=20)
    print(f"chat: {check.passed} passed, {check.failed} failed, 0 skipped")
    return 1 if check.failed else 0


if __name__ == "__main__":
    sys.exit(main())
