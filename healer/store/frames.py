"""How a segment of the log looks, byte by byte; writing and reading frames, damage included."""

from __future__ import annotations

import dataclasses
import pathlib
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import numpy as np

from healer.errors import StoreError
from healer.model.series import Floats, Labels, Times
from healer.store.columns import Ids

MAGIC: Final = b"HEALSG"
VERSION: Final = 1
HEADER: Final = MAGIC + bytes([VERSION, 255 - VERSION])
"""The version stands there twice, so that a flipped bit is damage and not a version that does not exist yet."""
MARKER: Final = b"\xf7HF\n"
"""Not UTF-8, so that it does not stand in labels; where to go on reading behind damage."""

_FRAME: Final = struct.Struct("<4sII")
_SAMPLES: Final = struct.Struct("<cI?q")
_DEFINITIONS_KIND: Final = b"d"
_SAMPLES_KIND: Final = b"s"


@dataclasses.dataclass(frozen=True, slots=True)
class Definitions:
    series: dict[int, Labels]


@dataclasses.dataclass(frozen=True, slots=True)
class Samples:
    ids: Ids
    times_ms: Times
    values: Floats


def definitions(series: Iterable[tuple[int, Labels]]) -> bytes:
    """A frame that says what numbers stand for from here on."""
    return _frame(_DEFINITIONS_KIND + msgspec.msgpack.encode([(id_, labels.pairs) for id_, labels in series]))


def samples(ids: Ids, times_ms: Times, values: Floats) -> bytes:
    """A frame of samples. One time for all of them, as a scrape has it, is written once."""
    common = bool((times_ms == times_ms[0]).all())
    head = _SAMPLES.pack(_SAMPLES_KIND, len(ids), common, times_ms[0])
    times = b"" if common else times_ms.astype("<i8").tobytes()
    return _frame(head + ids.astype("<i4").tobytes() + values.astype("<f8").tobytes() + times)


def _frame(payload: bytes) -> bytes:
    return _FRAME.pack(MARKER, len(payload), zlib.crc32(payload)) + payload


class SegmentReader:
    """Reads one segment. After `frames()` is exhausted it knows what was damaged."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.damaged: list[tuple[int, int]] = []
        """Offset and length of what was skipped between valid frames."""
        self.good_bytes = 0
        """Where the last valid frame ends."""
        self.torn_bytes = 0
        """How much stands behind it."""

    def frames(self) -> Iterator[Definitions | Samples]:
        """Every valid frame, in order."""
        position = len(HEADER)
        if self._data[:position] == HEADER:
            self.good_bytes = position
        else:
            position = 0
        while (found := self._next(position)) is not None:
            start, payload = found
            if start > self.good_bytes:
                self.damaged.append((self.good_bytes, start - self.good_bytes))
            position = self.good_bytes = start + _FRAME.size + len(payload)
            yield _parse(payload)
        self.torn_bytes = len(self._data) - self.good_bytes

    def _next(self, position: int) -> tuple[int, memoryview] | None:
        while (start := self._data.find(MARKER, position)) >= 0:
            payload = self._payload(start)
            if payload is not None:
                return start, payload
            position = start + 1
        return None

    def _payload(self, start: int) -> memoryview | None:
        begin = start + _FRAME.size
        if begin > len(self._data):
            return None
        _, length, checksum = _FRAME.unpack_from(self._data, start)
        if begin + length > len(self._data):
            return None
        payload = memoryview(self._data)[begin : begin + length]
        return payload if zlib.crc32(payload) == checksum else None


def read_segment(path: pathlib.Path) -> SegmentReader:
    """Raises StoreError when the segment was written by a newer Healer, or cannot be read at all."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise StoreError(f"reading {str(path)!r}: {error.strerror or error}") from error
    version, complement = data[len(MAGIC) : len(HEADER)] if len(data) >= len(HEADER) else (VERSION, 255 - VERSION)
    if data.startswith(MAGIC) and version == 255 - complement and version != VERSION:
        raise StoreError(
            f"reading {str(path)!r}: it has format {version}, and this Healer reads format {VERSION};"
            " run the version that wrote it, or give this one another folder"
        )
    return SegmentReader(data)


def _parse(payload: memoryview) -> Definitions | Samples:
    if bytes(payload[:1]) == _DEFINITIONS_KIND:
        series = msgspec.msgpack.decode(payload[1:], type=list[tuple[int, tuple[tuple[str, str], ...]]])
        return Definitions({id_: Labels((sys.intern(n), sys.intern(v)) for n, v in pairs) for id_, pairs in series})
    _, count, common, first = _SAMPLES.unpack_from(payload)
    offset = _SAMPLES.size
    ids = np.frombuffer(payload, "<i4", count, offset)
    values = np.frombuffer(payload, "<f8", count, offset + 4 * count)
    times = np.full(count, first) if common else np.frombuffer(payload, "<i8", count, offset + 12 * count)
    return Samples(ids.astype(np.int32), times.astype(np.int64), values.astype(np.float64))
