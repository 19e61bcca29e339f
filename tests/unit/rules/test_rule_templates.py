"""Go templates in labels and annotations."""

import math
from collections.abc import Iterable, Mapping

import pytest

from healer.errors import QueryError
from healer.rules.templates import TemplateError, compile_template

LABELS = {"instance": "db-1.example.com:9100", "job": "node", "evil": "{{ $value }}<!channel>"}


def query(text: str) -> Iterable[tuple[Mapping[str, str], float]]:
    if text == "fail":
        raise QueryError("no such thing")
    return [] if text == "none" else [({"instance": "b", "__value__": "v"}, 2.0), ({"instance": "a"}, 1.5)]


def render(template: str, value: float = 1234567.0) -> str:
    return compile_template(template).render(
        LABELS, value, {"region": "eu"}, "https://healer.example/rules", query=query
    )


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("no braces } { here", "no braces } { here"),
        ("{{ $labels.job }}/{{.Labels.job}}/{{ $.Labels.job }}", "node/node/node"),
        ("{{ $labels.missing }}|", "|"),
        ("{{ $labels }}", "map[evil:{{ $value }}<!channel> instance:db-1.example.com:9100 job:node]"),
        ("{{ $value }} {{ .Value }}", "1.234567e+06 1.234567e+06"),
        ("{{ $externalLabels.region }} {{ .ExternalLabels.region }}", "eu eu"),
        ("{{ $externalURL }} {{ externalURL }} {{ pathPrefix }}", "https://healer.example/rules " * 2 + "/rules"),
        ("a {{- /* why */ -}} b {{- 1 -}} c", "ab1c"),
        ("{{/* only a note */}}x", "x"),
        ("{{ `raw \\n` }}{{ \"q\\t\\u00e9\\x41\" }}{{ 'a' }}", "raw \\nq\té" + "A97"),
        ("{{ if .Labels.job }}y{{ else }}n{{ end }}{{ if .Labels.nope }}y{{ else }}n{{ end }}", "yn"),
        ("{{ if eq $value 5.0 }}a{{ else if gt $value 6.0 }}b{{ else }}c{{ end }}", "b"),
        ("{{ with $labels.job }}<{{ . }}>{{ end }}{{ with $labels.nope }}x{{ else }}none{{ end }}", "<node>none"),
        ('{{ range $i, $s := query "up" }}{{ $i }}={{ $s.Labels.instance }}:{{ .Value }};{{ end }}', "0=b:2;1=a:1.5;"),
        ('{{ range query "none" }}x{{ else }}nothing{{ end }}', "nothing"),
        ('{{ range $s := query "up" }}{{ break }}{{ end }}{{ range 3 }}{{ continue }}x{{ end }}', ""),
        ("{{ range $name, $v := $externalLabels }}{{ $name }}={{ $v }}{{ end }}", "region=eu"),
        ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $x := 3 }}{{ end }}{{ $x }}", "2"),
        ('{{ query "up" | first | value }} {{ first (query "up") | label "instance" }}', "2 b"),
        ('{{ query "up" | sortByLabel "instance" | first | label "instance" }}', "a"),
        ('{{ query "up" | first | strvalue }}', "v"),
        ('{{ (index (query "up") 1).Labels.instance }}', "a"),
        ('{{ len (query "up") }} {{ len "é" }} {{ slice "hello" 1 3 }}', "2 2 el"),
        ('{{ and true "" }}|{{ or "" "d" }}|{{ not true }}', "|d|false"),
        ('{{ ne "a" "b" }} {{ lt 1 2 }} {{ le 2 2 }} {{ ge 1.5 1 }} {{ eq 3 1 2 3 }}', "true true true true true"),
        ('{{ with args 1 "b" }}{{ .arg0 }}{{ .arg1 }}{{ end }}', "1b"),
        ('{{ print 1 2 "x" 3 }}|{{ println "a" 1 }}', "1 2x3|a 1\n"),
        ("{{ nil }}", "<no value>"),
    ],
)
def test_the_language(template: str, expected: str) -> None:
    assert render(template) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("humanize 0.0", "0"),
        ("humanize 1234567", "1.235M"),
        ("humanize 0.00123", "1.23m"),
        ("humanize -1500.0", "-1.5k"),
        ('humanize "1e30"', "1e+06Y"),
        ("humanize1024 1048576.0", "1Mi"),
        ("humanize1024 0.5", "0.5"),
        ("humanizeDuration 0", "0s"),
        ("humanizeDuration 0.0005", "500us"),
        ("humanizeDuration 1.23456", "1.235s"),
        ("humanizeDuration 60", "1m 0s"),
        ("humanizeDuration 3601", "1h 0m 1s"),
        ("humanizeDuration -86400.9", "-1d 0h 0m 0s"),
        ('"43200" | humanizeDuration', "12h 0m 0s"),
        ("humanizePercentage 0.1234567", "12.35%"),
        ("humanizeTimestamp 1435065584.128", "2015-06-23 13:19:44.128 +0000 UTC"),
        ("humanizeTimestamp 0", "1970-01-01 00:00:00 +0000 UTC"),
        ('title "hello wOrld of_x a-b"', "Hello WOrld Of_x A-B"),
        ('toUpper "aé"', "AÉ"),
        ('toLower "AB"', "ab"),
        ('match "^a.c" "abcd"', "true"),
        ('reReplaceAll "(.*):\\\\d+" "$1-${1}$$" "h:80"', "h-h$"),
        ("stripPort $labels.instance", "db-1.example.com"),
        ('stripPort "[::1]:80"', "::1"),
        ('stripPort "::1"', "::1"),
        ("stripDomain $labels.instance", "db-1:9100"),
        ('stripDomain "10.0.0.1:80"', "10.0.0.1:80"),
        ('parseDuration "1h30m"', "5400"),
        ('graphLink "up == 0"', "/graph?g0.expr=up+%3D%3D+0&g0.tab=0"),
        ('tableLink "up"', "/graph?g0.expr=up&g0.tab=1"),
        ('safeHtml "<b>"', "<b>"),
        ('urlQueryEscape "a b"', "a+b"),
    ],
)
def test_the_functions(call: str, expected: str) -> None:
    assert render("{{ " + call + " }}") == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('"%s|%v|%q" "a" "b" "c\\"d"', 'a|b|"c\\"d"'),
        ('"%d|%5d|%-5d|%05d|%+d|%x" 1 2 3 -4 5 255', "1|    2|3    |-0004|+5|ff"),
        ('"%.2f|%8.3f|%e|%g|%v|%.0f" 1.005 2.5 1234.5 0.00001 1e21 2.5', "1.00|   2.500|1.234500e+03|1e-05|1e+21|2"),
        ('"%t %% %T %c %.2s" true 1.5 65 "xyz"', "true % float64 A xy"),
        ('"%d" 1.5', "%!d(float64=1.5)"),
        ('"%s" 1', "%!s(int=1)"),
        ('"%s %s" "a"', "a %!s(MISSING)"),
        ('"x" 1 "b"', "x%!(EXTRA int=1, string=b)"),
        ('"%"', "%!(NOVERB)"),
        ('"%*d" 4 7', "   7"),
        ('"%f %f" $value 1', "1234567.000000 %!f(int=1)"),
    ],
)
def test_printf_writes_as_go_does(arguments: str, expected: str) -> None:
    assert render("{{ printf " + arguments + " }}") == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.1, "0.1"),
        (100000.0, "100000"),
        (1000000.0, "1e+06"),
        (123456789.0, "1.23456789e+08"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-2.5, "-2.5"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_written_as_go_does(value: float, expected: str) -> None:
    assert render("{{ $value }}", value) == expected
    if not math.isfinite(value):
        for function in ("humanize", "humanize1024", "humanizeDuration", "humanizeTimestamp"):
            assert render("{{ " + function + " $value }}", value) == expected


def test_values_are_data_and_are_never_expanded_again() -> None:
    assert render("{{ $labels.evil }}") == "{{ $value }}<!channel>"
    assert render('{{ printf "%s" $labels.evil }}{{ toLower $labels.evil }}').count("{{ $value }}") == 2


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ .Nope }}", "can't evaluate field Nope"),
        ("{{ $value.x }}", "can't evaluate field x in type float64"),
        ('{{ humanize "abc" }}', 'parsing "abc": invalid syntax'),
        ('{{ query "fail" }}', "no such thing"),
        ('{{ query "none" | first }}', "no elements"),
        ('{{ match "(" "x" }}', "error parsing regexp"),
        ("{{ toUpper 1 }}", "expected string; got int"),
        ("{{ toUpper }}", "wrong number of args for toUpper"),
        ('{{ lt 1 "a" }}', "incompatible types"),
        ("{{ range $value }}{{ end }}", "range can't iterate"),
        ("{{ index $labels.job 9 }}", "index 9 does not fit string"),
        ('{{ parseDuration "x" }}', "not a valid duration"),
        ("{{ humanizeTimestamp 1e300 }}", "cannot be represented"),
        ("{{ range 10000 }}{{ range 10000 }}x{{ end }}{{ end }}", "more than 20000 steps"),
        ('{{ range 900 }}{{ printf "%1000d" 1 }}{{ end }}', "longer than 65536"),
        ('{{ $x := "0123456789" }}' + "{{ $x = print $x $x }}" * 40, "longer than 65536"),
    ],
)
def test_what_fails_over_the_data_stands_in_the_text(template: str, said: str) -> None:
    text = render(template)
    assert text.startswith("<error expanding template: ")
    assert said in text


