"""Metrics pages are read exactly, and wrong ones are refused with the line."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Gauge, Histogram, Summary, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics_exposition
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from healer.collectors.exposition import NO_TIME, Page, PageReader, parse
from healer.model.series import METRIC_NAME, Labels, escape

TEXT = "text/plain; version=0.0.4"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Rows = list[tuple[str, float, int | None]]


def rows(page: Page) -> Rows:
    assert page.errors == ()
    times = [NO_TIME] * len(page.labels) if page.times_ms is None else page.times_ms.tolist()
    return [
        (str(labels), value, None if time == NO_TIME else time)
        for labels, value, time in zip(page.labels, page.values.tolist(), times, strict=True)
    ]


def read(text: str, content_type: str = TEXT) -> Rows:
    return rows(parse(text.encode(), content_type))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a 1", ("a", 1.0, None)),
        ("a{} 1", ("a", 1.0, None)),
        ("a:b_C9 -1.5e-3", ("a:b_C9", -0.0015, None)),
        ('a{b="c"} 1', ('a{b="c"}', 1.0, None)),
        ('a{b="c"}1', ('a{b="c"}', 1.0, None)),
        ('a{b="c",} 1', ('a{b="c"}', 1.0, None)),
        ('a {b = "c" , d="e"} 1', ('a{b="c", d="e"}', 1.0, None)),
        ('a{b="c d} e # {f",g="h,i"} 1', ('a{b="c d} e # {f", g="h,i"}', 1.0, None)),
        ('a{b="x\\\\y\\"z\\nw\\q"} 1', ('a{b="x\\\\y\\"z\\nw\\\\q"}', 1.0, None)),
        ('a{b=""} 1', ("a", 1.0, None)),
        ('{"http.requests",b="c"} 2', ('http.requests{b="c"}', 2.0, None)),
        ('{"a"} 2', ("a", 2.0, None)),
        ('a{"k8s.pod"="x"} 2', ('a{k8s.pod="x"}', 2.0, None)),
        ('a{ö="x"} 1', None),
        ('a{b="ö\u2028"} 1', ('a{b="ö\u2028"}', 1.0, None)),
        ("  a\t 1", ("a", 1.0, None)),
        ("a 1 ", ("a", 1.0, None)),
        ("a  1  5 ", ("a", 1.0, 5)),
        ("a 1\t5", ("a", 1.0, 5)),
        ("a 1 1700000000123", ("a", 1.0, 1700000000123)),
        ("a 1 -5", ("a", 1.0, -5)),
        ("a +Inf", ("a", math.inf, None)),
        ("a -inf", ("a", -math.inf, None)),
        ("a infinity", ("a", math.inf, None)),
        ("a .5", ("a", 0.5, None)),
        ("a 5.", ("a", 5.0, None)),
        ("a 1e400", ("a", math.inf, None)),
        ("a 1_0", None),
        ("a 0x1p3", None),
        ("a +NaN", None),
        ("a 1e", None),
        ("a", None),
        ("a ", None),
        ("a 1 2 3", None),
        ("a 1 2.5", None),
        ("a 1 99999999999999999999", None),
        ("a 1\r", None),
        ("9a 1", None),
        ("a-b 1", None),
        ("{} 1", None),
        ('{b="c"} 1', None),
        ('{b="c","a"} 1', None),
        ('a{"b"} 1', None),
        ('a{b="c" 1', None),
        ('a{b="c} 1', None),
        ("a{b='c'} 1", None),
        ("a{b} 1", None),
        ('a{b="c" d="e"} 1', None),
        ('a{,b="c"} 1', None),
        ('a{=""} 1', None),
        ('a{""="x"} 1', None),
        ('a{b="c",b="d"} 1', None),
        ('a{__name__="b"} 1', None),
        ("١ 1", None),
        ("a ١", None),
        ('a 1 # {x="y"} 1', None),
        ("# TYPE a counter", ()),
        ("# TYPE a cuonter", None),
        ("# TYPE a", None),
        ("# TYPE", None),
        ("# HELP a text \\ with ö", ()),
        ("# HELP a", ()),
        ("# HELP 9", None),
        ("#TYPE a nothing", ()),
        ("# a comment", ()),
        ("#", ()),
        ("  # TYPE a gauge", ()),
        ("  # TYPE a guage", None),
        ("", ()),
        (" \t", ()),
        ("<html><body>404</body></html>", None),
        ('{"json": 1}', None),
    ],
)  # fmt: skip
def test_a_line_of_text_is_read_alike_when_new_and_when_known(
    line: str, expected: tuple[str, float, int | None] | tuple[()] | None
) -> None:
    reader = PageReader()
    for _ in range(2):
        for head, tail in (("", ""), ("first 1\n", "\nlast 1\n")):
            page = reader.read(f"{head}{line}{tail}".encode(), TEXT)
            if expected is None:
                assert [at for at, _ in page.errors] == [2 if head else 1]
                assert page.labels == ()
            else:
                found = [row for row in rows(page) if row[0] not in ("first", "last")]
                assert found == ([expected] if expected else [])
                assert len(page.labels) == len(found) + 2 * bool(head)


def test_nan_is_a_value() -> None:
    page = parse(b"a NaN\nb nan\n", TEXT)
    assert [math.isnan(value) for value in page.values] == [True, True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# EOF", []),
        ("# EOF\n", []),
        ("a 1\n# EOF\n", [("a", 1.0, None)]),
        ("a 1 1.5\n# EOF\n", [("a", 1.0, 1500)]),
        ("a 1 1520879607.789\n# EOF\n", [("a", 1.0, 1520879607789)]),
        ('a_total 1 # {t="x # y"} 0.5 1.5\n# EOF\n', [("a_total", 1.0, None)]),
        ('a_total{b="c"} 1 3 # {} 0.5\n# EOF\n', [('a_total{b="c"}', 1.0, 3000)]),
        ("# TYPE a_seconds gauge\n# UNIT a_seconds seconds\n# HELP a_seconds x\na_seconds 2\n# EOF\n", [("a_seconds", 2.0, None)]),
        ("# TYPE a stateset\n# EOF\n", []),
        ('{"a.b","c.d"="e"} 1\n# EOF\n', [('a.b{c.d="e"}', 1.0, None)]),
    ],
)  # fmt: skip
def test_openmetrics_is_read(text: str, expected: Rows) -> None:
    reader = PageReader()
    assert rows(reader.read(text.encode(), OPENMETRICS)) == expected
    assert rows(reader.read(text.encode(), OPENMETRICS)) == expected


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("", 1, "cut off"),
        ("a 1\n", 1, "cut off"),
        ("a 1\n# EO", 2, "cut off"),
        ("a 1\n# EOF\n\n", 3, "cut off"),
        ("a 1\n\nb 1\n# EOF\n", 2, "an empty line"),
        ("a 1\n# EOF\nb 1\n# EOF\n", 2, "before the end"),
        ("a 1\n# a comment\n# EOF\n", 2, "does not have"),
        ("# TYPE a untyped\n# EOF\n", 1, "not a type of metric: 'untyped'"),
        ("# UNIT a_seconds bytes\n# EOF\n", 1, "unit 'bytes' is not at the end"),
        ("a  1\n# EOF\n", 1, "not a"),
        (" a 1\n# EOF\n", 1, "a metric name is missing"),
        ("a 1 NaN\n# EOF\n", 1, "not a timestamp in seconds"),
        ("a 1 1e300\n# EOF\n", 1, "not a timestamp in seconds"),
        ('a 1 # {t="x"}\n# EOF\n', 1, "not a series and a number"),
        ('a 1 # {t="x",t="y"} 1\n# EOF\n', 1, "'t' is given twice"),
        ('a 1 # {t="x"} x\n# EOF\n', 1, "not a number: 'x'"),
        ('a 1 # {t="x"} 1 x\n# EOF\n', 1, "not a number: 'x'"),
    ],
)
def test_wrong_openmetrics_is_refused_with_the_line(text: str, line: int, what: str) -> None:
    (error,) = parse(text.encode(), OPENMETRICS).errors
    assert error[0] == line
    assert what in error[1]


def test_bytes_that_are_not_utf8_are_refused() -> None:
    assert parse(b'a 1\nb{c="\xff"} 1\n', TEXT).errors == ((2, "not UTF-8: 'b{c=\"\ufffd\"}'"),)
    assert parse(b"# HELP a \xff\n", TEXT).errors[0][0] == 1
    assert parse(b"\x80\x81\x82", TEXT).errors[0][0] == 1


def test_a_duplicate_series_keeps_the_first_and_is_counted() -> None:
    page = parse(b'a{b="1",c="2"} 1\nx 5\na{c="2",b="1"} 2\na{b="1",c="2"} 3\n', TEXT)
    assert rows(page) == [('a{b="1", c="2"}', 1.0, None), ("x", 5.0, None)]
    assert page.duplicates == 2


def test_a_series_may_be_there_at_several_times() -> None:
    page = parse(b"a 1 1000\na 2 2000\na 3 2000\n", TEXT)
    assert rows(page) == [("a", 1.0, 1000), ("a", 2.0, 2000)]
    assert page.duplicates == 1


def test_the_labels_are_the_same_object_while_the_series_stay_the_same() -> None:
    reader = PageReader()
    first = reader.read(b"a 1\nb 2\n", TEXT)
    second = reader.read(b"a 3\nb 4\n", TEXT)
    third = reader.read(b"a 5\n", TEXT)
    assert second.labels is first.labels
    assert second.values.tolist() == [3, 4]
    assert third.labels == first.labels[:1]


def test_a_wrong_number_in_a_known_series_is_refused_with_its_line() -> None:
    reader = PageReader()
    reader.read(b"# TYPE a gauge\na 1\nb 2\n", TEXT)
    page = reader.read(b"# TYPE a gauge\na 1\n\nb 2_0\n", TEXT)
    assert page.errors == ((4, "not a number: '2_0'"),)


def test_names_that_vanished_are_forgotten() -> None:
    reader = PageReader()
    for start in range(0, 20_000, 1000):
        reader.read("".join(f'a{{n="{n}"}} 1\n' for n in range(start, start + 1000)).encode(), TEXT)
    assert len(reader._names) <= 3000
    assert len(reader._canonical) <= 3000


def test_a_relabelling_that_fails_is_an_error_of_the_page() -> None:
    def refuse(labels: Labels) -> Labels:
        if "bad" in labels:
            raise ValueError("label 'bad' is too long")
        return labels.with_(job="x")

    reader = PageReader(refuse)
    assert rows(reader.read(b"a 1\n", TEXT)) == [('a{job="x"}', 1.0, None)]
    assert reader.read(b'a 1\nb{bad="y"} 1\n', TEXT).errors == ((2, "label 'bad' is too long"),)


def test_a_long_garbage_line_is_refused_fast_and_shown_short() -> None:
    for body in (b"x" * 20_000_000, b'a{b="' * 1_000_000, b"a{" * 1_000_000, b'a{b="\\' * 1_000_000, b"{" * 9_000_000):
        (error,) = parse(body, TEXT).errors
        assert len(error[1]) < 400


NAMES = st.from_regex(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,8}", fullmatch=True)
LABEL_NAMES = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,8}", fullmatch=True).filter(lambda name: name != METRIC_NAME)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
SERIES = st.builds(
    lambda name, labels: Labels({METRIC_NAME: name, **labels}), NAMES, st.dictionaries(LABEL_NAMES, TEXTS, max_size=4)
)


@given(st.dictionaries(SERIES, st.floats(), max_size=8))
def test_what_is_printed_is_read_back(samples: dict[Labels, float]) -> None:
    lines = []
    for labels, value in samples.items():
        inner = ",".join(f'{name}="{escape(text)}"' for name, text in labels.pairs if name != METRIC_NAME)
        lines.append(f"{labels.metric}{{{inner}}} {value!r}\n")
    for content_type, end in ((TEXT, ""), (OPENMETRICS, "# EOF\n")):
        page = parse(("".join(lines) + end).encode(), content_type)
        assert page.errors == ()
        assert dict(zip(page.labels, map(repr, page.values.tolist()), strict=True)) == {
            labels: repr(value) for labels, value in samples.items()
        }


@given(
    st.lists(st.sampled_from(['a{b="c"} 1', "a 1 5", "b 2", "# TYPE a gauge", "c NaN", "c 1_0", "a{", ""])), st.data()
)
def test_a_warm_reader_answers_as_a_cold_one(page_lines: list[str], data: st.DataObject) -> None:
    reader = PageReader()
    for _ in range(3):
        body = "\n".join(data.draw(st.permutations(page_lines))).encode()
        warm, cold = reader.read(body, TEXT), parse(body, TEXT)
        assert (warm.errors, warm.duplicates) == (cold.errors, cold.duplicates)
        if not warm.errors:
            assert repr(rows(warm)) == repr(rows(cold))


WARM_PAGE = b"""# HELP a text
# TYPE a gauge
a 1
a{b="c",d="e f"} 2.5e3

