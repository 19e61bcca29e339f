"""Real servers for tests: Debian's Prometheus, Alertmanager and node exporter, each on a free loopback port.

A server that is not installed fails the test with the command that installs it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

_READY_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.05
_ATTEMPTS: Final = 3
"""Between finding a free port and using it somebody else may take it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running process and where it listens."""

    address: str
    pid: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def get(self, path: str, **headers: str) -> tuple[bytes, str]:
        """Body and content type of a page."""
        request = urllib.request.Request(self.url + path, headers=headers)  # noqa: S310 (a loopback address of ours)
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 (the same)
            return response.read(), response.headers.get("Content-Type", "")


@contextlib.contextmanager
def node_exporter(folder: Path, *, textfiles: Path | None = None) -> Iterator[Server]:
    """The node exporter of this machine; it also exports what stands in the .prom files of folder `textfiles`."""
    more = [] if textfiles is None else [f"--collector.textfile.directory={textfiles}"]

    def command(address: str) -> Sequence[str]:
        return ["prometheus-node-exporter", f"--web.listen-address={address}", "--log.level=error", *more]

    with _running(command, "/metrics", folder, package="prometheus-node-exporter") as server:
        yield server


@contextlib.contextmanager
def prometheus(folder: Path, config: str) -> Iterator[Server]:
    """A Prometheus with `config`, the text of its prometheus.yml; `@SELF@` in it stands for its own address."""
    file = folder / "prometheus.yml"

    def command(address: str) -> Sequence[str]:
        file.write_text(config.replace("@SELF@", address))
        return [
            "prometheus",
            f"--config.file={file}",
            f"--storage.tsdb.path={folder / 'tsdb'}",
            f"--web.listen-address={address}",
            "--log.level=warn",
        ]

    with _running(command, "/-/ready", folder, package="prometheus") as server:
        yield server


@contextlib.contextmanager
def alertmanager(folder: Path, config: str) -> Iterator[Server]:
    """An Alertmanager with `config`, the text of its alertmanager.yml."""
    file = folder / "alertmanager.yml"
    file.write_text(config)

    def command(address: str) -> Sequence[str]:
        return [
            "prometheus-alertmanager",
            f"--config.file={file}",
            f"--storage.path={folder / 'alertmanager'}",
            f"--web.listen-address={address}",
            "--cluster.listen-address=",
            "--log.level=warn",
        ]

    with _running(command, "/-/ready", folder, package="prometheus-alertmanager") as server:
        yield server


@contextlib.contextmanager
def _running(command: Callable[[str], Sequence[str]], ready: str, folder: Path, *, package: str) -> Iterator[Server]:
    log = folder / f"{package}.log"
    for _ in range(_ATTEMPTS):
        address = f"127.0.0.1:{_free_port()}"
        arguments = command(address)
        if shutil.which(arguments[0]) is None:
            pytest.fail(f"{arguments[0]} is not installed; run: apt-get install {package}", pytrace=False)
        with (
            log.open("wb") as output,
            subprocess.Popen(arguments, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL) as process,
        ):
            try:
                server = Server(address=address, pid=process.pid, log=log)
                if _is_ready(server, ready, process):
                    yield server
                    return
            finally:
                _stop(process)
    pytest.fail(f"{package} did not become ready:\n{log.read_text(errors='replace')[-2000:]}", pytrace=False)


def _is_ready(server: Server, path: str, process: subprocess.Popen[bytes]) -> bool:
    """Asks until it answers, it has ended, or the time is up."""
    deadline = time.monotonic() + _READY_SECONDS  # noqa: TID251 (another process lives in real time)
    while process.poll() is None and time.monotonic() < deadline:  # noqa: TID251 (the same)
        with contextlib.suppress(OSError):
            server.get(path)
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
