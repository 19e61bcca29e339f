"""One HTTP GET of a metrics page, with a bound on time and on size, whatever the other side does."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import Final

import aiohttp

from healer.errors import SourceError

_STEP_BYTES: Final = 1024 * 1024
"""Inflated at once. Other targets get their turn in between."""


class Outcome(enum.StrEnum):
    """How a scrape ended: the `outcome` of `healer_scrapes_total`."""

    OK = "ok"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    STATUS = "bad status"
    TOO_LARGE = "too large"
    BAD_ENCODING = "bad encoding"
    BAD_PAGE = "bad page"
    LIMIT = "over a limit"
    NOT_KEPT = "not kept"
    FAULT = "fault of healer"


class ScrapeFailed(SourceError):
    """A page could not be had or read."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A page as it came, uncompressed."""

    body: bytes
    content_type: str


async def fetch(
    session: aiohttp.ClientSession, url: str, *, headers: Mapping[str, str], timeout_seconds: float, limit_bytes: int
) -> Answer:
    """Get `url`. The session must not decompress by itself. ScrapeFailed, and nothing else, when there is no page."""
    try:
        async with asyncio.timeout(timeout_seconds):
            return await _get(session, url, headers, limit_bytes)
    except TimeoutError:
        raise ScrapeFailed(Outcome.TIMEOUT, f"no whole answer within {timeout_seconds:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        # A URL that aiohttp does not take is a ValueError.
        raise ScrapeFailed(Outcome.UNREACHABLE, f"{type(error).__name__}: {error}") from error


async def _get(session: aiohttp.ClientSession, url: str, headers: Mapping[str, str], limit_bytes: int) -> Answer:
    async with session.get(url, headers=headers) as response:
        if response.status != 200:
            raise ScrapeFailed(Outcome.STATUS, f"answered HTTP {response.status}")
        encoding = response.headers.get("Content-Encoding", "").strip().lower()
        chunks = response.content.iter_any()
        if encoding == "gzip":
            body = await _inflated(chunks, limit_bytes)
        elif encoding in ("", "identity"):
            body = await _plain(chunks, limit_bytes)
        else:
            raise ScrapeFailed(Outcome.BAD_ENCODING, f"answered in the encoding {encoding!r}; gzip was offered")
        return Answer(body=body, content_type=response.headers.get("Content-Type", ""))


async def _plain(chunks: AsyncIterator[bytes], limit_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit_bytes:
            raise _too_large(limit_bytes)
    return bytes(body)


async def _inflated(chunks: AsyncIterator[bytes], limit_bytes: int) -> bytes:
    """Inflate no further than one byte beyond the limit, a step at a time: a bomb is never in memory."""
    inflater = zlib.decompressobj(wbits=31)
    body = bytearray()
    received = 0
    try:
        async for chunk in chunks:
            received += len(chunk)
            data = chunk
            while data and not inflater.eof:
                body += inflater.decompress(data, min(_STEP_BYTES, limit_bytes + 1 - len(body)))
                if len(body) > limit_bytes or received > limit_bytes:
                    raise _too_large(limit_bytes)
                data = inflater.unconsumed_tail
                if data:
                    await asyncio.sleep(0)
        body += inflater.flush()
    except zlib.error as error:
        raise ScrapeFailed(Outcome.BAD_ENCODING, f"not the gzip that it says it is: {error}") from None
    if not inflater.eof:
        raise ScrapeFailed(Outcome.BAD_ENCODING, "the gzip was cut off")
    return bytes(body)


def _too_large(limit_bytes: int) -> ScrapeFailed:
    return ScrapeFailed(Outcome.TOO_LARGE, f"over {limit_bytes} bytes; raise body_size_limit if that is right")
