"""A few series given by their values, and questions to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from healer.model.series import Columns, Labels
from healer.rules.promql import Result, Scalar, Select, Vector, evaluate, parse, selects
from healer.rules.promql.tree import VectorSelector

Values = Sequence[float | None]


def labels_of(text: str) -> Labels:
    """The labels that a selector of equality matchers spells."""
    node = parse(text)
    assert isinstance(node, VectorSelector)
    return Labels((matcher.name, matcher.value) for matcher in node.all_matchers)


@dataclasses.dataclass
class Data:
    """Samples that `fetch` answers from; it refuses what the plan of the query did not announce."""

    samples: dict[Labels, list[tuple[int, float]]] = dataclasses.field(default_factory=dict)

    def load(self, step_seconds: float, series: Mapping[str, Values], *, start_seconds: float = 0) -> Data:
        """Adds values at start, start + step, …; None for no sample."""
        for text, values in series.items():
            rows = self.samples.setdefault(labels_of(text), [])
            rows.extend(
                (round((start_seconds + i * step_seconds) * 1000), value)
                for i, value in enumerate(values)
                if value is not None
            )
            rows.sort(key=lambda row: row[0])
        return self

    def fetch(self, select: Select) -> Columns:
        found: list[tuple[Labels, list[tuple[int, float]]]] = []
        for labels in sorted(self.samples):
            rows = [row for row in self.samples[labels] if select.start_ms <= row[0] <= select.end_ms]
            if rows and all(matcher.matches(labels) for matcher in select.matchers):
                found.append((labels, rows))
        return Columns(
            labels=tuple(labels for labels, _ in found),
            offsets=np.cumsum([0, *(len(rows) for _, rows in found)]),
            times_ms=np.array([row[0] for _, rows in found for row in rows], dtype=np.int64),
            values=np.array([row[1] for _, rows in found for row in rows], dtype=np.float64),
        )

    def query(self, text: str, start: float, end: float | None = None, step: float = 0) -> Result:
        """`text` evaluated from start to end, in seconds."""
        expr = parse(text)
        times = {
            "start_ms": round(start * 1000),
            "end_ms": round((start if end is None else end) * 1000),
            "step_ms": round(step * 1000),
        }
        planned = {select: self.fetch(select) for select in selects(expr, **times)}
        return evaluate(expr, planned.__getitem__, **times)

    def at(self, text: str, seconds: float) -> dict[str, float]:
        """The samples of an instant vector, by their labels as text."""
        result = self.query(text, seconds)
        assert isinstance(result, Vector)
        return {str(labels): value for labels, value in result.at()}

    def number(self, text: str, seconds: float = 0) -> float:
        result = self.query(text, seconds)
        assert isinstance(result, Scalar)
        return float(result.values[0])

    def over(self, text: str, start: float, end: float, step: float) -> dict[str, list[float | None]]:
        """The rows of a range query; None where there is no sample."""
        result = self.query(text, start, end, step)
        assert isinstance(result, Vector)
        return {
            str(labels): [
                float(value) if there else None
                for value, there in zip(result.values[row], result.present[row], strict=True)
            ]
            for row, labels in enumerate(result.labels)
        }

    def annotations(self, text: str, seconds: float) -> list[str]:
        return [f"{note} {text[note.start : note.end]}" for note in self.query(text, seconds).annotations]


@pytest.fixture
def data() -> Data:
    return Data()
