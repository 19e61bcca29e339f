"""The bearer token of healer's own server: made when there is none, so that nothing is ever open by default."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from pydantic import SecretStr

from healer.errors import ConfigError, Problem


def token(path: Path) -> SecretStr:
    """What is in the file at `path`, made with mode 0600 if it is not there. ConfigError says what is wrong with it."""
    try:
        with contextlib.suppress(FileExistsError):
            _make(path)
        found = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise _wrong(path, f"reading the token: {error}") from error
    if not found:
        raise _wrong(path, "the token is empty; remove the file, a new one is made")
    return SecretStr(found)


def _make(path: Path) -> None:
    """Whole or not at all: written beside and linked into place, so that nobody ever reads half a token."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if path.exists():
        return
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(file.fileno())
        path.hardlink_to(beside)
    finally:
        beside.unlink()


def _wrong(path: Path, message: str) -> ConfigError:
    return ConfigError([Problem(file=str(path), line=1, column=1, path="", message=message)])
