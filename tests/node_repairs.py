"""Remedies for nodes as the scenarios use them, and what several of them look at."""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any, Final

from healer.model import events as ev
from healer.sim.objects import JSON
from healer.testing.scenario import Scenario

REPLACE: Final = """
rules: ['pack:demo']
remedies:
  - name: replace-dead-node
    when: {alertname: NodeDown}
    mode: auto
    steps: [cordon, fence, {drain: {timeout: 5m}}, {replace: {join_timeout: 10m}}]
    verify: {alert: resolved, for: 30s}
"""
"""A dead node is replaced, once its provider has proven it dead."""
POWER_OFF: Final = REPLACE.replace("fence,", "{fence: {power_off: true}},")
"""… and a machine that may still run is powered off first."""
DRAIN: Final = """
remedies:
  - name: empty-node
    when: {alertname: DiskErrors}
    mode: auto
    steps: [cordon, {drain: {timeout: 5m}}]
    verify: {alert: ignored, for: 10s}
"""
"""A node that still works is emptied."""
UNSETTLED: Final = "90s"
"""Longer than Healer looks on after a start (`safety.grace_after_outage`)."""


def settled(s: Scenario) -> None:
    """Let Healer look on until it may act."""
    s.run_for(UNSETTLED)


def ends(s: Scenario, *, within: str = "20m") -> ev.OperationEnded:
    """Run until an operation has ended."""
    s.run_until(lambda: s.of_kind(ev.OperationEnded), within=within)
    ended: ev.OperationEnded = s.of_kind(ev.OperationEnded)[-1]
    return ended


def acting(s: Scenario, action: str, *, within: str = "5m") -> None:
    """Run until a step of this action has begun."""
    s.run_until(lambda: any(e.action == action for e in s.of_kind(ev.StepStarted)), within=within)


def steps_begun(s: Scenario) -> list[str]:
    return [event.action for event in s.of_kind(ev.StepStarted) if not event.undo]


def moves(s: Scenario, pod: str) -> list[JSON]:
    """What each eviction of a pod of that name asked for."""
    return [record.json() for record in s.evictions(pod)]


def gaps(records: list[Any]) -> list[timedelta]:
    """The times between requests."""
    return [after.at - before.at for before, after in itertools.pairwise(records)]


def pods_on(s: Scenario, node: str) -> list[JSON]:
    """What the API has on a node, without DaemonSets and static pods."""
    return [
        pod
        for pod in s.world.storage.items("pods")
        if pod["spec"].get("nodeName") == node and pod["metadata"]["namespace"] != "kube-system"
    ]


def delete_pod(s: Scenario, namespace: str, name: str) -> None:
    """What `kubectl delete pod` does."""
    s.world.storage.delete("pods", namespace, name)
