"""What Healer needs to be allowed in a cluster, by why: one table for docs/plugins.md and for the chart's roles."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Final

from healer import plugins
from healer.clock import SystemClock
from healer.config.sources import KubernetesSource
from healer.kube.caches import ClusterCaches
from healer.kube.client import KubeClient
from healer.kube.resources import RESOURCES
from healer.ports import Verb
from healer.sim.api import Api
from healer.sim.api_transport import SimTransport
from healer.sim.storage import Storage

READ: Final = ("list", "watch")
TELL: Final = ("create", "patch")
LEAD: Final = ("get", "create", "patch")
_NAMESPACED: Final = {(resource.group, resource.plural): resource.namespaced for resource in RESOURCES.values()}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Permission:
    """One rule of a role. `group` is empty for the core group; `resource` may name a subresource.

    `only_in`: the one namespace in which it is needed, where that does not depend on the configuration.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    only_in: str = ""

    @property
    def namespaced(self) -> bool:
        """Whether its objects stand in namespaces, so that it can be given in some of them only."""
        return _NAMESPACED[self.group, self.resource.partition("/")[0]]


def always() -> tuple[Permission, ...]:
    """To see: what is read of every cluster, whatever is configured."""
    clock = SystemClock()
    client = KubeClient(SimTransport(Api(Storage(now=clock.now), now=clock.now)), cluster="any", clock=clock)
    followed = ClusterCaches(client, clock)._reflectors  # noqa: SLF001 — what it follows is its own business
    return tuple(_of(kind, READ, only_in=found._where["namespace"]) for kind, found in followed.items())  # noqa: SLF001


def telling() -> Permission:
    """To put Events on objects."""
    return _of("Event", TELL)


def leading() -> Permission:
    """To be one of several replicas."""
    return _of("Lease", LEAD)


def configured() -> Mapping[str, Permission]:
    """To take remedies and rules from a cluster, by kind."""
    return {kind: _of(kind, READ) for kind in KubernetesSource.model_fields["kinds"].default}


def actions() -> Mapping[str, tuple[Permission, ...]]:
    """What each action that comes with Healer declares."""
    return {name: _together(plugins.load(plugins.ACTIONS, name).verbs) for name in plugins.names(plugins.ACTIONS)}


def _of(kind: str, verbs: tuple[str, ...], *, only_in: str = "") -> Permission:
    resource = RESOURCES[kind]
    return Permission(group=resource.group, resource=resource.plural, verbs=verbs, only_in=only_in)


def _together(verbs: Iterable[Verb]) -> tuple[Permission, ...]:
    found: dict[tuple[str, str], list[str]] = {}
    for verb in verbs:
        found.setdefault((verb.group, verb.resource), []).append(verb.verb)
    return tuple(
        Permission(group=group, resource=resource, verbs=tuple(names))
        for (group, resource), names in sorted(found.items())
    )
