"""Slack's Web API by slack_sdk, and what its errors mean. Tokens go into headers and nowhere else.

Socket Mode is in `slack_socket`: the SDK's client for it keeps tasks of its own that nobody could stop or await.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final

import aiohttp
from pydantic import SecretStr

from healer.errors import Permanent, Retryable
from healer.notify.http import Poster, plain, retry_after

QUIET: Final = logging.getLogger("healer.notify.slack_sdk")
"""The SDK logs whole bodies when asked to debug, and those can hold tickets: it is never asked to."""
QUIET.setLevel(logging.WARNING)
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
        # Imported here: only who uses Slack pays for it.
        from slack_sdk.errors import SlackApiError, SlackClientError  # noqa: PLC0415
        from slack_sdk.web.async_client import AsyncWebClient  # noqa: PLC0415

        doing = f"asking Slack for {method}"
        client = AsyncWebClient(
            token=token.get_secret_value(),
            base_url=f"{self._url}/",
            session=self._poster.session,
            retry_handlers=[],
            logger=QUIET,
        )
        try:
            answer = await client.api_call(method, json=dict(body))
        except SlackApiError as error:
            raise _refused(doing, error.response) from None
        except AttributeError:
            # The SDK takes JSON that is not an object for one; such an answer comes from something between us and Slack.
            raise Retryable(f"{doing}: the answer is not Slack's: not a JSON object", delay_seconds=5.0) from None
        except (SlackClientError, aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise Retryable(f"{doing}: {plain(error)}", delay_seconds=2.0) from None
        if not isinstance(answer.data, dict):
            raise Retryable(f"{doing}: the answer is not Slack's: not a JSON object", delay_seconds=5.0)
        return answer.data

    async def websocket(self, url: str) -> aiohttp.ClientWebSocketResponse:
        """A connection for Socket Mode. aiohttp.ClientError, OSError or TimeoutError when there is none."""
        return await self._poster.session.ws_connect(url, heartbeat=20.0, max_msg_size=2**20)

    async def close(self) -> None:
        await self._poster.close()


def _refused(doing: str, response: Any) -> Exception:
    """What an answer that is not ok means. `response` is the SDK's."""
    status = int(getattr(response, "status_code", 0) or 0)
    if status == 429 or status >= 500:
        headers = getattr(response, "headers", None) or {}
        delay = retry_after(headers, default=5.0 if status == 429 else 2.0)
        return Retryable(f"{doing}: Slack answered {status}", delay_seconds=delay)
    data = getattr(response, "data", response)
    if not isinstance(data, dict) or "ok" not in data:
        return Retryable(f"{doing}: the answer ({status}) is not Slack's: not a JSON object", delay_seconds=5.0)
    return _error(doing, str(data.get("error") or f"status {status}")[:100])


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
