"""An incident as Slack's Block Kit. Every text from outside is escaped: it cannot mention, link or format. Pure."""

from __future__ import annotations

from typing import Any, Final

from healer.model.incidents import IncidentState, IncidentView
from healer.notify import wording

TEXT_LIMIT: Final = 2900
"""A text block takes 3,000 characters."""
HEADER_LIMIT: Final = 150
ALERTS_SHOWN: Final = 5
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


def escape(text: str) -> str:
    """Slack's three special characters; then nothing in `text` is markup, mention or link. Backquotes are made plain."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "'")


def fallback(view: IncidentView) -> str:
    """What notifications and screen readers get."""
    return wording.cut(escape(wording.headline(view)), TEXT_LIMIT)


def blocks(view: IncidentView) -> list[dict[str, Any]]:
    """At most a dozen blocks, each within Slack's limits."""
    where = view.target or view.owner
    made = [
        {
            "type": "header",
            "text": {
                "type": "plain_text",
                "text": wording.cut(f"{SIGNS[view.state]} {view.title}", HEADER_LIMIT, marker="…"),
            },
        },
        _section(
            f"*{escape(wording.standing(view))}*\n`{escape(str(where))}` in `{escape(view.cluster)}`" + _detail(view)
        ),
    ]
    if view.alerts:
        made.append(_section(_alerts(view)))
    if view.plan is not None:
        made.append(_section(_plan(view)))
    if view.state is IncidentState.AWAITING_APPROVAL:
        made.append(_buttons(view))
    if view.timeline:
        happened = wording.newest(view.timeline, lines=LINES_SHOWN, characters=TEXT_LIMIT - 100)
        made.append(_section("```" + wording.cut(escape(happened), TEXT_LIMIT - 10) + "```"))
    made.append(_footer(view))
    return made


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": wording.cut(text, TEXT_LIMIT), "verbatim": True}}


def _detail(view: IncidentView) -> str:
    return f"\n{escape(wording.cut(view.detail, 1500))}" if view.detail else ""


def _alerts(view: IncidentView) -> str:
    lines = [
        f"{'🔥' if alert.firing else '✓'} *{escape(wording.cut(alert.name, 100))}* {escape(wording.cut(alert.summary or alert.labels, 300))}"
        for alert in view.alerts[:ALERTS_SHOWN]
    ]
    more = len(view.alerts) - ALERTS_SHOWN
    return "\n".join([*lines, *([f"… and {more} more"] if more > 0 else [])])


def _plan(view: IncidentView) -> str:
    if view.plan is None:
        return ""
    lines = [f"*Plan {escape(view.plan.remedy)}* ({escape(view.mode)}), touches {escape(wording.radius(view.plan))}"]
    lines += [f"• {escape(p.action)}: {escape(wording.cut(p.summary, 300))}" for p in view.plan.previews[:10]]
    return "\n".join(lines)


def _buttons(view: IncidentView) -> dict[str, Any]:
    value = f"{view.id} {view.approval_digest}"
    return {
        "type": "actions",
        "block_id": f"answer-{view.id}",
        "elements": [
            {
                "type": "button",
                "action_id": "approve",
                "style": "primary",
                "text": {"type": "plain_text", "text": "Approve"},
                "value": value,
            },
            {
                "type": "button",
                "action_id": "deny",
                "style": "danger",
                "text": {"type": "plain_text", "text": "Deny"},
                "value": value,
            },
        ],
    }


def _footer(view: IncidentView) -> dict[str, Any]:
    parts = [
        view.id,
        wording.times(view),
        "flapping" if view.flapping else "",
        "alerts incomplete" if view.incomplete else "",
    ]
    text = " · ".join(escape(part) for part in parts if part)
    if view.url:
        text += f" · <{escape(view.url)}|console>"
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": wording.cut(text, TEXT_LIMIT)}]}
