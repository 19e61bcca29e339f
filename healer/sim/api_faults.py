"""What can be wrong with an API server, set by name and taken back the same way. Nothing here is random."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Callable
from typing import Any, Final

from healer.kube.transport import Request

BROKEN: Final = 0
"""In place of a status: the connection breaks without an answer."""


class ConnectionLost(Exception):
    """The client sees its connection broken, and no answer."""


class ConnectionRefused(ConnectionLost):
    """The client gets no connection, so nothing can have been done."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How one request fails: with `status` (BROKEN: without an answer) and, if not 0, Retry-After seconds.

    `method` and `path` say which one; `path` is a shell pattern, both empty for any. With `carried_out` the work is
    done first and only the answer is lost, as when a load balancer gives up.
    """

    status: int
    retry_after: int = 0
    method: str = ""
    path: str = ""
    message: str = ""
    carried_out: bool = False

    def hits(self, request: Request) -> bool:
        return (not self.method or self.method.upper() == request.method) and (
            not self.path or fnmatch.fnmatchcase(request.path, self.path)
        )


@dataclasses.dataclass(kw_only=True)
class ApiFaults:
    """The API server's troubles; set and unset while it serves."""

    latency_seconds: float = 0.0
    """Before each request is looked at."""
    fail_next: list[Failure] = dataclasses.field(default_factory=list)
    """Each hits the first request that it matches, and is then gone."""
    fail_all: list[Failure] = dataclasses.field(default_factory=list)
    """Each hits every request that it matches, while it stands here."""
    fail_every: int = 0
    """Every so many-th request fails with 500; 0 for none."""
    down: bool = False
    """No connection is accepted, and those there are break."""
    hang: bool = False
    """Connections are accepted, and nothing comes back until this ends."""
    watch_lag_seconds: float = 0.0
    """Changes reach watches so much later. Reads are current."""
    gone_as_http: bool = False
    """A watch from a forgotten version is answered with HTTP 410 in place of an ERROR within the stream."""

    def __post_init__(self) -> None:
        self._count = 0
        self._watch_epoch = 0
        self._wakes: dict[Callable[[], None], None] = {}
        self._compact: list[Callable[[], None]] = []

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        self._wake()

    def drop_watches(self) -> None:
        """Break every watch there is now, without a word."""
        self._watch_epoch += 1

    def compact(self) -> None:
        """Forget the past: watches and page tokens from before get 410."""
        for compact in self._compact:
            compact()

    # For the server --------------------------------------------------------------------------------------------------

    @property
    def watch_epoch(self) -> int:
        """Watches of an earlier epoch are to be broken."""
        return self._watch_epoch

    def on_change(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after each change of these faults; returns what ends that."""
        self._wakes[wake] = None
        return lambda: self._wakes.pop(wake, None)

    def on_compact(self, compact: Callable[[], None]) -> None:
        self._compact.append(compact)

    def take(self, request: Request) -> Failure | None:
        """How this request is to fail, if at all."""
        self._count += 1
        for index, failure in enumerate(self.fail_next):
            if failure.hits(request):
                del self.fail_next[index]
                return failure
        for failure in self.fail_all:
            if failure.hits(request):
                return failure
        if self.fail_every and self._count % self.fail_every == 0:
            return Failure(status=500)
        return None

    def _wake(self) -> None:
        for wake in tuple(self.__dict__.get("_wakes", ())):
            wake()
