#!/usr/bin/env python3
"""Renders small templates with transformers: tests/golden/jinja/expected.json.

Needs transformers and jinja2 (any recent versions). Each template uses one construct of Jinja; the variables are the same
for all. A template that transformers refuses has no text: Tidepool must refuse it too.
"""
import json
import pathlib
import sys
from unittest import mock

from transformers.utils import chat_template_utils

variables = {
    "messages": [{"role": "system", "content": "Be brief.  "}, {"role": "user", "content": "Größe 東京 😀", "n": 2},
                 {"role": "assistant", "content": "<think>a</think>\n\nIt's \"so\".", "n": 1}, {"role": "user", "content": "b-b c", "n": 10}],
    "tools": [{"type": "function", "function": {"name": "tide", "parameters": {"type": "object", "properties": {
        "place": {"type": "string"}, "n": {"type": ["integer", "null"], "default": 1.0}}, "required": ["place"]}}}],
    "d": {"b": 1, "A": [1, {"c": None}], "é": "\u00a0\u200b", "n": 1e16, "small": 1e-5},
    "t": "one two  Three-four\tfive\n", "words": ["b", "A", "c", "a", "B"], "ints": [3, 1, 2, 3], "empty": [], "none": None, "yes": True,
    "f": 1234567.891, "i": -42, "big": 12345678901234567890,
}

