"""Reads metrics pages: Prometheus text 0.0.4 and OpenMetrics 1.0, as strictly as Prometheus does.

One wrong line makes the whole page wrong, since half a page would look like series that have vanished. What a series
is called is parsed once per target: for the next page its bytes are looked up, and only the numbers are converted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from healer.collectors import exposition_lines
from healer.collectors.exposition_layout import Layout, floats
from healer.collectors.exposition_lines import EOF, HASH, Wrong
from healer.model.series import Floats, Labels, Times

NO_TIME: Final = -(2**63)
"""In `Page.times_ms`: the sample has no time of its own."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What a page says: row i is (labels[i], values[i], times_ms[i]). With any `errors` there are no rows.

    `labels` is the same tuple as that of the page before, when the series are the same and in the same order.
    `times_ms` is None when no sample has a time of its own. `duplicates`: rows left out because their series was there
    already. `errors`: (line from 1, what is wrong).
    """

    labels: tuple[Labels, ...] = ()
    values: Floats = dataclasses.field(default_factory=lambda: np.zeros(0))
    times_ms: Times | None = None
    duplicates: int = 0
    errors: tuple[tuple[int, str], ...] = ()


def parse(body: bytes, content_type: str) -> Page:
    """Read one page, without anything known beforehand."""
    return PageReader().read(body, content_type)


class _BadLine(Exception):
    """Position (from 0) of a wrong line among all, and what is wrong."""

    def __init__(self, position: int, what: str) -> None:
        super().__init__(what)
        self.position = position
        self.what = what


@dataclasses.dataclass(slots=True)
class _Rows:
    """A page half read: the samples' lines, their series (None: not a sample), and their numbers still as text."""

    lines: list[bytes]
    labels: list[Labels | None]
    numbers: list[bytes]
    times_ms: dict[int, int]
    """Own times, by row."""


