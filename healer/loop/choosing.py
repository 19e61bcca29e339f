"""Which remedies apply to an incident, best first, and which one object each would be aimed at. No I/O."""

from __future__ import annotations

import dataclasses

from healer.loop.records import Episode, Incident
from healer.loop.situation import Situation
from healer.model.decisions import GO, Decision, Reason, refuse, wait
from healer.model.plans import Remedy
from healer.model.targets import Level, ObjectRef
from healer.rules.targets import resolve


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    remedy: Remedy
    episode: Episode
    target: ObjectRef | None
    decision: Decision


def choices(incident: Incident, episodes: list[Episode], now: Situation, *, resolved: bool = False) -> list[Choice]:
    """Every remedy that applies, best first: by priority, then what is higher in the hierarchy, then the order of the file.

    `resolved`: those that are for the end of an alert (`on: resolved`), instead of those for its firing.
    """
    found: dict[str, Choice] = {}
    for episode in episodes:
        for remedy in now.book.index.matching(episode.labels):
            if remedy.name in found or remedy.name in incident.failed or remedy.name in incident.denied:
                continue
            if remedy.on_resolved != resolved:
                continue
            if not incident.failed.issuperset(remedy.after):
                continue
            target, decision = _aim(remedy, episode, now)
            found[remedy.name] = Choice(remedy, episode, target, decision)
    rank = now.book.index.rank
    return sorted(
        found.values(), key=lambda c: (-c.remedy.priority, -(c.target.level if c.target else 0), rank[c.remedy.name])
    )


def _aim(remedy: Remedy, episode: Episode, now: Situation) -> tuple[ObjectRef | None, Decision]:
    state = now.states.get(episode.cluster)
    if state is None:
        return None, refuse(Reason.TARGET_NOT_FOUND, f"cluster {episode.cluster!r} is not one of ours", guard="target")
    if not state.freshness.synced:
        # Right after a start: what has not been read yet is not gone.
        return None, wait(
            Reason.STALE_DATA, f"not everything of cluster {state.name} has been read yet", guard="target"
        )
    found = resolve(episode.labels, state, remedy.target)
    if not isinstance(found, ObjectRef):
        return None, refuse(found.reason, found.detail, guard="target")
    actions = now.book.actions[remedy.name]
    if all(found.kind in action.kinds for action in actions):
        return found, GO
    # An alert about a pod is met by what can be done to its workload; never the other way, and never up to a node.
    owner = state.owner_of(found)
    if owner.level is Level.WORKLOAD and all(owner.kind in action.kinds for action in actions):
        return owner, GO
    takes = frozenset.intersection(*(action.kinds for action in actions))
    steps = ", ".join(step.action for step in remedy.steps)
    kinds = ", ".join(sorted(takes)) or "nothing in common"
    return None, refuse(
        Reason.INVALID_TARGET, f"{steps} can be done to {kinds}, and the alert is about {found}", guard="target"
    )