printed = r"""
d | {'a': "it's", 'b': '"', 'c': "'\""} | ['\x7f\u00ad\u3000é\\\n'] | (1,) | () | [none, true, 1.0, -0.0, 1e22, 1.5e300] | d.n | d.small | big | [x]
1e5 | 1.5e-7 | 1E3 | 2.5e+2 | 1_000 | 0x1F | 0o17 | 0b101 | 1_0.5_0 | 12.0e0 | 00 | 1e400
2 ** 3 | 2 ** -1 | -2 ** 2 | 2 ** 3 ** 2 | 2.0 ** 0.5 | 0 ** 0 | 1 ** 99999 | (-1) ** 3 | 7 // 2 | -7 // 2 | -7 % 3 | 7.5 % 2 | 1 / 2 | 4 / 2 | 2 * 3.0 | 'a' * 3 | [0] * 2 | 10 ** 18 | 0 ** -1 | 1 / 0
'%s and %r' % ('a', 'b') | '%d%%' % 5 | '%5.2f|%-6s|%06d|%+d|% d' % (3.14159, 'ab', 42, 7, 8) | '%x %X %o %#x' % (255, 255, 8, 255) | '%(a)s-%(b)03d' % {'a': 1, 'b': 2} | '%s' % d | '%s' % [1, 2] | '%c%c' % ('x', 65) | '%e %g %G' % (12345.678, 1e-7, 1e20) | '%.3s|' % 'abcdef' | '%*d' % (5, 3) | '%s' % none | '%d' % 3.9 | '%s %s' % 'a' | '%d' % 'a' | '%a' % 'é' | '%5s|%-5s|' % ('é', 'é') | '%i' % true | '%.2f' % 2.675
'%s-%s' | format(1, 'b') | '%(x)s' | format(x=2) | '%.1f%%' | format(12.34)
'{} {}'.format(1, 'a') | '{0}{1}{0}'.format('a', 'b') | '{x:>5}|{y:<4}|{z:^5}|'.format(x=1, y='ab', z='c') | '{:.2f} {:e} {:g} {:%}'.format(3.14159, 1234.5, 0.00001, 0.25) | '{:,} {:_} {:,.2f}'.format(1234567, 1234567, 1234567.891) | '{:05d} {:+d} {:x} {:#x} {:b} {:o}'.format(42, 42, 255, 255, 5, 8) | '{!r} {!s}'.format('a', 'b') | '{{}} {}'.format(1) | '{0[a]} {0[b][1]}'.format({'a': 1, 'b': [2, 3]}) | '{:*^9}'.format('mid') | '{:{w}}|'.format('a', w=4) | '{}'.format() | '{:d}'.format('a') | '{:5}|{:<5}|'.format(3, 3) | '{:.3}'.format('abcdef') | '{:5}|'.format(true) | '{:.3}'.format(1234.5) | '{:}'.format(1.0) | '{:10.3}|'.format(3.0) | '{:.0f}'.format(2.5) | '{:n}'.format(12) | '{}'.format(none) | '{:>8}'.format(1.5)
d | tojson | d | tojson(indent=2) | d | tojson(separators=(',', ':')) | d | tojson(indent=1, separators=(', ', ' : ')) | d | tojson(sort_keys=true, ensure_ascii=true) | d | tojson(indent='-') | d | tojson(indent=0) | [] | tojson(indent=2) | 'a<b>&"\u2028' | tojson | big | tojson | (1, 2) | tojson | 1e16 | tojson | x | tojson | words | map('upper') | tojson
d | dictsort | d | dictsort(true) | {'a': 2, 'b': 1} | dictsort(by='value') | {'a': 2, 'b': 1} | dictsort(false, 'value', true) | d | dictsort(reverse=true) | d | dictsort(by='x')
ints | sum | messages | sum(attribute='n') | messages[1:] | sum(attribute='n', start=1.5) | empty | sum | words | sum | [[1], [2]] | sum(start=[])
ints | min | ints | max | words | min | words | max | words | min(case_sensitive=true) | words | max(case_sensitive=true) | (messages[1:] | max(attribute='n')).content | (messages[1:] | min(attribute='n')).role | empty | min | [1, 'a'] | max
ints | sort | words | sort | words | sort(case_sensitive=true) | words | sort(reverse=true) | messages[1:] | sort(attribute='role,n') | map(attribute='n') | list | [1, 'a'] | sort | [[2, 1], [1, 9]] | sort | [none, 1] | sort
ints | unique | list | words | unique | list | [1, 1.0, true, '1'] | unique | list | messages | unique(attribute='role') | map(attribute='content') | list | [[1], [1]] | unique | list
f | round | f | round(2) | f | round(-3) | 2.5 | round | 3.5 | round | -2.5 | round | 42 | round | 45 | round(-1) | 42.55 | round(1, 'floor') | 42.51 | round(1, 'ceil') | i | round(0, 'ceil') | 0.15 | round(1) | 2.675 | round(2) | 'a' | round | 1.25 | round(method='floor')
'42' | int | ' 4_2 ' | int | '0x1f' | int(base=16) | '1f' | int(0, 16) | '1.9' | int | 'x' | int(7) | 3.99 | int | true | int | none | int | '1e3' | int | 'inf' | int | '+5' | int | '-5' | int | '--5' | int | '' | int
'1.5' | float | '1e3' | float | 'inf' | float | 'x' | float(2.0) | '1_0.5' | float | 3 | float | none | float | '+1.5' | float
i | abs | -1.5 | abs | true | abs | 'a' | abs
'abc' | center(9) | ('ab' | center(5)) ~ '|' | 'abc' | center
words | batch(2) | list | words | batch(2, '-') | map('join', '') | list | words | slice(2) | list | words | slice(3, 'x') | list | empty | batch(2) | list
messages | groupby('role') | map('first') | list | (messages | groupby('role') | first).grouper | (messages | groupby('role') | first).list | length | messages | groupby('n', default=0) | map(attribute='grouper') | list | words | groupby(0) | list | messages | groupby('x') | list
t | truncate(9) | t | truncate(9, true) | t | truncate(9, false, '…', 0) | t | truncate(11, leeway=0) | t | truncate | t | truncate(2) | 'foo bar baz qux' | truncate(11)
t | wordcount | 'a_b c-d é1' | wordcount | '' | wordcount
t | title | t | capitalize | t | upper | t | trim | t | trim('one \n') | 'ß straße' | upper | 'a\u00a0b c' | title
t | indent | 'a\nb\n\nc' | indent(2) | 'a\nb' | indent('> ', true) | 'a\n\nb' | indent(1, blank=true) | 'a\r\nb' | indent | '' | indent(first=true)
'a.b.c' | replace('.', '-') | 'aaa' | replace('a', 'b', 2) | 'ab' | replace('', '-') | 5 | replace('5', 'x') | 'a1' | replace(1, 2)
words | join | words | join(', ') | ints | join('-') | messages | join('|', attribute='role') | messages | join(attribute='content') | words | join(1) | 'abc' | join('.')
words | first | words | last | empty | first | 'abc' | first | d | first | d | last | 'abc' | last | ints | map('string') | first
words | length | t | length | d | count | x | length | 5 | length | words | map('upper') | length | (messages | selectattr('n') | list | length)
words | reverse | list | 'abc' | reverse | words | map('upper') | reverse | list | d | reverse | list | words | reverse | length
words | map('upper') | list | messages | map(attribute='n', default=0) | list | messages | map(attribute='content.0') | list | ints | map('string') | join | words | map('replace', 'a', 'z') | list | d | map('upper') | list | words | map('nosuch') | list | messages | map(attribute='role') | map('length') | list
words | select('in', ['a', 'b']) | list | ints | select('odd') | list | ints | reject('gt', 1) | list | messages | selectattr('role', '==', 'user') | map(attribute='n') | list | messages | rejectattr('n', 'defined') | list | length | [0, 1, '', 'a', none] | select | list | messages | selectattr('n', 'gt', 1) | list | length | ints | select('divisibleby', 3) | list | words | select('nosuch') | list
'yes' if messages | selectattr('role', 'equalto', 'nobody') else 'no' | 'yes' if (messages | selectattr('role', 'equalto', 'nobody') | list) else 'no' | 'yes' if empty | map('upper') else 'no' | 'yes' if d.items() else 'no' | 'yes' if {}.items() else 'no'
d.keys() | list | d.values() | list | length | d.items() | list | d | items | list | length | d.get('b') | d.get('x') | d.get('x', 7) | d.get('b', 7) | d.keys() | d.items() | first | {}.values() | d.copy().b | d.pop('b') | words.append('x') | d.update({}) | d['b'] | d.b | d['x'] | d.x.y
t.split() | t.split(' ') | t.split('o', 1) | t.rsplit('o', 1) | t.rsplit(none, 1) | t.splitlines() | 'a\nb\n'.splitlines(true) | 'aXXbXXc'.rsplit('XX') | 'aaaa'.rsplit('aa', 1) | 'aaa'.split('aa') | ''.split() | ''.split(',') | 'a,b'.split(',')[1] | 'a'.split('')
t.find('o') | t.rfind('o') | t.index('t') | t.rindex('e') | t.index('zz') | t.count('e') | 'aaaa'.count('aa') | 'abc'.count('') | 'aXbX'.find('X', 2) | 'aXbX'.rfind('X', 0, 3) | 'é東é'.find('é', 1) | 'aXbX'.count('X', 2) | 'abc'.find('') | 'abc'.find('', 9) | 'abc'.count('', 9) | 'abc'.startswith('', 9) | 'abc'.index('', 9)
'abc'.startswith('ab') | 'abc'.startswith(('x', 'a')) | 'abc'.endswith('bc', 1) | 'abc'.startswith('b', 1) | 'abc'.endswith(('c',)) | 'abc'.startswith(['a'])
'k=v=w'.partition('=') | 'k=v=w'.rpartition('=') | 'kv'.partition('=') | 'kv'.rpartition('=')
'ab'.center(5) ~ '|' | 'ab'.center(6, '*') | 'abc'.center(6, '*') | 'abc'.center(8, '.') | 'ab'.ljust(4, '.') | 'ab'.rjust(4, '.') | '-5'.zfill(4) | '5'.zfill(3) | 'é'.rjust(3)
'Ab'.swapcase() | 'aB c'.title() | "it's a-b".title() | 'éa'.capitalize() | 'ÀB'.lower() | 'ab'.upper() | ' a '.strip() ~ '|' | 'xxaxx'.strip('x') | 'éaé'.strip('é') | 'abab'.lstrip('ab') ~ '|' | 'pre-x'.removeprefix('pre-') | 'x.py'.removesuffix('.py')
'12'.isdigit() | '²'.isdigit() | '²'.isdecimal() | 'é'.isalpha() | 'a1'.isalnum() | 'a b'.isalpha() | ''.isalpha() | 'AB'.isupper() | 'ab1'.islower() | '1'.islower() | 'é'.isascii() | ''.isascii() | 'a\u00a0'.isprintable() | ' \t'.isspace() | '東'.isalpha()
','.join(words) | ''.join('abc') | '-'.join(d) | ','.join(ints)
words.index('c') | ints.count(3) | words.index('zz') | (1, 2, 1).count(1)
1 is sameas 1.0 | true is sameas true | none is sameas none | yes is sameas true | words is sameas words | 1 is sameas true | x is sameas none
raise_exception is callable | 5 is callable | 'upper' is filter | 'nosuch' is filter | 'odd' is test | 'nosuch' is test | 'a' is escaped | ('a' | e) is escaped
d is mapping | words is sequence | t is sequence | d is sequence | d.items() is sequence | words | map('upper') is sequence | words is iterable | 5 is iterable | x is iterable | x is sequence | none is none | d is iterable | (1,) is sequence
3 is odd | 4 is even | 3.0 is odd | 4 is divisibleby 2 | 'a' is odd | true is odd
true is number | true is integer | 1 is integer | 1.0 is float | 1.0 is integer | true is boolean | 1 is true | false is false | big is integer | 'A' is upper | 'a' is lower | '' is lower
x is defined | d.x is defined | x.y is defined | d.x is undefined | messages[9] is defined | messages[0].content is defined and messages[0].content is not none
1 is eq 1 | 1 is ne 2 | 1 is lt 2 | 2 is ge 2 | 'a' is in ['a'] | 1 is not in [2] | 1 is == 1 | 5 is greaterthan 4
'a' in 'cab' | 'b' in d | 1 in ints | 'x' not in words | 1 in 5 | x in words | 'a' in x | 2 in (ints | map('abs')) | [1] in [[1]]
1 < 2 < 3 | 1 < 3 < 2 | 'a' < 'b' | [1, 2] < [1, 3] | (1, 'a') < (1, 'b') | 1 < 'a' | [] < [0] | 1 == 1.0 | 1 == true | '1' == 1 | [1] == (1,) | none == none | x == y | d == d
'<a>' | e | '<a href="x">\'&' | escape | ('<' | safe) + '<' | '<' + ('>' | safe) | ('<' | safe) ~ '<' | ('<' | e) | e | ('<' | e) | forceescape | ('a' | safe) * 2 + '<' | [('a' | safe)] | (d.b | string | safe) + '' | ('<b>' | safe | upper) + '<' | (' <' | safe).strip() + '<'
words[1:] | words[::-1] | words[-2:] | words[:-1] | words[10:] | t[:3] | t[::-1] | t[-5:-1] | messages[1:][0].n | words[::2] | words[1] | words[-1] | words[9] | t[0] | 'é東'[1] | d.items()[0] | (words | map('upper'))[0] | words[1:3:0]
range(3) | list | range(1, 7, 2) | list | range(3, 0, -1) | list | range(0) | list | range(5)[1] | range(3) | sum
dict(a=1, b=2) | dict({'x': 1}, y=2) | dict([('a', 1)]) | namespace(a=1).a | namespace({'a': 1}).a | dict(**{'q': 1})
strftime_now('%Y-%m-%d') | strftime_now('%d %b %Y, %H:%M:%S') | strftime_now('%A %j') | strftime_now('') | strftime_now('%f|%z|%Z|%%') | strftime_now('%-d.%-m.')
1 if true else 2 | 1 if false | (1 if false) is defined | 'a' if x else 'b' if none else 'c' | not true and false | not (true and false) | true or raise_exception('no') | none or 'x' | 0 and 1 | '' or [] or 'z'
1 ~ 2 | 'a' ~ none ~ true ~ 1.0 ~ x | 'a' 'b' | "a\tb\x41\101\u00e9\0|" | '\q' | 'a' + 'b' * 2 | 'a' + 1 | [1] + (2,) | d + d | -'a' | +3 | - -3 | 1 if 1 else
d.A[1].c is none | d['A'][0] | tools[0].function.parameters.properties.n.type | tools[0]['function'].name | messages.0.role | d | attr('b') is defined | messages | map(attribute='role') | join('/')
x.y | x[0] | x + 1 | x | upper ~ '|' | x | default('z') | none | default('z') | none | default('z', true) | '' | d('q', boolean=true) | d.x | default(d.b)
""".strip("\n").split("\n")
blocks = [
    "{% raw %}{{ a }} {% if %}{# c #}{% endraw %}|", "a\n  {% raw %}\n  {{ b }}\n  {% endraw %}\nc", "a {%- raw -%}  b  {%- endraw -%}  c",
    "{% raw -%}\n x {% endraw %}\ny", "a\n{%+ raw %} b {% endraw +%}\nc", "{% raw %}x", "{%raw%}{%{%endraw%}",
    "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}", "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}", "{% with a = [1] %}{% for x in a %}{{ x }}{% endfor %}{% endwith %}",
    "{% macro m(a) %}<{{ a }}:{{ caller() }}>{% endmacro %}{% call m('x') %}body{{ t | length }}{% endcall %}",
    "{% macro m() %}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b=7, c=9) m() %}{{ a }}{{ b }}{{ c }}{% endcall %}",
    "{% macro m() %}{{ caller() if caller else 'none' }}{% endmacro %}{{ m() }}{% call m() %}x{% endcall %}",
    "{% macro m() %}x{% endmacro %}{% call m() %}y{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}",
    "{% macro m(a, b='d') %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, 3, 4, z=5) }}{{ m(1) }}{{ m(*[1, 2, 3], **{'q': 1}) }}",
    "{% macro m(a, b='d') %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'b': 1, 'a': 2}) }}{{ m() }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}", "{% macro m(a) %}{% endmacro %}{{ m(b=2) }}", "{{ dict(**d).b }} {{ '{} {}'.format(*words[:2]) }} {{ range(*[1, 3]) | list }}",
    "{% macro a(f) %}{{ f('x') }}{% endmacro %}{% macro b(v) %}[{{ v }}]{% endmacro %}{{ a(b) }}", "{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(3) }}",
    "{% filter upper %}a{{ t }}{% endfilter %}", "{% filter trim | replace('a', 'b') %}  aXa  {% endfilter %}|", "{% filter indent(2) %}a\nb\n{% endfilter %}",
    "{% set x | upper | trim %} a {% endset %}[{{ x }}]", "{% set ns = namespace(a=1) %}{% set ns.a %}b{% endset %}{{ ns.a }}", "{% set x %}a{% endset %}{{ x ~ '<' }}",
    "{% for x in [1, [2, [3]]] recursive %}{{ loop.depth }}{% if x is number %}n{{ x }}{% else %}({{ loop(x) }}){% endif %}{% endfor %}",
    "{% for k, v in d.items() recursive %}{{ k }}{% if v is mapping %}{{ loop(v.items()) }}{% endif %}{% endfor %}",
    "{% for m in messages %}{% if loop.changed(m.role) %}[{{ m.role }}]{% endif %}{% endfor %}", "{% for i in [1, 1, 2, 1] %}{{ loop.changed(i) }},{% endfor %}",
    "{% set g = words | map('upper') %}{% for x in g %}{{ x }}{% endfor %}-{% for x in g %}{{ x }}{% endfor %}|{{ g | list }}", "{% set g = words | map('upper') %}{{ g | first }}{{ g | join }}",
    "{% for x in words | reverse %}{{ x }}{{ loop.length }}{{ loop.last }}{% endfor %}", "{{ words | map('upper') | list | last }}", "{{ words | map('upper') | last }}",
    "{% for x in words if x != 'c' %}{{ loop.index }}{{ x }}{% else %}e{% endfor %}", "{% for x in empty %}{% else %}nothing{% endfor %}", "{% for a, b in d | dictsort %}{{ a }}={{ b }};{% endfor %}",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a }}{{ b }}{% endfor %}", "{% for x in words %}{% if loop.first %}{% continue %}{% endif %}{{ x }}{% if x == 'c' %}{% break %}{% endif %}{% endfor %}",
    "{% for x in words %}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.revindex }}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in 'aé' %}{{ x }},{% endfor %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set (a, b) = (1, 2) %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set a = b = 1 %}", "{% set d.b = 2 %}", "{% set 变 = 1 %}{{ 变 }}", "{% set été = 2 %}{{ été + 1 }}",
    "{% if x %}{% elif yes %}y{% else %}n{% endif %}", "a\n{% if true %}\nb\n{% endif %}\nc\n\n", "a\n  {%- if true +%}\n b {%- endif %}\n", "{{ 'a' }}\n{{ 'b' }}\n", "{#- x -#}\n a", "{{- 'a' -}}  b", "  {{ 'a' }}  ", "{% if true -%}\n  a\n{%- endif -%}\n  b",
    "{% do 1 %}", "{% include 'x' %}", "{% generation %}a{% endgeneration %}", "{{ 1 | nosuch }}", "{{ 1 is nosuch }}", "{{ a.b.c }}", "{{", "{% if %}", "{{ 'a }}", "{{ [1, }}", "{{ {'a': 1}['a'] }}{{ {} }}{{ {'a': {'b': []}} }}",
    "{%- macro render(v, depth=0) -%}{%- if v is mapping -%}{ {%- for k, w in v | dictsort %}{{ k }}:{{ render(w, depth + 1) }}{{ ', ' if not loop.last }}{%- endfor -%} }{%- elif v is string -%}\"{{ v }}\"{%- else -%}{{ v | tojson }}{%- endif -%}{%- endmacro -%}{{ render(tools[0]) }}",
]


