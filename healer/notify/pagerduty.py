"""PagerDuty by Events API v2: trigger when a person is needed, acknowledge while Healer works, resolve at the end."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import msgspec
from pydantic import Field

from healer.clock import Clock
from healer.config.fields import FilePath, Secret, Section, Url
from healer.errors import Permanent
from healer.model.incidents import AlertLine, IncidentState, IncidentView
from healer.notify import wording
from healer.notify.http import Poster
from healer.ports import Operator

SUMMARY_LIMIT: Final = 1024
FIELD_LIMIT: Final = 255
BODY_LIMIT_BYTES: Final = 500_000
"""The API takes 512 KB. What is over is cut here: it would refuse all of it, and the page would be lost."""
ALERTS_SHOWN: Final = 20
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


class Sent(NamedTuple):
    """What PagerDuty was told last, and for which of our alerts there: `call` counts them from 0."""

    action: str = ""
    call: int = 0

    @classmethod
    def of(cls, handle: str) -> Sent:
        action, _, call = handle.partition(" ")
        return cls(action, int(call) if call.isascii() and call.isdecimal() else 0)

    def __str__(self) -> str:
        return f"{self.action} {self.call}" if self.call else self.action


class PagerDutyNotifier:
    """ports.Notifier. The handle is the last thing that was sent: trigger, acknowledge or resolve."""

    Settings: ClassVar[type[PagerDutySettings]] = PagerDutySettings
    name = "pagerduty"
    shadow = False

    def __init__(self, settings: PagerDutySettings, *, clock: Clock | None = None) -> None:  # noqa: ARG002
        self.settings = settings
        self._poster = Poster("PagerDuty")

    async def tell(self, view: IncidentView, handle: str) -> str:
        sends = self._next(view, Sent.of(handle))
        for sent in sends:
            await self._send(self.event(view, sent))
        return str(sends[0]) if sends else handle

    def _next(self, view: IncidentView, before: Sent) -> list[Sent]:
        """What to send now, what counts from now on first. Nothing is ended or acknowledged that was not triggered.

        PagerDuty wakes nobody for an alert that stands as acknowledged, whatever is sent for it. So, where we had
        acknowledged one and a person is needed after all, that is a new alert, and the old one is over.
        """
        open_ = before.action in ("trigger", "acknowledge")
        if view.state is IncidentState.CLOSED:
            return [Sent("resolve", before.call)] if open_ else []
        if not open_:
            wanted = view.page or self.settings.when is When.ALWAYS
            return [Sent("trigger", before.call)] if wanted else []
        if view.page and before.action == "acknowledge":
            return [Sent("trigger", before.call + 1), Sent("resolve", before.call)]
        if view.acknowledged and before.action == "trigger":
            return [Sent("acknowledge", before.call)]
        return []

    def event(self, view: IncidentView, sent: Sent) -> dict[str, Any]:
        """The body of the request, never larger than the API takes."""
        key = f"healer/{view.cluster}/{view.id}" + (f"/{sent.call}" if sent.call else "")
        body: dict[str, Any] = {
            "routing_key": self.settings.routing_key.get_secret_value(),
            "event_action": sent.action,
            "dedup_key": key[-FIELD_LIMIT:],
        }
        if sent.action != "trigger":
            return body
        body |= {
            "client": "Healer",
            "payload": {
                "summary": wording.cut(wording.headline(view), SUMMARY_LIMIT, marker=wording.marker(view)),
                "source": wording.cut(f"{view.cluster}/{view.target or view.owner}", FIELD_LIMIT),
                "severity": SEVERITIES.get(view.severity.lower(), "error"),
                "timestamp": view.changed_at.isoformat(),
                "component": wording.cut(str(view.owner), FIELD_LIMIT),
                "group": wording.cut(view.cluster, FIELD_LIMIT),
                "class": wording.cut(view.title, FIELD_LIMIT),
            },
        }
        if view.url and len(view.url) < 2000:
            body["client_url"] = view.url
            body["links"] = [{"href": view.url, "text": "the incident in Healer's console"}]
        body["payload"]["custom_details"] = _details(view, BODY_LIMIT_BYTES - len(msgspec.json.encode(body)))
        return body

    async def _send(self, body: dict[str, Any]) -> None:
        doing = f"telling PagerDuty to {body['event_action']} {body['dedup_key']}"
        status, _, text = await self._poster.post(
            f"{self.settings.url}/v2/enqueue",
            msgspec.json.encode(body),
            {"Content-Type": "application/json"},
            doing=doing,
        )
        if not 200 <= status < 300:
            said = text[:300].decode("utf-8", "replace").replace(self.settings.routing_key.get_secret_value(), "…")
            raise Permanent(f"{doing}: it answered {status}: {said}; check notify.pagerduty.routing_key")

    async def run(self, operator: Operator) -> None:  # noqa: ARG002 — takes no answers
        await asyncio.Event().wait()

    def routes(self, operator: Operator) -> Sequence[Any]:  # noqa: ARG002 — takes no answers
        return ()

    async def close(self) -> None:
        await self._poster.close()


def _details(view: IncidentView, room_bytes: int) -> dict[str, Any]:
    """All that is known, in at most so many bytes of JSON: everything is cut shorter until it fits."""
    size = room_bytes // 4
    while True:
        made = _details_of(view, size)
        if len(msgspec.json.encode(made)) <= room_bytes:
            return made
        size //= 2  # escaped or beyond ASCII, a character takes up to six bytes


def _details_of(view: IncidentView, size: int) -> dict[str, Any]:
    mark = wording.marker(view)
    alerts = view.alerts[:ALERTS_SHOWN]
    more = len(view.alerts) - len(alerts)
    return {
        "reason": str(view.reason),
        "detail": wording.cut(view.detail, size, marker=mark),
        "remedy": wording.cut(view.remedy, min(size, FIELD_LIMIT)),
        "times": wording.times(view),
        "alerts": [
            *(wording.cut(_alert(alert), size // ALERTS_SHOWN, marker=mark) for alert in alerts),
            *([f"… and {more} more"] if more > 0 else []),
        ],
        "what happened": wording.newest(view.timeline, lines=200, characters=size),
    }


def _alert(alert: AlertLine) -> str:
    said = ": ".join(filter(None, (alert.name, alert.summary)))
    return f"{said} ({'firing' if alert.firing else 'resolved'}) {alert.labels}"
