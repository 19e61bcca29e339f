"""Who of several replicas leads: a Lease of Kubernetes, and a term (the fencing token) that only ever grows.

Nobody's wall clock is believed. A candidate takes the lease when it has not *seen it change* for as long as its holder
asked for, measured on its own monotonic clock; a leader counts its time from *before* it sent the renewal that was
answered, and stops by itself well before anybody else may begin:

    time for one call < time to renew < time of the lease

`Standing` is pure and knows these rules; `Elector` carries them out against an API server.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, Final

from healer.clock import Clock
from healer.errors import ActionError, Conflict, HealerError, NotFound
from healer.model.targets import ObjectRef
from healer.ports import JSON, Kube

log = logging.getLogger(__name__)

MILLISECONDS: Final = "healer.dev/lease-milliseconds"
"""The time of the lease, which its own field can only give in whole seconds."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """In seconds. `call` bounds one request; a renewal is tried every `retry`; see docs/high-availability.md for others."""

    lease: float = 1.5
    renew: float = 1.0
    call: float = 0.4
    retry: float = 0.25

    def __post_init__(self) -> None:
        if not 0 < self.call < self.renew < self.lease or not 0 < self.retry < self.renew:
            raise ValueError(
                "the time for a call and between tries must be below that to renew, and that below the lease"
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """What stands in the lease. `holder` is empty when it was let go; `version` changes with every write."""

    holder: str
    term: int
    lease_seconds: float
    version: str


class Standing:
    """What one replica knows about the lease, and whether it leads. `now` is always its own monotonic clock."""

    def __init__(self, me: str, timing: Timing) -> None:
        self.me = me
        self.timing = timing
        self.record: LeaseRecord | None = None
        self.leads_until = -math.inf
        self._seconds = timing.lease
        self._changed_at = math.inf
        self._version: str | None = "not looked yet"

    def saw(self, record: LeaseRecord | None, now: float) -> None:
        """The lease was read, or is not there."""
        version = record.version if record else None
        if version != self._version:
            self._changed_at, self._version = now, version
        if record is not None:
            self._seconds = record.lease_seconds
        self.record = record

    def contested(self) -> None:
        """Another was faster: whatever is seen next is new, also nothing."""
        self._version = "contested"

    def free_at(self) -> float:
        """From when on the lease may be taken; in the past when it is free."""
        if self.record is not None and self.record.holder in ("", self.me):
            # What is mine by name is left from a write of my own of which I never heard, or from when I led last.
            return -math.inf
        # One that is not there may have been deleted a moment ago: its holder does not know yet.
        return self._changed_at + self._seconds

    def next_term(self, newest: int) -> int:
        """The term to begin. `newest`: that has ever begun, as the journal knows: a lease may be deleted and made anew."""
        return max(newest, self.record.term if self.record else 0) + 1

    def renewed(self, record: LeaseRecord, sent_at: float) -> None:
        """A write of mine was answered; it was sent at `sent_at`."""
        self.record = record
        self.leads_until = sent_at + self.timing.renew

    def stepped_down(self) -> None:
        self.leads_until = -math.inf

    def leads(self, now: float) -> bool:
        return now < self.leads_until


class Elector:
    """Stands for election and holds the lease. `client` is its own: bounded by `timing.call`, shared with nobody."""

    def __init__(self, client: Kube, lease: ObjectRef, *, me: str, timing: Timing, clock: Clock) -> None:
        self._client = client
        self._lease = lease
        self._clock = clock
        self._standing = Standing(me, timing)
        self._timing = timing
        self._said = ""
        self.term = 0
        """The term in which we lead, or led last."""

    def leads(self) -> bool:
        """Whether we lead at this very moment. To be asked right before each change."""
        return self._standing.leads(self._clock.monotonic())

    @property
    def holder(self) -> str:
        """Who leads, as last heard."""
        return self._standing.record.holder if self._standing.record else ""

    async def elected(self, *, willing: Callable[[], bool], newest_term: Callable[[], Awaitable[int]]) -> int:
        """Wait until we lead; the term. `newest_term` is asked before: who cannot read the journal does not stand."""
        while True:
            began = self._clock.monotonic()
            try:
                await self._look()
                if willing() and self._standing.free_at() <= self._clock.monotonic():
                    await self._take(await newest_term())
                    return self.term
            except Conflict:
                self._standing.contested()
            except (ActionError, TimeoutError) as error:
                self._say(f"standing for election: {error}")
            except HealerError as error:
                self._say(f"not standing for election: {error}")
            await asyncio.sleep(self._pause(began))

    async def held(self) -> str:
        """Renew until that is not possible any more; why. When it returns we do not lead, and nobody else does yet."""
        why = ""
        while True:
            began = self._clock.monotonic()
            left = self._standing.leads_until - began
            if left <= 0:
                return f"the lease could not be renewed within {self._timing.renew:g} s: {why or 'we were not at work'}"
            try:
                async with asyncio.timeout(left):
                    await self._renew()
            except _Lost as error:
                self._standing.stepped_down()
                return str(error)
            except (ActionError, TimeoutError) as error:
                why = str(error) or "no answer in time"
            pause = max(0.0, began + self._timing.retry - self._clock.monotonic())
            await asyncio.sleep(min(pause, max(0.0, self._standing.leads_until - self._clock.monotonic())))

    def step_down(self) -> None:
        """From this moment on we do not lead."""
        self._standing.stepped_down()

    async def release(self) -> None:
        """Let go, so that another may begin at once. Only when nothing is under way any more."""
        self._standing.stepped_down()
        with contextlib.suppress(ActionError, TimeoutError):
            await self._look()
            record = self._standing.record
            if record is not None and record.holder == self._standing.me:
                self._standing.record = _record(await self._write({"holderIdentity": None}, record.version))

    # Asking the API server -------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        try:
            found = _record(await self._client.get(self._lease))
        except NotFound:
            found = None
        self._standing.saw(found, self._clock.monotonic())

    async def _take(self, newest: int) -> None:
        term, record = self._standing.next_term(newest), self._standing.record
        sent_at, now = self._clock.monotonic(), _stamp(self._clock.now())
        spec = self._spec(term, now) | {"acquireTime": now}
        if record is None:
            body = {"metadata": {"name": self._lease.name, "annotations": self._annotations()}, "spec": spec}
            written = await self._client.create("Lease", self._lease.namespace, body)
        else:
            written = await self._write(spec, record.version)
        self.term = term
        self._standing.renewed(_record(written), sent_at)
        self._said = ""

    async def _renew(self) -> None:
        try:
            await self._renew_once()
        except (Conflict, NotFound):
            # Perhaps by a renewal of ours whose answer got lost.
            await self._look()
            found = self._standing.record
            if found is None or found.holder != self._standing.me or found.term != self.term:
                raise _Lost(
                    f"the lease is {repr(found.holder) if found and found.holder else 'nobody'}'s now"
                ) from None
            await self._renew_once()

    async def _renew_once(self) -> None:
        version = self._standing.record.version if self._standing.record else ""
        sent_at = self._clock.monotonic()
        written = await self._write(self._spec(self.term, _stamp(self._clock.now())), version)
        self._standing.renewed(_record(written), sent_at)

    async def _write(self, spec: JSON, version: str) -> JSON:
        body = {"metadata": {"annotations": self._annotations()}, "spec": spec}
        return await self._client.patch(self._lease, body, resource_version=version)

    def _spec(self, term: int, now: str) -> JSON:
        return {
            "holderIdentity": self._standing.me,
            "leaseDurationSeconds": math.ceil(self._timing.lease),
            "leaseTransitions": term,
            "renewTime": now,
        }

    def _annotations(self) -> dict[str, str]:
        return {MILLISECONDS: str(round(self._timing.lease * 1000))}

    def _pause(self, began: float) -> float:
        """Until the next look: soon, and no later than the lease may be free."""
        now = self._clock.monotonic()
        next_ = began + self._timing.retry
        free = self._standing.free_at()
        return max(0.01, (min(next_, free) if free > now else next_) - now)

    def _say(self, text: str) -> None:
        """Once, not four times a second."""
        if text != self._said:
            self._said = text
            log.warning("%s", text)


class _Lost(ActionError):
    """Another holds the lease."""


def _record(lease: Mapping[str, Any]) -> LeaseRecord:
    metadata, spec = lease.get("metadata") or {}, lease.get("spec") or {}
    milliseconds = str((metadata.get("annotations") or {}).get(MILLISECONDS, ""))
    seconds = float(spec.get("leaseDurationSeconds") or 0)
    return LeaseRecord(
        holder=str(spec.get("holderIdentity") or ""),
        term=int(spec.get("leaseTransitions") or 0),
        lease_seconds=int(milliseconds) / 1000 if milliseconds.isdecimal() else seconds,
        version=str(metadata.get("resourceVersion", "")),
    )


def _stamp(at: datetime) -> str:
    """As Kubernetes writes them. For people to read; nobody compares it with a clock."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
