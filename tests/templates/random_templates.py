#!/usr/bin/env python3
"""Random templates, rendered by the reference and by a program; prints every difference.

    random_templates.py PROGRAM [--seed N] [--count N] [--rounds N] [--mutate]

PROGRAM takes `template --batch FILE --json`. Expressions are made by type, so that most of them mean something; a small
part is made without regard to types, so that errors are compared too (only that both fail).
"""
import argparse
import random
import sys

import compare
import reference
import snippets

STRINGS = ["", "a", "abc", "Hello, World", "  pad ", "x-y-z", "é", "日本 語", "🙂a🙂", "a\nb\n\nc", "ß", "12", "-3.5", "it's", 'q"q',
           "<b>&", "%s", "{}", "TITLE case", "tab\tx", "</think>rest", "a,b,,c", "\u00a0nb\u2028", "Σς"]
TEXTS = ["\n", "  ", "\t", "x", "line\n", "\n\n", "  y  ", "é ", " {", "} ", "%", "#", "\r\n", "z\n  ", "-", "\u00a0"]


class Maker:
    def __init__(self, rng):
        self.r = rng
        self.scopes = [{"s": "str", "u": "str", "n": "int", "f": "float", "neg": "int", "t": "bool", "z": "none", "l": "ints", "e": "ints",
                        "d": "dict", "words": "strs", "people": "dicts", "messages": "dicts", "nope": "any"}]
        self.macros = []
        self.in_loop = 0

    def pick(self, *options):
        return self.r.choice(options)

    def chance(self, p):
        return self.r.random() < p

    def names(self, *types):
        return [n for scope in self.scopes for n, t in scope.items() if t in types]

    def quote(self, s):
        q = self.pick("'", '"')
        s = s.replace("\\", "\\\\").replace(q, "\\" + q)
        return q + self.r.choice([s, s.replace("\n", "\\n").replace("\t", "\\t")]) + q

    # expressions: each returns source text
    def str_(self, d):
        options = [lambda: self.quote(self.r.choice(STRINGS))] * 2 + [lambda: self.r.choice(self.names("str"))] * 3
        if d > 0:
            s, i = lambda: self.sub("str", d), lambda: self.sub("int", d)
            options += [
                lambda: f"{s()} ~ {self.sub('any', d)}", lambda: f"{s()} + {s()}", lambda: f"{s()} * {self.r.randint(-1, 3)}",
                lambda: f"{s()}[{self.slice_(d)}]", lambda: f"{s()}[{self.r.randint(-3, 3)}]",
                lambda: f"{s()}.{self.pick('strip', 'lstrip', 'rstrip')}({self.pick('', self.quote(self.pick('x', ' a', 'é', ',')))})",
                lambda: f"{s()}.{self.pick('upper', 'lower', 'title', 'capitalize', 'swapcase')}()",
                lambda: f"{s()}.replace({s()}, {s()}{self.pick('', ', 1')})", lambda: f"{s()}.join({self.sub('strs', d)})",
                lambda: f"{s()}.{self.pick('center', 'ljust', 'rjust', 'zfill')}({self.r.randint(0, 12)})",
                lambda: f"{s()}.{self.pick('removeprefix', 'removesuffix')}({s()})",
                lambda: f"{s()} | {self.pick('upper', 'lower', 'title', 'capitalize', 'trim', 'string', 'reverse', 'e', 'safe', 'forceescape', 'urlencode')}",
                lambda: f"{s()} | replace({s()}, {s()}{self.pick('', ', 1', ', count=2')})",
                lambda: f"{s()} | indent({self.pick('', '2', '3, true', 'first=true', 'blank=true', self.quote('> '))})",
                lambda: f'''{s()} | truncate({self.r.randint(3, 20)}{self.pick('', ', true', ", false, ''", ', leeway=0')})''',
                lambda: f"{s()} | center({self.r.randint(0, 12)})", lambda: f"{s()} | default({s()}{self.pick('', ', true')})",
                lambda: f"{self.sub('any', d)} | tojson{self.json_args()}", lambda: f"{self.sub('any', d)} | string",
                lambda: f"{self.sub('list', d)} | join({self.pick('', s())})", lambda: f"{self.sub('strs', d)} | {self.pick('first', 'last', 'min', 'max')}",
                lambda: f"{self.quote(self.percent())} % ({self.sub('any', d)}, {self.sub('num', d)})",
                lambda: f"{self.quote(self.braces())}.format({self.sub('any', d)}, {self.sub('num', d)}, k={s()})",
                lambda: f"({s()} if {self.sub('bool', d)} else {s()})", lambda: f"({s()})", lambda: f"{self.sub('any', d)} | pprint",
                lambda: f"{s()} | wordwrap({self.r.randint(2, 12)}, break_on_hyphens=false)", lambda: f"{s()} | striptags",
                lambda: f"({s()} | safe) + {s()}", lambda: f"({s()} | e) % {s()}",
                lambda: f'''{self.sub('dicts', d)} | map(attribute={self.pick("'name'", "'role'", "'city'")}) | join(',')''']
            if self.macros:
                options += [lambda: self.call(d)] * 3
        return self.r.choice(options)()

    def percent(self):
        flags = self.pick("", "-", "0", "+", " ", "#", "05", "-6", "8", ".2", "6.1", "+.3")
        return f"%{self.pick('s', 'r', 's', '5s', '-7s', '.2s', 'a')}|%{flags}{self.pick('d', 'f', 'e', 'g', 's', 'i', 'x', 'G', 'o')}"

    def braces(self):
        spec = self.pick("", ":", ":5", ":>8", ":<8", ":^9", ":*^9", ":05", ":+", ":.2f", ":.3", ":,", ":e", ":g", ":8.3f", ":_", ":x", ":#x", ":b",
                         ":%", ":d", ":n", ":,.2f", ":08,", "!r", "!s", "!r:>9", ": ", ":010.3f", ":z.1f", ":G", ":.0f", ":=+8")
        return f"{{0!{self.pick('r', 's')}}} {{1{spec}}} {{k}} {{{{}}}}"

    def json_args(self):
        return self.pick("", "", "(indent=2)", "(indent=1, sort_keys=true)", "(ensure_ascii=true)", "(separators=(',', ':'))", "(true, 2)", "(indent='\\t')")

    def int_(self, d):
        options = [lambda: str(self.r.choice([0, 1, 2, 3, 7, 10, 255, -1]))] * 2 + [lambda: self.r.choice(self.names("int"))] * 2
        if self.in_loop:
            options += [lambda: f"loop.{self.pick('index', 'index0', 'revindex', 'revindex0', 'length', 'depth')}"] * 2
        if d > 0:
            i = lambda: self.sub("int", d)
            options += [lambda: f"{i()} {self.pick('+', '-', '*', '//', '%')} {i()}", lambda: f"{i()} ** {self.r.randint(0, 3)}",
                        lambda: f"-{i()}", lambda: f"{self.sub(self.pick('str', 'list', 'dict'), d)} | {self.pick('length', 'count')}",
                        lambda: f"{self.sub('ints', d)} | {self.pick('sum', 'min', 'max', 'first', 'last')}", lambda: f"{self.sub('any', d)} | int",
                        lambda: f"{self.sub('str', d)} | int({i()}, {self.pick('10', '16', '2', '0')})", lambda: f"{i()} | abs",
                        lambda: f"{self.sub('str', d)}.{self.pick('find', 'rfind', 'count')}({self.sub('str', d)}{self.pick('', ', 1', ', -3, 4')})",
                        lambda: f"({i()})", lambda: f"{self.sub('ints', d)}[{self.r.randint(-3, 3)}]", lambda: f"{i()} | round({self.r.randint(-2, 2)})",
                        lambda: f"{self.sub('str', d)} | wordcount"]
        return self.r.choice(options)()

    def float_(self, d):
        options = [lambda: self.r.choice(["0.5", "2.5", "1e20", "1.0", "3.14159", "1e-7", "123456.789", "0.1"]), lambda: self.r.choice(self.names("float"))]
        if d > 0:
            n = lambda: self.sub("num", d)
            options += [lambda: f"{n()} / {n()}", lambda: f"{n()} {self.pick('+', '-', '*', '//', '%')} {self.float_(d - 1)}",
                        lambda: f"{self.sub('any', d)} | float", lambda: f'''{n()} | round({self.r.randint(-2, 3)}{self.pick('', ", 'ceil'", ", 'floor'")})''',
                        lambda: f"({n()}) ** {self.pick('2', '-1', '0.5')}"]
        return self.r.choice(options)()

    def bool_(self, d):
        options = [lambda: self.pick("true", "false", "True", "t", "nope", "z", "n")]
        if self.in_loop:
            options += [lambda: self.pick("loop.first", "loop.last", "loop.nextitem is defined", "loop.changed(n)", "loop.previtem is undefined")]
        if d > 0:
            b, x = lambda: self.sub("bool", d), lambda: self.sub("any", d)
            tests = "defined undefined none string number integer float boolean mapping sequence iterable callable true false lower upper odd even escaped".split()
            options += [lambda: f"{b()} {self.pick('and', 'or')} {b()}", lambda: f"not {b()}", lambda: f"{x()} is {self.pick('', 'not ')}{self.r.choice(tests)}",
                        lambda: f"{self.sub('num', d)} {self.pick('<', '>', '<=', '>=', '==', '!=')} {self.sub('num', d)}",
                        lambda: f"{x()} {self.pick('==', '!=')} {x()}", lambda: f"{self.sub('str', d)} {self.pick('<', '>=', 'in', 'not in')} {self.sub('str', d)}",
                        lambda: f"{x()} in {self.sub('list', d)}", lambda: f"{self.sub('str', d)} in {self.sub('dict', d)}",
                        lambda: f"{self.sub('str', d)}.{self.pick('startswith', 'endswith')}({self.sub('str', d)})",
                        lambda: f"{self.sub('str', d)}.{self.pick('isalpha', 'isdigit', 'isspace', 'isupper', 'islower', 'istitle', 'isalnum', 'isnumeric', 'isidentifier', 'isprintable')}()",
                        lambda: f"{self.sub('int', d)} is divisibleby {self.r.randint(1, 4)}", lambda: f"{self.sub('num', d)} is {self.pick('gt', 'lt', 'ge', 'le', 'eq', 'ne')} {self.r.randint(-2, 5)}",
                        lambda: f"({b()})", lambda: f"{self.sub('num', d)} < {self.sub('num', d)} < {self.sub('num', d)}"]
        return self.r.choice(options)()

    def slice_(self, d):
        part = lambda: self.pick("", "", "1", "2", "-1", "-2", "0", "5")
        return f"{part()}:{part()}" + self.pick("", "", ":" + self.pick("", "1", "2", "-1", "-2"))

    def ints(self, d):
        options = [lambda: self.r.choice(self.names("ints")), lambda: "[" + ", ".join(str(self.r.randint(-3, 9)) for _ in range(self.r.randint(0, 5))) + "]"]
        if d > 0:
            x = lambda: self.sub("ints", d)
            options += [lambda: f"{x()} + {x()}", lambda: f"{x()}[{self.slice_(d)}]", lambda: f"range({self.r.randint(0, 6)}) | list",
                        lambda: f"{x()} | sort{self.pick('', '(reverse=true)')}", lambda: f'''{x()} | {self.pick('unique', 'reverse', "map('abs')", "select('odd')", "reject('gt', 1)", 'select')} | list''',
                        lambda: f"{x()} | map('int') | list", lambda: f"{self.sub('dicts', d)} | map(attribute='age', default=0) | list"]
        return self.r.choice(options)()

    def strs(self, d):
        options = [lambda: self.r.choice(self.names("strs")), lambda: "[" + ", ".join(self.quote(self.r.choice(STRINGS)) for _ in range(self.r.randint(0, 4))) + "]"]
        if d > 0:
            x, s = lambda: self.sub("strs", d), lambda: self.sub("str", d)
            options += [lambda: f'''{s()}.split({self.pick('', self.quote(self.pick(',', '-', 'a', ' ')), 'none, 1', "',', 1")})''', lambda: f'''{s()}.rsplit({self.pick('', "'-', 1", 'none, 1')})''',
                        lambda: f"{s()}.splitlines({self.pick('', 'true')})", lambda: f"{s()} | list", lambda: f"{x()} | sort{self.pick('', '(case_sensitive=true)', '(true)')}",
                        lambda: f'''{x()} | map({self.pick("'upper'", "'trim'", "'string'", "'replace', 'a', 'b'")}) | list''', lambda: f"{x()} | unique | list",
                        lambda: f"{x()}[{self.slice_(d)}]", lambda: f"{x()} + {x()}", lambda: f"[{s()}, {s()}]", lambda: f"{s()}.partition({s()})", lambda: f"{s()}.rpartition({self.quote(self.pick('a', '-', ', '))})"]
        return self.r.choice(options)()

    def dict_(self, d):
        options = [lambda: self.r.choice(self.names("dict")), lambda: "{}", lambda: "messages[-1]", lambda: "people[0]"]
        if d > 0:
            options += [lambda: "{" + ", ".join(f"{self.pick(self.quote(self.pick('a', 'b', 'é', 'k')), str(self.r.randint(0, 2)))}: {self.sub('any', d)}" for _ in range(self.r.randint(0, 3))) + "}",
                        lambda: f"dict(a={self.sub('any', d)}, b={self.sub('str', d)})", lambda: f"{self.sub('dicts', d)} | first"]
        return self.r.choice(options)()

    def dicts(self, d):
        options = [lambda: self.pick("people", "messages")]
        if d > 0:
            x = lambda: self.sub("dicts", d)
            options += [lambda: f"{x()}[{self.slice_(d)}]", lambda: f'''{x()} | selectattr({self.pick("'city'", "'role', 'eq', 'user'", "'age', 'gt', 29", "'name', 'defined'", "'content', 'string'")}) | list''',
                        lambda: f'''{x()} | rejectattr({self.pick("'city'", "'role', 'in', ['user']", "'name', 'string'")}) | list''', lambda: f'''people | sort(attribute={self.pick("'age'", "'name'", "'age,name'")})''',
                        lambda: f"{x()} | reverse | list", lambda: f"people | {self.pick('min', 'max')}(attribute='age')", lambda: "[d, messages[0]]"]
        return self.r.choice(options)()

    def list_(self, d):
        kind = self.pick("ints", "strs", "dicts", "mixed", "special")
        if kind == "mixed":
            return "[" + ", ".join(self.sub("any", d) for _ in range(self.r.randint(0, 3))) + "]"
        if kind == "special" and d > 0:
            return self.pick(f"{self.sub('dict', d)} | dictsort", f"{self.sub('dict', d)}.items() | list", f"{self.sub('dict', d)} | items | list", f"{self.sub('ints', d)} | batch(2{self.pick('', ', 0')}) | list",
                             f"{self.sub('strs', d)} | slice(2) | list", f"({self.sub('any', d)}, {self.sub('any', d)})", f'''people | groupby({self.pick("'age'", "'city', default='?'")})''',
                             f"{self.sub('dict', d)}.{self.pick('keys', 'values')}()", f"range({self.r.randint(-2, 5)})", f"({self.sub('any', d)},)")
        return getattr(self, {"ints": "ints", "strs": "strs", "dicts": "dicts"}.get(kind, "ints"))(d)

    def any_(self, d):
        kind = self.pick("str", "str", "int", "float", "bool", "list", "dict", "none")
        if kind == "none":
            options = ["none", "nope", "d.nope", "d.b", "d['a'].x[1]", "messages[2].content", "s[99]", "people[0].name", "people[3].city", "messages[-1].extra.a.b", "1, 2" if False else "(1, 2)"]
            if self.in_loop:
                options += ["loop.nextitem", "loop.previtem", "loop.cycle('a', 2)"]
            return self.r.choice(options + self.names("any"))
        return self.sub(kind, d)

    def sub(self, kind, d):
        if self.chance(0.02):  # without regard to types
            kind = self.pick("str", "int", "float", "bool", "ints", "strs", "dict", "dicts", "list", "any")
        d -= self.pick(1, 1, 2)
        if kind == "num":
            kind = self.pick("int", "int", "float")
        maker = {"str": self.str_, "int": self.int_, "float": self.float_, "bool": self.bool_, "ints": self.ints, "strs": self.strs, "dict": self.dict_, "dicts": self.dicts,
                 "list": self.list_, "any": self.any_}[kind]
        text = maker(max(d, 0))
        return f"({text})" if self.chance(0.6) and not text.isalnum() else text

    def call(self, d):
        name, params = self.r.choice(self.macros)
        args = [self.sub("any", d) for _ in range(self.r.randint(0, len(params)))]
        if len(args) < len(params) and self.chance(0.3):
            args.append(f"{params[-1]}={self.sub('any', d)}")
        return f"{name}({', '.join(args)})"

    # statements
    def open(self):
        return "{%" + self.pick("", "", "", "-", "+") + " "

    def close(self):
        return " " + self.pick("", "", "", "-", "+") + "%}"

    def tag(self, text):
        return self.open() + text + self.close()

    def output(self, d):
        return "{{" + self.pick("", "", "-") + " " + self.sub("any", d) + " " + self.pick("", "", "-") + "}}"

    def text(self):
        return "".join(self.r.choice(TEXTS) for _ in range(self.r.randint(0, 3)))

    def body(self, d, n=None):
        return "".join(self.text() + self.statement(d) for _ in range(n or self.r.randint(1, 3))) + self.text()

    def scoped(self, names, make, loop=False):
        self.scopes.append(names)
        self.in_loop += loop
        try:
            return make()
        finally:
            self.in_loop -= loop
            self.scopes.pop()

    def statement(self, d):
        kinds = ["output"] * 6 + ["set"] * 3
        if d > 0:
            kinds += ["if"] * 3 + ["for"] * 3 + ["macro", "filter", "setblock", "with", "generation", "call", "ns", "comment", "raw", "recursive"]
        if self.in_loop and self.chance(0.3):
            kinds += ["jump"]
        return getattr(self, "make_" + self.r.choice(kinds))(d)

    def make_output(self, d):
        return self.output(self.r.randint(0, 4))

    def make_set(self, d):
        kind = self.pick("str", "int", "bool", "ints", "strs", "dict", "any")
        name = self.pick("v1", "v2", "v3", "s", "n", "l")
        e = self.sub(kind, self.r.randint(0, 3))
        self.scopes[-1][name] = kind if kind != "bool" else "any"
        return self.tag(f"set {name} = {e}")

    def make_if(self, d):
        out = self.tag(f"if {self.sub('bool', 3)}") + self.body(d - 1)
        while self.chance(0.3):
            out += self.tag(f"elif {self.sub('bool', 2)}") + self.body(d - 1)
        if self.chance(0.5):
            out += self.tag("else") + self.body(d - 1)
        return out + self.tag("endif")

    def make_for(self, d):
        kind, target, names = self.r.choice([("ints", "i", {"i": "int"}), ("strs", "w", {"w": "str"}), ("dicts", "m", {"m": "dict"}), ("list", "x", {"x": "any"}), ("str", "c", {"c": "str"}), ("pairs", "k, v", {"k": "str", "v": "any"})])
        it = self.pick("d.items()", "d | items", "people[0].items()", "[(1, 2), ('a', 'b')]", f"{self.sub('dict', 2)} | dictsort") if kind == "pairs" else self.sub(kind, 2)
        if self.chance(0.15):
            it = f'''{it} | {self.pick("map('string')", 'select', 'reverse', 'unique', 'batch(2)')}'''
        test = self.scoped(names, lambda: f" if {self.sub('bool', 2)}") if self.chance(0.25) else ""
        out = self.tag(f"for {target} in {it}{test}") + self.scoped(names, lambda: self.body(d - 1), loop=True)
        if self.chance(0.25):
            out += self.tag("else") + self.body(d - 1)
        return out + self.tag("endfor")

    def make_recursive(self, d):
        return self.tag("for q in tree recursive") + self.scoped({"q": "dict"}, lambda: "{{ q.v }}" + self.body(d - 1, 1), loop=True) + "{{ loop(q.kids) if q.kids }}" + self.tag("endfor")

    def make_macro(self, d):
        name = self.pick("ma", "mb", "mc")
        params = ["p", "q", "r"][:self.r.randint(0, 3)]
        signature = ", ".join(p + (f"={self.sub('any', 1)}" if i >= len(params) - 1 and self.chance(0.6) else "") for i, p in enumerate(params))
        loops, self.in_loop = self.in_loop, 0
        macros = self.macros
        self.macros = []
        inner = self.scoped({p: "any" for p in params}, lambda: self.body(d - 1))
        self.macros = macros
        if self.chance(0.3):
            inner += self.pick("{{ caller() if caller }}", "{{ varargs }}", "{{ kwargs }}")
        self.in_loop = loops
        self.macros = [m for m in self.macros if m[0] != name] + [(name, params)]
        return self.tag(f"macro {name}({signature})") + inner + self.tag("endmacro")

    def make_call(self, d):
        if not self.macros:
            return self.make_output(d)
        loops, self.in_loop = self.in_loop, 0
        body = self.body(d - 1, 1)
        self.in_loop = loops
        return self.tag(f"call {self.call(1)}") + body + self.tag("endcall")

    def make_filter(self, d):
        return self.tag("filter " + self.pick("upper", "trim", "replace('a', 'b')", "indent(2)", "title | trim", "length", "e", "string | lower")) + self.body(d - 1) + self.tag("endfilter")

    def make_setblock(self, d):
        name = self.pick("b1", "b2")
        out = self.tag(f"set {name}{self.pick('', '', ' | upper', ' | trim | length')}") + self.scoped({}, lambda: self.body(d - 1)) + self.tag("endset")
        self.scopes[-1][name] = "any"
        return out

    def make_with(self, d):
        return self.tag(f"with w1 = {self.sub('any', 2)}, w2 = {self.sub('str', 2)}") + self.scoped({"w1": "any", "w2": "str"}, lambda: self.body(d - 1)) + self.tag("endwith")

    def make_generation(self, d):
        loops, self.in_loop = self.in_loop, 0
        body = self.scoped({}, lambda: self.body(d - 1))
        self.in_loop = loops
        return self.tag("generation") + body + self.tag("endgeneration")

    def make_ns(self, d):
        if "nsp" in self.names("ns"):
            return self.tag(f"set nsp.{self.pick('a', 'b')} = {self.pick('nsp.a ~ ', '')}{self.sub('any', 2)}") + self.pick("", "{{ nsp.a }}", "{{ nsp }}")
        self.scopes[-1]["nsp"] = "ns"
        return self.tag(f"set nsp = namespace(a={self.sub('any', 2)})")

    def make_comment(self, d):
        return "{#" + self.pick("", "-", "+") + " c {{ x }} " + self.pick("", "-", "+") + "#}"

    def make_raw(self, d):
        return self.tag("raw") + self.text() + "{{ x }}" + self.text() + self.tag("endraw")

    def make_jump(self, d):
        return self.tag(f"if {self.sub('bool', 2)}") + self.tag(self.pick("break", "continue")) + self.tag("endif")

    def template(self):
        return self.body(self.r.randint(0, 3), self.r.randint(1, 4))


