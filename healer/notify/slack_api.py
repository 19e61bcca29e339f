"""Slack's Web API: the four methods that are needed, and what their errors mean. Tokens go into headers and nowhere else.

slack_sdk is not used: its Socket Mode client keeps tasks and retries of its own that nobody here could stop or await.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
import msgspec
from pydantic import SecretStr

from healer.errors import Permanent, Retryable
from healer.notify.http import Poster

PASSING: Final = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable", "request_timeout"}
    | {"rollup_error", "team_added_to_org", "accesslimited"}
)
LOST: Final = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})
NOT_SHOWABLE: Final = frozenset({"invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long"})
MENDS: Final[Mapping[str, str]] = {
    "not_in_channel": "invite the app to the channel: /invite @healer",
    "channel_not_found": "check notify.slack.channel; for a private channel invite the app first",
    "is_archived": "the channel is archived; name another in notify.slack.channel",
    "invalid_auth": "check notify.slack.bot_token (xoxb-…)",
    "not_authed": "check notify.slack.bot_token (xoxb-…)",
    "token_revoked": "install the app again and replace notify.slack.bot_token",
    "token_expired": "replace notify.slack.bot_token",
    "account_inactive": "install the app again and replace notify.slack.bot_token",
    "missing_scope": "give the app the scope chat:write and install it again",
    "not_allowed_token_type": "the app-level token (xapp-…) and the bot token (xoxb-…) may be swapped",
}


class MessageLost(Permanent):
    """The message that was to be edited is no more, or cannot be edited any more."""


class NotShowable(Permanent):
    """Slack will not take these blocks."""


class SlackApi:
    """Calls methods by name."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._poster = Poster("Slack")

    async def call(self, method: str, token: SecretStr, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer, when it is ok. Retryable, MessageLost, NotShowable, Permanent."""
        doing = f"asking Slack for {method}"
        status, _, text = await self._poster.post(
            f"{self._url}/{method}",
            msgspec.json.encode(body),
            {
                "Authorization": f"Bearer {token.get_secret_value()}",
                "Content-Type": "application/json; charset=utf-8",
            },
            doing=doing,
        )
        answer: Any = None
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            answer = msgspec.json.decode(text)
        if not isinstance(answer, dict):
            raise Retryable(f"{doing}: the answer ({status}) is not Slack's: not a JSON object", delay_seconds=5.0)
        if answer.get("ok") is True:
            return answer
        raise _error(doing, str(answer.get("error") or f"status {status}")[:100])

    async def websocket(self, url: str) -> aiohttp.ClientWebSocketResponse:
        """A connection for Socket Mode. aiohttp.ClientError, OSError or TimeoutError when there is none."""
        return await self._poster.session.ws_connect(url, heartbeat=20.0, max_msg_size=2**20)

    async def close(self) -> None:
        await self._poster.close()


def _error(doing: str, code: str) -> Exception:
    said = f"{doing}: {code}"
    if code in PASSING:
        return Retryable(said, delay_seconds=5.0)
    if code in LOST:
        return MessageLost(said)
    if code in NOT_SHOWABLE:
        return NotShowable(said)
    mend = MENDS.get(code)
    return Permanent(f"{said}; {mend}" if mend else said)
