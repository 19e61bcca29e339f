"""One way out for all notifiers: post, with a bound in time, and say of each failure whether another try is worth it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

import aiohttp

from healer.errors import Retryable

TIMEOUT_SECONDS: Final = 10.0
ANSWER_LIMIT_BYTES: Final = 1_000_000
LONGEST_DELAY_SECONDS: Final = 600.0


class Poster:
    """A session that is opened with the first request. Use `close`; it may be used again after that."""

    def __init__(self, who: str, *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self._who = who
        self._timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        self._session: aiohttp.ClientSession | None = None

    @property
    def session(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            self._session = aiohttp.ClientSession(timeout=self._timeout)
        return self._session

    async def post(
        self, url: str, body: bytes, headers: Mapping[str, str], *, doing: str
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and the beginning of the body. Retryable when no answer came, and for 429 and 5xx."""
        try:
            async with self.session.post(url, data=body, headers=headers, allow_redirects=False) as answer:
                text = await _beginning(answer)
                status, said = answer.status, answer.headers
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Retryable(f"{doing}: {plain(error)}", delay_seconds=2.0) from error
        if status == 429 or status >= 500:
            delay = retry_after(said, default=5.0 if status == 429 else 2.0)
            raise Retryable(f"{doing}: {self._who} answered {status}", delay_seconds=delay)
        return status, said, text

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


async def _beginning(answer: aiohttp.ClientResponse) -> bytes:
    text = bytearray()
    async for chunk in answer.content.iter_chunked(65536):
        text += chunk
        if len(text) > ANSWER_LIMIT_BYTES:
            break
    return bytes(text)


def plain(error: BaseException) -> str:
    """Kind and cause. Exceptions of aiohttp can carry the request with its headers in their text: that is left out."""
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"{error.host}:{error.port} cannot be reached: {error.os_error.strerror or error.os_error}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return type(error).__name__


def retry_after(headers: Mapping[str, str], *, default: float) -> float:
    """How long the other side asked us to wait, in seconds; bounded, since nobody is told meanwhile."""
    seconds = default
    with contextlib.suppress(ValueError):
        seconds = float(headers.get("Retry-After", ""))
    return min(LONGEST_DELAY_SECONDS, max(0.0, seconds)) if seconds == seconds else default  # noqa: PLR0124 — NaN
