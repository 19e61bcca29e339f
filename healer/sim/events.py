"""Events have two faces, core/v1 and events.k8s.io/v1. They are stored with the first; this turns one into the other."""

from __future__ import annotations

from typing import Final

from healer.sim.kinds import Kind
from healer.sim.objects import JSON

_NAMES: Final = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_BACK: Final = {new: core for core, new in _NAMES.items()}


def shown(kind: Kind, obj: JSON) -> JSON:
    """A stored object as `kind` serves it; itself, unless it has another face there."""
    if kind.group != "events.k8s.io":
        return obj
    renamed = {_NAMES.get(name, name): value for name, value in obj.items()}
    return renamed | {"apiVersion": kind.api_version}


def stored(kind: Kind, obj: JSON) -> JSON:
    """What a client of `kind` sent, as it is stored."""
    if kind.group != "events.k8s.io":
        return obj
    renamed = {_BACK.get(name, name): value for name, value in obj.items()}
    return renamed | {"apiVersion": "v1"}
