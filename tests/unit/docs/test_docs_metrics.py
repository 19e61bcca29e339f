"""Every metric of Healer's own is described and set somewhere; the rules that are recommended can be loaded and use only these."""

from __future__ import annotations

import re  # noqa: TID251 (fixed patterns over our own documents)

import pytest
from prometheus_client.openmetrics.exposition import generate_latest

from healer import telemetry
from healer.rules import promql
from healer.rules.rulefiles import load_rules
from scripts import generate_docs
from tests.documents import DOCS, ROOT, blocks

DOCUMENT = DOCS / "metrics.md"
TEXT = DOCUMENT.read_text("utf-8")
NAMES = {generate_docs.exported_name(metric) for metric in generate_docs.own_metrics()}
SUFFIXES = ("", "_bucket", "_sum", "_count")


def test_every_metric_has_its_row_and_none_is_invented() -> None:
    assert re.findall(r"^\| `(healer_\w+)` \|", TEXT, re.MULTILINE) == [
        generate_docs.exported_name(metric) for metric in generate_docs.own_metrics()
    ]


def test_every_metric_that_is_exported_is_declared_in_one_place() -> None:
    page: bytes = generate_latest(telemetry.REGISTRY)  # type: ignore[no-untyped-call]
    families = set(re.findall(r"^# TYPE (\w+)", page.decode(), re.MULTILINE))
    assert families == {name.removesuffix("_total") for name in NAMES}


def test_every_metric_in_advice_exists() -> None:
    named = set(re.findall(r"\bhealer_\w+", TEXT))
    assert named <= {name + suffix for name in NAMES for suffix in SUFFIXES}


@pytest.mark.parametrize(
    "constant",
    [
        name
        for name, value in vars(telemetry).items()
        if name.isupper() and name != "REGISTRY" and hasattr(value, "_labelnames")
    ],
)
def test_every_metric_is_set_somewhere(constant: str) -> None:
    folders = ("healer", "collectors", "rules", "actions")
    sources = (path for folder in folders for path in (ROOT / folder).rglob("*.py") if path.name != "telemetry.py")
    assert any(re.search(rf"telemetry\.{constant}\b", path.read_text("utf-8")) for path in sources)


def test_the_recommended_rules_can_be_loaded_and_every_expression_parses() -> None:
    (rules,) = (block for block in blocks(DOCUMENT, "yaml") if block.name == "healer-alerts.yaml")
    groups, problems = load_rules(rules.text, rules.name)
    assert not problems, problems
    assert [len(group.rules) for group in groups] == [rules.text.count("- alert:")]


def test_the_questions_are_asked_in_promql() -> None:
    queries = re.findall(r"^\|[^|]+\| `([^`]+)` \|$", TEXT, re.MULTILINE)
    assert len(queries) >= 4
    for query in queries:
        promql.parse(query)
