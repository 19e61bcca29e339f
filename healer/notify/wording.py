"""What all notifiers say alike: one sentence for the state, the plan, the times; and cutting to what fits."""

from __future__ import annotations

from typing import Final

from healer.model.decisions import Reason
from healer.model.incidents import IncidentState, IncidentView, TimelineEntry
from healer.model.plans import Plan

CUT: Final = " … (cut)"
PHASES: Final = ("detect", "decide", "act", "verify")


def headline(view: IncidentView) -> str:
    """One line that says which, where and how it stands."""
    where = view.target or view.owner
    return f"{view.title} on {where} ({view.cluster}): {standing(view)}"


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
    """`detect 4 s, decide 0.1 s`: the phases that are over."""
    known = [(phase, getattr(view.times, phase)) for phase in PHASES]
    return ", ".join(f"{phase} {_seconds(value)}" for phase, value in known if value is not None)


def _seconds(value: float) -> str:
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def radius(plan: Plan) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in plan.blast_radius.items()) or "nothing"


def line(entry: TimelineEntry) -> str:
    return f"{entry.at:%H:%M:%S} {entry.text}"


def cut(text: str, limit: int, *, marker: str = CUT) -> str:
    """`text`, at most `limit` characters, marked where it was cut."""
    return text if len(text) <= limit else text[: max(0, limit - len(marker))] + marker


def newest(entries: tuple[TimelineEntry, ...], *, lines: int, characters: int) -> str:
    """The newest lines that fit, oldest of them first; says how many were left out."""
    kept: list[str] = []
    left = characters
    for entry in reversed(entries[-lines:]):
        text = cut(line(entry), 500)
        if len(text) + 1 > left:
            break
        kept.append(text)
        left -= len(text) + 1
    omitted = len(entries) - len(kept)
    head = [f"… {omitted} earlier lines"] if omitted else []
    return "\n".join([*head, *reversed(kept)])
