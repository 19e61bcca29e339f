"""What a rule file says, as frozen values: groups of alerting and recording rules."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Final

from healer.model.series import Labels
from healer.rules import promql
from healer.rules.templates import Template

DEFAULT_INTERVAL_SECONDS: Final = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Position:
    """Where a rule begins in its file; both count from 1."""

    line: int
    column: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """An alerting rule. `text` is the expression as written; labels of the group are part of `labels`.

    `eager`: also evaluated as soon as samples of a metric it reads arrive; see `healer.rules.alerting.step`.
    """

    name: str
    expr: promql.Expr
    text: str
    for_seconds: float = 0.0
    keep_firing_for_seconds: float = 0.0
    labels: Mapping[str, Template] = dataclasses.field(default_factory=dict)
    annotations: Mapping[str, Template] = dataclasses.field(default_factory=dict)
    position: Position = dataclasses.field(default=Position(1, 1), compare=False)
    eager: bool = False

    @property
    def identity(self) -> str:
        """Kind, name and labels: a rule with the same ones after a reload inherits the state, whatever its expression."""
        labels = Labels({name: template.text for name, template in self.labels.items()})
        return f"alert:{self.name}{labels}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecordingRule:
    """A recording rule: the result of `expr` under the name `record`, with `labels` set."""

    record: str
    expr: promql.Expr
    text: str
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    position: Position = dataclasses.field(default=Position(1, 1), compare=False)

    @property
    def name(self) -> str:
        return self.record

    @property
    def identity(self) -> str:
        return f"record:{self.record}{Labels(self.labels)}"


Rule = AlertRule | RecordingRule


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Rules that are evaluated one after the other, at the same time.

    `manifest` is "namespace/name" of the PrometheusRule it stands in, if it does. `limit`: most series or alerts of one
    rule, 0 for any number. `query_offset_seconds`: how far in the past the expressions look, for late samples.
    """

    name: str
    file: str
    manifest: str = ""
    interval_seconds: float = DEFAULT_INTERVAL_SECONDS
    query_offset_seconds: float = 0.0
    limit: int = 0
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    eager: bool = False

    @property
    def key(self) -> str:
        """Names the group among all that are loaded, and after a reload."""
        return ";".join(filter(None, (self.file, self.manifest, self.name)))

    def keyed_rules(self) -> Iterator[tuple[str, Rule]]:
        """Every rule with the key of its state. Equal ones (recording rules may share name and labels) are numbered."""
        seen: dict[str, int] = {}
        for rule in self.rules:
            identity = rule.identity
            count = seen[identity] = seen.get(identity, 0) + 1
            yield f"{self.key};{identity}" + (f";{count}" if count > 1 else ""), rule
