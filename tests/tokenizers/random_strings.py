#!/usr/bin/env python3
"""Compares a program's tokenizer with the `tokenizers` package (0.23.3) on random strings.

    random_strings.py --program BIN [--count 10000] [--seed 1] [--ids 2000] TOKENIZER...

TOKENIZER is a tokenizer.json or a folder with one. The program must answer `tokenize MODEL --batch FILE` and
`detokenize MODEL --batch FILE` with JSON lines. Checked per file: ids with and without special tokens, ids and type ids of
pairs, the text of those ids, and the text of random ids. Prints the first differences; exit status 1 if there are any.
"""
import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile

import tokenizers

BLOCKS = [
    (0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x24F), (0x250, 0x2FF), (0x300, 0x36F), (0x370, 0x3FF), (0x400, 0x52F), (0x531, 0x586),
    (0x591, 0x5F4), (0x600, 0x6FF), (0x700, 0x74F), (0x780, 0x7BF), (0x900, 0x97F), (0x980, 0x9FE), (0xA01, 0xA76),
    (0xA81, 0xAFF), (0xB01, 0xB77), (0xB82, 0xBFA), (0xC00, 0xC7F), (0xC80, 0xCF2), (0xD00, 0xD7F), (0xE01, 0xE5B),
    (0xE81, 0xEDF), (0xF00, 0xFD4), (0x1000, 0x109F), (0x10A0, 0x10FF), (0x1100, 0x11FF), (0x1200, 0x137C), (0x13A0, 0x13FD),
    (0x1780, 0x17F9), (0x1800, 0x18AA), (0x1D00, 0x1DBF), (0x1E00, 0x1EFF), (0x1F00, 0x1FFE), (0x2000, 0x206F), (0x2070, 0x209C),
    (0x20A0, 0x20C0), (0x2100, 0x218B), (0x2190, 0x23FF), (0x2460, 0x24FF), (0x2500, 0x27BF), (0x2C60, 0x2C7F), (0x3000, 0x303F),
    (0x3041, 0x309F), (0x30A0, 0x30FF), (0x3105, 0x312F), (0x3131, 0x318E), (0x3200, 0x33FF), (0x3400, 0x3500), (0x4E00, 0x9FFF),
    (0xA000, 0xA48C), (0xA720, 0xA7CA), (0xAC00, 0xD7A3), (0xF900, 0xFAD9), (0xFB00, 0xFB4F), (0xFB50, 0xFDFF), (0xFE00, 0xFE0F),
    (0xFE30, 0xFE6B), (0xFF00, 0xFFEF), (0x10000, 0x100FA), (0x10400, 0x1044F), (0x12000, 0x12399), (0x1D400, 0x1D7FF),
    (0x1F000, 0x1F0FF), (0x1F100, 0x1F1FF), (0x1F300, 0x1F64F), (0x1F680, 0x1F6FC), (0x1F900, 0x1FAFF), (0x20000, 0x20100),
    (0xE0001, 0xE007F), (0xE000, 0xE010),
]
WORDS = ("the of and to in is that for it was on are as with his they be at one have this from or had by hot but some what there we can "
         "out other were all your when up use word how said an each she which do their time if will way about many then them would "
         "Hello World HTTP JSONParser snake_case camelCase isn't DON'T we'll I'd they've o'clock 'S 'Re naïve café résumé "
         "Größe straße ﬁnance Ⅷ ½ ŉ ǅ İstanbul ſs ullage def return class print").split()
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\r\n", "\r", "\t", " \n", "\n ", "\u00a0", "\u2003", "\u3000", "\u200b", "\u0085", "\u2028",
          "\u180e", "\x0b", "\x0c", "\x1c", " " * 17, "\n" * 9, "\t\t\t"]
BITS = ["👨‍👩‍👧‍👦", "👍🏽", "🇩🇪", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "❤️", "e\u0301", "a\u0323\u0302", "\u0928\u093f",
        "한국어", "\u1112\u1161\u11ab", "مرحبا", "שָׁלוֹם", "日本語テキスト", "中文分词", "ไทย", "0", "12", "123", "1234567890", "3.14159", "1,000,000", "٣٤٥", "²³",
        "()", "{};", "...", "!!!", "?!", "--", "->", "==", "://", "@#$%^&*", "\"'`", "<>", "\\n", "\x00", "\x01", "\x7f", "\ufffd", "\ufeff",
        "\ufdd0", "'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'LL", "'ſ", "▁", "▁▁", "Ġ", "Ċ", "##", "<0x41>", "<0xE2>", "\U0010ffff", "\u0338"]


