"""The alert state machine of one rule: inactive, pending, firing, as Prometheus runs it. Pure: state in, state out.

Two differences, both on the side of not losing an alert: over the limit the state stays instead of being forgotten,
and an eager step (samples arrived out of turn) may only begin or advance alerts, never end one.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from healer.errors import QueryError
from healer.model.alerts import Alert, AlertStatus
from healer.model.series import METRIC_NAME, Labels
from healer.rules.definitions import AlertRule
from healer.rules.templates import Query

ALERT_NAME: Final = "alertname"
ALERT_STATE: Final = "alertstate"
ALERTS: Final = "ALERTS"
ALERTS_FOR_STATE: Final = "ALERTS_FOR_STATE"
RESOLVED_KEPT_MS: Final = 15 * 60 * 1000
LONGEST_OUTAGE_MS: Final = 60 * 60 * 1000

Row = tuple[Labels, float]
"""A series and its value at the time of evaluation."""


class Phase(enum.StrEnum):
    INACTIVE = "inactive"
    PENDING = "pending"
    FIRING = "firing"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ActiveAlert:
    """One label set of a rule. Times in milliseconds since the epoch.

    `active_at_ms`: since when the expression holds. `keep_firing_since_ms`: since when it does not, while the alert is
    kept firing. Inactive ones were firing, ended at `resolved_at_ms` and are remembered for a while.
    """

    labels: Labels
    annotations: Mapping[str, str]
    phase: Phase
    active_at_ms: int
    value: float
    fired_at_ms: int | None = None
    keep_firing_since_ms: int | None = None
    resolved_at_ms: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RuleState:
    """Every alert of one rule, by its labels."""

    alerts: Mapping[Labels, ActiveAlert] = dataclasses.field(default_factory=dict)

    @property
    def firing(self) -> tuple[ActiveAlert, ...]:
        return tuple(alert for alert in self.alerts.values() if alert.phase is Phase.FIRING)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an evaluation knows besides the data. `cluster` is for series without a label `cluster`."""

    cluster: str = ""
    external_labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
    external_url: str = ""
    query: Query | None = None


NOTHING_AROUND: Final = Surroundings()


def step(
    rule: AlertRule,
    state: RuleState,
    vector: Iterable[Row],
    *,
    at_ms: int,
    eager: bool = False,
    limit: int = 0,
    around: Surroundings = NOTHING_AROUND,
) -> tuple[RuleState, tuple[Alert, ...]]:
    """The state after evaluating `rule` to `vector` at `at_ms`, and the alerts that began or stopped firing.

    Raises QueryError (the state then stays as it was) when two rows get the same labels, or more than `limit` are active.
    """
    seen = _labelled(rule, vector, at_ms, around)
    alerts: dict[Labels, ActiveAlert] = {}
    changes: list[ActiveAlert] = []
    for labels, known in state.alerts.items():
        if labels in seen:
            continue
        after = known if eager else _absent(rule, known, at_ms)
        if after is not None:
            alerts[labels] = after
        if known.phase is Phase.FIRING and after is not None and after.phase is Phase.INACTIVE:
            changes.append(after)
    for labels, row in seen.items():
        before = state.alerts.get(labels)
        after = _present(rule, before, row, at_ms)
        alerts[labels] = after
        if after.phase is Phase.FIRING and (before is None or before.phase is not Phase.FIRING):
            changes.append(after)
    active = sum(alert.phase is not Phase.INACTIVE for alert in alerts.values())
    if limit and active > limit:
        raise QueryError(f"evaluating alert {rule.name!r}: exceeded limit of {limit} with {active} alerts")
    return RuleState(alerts=alerts), tuple(report(alert, around.cluster) for alert in changes)


def _labelled(rule: AlertRule, vector: Iterable[Row], at_ms: int, around: Surroundings) -> dict[Labels, ActiveAlert]:
    """What the rows look like as alerts, by their final labels."""
    seen: dict[Labels, ActiveAlert] = {}
    for series, value in vector:

        def expand(templates: Mapping[str, Any], series: Labels = series, value: float = value) -> dict[str, str]:
            return {
                name: template.render(series, value, around.external_labels, around.external_url, around.query)
                for name, template in templates.items()
            }

        own = {**expand(rule.labels), METRIC_NAME: "", ALERT_NAME: rule.name}
        labels = Labels({**dict(series.pairs), **own})
        if labels in seen:
            raise QueryError(
                f"evaluating alert {rule.name!r}: two series end in the same alert {labels}; "
                "labels of the rule must not hide what tells its series apart"
            )
        seen[labels] = ActiveAlert(
            labels=labels, annotations=expand(rule.annotations), phase=Phase.PENDING, active_at_ms=at_ms, value=value
        )
    return seen


