"""What an alert is about and what an action changes: exactly one object, known by its UID."""

from __future__ import annotations

import dataclasses
import enum
from typing import Final


class Level(enum.IntEnum):
    """How much hangs on an object. A lock on a higher level covers what lies below it."""

    POD = 1
    WORKLOAD = 2
    NODE = 3


WORKLOAD_KINDS: Final = frozenset(
    {"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "HorizontalPodAutoscaler"}
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRef:
    """One object of one cluster. `kind` as in Kubernetes (`Node`, `Pod`, `Deployment`); no namespace for cluster-wide ones.

    `uid` is empty only for an object that could not be looked up.
    """

    cluster: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The name by which people know it: (cluster, kind, namespace, name). Not the identity: that is the UID."""
        return (self.cluster, self.kind, self.namespace, self.name)

    @property
    def level(self) -> Level:
        if self.kind == "Node":
            return Level.NODE
        return Level.POD if self.kind == "Pod" else Level.WORKLOAD

    def __str__(self) -> str:
        return "/".join(filter(None, (self.kind.lower(), self.namespace, self.name)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NodeIdentity:
    """Which machine, in which life: a node of the same name with another of these is another node."""

    uid: str
    provider_id: str
    boot_id: str
