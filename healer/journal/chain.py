"""The chain of digests over the events, and the proof that none was edited, removed or put elsewhere.

A digest covers the event and, through the digest before it, everything older. Whoever can write to the file can also
compute the whole chain anew; to notice that too, keep the newest digest somewhere else now and then
(`healer audit --verify` prints it).
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import AsyncIterable, Iterable
from datetime import UTC, datetime
from typing import Final

import msgspec

from healer import __version__
from healer.errors import JournalError
from healer.model.events import AnyEvent, Event, Recorded, decode, encode, kind

GENESIS: Final = "0" * 64
"""Stands before the first event."""


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """The newest event: how many there are, and the digest over all of them."""

    seq: int = 0
    digest: str = GENESIS


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """An event as stored. `at`, `kind` and `incident` repeat what `data` says, so that it can be looked for."""

    seq: int
    at: str
    kind: str
    incident: str
    data: str
    digest: str

    @property
    def columns(self) -> dict[str, int | str]:
        """By name."""
        return {name: getattr(self, name) for name in self.__slots__}

    @property
    def head(self) -> Head:
        """The end of the chain when this is the newest event."""
        return Head(self.seq, self.digest)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What a check of the chain found. `events`: how many were checked; `digest`: of the last good one."""

    ok: bool
    events: int
    first_bad_seq: int | None = None
    detail: str = ""
    digest: str = GENESIS


class _Columns(msgspec.Struct):
    """What the columns repeat, also for kinds of event that this version does not know."""

    type: str
    at: datetime
    incident: str = ""


_KNOWN: Final = frozenset(member.__name__ for member in AnyEvent.__args__)
_columns: Final = msgspec.json.Decoder(_Columns)


def link(previous: str, data: bytes) -> str:
    """The digest of an event that follows the one with digest `previous`."""
    return hashlib.sha256(previous.encode() + data).hexdigest()


def as_row(event: Event, data: bytes, previous: Head) -> Row:
    """The row of `event`, whose canonical JSON is `data`, right after `previous`."""
    return Row(
        previous.seq + 1, _text(event.at), kind(event), event.incident, data.decode(), link(previous.digest, data)
    )


def encoded(events: Iterable[AnyEvent]) -> list[bytes]:
    """Canonical JSON of each. JournalError names an event that has none, before anything was written."""
    found: list[bytes] = []
    for event in events:
        try:
            found.append(encode(event))
        except (TypeError, ValueError, RecursionError) as error:
            raise JournalError(f"writing {kind(event)} to the journal: it has no JSON form: {error}") from error
    return found


def as_recorded(row: Row) -> Recorded:
    """JournalError, with the mend, for what this version cannot read."""
    if row.kind not in _KNOWN:
        raise JournalError(
            f"reading event {row.seq} of the journal: {row.kind!r} is not known to version {__version__}; "
            "a newer one wrote it: use that version, or a newer one"
        )
    try:
        return Recorded(seq=row.seq, event=decode(row.data), digest=row.digest)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise JournalError(
            f"reading event {row.seq} ({row.kind}) of the journal: {error}; "
            "see `healer audit --verify`, and restore the journal from a backup if it was edited"
        ) from error


async def verify(rows: AsyncIterable[Row], *, head: Head, start: Head) -> Verification:
    """Compute the chain anew over `rows`, which follow `start`. `head`: what the writer said was the newest, read before."""
    last = start

    def bad(seq: int, detail: str) -> Verification:
        return Verification(ok=False, events=last.seq - start.seq, first_bad_seq=seq, detail=detail, digest=last.digest)

    async for row in rows:
        if row.seq != last.seq + 1:
            return bad(last.seq + 1, f"event {last.seq + 1} is missing: {row.seq} follows {last.seq}")
        if link(last.digest, row.data.encode("utf-8", "surrogatepass")) != row.digest:
            return bad(row.seq, f"event {row.seq} ({row.kind}) or its digest was changed, or it is not in its place")
        if wrong := _wrong_column(row):
            return bad(row.seq, f"event {row.seq}: column {wrong!r} is not what the event says")
        if row.seq == head.seq and row.digest != head.digest:
            return bad(row.seq, f"event {row.seq} is not the one that was written: all after {start.seq} may be forged")
        last = row.head
    if last.seq < head.seq:
        return bad(last.seq + 1, f"events {last.seq + 1} to {head.seq} are missing at the end")
    return Verification(ok=True, events=last.seq - start.seq, digest=last.digest)


def _wrong_column(row: Row) -> str:
    try:
        said = _columns.decode(row.data)
    except msgspec.DecodeError:
        return "data"
    if said.type != row.kind:
        return "kind"
    if said.incident != row.incident:
        return "incident"
    return "" if _text(said.at) == row.at else "at"


def _text(at: datetime) -> str:
    """All of one length, so that they sort as text."""
    return at.astimezone(UTC).isoformat(timespec="microseconds")