def split_cases(line):
    """Cuts a line at each `|` that is not followed by a filter's name or a test of the case before."""
    filters = {"tojson", "dictsort", "sum", "min", "max", "sort", "unique", "round", "int", "float", "abs", "center", "batch", "slice", "groupby",
               "truncate", "wordcount", "title", "capitalize", "upper", "trim", "indent", "replace", "join", "first", "last", "length", "count",
               "reverse", "map", "select", "selectattr", "reject", "rejectattr", "list", "items", "string", "e", "escape", "safe", "forceescape",
               "default", "format", "attr"}
    out = []
    for part in line.split(" | "):
        name = part.split("(")[0].split(" ")[0].split(")")[0]
        if out and (name in filters or (name == "d" and part.startswith("d('q'"))) or out and out[-1].count("(") > out[-1].count(")"):
            out[-1] += " | " + part
        else:
            out.append(part)
    return out


templates = ["{{ " + case + " }}" for line in printed for case in split_cases(line)] + blocks
cases = []
for template in templates:
    case = {"template": template}
    try:
        with mock.patch.object(chat_template_utils, "datetime") as clock:
            clock.now.return_value.strftime = lambda form: __import__("datetime").datetime(2025, 1, 1).strftime(form)
            case["text"] = chat_template_utils._compile_jinja_template(template).render(**variables)
    except Exception as error:  # refused by Jinja, the sandbox or Python
        case["error"] = type(error).__name__
    if "object at 0x" not in case.get("text", ""):
        cases.append(case)

file = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden/jinja/expected.json")
file.parent.mkdir(parents=True, exist_ok=True)
lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
file.write_text(f'{{"variables": {json.dumps(variables, ensure_ascii=False)},\n"cases": [\n{lines}\n]}}\n')
print(f"{len(cases)} cases, {sum('error' in c for c in cases)} of them refused")
