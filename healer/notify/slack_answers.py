"""What comes back from Slack: is it Slack who sends, what was pressed by whom, and what a person is told about it. Pure."""

from __future__ import annotations

import dataclasses
import hmac
from collections.abc import Iterator, Mapping
from typing import Any, Final

from healer.model.decisions import Reason
from healer.model.incidents import IncidentView

MAX_AGE_SECONDS: Final = 300
VERBS: Final = ("approve", "deny")


def signed(secret: str, body: bytes, headers: Mapping[str, str], *, now_seconds: float) -> str:
    """Why a request is not believed; empty when Slack has signed it within the last five minutes.

    The signature is checked first: nothing else is looked at of a request that Slack has not signed.
    """
    from slack_sdk.signature import SignatureVerifier  # noqa: PLC0415 — only who uses Slack pays for it

    stamp = headers.get("X-Slack-Request-Timestamp", "")
    given = headers.get("X-Slack-Signature", "")
    wanted = SignatureVerifier(secret).generate_signature(timestamp=stamp, body=body) or ""
    if not hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode()):
        return "the signature is wrong; compare notify.slack.signing_secret with the app's"
    if not (stamp.isascii() and stamp.isdecimal()) or abs(now_seconds - int(stamp)) > MAX_AGE_SECONDS:
        return "the request is older than 5 minutes; check the clocks"
    return ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Press:
    """A button that was pressed: `by` is Slack's id of the person, `digest` the plan that the button was for."""

    verb: str
    incident: str
    digest: str
    by: str
    channel: str


def presses(payload: Any) -> Iterator[Press]:
    """Every answer in an interaction; nothing for anything else, however odd."""
    if not isinstance(payload, dict) or payload.get("type") != "block_actions":
        return
    by = _text(payload.get("user"), "id")
    channel = _text(payload.get("channel"), "id") or _text(payload.get("container"), "channel_id")
    actions = payload.get("actions")
    for action in actions if isinstance(actions, list) else ():
        verb = _text(action, "action_id")
        incident, _, digest = _text(action, "value").partition(" ")
        # Without its digest an answer would count for whatever plan there is now.
        if by and verb in VERBS and incident and digest:
            yield Press(verb=verb, incident=incident, digest=digest, by=by, channel=channel)


def _text(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def why_not(press: Press, reason: Reason, view: IncidentView | None) -> str:
    """What the person is told whose answer does not count."""
    match reason:
        case Reason.ALREADY_DECIDED:
            return f"It has been decided already: {_decision(view)}."
        case Reason.NO_LONGER_NEEDED:
            return "It is no longer needed: nothing waits for an answer here."
        case Reason.TARGET_NOT_FOUND:
            return "This incident is no longer known."
        case Reason.PLAN_CHANGED:
            return "The plan has changed since that message was shown. Read the new one and answer that."
        case Reason.APPROVAL_EXPIRED:
            return "The time for an answer is over."
        case Reason.NOT_ALLOWED:
            return (
                f"You are not among those who may approve this. They stand under approvers; you are slack:{press.by}."
            )
        case _:
            return f"Your answer does not count: {reason}."


def _decision(view: IncidentView | None) -> str:
    """Who decided, as the timeline has it."""
    for entry in reversed(view.timeline if view else ()):
        if entry.text.startswith(("approved by ", "denied by ")):
            return f"{entry.text} at {entry.at:%H:%M:%S}"
    return "look at the message"
