"""Slack and PagerDuty as real HTTP servers on loopback, which keep what arrives and fail when told to.

async with FakeSlack() as slack:
    notifier = SlackNotifier(slack.settings())
    await notifier.tell(view, "")
    assert len(slack.messages) == 1
"""

from __future__ import annotations

import abc
import asyncio
import collections
import contextlib
import dataclasses
import hashlib
import hmac
import itertools
import urllib.parse
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self

import msgspec
from aiohttp import WSCloseCode, WSMsgType, web

from healer.notify.pagerduty import PagerDutySettings
from healer.notify.slack import SlackSettings
from healer.web.server import listening

BOT_TOKEN: Final = "xoxb-bot-token-of-a-test"  # noqa: S105 — there is nothing that it opens
APP_TOKEN: Final = "xapp-app-token-of-a-test"  # noqa: S105
SIGNING_SECRET: Final = "signing-secret-of-a-test"  # noqa: S105
ROUTING_KEY: Final = "routing-key-of-a-test"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """How one request is answered instead. `error` is Slack's own: status 200, ok false. `drop`: no answer at all."""

    status: int = 200
    error: str = ""
    retry_after: int | None = None
    drop: bool = False


class FakeServer(abc.ABC):
    """What both have in common: a server, and failures in the order they were asked for."""

    def __init__(self) -> None:
        self.url = ""
        self.down = False
        self.refused = 0
        """Requests that were answered with a failure."""
        self._failures: dict[str, collections.deque[Failure]] = collections.defaultdict(collections.deque)
        self._stack = contextlib.AsyncExitStack()

    def fail(self, *failures: Failure, method: str = "") -> None:
        """Answer the next requests (of one method of Slack's) so; then as usual again. `down` fails all of them."""
        self._failures[method].extend(failures)

    @abc.abstractmethod
    def routes(self) -> Sequence[web.RouteDef]:
        """What it serves."""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=8 * 2**20)
        app.add_routes(self.routes())
        self.url = await self._stack.enter_async_context(listening(app, "127.0.0.1", 0))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    def _refusal(self, request: web.Request, method: str = "") -> web.Response | None:
        queue = self._failures[method] or self._failures[""]
        failure = Failure(status=503) if self.down else queue.popleft() if queue else None
        if failure is None:
            return None
        self.refused += 1
        if failure.drop:
            return _dropped(request)
        headers = {} if failure.retry_after is None else {"Retry-After": str(failure.retry_after)}
        if failure.error:
            return web.json_response({"ok": False, "error": failure.error}, headers=headers)
        return web.Response(status=failure.status, headers=headers, text="<html>no</html>")


