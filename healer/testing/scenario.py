"""A scenario is ten lines: a world, a configuration, faults by name and time, and what must have happened.

    with Scenario(REMEDIES, nodes=12, zones=3) as s:
        s.fault("machine-death", "node-a1", after="30s")
        s.run_for("10m")
        s.expect_closed("NodeDown", Reason.FIXED)
        s.expect_provider_calls("replace", exactly=1)

Time is virtual: ten minutes pass in a second, and nothing depends on how fast the machine is. docs/scenarios.md shows more.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from healer.app import Adapters, Prepared, Service, assembled, prepare_text
from healer.clock import LoopClock
from healer.config.fields import parse_duration
from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.incidents import IncidentView
from healer.ports import Journal, Notifier
from healer.sim.api import Api
from healer.sim.api_faults import ApiFaults
from healer.sim.api_transport import SimTransport
from healer.sim.builders import a_world
from healer.sim.faults import Fault
from healer.sim.provider import SimulatedProvider
from healer.sim.time import VirtualTimeLoop
from healer.sim.world import World
from healer.testing.expectations import Expectations
from healer.testing.journals import MemoryJournal
from healer.testing.messages import Messages
from healer.testing.worlds import Beside, Steady, driven, joined

PROVIDERS = "providers: {simulated: simulated}\n"
CLUSTER = "prod"


class Scenario(Expectations):
    """A simulated cluster with Healer at work on it, on virtual time. Use it as a context manager.

    `config` is YAML as in healer.yaml, without `clusters` (there is one, `prod`) and, by default, `providers`
    (there is one, `simulated`); nothing is served, and no data is written to disk.
    `world` takes the place of `a_world(nodes, zones)`. `apart=True` starts the cluster but not Healer: `start` does.
    `beside` are further clusters by name, found in `s.beside`; alerts with the label `cluster` are about one of these.
    """

    def __init__(
        self,
        config: str = "",
        *,
        nodes: int = 12,
        zones: int = 3,
        seed: int = 0,
        world: World | None = None,
        journal: MemoryJournal | None = None,
        notifiers: Sequence[Notifier] = (),
        apart: bool = False,
        beside: Mapping[str, World] | None = None,
    ) -> None:
        self.world = world if world is not None else a_world(nodes, zones, seed=seed)
        self.beside = {name: Beside(world) for name, world in (beside or {}).items()}
        self.config = config
        self.journal = journal or MemoryJournal()
        self.messages = Messages()
        self.api_faults = ApiFaults()
        self.api = Api(self.world.storage, now=lambda: Steady(self.clock).now(), faults=self.api_faults)
        self.provider = SimulatedProvider(self.world)
        self._notifiers = (self.messages, *notifiers)
        self._runner = asyncio.Runner(loop_factory=VirtualTimeLoop)
        self._apart = apart
        self._service: Service | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._stop: asyncio.Event | None = None
        self._exit = contextlib.ExitStack()

    # Life ------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._path = Path(self._exit.enter_context(tempfile.TemporaryDirectory(prefix="scenario-"))) / "healer.yaml"
        self._runner.__enter__()
        loop = self._runner.get_loop()
        self.clock = LoopClock(loop, epoch=self.world.now)
        worlds = [self.world, *(found.world for found in self.beside.values())]
        self._driving = loop.create_task(driven(worlds, Steady(self.clock)), name="world")
        if not self._apart:
            try:
                self.start()
            except BaseException as error:
                self.__exit__(type(error), error, error.__traceback__)
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            with contextlib.suppress(Exception) if kind else contextlib.nullcontext():
                self._runner.run(self._end())
            self._driving.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                self._runner.run(joined(self._driving))
        finally:
            self._runner.__exit__(kind, error, trace)
            self._exit.close()

    def start(self, config: str | None = None) -> None:
        """Start Healer, over the same journal as before if it has run before; wait until it knows the cluster."""
        if config is not None:
            self.config = config
        self._runner.run(self._start())

    def kill(self) -> None:
        """End Healer at once, as SIGKILL would: nothing is finished, nothing is said."""
        if self._service is not None:
            self._runner.run(self._end())

    def kill_at(self, *kinds: type[ev.Event], nth: int = 1, written: bool = True, within: str | float = "30m") -> None:
        """Let time pass until the `nth` event of these kinds from now is written, and end Healer at that very moment.

        With `written` false it dies just before, when all that leads to the event has been done but nobody will know.
        Healer is started first where it does not run.
        """
        seen = itertools.count(1)

        def reached(found: ev.Event) -> bool:
            return isinstance(found, kinds) and next(seen) == nth

        name = "halt_after" if written else "halt_before"
        before = getattr(self.journal, name)
        setattr(self.journal, name, reached)
        try:
            if self._service is None:
                self.start()
            self.run_until(lambda: self.journal.halted, within=within)
            self.kill()
        finally:
            setattr(self.journal, name, before)
            self.journal.halted = False

    def reload(self, config: str) -> Sequence[str]:
        """Put another configuration in the file of the running Healer and let it read that; the problems it has with it."""
        self.config = config
        self._path.write_text(self._text(), encoding="utf-8")
        return self._runner.run(self.service.reload())

    async def _start(self) -> None:
        started = asyncio.get_running_loop().create_future()
        task = asyncio.get_running_loop().create_task(self._healer(started), name="healer")
        self._tasks = [task]
        await asyncio.wait([task, started], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        self._service = started.result()
        for name, caches in self._service.caches.items():
            faults = self._api_of(name).faults
            if not (faults.down or faults.hang):
                await caches.synced()

    def _api_of(self, cluster: str) -> Api:
        return self.api if cluster == CLUSTER else self.beside[cluster].api

    async def _healer(self, started: asyncio.Future[Service]) -> None:
        adapters = Adapters(
            clock=self.clock,
            transport=lambda cluster: SimTransport(self._api_of(cluster.name)),
            journal=self._opened_journal,
            store=memory_store(self.clock),
            providers={"simulated": self.provider},
            notifiers=self._notifiers,
            serve=False,
        )
        async with assembled(self.prepared(), adapters) as service:
            self._stop = asyncio.Event()
            started.set_result(service)
            await service.run(self._stop)

    def prepared(self) -> Prepared:
        """The configuration, checked. ConfigError has every problem."""
        return prepare_text(self._text(), self._path)

    def _text(self) -> str:
        providers = "" if "\nproviders:" in f"\n{self.config}" else PROVIDERS
        names = (CLUSTER, *self.beside)
        clusters = ", ".join(f"{{name: {name}, in_cluster: true}}" for name in names)
        return f"clusters: [{clusters}]\n{providers}{self.config}"

    @contextlib.asynccontextmanager
    async def _opened_journal(self) -> AsyncIterator[Journal]:
        yield self.journal

    async def _end(self) -> None:
        tasks, self._tasks, self._service = self._tasks, [], None
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @property
    def service(self) -> Service:
        """Healer itself."""
        if self._service is None:
            raise RuntimeError("Healer does not run: start() it first")
        return self._service

    # Time ------------------------------------------------------------------------------------------------------------

    def run_for(self, duration: str | float) -> None:
        """Let time pass ("90s", "10m", or seconds). An error of Healer's comes out here."""
        self._runner.run(self._pass(_seconds(duration)))

    def run_until(self, happened: Callable[[], Any], *, within: str | float = "30m") -> float:
        """Let time pass until `happened()` is true; seconds that took. AssertionError when it is not in time."""
        return self._runner.run(self._await(happened, _seconds(within)))

    async def _pass(self, seconds: float) -> None:
        sleeping = asyncio.get_running_loop().create_task(asyncio.sleep(seconds), name="passing time")
        watched = [*self._tasks, self._driving]
        await asyncio.wait([sleeping, *watched], return_when=asyncio.FIRST_COMPLETED)
        ended = [task for task in watched if task.done()]
        if not sleeping.done():
            sleeping.cancel()
        for task in ended:
            await task

    async def _await(self, happened: Callable[[], Any], within: float) -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not happened():
            if loop.time() - began >= within:
                raise AssertionError(f"it has not happened within {within:.0f} s\n{self.story()}")
            await self._pass(0.25)
        return loop.time() - began

    @property
    def now(self) -> datetime:
        return self.clock.now()

    # What goes wrong -------------------------------------------------------------------------------------------------

    def fault(
        self, name: str, target: str = "", *, after: str | float = 0, lasts: str | float | None = None, **params: str
    ) -> None:
        """Let a fault begin (see healer.sim.faults.KINDS), `after` so long from now."""
        duration = None if lasts is None else _seconds(lasts)
        self.world.inject(
            Fault(name=name, target=target, duration_seconds=duration, params=params), after_seconds=_seconds(after)
        )

    # What arrives ----------------------------------------------------------------------------------------------------

    def alert(
        self,
        labels: Mapping[str, str] | None = None,
        *,
        status: str = "firing",
        starts_at: datetime | None = None,
        **more: str,
    ) -> None:
        """Let Alertmanager send one alert, by its own clock. Labels as a mapping, as keywords, or both."""
        its_now = Steady(self.clock).now()
        sent = an_alert({**(labels or {}), **more}, status=status, starts_at=starts_at or its_now, ends_at=its_now)
        self.webhook({"alerts": [sent]})

    def resolve(self, labels: Mapping[str, str] | None = None, **more: str) -> None:
        """Let Alertmanager say that it is over."""
        self.alert({**(labels or {}), **more}, status="resolved")

    def webhook(self, body: Mapping[str, Any] | bytes) -> None:
        """Let Alertmanager send a body. BadPayload and JournalError come out here: HTTP 400 and 503."""
        data = body if isinstance(body, bytes) else msgspec.json.encode({"version": "4", "status": "firing", **body})
        report = self.service.hooks["alertmanager"](data)
        self._runner.run(self.service.sink.alerts(report))

    # What people do --------------------------------------------------------------------------------------------------

    def approve(self, title: str, *, by: str = "anna", via: str = "console", digest: str = "") -> Reason:
        """Press Approve on the open incident of that title."""
        return self._runner.run(
            self.service.people.answer(self.incident(title).id, approve=True, by=by, via=via, digest=digest)
        )

    def deny(self, title: str, *, by: str = "anna", via: str = "console") -> Reason:
        return self._runner.run(self.service.people.answer(self.incident(title).id, approve=False, by=by, via=via))

    def cancel(self, title: str, *, by: str = "anna") -> Reason:
        return self._runner.run(self.service.people.cancel(self.incident(title).id, by=by))

    def pause(self, why: str = "") -> None:
        self._runner.run(self.service.people.pause(by="anna", why=why))

    def resume(self) -> None:
        self._runner.run(self.service.people.resume(by="anna", why=""))

    def cordon_by_hand(self, node: str, *, on: bool = True) -> None:
        """What `kubectl cordon` or `kubectl uncordon` does."""

        def change(found: dict[str, Any]) -> None:
            found["spec"]["unschedulable"] = on
            if not on:
                found["spec"].pop("unschedulable")

        self.world.storage.update("nodes", "", node, change)

    # What is there ---------------------------------------------------------------------------------------------------

    @property
    def events(self) -> list[ev.Event]:
        """The journal."""
        return self.journal.events

    def incidents(self) -> Sequence[IncidentView]:
        """Newest first."""
        return self.service.people.incidents()


def an_alert(
    labels: Mapping[str, str],
    *,
    status: str,
    starts_at: datetime,
    ends_at: datetime,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """One alert as in Alertmanager's webhook."""
    return {
        "status": status,
        "labels": dict(labels),
        "annotations": dict(annotations or {}),
        "startsAt": starts_at.isoformat().replace("+00:00", "Z"),
        "endsAt": "0001-01-01T00:00:00Z" if status == "firing" else ends_at.isoformat().replace("+00:00", "Z"),
        "generatorURL": "http://prometheus.example/graph",
        "fingerprint": "",
    }


def _seconds(duration: str | float) -> float:
    if isinstance(duration, str):
        return float(parse_duration(duration).total_seconds())
    return float(duration)


def memory_store(clock: LoopClock) -> Callable[[], Any]:
    from healer.store.embedded import open_store  # noqa: PLC0415 — heavy, and only needed when one runs

    return lambda: open_store(None, clock=clock)
