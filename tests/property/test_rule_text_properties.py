"""Whatever text comes in: an answer with a place, never a crash."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from healer.model.cluster import ClusterState, Freshness
from healer.rules.durations import format_duration, parse_duration
from healer.rules.rulefiles import load_rules
from healer.rules.targets import Unresolved, resolve
from healer.rules.templates import Template, TemplateError, compile_template
from healer.rules.yaml_positions import Mapping, Scalar, read_documents

PIECES = [
    "{{", "}}", "{{-", "-}}", " ", "\n", "$labels", ".x", "$value", "|", "printf", '"%d"', "if", "else", "end", "range",
    "with", "(", ")", "$a", ":=", "=", ",", "1", "-2.5e3", "`r`", "'c'", "humanize", "query", "/*", "*/", ".", "é", "break",
]  # fmt: skip
EMPTY = ClusterState(
    name="c",
    freshness=Freshness(synced=True, silent_seconds=0, healthy_seconds=0),
    nodes={},
    pods={},
    workloads={},
    budgets={},
    autoscalers={},
    attachments={},
    pods_by_node={},
)


def compiled(text: str) -> Template | TemplateError:
    try:
        return compile_template(text)
    except TemplateError as error:
        return error


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(max_size=60), st.text(max_size=20))
@settings(max_examples=500, deadline=None)
def test_a_template_compiles_and_renders_or_says_where_it_is_wrong(text: str, value: str) -> None:
    template = compiled(text)
    if isinstance(template, TemplateError):
        assert 0 <= template.offset <= len(text)
        assert template.line >= 1
        assert template.column >= 1
        return
    assert isinstance(template.render({"x": value}, 1.5, query=lambda _: [({"x": value}, 2.0)]), str)


@given(st.text(max_size=30))
@settings(max_examples=300, deadline=None)
def test_the_value_of_a_label_comes_out_as_it_went_in(value: str) -> None:
    assert compile_template("<{{ $labels.x }}>").render({"x": value}, 0.0) == f"<{value}>"


LINES = [
    "groups:", "- name: a", "  rules:", "  - alert: A", "    expr: up == 0", "    expr: up ==", "    for: 5m", "    for: x",
    "    labels: {a: b}", "  - record: r", "  - {}", "  interval: 1m", "kind: List", "items: []", "---", "- &a", "- *a", "x: |",
    "    annotations: {s: '{{ $x }}'}", "anomaly: 1",
]  # fmt: skip


@given(st.lists(st.sampled_from(LINES), max_size=15).map("\n".join) | st.text(max_size=80))
@settings(max_examples=500, deadline=None)
def test_a_rule_file_loads_or_says_where_it_is_wrong(text: str) -> None:
    groups, problems = load_rules(text, "file.yaml")
    assert len({group.key for group in groups}) == len(groups)
    for problem in problems:
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.message


@given(st.text(st.characters(codec="ascii", min_codepoint=32, exclude_characters="\x7f"), min_size=1), st.data())
@settings(max_examples=200, deadline=None)
def test_positions_in_quoted_text_point_at_the_character(text: str, data: st.DataObject) -> None:
    quote = data.draw(st.sampled_from("'\""))
    inner = text.replace("'", "''") if quote == "'" else text.replace("\\", "\\\\").replace('"', '\\"')
    line = f"key: {quote}{inner}{quote}"
    (document,) = read_documents(line)
    assert isinstance(document, Mapping)
    value = document.value("key")
    assert isinstance(value, Scalar)
    assert value.text == text
    for offset, character in enumerate(text):
        if not character.isspace():
            _, column = value.position(offset)
            assert character in line[column - 1 : column + 1]


@given(st.integers(0, 9 * 10**12))
def test_a_duration_reads_back_as_it_was_written(milliseconds: int) -> None:
    assert round(parse_duration(format_duration(milliseconds / 1000)) * 1000) == milliseconds


@given(st.dictionaries(st.sampled_from(["pod", "node", "namespace", "instance", "job", "deployment"]), st.text()))
@settings(max_examples=300, deadline=None)
def test_in_an_empty_cluster_nothing_is_found_whatever_the_labels(labels: dict[str, str]) -> None:
    found = resolve(labels, EMPTY)
    assert isinstance(found, Unresolved)
    assert found.detail
