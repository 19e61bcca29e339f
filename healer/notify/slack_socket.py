"""Socket Mode: Slack's interactions over a connection that we open, so that no port need be open to the internet."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import aiohttp
import msgspec
from pydantic import SecretStr

from healer.errors import Permanent, Retryable
from healer.notify.slack_api import SlackApi

log = logging.getLogger(__name__)

FIRST_DELAY_SECONDS: Final = 1.0
LONGEST_DELAY_SECONDS: Final = 60.0
LOST_TOKEN_SECONDS: Final = 300.0
"""Between tries with a token that Slack does not take: somebody may give it back its rights."""


async def listen(api: SlackApi, token: SecretStr, heard: Callable[[Any], Awaitable[None]]) -> None:
    """Give every interactive payload to `heard`, until cancelled; connect again whenever the connection ends."""
    delay = FIRST_DELAY_SECONDS
    while True:
        try:
            greeted = await _once(api, token, heard)
        except Retryable as error:
            log.warning("Slack's Socket Mode: %s; trying again", error)
            delay = max(error.delay_seconds, min(LONGEST_DELAY_SECONDS, delay * 2))
        except Permanent as error:
            log.warning("Slack's Socket Mode: %s; buttons do not work", error)
            delay = LOST_TOKEN_SECONDS
        else:
            # Slack asks for a new connection every few hours; one that ended before its greeting is a failure.
            delay = FIRST_DELAY_SECONDS if greeted else min(LONGEST_DELAY_SECONDS, delay * 2)
        await asyncio.sleep(delay)


async def _once(api: SlackApi, token: SecretStr, heard: Callable[[Any], Awaitable[None]]) -> bool:
    """One connection, from its opening to its end; whether Slack greeted us on it."""
    opened = await api.call("apps.connections.open", token, {})
    greeted = False
    try:
        # The address holds a ticket that is as good as a token: it must not get into any message.
        async with await api.websocket(str(opened.get("url", ""))) as socket:
            async for message in socket:
                if message.type is not aiohttp.WSMsgType.TEXT:
                    continue
                envelope = _envelope(message.data)
                greeted = greeted or envelope.get("type") == "hello"
                if envelope.get("type") == "disconnect":
                    break
                if isinstance(envelope.get("envelope_id"), str):
                    # Acknowledged first: Slack wants that within 3 seconds, and shows the person an error otherwise.
                    await socket.send_json({"envelope_id": envelope["envelope_id"]})
                if envelope.get("type") == "interactive":
                    await heard(envelope.get("payload"))
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise Retryable(f"the connection ended: {type(error).__name__}", delay_seconds=FIRST_DELAY_SECONDS) from None
    return greeted


def _envelope(data: str) -> dict[str, Any]:
    with contextlib.suppress(msgspec.DecodeError, RecursionError):
        found = msgspec.json.decode(data)
        if isinstance(found, dict):
            return found
    return {}
