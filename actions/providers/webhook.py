"""A provider behind an HTTP endpoint of the user's: signed requests in JSON, a handful of answers.

POST {"operation": "describe" | "power-off" | "replace" | "find", "node": {…}, "key": "…"}
Answer {"state", "machine", "zone", "request", "done"}; 404 means that there is no such machine or request, 429 and 503
that nothing was done and it is worth another try. Any other 5xx to a change leaves open whether it was done.

X-Healer-Signature is `sha256=` and the HMAC-SHA256, in hex, of X-Healer-Timestamp (Unix seconds), a full stop and the
body. The receiver must refuse a timestamp more than five minutes off.
"""

from __future__ import annotations

import hashlib
import hmac
from datetime import timedelta
from typing import ClassVar, Final

import aiohttp
import msgspec
from pydantic import Field

from healer.clock import Clock, SystemClock
from healer.config.fields import FilePath, PositiveDuration, Secret, Section, Url
from healer.errors import NotFound, OutcomeUnknown, Permanent, Retryable
from healer.model.cluster import Node
from healer.model.fencing import Machine, MachineState, Replacement

TIMESTAMP: Final = "X-Healer-Timestamp"
SIGNATURE: Final = "X-Healer-Signature"
CHANGING: Final = frozenset({"power-off", "replace"})
LONGEST_ANSWER_BYTES: Final = 1 << 20
LONGEST_DELAY_SECONDS: Final = 300.0
LONGEST_TEXT: Final = 300


class WebhookSettings(Section):
    """`webhook`: ask an HTTP endpoint of your own."""

    url: Url = Field(description="Where requests go. Give https unless it is on the same machine.")
    secret: Secret = Field(description="With it requests are signed. At least 32 random bytes.")
    secret_file: FilePath | None = Field(None, description="Read `secret` from this file.")
    timeout: PositiveDuration = Field(
        timedelta(seconds=20),
        description="How long an answer may take. A change without an answer is looked up by its key, never just repeated.",
    )


class Answer(msgspec.Struct, frozen=True):
    """What the endpoint says. Unknown fields are left alone."""

    machine: str = ""
    state: str = ""
    zone: str = ""
    request: str = ""
    done: bool = False
    detail: str = ""


_decode: Final = msgspec.json.Decoder(Answer).decode
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


class WebhookProvider:
    """ports.Provider over a signed webhook. Without a session of the caller's, each request has its own."""

    Settings: ClassVar[type[WebhookSettings]] = WebhookSettings

    def __init__(
        self,
        settings: WebhookSettings,
        *,
        name: str = "webhook",
        clock: Clock | None = None,
        session: aiohttp.ClientSession | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self._clock = clock or SystemClock()
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=settings.timeout.total_seconds())

    async def describe(self, node: Node) -> Machine:
        return _machine(await self._ask("describe", node, ""), f"describing the machine of {node.name!r}")

    async def power_off(self, node: Node, *, key: str) -> Machine:
        return _machine(await self._ask("power-off", node, key), f"powering off the machine of {node.name!r}")

    async def replace(self, node: Node, *, key: str) -> Replacement:
        return _replacement(await self._ask("replace", node, key), f"replacing the machine of {node.name!r}")

    async def find(self, node: Node, *, key: str) -> Replacement | None:
        try:
            return _replacement(await self._ask("find", node, key), f"looking for request {key!r}")
        except NotFound:
            return None

    async def _ask(self, operation: str, node: Node, key: str) -> Answer:
        doing = f"asking provider {self.name} to {operation} for node {node.name!r}"
        status, headers, body = await self._post(operation, _encode(_question(operation, node, key)), doing)
        if 200 <= status < 300:
            return _read(body, doing, changing=operation in CHANGING)
        text = f"{doing}: {status} {body[:LONGEST_TEXT].decode(errors='replace').strip()}"
        if status == 404:
            raise NotFound(text)
        if status >= 500 and status != 503 and operation in CHANGING:
            raise OutcomeUnknown(text)
        if status == 429 or status >= 500:
            raise Retryable(text, delay_seconds=_delay(headers.get("Retry-After", "")))
        raise Permanent(text)

    async def _post(self, operation: str, body: bytes, doing: str) -> tuple[int, dict[str, str], bytes]:
        timestamp = str(int(self._clock.now().timestamp()))
        headers = {
            "Content-Type": "application/json",
            TIMESTAMP: timestamp,
            SIGNATURE: signature(self.settings.secret.get_secret_value(), timestamp, body),
        }
        session = self._session or aiohttp.ClientSession()
        try:
            async with session.post(
                self.settings.url, data=body, headers=headers, timeout=self._timeout, allow_redirects=False
            ) as response:
                return response.status, dict(response.headers), await _whole(response, doing)
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            raise Retryable(f"{doing}: {error}", delay_seconds=2.0) from error
        except (TimeoutError, aiohttp.ClientError) as error:
            why = str(error) or "no answer in time"
            if operation in CHANGING:
                raise OutcomeUnknown(f"{doing}: {why}") from error
            raise Retryable(f"{doing}: {why}", delay_seconds=2.0) from error
        finally:
            if self._session is None:
                await session.close()


async def _whole(response: aiohttp.ClientResponse, doing: str) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > LONGEST_ANSWER_BYTES:
            raise Permanent(f"{doing}: the answer is longer than {LONGEST_ANSWER_BYTES >> 20} MiB")
    return bytes(body)


def signature(secret: str, timestamp: str, body: bytes) -> str:
    """The value of the signature header."""
    mac = hmac.new(secret.encode(), timestamp.encode() + b"." + body, hashlib.sha256)
    return f"sha256={mac.hexdigest()}"


def _question(operation: str, node: Node, key: str) -> dict[str, object]:
    about = {
        "name": node.name,
        "uid": node.ref.uid,
        "provider_id": node.provider_id,
        "boot_id": node.boot_id,
        "zone": node.zone,
        "pool": node.pool,
    }
    return {"operation": operation, "node": about, "key": key}


def _read(body: bytes, doing: str, *, changing: bool) -> Answer:
    try:
        return _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        text = f"{doing}: the answer is not one: {error}"
        # It said yes to something; to what, it must be asked.
        raise (OutcomeUnknown(text) if changing else Permanent(text)) from error


def _machine(answer: Answer, doing: str) -> Machine:
    if not answer.machine:
        raise Permanent(f"{doing}: the answer names no machine")
    try:
        state = MachineState(answer.state)
    except ValueError:
        state = MachineState.UNKNOWN
    return Machine(id=answer.machine, state=state, zone=answer.zone, detail=answer.detail)


def _replacement(answer: Answer, doing: str) -> Replacement:
    machine = _machine(answer, doing) if answer.machine else None
    return Replacement(request=answer.request, machine=machine, done=answer.done)


def _delay(text: str) -> float:
    seconds = float(text) if text.isascii() and text.isdigit() else 2.0
    return min(LONGEST_DELAY_SECONDS, max(1.0, seconds))
