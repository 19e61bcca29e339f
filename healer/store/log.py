"""The log on disk: everything the store has taken, in segments that each stand by themselves.

A segment is an 8-byte header and frames: marker, length, CRC-32, payload. A payload defines series (number and labels)
or holds samples of series defined earlier *in the same segment*, so that old segments can go without a trace.
A frame is handed to the operating system before the samples are acknowledged, so a killed process loses nothing;
the disk is flushed about once a second, so a machine that loses power loses about so much.
"""

from __future__ import annotations

import dataclasses
import errno
import logging
import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from healer.errors import StoreError
from healer.model.series import Floats, Labels, Times
from healer.store import frames
from healer.store.columns import NEVER, Ids

logger = logging.getLogger(__name__)

SEGMENT_BYTES: Final = 64 * 1024 * 1024
NAME: Final = "series-{:010d}.log"
PATTERN: Final = "series-" + "[0-9]" * 10 + ".log"
"""The folder may hold other files, such as the journal."""

Replay = Callable[[Sequence[Labels], Times, Floats], None]


@dataclasses.dataclass(slots=True)
class _Segment:
    path: pathlib.Path
    newest_ms: int
    bytes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """What could not be read back: places where frames were skipped, and samples whose series was lost with them."""

    places: int = 0
    orphans: int = 0


class SegmentLog:
    """One folder of segments. Only one process may have it open (`folder.hold`)."""

    def __init__(self, folder: pathlib.Path, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._segments: list[_Segment] = []
        self._file: int | None = None
        self._defined: set[int] = set()
        self._number = 0
        self._retired: list[int] = []

    def replay(self, into: Replay) -> Damage:
        """Give back all that the log holds, oldest first, and cut off what a killed process left half written."""
        places = orphans = 0
        paths = sorted(self._folder.glob(PATTERN))
        for path in paths:
            reader = frames.read_segment(path)
            names = _Names()
            newest_ms = NEVER
            for frame in reader.frames():
                if isinstance(frame, frames.Definitions):
                    names.define(frame.series)
                    continue
                labels, rows = names.resolve(frame.ids)
                orphans += len(frame.ids) - len(rows)
                if len(rows):
                    newest_ms = max(newest_ms, int(frame.times_ms.max()))
                    into(labels, frame.times_ms[rows], frame.values[rows])
            places += len(reader.damaged)
            for offset, length in reader.damaged:
                logger.warning("reading %s: skipped %d damaged bytes at %d", path, length, offset)
            if reader.torn_bytes and path == paths[-1]:
                logger.info("reading %s: cut off %d bytes that were half written", path, reader.torn_bytes)
                os.truncate(path, reader.good_bytes)
            self._segments.append(_Segment(path, newest_ms, reader.good_bytes))
            self._number = max(self._number, int(path.stem.removeprefix("series-")))
        return Damage(places=places, orphans=orphans)

    def write(self, ids: Ids, labels_of: Callable[[int], Labels], times_ms: Times, values: Floats) -> None:
        """Hand samples to the operating system. StoreError when it does not take them; then nothing was written."""
        try:
            self._rotate_if_full()
            undefined = [id_ for id_ in ids.tolist() if id_ not in self._defined]
            data = frames.samples(ids, times_ms, values)
            if undefined:
                data = frames.definitions((id_, labels_of(id_)) for id_ in undefined) + data
            self._put(data)
        except OSError as error:
            raise StoreError(_explain(self._folder, error)) from error
        self._defined.update(undefined)
        self._segments[-1].newest_ms = max(self._segments[-1].newest_ms, int(times_ms.max()))

    def forget(self, ids: Iterable[int]) -> None:
        """The numbers may stand for other series from now on."""
        self._defined.difference_update(ids)

    def drop_until(self, time_ms: int) -> None:
        """Delete segments that hold nothing newer than `time_ms`, except the one that is being written."""
        kept: list[_Segment] = []
        for segment in self._segments:
            current = self._file is not None and segment is self._segments[-1]
            if segment.newest_ms > time_ms or current or not _deleted(segment.path):
                kept.append(segment)
        self._segments = kept

    def take_unflushed(self) -> list[int]:
        """File descriptors to flush and close, for a thread to do; they belong to the caller now."""
        files, self._retired = self._retired, []
        return files if self._file is None else [*files, os.dup(self._file)]

    def close(self) -> None:
        """Flush and let go."""
        if self._file is not None:
            self._retired.append(self._file)
            self._file = None
        flush(self.take_unflushed())

    def _rotate_if_full(self) -> None:
        if self._file is not None and self._segments[-1].bytes < self._limit():
            return
        number = self._number + 1
        path = self._folder / NAME.format(number)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        if self._file is not None:
            self._retired.append(self._file)
        self._file, self._number = file, number
        self._defined.clear()
        self._segments.append(_Segment(path, NEVER, 0))

    def _limit(self) -> int:
        # A segment repeats the definitions of its series. With very many of them it must be worth that.
        return max(self._segment_bytes, 1024 * len(self._defined))

    def _put(self, data: bytes) -> None:
        """Append all of `data` or leave the segment as it was."""
        assert self._file is not None  # noqa: S101 (_rotate_if_full has opened it)
        segment = self._segments[-1]
        if not segment.bytes:
            data = frames.HEADER + data
        written = 0
        try:
            while written < len(data):
                written += os.write(self._file, data[written:] if written else data)
        except OSError:
            # What stands half-written would only be skipped later, but it takes room on a disk that has none.
            os.ftruncate(self._file, segment.bytes)
            raise
        segment.bytes += written


def flush(files: Sequence[int]) -> None:
    """Bring what was written to `files` onto the disk and close them. A disk that cannot is logged: reads still work."""
    for file in files:
        try:
            os.fsync(file)
        except OSError:
            logger.exception("flushing samples to disk")
        finally:
            os.close(file)


def _deleted(path: pathlib.Path) -> bool:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("deleting %s, which is too old to keep: %s", path, error.strerror or error)
        return False
    return True


class _Names:
    """What the numbers of a segment stand for, as far as it has been read."""

    REMEMBERED: Final = 256

    def __init__(self) -> None:
        self._series: dict[int, Labels] = {}
        self._layouts: dict[bytes, tuple[tuple[Labels, ...], list[int]]] = {}

    def define(self, series: Mapping[int, Labels]) -> None:
        self._series.update(series)
        self._layouts.clear()

    def resolve(self, ids: Ids) -> tuple[tuple[Labels, ...], list[int]]:
        """The rows whose series is known. A target writes the same numbers each time, and gets the same tuple."""
        key = ids.tobytes()
        known = self._layouts.get(key)
        if known is None:
            rows = [row for row, id_ in enumerate(ids.tolist()) if id_ in self._series]
            known = (tuple(self._series[id_] for id_ in ids[rows].tolist()), rows)
            if len(self._layouts) >= self.REMEMBERED:
                self._layouts.clear()
            self._layouts[key] = known
        return known


def _explain(folder: pathlib.Path, error: OSError) -> str:
    mend = "make room or shorten `keep`" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "check the folder"
    return f"writing samples to {str(folder)!r}: {error.strerror or error}; {mend}; it is tried again with the next samples"
