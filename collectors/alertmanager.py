"""Reads what Alertmanager (webhook v4) and Grafana (the same shape) send.

Every alert is judged by itself and by its own status: what the body says of the whole group is of no interest. A bad
alert is left out with a reason, and the good ones go on.
"""

from __future__ import annotations

import functools
import re  # noqa: TID251 (fixed patterns of ours, linear in their input)
import urllib.parse
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from healer.errors import BadPayload
from healer.model.alerts import Alert, AlertStatus
from healer.model.series import Labels
from healer.ports import AlertReport

SOURCE: Final = "alertmanager"
DEEPEST: Final = 64
"""Nesting that an alert may have. Senders need two levels; the standard's own tests go to fifty."""
LONGEST_LABEL: Final = 4096
LONGEST_ANNOTATION: Final = 32 * 1024
MOST_LABELS: Final = 256
_EXAMPLE: Final = 200
_ZERO: Final = "0001-01-01T00:00:00Z"
_CUT: Final = " … (cut)"

_LABEL_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]{1,256}")
_TOKENS: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[\[{]|[\]}]', re.DOTALL)
_STATUSES: Final = {status.value: status for status in AlertStatus}


class _Body(msgspec.Struct):
    alerts: list[msgspec.Raw] | None
    """Go writes an empty list as null."""
    truncated: Any = msgspec.field(name="truncatedAlerts", default=0)
    external_url: Any = msgspec.field(name="externalURL", default="")
    org_id: Any = msgspec.field(name="orgId", default=None)
    """Only Grafana has it."""


class _Alert(msgspec.Struct):
    status: Any = None
    labels: Any = None
    annotations: Any = None
    starts_at: Any = msgspec.field(name="startsAt", default=None)
    ends_at: Any = msgspec.field(name="endsAt", default=None)
    generator_url: Any = msgspec.field(name="generatorURL", default="")


_BODY: Final = msgspec.json.Decoder(_Body)
_ALERT: Final = msgspec.json.Decoder(_Alert)


class _Rejected(Exception):
    """The reason why an alert cannot be taken."""


def parse_webhook(body: bytes, *, default_cluster: str, now: datetime) -> AlertReport:
    """The alerts in `body`. BadPayload when it is no such body at all.

    An alert belongs to the cluster in its label `cluster`, else to `default_cluster`. A start in the future is passed
    on as it is: intake clamps it and says so. A resolved alert without an end ended `now`.
    """
    try:
        read = _BODY.decode(body)
    except msgspec.ValidationError as error:
        raise BadPayload(f"not the body of an Alertmanager webhook: {error}; send version 4, with 'alerts'") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadPayload(f"not JSON: {error}") from None
    except RecursionError:
        raise BadPayload("nested too deep: an alert has two levels, and this body hundreds") from None
    alerts: list[Alert] = []
    rejected: list[tuple[str, str]] = []
    raws = read.alerts or ()
    # An alert opens three brackets, so that a body with few more has nothing deep in it.
    suspicious = body.count(b"{") + body.count(b"[") > 3 * len(raws) + DEEPEST
    for raw in raws:
        try:
            if suspicious:
                _check_depth(bytes(raw))
            alerts.append(_alert(raw, default_cluster, now))
        except _Rejected as reason:
            rejected.append((str(reason), bytes(memoryview(raw)[:_EXAMPLE]).decode(errors="replace")))
    return AlertReport(
        source=SOURCE,
        alerts=tuple(alerts),
        rejected=tuple(rejected),
        truncated=max(0, read.truncated) if type(read.truncated) is int else 0,
        complete_url=_complete_url(read),
    )


def _alert(raw: msgspec.Raw, default_cluster: str, now: datetime) -> Alert:
    try:
        read = _ALERT.decode(raw)
    except msgspec.ValidationError:
        raise _Rejected("not an object") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _Rejected("not valid UTF-8") from None
    status = _STATUSES.get(read.status) if isinstance(read.status, str) else None
    if status is None:
        raise _Rejected("bad status")
    labels = _labels(read.labels)
    ends_at = _time(read.ends_at) if read.ends_at is not None else None
    if status is AlertStatus.RESOLVED and ends_at is None:
        ends_at = now
    starts_at = _time(read.starts_at)
    if starts_at is None:
        raise _Rejected("bad time")
    return Alert(
        cluster=labels.get("cluster", "") or default_cluster,
        status=status,
        labels=labels,
        starts_at=starts_at,
        annotations=_annotations(read.annotations),
        ends_at=ends_at,
        source=SOURCE,
        generator_url=read.generator_url if isinstance(read.generator_url, str) else "",
    )


def _labels(labels: object) -> Labels:
    if not isinstance(labels, dict) or not labels:
        raise _Rejected("no labels")
    if len(labels) > MOST_LABELS:
        raise _Rejected("too many labels")
    for name, value in labels.items():
        if not _is_label_name(name):
            raise _Rejected("bad label name")
        if not isinstance(value, str):
            raise _Rejected("bad label value")
        if len(value) > LONGEST_LABEL:
            raise _Rejected("value too long")
    if not labels.get("alertname"):
        raise _Rejected("no alertname")
    return Labels(labels)


@functools.lru_cache(maxsize=1024)
def _is_label_name(name: str) -> bool:
    """UTF-8 names are allowed, as in Alertmanager since 0.27; what would break a line of text is not."""
    return _LABEL_NAME.fullmatch(name) is not None


def _annotations(annotations: object) -> Mapping[str, str]:
    """They are for people, so they are made to fit rather than refused."""
    if not isinstance(annotations, dict):
        return {}
    return {
        name: _fitting(value if isinstance(value, str) else msgspec.json.encode(value).decode())
        for name, value in annotations.items()
    }


def _fitting(text: str) -> str:
    return text if len(text) <= LONGEST_ANNOTATION else text[:LONGEST_ANNOTATION] + _CUT


def _time(text: object) -> datetime | None:
    """None for Go's zero time, which stands for "not yet"."""
    if text == _ZERO:
        return None
    try:
        at = msgspec.convert(text, datetime)
        if at.tzinfo is None:
            raise _Rejected("bad time")
        return None if at.year == 1 else at.astimezone(UTC)
    except (msgspec.ValidationError, OverflowError):
        raise _Rejected("bad time") from None


def _check_depth(text: bytes) -> None:
    if text.count(b"{") + text.count(b"[") <= DEEPEST:
        return
    depth = 0
    for token in _TOKENS.findall(text):
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
        if depth > DEEPEST:
            raise _Rejected("nested too deep")


def _complete_url(read: _Body) -> str:
    """Where the sender lists all its alerts."""
    base = read.external_url
    if not isinstance(base, str) or not base:
        return ""
    try:
        parts = urllib.parse.urlsplit(base)
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return ""
    # Grafana has an Alertmanager inside, at a path of its own.
    inside = "" if read.org_id is None else "/api/alertmanager/grafana"
    return f"{base.rstrip('/')}{inside}/api/v2/alerts"