a_b 0
inf 7
# TYPE z counter
z{b="c"} NaN
z{b="d"} +Inf
"""
BYTES = st.sampled_from([*b'abz{}"=,# \n\t\\0159.+-_eENaInf'])


@given(
    st.lists(st.tuples(st.integers(0, len(WARM_PAGE)), st.sampled_from(["put", "cut", "set"]), BYTES), max_size=3),
    st.sampled_from([TEXT, OPENMETRICS]),
)
def test_a_page_that_differs_in_any_byte_is_read_as_if_it_were_the_first(
    edits: list[tuple[int, str, int]], content_type: str
) -> None:
    page = WARM_PAGE if content_type == TEXT else WARM_PAGE.replace(b"\n\n", b"\n") + b"# EOF\n"
    reader = PageReader()
    for _ in range(3):
        assert reader.read(page, content_type).errors == ()
    assert reader._layout is not None
    changed = bytearray(page)
    for position, edit, byte in edits:
        changed[position : position + (edit != "put")] = b"" if edit == "cut" else bytes([byte])
    warm, cold = reader.read(bytes(changed), content_type), parse(bytes(changed), content_type)
    # Which of several wrong lines is named may differ, since wrong numbers are looked for last.
    assert bool(warm.errors) == bool(cold.errors)
    assert warm.duplicates == cold.duplicates
    if not warm.errors:
        assert repr(rows(warm)) == repr(rows(cold))


@given(st.binary(max_size=200))
def test_any_bytes_give_a_page_or_a_line(body: bytes) -> None:
    for content_type in (TEXT, OPENMETRICS):
        page = parse(body, content_type)
        assert bool(page.errors) or len(page.labels) == len(page.values)


def registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    gauge = Gauge("room_celsius", 'Help with \\ and "quotes"\nand lines.', ["room"], registry=registry)
    for room, value in (("ki\\tch\nen", math.nan), ('b"a"th', -math.inf), ("", 0.1)):
        gauge.labels(room).set(value)
    histogram = Histogram("wait_seconds", "h", registry=registry)
    histogram.observe(0.3, exemplar={"trace_id": "ab c"})
    Summary("size_bytes", "s", registry=registry).observe(7)
    return registry


@pytest.mark.parametrize("kind", ["text", "openmetrics"])
def test_pages_of_prometheus_client_are_read_as_it_reads_them(kind: str) -> None:
    if kind == "text":
        body, families = generate_latest(registry()), parse_text(generate_latest(registry()).decode())
    else:
        body = openmetrics_exposition.generate_latest(registry())  # type: ignore[no-untyped-call]
        families = parse_openmetrics(body.decode())  # type: ignore[no-untyped-call]
    theirs = {
        Labels({METRIC_NAME: sample.name, **sample.labels}): repr(sample.value)
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    page = parse(body, TEXT if kind == "text" else OPENMETRICS)
    ours = {
        labels: repr(value)
        for labels, value in zip(page.labels, page.values.tolist(), strict=True)
        if not labels.metric.endswith("_created")
    }
    assert ours == theirs
