"""What all notifiers say alike: one sentence for the state, the plan, the times; and cutting to what fits. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from healer.model.decisions import Reason
from healer.model.incidents import IncidentState, IncidentView, TimelineEntry
from healer.model.plans import Plan

CUT: Final = " … (cut)"
PHASES: Final = ("detect", "decide", "act", "verify")
LINE_LIMIT: Final = 500
LINK_LIMIT: Final = 300
"""Longer addresses are not repeated in a marker."""


def headline(view: IncidentView) -> str:
    """One line that says which, where and how it stands."""
    where = cut(str(view.target or view.owner), 300)
    return f"{cut(view.title, 200)} on {where} ({cut(view.cluster, 100)}): {standing(view)}"


def standing(view: IncidentView) -> str:
    """How it stands, in a few words."""
    match view.state:
        case IncidentState.CLOSED if view.reason is Reason.FIXED:
            return "fixed and verified"
        case IncidentState.CLOSED if view.reason is Reason.RESOLVED_ON_ITS_OWN:
            return "resolved on its own"
        case IncidentState.CLOSED:
            return f"closed ({view.reason})"
        case IncidentState.ESCALATED:
            return f"a person is needed ({view.reason})"
        case IncidentState.OPEN if view.reason is not Reason.OK:
            return f"nothing is done now ({view.reason})"
        case _:
            return str(view.state)


def times(view: IncidentView) -> str:
    """`detect 4.0 s, decide 0.1 s`: the phases that are over."""
    known = [(phase, getattr(view.times, phase)) for phase in PHASES]
    return ", ".join(f"{phase} {seconds(value)}" for phase, value in known if value is not None)


def seconds(value: float) -> str:
    if value < 10:
        return f"{value:.1f} s"
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"


def radius(plan: Plan) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in plan.blast_radius.items()) or "nothing"


def line(entry: TimelineEntry) -> str:
    return f"{entry.at:%H:%M:%S} {entry.text}"


def cut(text: str, limit: int, *, marker: str = CUT) -> str:
    """`text`, at most `limit` characters, marked where it was cut."""
    return text if len(text) <= limit else text[: max(0, limit - len(marker))] + marker[: max(0, limit)]


def marker(view: IncidentView) -> str:
    """What stands where a text was cut: where the whole of it is, when there is an address."""
    return f" … (cut; all of it: {view.url})" if 0 < len(view.url) <= LINK_LIMIT else CUT


def newest(
    entries: tuple[TimelineEntry, ...], *, lines: int, characters: int, shown: Callable[[str], str] = str
) -> str:
    """The newest lines that fit, oldest of them first; says how many were left out.

    `shown` is put over each line before it is measured: escaping makes text longer.
    """
    kept: list[str] = []
    left = characters - len("… 1000000 earlier lines\n")
    for entry in reversed(entries[-lines:]):
        text = shown(cut(line(entry), LINE_LIMIT))
        if len(text) + 1 > left:
            break
        kept.append(text)
        left -= len(text) + 1
    omitted = len(entries) - len(kept)
    head = [f"… {omitted} earlier lines"] if omitted else []
    return "\n".join([*head, *reversed(kept)])
