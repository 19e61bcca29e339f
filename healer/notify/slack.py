"""Slack: one message per incident, edited as it goes; buttons by Socket Mode or by signed requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import msgspec
from aiohttp import web
from pydantic import Field, SecretStr

from healer.clock import Clock, SystemClock
from healer.config.fields import FilePath, Secret, Section, Text, Url
from healer.errors import JournalError, Permanent, Retryable
from healer.model.decisions import Reason
from healer.model.incidents import IncidentView
from healer.notify import slack_answers, slack_blocks, slack_socket
from healer.notify.slack_answers import Press
from healer.notify.slack_api import MessageLost, NotShowable, SlackApi
from healer.ports import Operator

log = logging.getLogger(__name__)

WHISPERS_WAITING: Final = 100
WHISPER_TRIES: Final = 3
POSTED_KEPT: Final = 2000
NAMESPACE: Final = uuid.UUID("6f1d3f0a-2f0e-4c55-9a3f-6d6c1b1f5a11")
"""For ids of messages: the same incident gives the same id, also after a restart."""


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
    shadow = False

    def __init__(self, settings: SlackSettings, *, clock: Clock | None = None) -> None:
        self.settings = settings
        self._clock = clock or SystemClock()
        self._api = SlackApi(settings.api_url)
        self._posted: OrderedDict[str, str] = OrderedDict()
        self._whispers: asyncio.Queue[tuple[str, str, str]] = asyncio.Queue(maxsize=WHISPERS_WAITING)

    # Telling ---------------------------------------------------------------------------------------------------------

    async def tell(self, view: IncidentView, handle: str) -> str:
        # What was posted while the journal could not keep its handle is edited all the same.
        handle = self._posted.get(view.id) or handle
        if handle:
            with contextlib.suppress(MessageLost):
                await self._edit(view, handle)
                return handle
        handle = await self._post(view, handle)
        self._posted[view.id] = handle
        if len(self._posted) > POSTED_KEPT:
            self._posted.popitem(last=False)
        return handle

    async def _edit(self, view: IncidentView, handle: str) -> None:
        channel, _, ts = handle.partition(":")
        await self._show("chat.update", view, {"channel": channel, "ts": ts})

    async def _post(self, view: IncidentView, lost: str) -> str:
        """A new message. Its id lets Slack recognise a second try, where it cares to."""
        same = str(uuid.uuid5(NAMESPACE, f"{view.cluster}/{view.id}/{lost}"))
        where = {"channel": self.settings.channel, "unfurl_links": False, "client_msg_id": same}
        told = await self._show("chat.postMessage", view, where)
        return f"{told.get('channel', self.settings.channel)}:{told.get('ts', '')}"

    async def _show(self, method: str, view: IncidentView, where: dict[str, Any]) -> Any:
        """Blocks if Slack takes them, else the bare sentence: better than nothing at 3 a.m."""
        body = where | {"text": slack_blocks.fallback(view), "parse": "none", "link_names": False}
        token = self.settings.bot_token
        try:
            return await self._api.call(method, token, body | {"blocks": slack_blocks.blocks(view)})
        except NotShowable as error:
            log.warning("incident %s: %s; sent as plain text", view.id, error)
            return await self._api.call(method, token, body | {"blocks": []})

    # Answers ---------------------------------------------------------------------------------------------------------

    async def run(self, operator: Operator) -> None:
        async def heard(payload: Any) -> None:
            await self.answered(payload, operator)

        async with asyncio.TaskGroup() as group:
            group.create_task(self._whisper(), name="slack whispers")
            if self.settings.app_token is not None:
                listening = slack_socket.listen(self._api, self.settings.app_token, heard)
                group.create_task(listening, name="slack socket mode")

    def routes(self, operator: Operator) -> Sequence[Any]:
        secret = self.settings.signing_secret
        if secret is None:
            return ()

        async def pressed(request: web.Request) -> web.Response:
            return await self._pressed(request, secret, operator)

        return (web.post("/hooks/slack", pressed),)

    async def _pressed(self, request: web.Request, secret: SecretStr, operator: Operator) -> web.Response:
        """POST /hooks/slack. Nothing in a body is believed, or even parsed, that Slack has not signed of late."""
        body = await request.read()
        now = self._clock.now().timestamp()
        if why := slack_answers.signed(secret.get_secret_value(), body, request.headers, now_seconds=now):
            log.warning("a request to /hooks/slack was refused: %s", why)
            return web.json_response({"error": why}, status=401)
        form = await request.post()
        try:
            payload = msgspec.json.decode(str(form.get("payload", "")))
        except (msgspec.DecodeError, RecursionError):
            return web.json_response({"error": "the form field 'payload' is not JSON"}, status=400)
        await self.answered(payload, operator)
        return web.Response()

    async def answered(self, payload: Any, operator: Operator) -> None:
        """Somebody pressed a button: pass it on, and tell them where it did not count."""
        for press in slack_answers.presses(payload):
            try:
                reason = await operator.answer(
                    press.incident, approve=press.verb == "approve", by=press.by, via="slack", digest=press.digest
                )
            except JournalError as error:
                log.warning("an answer from Slack was not recorded: %s", error)
                self._later(press, "Your answer could not be recorded and does not count. Press again in a moment.")
                continue
            if reason is not Reason.OK:
                self._later(press, slack_answers.why_not(press, reason, operator.incident(press.incident)))

    def _later(self, press: Press, text: str) -> None:
        """Slack wants its answer within 3 seconds, so the person is told by another way."""
        try:
            self._whispers.put_nowait((press.channel or self.settings.channel, press.by, text))
        except asyncio.QueueFull:
            log.warning("a person in Slack is not told why an answer does not count: too many are to be told")

    async def _whisper(self) -> None:
        while True:
            channel, user, text = await self._whispers.get()
            body = {"channel": channel, "user": user, "text": slack_blocks.code(text)}
            for _ in range(WHISPER_TRIES):
                try:
                    await self._api.call("chat.postEphemeral", self.settings.bot_token, body)
                except Retryable as error:
                    await asyncio.sleep(error.delay_seconds)
                except Permanent as error:
                    log.warning("telling a person in Slack: %s", error)
                    break
                else:
                    break

    async def close(self) -> None:
        await self._api.close()
