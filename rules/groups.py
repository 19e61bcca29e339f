"""Evaluating a group of rules at one moment, and when that moment is.

Rules run in order, and each sees what those before it gave: `evaluate_group` yields after every rule, and whoever
drives it appends the batch to the store before asking for the next. What a rule remembers between evaluations is a
value, kept by the caller under the rule's key.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from healer.errors import QueryError
from healer.model.alerts import Alert
from healer.model.series import METRIC_NAME, STALE, Batch, Labels, batch
from healer.rules import alerting, promql
from healer.rules.alerting import NOTHING_AROUND, Row, RuleState, Surroundings
from healer.rules.definitions import AlertRule, Group, RecordingRule, Rule

NO_BATCH: Final = batch(())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What one rule keeps from evaluation to evaluation. `outputs`: the series it has written last."""

    identity: str
    alerts: RuleState = dataclasses.field(default_factory=RuleState)
    outputs: frozenset[Labels] = frozenset()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated:
    """What one rule gave. With an `error`, memory and store stay as they were."""

    key: str
    rule: Rule
    memory: Memory
    batch: Batch = NO_BATCH
    transitions: tuple[Alert, ...] = ()
    error: str = ""


def selects(group: Group, rule: Rule, *, at_ms: int) -> tuple[promql.Select, ...]:
    """What evaluating `rule` at `at_ms` will read, for a store that must be asked beforehand."""
    ts = _query_ms(group, at_ms)
    return promql.selects(rule.expr, start_ms=ts, end_ms=ts, step_ms=0)


def evaluate_group(
    group: Group,
    memories: Mapping[str, Memory],
    fetch: promql.Fetch,
    *,
    at_ms: int,
    around: Surroundings = NOTHING_AROUND,
) -> Iterator[Evaluated]:
    """Evaluate every rule. Append each `batch` and keep each `memory` (under `key`) before taking the next."""
    for key, rule in group.keyed_rules():
        memory = memories.get(key) or Memory(identity=rule.identity)
        yield evaluate_rule(group, key, rule, memory, fetch, at_ms=at_ms, around=around)


def evaluate_rule(
    group: Group,
    key: str,
    rule: Rule,
    memory: Memory,
    fetch: promql.Fetch,
    *,
    at_ms: int,
    eager: bool = False,
    around: Surroundings = NOTHING_AROUND,
) -> Evaluated:
    """Evaluate one rule. `eager`: out of turn, since samples that it reads arrived; alerts may then only begin.

    A rule that fails, for whatever reason, says so in `error` and stops nothing else.
    """
    ts = _query_ms(group, at_ms)
    try:
        rows = _instant(rule.expr, fetch, ts)
        if isinstance(rule, RecordingRule):
            return _recorded(rows, group=group, key=key, rule=rule, memory=memory, ts=ts)
        if around.query is None:
            around = dataclasses.replace(around, query=lambda text: _instant(promql.parse(text), fetch, ts))
        alerts, transitions = alerting.step(
            rule, memory.alerts, rows, at_ms=at_ms, eager=eager, limit=group.limit, around=around
        )
    except Exception as error:  # noqa: BLE001 (even a fault of ours in one rule must not stop the others)
        said = str(error) if isinstance(error, QueryError) else f"{type(error).__name__}: {error}"
        return Evaluated(key=key, rule=rule, memory=memory, error=said)
    written = dict(alerting.series(alerts))
    # An eager step ends nothing, so what is missing from it has not ended either.
    gone = frozenset() if eager else memory.outputs - written.keys()
    outputs = memory.outputs | written.keys() if eager else frozenset(written)
    return Evaluated(
        key=key,
        rule=rule,
        memory=Memory(identity=memory.identity, alerts=alerts, outputs=outputs),
        batch=_batch(written, gone, ts),
        transitions=transitions,
    )


def _recorded(
    rows: Iterable[Row], *, group: Group, key: str, rule: RecordingRule, memory: Memory, ts: int
) -> Evaluated:
    written: dict[Labels, float] = {}
    own = {**rule.labels, METRIC_NAME: rule.record}
    for labels, value in rows:
        renamed = Labels({**dict(labels.pairs), **own})
        if renamed in written:
            raise QueryError(f"evaluating record {rule.record!r}: two series end in the same series {renamed}")
        written[renamed] = value
    if group.limit and len(written) > group.limit:
        raise QueryError(
            f"evaluating record {rule.record!r}: exceeded limit of {group.limit} with {len(written)} series"
        )
    gone = memory.outputs - written.keys()
    return Evaluated(
        key=key,
        rule=rule,
        memory=Memory(identity=memory.identity, outputs=frozenset(written)),
        batch=_batch(written, gone, ts),
    )