class PageReader:
    """Reads the pages of one target, and remembers what its series are called."""

    def __init__(self, relabel: Callable[[Labels], Labels] = lambda labels: labels) -> None:
        """`relabel` makes the final labels of a series; a ValueError from it is an error of the page."""
        self._relabel = relabel
        self._names: dict[bytes, Labels] = {}
        self._canonical: dict[Labels, Labels] = {}
        self._labels: tuple[Labels, ...] = ()
        self._comments: list[bytes] = []
        self._openmetrics = False
        self._layout: Layout | None = None

    def read(self, body: bytes, content_type: str) -> Page:
        """Read a page; `content_type` is the answer's header, and says only whether it is OpenMetrics."""
        openmetrics = content_type.partition(";")[0].strip().lower() == "application/openmetrics-text"
        if openmetrics != self._openmetrics:
            self._names, self._comments, self._openmetrics = {}, [], openmetrics
            self._layout = None
        if self._layout is not None and (values := self._layout.read(body)) is not None:
            return Page(labels=self._labels, values=values)
        self._layout = None
        try:
            page = self._read(body)
        except _BadLine as error:
            return Page(errors=((error.position + 1, error.what),))
        if len(self._names) > 2 * len(page.labels) + 1000:
            self._forget_the_vanished(page)
        return page

    def _read(self, body: bytes) -> Page:
        every = body.split(b"\n")
        if self._openmetrics:
            _check_frame(every)
        self._check_comments(every)
        samples = [line for line in every if line and line[0] != HASH]
        parts = [line.rpartition(b" ") for line in samples]
        rows = _Rows(
            lines=samples,
            labels=list(map(self._names.get, [part[0] for part in parts])),
            numbers=[part[2] for part in parts],
            times_ms={},
        )
        if b"\t" in body or b"" in rows.numbers:
            # A tab may stand between number and timestamp, where the space was taken for the only separator.
            rows.labels = [
                known if part[2] and b"\t" not in part[2] else None
                for part, known in zip(parts, rows.labels, strict=True)
            ]
        if None in rows.labels:
            self._read_unusual(rows, every)
        values = _floats(rows, every)
        if not rows.times_ms and tuple(rows.labels) == self._labels:
            # The same series twice, in the same order: likely to stay so.
            if all(self._names.get(part[0]) for part in parts):
                self._layout = Layout(every, [part[0] for part in parts])
            return Page(labels=self._labels, values=values)
        return self._page(rows, values)

    def _check_comments(self, every: list[bytes]) -> None:
        comments = [line for line in every if line[:1] == b"#"]
        if comments == self._comments:
            return
        for position, line in enumerate(every):
            if line[:1] == b"#":
                self._check_comment(line, position)
        self._comments = comments

    def _check_comment(self, line: bytes, position: int) -> None:
        try:
            exposition_lines.check_comment(line, openmetrics=self._openmetrics)
        except Wrong as error:
            raise _BadLine(position, str(error)) from None

    def _read_unusual(self, rows: _Rows, every: list[bytes]) -> None:
        """Lines whose series is new, or that have more than a series, one space and a number."""
        for row, known in enumerate(rows.labels):
            if known is not None:
                continue
            try:
                self._read_row(rows, row)
            except Wrong as error:
                raise _BadLine(_position(every, row), str(error)) from None

    def _read_row(self, rows: _Rows, row: int) -> None:
        series, _, number = rows.lines[row].rpartition(b" ")
        series, _, earlier = series.rpartition(b" ")
        known = self._names.get(series)
        if known is not None and earlier and number and b"\t" not in rows.lines[row]:
            # A series that is known, a number and a timestamp.
            rows.labels[row], rows.numbers[row] = known, earlier
            rows.times_ms[row] = exposition_lines.time_ms(number, openmetrics=self._openmetrics)
            return
        line = rows.lines[row] if self._openmetrics else rows.lines[row].lstrip(b" \t")
        if not self._openmetrics and (not line or line[0] == HASH):
            rows.numbers[row] = b"0"
            exposition_lines.check_comment(line, openmetrics=False)
            return
        series, rows.numbers[row], time = exposition_lines.split(line, openmetrics=self._openmetrics)
        rows.labels[row] = self._names.get(series) or self._name(series)
        if time is not None:
            rows.times_ms[row] = exposition_lines.time_ms(time, openmetrics=self._openmetrics)

    def _name(self, series: bytes) -> Labels:
        try:
            labels = self._relabel(exposition_lines.labels(series))
        except ValueError as error:
            raise Wrong(str(error)) from None
        labels = self._canonical.setdefault(labels, labels)
        self._names[series] = labels
        return labels

    def _page(self, rows: _Rows, values: Floats) -> Page:
        times: Times | None = None
        if rows.times_ms:
            times = np.full(len(values), NO_TIME, dtype=np.int64)
            times[list(rows.times_ms)] = list(rows.times_ms.values())
        labels = [one for one in rows.labels if one is not None]
        duplicates = 0
        # Equal label sets are one object here, so that comparing identities is enough, and fast.
        if len(labels) < len(rows.labels) or len(set(map(id, labels))) < len(labels):
            kept = _first_of_each(rows)
            duplicates = len(labels) - len(kept)
            labels = [one for row in kept if (one := rows.labels[row]) is not None]
            values, times = values[kept], None if times is None else times[kept]
        found = tuple(labels)
        if found != self._labels:
            self._labels = found
        return Page(labels=self._labels, values=values, times_ms=times, duplicates=duplicates)

    def _forget_the_vanished(self, page: Page) -> None:
        there = set(page.labels)
        self._names = {series: labels for series, labels in self._names.items() if labels in there}
        self._canonical = {labels: labels for labels in page.labels}


def _check_frame(every: list[bytes]) -> None:
    """OpenMetrics ends with `# EOF`, so that a page that was cut off is not taken for whole, and has no empty lines."""
    end = len(every) - 1 if every[-1] else len(every) - 2
    if end < 0 or every[end] != EOF:
        raise _BadLine(max(0, end), "the page does not end with '# EOF'; it was cut off")
    if b"" in every[:end]:
        raise _BadLine(every.index(b""), "an empty line")
    if every.index(EOF) != end:
        raise _BadLine(every.index(EOF), "'# EOF' before the end")


def _floats(rows: _Rows, every: list[bytes]) -> Floats:
    quick = floats(rows.numbers)
    if quick is not None:
        return quick
    values = np.zeros(len(rows.numbers))
    for row, token in enumerate(rows.numbers):
        try:
            values[row] = exposition_lines.number(token)
        except Wrong as error:
            raise _BadLine(_position(every, row), str(error)) from None
    return values


def _first_of_each(rows: _Rows) -> list[int]:
    """The rows to keep. A series may be there more than once with different times of its own, as in Prometheus."""
    seen: set[tuple[int, int | None]] = set()
    kept: list[int] = []
    for row, labels in enumerate(rows.labels):
        key = (id(labels), rows.times_ms.get(row))
        if labels is not None and key not in seen:
            seen.add(key)
            kept.append(row)
    return kept


def _position(every: Sequence[bytes], row: int) -> int:
    """Where the line of sample `row` stands among all lines."""
    return [position for position, line in enumerate(every) if line and line[0] != HASH][row]
