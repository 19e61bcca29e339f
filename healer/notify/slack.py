"""Slack: one message per incident, edited as it goes; buttons by Socket Mode or by signed requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec
from aiohttp import ClientError, web
from pydantic import Field, SecretStr

from healer.clock import Clock, SystemClock
from healer.config.fields import FilePath, Secret, Section, Text, Url
from healer.errors import JournalError, Permanent, Retryable
from healer.model.decisions import Reason
from healer.model.incidents import IncidentView
from healer.notify import slack_blocks
from healer.ports import Operator

if TYPE_CHECKING:
    from slack_sdk.web.async_client import AsyncWebClient

log = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 10
RECONNECT_SECONDS: Final = 5.0
RETRIED: Final = frozenset(
    {"ratelimited", "internal_error", "fatal_error", "service_unavailable", "request_timeout", "rollup_error"}
)
LOST: Final = frozenset({"message_not_found", "cant_update_message", "edit_window_closed"})


class SlackSettings(Section):
    """A Slack app with the scope chat:write, and where its messages go."""

    channel: Text = Field(description="Channel, by name with # or by id. The app must be a member.")
    bot_token: Secret = Field(description="Bot token (xoxb-…). Exactly one of it and its file.")
    bot_token_file: FilePath | None = Field(default=None, description="File that holds the bot token.")
    app_token: Secret | None = Field(
        default=None, description="App-level token (xapp-…): buttons by Socket Mode, without an open port."
    )
    app_token_file: FilePath | None = Field(default=None, description="File that holds the app-level token.")
    signing_secret: Secret | None = Field(
        default=None, description="Signing secret: buttons by requests to /hooks/slack, which must be reachable."
    )
    signing_secret_file: FilePath | None = Field(default=None, description="File that holds the signing secret.")
    api_url: Url = Field(default="https://slack.com/api", description="Where Slack's API is.")


class SlackNotifier:
    """ports.Notifier. The handle is `channel:timestamp`, which Slack knows a message by."""

    Settings: ClassVar[type[SlackSettings]] = SlackSettings
    name = "slack"

    def __init__(self, settings: SlackSettings, *, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._client: AsyncWebClient | None = None

    def _web(self) -> AsyncWebClient:
        if self._client is None:
            from slack_sdk.web.async_client import AsyncWebClient  # noqa: PLC0415 — only who uses Slack pays for it

            self._client = AsyncWebClient(
                token=self.settings.bot_token.get_secret_value(),
                base_url=self.settings.api_url.rstrip("/") + "/",
                timeout=TIMEOUT_SECONDS,
                retry_handlers=[],
            )
        return self._client

    async def tell(self, view: IncidentView, handle: str) -> str:
        shown = {"text": slack_blocks.fallback(view), "blocks": slack_blocks.blocks(view)}
        channel, _, ts = handle.partition(":")
        if ts:
            with contextlib.suppress(_MessageLost):
                await self._call("chat.update", {"channel": channel, "ts": ts, **shown})
                return handle
        told = await self._call("chat.postMessage", {"channel": self.settings.channel, "unfurl_links": False, **shown})
        return f"{told['channel']}:{told['ts']}"

    async def _call(self, method: str, body: dict[str, Any]) -> Mapping[str, Any]:
        from slack_sdk.errors import SlackApiError, SlackClientError  # noqa: PLC0415 — see above

        try:
            answer = await self._web().api_call(method, json=body)
        except SlackApiError as error:
            raise _translated(method, error.response) from error
        except (SlackClientError, ClientError, TimeoutError, OSError, ValueError) as error:
            raise Retryable(f"{method}: {type(error).__name__}: {error}", delay_seconds=2) from error
        data: Mapping[str, Any] = answer.data if isinstance(answer.data, dict) else {}
        return data

    # Answers ---------------------------------------------------------------------------------------------------------

    async def run(self, operator: Operator) -> None:
        token = self.settings.app_token
        if token is None:
            await asyncio.Event().wait()
            return
        from slack_sdk.socket_mode.aiohttp import SocketModeClient  # noqa: PLC0415 — see above
        from slack_sdk.socket_mode.response import SocketModeResponse  # noqa: PLC0415 — see above

        while True:
            client = SocketModeClient(app_token=token.get_secret_value(), web_client=self._web())

            async def heard(client: Any, request: Any) -> None:
                await client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
                if request.type == "interactive":
                    await self.answered(request.payload, operator)

            client.socket_mode_request_listeners.append(heard)
            try:
                await client.connect()  # type: ignore[no-untyped-call]
                await asyncio.Event().wait()
            except (ClientError, OSError, TimeoutError) as error:
                log.warning("connecting to Slack: %s; trying again", error)
                await asyncio.sleep(RECONNECT_SECONDS)
            finally:
                await client.close()  # type: ignore[no-untyped-call]

    def routes(self, operator: Operator) -> Sequence[Any]:
        secret = self.settings.signing_secret
        if secret is None:
            return ()

        async def pressed(request: web.Request) -> web.Response:
            body = await request.read()
            if not self._signed(secret, body, request.headers):
                return web.json_response({"error": "the signature is wrong or older than 5 minutes"}, status=401)
            form = await request.post()
            try:
                payload = msgspec.json.decode(str(form.get("payload", "")))
            except msgspec.DecodeError:
                return web.json_response({"error": "payload is not JSON"}, status=400)
            await self.answered(payload, operator)
            return web.Response()

        return (web.post("/hooks/slack", pressed),)

    def _signed(self, secret: SecretStr, body: bytes, headers: Mapping[str, str]) -> bool:
        """Signature first, age second; both before anything in the body is believed."""
        from slack_sdk.signature import Clock as SlackClock  # noqa: PLC0415 — see above
        from slack_sdk.signature import SignatureVerifier  # noqa: PLC0415 — see above

        ours = self._clock

        class Now(SlackClock):
            def now(self) -> float:
                return ours.now().timestamp()

        verifier = SignatureVerifier(secret.get_secret_value(), Now())
        return bool(verifier.is_valid_request(body, dict(headers)))

    async def answered(self, payload: Any, operator: Operator) -> None:
        """Somebody pressed a button: pass it on, and tell them where it did not count."""
        if not isinstance(payload, dict) or payload.get("type") != "block_actions":
            return
        user = payload.get("user") or {}
        by = str(user.get("id", ""))
        for action in payload.get("actions") or ():
            verb = str(action.get("action_id", ""))
            incident, _, digest = str(action.get("value", "")).partition(" ")
            if verb not in ("approve", "deny") or not by:
                continue
            try:
                reason = await operator.answer(incident, approve=verb == "approve", by=by, via="slack", digest=digest)
            except JournalError as error:
                await self._whisper(payload, by, f"your answer could not be recorded: {error}")
                continue
            if reason is not Reason.OK:
                await self._whisper(payload, by, f"your answer does not count: {reason}")

    async def _whisper(self, payload: Mapping[str, Any], user: str, text: str) -> None:
        channel = str((payload.get("channel") or {}).get("id", "")) or self.settings.channel
        try:
            await self._call(
                "chat.postEphemeral", {"channel": channel, "user": user, "text": slack_blocks.escape(text)}
            )
        except (Retryable, Permanent) as error:
            log.warning("answering a person in Slack: %s", error)

    async def close(self) -> None:
        self._client = None


class _MessageLost(Permanent):
    """The message that was to be edited is no more: post another."""


def _translated(method: str, response: Any) -> Exception:
    status = getattr(response, "status_code", 0)
    headers = getattr(response, "headers", {}) or {}
    code = response.get("error", "") if hasattr(response, "get") else ""
    said = f"{method}: Slack answered {status} {code}"
    if status == 429 or code in RETRIED or status >= 500:
        asked = str(headers.get("Retry-After", headers.get("retry-after", "")))
        return Retryable(said, delay_seconds=float(asked) if asked.isdecimal() else 2.0)
    if code in LOST:
        return _MessageLost(said)
    return Permanent(said)
