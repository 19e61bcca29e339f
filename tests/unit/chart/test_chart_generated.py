"""What is made from elsewhere is as it would be made now; the dashboard asks only for metrics that there are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from healer.rules import promql
from healer.rules.rulefiles import load_rules
from scripts import generate_chart, generate_docs
from tests.documents import ROOT

BOARDS = sorted((ROOT / "dashboards").glob("*.json"))
SUFFIXES = ("", "_bucket", "_sum", "_count")


@pytest.mark.parametrize("path", generate_chart.files(), ids=lambda path: path.name)
def test_the_file_is_what_make_docs_would_write(path: Path) -> None:
    assert path.read_text("utf-8") == generate_chart.files()[path], "run `make docs`"


def test_there_is_nothing_else_among_them() -> None:
    found = {path for path in generate_chart.FILES.rglob("*") if path.is_file()}
    assert found == {path for path in generate_chart.files() if path.is_relative_to(generate_chart.FILES)}


def test_the_alerts_can_be_loaded_by_healer_itself() -> None:
    groups, problems = load_rules((generate_chart.FILES / "alerts.yaml").read_text("utf-8"), "alerts.yaml")
    assert list(problems) == []
    assert sum(len(group.rules) for group in groups) > 5


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.name)
def test_every_panel_asks_in_promql_for_metrics_that_healer_exports(path: Path) -> None:
    board: dict[str, Any] = json.loads(path.read_text("utf-8"))
    names = {generate_docs.exported_name(metric) for metric in generate_docs.own_metrics()}
    exported = {name + suffix for name in names for suffix in SUFFIXES}
    assert len(board["panels"]) > 5
    for panel in board["panels"]:
        assert panel["description"].endswith((".", "md", "`"))
        for target in panel["targets"]:
            expression = target["expr"]
            promql.parse(expression)
            words = "".join(letter if letter.isalnum() or letter == "_" else " " for letter in expression).split()
            asked = {word for word in words if word.startswith("healer_")}
            assert asked
            assert asked <= exported


@pytest.mark.parametrize("path", BOARDS, ids=lambda path: path.name)
def test_no_two_panels_lie_on_each_other(path: Path) -> None:
    panels = json.loads(path.read_text("utf-8"))["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
