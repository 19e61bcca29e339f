"""Proves the cure: alert gone *and* object healthy *and* metric back, all of it for a while."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from healer.errors import ActionError, QueryError, StoreError
from healer.loop.book import Book, Cluster
from healer.loop.context import OperationContext
from healer.loop.recorder import Recorder
from healer.loop.records import Operation
from healer.model import events as ev
from healer.model.decisions import Verdict
from healer.model.plans import Remedy
from healer.ports import Action, Finding

LOOK_SECONDS: Final = 1.0

Query = Callable[[str], Awaitable["bool | None"]]
"""Whether an expression holds now: True, False, or None where there is no data to tell."""


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """One look at everything that has to be true."""

    verdict: Verdict
    evidence: tuple[str, ...]


class Verifier:
    """Verifies one operation that has been carried out."""

    def __init__(
        self,
        operation: Operation,
        actions: Sequence[Action],
        remedy: Remedy,
        *,
        cluster: Cluster,
        recorder: Recorder,
        book: Callable[[], Book],
        query: Query,
    ) -> None:
        self._operation = operation
        self._actions = actions
        self._remedy = remedy
        self._spec = remedy.verify
        self._cluster = cluster
        self._recorder = recorder
        self._book = book
        self._query = query

    async def run(self) -> Verdict:
        """Look until everything has been true for the soak time, or the time is up. Journals the verdict."""
        if not self._operation.verifying:
            await self._recorder.record(
                ev.VerificationStarted(
                    at=self._recorder.clock.now(), incident=self._operation.incident, operation=self._operation.id
                )
            )
        clock = self._recorder.clock
        deadline = clock.monotonic() + self._spec.timeout_seconds
        good_since: float | None = None
        while True:
            look = await self.look()
            now = clock.monotonic()
            if look.verdict is Verdict.WORSE:
                break
            if look.verdict is not Verdict.FIXED:
                good_since = None
                if now >= deadline:
                    break
            else:
                good_since = now if good_since is None else good_since
                if now - good_since >= self._spec.for_seconds:
                    break
            await self._cluster.changed(LOOK_SECONDS)
        await self._recorder.record(
            ev.Verified(
                at=clock.now(),
                incident=self._operation.incident,
                operation=self._operation.id,
                verdict=look.verdict,
                evidence=look.evidence,
            )
        )
        return look.verdict

    async def look(self) -> Look:
        """One look. Not fixed beats inconclusive beats fixed; worse beats all."""
        findings = [self._alert(), *await self._objects(), await self._metric()]
        evidence = tuple(text for finding in findings if finding for text in finding.evidence)
        verdicts = {finding.verdict for finding in findings if finding}
        for verdict in (Verdict.WORSE, Verdict.NOT_FIXED, Verdict.INCONCLUSIVE):
            if verdict in verdicts:
                return Look(verdict, evidence)
        return Look(Verdict.FIXED, evidence)

    def _alert(self) -> Finding | None:
        if not self._spec.alert_resolved:
            return None
        memory = self._recorder.memory
        firing = memory.firing_of(memory.incidents[self._operation.incident])
        meant = {episode.name for episode in firing if self._remedy.matches(episode.labels)}
        if meant:
            return Finding(verdict=Verdict.NOT_FIXED, evidence=(f"still firing: {', '.join(sorted(meant))}",))
        if not firing:
            return Finding(verdict=Verdict.FIXED, evidence=("every alert has resolved",))
        # What came along as evidence was not what this remedy is for, and does not make its cure a failure.
        others = ", ".join(sorted({episode.name for episode in firing}))
        evidence = f"every alert that {self._remedy.name} is for has resolved; still firing: {others}"
        return Finding(verdict=Verdict.FIXED, evidence=(evidence,))

    async def _objects(self) -> list[Finding]:
        if not self._spec.object_healthy:
            return []
        findings = []
        for index, action in enumerate(self._actions):
            context = OperationContext(
                self._operation, index, cluster=self._cluster, recorder=self._recorder, book=self._book, undo=True
            )
            try:
                findings.append(await action.verify(context))
            except ActionError as error:
                findings.append(Finding(verdict=Verdict.INCONCLUSIVE, evidence=(f"{action.name}: {error}",)))
        return findings

    async def _metric(self) -> Finding | None:
        query = self._spec.query
        if query is None:
            return None
        try:
            holds = await self._query(query)
        except (QueryError, StoreError) as error:
            return Finding(verdict=Verdict.INCONCLUSIVE, evidence=(f"{query}: {error}",))
        match holds:
            case True:
                return Finding(verdict=Verdict.FIXED, evidence=(f"{query} holds",))
            case False:
                return Finding(verdict=Verdict.NOT_FIXED, evidence=(f"{query} does not hold",))
            case None:
                return Finding(verdict=Verdict.INCONCLUSIVE, evidence=(f"{query} has no data",))
