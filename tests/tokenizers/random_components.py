#!/usr/bin/env python3
"""Compares a program with the `tokenizers` package (0.23.3) on random strings, one tokenizer.json per component.

    random_components.py --program BIN [--count 1000] [--seed 1] [--only TEXT] [--keep DIR]

The tokenizers are made so that nothing stays hidden: the vocabulary holds only bytes, and the last character of each
piece carries a suffix, so that the ids show the normalized text and where it was cut. See random_strings.py for what is
compared.
"""
import argparse
import base64
import json
import os
import struct
import sys
import tempfile

import random_strings

SUFFIX = "</w>"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
REGEXES = {
    "gpt2": GPT2,
    "cl100k": CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL,
    "qwen2": CONTRACTION + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + TAIL,
    "qwen35": CONTRACTION + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + TAIL,
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + CONTRACTION
             + r"?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + CONTRACTION
             + r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL,
    "tekken": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?"
              r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + TAIL,
    "deepseek-cjk": "[一-龥぀-ゟ゠-ヿ]+",
    "deepseek-words": r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|""" + TAIL,
    "deepseek-coder-words": r"\s?\p{L}+", "deepseek-coder-punct": r"\s?\p{P}+", "deepseek-coder-cjk": "[一-龥ࠀ-一가-퟿]+",
    "bloom": r" ?[^(\s|.,!?…。，、।۔،)]+", "falcon-triple": "[0-9][0-9][0-9]",
    "bailing": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+",
    "exaone": r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|[^\s\p{L}\p{N}]+", "aya-digits": r"\d{1,3}(?=(?:\d{3})*\b)",
    "clip": r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "word": r"\w+|[^\w\s]+", "not-word": r"\W+", "space": r"\s+", "not-space": r"\S+", "boundary": r"\b", "no-boundary": r"\B\w",
    "digits": r"\d+", "not-digits": r"\D", "hex": r"\h+", "caseless": "(?i)[a-cſ]+|straße|k", "caseless-group": "x(?i)a|b", "dot": ".", "dot-all": "(?m:.)x?",
    "line-start": "^.", "line-end": "[a-z]$", "text-start": r"\A\w", "text-end": r".\z|.\Z", "lookbehind": r"(?<=\p{L})\p{N}|(?<!\p{L})\p{P}",
    "atomic": r"(?>\p{L}+)\p{M}?", "lazy": r"\p{L}+?\p{N}|\s??x", "interval": r"\p{L}{,2}\p{N}|\p{L}{2}+|\p{N}{2}?", "possessive": r"\p{L}++|\p{N}?+\s*+",
    "stacked": "(?:ab*)*|[a-z]**", "empty": "x*", "nothing": "", "intersection": r"[\p{L}&&[^a-mA-M]&&\p{Ll}]+", "nested": r"[\p{N}[a-f][^\x00-\x7f]]+",
    "negated-in-class": r"[^\S\r\n]+|[\P{L}\p{Lu}]", "posix": r"[[:upper:]]+|[[:punct:]]+|[[:^ascii:]]|[[:space:]]|[[:alnum:]_]", "properties": r"\p{Han}+|\p{Latin}+|\p{^Lu}\p{Lu}|\p{Uppercase_Letter}",
    "scripts": r"\p{Hiragana}+|\p{Katakana}+|\p{Cyrillic}+|\p{Arabic}+|\p{Hebrew}+|\p{Hangul}+|\p{Thai}+|\p{Greek}+|\p{Devanagari}+",
    "categories": r"\p{Lt}|\p{Lm}+|\p{Mn}|\p{Mc}|\p{Me}|\p{Nl}|\p{No}|\p{Pc}|\p{Pd}|\p{Ps}|\p{Pe}|\p{Pi}|\p{Pf}|\p{Po}|\p{Sm}|\p{Sc}|\p{Sk}|\p{So}|\p{Zs}|\p{Zl}|\p{Zp}|\p{Cc}|\p{Cf}|\p{Co}",
    "escapes": r"\t|\n|\r|\f|\v|\a|\e|\x41|\u00e9|\x{1F600}|\101|\.|\-|\/|[\]\[\-a\n\x20-\x2f]", "comment": "(?#x)a(?x: b # y\n c)?", "groups": r"(?<n>[a-z])\k<n>|(?<d>[0-9])\k<d>?",
    "numbered": r"([0-9])\1?|(?:[a-z])", "newlines": r"\R", "literal-brace": "a{|{b|}|{x}",
}


def charsmap():
    """A SentencePiece character map of a few keys, as a double-array trie built the slow and plain way."""
    keys = {"ﬁ": "fi", "½": "1/2", "é": "e", "\u0085": " ", "\u200b": "", "A": "a", "Ａ": "A", "e\u0301": "é", "\r\n": "\n", "日本": "JP", "👍": "+1"}
    normalized, offsets = b"", {}
    for key, value in keys.items():
        offsets[key.encode()] = len(normalized)
        normalized += value.encode() + b"\0"
    units, used = {0: 0}, {0}

    def place(prefix, node):
        children = sorted({k[len(prefix)] if len(k) > len(prefix) else 0 for k in offsets if k.startswith(prefix)})
        base = 1
        while base >> 8 == node >> 8 or any((base ^ c) in used for c in children) or base == node:
            base += 1
        offset = base ^ node
        units[node] |= offset << 10
        for c in children:
            used.add(base ^ c)
        for c in children:
            if c == 0:
                units[node] |= 1 << 8
                units[base ^ 0] = offsets[prefix] | (1 << 31)
            else:
                units[base ^ c] = c
        for c in children:
            if c:
                place(prefix + bytes([c]), base ^ c)
    place(b"", 0)
    array = b"".join(struct.pack("<I", units.get(i, 0)) for i in range(max(used) + 256))
    return base64.b64encode(struct.pack("<I", len(array)) + array + normalized).decode()


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def byte_level(prefix=False, regex=True):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": regex}


def metaspace(scheme, cut):
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": cut}


def replace(old, new, kind="String"):
    return {"type": "Replace", "pattern": {kind: old}, "content": new}


def sequence(kind, *parts):
    return {"type": "Sequence", kind: list(parts)}


BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]
PRE = {f"regex {k}": split(v) for k, v in REGEXES.items()}
PRE.update({f"behavior {b} {i}": split(r"\p{P}|\s", b, i) for b in BEHAVIORS for i in (False, True)})
PRE.update({f"behavior {b} {i} string": {"type": "Split", "pattern": {"String": " "}, "behavior": b, "invert": i} for b in BEHAVIORS for i in (False, True)})
PRE.update({f"byte level {p} {r}": byte_level(p, r) for p in (False, True) for r in (False, True)})
PRE.update({f"metaspace {s} {c}": metaspace(s, c) for s in ("always", "first", "never") for c in (False, True)})
PRE.update({f"digits {i}": {"type": "Digits", "individual_digits": i} for i in (False, True)})
PRE.update({f"punctuation {b}": {"type": "Punctuation", "behavior": b} for b in BEHAVIORS})
PRE.update({t: {"type": t} for t in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")})
PRE.update({
    "delimiter": {"type": "CharDelimiterSplit", "delimiter": "e"}, "fixed": {"type": "FixedLength", "length": 3},
    "smollm": sequence("pretokenizers", {"type": "Digits", "individual_digits": True}, byte_level()),
    "falcon": sequence("pretokenizers", {"type": "Punctuation", "behavior": "Contiguous"}, byte_level(), {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]")),
    "deepseek": sequence("pretokenizers", split(r"\p{N}{1,3}"), split(REGEXES["deepseek-cjk"]), split(REGEXES["deepseek-words"]), byte_level(False, False)),
    "deepseek-coder": sequence("pretokenizers", split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(REGEXES["deepseek-coder-cjk"]), {"type": "Digits", "individual_digits": True}, byte_level(False, False)),
    "t5 old": sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace("always", True)), "split then first": sequence("pretokenizers", split(r"\s"), metaspace("first", True)),
})
NORMALIZERS = {t: {"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "ByteLevel", "Nmt")}
NORMALIZERS.update({f"strip {a} {b}": {"type": "Strip", "strip_left": a, "strip_right": b} for a in (False, True) for b in (False, True)})
NORMALIZERS.update({
    f"bert {c} {h} {s} {w}": {"type": "BertNormalizer", "clean_text": c, "handle_chinese_chars": h, "strip_accents": s, "lowercase": w}
    for c, h, s, w in ((True, True, None, True), (True, True, None, False), (False, True, True, False), (True, False, False, True), (False, False, False, False))})
NORMALIZERS.update({
    "replace": replace(" ", "▁"), "replace regex": replace(r" {2,}|\n+", "_", "Regex"), "replace nothing": replace("e", ""), "replace empty": replace("x*", "-", "Regex"), "prepend": {"type": "Prepend", "prepend": "▁"},
    "nfd accents": sequence("normalizers", {"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}),
    "clip": sequence("normalizers", {"type": "NFC"}, replace(r"\s+", " ", "Regex"), {"type": "Lowercase"}),
    "llama": sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")), "precompiled": {"type": "Precompiled", "precompiled_charsmap": charsmap()},
})
DECODERS = {
    "none": None, "byte level": byte_level(), "fallback": {"type": "ByteFallback"}, "fuse": {"type": "Fuse"}, "wordpiece": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "wordpiece plain": {"type": "WordPiece", "prefix": "##", "cleanup": False}, "bpe": {"type": "BPEDecoder", "suffix": SUFFIX}, "ctc": {"type": "CTC", "pad_token": "a", "word_delimiter_token": "|", "cleanup": True},
    "ctc plain": {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": False}, "metaspace always": metaspace("always", True), "metaspace never": metaspace("never", True), "metaspace first": metaspace("first", False),
    "replace": replace("▁", " "), "replace regex": replace("[a-c▁]+", "<>", "Regex"), "replace empty": replace("x*", "-", "Regex"), "replace after fuse": sequence("decoders", {"type": "Fuse"}, replace("ab", "X"), replace("aa", "b")),
    "strip start": {"type": "Strip", "content": "a", "start": 1, "stop": 0}, "strip fused": sequence("decoders", {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 2, "stop": 2}),
    "llama": sequence("decoders", replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}),
    "gemma": sequence("decoders", replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}),
    "bytes then words": sequence("decoders", byte_level(), {"type": "WordPiece", "prefix": "a", "cleanup": True}), "fused metaspace": sequence("decoders", {"type": "Fuse"}, metaspace("always", True)),
}


def vocabulary():
    from tokenizers.pre_tokenizers import ByteLevel
    alphabet = sorted(ByteLevel.alphabet())
    tokens = [f"<0x{b:02X}>" for b in range(256)] + alphabet + [c + SUFFIX for c in alphabet]
    return {t: i for i, t in enumerate(tokens)}


def added(base, *tokens):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [dict(flags, id=base + i, content=c, **f) for i, (c, f) in enumerate(tokens)]


def files():
    vocab = vocabulary()
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": SUFFIX, "fuse_unk": False, "byte_fallback": True, "ignore_merges": False, "vocab": vocab, "merges": []}
    base = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model}
    some = added(len(vocab), ("<s>", {}), ("<|user|>", {"rstrip": True}), ("the", {"normalized": True, "special": False, "single_word": True}))
    for name, pre in PRE.items():
        yield f"pre_tokenizer {name}", dict(base, pre_tokenizer=pre, added_tokens=some)
    for name, normalizer in NORMALIZERS.items():
        for after in (None, metaspace("first", True)):
            yield f"normalizer {name}{' metaspace' if after else ''}", dict(base, normalizer=normalizer, pre_tokenizer=after, added_tokens=some)
    kinds = [{}, {"lstrip": True}, {"rstrip": True}, {"lstrip": True, "rstrip": True}, {"single_word": True}, {"normalized": True}, {"normalized": True, "special": False, "single_word": True, "rstrip": True}]
    for normalizer in (None, {"type": "Lowercase"}, {"type": "Strip", "strip_left": True, "strip_right": True}, {"type": "NFKC"}):
        tokens = added(len(vocab), *[(c, kinds[(i + k) % len(kinds)]) for k, c in enumerate(["Hello", "the", "of the", "'s", "éa", "日本", "ﬁ", "<s>", "<s>x", "HTTP", "12", "▁", "١", "²³", "\u200d"]) for i in (0,)])
        for shift in range(len(kinds)):
            for k, t in enumerate(tokens):
                t.update(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
                t.update(kinds[(k + shift) % len(kinds)])
                if normalizer and t["normalized"]:
                    t["special"] = False  # the package forgets that a normalized token is special
            yield f"added {normalizer and normalizer['type']} {shift}", dict(base, normalizer=normalizer, added_tokens=json.loads(json.dumps(tokens)))
    words = ["a", "b", "ab", "aa", " ", "▁", "▁a", "##b", "##", "|", "a|", "Ġa", "Ċ", "é", "日本", "x", "xx", " .", " n't", " do not", "'s", " ' ", "c" + SUFFIX, SUFFIX, "<0xE6>", "<0x97>", "<0xA5>", "<0x41>", "<0xFF>", "<0xgg>", "<0x+A>", "<pad>", "Ã", "©"]
    word_level = {"type": "WordLevel", "vocab": {w: i for i, w in enumerate(words)}, "unk_token": "<pad>"}
    for name, decoder in DECODERS.items():
        yield f"decoder {name}", dict(base, model=word_level, decoder=decoder, pre_tokenizer={"type": "WhitespaceSplit"}, added_tokens=added(len(words), ("<s>", {}), ("▁z", {"special": False})))
    letters = {t: i for i, t in enumerate(["<unk>", "a", "b", "e", "t", "h", "the", "th", "he", "##e", "##h", "##t", "##he", "##the", "e</w>", "the</w>", "H", "l", "o", "ll", "Hello", "<0xC3>", "<0xA9>", "s", "i", "n"])}
    merges = [["t", "h"], ["h", "e"], ["th", "e"], ["t", "he"], ["l", "l"]]
    for unk in (None, "<unk>"):
        for fuse in (False, True):
            for fallback in (False, True):
                for ignore in (False, True):
                    m = dict(model, vocab=letters, merges=merges, unk_token=unk, fuse_unk=fuse, byte_fallback=fallback, ignore_merges=ignore, end_of_word_suffix=None)
                    yield f"bpe {unk} {fuse} {fallback} {ignore}", dict(base, model=m, pre_tokenizer={"type": "WhitespaceSplit"}, added_tokens=added(30, ("<s>", {})))
    prefixed = dict(model, vocab=letters, merges=[["h", "##e"], ["t", "##he"], ["##h", "##e"]], unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>", byte_fallback=False)
    yield "bpe prefix and suffix", dict(base, model=dict(prefixed, merges=[["t", "##he"], ["h", "##e"]]), pre_tokenizer={"type": "Whitespace"})
    yield "bpe strings", dict(base, model=dict(model, vocab=letters, merges=["t h", "h e", "th e"], end_of_word_suffix=""))
    unigram = {"type": "Unigram", "unk_id": 0, "byte_fallback": False, "vocab": [["<unk>", 0.0], ["▁", -2.0], ["▁the", -3.5], ["t", -4.0], ["h", -4.0], ["e", -3.0], ["he", -5.5], ["the", -9.0], ["a", -3.25], ["aa", -6.5], ["<0xC3>", -9.0], ["<0xA9>", -9.0], ["o", -4.0], ["l", -4.0], ["lo", -7.0]]}
    for fallback in (False, True):
        yield f"unigram {fallback}", dict(base, model=dict(unigram, byte_fallback=fallback), pre_tokenizer=metaspace("always", True), decoder=metaspace("always", True))
    piece = {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "##", "max_input_chars_per_word": 6, "vocab": letters}
    yield "wordpiece", dict(base, model=piece, pre_tokenizer={"type": "BertPreTokenizer"}, decoder=DECODERS["wordpiece"])
    special = {"<s>": {"id": "<s>", "ids": [len(vocab)], "tokens": ["<s>"]}, "two": {"id": "two", "ids": [1, 2], "tokens": ["x", "y"]}}
    places = lambda *p: [{"Sequence": {"id": x, "type_id": t}} if x in "AB" else {"SpecialToken": {"id": x, "type_id": t}} for x, t in p]
    template = {"type": "TemplateProcessing", "single": places(("<s>", 0), ("A", 0), ("two", 3)), "pair": places(("A", 1), ("two", 0), ("B", 2), ("<s>", 1), ("A", 5)), "special_tokens": special}
    pairs = {"type": "BertProcessing", "sep": ["</s>", 5], "cls": ["<s>", 6]}
    posts = {"template": template, "bert": pairs, "roberta": dict(pairs, type="RobertaProcessing", trim_offsets=True, add_prefix_space=False), "bytes": byte_level(), "bytes and template": sequence("processors", byte_level(), template),
             "bert and template": sequence("processors", pairs, template)}
    for name, post in posts.items():
        yield f"post {name}", dict(base, post_processor=post, added_tokens=added(len(vocab), ("<s>", {})))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="components whose name contains this")
    parser.add_argument("--show", type=int, default=2)
    parser.add_argument("--keep", help="folder to leave the files in")
    options = parser.parse_args()
    total, failed = 0, []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or temporary
        os.makedirs(folder, exist_ok=True)
        for name, content in files():
            if options.only not in name:
                continue
            path = os.path.join(folder, name.replace(" ", "_") + ".json")
            with open(path, "w", encoding="utf-8") as f:
                json.dump(content, f)
            total += 1
            print(name, flush=True)
            differences = random_strings.check(options.program, path, options.count, options.count, options.seed, options.show)
            if differences:
                failed.append(name)
                print(f"{name}: {differences} differences", flush=True)
    print(f"{total} components, {len(failed)} with differences: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
