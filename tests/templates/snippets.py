"""Template snippets, by topic. make_vectors.py renders each with the reference and stores what comes out."""

CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <there> & \"you\"\n"},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": {"x": 1.5, "items": [1, None]}}}]},
        {"role": "tool", "content": [{"type": "text", "text": "ok"}], "name": "f"},
        {"role": "user", "content": "Ünïcödé 🙂 ß ŉ İ Σς", "extra": {"a": {"b": [10, 20]}}}]
PEOPLE = [{"name": "ann", "age": 30, "city": "Rome"}, {"name": "Bob", "age": 25, "city": "oslo"},
          {"name": "cy", "age": 30, "city": "rome"}, {"name": "Dee", "age": 41}]
VARS = {"messages": CHAT, "people": PEOPLE, "s": "Hello, World", "u": "Árvíztűrő 🙂 日本", "n": 7, "f": 2.5, "neg": -3,
        "t": True, "z": None, "l": [3, 1, 2], "d": {"b": 1, "a": {"x": [1, 2]}, "items": 5}, "e": [], "words": ["b", "A", "c", "a"],
        "bos_token": "<s>", "tools": None, "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4}]}]}, {"v": 5}]}

WHITESPACE = r"""
a{% if t %}b{% endif %}c
a {%- if t -%} b {%- endif -%} c
  {% if t %}\n  x\n  {% endif %}\ny
\t{% if t %}\n\tx\n\t{%+ endif %}\ny
  {%+ if t %}x{% endif %}
x {{- s -}} y
x {{ s }} y
{{ s }}\nz
{% set a = 1 %}\n\nb
{# c #}\nx
x{# c #}\ny
  {# c #}  \ny
  {#- c -#}  \ny
  {#+ c +#}\ny
{%- if t %}\n\n  q\n{%- endif %}\n\n\n
\n\n{{ s }}\n\n
{% raw %}{{ x }} {% if %} {# #}{% endraw %}z
{%- raw -%}  {{ x }}  {%- endraw -%}  z
{% raw %}\n a {{ b }}\n{% endraw %}\nz
a{% raw +%}{% endraw %}
{% if t -%}   x   {%- else -%} y {%- endif %}
{% for i in l -%}\n {{ i }}\n{%- endfor %}\nend
{% for i in l %}\n {{ i }}\n{% endfor %}\nend
a\r\nb\rc\n{{ 'x\r\ny' }}
{{ '{{' }}{{ '}}' }}{{ "{%" }}
{{ {'a': {'b': 1}} }}
{{ {'a': {'b': 1}}['a']}}
a {%- set q = 1 %} b
a {% set q = 1 -%} b
\u00a0\u2003{%- if t %}x{% endif %}
\u00a0{% if t %}x{% endif %}
{%\n if\n t\n %}x{%endif%}
{{-s-}}
{{+ n}}
{% if t +%}\nx{% endif +%}\ny
{{ s -}}\n   x
line1\n   {%- if t %} a {% endif -%}\n  line2
{% block b %}in{% endblock %}
{% block b -%}  in  {%- endblock b %}
no tags at all { { % # } }
{
{{ '#}' }}{# a {{ b }} {% c %} #}x
{# multi\nline #}\nx
{% set x %}\n  body\n{% endset %}[{{ x }}]
{% if t %}{% endif %}\n{% if t %}{% endif %}\nx
a\n\n\n
"""

LITERALS = r"""
{{ 1 }} {{ 0 }} {{ 00 }} {{ 1_000 }} {{ 0x1F }} {{ 0o17 }} {{ 0b101 }} {{ 9223372036854775807 }} {{ -5 }} {{ +5 }}
{{ 1.0 }} {{ 1.5e3 }} {{ 1e16 }} {{ 1e15 }} {{ 123456789012345680.0 }} {{ 1e-4 }} {{ 0.00001 }} {{ 1.5E-7 }} {{ 1e22 }} {{ 0.1 }} {{ 3.0e0 }} {{ 100.0 }} {{ 1_0.5_0 }}
{{ 1e308 * 10 }} {{ -1e308 * 10 }} {{ 0.1 + 0.2 }} {{ 1/3 }} {{ 2.675 }} {{ 5e-324 }} {{ -0.0 }}
{{ 'a' "b" 'c' }} {{ "it's" }} {{ 'say "x"' }} {{ 'both \' and "' }}
{{ '\n\t\\\'\"' }}|{{ '\x41\u00e9\U0001F600\101' }}|{{ '\q\d' }}|{{ 'a\
b' }}
{{ 'é\é' }} {{ '日本\u65e5' }}
{{ true }} {{ True }} {{ false }} {{ False }} {{ none }} {{ None }}
{{ [] }} {{ [1] }} {{ [1, 'a', 2.0, none, true, [], {}] }} {{ [1,] }}
{{ () }} {{ (1,) }} {{ (1, 2) }} {{ 1, 2 }} {{ (1) }}
{{ {} }} {{ {'a': 1} }} {{ {1: 'a', 2.5: 'b', none: 'c', true: 'd', (1, 2): 'e'} }} {{ {'a': 1, 'a': 2} }} {{ {1: 'x', true: 'y', 1.0: 'z'} }}
{{ ["it's", 'q"q', 'both\'"', 'a\nb\t\r\\', '\x00\x1f\x7f', 'é', '\u200b', '\U0001F600', '\u3000', '\ud7ff', '\xad'] }}
{{ 'tab\there' | string }} {{ ['\u0378', '\ue000'] }}
{{ [1.0, 1e100, -0.0, 1e-10] }}
{{ 1.real }}
{{ 007 }}
{{ 1__0 }}
{{ 99999999999999999999 }}
{{ 'unterminated }}
{{ 'bad \x4' }}
{{ "\ud83d" }}
{{ '\ud83d\ude00' }}
{{ "😀"[0] }} {{ "é😀"[1] }}
"""

EXPRESSIONS = r"""
{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 7 // 2 }} {{ -7 // 2 }} {{ 7 // -2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }} {{ 2 ** 0.5 }}
{{ 7.5 // 2 }} {{ -7.5 // 2 }} {{ 7.5 % 2 }} {{ -7.5 % 2 }} {{ 7.5 % -2 }} {{ 1.0 * 3 }} {{ 3 - 1.0 }} {{ 1e3 // 7 }} {{ 0.0 % 5 }} {{ -1.0 % 1.0 }}
{{ true + 1 }} {{ true * 5 }} {{ true / 2 }} {{ -true }} {{ +true }} {{ true // 1 }}
{{ 'a' + 'b' }} {{ 'a' * 3 }} {{ 3 * 'a' }} {{ 'a' * -1 }}| {{ [1] + [2] }} {{ [0] * 3 }} {{ (1,) + (2,) }} {{ 2 * (1, 2) }}
{{ 'a' ~ 1 ~ 2.0 ~ none ~ true ~ [1] ~ {'a': 'b'} ~ (1,) }} {{ 1 ~ 2 + 3 }} {{ 'x' ~ nope ~ 'y' }}
{{ 1 < 2 }} {{ 2 <= 2 }} {{ 3 > 4 }} {{ 3 >= 3 }} {{ 1 == 1.0 }} {{ 1 != '1' }} {{ 1 < 2 < 3 }} {{ 1 < 2 > 3 }} {{ 3 > 2 == true }} {{ 1 == 1 == 1 }}
{{ 'a' < 'b' }} {{ 'a' < 'B' }} {{ [1, 2] < [1, 3] }} {{ (1,) < (1, 2) }} {{ [1] == [1.0] }} {{ {'a': 1} == {'a': 1.0} }} {{ [1] == (1,) }} {{ 'é' > 'z' }} {{ true == 1 }} {{ none == none }} {{ nope == other }} {{ nope == none }} {{ range(3) == range(0, 3, 1) }}
{{ 'a' in 'cat' }} {{ '' in 'x' }} {{ 'b' not in 'cat' }} {{ 1 in [1, 2] }} {{ 1.0 in [1] }} {{ 'a' in d }} {{ 'x' in d.a }} {{ 3 in range(5) }} {{ 2 in (1, 2) }} {{ 'k' in nope }} {{ none in [none] }} {{ [1] in [[1]] }}
{{ t and n }} {{ z and n }} {{ z or n }} {{ t or n }} {{ not t }} {{ not z }} {{ not not n }} {{ e or 'empty' }} {{ '' or none }} {{ 0 and 1 }} {{ nope or 'd' }} {{ t and z or 5 }}
{{ 'y' if t else 'n' }} {{ 'y' if z else 'n' }} [{{ 'y' if z }}] {{ 'a' if z else 'b' if e else 'c' }} {{ ('y' if z) is defined }} {{ 1 if t else 2 if t else 3 }}
{{ s[0] }} {{ s[-1] }} {{ s[1:3] }} {{ s[:-1] }} {{ s[::-1] }} {{ s[::2] }} {{ s[10:100] }} {{ s[5:2] }}| {{ s[-3:] }} {{ s[100] }}| {{ s[:] }} {{ s[none:3] }} {{ s[-100:3] }}
{{ u[0] }} {{ u[-1] }} {{ u[8:12] }} {{ u[::-1] }} {{ u | length }} {{ u[10] }} {{ u[1:4] }} {{ u[-2:] }}
{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ l[:2] }} {{ l[9] }}| {{ l[9] is defined }} {{ l[true] }} {{ (1, 2, 3)[1:] }} {{ range(10)[2] }} {{ range(10)[2:8:3] }} {{ range(10)[::-1] }} {{ l[5:] }}
{{ l['0'] }}| {{ l.0 }} {{ l.2 }} {{ [[1, 2], [3]].0.1 }} {{ d['a']['x'][1] }} {{ d.a.x.1 }} {{ d.a['x'] }} {{ d.b }} {{ d['nope'] }}| {{ d.nope is defined }} {{ d['items'] }} {{ d.items is callable }} {{ d.get('items') }}
{{ messages[2].tool_calls[0].function.arguments.x }} {{ messages[2]['tool_calls'][0]['function']['arguments']['items'] }} {{ messages[-1].extra.a.b[1] }}
{{ {'a': 1}.a }} {{ {'a': 1}['a'] }} {{ {1: 2}[1] }} {{ {1: 2}[true] }} {{ {'x y': 3}['x y'] }} {{ [1, 2, 3][1] }} {{ 'abc'.upper() }} {{ 'abc'[1].upper() }}
{{ -n }} {{ +n }} {{ - 5 }} {{ --5 }} {{ -n | abs }} {{ not n == 7 }} {{ n is odd and t }} {{ -1 is odd }}
{{ 1 if }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1.0 % 0 }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ none + 1 }}
{{ [1] + (1,) }}
{{ 'a' < 1 }}
{{ none < 1 }}
{{ {} < {} }}
{{ nope + 1 }}
{{ nope.x }}
{{ nope['x'] }}
{{ nope() }}
{{ nope.x.y is defined }}
{{ d.nope.x }}
{{ 1 in 'abc' }}
{{ 1 in 5 }}
{{ 'a'() }}
{{ -'a' }}
{{ [1][::0] }}
{{ s['a':] }}
{{ d[1:2] }}
{{ {[1]: 2} }}
{{ {'a': 1}[[1]] }}|
{{ l.append(4) }}
{{ d.update({'q': 1}) }}
{{ d.pop }}|{{ d.pop is defined }}|{{ l.sort }}|{{ l.append is defined }}
{{ ''.__class__ }}|{{ ''.__class__ is defined }}|{{ d.__nope__ }}|{{ [].__len__ }}|{{ d._private }}
{{ ''.__class__.__mro__ }}
{{ ''.__class__() }}
{{ 2 ** 63 }}
{{ 9223372036854775807 + 1 }}
{{ 3 * 'ab' * 2 }}
{{ 1 == 1 in [true] }}
{{ 'a' 'b' ~ 'c' 'd' }}
{{ (1, 2)[0] }}{{ [1, 2,][1] }}
{{ 5 is not none }} {{ 5 is not string }} {{ not 5 is string }}
{{ 1 is eq 1 }} {{ 1 is == 1 }}
{{ 'x' if t }}
{{ loop is defined }} {{ range is defined }} {{ nope is defined }} {{ s is defined }}
{{ d | length > 1 and s }}
{{ "%s and %d" % ('a', 5) }} {{ "%s" % 5 }} {{ "%5.2f|%-5s|%05d|%+d|% d|%x|%X|%o|%e|%g|%c|%%|%r" % (3.14159, 'a', 42, 7, 7, 255, 255, 8, 12345.678, 0.0001, 'z', 'q') }} {{ '%(a)s-%(b)03d' % {'a': 1, 'b': 2} }} {{ '%*d' % (5, 42) }} {{ '%.2s|%10.3s|' % ('abc', 'défg') }}
{{ '%s %s' % (1,) }}
{{ '%d' % 'a' }}
{{ '%s' % (1, 2) }}
{{ '%q' % 1 }}
{{ 'abc' % 1 }}
{{ 'abc' % {} }} {{ 'abc' % [] }} {{ '%s' % [1, 2] }} {{ '%s' % {'a': 1} }} {{ '%s' % none }} {{ '%d' % 3.99 }} {{ '%i' % true }} {{ '%s' % nope }}|
{{ '%#x %#o %#X' % (255, 8, 255) }} {{ '%.3d' % 5 }} {{ '%G %E' % (1e-10, 1.5) }} {{ '%f' % 1 }} {{ '%.0f %.0f %.0f' % (0.5, 1.5, 2.5) }} {{ '%5s|%-5s|' % ('é', 'é') }} {{ '%a' % 'é' }} {{ '%x' % -255 }} {{ '%5.1f%%' % 99.55 }}
"""

STATEMENTS = r"""
{% for m in messages %}{{ loop.index }}:{{ m.role }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for m in messages %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }} {% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}
{% for x in l %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}
{% for x in e %}x{% else %}none{% endfor %} {% for x in l %}x{% else %}none{% endfor %} {% for x in nope %}x{% else %}undef{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for v in d.values() %}{{ v }}{% endfor %} {% for a, b in [(1, 2), [3, 4], 'xy'] %}{{ a }}{{ b }} {% endfor %}
{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %} {% for (a, b) in [(1, 2)] %}{{ a }}{{ b }}{% endfor %}
{% for x in l if x > 1 %}{{ x }}:{{ loop.index }}/{{ loop.length }}{{ loop.last }} {% endfor %} {% for x in l if x > 9 %}{{ x }}{% else %}none{% endfor %}
{% for k, v in d.items() if k != 'a' %}{{ k }}{{ v }}{{ loop.last }}{% endfor %}
{% for c in 'héy' %}{{ c }}.{% endfor %} {% for i in range(3) %}{{ i }}{% endfor %} {% for i in range(5, 0, -2) %}{{ i }}{% endfor %}
{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}{% endif %}{{ i }}{% endfor %}
{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}
{% for i in range(3) %}{% continue %}{% else %}else{% endfor %} {% for i in range(3) %}{% break %}{% else %}else{% endfor %} {% for i in range(3) %}{% if i == 1 %}{% break %}{% endif %}{% else %}else{% endfor %}
{% for i in l %}{% set x = i %}{% endfor %}{{ x is defined }} {% set x = 0 %}{% for i in l %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}
{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }} {{ ns }} {{ ns.b is defined }}
{% set ns = namespace({'q': 1}, b=2) %}{{ ns.q }}{{ ns.b }}{% set ns.c, x = 3, 4 %}{{ ns.c }}{{ x }} {{ ns }}
{% set ns = namespace(found=false) %}{% for m in messages %}{% if m.role == 'tool' and not ns.found %}{% set ns.found = true %}{{ loop.index }}{% endif %}{% endfor %}{{ ns.found }}
{% set a, b = 1, 2 %}{{ a }}{{ b }} {% set (a, b) = (3, 4) %}{{ a }}{{ b }} {% set a, b = 'xy' %}{{ a }}{{ b }} {% set x = 1, 2 %}{{ x }}
{% set x %}body {{ n }}{% endset %}[{{ x }}] {% set x | upper %}body{% endset %}[{{ x }}] {% set x | replace('b', 'c') | trim %} body {% endset %}[{{ x }}]
{% if z %}a{% elif e %}b{% elif t %}c{% else %}d{% endif %} {% if nope %}a{% else %}b{% endif %} {% if 0.0 %}a{% elif '' %}b{% elif {} %}c{% elif range(0) %}d{% else %}e{% endif %}
{% if t %}{% set x = 1 %}{% endif %}{{ x }} {% if z %}{% set y = 1 %}{% else %}{% set y = 2 %}{% endif %}{{ y }} {% if z %}{% set w = 1 %}{% endif %}{{ w is defined }}
{% set s = s ~ '!' %}{{ s }} {% for i in [1] %}{{ s }}{% set s = 'in' %}{{ s }}{% endfor %}{{ s }}
{% for i in [1, 2] %}{{ q is defined }}{% set q = i %}{{ q }} {% endfor %}
{% for i in [1, 2] %}{% if i == 1 %}{% set q = i %}{% endif %}{{ q is defined }} {% endfor %}
{% for s in [1] %}{{ s }}{% endfor %}{{ s }}
{% for i in [1, 2] %}{% for i in [3] %}{{ i }}{% endfor %}{{ i }}{% endfor %}
{% for x in l %}{{ loop.index }}{% for y in l %}{{ loop.index }}{% endfor %}{{ loop.index }} {% endfor %}
{% for x in l %}{% set outer = loop %}{% for y in [1, 2] %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% for n in tree recursive %}({{ n.v }}@{{ loop.depth }}{% if n.kids %}{{ loop(n.kids) }}{% endif %}{{ loop.index }}){% endfor %}
{% for n in tree recursive %}{{ n.v }}{% if n.kids %}[{{ loop(n.kids) }}]{% else %}.{% endif %}{% else %}empty{% endfor %}
{% for x in l | map('string') %}{{ x }}{{ loop.last }}{{ loop.length }} {% endfor %} {% for x in l | select('odd') %}{{ loop.nextitem }}-{{ x }} {% endfor %}
{% macro m(a, b=2, c='z') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c='q') }} {{ m(a=5) }} {{ m() }} {{ m(b=7, a=6) }}
{% macro m(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, x=4) }} {{ m() }} {{ m.name }} {{ m.arguments }} {{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }} {{ m }}
{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }} {{ m(none) }} {{ m(nope) }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }} {{ m(1, 2) }}
{% macro m(x) %}[{{ x }}{{ caller() }}]{% endmacro %}{% call m(1) %}body{% endcall %}
{% macro m(x) %}{% for i in x %}{{ caller(i, loop.index) }}{% endfor %}{% endmacro %}{% call(a, b) m(l) %}<{{ a }}:{{ b }}>{% endcall %}
{% macro m() %}{{ caller is defined }}{{ caller() if caller }}{% endmacro %}{{ m() }} {% call m() %}x{% endcall %}
{% macro outer() %}[{{ caller() }}]{% endmacro %}{% macro inner() %}({{ caller() }}){% endmacro %}{% call outer() %}{% call inner() %}deep{% endcall %}{% endcall %}
{% macro fact(n) %}{{ n * (fact(n - 1) | int) if n > 1 else 1 }}{% endmacro %}{{ fact(10) }}
{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}B{% endmacro %}{{ a() }}
{% macro m() %}{% set x = 5 %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{{ x }} {% macro r() %}{{ x }}{% endmacro %}{{ r() }}{% set x = 9 %}{{ r() }}
{% for i in [1, 2] %}{% macro lm() %}{{ i }}{% endmacro %}{{ lm() }}{% endfor %}
{% set ns = namespace() %}{% for i in [1, 2] %}{% macro lm() %}[{{ i }}]{% endmacro %}{% set ns.m = lm %}{% endfor %}{{ ns.m() }}
{% macro m() %}x{% endmacro %}{% set y = m() %}{{ y }}{{ y is string }} {{ m() ~ 1 }} {{ m() | upper }} {{ m is callable }}
{% macro m(items) %}{{ items | length }}{% endmacro %}{{ m([1, 2]) }} {% set f = m %}{{ f([1]) }}
{% filter upper %}abc {{ s }}{% endfilter %} {% filter replace('a', 'b') | title %}banana{% endfilter %} {% filter indent(2, true) %}a\nb{% endfilter %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }} {% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }} {% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}
{% generation %}gen {{ n }}{% endgeneration %} {% generation %}{% set g = 1 %}{{ g }}{% endgeneration %}{{ g is defined }}
{% for m in messages %}{% if m.role == 'user' %}{% generation %}{{ m.content }}{{ loop.index }}{% endgeneration %}{% endif %}{% endfor %}
{% print 1, 'a', s %} {% print n %}
{% block a %}{{ s }}{% endblock %}{% set x = 3 %}{% block b %}{{ x }}{% endblock %}{% for i in l %}{% block c %}{{ i is defined }}{% endblock %}{% endfor %}
{% set x = 1 if t else 2 %}{{ x }} {% set y = [1, 2] + [3] %}{{ y }} {% set zz = {'a': [1]} %}{{ zz.a[0] }}
{% set loop = 1 %}{{ loop }}
{% for i in l %}{% set loop = 1 %}{% endfor %}
{% for loop in l %}{% endfor %}
{% for i in 5 %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for i in l %}{% endif %}
{% if t %}
{% endif %}
{% foo %}
{% do 1 %}
{% set 1 = 2 %}
{% set x.y = 2 %}
{% set true = 2 %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% set d.b = 2 %}
{% break %}
{% for i in l %}{% macro q() %}{% break %}{% endmacro %}{% endfor %}
{% for i in l %}{{ i }}{% else %}{% break %}{% endfor %}
{% for j in [1, 2] %}{% for i in [] %}{% else %}{% break %}{% endfor %}x{% endfor %}
{% for i in l %}{% set x %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endset %}{{ x }}{% endfor %}
{% for i in l %}{% filter upper %}a{% if i == 1 %}{% continue %}{% endif %}b{{ i }}{% endfilter %}{% endfor %}
{% for i in l %}{% with q = i %}{% if q == 1 %}{% break %}{% endif %}{{ q }}{% endwith %}{% endfor %}
{% macro m(a, a) %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}
{% macro m() %}{% endmacro %}{% call m() %}{% endcall %}
{% call s %}{% endcall %}
{{ raise_exception('bad: ' ~ n) }}
{% if t %}{{ raise_exception("it's \"é\"") }}{% endif %}
{% include 'x' %}
{% extends 'x' %}
{% import 'x' as y %}
{{ self.a() }}
{% if z %}{{ 'x' | nofilter }}{% endif %}ok
{{ 'x' | nofilter if z else 'ok' }}
{% if t %}{{ 'x' | nofilter }}{% endif %}
{{ 'x' | nofilter }}
{{ 'x' is notest }}
{% if z %}{{ 'x' is notest }}{% endif %}ok
{% for i in [1] %}{% if z %}{% for j in [1] %}{{ j | nofilter }}{% endfor %}{% endif %}{% endfor %}
{% set x = joiner(', ') %}{{ x() }}a{{ x() }}b{{ x() }}c {% set y = joiner() %}{{ y() }}{{ y() }}
{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}
{{ dict(a=1, b='x') }} {{ dict({'q': 1}, z=2) }} {{ dict([('a', 1), ['b', 2]]) }} {{ dict() }} {{ dict.fromkeys(['a', 'b'], 0) }}
{{ range(3) }} {{ range(1, 5) | list }} {{ range(0, 10, 3) | list }} {{ range(-2) | list }} {{ range(5) | length }} {{ range(3).start }}
{{ range(1000000) }}
{{ range(1, 2, 0) }}
{{ range('a') }}
{{ strftime_now('%Y-%m-%d %H:%M:%S %a %A %b %B %d %j %y %m %I %p %U %W %w %u %V %G %C %e %D %F %T %R %r %c %x %X %h %n %t %% %Z|%z|%f') }}
{{ strftime_now('%-d %-m %-H %_d %e %^b %^A %#p %5Y %03d %-j %-I %l %k %P %g') }}
{{ strftime_now('%d %B %Y') }} {{ strftime_now('') }}|{{ strftime_now('é %') }}
{% set big = dict.fromkeys(range(40), 'v') %}{{ big[39] }}{{ 40 in big }}{{ big | length }}{{ big[3.0] }}{{ big[true] }}{{ big.nope is defined }} {{ range(50) | map('string') | unique | list | length }} {% set many = dict([('k' ~ 1, 1)] + dict.fromkeys('abcdefghijklmnopqrst', 2).items() | list) %}{{ many.k1 }}{{ many.t }}{{ many['zz'] is defined }}{{ many | length }}
{{ (1, 2) | list }} {{ [1] is sameas [1] }} {{ none is sameas none }}
{% set a = [1, 2] %}{% set b = a + [3] %}{{ a }}{{ b }}
{% for x in l %}{{ loop }}{% endfor %}
{% for i in [0, 1] %}{{ loop.index }}{% if loop.first %}{{ loop.nextitem }}{% endif %}{% endfor %}
{% set x = namespace(v=[]) %}{% for m in messages %}{% set x.v = x.v + [m.role] %}{% endfor %}{{ x.v }}
{% for group in people | groupby('age') %}{{ group.grouper }}:{{ group.list | map(attribute='name') | join(',') }};{% endfor %}
{% for age, group in people | groupby('age') %}{{ age }}{{ group | length }}{% endfor %}
{% for row in range(7) | batch(3) %}{{ row }}{% endfor %} {{ range(7) | batch(3, 'x') | list }} {{ range(7) | slice(3) | list }} {{ range(7) | slice(3, 'x') | list }} {{ [] | batch(2) | list }}
"""

FILTERS = r"""
{{ -3 | abs }} {{ -3.5 | abs }} {{ true | abs }}
{{ 'abc' | attr('upper') is callable }} {{ d | attr('b') }}| {{ d | attr('items') is callable }}
{{ 'hello wORLD' | capitalize }} {{ 'ßa' | capitalize }} {{ 'ÉCOLE' | capitalize }} {{ '' | capitalize }}|
{{ 'ab' | center(7) }}| {{ 'abc' | center(6) }}| {{ 'a' | center(4) }}| {{ '' | center(3) }}|
{{ l | length }} {{ s | count }} {{ d | length }} {{ nope | length }} {{ range(4) | count }}
{{ nope | default('x') }} {{ '' | default('x') }}| {{ '' | default('x', true) }} {{ none | d('x') }} {{ none | d('x', boolean=true) }} {{ 0 | default(5, true) }} {{ nope | default }}| {{ nope.x | default('y') if nope else 'z' }}
{{ {'b': 1, 'A': 2, 'c': 0} | dictsort }} {{ {'b': 1, 'A': 2} | dictsort(true) }} {{ {'b': 1, 'A': 2, 'c': 0} | dictsort(by='value') }} {{ {'b': 1, 'a': 2} | dictsort(reverse=true) }} {{ {'x': 'B', 'y': 'a'} | dictsort(false, 'value') }}
{{ '<a href="x">\'&</a>' | escape }} {{ '<b>' | e }} {{ '<b>' | e | e }} {{ '<b>' | escape | forceescape }} {{ 5 | escape }} {{ none | e }} {{ '<' | safe }} {{ ['<b>' | e] }} {{ ['a' | safe] }}
{{ ('<b>' | safe) + '<i>' }} {{ '<i>' + ('<b>' | safe) }} {{ ('<b>' | safe) ~ '<i>' }} {{ ('<%s>' | safe) % '<' }} {{ ('<{}>' | safe).format('<') }} {{ ('a,b' | safe).split(',') }} {{ ('<b>' | e).upper() }} {{ ('-' | safe).join(['<', 'a' | safe]) }} {{ ('ab' | safe) * 2 }} {{ ('abc' | safe)[1:] }} {{ ('a' | safe).replace('a', '<') }} {{ ('x' | safe) is escaped }} {{ 'x' is escaped }} {{ ['a' | safe, 'b'] | join('<') }}
{{ 500 | filesizeformat }} {{ 1 | filesizeformat }} {{ 1000 | filesizeformat }} {{ 1500000 | filesizeformat }} {{ 1024 | filesizeformat(true) }} {{ 1e25 | filesizeformat }} {{ '2048' | filesizeformat(binary=true) }} {{ 0 | filesizeformat }} {{ 999999 | filesizeformat }}
{{ l | first }} {{ l | last }} {{ s | first }} {{ s | last }} {{ d | first }} {{ e | first }}| {{ e | first is defined }} {{ range(3) | last }} {{ d.values() | first }} {{ d.keys() | last }} {{ (l | map('string')) | first }}
{{ '3.5' | float }} {{ 'x' | float }} {{ 'x' | float(1.5) }} {{ 3 | float }} {{ ' 1e3 ' | float }} {{ none | float }} {{ 'inf' | float }} {{ '-Infinity' | float }} {{ 'nan' | float }} {{ '1_000.5' | float }} {{ '.5' | float }} {{ '5.' | float }} {{ [] | float }} {{ '1e400' | float }} {{ '1e-400' | float }}
{{ '%s-%s' | format('a', 1) }} {{ '%(x)s' | format(x=5) }} {{ '%.2f' | format(2.5) }} {{ '%s' | format([1]) }}
{{ people | groupby('city', default='none') | map('first') | list }} {{ people | groupby('age') }} {{ ['b', 'A', 'a'] | groupby(0) | list }}
{{ people | selectattr('city') | groupby('city') | map(attribute='grouper') | list }} {{ people | selectattr('city') | groupby('city', case_sensitive=true) | map('first') | list }}
{{ 'a\nb\n\nc' | indent }}| {{ 'a\nb' | indent(2) }}| {{ 'a\nb' | indent(2, true) }}| {{ 'a\n\nb' | indent(2, blank=true) }}| {{ 'a\nb' | indent('> ') }}| {{ 'a\nb' | indent('> ', true) }}| {{ '' | indent }}| {{ 'a\n' | indent(1) }}| {{ 'a\r\nb\x0bc' | indent(1) }}|
{{ '42' | int }} {{ '4.9' | int }} {{ 'x' | int }} {{ 'x' | int(7) }} {{ '0x1A' | int(0, 16) }} {{ '1A' | int(base=16) }} {{ '101' | int(base=2) }} {{ 3.9 | int }} {{ -3.9 | int }} {{ true | int }} {{ none | int }} {{ ' 12 ' | int }} {{ '1_2' | int }} {{ '0b11' | int(base=0) }} {{ '' | int }} {{ '1e2' | int }} {{ [] | int(-1) }} {{ '-7' | int }} {{ '+7' | int }} {{ '٣' | int }} {{ '010' | int(base=0) }} {{ 'inf' | int }}
{{ [1, 'a', none, 2.0] | join }} {{ l | join(', ') }} {{ people | join('; ', attribute='name') }} {{ people | join(',', 'age') }} {{ 'abc' | join('-') }} {{ e | join('x') }}| {{ nope | join }}| {{ d | join(',') }} {{ l | join(0) }} {{ l | join(none) }} {{ [[1, 2], [3]] | join(' ', attribute=0) }}
{{ d | items | list }} {{ nope | items | list }} {% for k, v in d | items %}{{ k }}{{ loop.index }}{% endfor %}
{{ 'aBc' | lower }} {{ 'ÀÉ İΑΣ ΣΑΣ' | lower }} {{ 5 | lower }} {{ none | lower }} {{ 'aBcß ŉ ǰ' | upper }} {{ 'ﬁ' | upper }} {{ true | upper }}
{{ people | map(attribute='name') | list }} {{ l | map('string') | list }} {{ words | map('upper') | join }} {{ people | map(attribute='city', default='?') | list }} {{ ['a-b', 'c'] | map('replace', '-', '+') | list }} {{ [[1, 2], [3]] | map('sum') | list }} {{ [{'a': {'b': 1}}] | map(attribute='a.b') | list }} {{ [[1, 2]] | map(attribute=1) | list }} {{ ['x'] | map('default', 'y') | list }} {{ nope | map('upper') | list }} {{ [' a '] | map('trim') | list }} {{ [1.5] | map('round') | list }}
{{ [1, 2] | map('nofilter') | list }}
{{ [1, 2] | map | list }}
{{ [1, 2] | map(attribute='a', foo=1) | list }}
{{ [3, 1, 2] | min }} {{ [3, 1, 2] | max }} {{ ['b', 'A'] | min }} {{ ['b', 'A'] | max }} {{ ['b', 'A'] | min(true) }} {{ people | max(attribute='age') }} {{ people | min(attribute='age') | attr('get') is callable }} {{ e | min }}| {{ 'hello' | max }} {{ [1, 2.5, true] | max }}
{{ [3, 'a'] | min }}
{{ [1, 2, 3, 4] | reject('odd') | list }} {{ [0, 1, '', 'a', none] | reject | list }} {{ [1, 2, 3] | select('gt', 1) | list }} {{ [1, 2, 3] | select('in', [1, 3]) | list }} {{ [0, 1, '', 'a', none] | select | list }} {{ ['a', 1] | select('string') | list }} {{ [1, 2, 3] | select('divisibleby', 3) | list }} {{ [1, 2, 3] | select('==', 2) | list }}
{{ people | selectattr('city') | map(attribute='name') | list }} {{ people | selectattr('age', 'gt', 26) | list | length }} {{ people | rejectattr('city') | map(attribute='name') | list }} {{ people | rejectattr('age', 'equalto', 30) | map(attribute='name') | list }} {{ people | selectattr('city', 'defined') | list | length }} {{ people | selectattr('name', 'in', ['ann', 'cy']) | map(attribute='age') | sum }} {{ messages | selectattr('role', 'ne', 'user') | map(attribute='role') | join(',') }} {{ messages | selectattr('content', 'string') | list | length }} {{ messages | selectattr('content', 'none') | list | length }}
{{ [1] | select('notest') | list }}
{{ 'banana' | replace('a', 'o') }} {{ 'banana' | replace('a', 'o', 2) }} {{ 'abc' | replace('', '-') }} {{ 'abc' | replace('', '-', 2) }} {{ 5 | replace(5, 6) }} {{ 'aaa' | replace('aa', 'b') }} {{ 'é' | replace('é', 'e') }} {{ none | replace('N', 'n') }} {{ 'x' | replace('x', 1) }} {{ 'abc' | replace('b', '', 0) }}
{{ 'abc' | reverse }} {{ 'héé🙂' | reverse }} {{ l | reverse | list }} {{ d | reverse | list }} {{ range(3) | reverse | list }} {{ (l | select('odd')) | reverse }} {{ d.items() | reverse | list }}
{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 1234.5678 | round(-2) }} {{ 5 | round }} {{ 15 | round(-1) }} {{ 25 | round(-1) }} {{ 2.1 | round(0, 'ceil') }} {{ 2.9 | round(0, 'floor') }} {{ 2.123 | round(2, 'ceil') }} {{ -2.5 | round }} {{ true | round }} {{ 1e20 | round(2) }} {{ 0.5 | round | int }} {{ 42.55 | round(1, 'floor') }} {{ 7 | round(2, 'ceil') }}
{{ 'x' | round }}
{{ 2 | round(1, 'nope') }}
{{ l | sort }} {{ l | sort(reverse=true) }} {{ words | sort }} {{ words | sort(case_sensitive=true) }} {{ people | sort(attribute='age') | map(attribute='name') | list }} {{ people | sort(attribute='age,name') | map(attribute='name') | list }} {{ people | sort(attribute='age', reverse=true) | map(attribute='name') | list }} {{ 'hello' | sort }} {{ d | sort }} {{ [[2, 'a'], [1, 'b']] | sort(attribute=0) }} {{ [true, 0, 2.5] | sort }} {{ [none, none] | sort }} {{ [(1, 'b'), (1, 'a')] | sort }}
{{ [1, 'a'] | sort }}
{{ people | sort(attribute='city') }}
{{ 5 | string }} {{ none | string }} {{ [1] | string | length }} {{ nope | string }}| {{ 1.0 | string }}
{{ '<p>Hello <b>x</b>  y</p><!-- c -->' | striptags }} {{ '< 3' | striptags }}|
{{ l | sum }} {{ [1.5, 2] | sum }} {{ people | sum('age') }} {{ people | sum(attribute='age') }} {{ [[1], [2]] | sum(start=[]) }} {{ e | sum }} {{ e | sum(start=5) }} {{ [true, true] | sum }} {{ nope | sum }}
{{ ['a'] | sum }}
{{ 'hello world-foo (bar) it\'s mcDonald [x] {y} <z' | title }} {{ 'éa ßb' | title }} {{ '' | title }}|
{{ '  x ' | trim }}| {{ 'xxaxx' | trim('x') }} {{ '\n\ta\u3000' | trim }}| {{ 5 | trim }} {{ 'abcba' | trim('ab') }} {{ none | trim }} {{ 'ééaé' | trim('é') }}
{{ 'foo bar baz qux' | truncate(9) }} {{ 'foo bar baz qux' | truncate(9, true) }} {{ 'foo bar baz qux' | truncate(11) }} {{ 'foo bar baz qux' | truncate(11, false, '...', 0) }} {{ 'short' | truncate }} {{ 'foobarbazqux' | truncate(6, leeway=0) }} {{ 'ééé ééé ééé' | truncate(8, true, '…', 0) }}
{{ 'abc' | truncate(2) }}
{{ [1, 2, 1, 1.0, '1'] | unique | list }} {{ ['a', 'A', 'b'] | unique | list }} {{ ['a', 'A'] | unique(true) | list }} {{ people | unique(attribute='age') | map(attribute='name') | list }} {{ 'hello' | unique | join }}
{{ [[1], [1]] | unique | list }}
{{ 'a b/c?d=é&f' | urlencode }} {{ {'a': 1, 'b c': 'd/e'} | urlencode }} {{ [('x', 'y z'), (1, 2)] | urlencode }} {{ 5 | urlencode }}
{{ 'Hello wörld, 3 words_x' | wordcount }} {{ '' | wordcount }}
{{ 'the quick brown fox jumps' | wordwrap(10) }} {{ 'abcdefghijkl' | wordwrap(5) }} {{ 'abcdefghijkl mn' | wordwrap(5, false) }} {{ 'a b\n\nc d e' | wordwrap(3, wrapstring='|') }} {{ 'aaa   bbb' | wordwrap(4) }}|
{{ {'class': 'a b', 'id': none, 'n': 5, 'q': '"<'} | xmlattr }}| {{ {'a': 1} | xmlattr(false) }} {{ {} | xmlattr }}|
{{ {'b': 1, 'a': [1, 2]} | pprint }} {{ 'x' | pprint }} {{ [] | pprint }} {{ none | pprint }}
{{ s | upper | lower | title | length }} {{ (1, 2) | last }} {{ {'a': 1} | list }} {{ 'abc' | list }} {{ range(3) | list | reverse | list | first }}
{{ l | tojson }} {{ d | tojson }} {{ 'é"\\/\n\x00\x7f\u2028<>&\'' | tojson }} {{ none | tojson }} {{ true | tojson }} {{ 1.0 | tojson }} {{ 1e100 | tojson }} {{ [] | tojson }} {{ {} | tojson }} {{ (1, 2) | tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5} | tojson }}
{{ d | tojson(indent=2) }}|{{ [[], {}, [1]] | tojson(indent=4) }}|{{ d | tojson(indent='\t') }}|{{ [1, [2]] | tojson(indent=0) }}|{{ {'a': 1} | tojson(indent=true) }}
{{ {'b': 1, 'a': 'é🙂'} | tojson(sort_keys=true, ensure_ascii=true) }} {{ [1, 2] | tojson(separators=(',', ':')) }} {{ {'a': [1]} | tojson(indent=1, separators=(', ', ' = ')) }} {{ {'a': 1} | tojson(true, 2) }}
{{ messages | tojson }}
{{ messages[2].tool_calls | tojson(indent=2) }}
{{ nope | tojson }}
{{ range(3) | tojson }}
{{ {(1, 2): 3} | tojson }}
{{ {'a': 1, 2: 3} | tojson(sort_keys=true) }}
{{ ('<' | safe) | tojson }} {{ [nan, inf] | tojson if nan is defined else ('nan' | float) | tojson }} {{ ('-inf' | float) | tojson }}
{{ 'a' | default(1, 2, 3) }}
{{ 'abc' | length(1) }}
{{ 'abc' | replace('a') }}
{{ 5 | length }}
{{ 5 | list }}
{{ 5 | first }}
{{ none | join }}
{{ (l | map('string')) | length }}
{{ (l | map('string')) | last }}
{{ l | map('string') }}
{{ l | random if z else 'x' }}
{{ 'x' | upper(1) }}
{{ none | items | list }}
{{ 5 | indent }}
{{ nope | indent }}
{{ nope | upper }}| {{ nope | trim }}| {{ nope | list }} {{ nope | first }}| {{ nope | last }}| {{ nope | reverse | list }} {{ nope | sort }} {{ nope | unique | list }}
{{ nope | int }}
{{ nope | float }}
{{ nope | round }}
{{ nope | abs }}
{{ nope | dictsort }}
"""

TESTS = r"""
{% for v in [0, 1, -1, 1.5, 2.0, '', 'a', 'A', true, false, none, [], [1], (), (1,), {}, {'a': 1}, range(2)] %}{{ v is defined }}{{ v is undefined }}{{ v is none }}{{ v is boolean }}{{ v is true }}{{ v is false }}{{ v is integer }}{{ v is float }}{{ v is number }}{{ v is string }}{{ v is mapping }}{{ v is sequence }}{{ v is iterable }}{{ v is callable }}{{ v is lower }}{{ v is upper }} {% endfor %}
{% for v in [0, 1, 2, -1, -2, 3.0, 4.5, true] %}{{ v is odd }}{{ v is even }}{{ v is divisibleby 2 }}{{ v is divisibleby(3) }} {% endfor %}
{{ 1 is eq 1.0 }} {{ 1 is equalto true }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 1 is le 1 }} {{ 1 is gt 2 }} {{ 1 is ge 1 }} {{ 1 is lessthan 2 }} {{ 1 is greaterthan 0 }} {{ 'a' is in 'abc' }} {{ 1 is in [1] }} {{ 1 is in(2, ) if z else 1 is not in [2] }}
{{ nope is defined }} {{ nope is undefined }} {{ nope is none }} {{ nope is string }} {{ nope is iterable }} {{ nope is sequence }} {{ nope is mapping }} {{ nope is callable }} {{ nope is boolean }} {{ d.x is defined }} {{ nope is number }}
{{ range is callable }} {{ namespace is callable }} {{ namespace() is mapping }} {{ namespace() is iterable }} {{ d.items() is iterable }} {{ d.items() is sequence }} {{ d.keys() is mapping }} {{ (l | map('string')) is iterable }} {{ (l | map('string')) is sequence }} {{ 'upper' is filter }} {{ 'nope' is filter }} {{ 'odd' is test }} {{ 'nope' is test }} {{ 5 is filter }}
{{ 'abc' is lower }} {{ 'aBc' is lower }} {{ 'ABC1' is upper }} {{ '123' is upper }} {{ 'É' is upper }} {{ 'é' is lower }} {{ none is lower }} {{ none is upper }} {{ 'ª' is lower }}
{{ l is sameas l }} {{ 1 is sameas 1 }} {{ 1 is sameas true }} {{ none is sameas none }} {{ true is sameas true }} {{ l is sameas [3, 1, 2] }}
{{ 'a' is odd }}
{{ none is odd }}
{{ 1 is divisibleby 0 }}
{{ nope is odd }}
{{ 1 is lt 'a' }}
{{ 1 is in 5 }}
{{ 1 is defined is true }}
{{ 5 is string is false }}
{{ x is defined and x or 'no' }} {{ not x is defined }} {{ x is not defined or t }} {{ (x is defined) ~ 'a' }} {{ 5 is odd + 1 if z else 'q' }}
{{ 'a' is string and 'b' is string }} {{ 3 is odd == true }} {{ 1 is not none and 2 is not none }}
{{ 'a' is eq 'a' 'b' }} {{ [1] is eq [1] }} {{ {'a': 1} is eq {'a': 1} }} {{ 5 is eq n - 2 }}
"""

METHODS = r"""
{{ ' a '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|{{ 'aXb'.lower() }}{{ 'aXb'.upper() }}{{ 'aXb'.swapcase() }} {{ 'a'.strip(none) }} {{ '\n a\u00a0'.strip() }}| {{ 'abca'.strip('ac') }} {{ 'éaé'.lstrip('é') }} {{ ''.strip() }}|
{{ 'a,b,,c'.split(',') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }} {{ 'a b c'.split(none, 1) }} {{ 'a b  c '.split(maxsplit=1) }} {{ ''.split() }} {{ ''.split(',') }} {{ 'abc'.split('abc') }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a b c '.rsplit(none, 1) }} {{ 'a--b--c'.rsplit('--') }} {{ '日 本'.split() }} {{ 'a\u3000b\x1cc'.split() }} {{ 'x</think>y</think>z'.split('</think>')[-1] }} {{ 'a,b'.split(',', 0) }} {{ 'aXXXb'.rsplit('XX', 1) }} {{ 'aXXXb'.split('XX', 1) }}
{{ 'a'.split('') }}
{{ 'a'.split(1) }}
{{ 'a\nb\r\nc\rd\x0be\u2028f'.splitlines() }} {{ 'a\nb\n'.splitlines(true) }} {{ ''.splitlines() }} {{ '\n'.splitlines() }} {{ 'a\n\nb'.splitlines(keepends=false) }}
{{ 'abc'.startswith('ab') }} {{ 'abc'.startswith(('x', 'a')) }} {{ 'abc'.endswith('bc') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.startswith('b', 1) }} {{ 'abc'.endswith('b', 0, 2) }} {{ 'abc'.startswith('') }} {{ 'é'.startswith('é') }} {{ 'abc'.startswith('', 5) }} {{ 'abc'.startswith(()) }} {{ 'abc'.startswith('bc', -2) }}
{{ 'abc'.startswith(['a']) }}
{{ 'abc'.startswith(1) }}
{{ 'banana'.replace('a', 'o') }} {{ 'banana'.replace('a', 'o', 1) }} {{ 'abc'.replace('', '.') }} {{ 'banana'.find('an') }} {{ 'banana'.find('x') }} {{ 'banana'.rfind('an') }} {{ 'banana'.find('an', 2) }} {{ 'banana'.find('a', -3, -1) }} {{ 'banana'.index('n') }} {{ 'banana'.rindex('n') }} {{ 'banana'.count('a') }} {{ 'banana'.count('') }} {{ 'aaaa'.count('aa') }} {{ 'éaéb'.find('b') }} {{ 'éaéb'.rfind('é') }} {{ 'abc'.find('', 3) }} {{ 'abc'.find('', 4) }} {{ 'banana'.count('a', 2, 4) }} {{ 'abc'.find('') }}{{ 'abc'.rfind('') }}
{{ 'banana'.index('x') }}
{{ 'a'.replace('a', 1) }}
{{ 'hello world'.title() }} {{ "they're bill's".title() }} {{ 'hELLO'.capitalize() }} {{ 'ǆ'.title() }} {{ 'ßx'.title() }} {{ '3a b4c'.title() }} {{ 'ﬁ x'.title() }}
{{ ','.join(['a', 'b']) }} {{ ''.join('abc') }} {{ '-'.join(d) }} {{ ', '.join(words | map('upper')) }} {{ 'x'.join([]) }}| {{ 'x'.join(['a']) }}
{{ ','.join([1, 2]) }}
{{ ','.join(5) }}
{{ '{} {}'.format(1, 'a') }} {{ '{1}{0}'.format('a', 'b') }} {{ '{x}-{y}'.format(x=1, y=2) }} {{ '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd') }} {{ '{:05d} {:+d} {:x} {:b} {:,} {:_}'.format(42, 7, 255, 5, 1234567, 1234567) }} {{ '{:.2f} {:8.3f} {:e} {:g} {:%}'.format(3.14159, 2.5, 1234.5, 0.0001, 0.25) }} {{ '{!r} {!s}'.format('a', 'b') }} {{ '{{}}'.format() }} {{ '{0[a]} {0.a}'.format({'a': 1}) }} {{ '{:{w}}|'.format('a', w=4) }} {{ '{}'.format(none) }} {{ '{:>4}'.format(true) }} {{ '{:d}'.format(true) }} {{ '{}'.format(1.0) }} {{ '{:.3}'.format('abcdef') }} {{ '{:s}'.format('x') }} {{ '{0!r:>5}'.format('a') }}
{{ '{:08,}'.format(1234) }} {{ '{:06.2f}'.format(3.14159) }} {{ '{:#x} {:#b} {:#o} {:X}'.format(255, 5, 8, 255) }} {{ '{:,.2f}'.format(1234567.891) }} {{ '{: d}{: d}'.format(5, -5) }} {{ '{:=+6d}'.format(42) }} {{ '{:c}'.format(65) }} {{ '{:.3}'.format(1234.5678) }} {{ '{:.10}'.format(1234.5678) }} {{ '{:G}'.format(1e-10) }} {{ '{:n}'.format(5) }} {{ '{:5}|'.format(1.5) }} {{ '{:<5}|'.format(1.5) }} {{ '{:é>4}'.format('a') }} {{ '{:.0f}'.format(2.5) }} {{ '{:10.3e}|'.format(12345.678) }} {{ '{:.1%}'.format(0.12345) }} {{ '{:_x}'.format(123456789) }} {{ '{:.3}'.format(123.0) }} {{ '{:.1}'.format(5.0) }} {{ '{:010}'.format(-5) }} {{ '{:f}'.format(5) }} {{ '{:,}'.format(999) }} {{ '{:05}'.format('a') }}
{{ '{} {0}'.format(1) }}
{{ '{2}'.format(1) }}
{{ '{x}'.format(1) }}
{{ '{'.format(1) }}
{{ '}'.format(1) }}
{{ '{:d}'.format('a') }}
{{ '{:d}'.format(1.5) }}
{{ '{:s}'.format(1) }}
{{ '{:>5}'.format([1]) }}
{{ '{.__class__}'.format('a') }}|
{{ '{a}'.format_map({'a': 5}) }}
{{ 'abc'.isalpha() }} {{ 'ab1'.isalpha() }} {{ '12'.isdigit() }} {{ '²'.isdigit() }} {{ '²'.isdecimal() }} {{ '½'.isnumeric() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ ''.isspace() }} {{ 'ab'.islower() }} {{ 'AB'.isupper() }} {{ 'Ab Cd'.istitle() }} {{ 'a_1'.isidentifier() }} {{ '1a'.isidentifier() }} {{ 'a\n'.isprintable() }} {{ 'é'.isascii() }} {{ 'é'.isalpha() }} {{ '٣'.isdigit() }} {{ '一'.isnumeric() }} {{ ''.isprintable() }} {{ ''.isalpha() }} {{ '日本'.isalpha() }}
{{ '5'.zfill(3) }} {{ '-5'.zfill(4) }} {{ '+5'.zfill(4) }} {{ 'abc'.zfill(2) }} {{ 'a'.center(4) }}| {{ 'ab'.center(5, '*') }} {{ 'a'.ljust(3) }}| {{ 'a'.rjust(3, '.') }} {{ 'é'.rjust(3) }}| {{ ''.zfill(2) }} {{ 'a\tb'.expandtabs() }} {{ 'a\tb'.expandtabs(4) }} {{ 'ab'.partition('b') }} {{ 'a.b.c'.partition('.') }} {{ 'a.b.c'.rpartition('.') }} {{ 'abc'.partition('x') }} {{ 'abc'.rpartition('x') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }} {{ 'abc'.removeprefix('x') }} {{ 'ABC'.casefold() }}
{{ d.keys() }} {{ d.values() }} {{ d.items() }} {{ d.keys() | list }} {{ d.get('b') }} {{ d.get('q') }} {{ d.get('q', 5) }} {{ d.copy() }} {{ d.items() | list }} {{ d.items() | length }} {{ 'b' in d.keys() }} {{ 1 in d.values() }} {{ ('b', 1) in d.items() }} {{ d.keys() == d.keys() }}
{{ d.get() }}
{{ d.get([1]) }}
{{ l.index(1) }} {{ l.count(1) }} {{ l.copy() }} {{ (1, 2, 1).count(1) }} {{ (1, 2).index(2) }} {{ range(5).index(3) }} {{ l.index(2, 1) }}
{{ l.index(9) }}
{{ n.bit_length() }} {{ n.real }} {{ f.is_integer() }} {{ 2.0.is_integer() }} {{ n.numerator }}
{{ s.nope() }}
{{ l.nope }}|{{ n.nope }}|{{ s.nope is defined }}
{{ messages[0].content.split(' ')[0].upper() }} {{ (messages | first).role }} {{ messages[1:] | length }} {{ messages[-1]['content'][:5] }} {{ messages | map(attribute='role') | join('|') }}
{{ s.upper().lower().title().replace('H', 'J')[0:4] }} {{ s.split(', ')[1][::-1] }} {{ s['upper']() }} {{ s.upper is callable }}
{{ s.upper(1) }}
{{ 'abc'.center() }}
{{ 'a'.join }}
{{ [1, 2].index }}
{{ foo(*l) if z else range(*[1, 4]) | list }} {{ dict(**{'a': 1}) }} {{ '{}{}{}'.format(*l) }} {{ '{a}'.format(**{'a': 2}) }} {{ '{} {x}'.format(*[1], **{'x': 3}) }} {{ range(*(1, 3)) | list }}
{{ dict(**5) }}
{{ range(*5) }}
{{ f(1, 2=3) }}
{{ range(1, x=2) }}
{{ dict(a=1, a=2) }}
{{ s.strip }}
"""

GROUPS = {"whitespace": WHITESPACE, "literals": LITERALS, "expressions": EXPRESSIONS, "statements": STATEMENTS,
          "filters": FILTERS, "tests": TESTS, "methods": METHODS}


def snippets():
    """(name, template) pairs, one a line; a line that ends in a single backslash goes on in the next. In the group of
    white space, \\n and the like stand for the characters themselves."""
    for group, text in GROUPS.items():
        merged = []
        for line in text.strip("\n").split("\n"):
            if merged and merged[-1].endswith("\\"):
                merged[-1] += "\n" + line
            else:
                merged.append(line)
        for i, line in enumerate(merged):
            if group == "whitespace":
                line = line.encode("ascii").decode("unicode-escape")
            yield f"{group}/{i:03}", line