def _present(rule: AlertRule, before: ActiveAlert | None, row: ActiveAlert, at_ms: int) -> ActiveAlert:
    alert = row
    if before is not None and before.phase is not Phase.INACTIVE:
        alert = dataclasses.replace(before, value=row.value, annotations=row.annotations, keep_firing_since_ms=None)
    if alert.phase is Phase.PENDING and at_ms - alert.active_at_ms >= rule.for_seconds * 1000:
        alert = dataclasses.replace(alert, phase=Phase.FIRING, fired_at_ms=at_ms)
    return alert


def _absent(rule: AlertRule, alert: ActiveAlert, at_ms: int) -> ActiveAlert | None:
    """What becomes of an alert whose series is gone; None: forget it."""
    if alert.phase is Phase.PENDING:
        return None
    if alert.phase is Phase.INACTIVE:
        kept = alert.resolved_at_ms is not None and at_ms - alert.resolved_at_ms <= RESOLVED_KEPT_MS
        return alert if kept else None
    if rule.keep_firing_for_seconds > 0:
        since = at_ms if alert.keep_firing_since_ms is None else alert.keep_firing_since_ms
        if at_ms - since < rule.keep_firing_for_seconds * 1000:
            return dataclasses.replace(alert, keep_firing_since_ms=since)
    return dataclasses.replace(alert, phase=Phase.INACTIVE, resolved_at_ms=at_ms)


def retire(state: RuleState, *, at_ms: int, cluster: str = "") -> tuple[Alert, ...]:
    """Resolutions for a rule that is no longer loaded, so that nothing stays firing for ever."""
    ended = (dataclasses.replace(alert, phase=Phase.INACTIVE, resolved_at_ms=at_ms) for alert in state.firing)
    return tuple(report(alert, cluster) for alert in ended)


def after_outage(state: RuleState, *, down_ms: int, up_ms: int) -> RuleState:
    """`state` as it was saved at `down_ms`, for going on at `up_ms`.

    Time that nobody watched does not count towards `for`; after a long outage what was pending begins anew.
    """
    outage = max(0, up_ms - down_ms)
    alerts: dict[Labels, ActiveAlert] = {}
    for labels, alert in state.alerts.items():
        if alert.phase is not Phase.PENDING:
            alerts[labels] = alert
        elif outage <= LONGEST_OUTAGE_MS:
            alerts[labels] = dataclasses.replace(alert, active_at_ms=alert.active_at_ms + outage)
    return RuleState(alerts=alerts)


def report(alert: ActiveAlert, cluster: str = "") -> Alert:
    """`alert` as the rest of the service knows it; `cluster` where the series names none."""
    is_over = alert.phase is Phase.INACTIVE
    return Alert(
        cluster=alert.labels.get("cluster") or cluster,
        status=AlertStatus.RESOLVED if is_over else AlertStatus.FIRING,
        labels=alert.labels,
        annotations=alert.annotations,
        starts_at=_moment(alert.active_at_ms),
        ends_at=None if alert.resolved_at_ms is None else _moment(alert.resolved_at_ms),
        source="rules",
        value=alert.value,
    )


def _moment(at_ms: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=at_ms)


def series(state: RuleState) -> Iterator[Row]:
    """ALERTS and ALERTS_FOR_STATE of everything pending or firing."""
    for alert in state.alerts.values():
        if alert.phase is not Phase.INACTIVE:
            named = {METRIC_NAME: ALERTS, ALERT_STATE: alert.phase.value}
            yield alert.labels.with_(**named), 1.0
            yield alert.labels.with_(**{METRIC_NAME: ALERTS_FOR_STATE}), alert.active_at_ms / 1000


def dump(state: RuleState) -> list[dict[str, Any]]:
    """`state` as JSON values. Numbers that JSON lacks are text."""
    return [
        {
            "labels": dict(alert.labels.pairs),
            "annotations": dict(alert.annotations),
            "phase": alert.phase.value,
            "active_at_ms": alert.active_at_ms,
            "value": repr(alert.value),
            "fired_at_ms": alert.fired_at_ms,
            "keep_firing_since_ms": alert.keep_firing_since_ms,
            "resolved_at_ms": alert.resolved_at_ms,
        }
        for alert in state.alerts.values()
    ]


def restore(rows: Iterable[Mapping[str, Any]]) -> RuleState:
    """What `dump` wrote. ValueError for anything else."""
    alerts: dict[Labels, ActiveAlert] = {}
    try:
        for row in rows:
            labels = Labels({str(name): str(value) for name, value in row["labels"].items()})
            alerts[labels] = ActiveAlert(
                labels=labels,
                annotations={str(name): str(value) for name, value in row["annotations"].items()},
                phase=Phase(row["phase"]),
                active_at_ms=int(row["active_at_ms"]),
                value=float(row["value"]),
                fired_at_ms=_optional(row["fired_at_ms"]),
                keep_firing_since_ms=_optional(row["keep_firing_since_ms"]),
                resolved_at_ms=_optional(row["resolved_at_ms"]),
            )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"restoring alert state: {error!r}") from error
    return RuleState(alerts=alerts)


def _optional(value: Any) -> int | None:
    return None if value is None else int(value)