def character(rng):
    while True:
        kind = rng.random()
        if kind < 0.9:
            a, b = rng.choice(BLOCKS)
            c = rng.randint(a, b)
        else:
            c = rng.randint(0, 0x10FFFF)
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def text(rng, added):
    out = []
    for _ in range(rng.choice([0, 1, 1, 2, 3, 4, 6, 9, 14, 25])):
        kind = rng.random()
        if kind < 0.35:
            word = rng.choice(WORDS)
            out.append(rng.choice([word, word, " " + word, word.upper(), word.title()]))
        elif kind < 0.5:
            out.append(rng.choice(SPACES))
        elif kind < 0.7:
            out.append(rng.choice(BITS))
        elif kind < 0.8:
            a, b = rng.choice(BLOCKS)
            out.append("".join(chr(rng.randint(a, b)) for _ in range(rng.randint(1, 6))))
        elif kind < 0.9 or not added:
            out.append("".join(character(rng) for _ in range(rng.randint(1, 4))))
        else:
            token = rng.choice(added)
            out.append(rng.choice([token, token, " " + token + " ", "\n" + token, token + "\n", token[:-1], "x" + token + "y", token.upper()]))
    return "".join(out)


def ask(program, command, path, requests):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", delete=False) as f:
        f.writelines(json.dumps(r) + "\n" for r in requests)
    try:
        done = subprocess.run([program, command, path, "--batch", f.name], capture_output=True, check=False)
    finally:
        os.unlink(f.name)
    if done.returncode != 0:
        sys.exit(f"{program} {command} {path}: exit status {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}")
    lines = done.stdout.decode().split("\n")[:-1]
    if len(lines) != len(requests):
        sys.exit(f"{program} {command} {path}: {len(lines)} answers for {len(requests)} requests")
    return [json.loads(line) for line in lines]


def check(program, path, count, id_count, seed, show):
    reference = tokenizers.Tokenizer.from_file(path)
    reference.no_truncation()
    reference.no_padding()
    content = json.load(open(path, encoding="utf-8"))
    added = [t["content"] for t in content["added_tokens"]]
    rng = random.Random(f"{seed} {hashlib.sha1(open(path, 'rb').read()).hexdigest()}")
    texts = [text(rng, added) for _ in range(count)]
    differences = 0

    def compare(requests, answers, wanted):
        nonlocal differences
        for request, answer, want in zip(requests, answers, wanted):
            if want is None or answer == want:
                continue
            differences += 1
            if differences <= show:
                print(f"  {ascii(request)}\n    got      {ascii(answer)}\n    expected {ascii(want)}")

    def decoded(ids, skip):
        try:
            return {"text": reference.decode(ids, skip_special_tokens=skip)}
        except BaseException as e:  # a Rust panic: the package has no answer
            if type(e).__name__ != "PanicException":
                raise
            return None

    for special in (True, False):
        requests = [{"text": t, "special": special} for t in texts]
        encoded = [reference.encode(t, add_special_tokens=special).ids for t in texts]
        compare(requests, ask(program, "tokenize", path, requests), [{"ids": ids} for ids in encoded])
        decode = [{"ids": ids, "skip_special": special} for ids in encoded]
        wanted = [decoded(ids, special) for ids in encoded]
        compare(decode, ask(program, "detokenize", path, decode), wanted)
    pairs = [{"text": a, "pair": b} for a, b in zip(texts[::10], texts[5::10])]
    wanted = []
    for p in pairs:
        e = reference.encode(p["text"], p["pair"])
        wanted.append({"ids": e.ids, "type_ids": e.type_ids})
    compare(pairs, ask(program, "tokenize", path, pairs), wanted)
    size = reference.get_vocab_size()
    ids = [[rng.randrange(size) for _ in range(rng.randint(0, 30))] for _ in range(id_count)]
    decode = [{"ids": i, "skip_special": k % 2 == 0} for k, i in enumerate(ids)]
    wanted = [decoded(r["ids"], r["skip_special"]) for r in decode]
    compare(decode, ask(program, "detokenize", path, decode), wanted)
    return differences


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--count", type=int, default=10000, help="random strings per tokenizer")
    parser.add_argument("--ids", type=int, default=2000, help="random id sequences per tokenizer")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=5, help="differences to print per tokenizer")
    parser.add_argument("tokenizers", nargs="+")
    options = parser.parse_args()
    failed = 0
    seen = set()
    for path in options.tokenizers:
        if os.path.isdir(path):
            path = os.path.join(path, "tokenizer.json")
        digest = hashlib.sha1(open(path, "rb").read()).digest()
        if digest in seen:
            continue
        seen.add(digest)
        differences = check(options.program, path, options.count, options.ids, options.seed, options.show)
        print(f"{path}: {options.count} strings, {differences} differences", flush=True)
        failed += differences > 0
    print(f"{len(seen)} tokenizers, {failed} with differences")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
