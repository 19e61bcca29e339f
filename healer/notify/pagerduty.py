"""PagerDuty by Events API v2: trigger when a person is needed, acknowledge while Healer works, resolve at the end."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import aiohttp
import msgspec
from pydantic import Field

from healer.config.fields import FilePath, Secret, Section, Url
from healer.errors import Permanent, Retryable
from healer.model.incidents import IncidentState, IncidentView
from healer.notify import wording
from healer.ports import Operator

SUMMARY_LIMIT: Final = 1024
BODY_LIMIT_BYTES: Final = 500_000
"""The API takes 512 KB; what is over is cut here, since it would refuse, and the page would be lost."""
TIMEOUT_SECONDS: Final = 10.0
SEVERITIES: Final[Mapping[str, str]] = {
    "critical": "critical",
    "page": "critical",
    "error": "error",
    "warning": "warning",
    "info": "info",
}


class When(enum.StrEnum):
    ESCALATED = "escalated"
    ALWAYS = "always"


class PagerDutySettings(Section):
    """The integration of a PagerDuty service."""

    routing_key: Secret = Field(
        description="Integration key of the service (Events API v2). Exactly one of it and its file.",
    )
    routing_key_file: FilePath | None = Field(default=None, description="File that holds the integration key.")
    url: Url = Field(
        default="https://events.pagerduty.com", description="Where the Events API is; another for the EU region."
    )
    when: When = Field(
        default=When.ESCALATED,
        description="escalated: call a person only when one is needed. always: from the opening of an incident.",
    )


class PagerDutyNotifier:
    """ports.Notifier. The handle is the last thing that was sent: trigger, acknowledge or resolve."""

    Settings: ClassVar[type[PagerDutySettings]] = PagerDutySettings
    name = "pagerduty"

    def __init__(self, settings: PagerDutySettings) -> None:
        self.settings = settings
        self._session: aiohttp.ClientSession | None = None

    async def tell(self, view: IncidentView, handle: str) -> str:
        action = self._action(view, handle)
        if not action:
            return handle
        await self._send(self.event(view, action))
        return action

    def _action(self, view: IncidentView, before: str) -> str:
        """What to send now, or nothing. Nothing is resolved or acknowledged that was not triggered."""
        if view.state is IncidentState.CLOSED:
            return "resolve" if before in ("trigger", "acknowledge") else ""
        wanted = view.page or self.settings.when is When.ALWAYS
        if before in ("", "resolve"):
            return "trigger" if wanted else ""
        if view.page:
            return "trigger" if before == "acknowledge" else ""
        return "acknowledge" if view.acknowledged and before == "trigger" else ""

    def event(self, view: IncidentView, action: str) -> dict[str, Any]:
        """The body of the request."""
        body: dict[str, Any] = {
            "routing_key": self.settings.routing_key.get_secret_value(),
            "event_action": action,
            "dedup_key": f"healer/{view.cluster}/{view.id}",
        }
        if action != "trigger":
            return body
        where = view.target or view.owner
        body |= {
            "client": "Healer",
            "payload": {
                "summary": wording.cut(wording.headline(view), SUMMARY_LIMIT),
                "source": f"{view.cluster}/{where}",
                "severity": SEVERITIES.get(view.severity, "error"),
                "timestamp": view.changed_at.isoformat(),
                "component": str(view.owner),
                "group": view.cluster,
                "class": view.title,
                "custom_details": self._details(view),
            },
        }
        if view.url:
            body["client_url"] = view.url
            body["links"] = [{"href": view.url, "text": "the incident in Healer's console"}]
        return body

    def _details(self, view: IncidentView) -> dict[str, Any]:
        details = {
            "reason": str(view.reason),
            "detail": view.detail,
            "remedy": view.remedy,
            "times": wording.times(view),
            "alerts": [
                wording.cut(f"{alert.name}: {alert.summary or alert.labels}", 2000) for alert in view.alerts[:20]
            ],
        }
        room = BODY_LIMIT_BYTES // 2 - len(msgspec.json.encode(details))
        details["what happened"] = wording.newest(view.timeline, lines=200, characters=max(0, room // 4))
        details["detail"] = wording.cut(view.detail, BODY_LIMIT_BYTES // 8)
        return details

    async def _send(self, body: dict[str, Any]) -> None:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_SECONDS))
        try:
            async with self._session.post(
                f"{self.settings.url}/v2/enqueue",
                data=msgspec.json.encode(body),
                headers={"Content-Type": "application/json"},
            ) as answer:
                text = (await answer.text())[:300]
                _check(answer.status, answer.headers, text)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Retryable(f"sending to PagerDuty: {type(error).__name__}: {error}", delay_seconds=2) from error

    async def run(self, operator: Operator) -> None:  # noqa: ARG002 — takes no answers
        await asyncio.Event().wait()

    def routes(self, operator: Operator) -> Sequence[Any]:  # noqa: ARG002 — takes no answers
        return ()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def _check(status: int, headers: Mapping[str, str], text: str) -> None:
    if status == 202 or 200 <= status < 300:
        return
    if status == 429 or status >= 500:
        asked = headers.get("Retry-After", "")
        delay = float(asked) if asked.isdecimal() else 5.0
        raise Retryable(f"sending to PagerDuty: it answered {status}: {text}", delay_seconds=delay)
    raise Permanent(f"sending to PagerDuty: it answered {status}: {text}")
