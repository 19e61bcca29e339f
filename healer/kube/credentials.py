"""Credentials that change while we run: token files that are rotated, and programs that issue short-lived ones."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol, assert_never

import msgspec

from healer.clock import Clock, external_work
from healer.errors import Unreachable
from healer.kube.access import Access, Anonymous, Basic, Certificate, Exec, Token, TokenFile

_REREAD_SECONDS: Final = 60.0
_PLUGIN_SECONDS: Final = 60.0
_BEFORE_EXPIRY: Final = timedelta(seconds=10)
_LONGEST_OUTPUT: Final = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What to send now: a header and, from some programs, a client certificate."""

    authorization: str = dataclasses.field(default="", repr=False)
    certificate: Certificate | None = None


class Source(Protocol):
    """Where credentials come from."""

    async def current(self) -> Credential:
        """What to send now. Unreachable when it cannot be had."""

    def refused(self) -> bool:
        """The server did not take the last one. Whether asking again may give another."""


def source_of(access: Access, clock: Clock) -> Source:
    found = access.credentials
    match found:
        case Anonymous():
            return _Fixed(Credential())
        case Basic():
            pair = base64.b64encode(f"{found.username}:{found.password}".encode()).decode()
            return _Fixed(Credential(authorization=f"Basic {pair}"))
        case Token():
            return _Fixed(Credential(authorization=f"Bearer {found.token}"))
        case TokenFile():
            return FromFile(found.path, clock)
        case Exec():
            return FromProgram(found, access, clock)
    assert_never(found)


class _Fixed:
    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        return self._credential

    def refused(self) -> bool:
        return False


class FromFile:
    """A token read again every minute, and when the server refuses it. A file that cannot be read leaves the old token."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._read_at: float | None = None
        self._credential = Credential()

    async def current(self) -> Credential:
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at >= _REREAD_SECONDS:
            self._read(now)
        return self._credential

    def refused(self) -> bool:
        before = self._credential
        self._read(self._clock.monotonic())
        return self._credential != before

    def _read(self, now: float) -> None:
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            if self._read_at is None:
                raise Unreachable(f"reading the token in {self._path}: {error}") from error
            return
        self._read_at = now
        self._credential = Credential(authorization=f"Bearer {token}")


class _ExecStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    status: _ExecStatus


class FromProgram:
    """Runs a credential plugin, and keeps what it gave until shortly before it expires or the server refuses it."""

    def __init__(self, plugin: Exec, access: Access, clock: Clock) -> None:
        self._plugin = plugin
        self._access = access
        self._clock = clock
        self._credential: Credential | None = None
        self._expires: datetime | None = None
        self._lock = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._lock:
            if self._credential is None or self._is_expired():
                self._credential = await self._ask()
            return self._credential

    def refused(self) -> bool:
        self._credential = None
        return True

    def _is_expired(self) -> bool:
        return self._expires is not None and self._clock.now() >= self._expires - _BEFORE_EXPIRY

    async def _ask(self) -> Credential:
        status = _read_output(await self._run(), self._plugin)
        self._expires = status.expiration_timestamp
        certificate = None
        if status.client_certificate_data:
            certificate = Certificate(
                certificate=status.client_certificate_data.encode(), key=status.client_key_data.encode()
            )
        return Credential(authorization=f"Bearer {status.token}" if status.token else "", certificate=certificate)

    async def _run(self) -> bytes:
        command = self._plugin.command
        with external_work():
            try:
                process = await asyncio.create_subprocess_exec(
                    command,
                    *self._plugin.arguments,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=asyncio.subprocess.PIPE,
                    stderr=asyncio.subprocess.PIPE,
                    env=self._environment(),
                )
            except OSError as error:
                hint = f"; {self._plugin.install_hint}" if self._plugin.install_hint else ""
                raise Unreachable(f"running the credential plugin {command!r}: {error}{hint}") from error
            out, err = await _output(process, command)
        if process.returncode:
            said = err[-300:].decode(errors="replace").strip()
            raise Unreachable(f"the credential plugin {command!r} ended with {process.returncode}: {said}")
        return out

    def _environment(self) -> Mapping[str, str]:
        spec: dict[str, object] = {"interactive": False}
        if self._plugin.provide_cluster:
            spec["cluster"] = self._cluster()
        asked = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return {
            **os.environ,
            **self._plugin.environment,
            "KUBERNETES_EXEC_INFO": msgspec.json.encode(asked).decode(),
        }

    def _cluster(self) -> Mapping[str, object]:
        told: dict[str, object] = {"server": self._access.server}
        if self._access.authority is not None:
            told["certificate-authority-data"] = base64.b64encode(self._access.authority).decode()
        if self._access.skip_verification:
            told["insecure-skip-tls-verify"] = True
        if self._access.server_name:
            told["tls-server-name"] = self._access.server_name
        return told


async def _output(process: asyncio.subprocess.Process, command: str) -> tuple[bytes, bytes]:
    """All it writes; it is killed when it takes too long, or when nobody wants to know any more."""
    try:
        async with asyncio.timeout(_PLUGIN_SECONDS):
            return await process.communicate()
    except TimeoutError:
        raise Unreachable(
            f"the credential plugin {command!r} did not end within {_PLUGIN_SECONDS:.0f} s; does it ask for a password?"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _read_output(output: bytes, plugin: Exec) -> _ExecStatus:
    about = f"the credential plugin {plugin.command!r}"
    try:
        answer = msgspec.json.decode(output[:_LONGEST_OUTPUT], type=_ExecCredential)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unreachable(f"{about} wrote something that is not an ExecCredential: {error}") from error
    if answer.api_version != plugin.api_version:
        raise Unreachable(f"{about} answered in {answer.api_version}, not in {plugin.api_version} as configured")
    if not answer.status.token and not (answer.status.client_certificate_data and answer.status.client_key_data):
        raise Unreachable(f"{about} gave neither a token nor a client certificate with its key")
    return answer.status
