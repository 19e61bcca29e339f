"""From files to everything that a configuration means, or to every mistake in them at once. Starts nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from healer import plugins
from healer.config import convert, loading
from healer.config.context import Location
from healer.config.loading import Loaded
from healer.config.remedies import Remedy as GivenRemedy
from healer.config.schema import Config
from healer.errors import ConfigError, Problem, QueryError
from healer.loop.book import Book
from healer.model.plans import Remedy
from healer.ports import Action, Provider
from healer.rules import packs, promql
from healer.rules.definitions import Group
from healer.rules.remedies import RemedyIndex
from healer.rules.rulefiles import load_rules
from healer.rules.targets import parse_template
from healer.safety.state import ActiveWindow, SafetySettings
from healer.safety.windows import MaintenanceWindow, WindowError, open_windows


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A configuration, checked to the last rule."""

    loaded: Loaded
    groups: tuple[Group, ...]
    remedies: tuple[Remedy, ...]
    actions: Mapping[str, Sequence[Action]]
    windows: tuple[MaintenanceWindow, ...]
    digest: str

    @property
    def files(self) -> tuple[Path, ...]:
        """The configuration, every rule file and their folders (files may be added), to be watched for changes."""
        rules = [file for source in self.config.rules for file in source.files]
        return (self.loaded.path, *rules, *sorted({file.parent for file in rules}))

    @property
    def config(self) -> Config:
        return self.loaded.config

    def book(self, providers: Mapping[str, Provider]) -> Book:
        """What the loop works with."""
        safety = self.config.safety

        def windows(at: datetime) -> tuple[ActiveWindow, ...]:
            return open_windows(self.windows, at)

        return Book(
            remedies={remedy.name: remedy for remedy in self.remedies},
            index=RemedyIndex(self.remedies),
            actions=self.actions,
            safety=SafetySettings(
                max_unhealthy=safety.max_unhealthy,
                max_in_flight=safety.max_in_flight,
                max_in_flight_all_clusters=convert.limit(safety.max_in_flight_all_clusters),
                max_in_flight_per_zone=safety.max_in_flight_per_zone,
                max_in_flight_workloads=safety.max_in_flight_workloads,
                zone_outage_percent=safety.zone_outage_share.percent or 100.0,
                stale_after_seconds=safety.stale_after.total_seconds(),
                grace_after_outage_seconds=safety.grace_after_outage.total_seconds(),
            ),
            windows=windows,
            providers=providers,
            approvers={name: frozenset(members) for name, members in self.config.approvers.items()},
            protected_namespaces=frozenset(safety.protected_namespaces),
            self_cluster=safety.self_.cluster,
            self_node=safety.self_.node,
            self_namespace=safety.self_.namespace,
            max_event_age=safety.max_event_age,
            digest=self.digest,
        )


def prepare(path: Path) -> Prepared:
    """Everything that the file at `path` names. ConfigError carries every problem in it and in its rule files."""
    return _prepare(loading.load(path))


def prepare_text(text: str, path: Path) -> Prepared:
    """As `prepare`, from text; `path` names it in messages."""
    return _prepare(loading.parse(text, path))


def _prepare(loaded: Loaded) -> Prepared:
    problems: list[Problem] = []
    groups, texts = _rules(loaded, problems)
    remedies = convert.remedies(loaded.config)
    windows = _windows(loaded, problems)
    problems += check_remedies(loaded.problem, remedies)
    if problems:
        raise ConfigError(loading.in_order(problems))
    return Prepared(
        loaded=loaded,
        groups=groups,
        remedies=remedies,
        actions=actions_of(loaded.config.remedies),
        windows=windows,
        digest=loading.digest(loaded.text, *texts),
    )


def _rules(loaded: Loaded, problems: list[Problem]) -> tuple[tuple[Group, ...], list[str]]:
    groups: list[Group] = []
    texts: list[str] = []
    for index, source in enumerate(loaded.config.rules):
        if source.pack:
            if source.pack not in packs.names():
                known = ", ".join(packs.names())
                problems.append(
                    loaded.problem(("rules", index), f"there is no pack {source.pack!r}; there are {known}")
                )
                continue
            files = [(f"pack:{source.pack}", packs.read(source.pack))]
        else:
            files = []
            for file in source.files:
                try:
                    files.append((str(file), file.read_text(encoding="utf-8")))
                except (OSError, UnicodeDecodeError) as error:
                    problems.append(
                        Problem(file=str(file), line=1, column=1, path="", message=f"cannot be read: {error}")
                    )
        for name, text in files:
            loaded_groups, found = load_rules(text, name)
            groups += loaded_groups
            problems += found
            texts.append(text)
    return tuple(groups), texts


def _windows(loaded: Loaded, problems: list[Problem]) -> tuple[MaintenanceWindow, ...]:
    windows: list[MaintenanceWindow] = []
    for index, given in enumerate(loaded.config.safety.maintenance):
        try:
            windows.append(
                MaintenanceWindow(
                    name=given.name,
                    schedule=given.cron,
                    duration_seconds=given.duration.total_seconds(),
                    timezone=given.timezone,
                    matchers=given.when,
                )
            )
        except WindowError as error:
            problems.append(loaded.problem(("safety", "maintenance", index, "cron"), str(error)))
    return tuple(windows)


def actions_of(given: Sequence[GivenRemedy]) -> dict[str, Sequence[Action]]:
    """The steps of each remedy, ready to be planned."""
    return {
        remedy.name: tuple(plugins.load(plugins.ACTIONS, step.name)(step.settings) for step in remedy.steps)
        for remedy in given
    }


def check_remedies(problem: Callable[[Location, str], Problem], remedies: Sequence[Remedy]) -> list[Problem]:
    """What needs the parser of PromQL, or of targets. `problem` knows the places."""
    problems: list[Problem] = []
    for index, remedy in enumerate(remedies):
        if remedy.verify.query is not None:
            try:
                promql.parse(remedy.verify.query)
            except QueryError as error:
                problems.append(problem(("remedies", index, "verify", "query"), str(error)))
        if remedy.target:
            try:
                parse_template(remedy.target)
            except ValueError as error:
                problems.append(problem(("remedies", index, "target"), str(error)))
    return problems
