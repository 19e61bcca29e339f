"""The scenarios in docs/scenarios.md pass as they stand there."""

from __future__ import annotations

import inspect
import re  # noqa: TID251 (a fixed pattern over our own documents)
from collections.abc import Callable, Iterator

import pytest

from healer.testing.scenario import Scenario
from tests.documents import DOCS, blocks

DOCUMENT = DOCS / "scenarios.md"


def scenarios() -> Iterator[tuple[str, str, str]]:
    """The name of each test in the document, its source, and where that stands."""
    for block in blocks(DOCUMENT, "python"):
        for name in re.findall(r"^def (test_\w+)\(\):$", block.text, re.MULTILINE):
            yield name, block.text, block.place


@pytest.mark.parametrize(("name", "source", "place"), [pytest.param(*found, id=found[0]) for found in scenarios()])
def test_the_scenario_passes(name: str, source: str, place: str) -> None:
    namespace: dict[str, Callable[[], None]] = {}
    exec(compile(source, place, "exec"), namespace)  # noqa: S102 (our own document)
    namespace[name]()


def test_every_block_of_python_holds_a_scenario() -> None:
    assert all("def test_" in block.text for block in blocks(DOCUMENT, "python"))
    assert len(list(scenarios())) >= 6


def test_everything_that_can_be_called_is_described_and_exists() -> None:
    text = DOCUMENT.read_text("utf-8")
    called = set(re.findall(r"\bs\.(\w+)", text))
    given = {name for name, _ in inspect.getmembers(Scenario) if not name.startswith("_")}
    attributes = {"api_faults", "journal", "messages", "world", "clock", "provider", "api", "config", "beside"}
    assert called <= given | attributes
    undescribed = {"prepared", "service", "now", "decisions", "of_kind", "incidents"}
    assert given - undescribed <= called
