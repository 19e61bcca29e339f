"""What a configuration gives the loop: remedies with their actions, limits, people. Replaced whole on reload."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta

from healer.model.cluster import ClusterState
from healer.model.plans import Remedy
from healer.ports import Action, Kube, Provider
from healer.rules.remedies import RemedyIndex
from healer.safety.state import ActiveWindow, SafetySettings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """`actions[remedy]` are the remedy's steps, in order. `windows` tells which maintenance windows are open at a time."""

    remedies: Mapping[str, Remedy]
    index: RemedyIndex
    actions: Mapping[str, Sequence[Action]]
    safety: SafetySettings
    windows: Callable[[datetime], tuple[ActiveWindow, ...]] = lambda _: ()
    providers: Mapping[str, Provider] = dataclasses.field(default_factory=dict)
    approvers: Mapping[str, frozenset[str]] = dataclasses.field(default_factory=dict)
    """Group → people, as `via:name` or `name`."""
    protected_namespaces: frozenset[str] = frozenset()
    self_cluster: str = ""
    self_node: str = ""
    self_namespace: str = ""
    max_event_age: timedelta = timedelta(hours=1)
    hold: timedelta = timedelta(minutes=10)
    """How long after its end a returning alert still belongs to the same incident."""
    digest: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One cluster as the loop uses it."""

    name: str
    kube: Kube
    state: Callable[[], ClusterState]
    changed: Callable[[float], Awaitable[None]]
    """`await changed(seconds)`: until something changes, at most so long."""
