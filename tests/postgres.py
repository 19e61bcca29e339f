"""A PostgreSQL of a test's own: Debian's, as an unprivileged user, with its own folder, on a free loopback port.

A server that is not installed fails the test with the command that installs it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest

_READY_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.02
_SETTINGS: Final = {
    "listen_addresses": "127.0.0.1",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "log_min_messages": "warning",
}


class Postgres:
    """A server that can be stopped, killed and started again on the same port. Made by `postgres`."""

    def __init__(self, folder: Path, *, durable: bool) -> None:
        self.folder = folder
        self.port = _free_port()
        self.log = folder / "postgres.log"
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None
        self._names = itertools.count(1)

    def url(self, database: str = "postgres", *, hosts: str = "") -> str:
        """`hosts`: as in libpq's URLs, where it is not this server alone."""
        return f"postgresql://healer@{hosts or f'127.0.0.1:{self.port}'}/{database}"

    def new_database(self) -> str:
        """The URL of an empty one."""
        name = f"healer_{next(self._names)}"
        self.run(f"CREATE DATABASE {name}")
        return self.url(name)

    def run(self, statement: str, url: str = "") -> list[Any]:
        """Do it, as a person in a shell would; the rows, if there are any."""
        with psycopg.connect(url or self.url(), autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """Returns when it answers."""
        settings = dict(_SETTINGS, port=str(self.port), unix_socket_directories=str(self.folder))
        if not self._durable:
            settings |= {"fsync": "off", "full_page_writes": "off"}
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [_program("postgres"), "-D", str(self.folder / "data"), *options],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                **_unprivileged(),
            )
        deadline = time.monotonic() + _READY_SECONDS  # noqa: TID251 (another process lives in real time)
        while True:
            with contextlib.suppress(psycopg.OperationalError):
                self.run("SELECT 1")
                return
            late = time.monotonic() > deadline  # noqa: TID251 (the same)
            if late or self._process.poll() is not None:
                pytest.fail(f"PostgreSQL did not become ready:\n{self.log.read_text()[-2000:]}", pytrace=False)
            time.sleep(_POLL_SECONDS)

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """SIGINT: at once, with every connection. SIGQUIT: as in a crash, without a word to the disk."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(timeout=30)
        self._process = None


@contextlib.contextmanager
def postgres(*, durable: bool = False) -> Iterator[Postgres]:
    """A server at work. `durable`: what it has committed survives a crash of the machine too, which costs time."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        _make(folder)
        server = Postgres(folder, durable=durable)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make(folder: Path) -> None:
    who = _unprivileged()
    if who:
        shutil.chown(folder, who["user"], who["group"])
    command: Sequence[str] = [
        _program("initdb"),
        *("-D", str(folder / "data"), "-U", "healer", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"),
    ]
    done = subprocess.run(command, check=False, capture_output=True, cwd="/", **who)
    if done.returncode != 0:
        pytest.fail(f"initdb failed:\n{done.stderr.decode()[-2000:]}", pytrace=False)


def _program(name: str) -> str:
    """The newest there is: Debian keeps them off PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    program = str(found[-1]) if found else shutil.which(name)
    if program is None:
        pytest.fail(f"{name} is not installed; run: apt-get install postgresql", pytrace=False)
    return program


def _unprivileged() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    return {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
