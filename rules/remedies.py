"""Which remedy an incident gets: the same one every time, and what it was preferred to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from healer.model.matchers import MatchOp
from healer.model.plans import Remedy
from healer.model.series import Labels

KNOWN_KEPT: Final = 20_000
"""Label sets of which it is remembered what matches them."""
_NAME: Final = "alertname"
_NONE: Final[frozenset[str]] = frozenset()


class RemedyIndex:
    """All remedies, found by alert name: one of two hundred costs no more than one of two.

    `remedies` in the order of the file; `rank`: their places by name, the preferred one first.
    """

    __slots__ = ("_any", "_by_name", "_known", "rank", "remedies")

    def __init__(self, remedies: Iterable[Remedy]) -> None:
        self.remedies = tuple(remedies)
        # sorted() is stable: among equal priorities the order of the file stays.
        ranked = sorted(enumerate(self.remedies), key=lambda pair: -pair[1].priority)
        self.rank: Mapping[str, int] = {remedy.name: rank for rank, (_, remedy) in enumerate(ranked)}
        self._by_name: dict[str, list[tuple[int, Remedy]]] = {}
        self._any: list[tuple[int, Remedy]] = []
        self._known: dict[Labels, tuple[Remedy, ...]] = {}
        for rank, (_, remedy) in enumerate(ranked):
            name = _required_name(remedy)
            (self._any if name is None else self._by_name.setdefault(name, [])).append((rank, remedy))

    def matching(self, labels: Mapping[str, str]) -> tuple[Remedy, ...]:
        """Every remedy whose matchers fit, the preferred one first."""
        if not isinstance(labels, Labels):
            return self._matching(labels)
        # Asked again for every alert of an incident whenever it is looked at.
        known = self._known.get(labels)
        if known is None:
            if len(self._known) >= KNOWN_KEPT:
                self._known.clear()
            known = self._known[labels] = self._matching(labels)
        return known

    def _matching(self, labels: Mapping[str, str]) -> tuple[Remedy, ...]:
        named = self._by_name.get(labels.get(_NAME, ""), ())
        fitting = [pair for pair in (*named, *self._any) if pair[1].matches(labels)]
        fitting.sort(key=lambda pair: pair[0])
        return tuple(remedy for _, remedy in fitting)

    def choose(
        self, labels: Mapping[str, str], failed: frozenset[str] = _NONE
    ) -> tuple[Remedy | None, tuple[Remedy, ...]]:
        """The remedy to use, and those that would have been used without it. See `choose`."""
        return choose(self.matching(labels), labels, failed)


def choose(
    remedies: Iterable[Remedy], labels: Mapping[str, str], failed: frozenset[str] = _NONE
) -> tuple[Remedy | None, tuple[Remedy, ...]]:
    """The remedy for an alert, or None, and the superseded ones in order of preference.

    Higher priority first, then the order given. A remedy in `failed` (by name) has had its turn on this incident; one
    with `after` waits until all of those have failed, and then comes before those without: it is the next rung.
    """
    open_ = [
        remedy
        for remedy in remedies
        if remedy.name not in failed and failed.issuperset(remedy.after) and remedy.matches(labels)
    ]
    open_.sort(key=lambda remedy: (-remedy.priority, not remedy.after))
    return (open_[0], tuple(open_[1:])) if open_ else (None, ())


def _required_name(remedy: Remedy) -> str | None:
    """The one alert name that `remedy` can match, if it is one."""
    return next((m.value for m in remedy.matchers if m.name == _NAME and m.op is MatchOp.EQUAL and m.value), None)
