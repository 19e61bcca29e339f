"""The loop: episodes become incidents, incidents decisions, decisions operations, operations proofs. One task decides.

Deciding is synchronous and happens in one task, in the order of arrival, so that two incidents can never both be told
to go where only one may. Operations run beside each other, one task each; every change of state is recorded first.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

from healer import telemetry
from healer.cluster import census
from healer.cluster.census import Census
from healer.errors import JournalError
from healer.loop import understand
from healer.loop.act import Carrier
from healer.loop.book import Book, Cluster
from healer.loop.context import Gate
from healer.loop.decide import Outcome, decide
from healer.loop.intake import Intake
from healer.loop.outages import Outages
from healer.loop.planning import disruptions, recipe
from healer.loop.recorder import Recorder
from healer.loop.records import Incident, Operation
from healer.loop.situation import Situation
from healer.loop.verify import Query, Verifier
from healer.model import events as ev
from healer.model.cluster import ClusterState
from healer.model.decisions import Moment, Reason, Verdict
from healer.model.incidents import IncidentState
from healer.model.plans import Plan, Remedy

log = logging.getLogger(__name__)

BATCH: Final = 500
"""How many incidents are decided before their events are written together."""
JOURNAL_RETRY_SECONDS: Final = 2.0
DECIDABLE: Final = frozenset({IncidentState.OPEN, IncidentState.AWAITING_APPROVAL, IncidentState.ESCALATED})


class Engine:
    """Run `work` as a worker. `clusters` and `book` are asked anew each time, so that both may change under it."""

    def __init__(
        self,
        recorder: Recorder,
        *,
        clusters: Mapping[str, Cluster],
        book: Callable[[], Book],
        query: Query,
        storm_alerts: int = 500,
        storm_over_seconds: float = 60.0,
    ) -> None:
        self.recorder = recorder
        self.memory = recorder.memory
        self.clusters = clusters
        self.book = book
        self.query = query
        self.intake = Intake(
            recorder, changed=self._episodes_changed, storm_alerts=storm_alerts, storm_over_seconds=storm_over_seconds
        )
        self._outages = Outages()
        self._episodes: dict[str, None] = {}
        self._incidents: dict[str, None] = {}
        self._timers: list[tuple[float, int, str]] = []
        self._due: dict[str, float] = {}
        self._tie = itertools.count()
        self._wake = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self._stopping = False
        self._gate = Gate()

    # From outside ----------------------------------------------------------------------------------------------------

    def poke(self, *incidents: str) -> None:
        """Decide about these again soon."""
        if self._group is None:
            return  # all are decided about when we begin
        for id_ in incidents:
            self._incidents[id_] = None
        self._wake.set()

    def poke_all(self) -> None:
        """Something has changed that may matter to every open incident, or to alerts without one."""
        if self._group is None:
            return
        for incident in self.memory.open_incidents():
            self._incidents[incident.id] = None
        for episode in self.memory.firing.values():
            if not episode.incident:
                self._episodes[episode.id] = None
        self._wake.set()

    def carry_on(self, operation: str) -> None:
        """It has begun, as the journal says; carry it out unless it is under way already."""
        self._begin(self.memory.operations[operation])

    def _episodes_changed(self, episodes: Sequence[str]) -> None:
        if self._group is None:
            return
        for id_ in episodes:
            self._episodes[id_] = None
        self._wake.set()

    @property
    def busy(self) -> int:
        """Operations under way."""
        return len(self._running)

    @property
    def calm(self) -> bool:
        """Whether no call to the outside is under way."""
        return self._gate.is_idle

    def look(self) -> None:
        """Take note of what is out now. To be called every few seconds."""
        self._look(self._states(), self.recorder.moment())

    def _look(self, states: Mapping[str, ClusterState], moment: Moment) -> dict[str, Census]:
        safety = self.book().safety
        censuses = {name: census.take(state, moment.monotonic, safety.thresholds) for name, state in states.items()}
        self._outages.look(censuses, safety.zone_outage_percent, moment.monotonic)
        return censuses

    def stop(self) -> None:
        """Start no operation any more; those under way hold before their next call and go on after a restart."""
        self._stopping = True
        self._gate.close()

    async def drained(self) -> None:
        """Wait until no call to the outside is under way: its outcome would be unknown to whoever comes next."""
        await self._gate.idle()

    # The deciding task -----------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Take over what a predecessor left, then decide until cancelled. May begin again after that."""
        async with self._operations():
            for operation in self.memory.unsettled_operations():
                self._begin(operation)
            self.poke_all()
            while True:
                await self._sleep()
                try:
                    # In turn: while alerts stream in without a break, those before them are decided all the same.
                    while self._episodes or (self._incidents and not self._stopping):
                        await self._understand()
                        await self._decide()
                except JournalError as error:
                    log.warning("deciding is held up: %s", error)
                    await asyncio.sleep(JOURNAL_RETRY_SECONDS)
                    self._wake.set()

    @contextlib.asynccontextmanager
    async def _operations(self) -> AsyncIterator[None]:
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                yield
        finally:
            self._group = None
            for noted in (self._episodes, self._incidents, self._timers, self._due):
                noted.clear()

    async def _sleep(self) -> None:
        """Until something is to be looked at."""
        loop_now = self.recorder.clock.monotonic()
        timeout = self._timers[0][0] - loop_now if self._timers else None
        if not self._wake.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, timeout) if timeout is not None else None):
                    await self._wake.wait()
        self._wake.clear()
        now = self.recorder.clock.monotonic()
        while self._timers and self._timers[0][0] <= now:
            due, _, id_ = heapq.heappop(self._timers)
            if self._due.get(id_) == due:
                del self._due[id_]
                self._incidents[id_] = None

    def _later(self, incident: str, seconds: float) -> None:
        due = self.recorder.clock.monotonic() + seconds
        if self._due.get(incident, float("inf")) <= due:
            return
        self._due[incident] = due
        heapq.heappush(self._timers, (due, next(self._tie), incident))

    def _states(self) -> dict[str, ClusterState]:
        return {name: cluster.state() for name, cluster in self.clusters.items()}

    async def _understand(self) -> None:
        """Give the next new episodes their incidents; note each end."""
        states = self._states()
        synced = {name for name, state in states.items() if state.freshness.synced}
        batch = _taken(self._episodes)
        events: list[ev.AnyEvent] = []
        opening: dict[tuple[str, str, str, str], str] = {}
        incidents: list[str] = []
        waiting: list[str] = []
        for id_ in batch:
            episode = self.memory.episodes.get(id_)
            if episode is None:
                continue
            if episode.incident:
                incidents.append(episode.incident)
            elif episode.firing and episode.cluster in states and episode.cluster not in synced:
                waiting.append(id_)
            elif episode.firing:
                found = understand.place(episode, self.memory, self.book(), states, self.recorder.moment(), opening)
                events += found.events
                if found.incident:
                    incidents.append(found.incident)
        try:
            await self.recorder.record(*events)
        except JournalError:
            self._episodes_changed(batch)
            raise
        self.poke(*incidents)
        if waiting:
            self._until_synced(waiting)

    def _until_synced(self, episodes: Sequence[str]) -> None:
        """An alert may come before the caches are full: its object cannot be told yet."""

        def again() -> None:
            self._episodes_changed(episodes)

        asyncio.get_running_loop().call_later(0.5, again)

    async def _decide(self) -> None:
        """Decide about the next incidents; they end where an operation starts, so that the next is judged knowing of it."""
        if self._stopping:
            return
        moment = self.recorder.moment()
        states = self._states()
        now = Situation(
            memory=self.memory,
            book=self.book(),
            states=states,
            moment=moment,
            censuses=self._look(states, moment),
            disruptions=disruptions(self.memory),
            since=self.recorder.started_at,
            storming=frozenset(name for name in self.clusters if self.intake.storming(name)),
            outages=self._outages.last,
        )
        events: list[ev.AnyEvent] = []
        start = ""
        taken = _taken(self._incidents)
        for index, id_ in enumerate(taken):
            outcome = self._outcome(id_, now)
            events += outcome.events
            if outcome.again is not None:
                self._later(id_, outcome.again)
            if outcome.start:
                start = outcome.start
                self.poke(*taken[index + 1 :])
                break
        try:
            await self.recorder.record(*events)
        except JournalError:
            self.poke(*taken)
            raise
        if start:
            self._begin(self.memory.operations[start])

    def _outcome(self, id_: str, now: Situation) -> Outcome:
        """What is decided about one incident. A fault of ours, or of a plugin's plan, must not keep the others waiting."""
        incident = self.memory.incidents.get(id_)
        if incident is None or incident.state not in DECIDABLE:
            return Outcome([])
        try:
            return decide(incident, now)
        except Exception as error:
            log.exception("deciding about incident %s", id_)
            detail = f"deciding failed: {type(error).__name__}: {error}"
            return Outcome([ev.Escalated(at=now.moment.wall, incident=id_, reason=Reason.STEP_FAILED, detail=detail)])

    # Operations ------------------------------------------------------------------------------------------------------

    def _begin(self, operation: Operation) -> None:
        if self._group is None or not self.recorder.leading() or operation.id in self._running:
            return
        task = self._group.create_task(self._carry(operation), name=f"operation {operation.id}")
        self._running[operation.id] = task
        task.add_done_callback(lambda _: self._running.pop(operation.id, None))

    async def _carry(self, operation: Operation) -> None:
        """Act and verify; while the journal cannot be written, hold and come back."""
        while True:
            try:
                await self._act_and_verify(operation)
            except JournalError as error:
                log.warning("operation %s is held up: %s", operation.id, error)
                await asyncio.sleep(JOURNAL_RETRY_SECONDS)
            except Exception as error:
                log.exception("operation %s", operation.id)
                await self._abandon(operation, Reason.STEP_FAILED, f"{type(error).__name__}: {error}")
                break
            else:
                break
        self.poke_all()

    async def _act_and_verify(self, operation: Operation) -> None:
        book = self.book()
        cluster = self.clusters.get(operation.cluster)
        actions = book.actions.get(operation.remedy)
        incident = self.memory.incidents[operation.incident]
        if cluster is None or actions is None or not _is_as_planned(operation.plan, book.remedies[operation.remedy]):
            detail = "its remedy or its cluster is no longer configured as it was when it began"
            await self._abandon(operation, Reason.CANCELLED, detail)
            return
        await self._synced(cluster)
        carrier = Carrier(operation, actions, cluster=cluster, recorder=self.recorder, book=self.book, gate=self._gate)
        ok = await carrier.run()
        telemetry.OPERATIONS.labels(operation.remedy, "done" if ok else operation.reason).inc()
        if not ok:
            return
        remedy = book.remedies[operation.remedy]
        verdict = operation.verdict
        if verdict is None:
            verifier = Verifier(
                operation,
                actions,
                remedy,
                cluster=cluster,
                recorder=self.recorder,
                book=self.book,
                query=self.query,
            )
            verdict = await verifier.run()
            telemetry.VERDICTS.labels(operation.remedy, verdict).inc()
        await self._conclude(operation, incident, verdict, carrier, remedy)

    async def _synced(self, cluster: Cluster) -> None:
        while not cluster.state().freshness.synced:
            await cluster.changed(1.0)

    async def _abandon(self, operation: Operation, reason: Reason, detail: str) -> None:
        await self.recorder.record(
            ev.OperationEnded(
                at=self.recorder.clock.now(),
                incident=operation.incident,
                operation=operation.id,
                ok=False,
                reason=reason,
                detail=detail,
            ),
            ev.Escalated(at=self.recorder.clock.now(), incident=operation.incident, reason=reason, detail=detail),
        )

    async def _conclude(
        self, operation: Operation, incident: Incident, verdict: Verdict, carrier: Carrier, remedy: Remedy
    ) -> None:
        if not incident.is_open:
            return
        now = self.recorder.clock.now()
        if verdict is Verdict.FIXED:
            telemetry.REPAIR_SECONDS.observe(max(0.0, (now - incident.opened_at).total_seconds()))
            firing = self.memory.firing_of(incident)
            leaves = tuple(episode.id for episode in firing if not remedy.matches(episode.labels))
            await self.recorder.record(
                ev.IncidentClosed(at=now, incident=incident.id, reason=Reason.FIXED, leaves=leaves)
            )
            return
        if verdict is Verdict.WORSE:
            await carrier.undo()
            await self.recorder.record(
                ev.Escalated(
                    at=self.recorder.clock.now(),
                    incident=incident.id,
                    reason=Reason.WORSE,
                    detail=f"{operation.remedy} made it worse and was taken back as far as that goes",
                )
            )


def _taken(waiting: dict[str, None]) -> list[str]:
    """Take the oldest ones out, before anything is awaited: what is noted meanwhile is news again."""
    taken = list(itertools.islice(waiting, BATCH))
    for id_ in taken:
        del waiting[id_]
    return taken


def _is_as_planned(plan: Plan, remedy: Remedy) -> bool:
    """Whether the remedy still has the steps that the guards, and perhaps people, have agreed to."""
    steps = [step.action for step in remedy.steps]
    return steps == [preview.action for preview in plan.previews] and plan.recipe in ("", recipe(remedy))
