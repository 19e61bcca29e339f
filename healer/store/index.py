"""Which series there are, and which of them a list of matchers means.

Every label pair has a posting list of series numbers. Numbers are used again once their series is gone, so that the
arrays that are indexed by them do not grow with churn.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from healer.model.matchers import Matcher, MatchOp
from healer.model.series import Labels
from healer.store.columns import Ids

FEW: Final = 256
"""Up to so many candidates are looked at one by one; beyond that posting lists are intersected."""
REMEMBERED_SELECTIONS: Final = 2048


class SeriesIndex:
    """Label sets and their numbers."""

    def __init__(self) -> None:
        self._ids: dict[Labels, int] = {}
        self._labels: list[Labels | None] = []
        self._free: list[int] = []
        self._postings: dict[str, dict[str, array[int]]] = {}
        self._selections: dict[tuple[Matcher, ...], Ids] = {}

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def capacity(self) -> int:
        """One more than the highest number ever given."""
        return len(self._labels)

    def find_all(self, labels: Sequence[Labels]) -> list[int | None]:
        """The number of each, None for one that is new."""
        return list(map(self._ids.get, labels))

    def labels(self, id_: int) -> Labels:
        labels = self._labels[id_]
        if labels is None:
            raise KeyError(id_)
        return labels

    def add(self, labels: Labels) -> int:
        """The number of a series, which is new if need be."""
        known = self._ids.get(labels)
        if known is not None:
            return known
        if self._free:
            id_ = self._free.pop()
            self._labels[id_] = labels
        else:
            id_ = len(self._labels)
            self._labels.append(labels)
        self._ids[labels] = id_
        for name, value in labels.pairs:
            self._postings.setdefault(name, {}).setdefault(value, array("i")).append(id_)
        self._selections.clear()
        return id_

    def remove(self, ids: Iterable[int]) -> None:
        """Forget series."""
        gone = set(ids)
        touched: set[tuple[str, str]] = set()
        for id_ in gone:
            labels = self.labels(id_)
            del self._ids[labels]
            self._labels[id_] = None
            touched.update(labels.pairs)
        self._free.extend(gone)
        for name, value in touched:
            left = array("i", (id_ for id_ in self._postings[name][value] if id_ not in gone))
            if left:
                self._postings[name][value] = left
                continue
            del self._postings[name][value]
            if not self._postings[name]:
                del self._postings[name]
        self._selections.clear()

    def select(self, matchers: Sequence[Matcher]) -> Ids:
        """The series that every matcher matches, lowest number first. Remembered until a series comes or goes."""
        key = tuple(matchers)
        known = self._selections.get(key)
        if known is None:
            known = np.sort(self._search(key))
            if len(self._selections) >= REMEMBERED_SELECTIONS:
                self._selections.clear()
            self._selections[key] = known
        return known

    def _search(self, matchers: tuple[Matcher, ...]) -> Ids:
        # The equality with the fewest series first: what follows has little left to look at.
        ordered = sorted(matchers, key=self._expected)
        candidates: Ids | None = None
        for matcher in ordered:
            if candidates is None:
                candidates = self._all_matching(matcher)
            elif len(candidates) <= FEW:
                kept = [id_ for id_ in candidates.tolist() if matcher.matches(self.labels(id_))]
                candidates = np.array(kept, dtype=np.int32)
            else:
                candidates = self._narrow(candidates, matcher)
            if not len(candidates):
                break
        return self._everything() if candidates is None else candidates

    def _expected(self, matcher: Matcher) -> int:
        values = self._postings.get(matcher.name, {})
        if matcher.op is MatchOp.EQUAL and matcher.value:
            return len(values.get(matcher.value, ()))
        return len(self._ids) + len(values)

    def _everything(self) -> Ids:
        return np.fromiter(self._ids.values(), dtype=np.int32, count=len(self._ids))

    def _all_matching(self, matcher: Matcher) -> Ids:
        if matcher.matches_value(""):
            return self._narrow(self._everything(), matcher)
        return self._with_value(matcher, matching=True)

    def _narrow(self, candidates: Ids, matcher: Matcher) -> Ids:
        if matcher.matches_value(""):
            excluded = self._with_value(matcher, matching=False)
            return candidates[~np.isin(candidates, excluded)]
        return candidates[np.isin(candidates, self._with_value(matcher, matching=True))]

    def _with_value(self, matcher: Matcher, *, matching: bool) -> Ids:
        """Series that have the label, with a value that matches, or with one that does not."""
        values = self._postings.get(matcher.name, {})
        if matching and matcher.op is MatchOp.EQUAL:
            lists = [values[matcher.value]] if matcher.value in values else []
        else:
            lists = [ids for value, ids in values.items() if matcher.matches_value(value) == matching]
        return np.concatenate([np.frombuffer(one, dtype=np.int32) for one in lists]) if lists else np.zeros(0, np.int32)
