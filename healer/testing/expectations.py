"""What must have happened, in words that read like a sentence; a failure tells the whole story."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, Final

from healer.model import events as ev
from healer.model.decisions import Reason
from healer.model.incidents import IncidentState, IncidentView
from healer.sim.api import Api, RequestRecord
from healer.sim.world import World

CHANGING: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
TELLING: Final = frozenset({"events", "leases", "selfsubjectaccessreviews"})
"""Requests that change nothing that matters."""


class Expectations(abc.ABC):
    """Mixed into Scenario, which gives what is abstract here."""

    world: World
    api: Api

    @property
    @abc.abstractmethod
    def events(self) -> list[ev.Event]:
        """The journal."""

    @abc.abstractmethod
    def incidents(self) -> Sequence[IncidentView]:
        """Newest first."""

    # Finding ---------------------------------------------------------------------------------------------------------

    def incident(self, title: str) -> IncidentView:
        """The newest incident of that title, an open one first."""
        found = [view for view in self.incidents() if view.title == title]
        found.sort(key=lambda view: view.state is IncidentState.CLOSED)
        assert found, f"there is no incident {title!r}\n{self.story()}"
        return found[0]

    def node(self, name: str) -> dict[str, Any]:
        """A node as it is now; AssertionError when there is none."""
        found = self.world.storage.get("nodes", "", name)
        assert found is not None, f"there is no node {name!r}"
        return found

    def is_cordoned(self, name: str) -> bool:
        return bool(self.node(name)["spec"].get("unschedulable"))

    def changes(self, path: str = "", method: str = "") -> list[RequestRecord]:
        """Requests of Healer's that change something, dry runs left out."""
        return [
            record
            for record in self.api.requests
            if record.method in CHANGING
            and path in record.path
            and (not method or record.method == method)
            and TELLING.isdisjoint(record.path.split("/"))
            and not record.query.get("dryRun")
        ]

    def evictions(self, pod: str = "") -> list[RequestRecord]:
        return [record for record in self.changes("/eviction") if not pod or f"/pods/{pod}/" in record.path]

    def cordons(self, node: str = "") -> list[RequestRecord]:
        """Patches that made a node unschedulable."""
        return [
            record
            for record in self.changes(f"/nodes/{node}", "PATCH")
            if b'"unschedulable":true' in record.body.replace(b" ", b"")
        ]

    def provider_calls(self, verb: str = "") -> list[Any]:
        return [call for call in self.world.cloud.calls if not verb or call.verb == verb]

    def decisions(self) -> list[ev.Decided]:
        return [event for event in self.events if isinstance(event, ev.Decided)]

    def of_kind(self, *kinds: type[ev.Event]) -> list[Any]:
        """The journal's events of these kinds."""
        return [event for event in self.events if isinstance(event, kinds)]

    # Expecting -------------------------------------------------------------------------------------------------------

    def expect(self, truth: Any, what: str) -> None:
        """`truth`, or an AssertionError that says `what` and tells the story."""
        assert truth, f"{what}\n{self.story()}"

    def expect_nothing_changed(self) -> None:
        """No request that changes the cluster, and no order to the provider."""
        changes = [f"{record.method} {record.path}" for record in self.changes()]
        orders = [call for call in self.provider_calls() if call.verb not in ("describe", "find", "list")]
        assert not changes, f"the cluster was changed: {changes}\n{self.story()}"
        assert not orders, f"the provider was asked: {orders}\n{self.story()}"

    def expect_no_cordon(self) -> None:
        assert not self.cordons(), f"a node was cordoned\n{self.story()}"

    def expect_decided(self, reason: Reason, *, detail: str = "") -> None:
        """Some decision has this reason (and `detail` in its sentence)."""
        found = [d for d in self.decisions() if d.reason == reason and detail in d.detail]
        assert found, f"nothing was decided for {reason} {detail!r}\n{self.story()}"

    def expect_state(self, title: str, state: IncidentState, reason: Reason | None = None) -> None:
        view = self.incident(title)
        assert view.state == state, f"{title} is {view.state}, not {state}\n{self.story()}"
        assert reason is None or view.reason == reason, f"{title} is {view.reason}, not {reason}\n{self.story()}"

    def expect_closed(self, title: str, reason: Reason = Reason.FIXED) -> None:
        self.expect_state(title, IncidentState.CLOSED, reason)

    def expect_escalated(self, title: str, reason: Reason | None = None) -> None:
        self.expect_state(title, IncidentState.ESCALATED, reason)

    def expect_provider_calls(self, verb: str, *, exactly: int) -> None:
        """So many orders of this kind had an effect; repeated ones with the same key do not count twice."""
        keys = {call.token or id(call) for call in self.provider_calls(verb) if call.outcome in ("ok", "lost", "again")}
        assert len(keys) == exactly, (
            f"{len(keys)} calls {verb}, not {exactly}: {self.provider_calls(verb)}\n{self.story()}"
        )

    # Telling ---------------------------------------------------------------------------------------------------------

    def story(self) -> str:
        """What happened, as a person would want to read it when a test fails."""
        lines = [f"the world, now {self.world.now:%H:%M:%S}:"]
        try:
            views = list(reversed(self.incidents()))
        except RuntimeError:
            views = []
        for view in views[:20]:
            lines.append(
                f"incident {view.id} {view.title} on {view.target or view.owner}: {view.state}, {view.reason} {view.detail}"
            )
            lines += [f"  {entry.at:%H:%M:%S.%f} {entry.text}"[:300] for entry in view.timeline[-60:]]
        changes = self.changes()
        lines += [f"  {record.at:%H:%M:%S} {record.method} {record.path} → {record.status}" for record in changes[-40:]]
        lines += [
            f"  {call.at:%H:%M:%S} provider {call.verb} {call.machine} → {call.outcome}"
            for call in self.provider_calls()[-20:]
        ]
        return "\n".join(lines)
