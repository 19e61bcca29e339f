"""Why something was done, or not: every incident and decision about an alert, node, pod, workload or incident. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from healer.loop.memory import Memory
from healer.loop.records import Episode, Incident
from healer.loop.views import view
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState, IncidentView
from healer.model.targets import ObjectRef


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """One answer. `incident` is None for alerts that nobody has a remedy for; `now` is the sentence that counts."""

    about: str
    now: str
    incident: IncidentView | None = None


def explain(memory: Memory, subject: str, *, external_url: str = "") -> list[Explanation]:
    """Everything about `subject` (an alert's name, an object's name or kind/namespace/name, or an incident's id), newest last."""
    wanted = subject.strip().lower()
    found = [incident for incident in memory.incidents.values() if _about(memory, incident, wanted)]
    answers = [
        Explanation(
            about=f"{incident.title} on {incident.target or incident.owner}",
            now=sentence(incident),
            incident=view(memory, incident, external_url=external_url),
        )
        for incident in sorted(found, key=lambda i: i.seq)
    ]
    return answers + [_without_incident(episode) for episode in _orphans(memory, wanted)]


def sentence(incident: Incident) -> str:
    """What is, or was, the matter with an incident, in one sentence."""
    detail = f": {incident.detail}" if incident.detail else ""
    match incident.state:
        case IncidentState.CLOSED:
            return f"closed as {incident.reason}{detail}"
        case IncidentState.ESCALATED:
            return f"a person is needed, {incident.reason}{detail}"
        case IncidentState.OPEN:
            decided = incident.decided
            if decided is None:
                return f"being decided{detail}"
            guard = f" ({decided.guard})" if decided.guard else ""
            return f"{decided.answer} because {decided.reason}{guard}" + (
                f": {decided.detail}" if decided.detail else ""
            )
        case _:
            return f"{incident.state}{detail}"


def _about(memory: Memory, incident: Incident, wanted: str) -> bool:
    if incident.id == wanted or incident.title.lower() == wanted:
        return True
    refs = [incident.owner, *([incident.target] if incident.target else [])]
    refs += [touched.ref for touched in incident.plan.touches] if incident.plan else []
    if any(_names(ref, wanted) for ref in refs):
        return True
    return any(_names_episode(episode, wanted) for episode in memory.episodes_of(incident))


def _names(ref: ObjectRef, wanted: str) -> bool:
    return wanted in (ref.name.lower(), str(ref).lower(), f"{ref.namespace}/{ref.name}".lower(), ref.uid)


def _names_episode(episode: Episode, wanted: str) -> bool:
    if episode.name.lower() == wanted or (episode.target and _names(episode.target, wanted)):
        return True
    named = ("node", "pod", "deployment", "statefulset", "daemonset", "instance", "horizontalpodautoscaler")
    return any(episode.labels.get(name, "").lower() == wanted for name in named)


def _orphans(memory: Memory, wanted: str) -> Iterator[Episode]:
    for episode in memory.episodes.values():
        if not episode.incident and episode.reason is not Reason.OK and _names_episode(episode, wanted):
            yield episode


def _without_incident(episode: Episode) -> Explanation:
    return Explanation(
        about=f"{episode.name} {episode.labels}",
        now=f"refuse because {episode.reason}: no remedy matches this alert; write one under remedies, or leave it to people",
    )
