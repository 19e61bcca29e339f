"""A configuration with what stands in clusters: further remedies and rules, each object whole or not at all. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from healer.app.prepare import Prepared, actions_of, check_remedies
from healer.config import convert, loading
from healer.errors import ConfigError, Problem
from healer.kube.configured import Texts
from healer.model.plans import Mode, Remedy
from healer.ports import Action
from healer.rules.definitions import Group
from healer.rules.rulefiles import load_rules

ORDER: Final = (Mode.SHADOW, Mode.SUGGEST, Mode.APPROVE, Mode.AUTO)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """An object's texts, and the most that its remedies may do by themselves."""

    texts: Texts
    at_most: Mode


@dataclasses.dataclass(slots=True)
class _Part:
    remedies: list[Remedy] = dataclasses.field(default_factory=list)
    actions: dict[str, Sequence[Action]] = dataclasses.field(default_factory=dict)
    groups: list[Group] = dataclasses.field(default_factory=list)


def with_more(base: Prepared, given: Given) -> Prepared:
    """`base` with everything in one more object. ConfigError has every problem in that."""
    part, problems = _Part(), list[Problem]()
    for name, text in given.texts.texts.items():
        if _holds_remedies(text):
            problems += _take_remedies(base, part, text, name, given.at_most)
        else:
            groups, found = load_rules(text, name)
            part.groups += groups
            problems += found
    if problems:
        raise ConfigError(loading.in_order(problems))
    return dataclasses.replace(
        base,
        groups=(*base.groups, *part.groups),
        remedies=(*base.remedies, *part.remedies),
        actions={**base.actions, **part.actions},
        digest=loading.digest(base.digest, *given.texts.texts.values()),
    )


def _holds_remedies(text: str) -> bool:
    """Whether `remedies:` begins a line: what is neither remedies nor rules is judged as rules, the more common."""
    return any(line.startswith("remedies:") for line in text.splitlines())


def _take_remedies(base: Prepared, part: _Part, text: str, name: str, at_most: Mode) -> Sequence[Problem]:
    elsewhere = [remedy.name for remedy in (*base.remedies, *part.remedies)]
    try:
        given, source = loading.parse_more(text, name, base.loaded, elsewhere)
    except ConfigError as error:
        return error.problems
    remedies = tuple(map(convert.remedy, given))
    problems = check_remedies(source.problem, remedies)
    problems += [
        source.problem(("remedies", index, "mode"), f"may be {at_most} at most here (`at_most` of this source)")
        for index, remedy in enumerate(remedies)
        if ORDER.index(remedy.mode) > ORDER.index(at_most)
    ]
    part.remedies += remedies
    part.actions.update(actions_of(given))
    return problems