def test_without_a_store_queries_say_so() -> None:
    assert "queries are not available" in compile_template('{{ query "up" }}').render({}, 0.0)


@pytest.mark.parametrize(
    ("template", "place", "said"),
    [
        ("a {{", (1, 3), "not closed"),
        ("a\n  {{ $label.foo }}", (2, 6), "undefined variable '\\$label'"),
        ("{{ foo }}", (1, 4), "function 'foo' is not known"),
        ("{{ end }}", (1, 4), "unexpected {{end}}"),
        ("x\n{{ if true }}", (2, 4), "has no {{end}}"),
        ("{{ if true }}{{ else }}{{ else }}{{ end }}", (1, 27), "second {{else}}"),
        ('{{ "x }}', (1, 4), "string is not closed"),
        ('{{ "\\d" }}', (1, 4), "bad escape"),
        ("{{ 1x }}", (1, 4), "bad number '1x'"),
        ("{{ (1 }}", (1, 4), "parenthesis is not closed"),
        ("{{ $value | }}", (1, 13), "missing value"),
        ("{{}}", (1, 3), "missing value for action"),
        ("{{ if }}{{ end }}", (1, 7), "missing value for if"),
        ("{{ 1 | 2 }}", (1, 10), "only a function can take"),
        ("{{ 1 2 }}", (1, 4), "only a function takes arguments"),
        ("{{ $x = 1 }}", (1, 4), "undefined variable"),
        ("{{ with $x := 1 }}{{ end }}{{ $x }}", (1, 31), "undefined variable"),
        ("{{ $a, $b := 1 }}", (1, 8), "too many variables"),
        ('{{ define "x" }}{{ end }}', (1, 4), "{{define}} is not supported"),
        ("{{ break }}", (1, 4), "outside {{range}}"),
        ("{{ $value - 3 }}", (1, 11), "unexpected '-'"),
        ("{{ (" + "(" * 100 + "1" + ")" * 100 + ") }}", (1, 54), "nested deeper"),
        ("{{ if true }}" * 100, (1, 654), "nested deeper"),
    ],
)
def test_mistakes_are_found_when_it_is_compiled(template: str, place: tuple[int, int], said: str) -> None:
    with pytest.raises(TemplateError, match=said) as caught:
        compile_template(template)
    assert (caught.value.line, caught.value.column) == place


def test_templates_with_the_same_text_are_equal() -> None:
    assert compile_template("{{ $value }}") == compile_template("{{ $value }}")
    assert compile_template("a") != compile_template("b")
