#!/usr/bin/env python3
"""Writes unicode_data.cc: what Python's str methods know about characters beyond general categories and one-to-one case
mappings (both come from utf8proc). Usage: make_unicode_data.py > unicode_data.cc
"""
import sys
import unicodedata


def ranges(predicate):
    out, start = [], None
    for c in range(0x110001):
        if c < 0x110000 and predicate(c):
            start = c if start is None else start
        elif start is not None:
            out.append((start, c - 1))
            start = None
    return out


def category(c):
    return unicodedata.category(chr(c))


def table(name, rows):
    print(f"const Range {name}[] = {{")
    for a, b in rows:
        print(f"    {{0x{a:X}, 0x{b:X}}},")
    print("};")
    print(f"const size_t {name}Size = std::size({name});\n")


def mapping(name, convert):
    print(f"const Expansion {name}[] = {{")
    for c in range(0x110000):
        to = convert(chr(c))
        if len(to) > 1:
            cells = ", ".join(f"0x{ord(x):X}" for x in to) + ", 0" * (3 - len(to))
            print(f"    {{0x{c:X}, {{{cells}}}}},")
    print("};")
    print(f"const size_t {name}Size = std::size({name});\n")


print(f"// Written by make_unicode_data.py (Unicode {unicodedata.unidata_version}).\n")
print('#include "llm/template/unicode_data.h"\n\n#include <iterator>\n')
print("namespace ullage::llm::jinja {\n")
mapping("kUpperExpansions", str.upper)
mapping("kTitleExpansions", str.title)
table("kOtherLowercase", ranges(lambda c: chr(c).islower() and category(c) != "Ll"))
table("kOtherUppercase", ranges(lambda c: chr(c).isupper() and category(c) != "Lu"))
table("kOtherDigits", ranges(lambda c: chr(c).isdigit() and category(c) != "Nd"))
table("kOtherNumeric", ranges(lambda c: chr(c).isnumeric() and category(c)[0] != "N"))
print("}  // namespace ullage::llm::jinja")
sys.stdout.flush()