def _dropped(request: web.Request) -> web.Response:
    """Cut the line: whoever asked cannot know whether it was done."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


# Slack ---------------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlackCall:
    method: str
    body: Mapping[str, Any]
    token: str


class FakeSlack(FakeServer):
    """Messages as a person would see them, checked against the limits of Block Kit; Socket Mode; signatures."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[SlackCall] = []
        self.messages: dict[tuple[str, str], dict[str, Any]] = {}
        """By channel and timestamp, as they look now."""
        self.whispers: list[Mapping[str, Any]] = []
        self.connections = 0
        self.lose_answers = 0
        """So many of the next posts are done, but their answers never come."""
        self._ids: dict[str, tuple[str, str]] = {}
        self._stamps = itertools.count(1)
        self._sockets: list[web.WebSocketResponse] = []
        self._acknowledged: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Condition()

    def settings(self, **changes: Any) -> SlackSettings:
        """Settings that lead here."""
        given = {"channel": "#oncall", "bot_token": BOT_TOKEN, "api_url": f"{self.url}/api"}
        return SlackSettings.model_validate(given | changes)

    def routes(self) -> Sequence[web.RouteDef]:
        return (web.post("/api/{method}", self._api), web.get("/socket", self._socket))

    def texts(self) -> str:
        """Everything that is shown, as JSON."""
        return msgspec.json.encode([*self.messages.values(), *self.whispers]).decode()

    def delete(self) -> None:
        """Somebody deletes all messages."""
        self.messages.clear()

    async def _api(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        body: dict[str, Any] = msgspec.json.decode(await request.read())
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.calls.append(SlackCall(method=method, body=body, token=token))
        if refusal := self._refusal(request, method):
            return refusal
        if token != (APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN):
            return web.json_response({"ok": False, "error": "invalid_auth"})
        if error := _blocks_error(body.get("blocks", [])):
            return web.json_response({"ok": False, "error": error})
        answer = self._answer(method, body)
        if method == "chat.postMessage" and self.lose_answers:
            self.lose_answers -= 1
            return _dropped(request)
        async with self._changed:
            self._changed.notify_all()
        return web.json_response(answer)

    def _answer(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        match method:
            case "chat.postMessage":
                id_ = str(body.get("client_msg_id", ""))
                key = self._ids.get(id_) if id_ else None
                if key is None or key not in self.messages:
                    key = ("C024BE91L", f"{next(self._stamps)}.000100")
                    self.messages[key] = body
                    self._ids[id_] = key
                return {"ok": True, "channel": key[0], "ts": key[1], "message": {"text": body.get("text", "")}}
            case "chat.update":
                key = (str(body.get("channel")), str(body.get("ts")))
                if key not in self.messages:
                    return {"ok": False, "error": "message_not_found"}
                self.messages[key] = body
                return {"ok": True, "channel": key[0], "ts": key[1]}
            case "chat.postEphemeral":
                self.whispers.append(body)
                return {"ok": True, "message_ts": "1.0"}
            case "apps.connections.open":
                return {"ok": True, "url": f"{self.url.replace('http', 'ws', 1)}/socket?ticket=secret-ticket"}
            case _:
                return {"ok": False, "error": "unknown_method"}

    async def until(self, what: str) -> Mapping[str, Any]:
        """Wait for the next whisper, or a message, and give it. `what`: "whisper" or "message"."""
        found = self.whispers if what == "whisper" else self.messages
        count = len(found)
        async with self._changed:
            await self._changed.wait_for(lambda: len(found) > count)
        return self.whispers[-1] if what == "whisper" else list(self.messages.values())[-1]

    # Socket Mode -----------------------------------------------------------------------------------------------------

    async def _socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.connections += 1
        await socket.send_json({"type": "hello", "num_connections": 1})
        self._sockets.append(socket)
        async with self._changed:
            self._changed.notify_all()
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                envelope = msgspec.json.decode(message.data).get("envelope_id", "")
                if envelope in self._acknowledged:
                    self._acknowledged[envelope].set()
        if socket in self._sockets:
            self._sockets.remove(socket)
        return socket

    async def connected(self, times: int = 1) -> None:
        """Wait until there have been so many connections, and there is one now."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.connections >= times and bool(self._sockets))

    async def send(self, payload: Any, *, kind: str = "interactive") -> None:
        """Send an interaction over Socket Mode; returns when it has been acknowledged."""
        envelope = f"envelope-{len(self._acknowledged) + 1}"
        self._acknowledged[envelope] = asyncio.Event()
        sent = {"type": kind, "envelope_id": envelope, "payload": payload, "accepts_response_payload": False}
        await self._sockets[-1].send_json(sent)
        await self._acknowledged[envelope].wait()

    async def send_text(self, text: str) -> None:
        """Send whatever over Socket Mode."""
        await self._sockets[-1].send_str(text)

    async def disconnect(self, *, politely: bool = True) -> None:
        """End the connection, with Slack's warning or without."""
        socket = self._sockets.pop()
        if politely:
            await socket.send_json({"type": "disconnect", "reason": "refresh_requested"})
        await socket.close(code=WSCloseCode.GOING_AWAY)


def a_press(
    incident: str, digest: str, *, verb: str = "approve", by: str = "U012AB3CD", channel: str = "C024BE91L"
) -> dict[str, Any]:
    """What Slack sends when somebody presses a button."""
    return {
        "type": "block_actions",
        "user": {"id": by, "username": "a person"},
        "channel": {"id": channel, "name": "oncall"},
        "actions": [{"action_id": verb, "type": "button", "value": f"{incident} {digest}"}],
    }


def signed_form(payload: Any, *, at: datetime, secret: str = SIGNING_SECRET) -> tuple[bytes, dict[str, str]]:
    """A request as Slack sends it to an app with an address: body and headers."""
    body = urllib.parse.urlencode({"payload": msgspec.json.encode(payload).decode()}).encode()
    stamp = str(int(at.timestamp()))
    mac = hmac.new(secret.encode(), b"v0:" + stamp.encode() + b":" + body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/x-www-form-urlencoded",
        "X-Slack-Request-Timestamp": stamp,
        "X-Slack-Signature": f"v0={mac}",
    }
    return body, headers


LIMITS: Final = {"header": 150, "section": 3000, "context": 3000}


def _blocks_error(blocks: Sequence[Mapping[str, Any]]) -> str:
    """What Slack would say of these blocks. Lengths are counted as JavaScript counts them."""
    if len(blocks) > 50:
        return "invalid_blocks"
    for block in blocks:
        texts = [block.get("text"), *block.get("elements", ())]
        for text in texts:
            shown = text.get("text") if isinstance(text, dict) else None
            shown = shown.get("text") if isinstance(shown, dict) else shown
            if isinstance(shown, str) and not 0 < _units(shown) <= LIMITS.get(block["type"], 75):
                return "invalid_blocks"
            if isinstance(text, dict) and len(text.get("value", "")) > 2000:
                return "invalid_blocks"
    return ""


def _units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


# PagerDuty -----------------------------------------------------------------------------------------------------------


class FakePagerDuty(FakeServer):
    """Events as they arrived, and the alerts that PagerDuty would make of them: key → triggered, acknowledged, resolved."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[dict[str, Any]] = []
        self.alerts: dict[str, str] = {}
        self.woken = 0
        """How often somebody was called: a new alert, or one that had been resolved."""

    def settings(self, **changes: Any) -> PagerDutySettings:
        """Settings that lead here."""
        return PagerDutySettings.model_validate({"routing_key": ROUTING_KEY, "url": self.url} | changes)

    def routes(self) -> Sequence[web.RouteDef]:
        return (web.post("/v2/enqueue", self._enqueue),)

    @property
    def actions(self) -> list[str]:
        return [event["event_action"] for event in self.events]

    async def _enqueue(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        if refusal := self._refusal(request):
            return refusal
        body: dict[str, Any] = msgspec.json.decode(raw)
        if len(raw) > 512 * 1024:
            return _invalid("the event is larger than 512 KB", status=413)
        if body.get("routing_key") != ROUTING_KEY:
            return _invalid(f"routing key {body.get('routing_key')} is not known")
        summary = body.get("payload", {}).get("summary", "")
        if body["event_action"] == "trigger" and not 0 < len(summary) <= 1024:
            return _invalid("'payload.summary' must have 1 to 1024 characters")
        self.events.append(body)
        key, before = body["dedup_key"], self.alerts.get(body["dedup_key"], "resolved")
        match body["event_action"]:
            case "trigger":
                self.woken += before == "resolved"
                self.alerts[key] = "triggered" if before == "resolved" else before
            case "acknowledge" if before != "resolved":
                self.alerts[key] = "acknowledged"
            case "resolve" if key in self.alerts:
                self.alerts[key] = "resolved"
        return web.json_response({"status": "success", "message": "Event processed", "dedup_key": key}, status=202)


def _invalid(why: str, *, status: int = 400) -> web.Response:
    return web.json_response({"status": "invalid event", "errors": [why]}, status=status)
