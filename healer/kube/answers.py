"""What an API server's answer means: the one place where statuses become errors of ours.

Whether a failed change may have been carried out is decided here too: a server that breaks down in the middle of a
change (5xx) may have done it, one that refuses (4xx) has not.
"""

from __future__ import annotations

import email.utils
import re  # noqa: TID251 — fixed patterns of ours
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from healer.errors import (
    ActionError,
    BudgetBlocked,
    Conflict,
    Forbidden,
    Gone,
    MultipleBudgets,
    NotFound,
    OutcomeUnknown,
    Permanent,
    Retryable,
)
from healer.kube.transport import Response

_BUDGET: Final = re.compile(r"The disruption budget (\S+) (.+)")
_REJECTED: Final = "rejected our request due to an error in our request"
_BUDGET_DELAY_SECONDS: Final = 5.0
_TERMINATING_DELAY_SECONDS: Final = 5.0
_UNAUTHORIZED_DELAY_SECONDS: Final = 5.0
_LONGEST_DELAY_SECONDS: Final = 600.0
_LONGEST_TEXT: Final = 500


class Cause(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    causes: list[Cause] | None = None
    retry_after_seconds: int = 0


class Status(msgspec.Struct, frozen=True):
    """The body of a failure (metav1.Status), or what stands in for it."""

    message: str = ""
    reason: str = ""
    code: int = 0
    details: Details | None = None

    @property
    def causes(self) -> list[Cause]:
        return (self.details.causes if self.details else None) or []

    def has_cause(self, reason: str) -> bool:
        return any(cause.reason == reason for cause in self.causes)

    def says(self, words: str) -> bool:
        return words in self.message or any(words in cause.message for cause in self.causes)


_decode_status: Final = msgspec.json.Decoder(Status).decode


def status_of(body: bytes) -> Status:
    """The Status in a failed answer; a proxy's page becomes its message."""
    try:
        return _decode_status(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Status(message=body[:_LONGEST_TEXT].decode(errors="replace").strip())


def check_response(
    response: Response, *, doing: str, reading: bool, now: datetime | None = None, namespace: str = ""
) -> bytes:
    """The body of an answer that says yes; else the error it means.

    `doing` says what was asked ("evicting pod/shop/web-1"); `reading` is true when nothing can have changed;
    `namespace` is where the budgets named in a refused eviction lie; `now` reads a Retry-After that is a date.
    """
    if 200 <= response.status < 300:
        return response.body
    status = status_of(response.body)
    delay = _retry_after(response.headers, status, now)
    raise error_of(response.status, status, doing=doing, reading=reading, delay_seconds=delay, namespace=namespace)


def error_of(
    code: int, status: Status, *, doing: str, reading: bool, delay_seconds: float = 0.0, namespace: str = ""
) -> ActionError:
    """The error that a status code and a Status (also one inside a watch) mean. `delay_seconds`: 0 where none was asked for."""
    text = f"{doing}: {code} {status.message[:_LONGEST_TEXT] or status.reason or 'without a word'}"
    match code:
        case 401:
            return Retryable(
                f"{text} (the server does not accept our credentials)",
                delay_seconds=delay_seconds or _UNAUTHORIZED_DELAY_SECONDS,
            )
        case 403 if status.has_cause("NamespaceTerminating"):
            return Retryable(text, delay_seconds=delay_seconds or _TERMINATING_DELAY_SECONDS)
        case 403:
            return Forbidden(text)
        case 404:
            return NotFound(text)
        case 409:
            return Conflict(text)
        case 410:
            return Gone(text)
        case 422 if _is_other_object(status):
            return Conflict(text)
        case 429 if status.has_cause("DisruptionBudget"):
            return BudgetBlocked(
                text, delay_seconds=delay_seconds or _BUDGET_DELAY_SECONDS, budgets=_budgets(status, namespace)
            )
        case 429:
            return Retryable(text, delay_seconds=delay_seconds or 1.0)
        case 500 if status.says("more than one PodDisruptionBudget"):
            return MultipleBudgets(text)
        case _ if code >= 500 or code == 408:
            return Retryable(text, delay_seconds=delay_seconds or 1.0) if reading else OutcomeUnknown(text)
        case _:
            return Permanent(text)


def is_answer(response: Response) -> bool:
    """Whether the API server itself has answered, as against a proxy or a server that has broken down."""
    if response.status < 500:
        return True
    return response.status == 500 and b"more than one PodDisruptionBudget" in response.body


def _is_other_object(status: Status) -> bool:
    """How a patch fails that was meant for another UID or resourceVersion: as invalid, not as a conflict.

    A JSON patch whose `test` fails is answered with a sentence that says nothing, and without causes; a value that is
    not valid always comes with its causes.
    """
    if not status.causes:
        return status.says(_REJECTED) or status.says("test failed")
    return any(cause.field in ("metadata.uid", "metadata.resourceVersion") for cause in status.causes)


def _budgets(status: Status, namespace: str) -> tuple[str, ...]:
    return tuple(
        f"{namespace}/{found[1]}: {found[2].rstrip('.')}"
        for cause in status.causes
        if cause.reason == "DisruptionBudget" and (found := _BUDGET.match(cause.message))
    )


def _retry_after(headers: Mapping[str, str], status: Status, now: datetime | None) -> float:
    """Seconds that the server asks us to wait; 0 when it does not say."""
    asked = _header_seconds(headers.get("retry-after", ""), now)
    if not asked and status.details:
        asked = float(status.details.retry_after_seconds)
    return min(max(asked, 0.0), _LONGEST_DELAY_SECONDS)


def _header_seconds(text: str, now: datetime | None) -> float:
    if text.isascii() and text.isdigit():
        return float(text[:9])
    if not text or now is None:
        return 0.0
    try:
        at = email.utils.parsedate_to_datetime(text)
        return (at - now).total_seconds()
    except (ValueError, TypeError):
        return 0.0
