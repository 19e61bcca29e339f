"""Whether the API server is there: when it last answered, and since when without a break."""

from __future__ import annotations

from typing import Final

from healer.clock import Clock
from healer.model.cluster import Freshness

LONGEST_GAP_SECONDS: Final = 30.0
"""A longer time without an answer is a break, also when nothing was asked meanwhile (a process that was stopped)."""


class Contact:
    """Told of every answer and every failure; times are monotonic."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began = clock.monotonic()
        self._answered: float | None = None
        self._healthy_since: float | None = None

    def answered(self) -> None:
        """The server said something, be it no."""
        now = self._clock.monotonic()
        broken = self._answered is None or now - self._answered > LONGEST_GAP_SECONDS
        if broken or self._healthy_since is None:
            self._healthy_since = now
        self._answered = now

    def failed(self) -> None:
        """A request was not answered: no connection, no time left, or a server that has broken down."""
        self._healthy_since = None

    @property
    def silent_seconds(self) -> float:
        """Since the last answer; since we began when there was none."""
        return self._clock.monotonic() - (self._began if self._answered is None else self._answered)

    @property
    def healthy_seconds(self) -> float:
        """How long it has answered without a break; 0 while it does not."""
        if self._healthy_since is None or self.silent_seconds > LONGEST_GAP_SECONDS:
            return 0.0
        return self._clock.monotonic() - self._healthy_since

    def freshness(self, *, synced: bool) -> Freshness:
        return Freshness(synced=synced, silent_seconds=self.silent_seconds, healthy_seconds=self.healthy_seconds)
