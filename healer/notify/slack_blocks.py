"""An incident as Slack's Block Kit. No text from outside can mention, link or format: it is escaped, always. Pure."""

from __future__ import annotations

import re  # noqa: TID251 (fixed patterns over single texts)
from typing import Any, Final

from healer.model.incidents import IncidentState, IncidentView
from healer.notify import wording

TEXT_LIMIT: Final = 3000
"""Characters in a text block, in UTF-16 units to be on the safe side."""
FALLBACK_LIMIT: Final = 3000
HEADER_LIMIT: Final = 150
ALERTS_SHOWN: Final = 5
STEPS_SHOWN: Final = 10
WARNINGS_SHOWN: Final = 3
LINES_SHOWN: Final = 14
SIGNS: Final = {
    IncidentState.OPEN: "🟠",
    IncidentState.AWAITING_APPROVAL: "✋",
    IncidentState.ACTING: "🔧",
    IncidentState.VERIFYING: "🔎",
    IncidentState.UNDOING: "↩️",
    IncidentState.ESCALATED: "🔴",
    IncidentState.CLOSED: "✅",
}

_HALF_ENTITY: Final = re.compile(r"&[a-z]{0,3}$")
_EDGE: Final = re.compile(r"(?<!\w)_|_(?!\w)")


def code(text: str) -> str:
    """For inside backquotes: Slack's three special characters, and no backquote that would end it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")


def escape(text: str) -> str:
    """For running text: as `code`, and signs that would format are shown by others that look alike.

    Slack knows no escape for these; text to be copied stands in code, where they are left alone.
    """
    return _EDGE.sub("＿", code(text).replace("*", "∗").replace("~", "∼"))


def fit(text: str, limit: int, *, marker: str = wording.CUT) -> str:
    """`text` in at most `limit` UTF-16 units, marked where it was cut, with no entity cut in two."""
    units = text.encode("utf-16-le", "replace")
    if len(units) <= 2 * limit:
        return text
    room = max(0, limit - len(marker.encode("utf-16-le")) // 2)
    return _HALF_ENTITY.sub("", units[: 2 * room].decode("utf-16-le", "ignore")) + marker


def fallback(view: IncidentView) -> str:
    """What notifications and screen readers get, and everybody when Slack will not take the blocks."""
    return fit(escape(wording.headline(view)), FALLBACK_LIMIT, marker=_marker(view))


def blocks(view: IncidentView) -> list[dict[str, Any]]:
    """At most a dozen blocks, each within Slack's limits."""
    made = [
        {
            "type": "header",
            "text": {
                "type": "plain_text",
                "text": fit(f"{SIGNS[view.state]} {view.title}", HEADER_LIMIT, marker="…"),
            },
        },
        _section(_standing(view), view),
    ]
    if view.alerts:
        made.append(_section(_alerts(view), view))
    if view.plan is not None:
        made.append(_section(_plan(view), view))
    if view.state is IncidentState.AWAITING_APPROVAL:
        made.append(_buttons(view))
    if view.timeline:
        made.append(_section(_timeline(view), view))
    made.append(_footer(view))
    return made


def _section(text: str, view: IncidentView) -> dict[str, Any]:
    shown = fit(text, TEXT_LIMIT, marker=_marker(view))
    return {"type": "section", "text": {"type": "mrkdwn", "text": shown, "verbatim": True}}


def _marker(view: IncidentView) -> str:
    return code(wording.marker(view))


def _standing(view: IncidentView) -> str:
    where = wording.cut(str(view.target or view.owner), 300)
    detail = f"\n{escape(wording.cut(view.detail, 1500, marker=wording.marker(view)))}" if view.detail else ""
    cluster = code(wording.cut(view.cluster, 100))
    return f"*{escape(wording.standing(view))}*\n`{code(where)}` in `{cluster}`{detail}"


def _alerts(view: IncidentView) -> str:
    lines = [
        f"{'🔥' if alert.firing else '✓'} *{escape(wording.cut(alert.name, 100))}* "
        + escape(wording.cut(alert.summary or alert.labels, 300))
        for alert in view.alerts[:ALERTS_SHOWN]
    ]
    more = len(view.alerts) - ALERTS_SHOWN
    return "\n".join([*lines, *([f"… and {more} more"] if more > 0 else [])])


def _plan(view: IncidentView) -> str:
    plan = view.plan
    if plan is None:
        return ""
    lines = [f"*Plan {escape(wording.cut(plan.remedy, 100))}* ({escape(view.mode)}), touches {radius(view)}"]
    for preview in plan.previews[:STEPS_SHOWN]:
        lines.append(f"• {escape(preview.action)}: {escape(wording.cut(preview.summary, 200))}")
        lines += [f"    ⚠ {escape(wording.cut(text, 150))}" for text in preview.warnings[:WARNINGS_SHOWN]]
    more = len(plan.previews) - STEPS_SHOWN
    return "\n".join([*lines, *([f"… and {more} more steps"] if more > 0 else [])])


def radius(view: IncidentView) -> str:
    return escape(wording.cut(wording.radius(view.plan), 300)) if view.plan else ""


def _buttons(view: IncidentView) -> dict[str, Any]:
    value = f"{view.id} {view.approval_digest}"
    remedy = view.plan.remedy if view.plan else view.remedy
    question = f"{remedy} on {view.target or view.owner}; touches {wording.radius(view.plan) if view.plan else '?'}"
    approve = {
        "type": "button",
        "action_id": "approve",
        "style": "primary",
        "text": {"type": "plain_text", "text": "Approve"},
        "value": value,
        "confirm": {
            "title": {"type": "plain_text", "text": "Carry this out?"},
            "text": {"type": "plain_text", "text": fit(question, 290, marker="…")},
            "confirm": {"type": "plain_text", "text": "Approve"},
            "deny": {"type": "plain_text", "text": "Not yet"},
        },
    }
    deny = {
        "type": "button",
        "action_id": "deny",
        "style": "danger",
        "text": {"type": "plain_text", "text": "Deny"},
        "value": value,
    }
    return {"type": "actions", "block_id": f"answer-{view.id}"[:250], "elements": [approve, deny]}


def _timeline(view: IncidentView) -> str:
    room = TEXT_LIMIT - 200
    while True:
        happened = wording.newest(view.timeline, lines=LINES_SHOWN, characters=room, shown=code)
        text = f"```{happened}```"
        if len(text.encode("utf-16-le", "replace")) <= 2 * TEXT_LIMIT:
            return text
        room //= 2  # characters beyond the basic plane count twice


def _footer(view: IncidentView) -> dict[str, Any]:
    parts = [
        view.id,
        wording.times(view),
        f"approve until {view.approval_expires_at:%H:%M:%S} UTC" if view.approval_expires_at else "",
        "flapping" if view.flapping else "",
        "alerts incomplete" if view.incomplete else "",
    ]
    text = fit(" · ".join(escape(part) for part in parts if part), 2000)
    if 0 < len(view.url) <= wording.LINK_LIMIT:
        text += f" · <{code(view.url).replace('|', '%7C')}|console>"
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": text}]}
