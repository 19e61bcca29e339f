"""One writer at a time: a lock on a file beside the journal, let go by the kernel when its process ends.

Not a lock inside SQLite: that one is held only during a transaction, and two services that took turns at it would
both believe they were deciding.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from healer.errors import JournalError, JournalInUse


@contextlib.contextmanager
def only_writer(path: Path, now: datetime) -> Iterator[None]:
    """Hold the right to write to the journal at `path`. JournalInUse names who has it."""
    side = path.with_name(path.name + ".lock")
    try:
        handle = os.open(side, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise JournalError(
            f"opening journal {str(path)!r}: {error}; make its folder writable for this process"
        ) from error
    try:
        _take(handle, path)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()} on {platform.node()} since {now:%Y-%m-%dT%H:%M:%SZ}".encode(), 0)
        yield
    finally:
        # Closing lets go. The file stays: removing it would let two processes lock two files of one name.
        os.close(handle)


def _take(handle: int, path: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(handle, 500, 0).decode("utf-8", "replace") or "another process"
        raise JournalInUse(
            f"opening journal {str(path)!r}: {holder} holds it; stop that one, or set another journal.path"
        ) from error
    except OSError as error:
        raise JournalError(
            f"opening journal {str(path)!r}: its file system takes no locks ({error}); put it on a local disk"
        ) from error
