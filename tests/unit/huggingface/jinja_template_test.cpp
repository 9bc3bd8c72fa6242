#include <fmt/format.h>
#include <gmock/gmock.h>

#include "huggingface/jinja/template.h"

namespace tidepool::jinja_template_test {

using testing::HasSubstr;

std::string error_of(std::string_view source) {
  const auto parsed = jinja::Template::parse(source, "t.jinja");
  if (!parsed) return parsed.error().message;
  const auto made = (*parsed)->render({}, {});
  return made ? "rendered: " + made->text : made.error().message;
}

std::string text_of(std::string_view source) {
  const auto parsed = jinja::Template::parse(source, "t.jinja");
  if (!parsed) return parsed.error().message;
  const auto made = (*parsed)->render({}, {});
  return made ? made->text : made.error().message;
}

TEST(Jinja, OtherConstructsAreRefusedByNameAndLine) {
  EXPECT_THAT(error_of("a\n{{ x | urlize }}"), HasSubstr("t.jinja:2: the filter 'urlize' is outside"));
  EXPECT_THAT(error_of("{{ x | uper }}"), HasSubstr("did you mean 'upper'?"));
  EXPECT_THAT(error_of("\n\n{% if x is prime %}{% endif %}"),
              HasSubstr("t.jinja:3: the test 'prime' is outside"));
  EXPECT_THAT(error_of("{{ x.append(1) }}"), HasSubstr("t.jinja:1: the method 'append' is outside"));
  EXPECT_THAT(error_of("{% include 'x' %}"), HasSubstr("t.jinja:1: the block 'include' is outside"));
  EXPECT_THAT(error_of("{% autoescape true %}{% endautoescape %}"),
              HasSubstr("the block 'autoescape' is outside"));
  EXPECT_THAT(error_of("{{ self() }}"), HasSubstr("'self()' is outside"));
  EXPECT_THAT(error_of("{{ cycler(1) }}"), HasSubstr("'cycler' is called, but is neither a macro"));
  EXPECT_THAT(error_of("{% macro m() %}{% generation %}{% endgeneration %}{% endmacro %}"),
              HasSubstr("has no place in the result"));
}

TEST(Jinja, MalformedTemplatesAreRefusedWithTheirLine) {
  EXPECT_THAT(error_of("a\n{{ x"), HasSubstr("t.jinja:2: a tag is never closed with }}"));
  EXPECT_THAT(error_of("{# x"), HasSubstr("t.jinja:1: a comment {# is never closed"));
  EXPECT_THAT(error_of("{{ 'x }}"), HasSubstr("a text that begins with ' is never closed"));
  EXPECT_THAT(error_of("{% if x %}\n"), HasSubstr("ends, but {% endif %} is missing"));
  EXPECT_THAT(error_of("{% endif %}"), HasSubstr("'endif' is unknown, or ends a block"));
  EXPECT_THAT(error_of("{{ (1 }}"), HasSubstr("t.jinja:1: "));
  EXPECT_THAT(error_of("{{ 1 ] }}"), HasSubstr("']' closes nothing"));
  EXPECT_THAT(error_of("{{ 'a\\N{DASH}' }}"), HasSubstr("\\N"));
  EXPECT_THAT(error_of("{{ 1e }}"), HasSubstr("outside of what is supported"));
  EXPECT_THAT(error_of("a\n{% raw %}x"), HasSubstr("t.jinja:2: a block {% raw %} is never closed"));
  EXPECT_THAT(error_of("{{ 99999999999999999999 }}"), HasSubstr("is too large"));
  EXPECT_THAT(error_of("{% break %}"), HasSubstr("'break' is outside of a loop"));
  EXPECT_THAT(error_of("{% set loop = 1 %}"), HasSubstr("'loop' cannot be given a value"));
  EXPECT_THAT(error_of("\xff"), HasSubstr("t.jinja: not UTF-8 at byte 0"));
  EXPECT_THAT(error_of(std::string(200, '(')), HasSubstr("rendered: "));  // no tag: text
  EXPECT_THAT(error_of("{{ " + std::string(200, '(') + "1" + std::string(200, ')') + " }}"),
              HasSubstr("nested too deeply"));
}

TEST(Jinja, FaultsOfRenderingNameTheLine) {
  EXPECT_THAT(error_of("\n{{ x.y }}"), HasSubstr("t.jinja:2: 'x' is undefined"));
  for (const char* filter : {"int", "float", "int(default=3)"})
    EXPECT_THAT(error_of(fmt::format("{{{{ x | {} }}}}", filter)), HasSubstr("'x' is undefined")) << filter;
  EXPECT_THAT(error_of("{{ raise_exception('no such role') }}"),
              HasSubstr("t.jinja:1: the template refuses this: no such role"));
  EXPECT_THAT(error_of("{{ 'a' + 1 }}"), HasSubstr("str + int has no meaning"));
  EXPECT_THAT(error_of("{{ 1 % 0 }}"), HasSubstr("division by zero"));
  EXPECT_THAT(error_of("{{ {'items': 1}.items }}"), HasSubstr("its key is written ['items']"));
  EXPECT_THAT(error_of("{% set x.y = 1 %}"), HasSubstr("only if 'x' is a namespace"));
  EXPECT_THAT(error_of("{{ nothing | tojson }}"), HasSubstr("has no JSON"));
}

// Regression: with a named filter there was no first argument to skip, which was undefined behaviour.
TEST(Jinja, MapTakesItsFilterAsAPositionalArgument) {
  EXPECT_EQ(text_of("{{ ['a', 'b'] | map('upper') | join }}"), "AB");
  for (const char* map : {"map(filter='upper')", "map()", "map(x=1)"})
    EXPECT_THAT(error_of(fmt::format("\n{{{{ ['a'] | {} }}}}", map)),
                HasSubstr("t.jinja:2: map: the filter's name is missing"))
        << map;
}

// The depth of recursive loops, which are not supported; not of nested loops.
TEST(Jinja, TheDepthOfALoopIsOne) {
  EXPECT_EQ(
      text_of(
          "{% for a in [1] %}{% for b in [1] %}{{ loop.depth }}{{ loop.depth0 }}{% endfor %}{% endfor %}"),
      "10");
}

TEST(Jinja, TemplatesThatWouldNeverEndOrFillMemoryAreStopped) {
  const std::string tens =
      "{% for a in range(1000) %}{% for b in range(1000) %}{% for c in range(1000) %}{% endfor %}{% endfor "
      "%}{% endfor %}";
  EXPECT_THAT(error_of(tens), HasSubstr("takes too many steps"));
  EXPECT_THAT(error_of("{% set n = namespace(x='aaaaaaaa') %}{% for a in range(60) %}{% set n.x = n.x + n.x "
                       "%}{% endfor %}"),
              HasSubstr("becomes too large"));
  EXPECT_THAT(
      error_of("{% set n = namespace(x=[]) %}{% for a in range(9999) %}{% set n.x = [n.x] %}{% endfor %}"),
      HasSubstr("becomes too large"));
  EXPECT_THAT(
      error_of(
          "{% set n = namespace(x=[1]) %}{% for a in range(50) %}{% set n.x = [n.x, n.x] %}{% endfor %}"),
      HasSubstr("becomes too large"));
  EXPECT_THAT(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              testing::StrEq("t.jinja:1: macros call each other more than 16 deep"));
  EXPECT_THAT(error_of("{{ 'a' * 99999999999 }}"), HasSubstr("is too long"));
  EXPECT_THAT(error_of("{{ range(10000000) }}"), HasSubstr("more than 100000 numbers"));
  EXPECT_THAT(error_of("{% set n = namespace() %}{% set n.n = n %}"),
              HasSubstr("cannot be stored in a namespace"));
}

u64 steps_of(std::string_view source) {
  const auto parsed = jinja::Template::parse(source, "t.jinja");
  EXPECT_TRUE(parsed) << source;
  u64 left = jinja::Template::steps_max;
  const auto made = (*parsed)->render({}, {}, &left);
  EXPECT_TRUE(made) << source;
  return jinja::Template::steps_max - left;
}

// Each line does much work for few expressions: it is counted by the bytes and elements that it reads and
// writes.
TEST(Jinja, WorkIsCountedByBytesAndElements) {
  const std::string values =
      "{% set r = range(10000) | list %}{% set t = 'ab' * 100000 %}{% set u = '\u00e9' * 100000 %}{% set d = "
      "dict(a=r) %}{% macro id(x) %}{{ x }}{% endmacro %}{% set w = ('x ' * 5000).split() %}";
  const u64 before = steps_of(values);
  for (const char* turn : {"{% set x %}{{ r }}{% endset %}",
                           "{% set x %}{{ t }}{% endset %}",
                           "{% set x = id(t) | length %}",
                           "{% filter length %}{{ t }}{% endfilter %}",
                           "{% set x = u | upper | length %}",
                           "{% set x = t.title() %}",
                           "{% set x = t.count('c') %}",
                           "{% set x = t.startswith(t) %}",
                           "{% set x = t.strip('ab') %}",
                           "{% set x = t | list | length %}",
                           "{% set x = t.split('b') | length %}",
                           "{% set x = u[5] %}",
                           "{% set x = t | length %}",
                           "{% set x = t | tojson | length %}",
                           "{% set x = r | sort | first %}",
                           "{% set x = r | unique | first %}",
                           "{% set x = r | sum %}",
                           "{% set x = r | max %}",
                           "{% set x = r | map('string') | first %}",
                           "{% set x = r | select('odd') | first %}",
                           "{% set x = r | batch(1) | first %}",
                           "{% set x = r | reverse | first %}",
                           "{% set x = r[::-1] %}",
                           "{% set x = r + r %}",
                           "{% set x = t + t %}",
                           "{% set x = t ~ r %}",
                           "{% set x = (r | string) is lower %}",
                           "{% set x = r == d.a[:9999] + [0] %}",
                           "{% set x = dict(d, b=1) == dict(d, b=2) %}",
                           "{% set x = w | join %}",
                           "{% set x = ' '.join(w) %}",
                           "{% set x = w | groupby(0) | first %}",
                           "{% set x = '%s' % r %}",
                           "{% set x = '{}'.format(r) %}",
                           "{% set x = t.rfind('aab') %}",
                           "{% set x = range(10000) %}",
                           "{% set x = w.count('y') %}",
                           "{% set x = 'ab' * 100000 %}",
                           "{% for k in r %}{% endfor %}"})
    EXPECT_GE(steps_of(values + turn), before + 1000) << turn;
}

// Searching takes time in proportion to the text, however much of the part repeats in it.
TEST(Jinja, SearchesOfRepeatingTextsEnd) {
  const std::string values =
      "{% set a = 'a' * 1000 %}{% set t = a * 1000 %}{% set p = a * 500 + 'b' %}{% set q = 'b' + a * 500 %}";
  EXPECT_EQ(text_of(values + "{{ p in t }} {{ t.find(p) }} {{ t.rfind(q) }} {{ t.count(p) }} {{ t.split(p) | "
                             "length }} {{ t.rsplit(q, 1) | length }} {{ (t | replace(p, '')) | length }}"),
            "False -1 -1 0 1 1 1000000");
  EXPECT_EQ(
      text_of("{% set t = 'aab' * 3 %}{{ t.rfind('aab') }} {{ t.rfind('ba') }} {{ t.rfind('abaab') }} {{ "
              "t.rfind('bb') }} {{ t.rfind('') }}"),
      "6 5 4 -1 9");
}

TEST(Jinja, NamesAreFoundAmongMany) {
  std::string many;
  for (u32 i = 0; i < 30'000; ++i) many += fmt::format("{{% set a{} = {} %}}", i, i);
  EXPECT_EQ(text_of(many + "{{ a0 }} {{ a17 }} {{ a29999 }} {% set a17 = 5 %}{{ a17 }}"), "0 17 29999 5");
}

TEST(Jinja, DatesOfLongFormatsAreRefusedByName) {
  EXPECT_THAT(
      error_of("{{ strftime_now('%Y' * 1000000) }}"),
      testing::StrEq("t.jinja:1: strftime_now: the format has 2000000 bytes; at most 256 are supported"));
  EXPECT_THAT(error_of("{{ strftime_now('%99999Y') }}"),
              HasSubstr("strftime_now: the date is longer than 4096 bytes"));
}

TEST(Jinja, ExtremeValuesAreRefusedOrTaken) {
  const std::string refused = error_of("{{ raise_exception('\u00e9' * 5000) }}");
  EXPECT_THAT(refused, testing::EndsWith("\u00e9"));
  EXPECT_LT(refused.size(), 1100u);
  EXPECT_THAT(error_of("{{ 9223372036854775807 | round(-18) }}"),
              testing::AnyOf(HasSubstr("rendered: 9000000000000000000"), HasSubstr("too large")));
  EXPECT_THAT(error_of("{{ 9623372036854775807 | round(-18) }}"), HasSubstr("is too large"));
  EXPECT_THAT(error_of("{{ 8700000000000000000 | round(-19) }}"), HasSubstr("rendered: 0"));
  EXPECT_THAT(error_of("{{ '%\u00e9' % 1 }}"), HasSubstr("the format %? is unknown"));
  EXPECT_THAT(
      error_of("{% for x in [[1]] recursive %}{% if x is iterable %}{{ loop(x) }}{% else %}{% generation "
               "%}a{% endgeneration %}{% endif %}{% endfor %}"),
      HasSubstr("has no place in the result"));
}

TEST(Jinja, IteratorsAreNoLists) {
  EXPECT_THAT(
      error_of("\n{{ [1] | map('string') }}"),
      testing::StrEq(
          "t.jinja:2: an iterator has no text; make a list of it with | list, or a text with | join"));
  EXPECT_THAT(error_of("{{ [1] | map('string') | length }}"), HasSubstr("make a list of it with | list"));
}

// Operations that walk through a value cost as many steps: 20,000 turns of `x in range(100000)` took 4.5 s.
TEST(Jinja, LookingThroughLargeValuesCostsSteps) {
  for (const char* turn : {"{% if 0 - 1 in r %}x{% endif %}", "{% if 'z' in t %}x{% endif %}",
                           "{% set x = t[100000] %}", "{% if r == s %}{% endif %}"}) {
    EXPECT_THAT(error_of("{% set r = range(100000) %}{% set s = range(100000) %}{% set t = 'ab' * 100000 %}"
                         "{% for i in range(20000) %}" +
                         std::string(turn) + "{% endfor %}"),
                HasSubstr("takes too many steps"))
        << turn;
  }
  std::string joined = "{% set t = 'ab' * 100000 %}{{ t";
  for (int i = 0; i < 90; ++i) joined += " ~ t";
  EXPECT_THAT(error_of(joined + " }}"), HasSubstr("becomes too large"));
}

TEST(Jinja, WordsFromTheEndAreTakenFromTheEnd) {
  EXPECT_EQ(text_of("{{ ' a \u00e9\u3000b  c '.rsplit() | join('|') }}"), "a|\u00e9|b|c");
  EXPECT_EQ(text_of("{{ 'a \u4e2d c'.rsplit(none, 1) | join('|') }}"), "a \u4e2d|c");
  EXPECT_EQ(text_of("{{ ('word ' * 100000).rsplit() | length }}"), "100000");
}

// As in Python: a tuple is not a list, and is printed differently.
TEST(Jinja, TuplesAreNotLists) {
  EXPECT_EQ(text_of("{{ [1] == (1,) }} {{ (1,) == (1,) }} {{ (1, [2]) != (1, (2,)) }} {{ [1] in [(1,)] }}"),
            "False True True False");
  EXPECT_EQ(text_of("{{ () }} {{ (1,) }} {{ (1, 'a', [2, (3,)]) }} {{ 1, 2 }}"),
            "() (1,) (1, 'a', [2, (3,)]) (1, 2)");
  EXPECT_EQ(text_of("{{ (1, 2) + (3,) }} {{ (1,) * 2 }} {{ (1, 2, 3)[1:] }} {{ (1, 2) | list }}"),
            "(1, 2, 3) (1, 1) (2, 3) [1, 2]");
  EXPECT_EQ(text_of("{{ {'a': 1} | items | list }} {{ {'a': 1}.items() | first }}"), "[('a', 1)] ('a', 1)");
  EXPECT_EQ(text_of("{{ (1, (2,)) | tojson }} {{ (1, 2) is sequence }} {{ 2 in (1, 2) }} {{ (1, 2)[0] }}"),
            "[1, [2]] True True 1");
  EXPECT_EQ(text_of("{% set a, b = 1, 2 %}{% for x, y in ((a, b), (3, 4)) %}{{ x }}{{ y }}{% endfor %}"),
            "1234");
  EXPECT_THAT(error_of("{{ [1] + (2,) }}"), HasSubstr("list + tuple has no meaning"));
}

// Python's repr(), by Unicode's categories: spaces but one, format and control characters, private and
// unassigned characters are escaped; letters, marks and symbols are not.
TEST(Jinja, PrintedListsAndMappingsEscapeWhatDoesNotPrint) {
  EXPECT_EQ(text_of("{{ {'price': '5\u00a0EUR', 'zw': 'a\u200bb'} }}"),
            "{'price': '5\\xa0EUR', 'zw': 'a\\u200bb'}");
  EXPECT_EQ(text_of("{{ ['\x01\x7f\u00ad\u2028\u3000\ue000\ufeff\U000e0001\u0378'] }}"),
            "['\\x01\\x7f\\xad\\u2028\\u3000\\ue000\\ufeff\\U000e0001\\u0378']");
  EXPECT_EQ(text_of("{{ ['\u00e9\u0301 \u4e2d\U0001f600'] }}"), "['\u00e9\u0301 \u4e2d\U0001f600']");
  EXPECT_EQ(text_of("{{ [\"it's\", '\"', \"'\" ~ '\"', '\\\\ \\n\\t'] }}"),
            "[\"it's\", '\"', '\\'\"', '\\\\ \\n\\t']");
  EXPECT_EQ(
      text_of("{{ [true, none, 1.0, 10000000000000000.0, 0.00001, 100000.5, nothing] }} {{ nothing }}|"),
      "[True, None, 1.0, 1e+16, 1e-05, 100000.5, Undefined] |");
}

TEST(Jinja, DigitsAreThoseOfPython) {
  EXPECT_EQ(text_of("{{ '\u00b2'.isdigit() }} {{ '\u0663\u0664'.isdigit() }} {{ '1\u2460'.isdigit() }} {{ "
                    "'\uff19'.isdigit() }}"),
            "True True True True");
  EXPECT_EQ(text_of("{{ '\u00bd'.isdigit() }} {{ '\u4e94'.isdigit() }} {{ '-1'.isdigit() }} {{ ''.isdigit() "
                    "}} {{ '/:'.isdigit() }}"),
            "False False False False False");
}

// As in Python's json.dumps: characters from space to ~ are not escaped.
TEST(Jinja, JsonInAsciiEscapesDelete) {
  EXPECT_EQ(text_of("{{ '\x7f~' | tojson(ensure_ascii=true) }}"), "\"\\u007f~\"");
  EXPECT_EQ(text_of("{{ '\x7f~' | tojson }}"), "\"\x7f~\"");
}

TEST(Jinja, ScopesAndWhiteSpaceAreJinjas) {
  EXPECT_EQ(text_of("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}"),
            "2,3,1");
  EXPECT_EQ(text_of("{% if true %}{% set x = 5 %}{% endif %}{{ x }}"), "5");
  EXPECT_EQ(text_of("a\n  {% if true %}\n  b\n  {% endif %}\nc\n"), "a\n  b\nc");
  EXPECT_EQ(text_of("a {% if true %} b {% endif %} c"), "a  b  c");
  EXPECT_EQ(text_of("a\n\n{#- c -#}\n\nb"), "ab");
  EXPECT_EQ(text_of("{{ {'a': {'b': 1}}['a']['b'] }}{{ '}}' }}"), "1}}");
  EXPECT_EQ(text_of("{{ -1 | abs }} {{ 1 if false }}|{{ not 1 == 2 }}"), "1 |True");
}

}  // namespace tidepool::jinja_template_test
