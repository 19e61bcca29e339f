"""Evaluates rules over the store: groups at their slots, eager rules as soon as what they read has arrived."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from healer import telemetry
from healer.clock import Clock, milliseconds
from healer.errors import JournalError, QueryError, StoreError
from healer.model.alerts import Alert, AlertStatus
from healer.model.series import METRIC_NAME, Batch, Columns
from healer.ports import AlertReport, Store
from healer.rules import groups as groups_
from healer.rules import promql
from healer.rules.alerting import Surroundings, report
from healer.rules.definitions import Group, Rule
from healer.rules.promql import tree

log = logging.getLogger(__name__)

EAGER_SECONDS: Final = 1.0
"""How often an eager rule is evaluated at the most."""
NAMES_KEPT: Final = 256
RETRY_SECONDS: Final = 1.0


@dataclasses.dataclass(slots=True)
class _Health:
    """How a rule did last."""

    error: str = ""
    at_ms: int = 0


class Evaluator:
    """Run `work` and `work_eagerly` as workers.

    `report` journals transitions; an alert whose report failed is reported again at the next evaluation.
    `state_path`: where the state of alerts is kept over a restart; None keeps nothing.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        *,
        report: Callable[[AlertReport], Awaitable[None]],
        around: Surroundings,
        state_path: Path | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._report = report
        self._around = around
        self._state_path = state_path
        self._groups: tuple[Group, ...] = ()
        self._memories: dict[str, groups_.Memory] = {}
        self._watches: Mapping[str, tuple[groups_.Watch, ...]] = {}
        self._unreported: list[Alert] = []
        self._turn = asyncio.Lock()
        self._changed = asyncio.Event()
        self._arrived: dict[str, groups_.Watch] = {}
        self._wake = asyncio.Event()
        self._last_eager: dict[str, float] = {}
        self._names: dict[int, tuple[tuple[Any, ...], frozenset[str]]] = {}
        self._rounds: set[str] = set()
        self.health: dict[str, _Health] = {}

    @property
    def groups(self) -> tuple[Group, ...]:
        return self._groups

    def memories(self) -> Mapping[str, groups_.Memory]:
        return self._memories

    async def load(self, groups: Sequence[Group]) -> None:
        """Take these groups from now on; equal rules go on where they were, and what is gone resolves."""
        now_ms = milliseconds(self._clock.now())
        if not self._groups and not self._memories:
            self._restore(now_ms)
        async with self._turn:
            inherited = groups_.inherit(self._memories, groups, at_ms=now_ms, cluster=self._around.cluster)
            self._groups = tuple(groups)
            self._memories = dict(inherited.memories)
            self._watches = groups_.watches(groups)
            self._names.clear()
        with contextlib.suppress(StoreError):
            await self._store.append(inherited.batch)
        self._unreported += inherited.resolved
        self._changed.set()

    # At their slots --------------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Evaluate each group at its slots, for ever. A slot that comes too late is left out and counted."""
        due: dict[str, int] = {}
        while True:
            now_ms = milliseconds(self._clock.now())
            current = {group.key: group for group in self._groups}
            due = {key: due.get(key) or groups_.next_slot_ms(group, now_ms) for key, group in current.items()}
            if not due:
                await self._changed.wait()
                self._changed.clear()
                continue
            key, at_ms = min(due.items(), key=lambda item: item[1])
            if at_ms > now_ms:
                self._changed.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout((at_ms - now_ms) / 1000):
                        await self._changed.wait()
                continue
            group = current[key]
            behind = (now_ms - at_ms) // groups_.interval_ms(group)
            if behind:
                telemetry.TICKS_MISSED.labels("rules").inc(behind)
                at_ms += behind * groups_.interval_ms(group)
            if now_ms < at_ms - 2 * groups_.interval_ms(group):
                at_ms = groups_.slot_ms(group, now_ms)
            await self._round(group, at_ms)
            due[key] = at_ms + groups_.interval_ms(group)

    async def _round(self, group: Group, at_ms: int) -> None:
        with telemetry.RULE_SECONDS.time():
            for key, rule in group.keyed_rules():
                await self._evaluate(group, key, rule, at_ms, eager=False)
        self._rounds.add(group.key)
        await self._deliver()

    async def _evaluate(self, group: Group, key: str, rule: Rule, at_ms: int, *, eager: bool) -> None:
        async with self._turn:
            memory = self._memories.get(key)
            if memory is None:
                return
            try:
                fetch = await self._fetch(groups_.selects(group, rule, at_ms=at_ms))
                result = groups_.evaluate_rule(
                    group, key, rule, memory, fetch, at_ms=at_ms, eager=eager, around=self._around
                )
                error = result.error
                if not error:
                    await self._store.append(result.batch)
                    self._memories[key] = result.memory
                    self._unreported += result.transitions
            except (QueryError, StoreError) as failed:
                error = str(failed)
        telemetry.RULE_EVALUATIONS.labels(group.name).inc()
        if error:
            telemetry.RULE_FAILURES.labels(group.name).inc()
            if self.health.get(key, _Health()).error != error:
                log.warning("rule %s of group %s: %s", rule.name, group.name, error)
        self.health[key] = _Health(error=error, at_ms=at_ms)

    async def _fetch(self, selects: Sequence[promql.Select]) -> promql.Fetch:
        """Everything the expression reads, asked for beforehand: the core does no I/O."""
        got: dict[promql.Select, Columns] = {}
        for select in selects:
            if select not in got:
                got[select] = await self._store.select(select.matchers, select.start_ms, select.end_ms)

        def fetch(select: promql.Select) -> Columns:
            if select not in got:
                raise QueryError(f"reading {select.matchers}: a template may only query what its rule reads")
            return got[select]

        return fetch

    async def _deliver(self) -> None:
        """Report what has begun and ended; what cannot be journalled now stays for later."""
        if not self._unreported:
            return
        waiting = tuple(self._unreported)
        try:
            await self._report(AlertReport(source="rules", alerts=waiting))
        except JournalError as error:
            log.warning("%d alerts wait for the journal: %s", len(waiting), error)
            return
        del self._unreported[: len(waiting)]
        self._save()

    # As soon as samples arrive ---------------------------------------------------------------------------------------

    def arrived(self, batch: Batch) -> None:
        """Samples have been stored: wake the eager rules that read them."""
        if not self._watches:
            return
        for name in self._metric_names(batch):
            for watch in self._watches.get(name, ()):
                self._arrived[watch.key] = watch
        for watch in self._watches.get("", ()):
            self._arrived[watch.key] = watch
        if self._arrived:
            self._wake.set()

    def _metric_names(self, batch: Batch) -> frozenset[str]:
        known = self._names.get(id(batch.labels))
        if known is not None and known[0] is batch.labels:
            return known[1]
        names = frozenset(labels.get(METRIC_NAME, "") for labels in batch.labels) & frozenset(self._watches)
        if len(self._names) >= NAMES_KEPT:
            self._names.clear()
        self._names[id(batch.labels)] = (batch.labels, names)
        return names

    async def work_eagerly(self) -> None:
        """Evaluate eager rules whose metrics have arrived, each at most once in a while; they can only begin alerts."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            now = self._clock.monotonic()
            ready = [w for w in self._arrived.values() if now - self._last_eager.get(w.key, -1e9) >= EAGER_SECONDS]
            for watch in ready:
                del self._arrived[watch.key]
                self._last_eager[watch.key] = now
                at_ms = milliseconds(self._clock.now())
                await self._evaluate(watch.group, watch.key, watch.rule, at_ms, eager=True)
            await self._deliver()
            if self._arrived:
                soonest = min(self._last_eager.get(key, now) for key in self._arrived) + EAGER_SECONDS
                await asyncio.sleep(max(0.01, soonest - self._clock.monotonic()))
                self._wake.set()

    # Asking ----------------------------------------------------------------------------------------------------------

    async def holds(self, text: str) -> bool | None:
        """Whether an expression holds now: it has a result, and none of it is 0 or NaN. None: there is no data to tell.

        A comparison holds when it has a result, whatever the value: `errors == 0` gives 0 where it is true. Without a
        result it does not hold if its operands have data. QueryError, StoreError.
        """
        expr = promql.parse(text)
        rows = await self._rows(expr)
        compared = _compared(expr)
        if rows:
            return bool(compared) or not any(value == 0 or math.isnan(value) for _, value in rows)
        for operand in compared:
            if not await self._rows(operand):
                return None
        return False if compared else None

    async def _rows(self, expr: promql.Expr) -> list[tuple[Any, float]]:
        at_ms = milliseconds(self._clock.now())
        fetch = await self._fetch(promql.selects(expr, start_ms=at_ms, end_ms=at_ms, step_ms=1))
        result = promql.instant(expr, fetch, at_ms=at_ms)
        match result:
            case promql.Vector():
                return list(result.at())
            case promql.Scalar():
                return [(None, float(result.values[-1]))]
            case _:
                raise QueryError(
                    f"asking whether {promql.print_expr(expr)} holds: it gives neither a vector nor a number"
                )

    def standing(self) -> tuple[Alert, ...]:
        """All that fire now, reported or not."""
        cluster = self._around.cluster
        return tuple(report(alert, cluster) for memory in self._memories.values() for alert in memory.alerts.firing)

    def leftovers(self, firing: Sequence[tuple[str, Alert]]) -> tuple[Alert, ...]:
        """Of alerts known to fire from rules, those that no rule stands for any more: they have to be ended.

        Empty until every group has had its round, since before that nothing is known.
        """
        if any(group.key not in self._rounds for group in self._groups):
            return ()
        standing = {alert.labels for memory in self._memories.values() for alert in memory.alerts.firing}
        now = self._clock.now()
        return tuple(
            dataclasses.replace(alert, status=AlertStatus.RESOLVED, ends_at=now)
            for _, alert in firing
            if alert.labels not in standing
        )

    # Over a restart --------------------------------------------------------------------------------------------------

    def _save(self) -> None:
        if self._state_path is None:
            return
        saved = {"at_ms": milliseconds(self._clock.now()), "memories": groups_.dump(self._memories)}
        temporary = self._state_path.with_suffix(".new")
        try:
            temporary.write_bytes(msgspec.json.encode(saved))
            temporary.replace(self._state_path)
        except OSError as error:
            log.warning("keeping the state of alerts in %s: %s", self._state_path, error)

    def _restore(self, now_ms: int) -> None:
        if self._state_path is None or not self._state_path.exists():
            return
        try:
            saved = msgspec.json.decode(self._state_path.read_bytes())
            self._memories = groups_.restore(saved["memories"], down_ms=saved["at_ms"], up_ms=now_ms)
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("reading the state of alerts from %s: %s; pending alerts begin anew", self._state_path, error)


COMPARISONS: Final = frozenset({"==", "!=", "<", ">", "<=", ">="})


def _compared(expr: promql.Expr) -> tuple[promql.Expr, ...]:
    """What a filtering comparison compares: without data on that side, nothing is known."""
    while isinstance(expr, tree.Paren):
        expr = expr.expr
    if not isinstance(expr, tree.Binary) or expr.op not in COMPARISONS or expr.returns_bool:
        return ()
    sides = (expr.left, expr.right)
    return tuple(side for side in sides if promql.kind_of(side) is not promql.Kind.SCALAR)