def _batch(written: Mapping[Labels, float], gone: Iterable[Labels], ts: int) -> Batch:
    rows = [(labels, ts, value) for labels, value in written.items()]
    return batch([*rows, *((labels, ts, STALE) for labels in sorted(gone))])


def _instant(expr: promql.Expr, fetch: promql.Fetch, ts: int) -> list[Row]:
    """The rows of `expr` at `ts`; a scalar is one row without labels, as in Prometheus."""
    result = promql.instant(expr, fetch, at_ms=ts)
    match result:
        case promql.Vector():
            return list(result.at())
        case promql.Scalar():
            return [(Labels(), float(result.values[-1]))]
        case _:
            raise QueryError("a rule needs an instant vector or a scalar, e.g. rate(x[5m]) where x[5m] stands alone")


def _query_ms(group: Group, at_ms: int) -> int:
    return at_ms - round(group.query_offset_seconds * 1000)


# When ----------------------------------------------------------------------------------------------------------------


def interval_ms(group: Group) -> int:
    return max(1, round(group.interval_seconds * 1000))


def slot_offset_ms(group: Group) -> int:
    """Where in its interval the group is evaluated: the same in every process, and spread over the groups."""
    digest = hashlib.blake2b(group.key.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % interval_ms(group)


def slot_ms(group: Group, now_ms: int) -> int:
    """The newest slot that is not after `now_ms`."""
    return now_ms - (now_ms - slot_offset_ms(group)) % interval_ms(group)


def next_slot_ms(group: Group, now_ms: int) -> int:
    """The first slot after `now_ms`."""
    return slot_ms(group, now_ms) + interval_ms(group)


# Eager rules ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A rule that wants to know of new samples."""

    group: Group
    key: str
    rule: AlertRule


def watches(groups: Iterable[Group]) -> Mapping[str, tuple[Watch, ...]]:
    """Eager alert rules by the metrics they read; under "" those that may read any."""
    found: dict[str, list[Watch]] = {}
    for group in groups:
        for key, rule in group.keyed_rules():
            if not isinstance(rule, AlertRule) or not rule.eager:
                continue
            names = promql.metric_names(rule.expr)
            for name in ("",) if names is None else sorted(names):
                found.setdefault(name, []).append(Watch(group=group, key=key, rule=rule))
    return {name: tuple(listed) for name, listed in found.items()}


# Reload and restart --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """What a new set of groups starts with. `batch` and `resolved` end what rules that are gone have left."""

    memories: Mapping[str, Memory]
    batch: Batch = NO_BATCH
    resolved: tuple[Alert, ...] = ()


def inherit(memories: Mapping[str, Memory], groups: Iterable[Group], *, at_ms: int, cluster: str = "") -> Inherited:
    """Memories for `groups` from those of the groups before.

    A rule with the same name and labels goes on where it was, even if its expression changed, or if it moved to another
    group or file.
    """
    rules = [pair for group in groups for pair in group.keyed_rules()]
    kept = {key: memories[key] for key, _ in rules if key in memories}
    orphans = {key: memory for key, memory in memories.items() if key not in kept}
    origins = {memory.identity: key for key, memory in orphans.items()}
    for key, rule in rules:
        if key not in kept:
            origin = origins.pop(rule.identity, None)
            kept[key] = Memory(identity=rule.identity) if origin is None else orphans.pop(origin)
    still = frozenset[Labels]().union(*(memory.outputs for memory in kept.values()))
    gone = frozenset[Labels]().union(*(memory.outputs for memory in orphans.values())) - still
    resolved = [
        alert for memory in orphans.values() for alert in alerting.retire(memory.alerts, at_ms=at_ms, cluster=cluster)
    ]
    return Inherited(memories=kept, batch=_batch({}, gone, at_ms), resolved=tuple(resolved))


def dump(memories: Mapping[str, Memory]) -> dict[str, Any]:
    """`memories` as JSON values, for `restore`."""
    return {
        key: {
            "identity": memory.identity,
            "alerts": alerting.dump(memory.alerts),
            "outputs": [dict(labels.pairs) for labels in sorted(memory.outputs)],
        }
        for key, memory in memories.items()
    }


def restore(saved: Mapping[str, Any], *, down_ms: int, up_ms: int) -> dict[str, Memory]:
    """Memories that `dump` wrote at `down_ms`, to go on at `up_ms`. ValueError for anything else."""
    try:
        return {
            key: Memory(
                identity=str(row["identity"]),
                alerts=alerting.after_outage(alerting.restore(row["alerts"]), down_ms=down_ms, up_ms=up_ms),
                outputs=frozenset(Labels(pairs) for pairs in row["outputs"]),
            )
            for key, row in saved.items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"restoring rule state: {error!r}") from error
