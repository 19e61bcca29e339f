"""The data folder of the store: made when it is not there, and held by one process at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
from collections.abc import Iterator
from typing import Final

from healer.errors import StoreError

LOCK_FILE: Final = "store.lock"


@contextlib.contextmanager
def hold(folder: pathlib.Path) -> Iterator[None]:
    """Have `folder` to ourselves. The lock goes with the process, however that ends; StoreError when another has it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StoreError(
            f"opening the store in {str(folder)!r}: {error.strerror or error}; give the store a folder it may write to"
        ) from error
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.pread(file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise StoreError(
                f"opening the store in {str(folder)!r}: process {owner} holds it;"
                " stop that process, or give this one another folder"
            ) from error
        # A full disk must not keep us from reading what is there, so the process id is a courtesy.
        with contextlib.suppress(OSError):
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode("ascii"), 0)
        yield
    finally:
        os.close(file)
