"""The running service: its workers, its server, its reloads, its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from healer import __version__, telemetry
from healer.app.gathering import Gathering
from healer.app.leading import Leadership
from healer.app.prepare import Prepared, prepare
from healer.clock import Clock, external_work
from healer.config.schema import Config
from healer.errors import ConfigError, JournalError
from healer.kube.caches import ClusterCaches
from healer.loop.annotating import Annotating
from healer.loop.book import Book
from healer.loop.engine import Engine
from healer.loop.evaluate import Evaluator
from healer.loop.ingest import Ingest
from healer.loop.people import People
from healer.loop.recorder import Recorder
from healer.loop.records import Episode
from healer.loop.supervise import Worker, supervise
from healer.loop.telling import Telling
from healer.loop.why import explain
from healer.model import events as ev
from healer.model.alerts import Alert, AlertStatus
from healer.model.decisions import Answer
from healer.model.incidents import IncidentState
from healer.ports import AlertReport, Collector, Notifier, Provider
from healer.safety.guards import GUARDS
from healer.web.api import whole
from healer.web.keys import Site
from healer.web.server import application, listening

log = logging.getLogger(__name__)

GRACE_SECONDS: Final = 20.0
SWEEP_SECONDS: Final = 5.0
FIXED: Final = (
    "clusters",
    "collect",
    "from_kubernetes",
    "store",
    "journal",
    "leader",
    "providers",
    "notify",
    "web",
    "telemetry",
)
"""Sections of the configuration whose parts are opened once: a change of them takes effect with the next start."""


class Service:
    """Made by `assembled`, which sets the parts."""

    engine: Engine
    evaluator: Evaluator
    sink: Ingest
    people: People
    gathering: Gathering
    caches: Mapping[str, ClusterCaches]
    collectors: Sequence[Collector]
    notifiers: Sequence[Notifier]
    hooks: Mapping[str, Callable[[bytes], AlertReport]]
    routes: Sequence[Any] = ()
    facts: Callable[[], Mapping[str, Any]] = staticmethod(dict)
    api_token: str = ""
    hook_token: str | None = None
    serve: bool = True
    leadership: Leadership | None = None
    """Where several replicas share the journal."""

    def __init__(
        self, *, prepared: Prepared, clock: Clock, recorder: Recorder, providers: Mapping[str, Provider]
    ) -> None:
        self.clock = clock
        self.recorder = recorder
        self.book: Book = prepared.book(providers)
        self.address = ""
        self.listening = asyncio.Event()
        self._base = self._prepared = prepared
        self._gathers = asyncio.Lock()
        self._providers = providers

    async def take(self, report: AlertReport) -> None:
        """Alerts of our own rules. Each replica evaluates them; what the leader finds counts."""
        if self.recorder.leading():
            await self.engine.intake.take(report)

    # Running ---------------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then finish what can be finished in a short while."""
        async with contextlib.AsyncExitStack() as stack:
            if self.serve:
                listen = self._prepared.config.web.listen
                self.address = await stack.enter_async_context(listening(self._application(), listen.host, listen.port))
                log.info("listening on %s", self.address)
            self.listening.set()
            if not self.gathering:
                await self.evaluator.load(self._prepared.groups)
            telemetry.CONFIG_OK.set(1)
            telemetry.CONFIG_TIME.set(self.clock.now().timestamp())
            await supervise(self._workers(), stop=stop, drain=self._drain, grace_seconds=GRACE_SECONDS + 5)

    def _workers(self) -> dict[str, Worker]:
        """What every replica does, and what one alone does besides."""
        workers: dict[str, Worker] = {
            "journal": self.recorder.work,
            "note of the start": self._note_start,
            "rules": self.evaluator.work,
            "eager rules": self.evaluator.work_eagerly,
            "sweep": self._sweep,
        }
        for name, caches in self.caches.items():
            workers[f"cluster {name}"] = caches.run
            workers[f"sync {name}"] = self._poke_when_synced(caches)
        for index, collector in enumerate(self.collectors):
            workers[f"collector {index} {collector.name}"] = self._collect(collector)
        if self.gathering:
            workers |= self.gathering.workers(self._gather)
        if self.leadership is None:
            telemetry.LEADER.set(1)
            return workers | self._workers_of_the_leader()
        self.leadership.workers = self._workers_of_the_leader
        return workers | {"leadership": self.leadership.work}

    def _workers_of_the_leader(self) -> dict[str, Worker]:
        """To decide, to act, to tell."""
        workers: dict[str, Worker] = {"decisions": self.engine.work}
        if self.leadership is not None:
            workers["what stands when a term begins"] = self._take_up
        engine = self.engine
        annotating = Annotating(
            self.recorder, clusters=engine.clusters, book=engine.book, storming=engine.intake.storming
        )
        workers["events on objects"] = annotating.work
        for notifier in self.notifiers:
            telling = Telling(self.recorder, notifier, external_url=self._external_url())
            workers[f"telling {notifier.name}"] = telling.work
            workers[f"answers {notifier.name}"] = self._answers(notifier)
        return workers

    def _collect(self, collector: Collector) -> Worker:
        async def work() -> None:
            await collector.run(self.sink)

        return work

    def _answers(self, notifier: Notifier) -> Worker:
        async def work() -> None:
            await notifier.run(self.people)

        return work

    def _poke_when_synced(self, caches: ClusterCaches) -> Worker:
        async def work() -> None:
            await caches.synced()
            self.engine.poke_all()
            await asyncio.Event().wait()

        return work

    async def _take_up(self) -> None:
        """What a standby finds but leaves to the leader, told once from the beginning by a new one."""
        while True:
            try:
                await self.engine.intake.take(AlertReport(source="rules", alerts=self.evaluator.standing()))
                break
            except JournalError as error:
                log.warning("reporting what our rules find: %s", error)
                await asyncio.sleep(SWEEP_SECONDS)
        await self.gathering.tell()
        await asyncio.Event().wait()

    async def _note_start(self) -> None:
        started = ev.ServiceStarted(
            at=self.clock.now(), version=__version__, config_digest=self.book.digest, host=socket.gethostname()
        )
        while True:
            try:
                await self.recorder.record(started)
                break
            except JournalError as error:
                log.warning("noting the start: %s", error)
                await asyncio.sleep(SWEEP_SECONDS)
        await asyncio.Event().wait()

    async def _drain(self) -> None:
        """Start nothing more; let what is under way come to its next safe point."""
        self.engine.stop()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(GRACE_SECONDS):
                await self.engine.drained()
        with contextlib.suppress(JournalError, TimeoutError):
            async with asyncio.timeout(2):
                await self.recorder.record(ev.ServiceStopped(at=self.clock.now()))
        if self.leadership is not None:
            await self.leadership.end()

    async def _sweep(self) -> None:
        """End alerts of ours that no rule stands for any more; keep the gauges true."""
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self._try_journal()
            self.engine.look()
            memory = self.recorder.memory
            mine = [
                (episode.id, _as_alert(episode)) for episode in memory.firing.values() if "rules" in episode.sources
            ]
            over = self.evaluator.leftovers(mine)
            if over and self.recorder.leading():
                with contextlib.suppress(JournalError):
                    await self.engine.intake.take(AlertReport(source="rules", alerts=over))
            self._gauge()

    def _gauge(self) -> None:
        memory = self.recorder.memory
        telemetry.PAUSED.set(1 if memory.paused else 0)
        counts: dict[str, int] = {}
        holding: set[str] = set()
        for incident in memory.open_incidents():
            counts[incident.state] = counts.get(incident.state, 0) + 1
            if incident.state is IncidentState.OPEN and incident.decided and incident.decided.answer is not Answer.GO:
                holding.add(incident.decided.guard)
        telemetry.INCIDENTS_OPEN.clear()
        for state, count in counts.items():
            telemetry.INCIDENTS_OPEN.labels(state).set(count)
        for guard in GUARDS:
            telemetry.GUARD_CLOSED.labels(guard.name).set(guard.name in holding)

    async def _try_journal(self) -> None:
        """While the journal takes nothing, knock: else a service that nobody sends to would never learn that it can again."""
        since = self.recorder.unwritable_since
        if since is None:
            return
        lasted = self.clock.monotonic() - since
        with contextlib.suppress(JournalError):
            await self.recorder.record(ev.JournalRecovered(at=self.clock.now(), seconds=lasted))
            log.warning("the journal can be written again, after %.0f s", lasted)
            self.engine.poke_all()

    # Reloading -------------------------------------------------------------------------------------------------------

    @property
    def files(self) -> tuple[Path, ...]:
        """What the running configuration was made from, to be watched for changes."""
        return self._prepared.files

    async def reload(self) -> Sequence[str]:
        """Take the configuration as it is now in its file, whole, or keep the one that runs and give the problems."""
        try:
            prepared = prepare(self._prepared.loaded.path)
        except ConfigError as error:
            problems = tuple(map(str, error.problems))
            telemetry.CONFIG_OK.set(0)
            log.warning("the configuration was not taken, the old one goes on:\n%s", "\n".join(problems))
            await self._note_reload("", problems)
            return problems
        for name in _fixed(self._prepared.config, prepared.config):
            log.warning("%s: was changed; that takes effect with the next start of healer", name)
        self._base = prepared
        telemetry.CONFIG_OK.set(1)
        await self._gather()
        return ()

    async def _gather(self) -> None:
        """Work from now on with the newest configuration, together with what stands in clusters."""
        async with self._gathers:
            await self._gather_now()

    async def _gather_now(self) -> None:
        # What stands there may be large, and is not ours: reading it must not keep a lease from being renewed.
        with external_work():
            self._prepared = await asyncio.to_thread(self.gathering.over, self._base)
        self.book = self._prepared.book(self._providers)
        storm = self._prepared.config.safety.storm
        self.engine.intake.storm_alerts = storm.alerts
        self.engine.intake.storm_over_seconds = storm.over.total_seconds()
        await self.evaluator.load(self._prepared.groups)
        telemetry.CONFIG_TIME.set(self.clock.now().timestamp())
        await self._note_reload(self.book.digest, self.gathering.problems)
        self.engine.poke_all()

    async def _note_reload(self, digest: str, problems: tuple[str, ...]) -> None:
        with contextlib.suppress(JournalError):
            await self.recorder.record(ev.ConfigReloaded(at=self.clock.now(), config_digest=digest, problems=problems))

    # Serving ---------------------------------------------------------------------------------------------------------

    def _external_url(self) -> str:
        return self._prepared.config.web.external_url or self.address

    def ready(self) -> list[str]:
        """What is missing before alerts can be taken and judged, a sentence each."""
        missing = [] if self.recorder.unwritable_since is None else ["the journal cannot be written"]
        missing += [f"cluster {name} has not been read yet" for name, c in self.caches.items() if not c.is_synced]
        return missing

    def _application(self) -> Any:
        routes = [*self.routes, *(route for notifier in self.notifiers for route in notifier.routes(self.people))]
        site = Site(
            operator=self.people,
            sink=self.sink,
            hooks=self.hooks,
            ready=self.ready,
            api_token=self.api_token,
            hook_token=self.hook_token,
            body_limit_bytes=self._prepared.config.web.max_body,
            version=__version__,
            extra=self._facts,
            why=self._why,
        )
        return application(site, extra_routes=routes)

    def _facts(self) -> dict[str, Any]:
        facts = {"now": self.clock.now(), "config": self.book.digest[:12], **self.facts()}
        if self.leadership is not None:
            facts |= {"leading": self.recorder.leading(), "leader": self.leadership.holder}
        return facts

    def _why(self, subject: str) -> list[dict[str, Any]]:
        return [
            {
                "about": found.about,
                "now": found.now,
                "incident": whole(found.incident) if found.incident else None,
            }
            for found in explain(self.recorder.memory, subject, external_url=self._external_url())
        ]


def _fixed(before: Config, after: Config) -> list[str]:
    """Which of FIXED have changed."""
    return [name for name in FIXED if getattr(before, name) != getattr(after, name)]


def _as_alert(episode: Episode) -> Alert:
    return Alert(
        cluster=episode.cluster,
        status=AlertStatus.FIRING,
        labels=episode.labels,
        annotations=episode.annotations,
        starts_at=episode.starts_at,
        source="rules",
    )