PIECES = ["{%", "%}", "{{", "}}", "{#", "#}", "-", "+", "(", ")", "[", "]", "{", "}", "'", '"', ",", ".", ":", "|", "~", "=", "==", "<", "*", "**", "/", "//", "%", " if ", " else ",
          " in ", " not ", " is ", " and ", " or ", "\n", "\\", " ", "0", "1", "1.5", "x", "s", "loop", "none", " endif ", " endfor ", "é", "_", "!", "raw", "\t", "0x", "e5", "\r"]


def mutated(rng, template):
    """One to three small edits."""
    for _ in range(rng.randint(1, 3)):
        i = rng.randint(0, len(template))
        kind = rng.randint(0, 3)
        if kind == 0:
            template = template[:i] + template[i + rng.randint(1, 3):]
        elif kind == 1:
            template = template[:i] + rng.choice(PIECES) + template[i:]
        elif kind == 2:
            template = template[:i] + rng.choice(PIECES) + template[i + 1:]
        else:
            j = rng.randint(0, len(template))
            template = template[:i] + template[j:j + rng.randint(1, 8)] + template[i:]
    return template


def main():
    p = argparse.ArgumentParser()
    p.add_argument("program", nargs="+")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=2000)
    p.add_argument("--rounds", type=int, default=1)
    p.add_argument("--show", type=int, default=20)
    p.add_argument("--mutate", action="store_true", help="small edits of the snippets instead of new templates")
    opt = p.parse_args()
    env = reference.environment()
    env.cache = None
    variables = {"tools": None, "documents": None, "add_generation_prompt": False, **snippets.VARS}
    totals = {"right": 0, "text": 0, "unsupported": 0, "wrong": 0}
    for round_ in range(opt.rounds):
        rng = random.Random(opt.seed + round_)
        if opt.mutate:
            sources = [t for _, t in snippets.snippets()]
            templates = [mutated(rng, rng.choice(sources)) for _ in range(opt.count)]
        else:
            templates = [Maker(rng).template() for _ in range(opt.count)]
        got = compare.answers(opt.program, [compare.request(t, snippets.VARS) for t in templates])
        for template, answer in zip(templates, got):
            expected = reference.render(env, template, variables)
            if " at 0x" in expected.get("text", ""):
                continue
            why = compare.verdict(expected, answer)
            if why is None:
                totals["right"] += 1
                totals["text"] += "text" in expected
            elif why == "unsupported":
                totals["unsupported"] += 1
            else:
                totals["wrong"] += 1
                if totals["wrong"] <= opt.show:
                    print(f"--- {template!r}\n     {why}")
    print(totals)
    sys.exit(1 if totals["wrong"] else 0)


if __name__ == "__main__":
    main()
