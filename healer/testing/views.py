"""An incident as people see it, in a line, for tests of notifiers and of whatever else shows one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from healer.model.decisions import Reason
from healer.model.incidents import AlertLine, IncidentState, IncidentView, TimelineEntry, Times
from healer.model.plans import Effect, Plan, Preview, Touched
from healer.model.targets import ObjectRef

AT: Final = datetime(2026, 3, 1, 2, 59, 40, tzinfo=UTC)


def a_plan(cluster: str = "prod", node: str = "node-a1") -> Plan:
    """Replace a dead node, with three pods on it."""
    target = ObjectRef(cluster=cluster, kind="Node", name=node, uid=f"uid-{node}")
    pods = [ObjectRef(cluster=cluster, kind="Pod", name=f"web-{n}", namespace="shop", uid=f"uid-{n}") for n in range(3)]
    previews = (
        Preview(
            action="cordon",
            target=target,
            summary=f"cordon {node}",
            touches=(Touched(ref=target, effect=Effect.CORDON),),
        ),
        Preview(
            action="drain",
            target=target,
            summary="evict 3 pods",
            touches=tuple(Touched(ref=pod, effect=Effect.EVICT) for pod in pods),
            warnings=("shop/web has 1 replica: it will be away for a while",),
        ),
        Preview(
            action="replace",
            target=target,
            summary="terminate the machine and order a new one",
            touches=(Touched(ref=target, effect=Effect.REPLACE),),
            reversible=False,
        ),
    )
    return Plan(remedy="replace-dead-node", target=target, previews=previews, digest="d1ge57d1ge57")


def a_view(
    *,
    id: str = "inc-1",  # noqa: A002 — the field's name
    cluster: str = "prod",
    state: IncidentState = IncidentState.OPEN,
    **fields: Any,
) -> IncidentView:
    """A dead node. Everything else as in `IncidentView`."""
    plan = a_plan(cluster)
    waiting = state is IncidentState.AWAITING_APPROVAL
    working = state in (IncidentState.ACTING, IncidentState.VERIFYING, IncidentState.UNDOING)
    given: dict[str, Any] = {
        "title": "NodeDown",
        "severity": "critical",
        "owner": plan.target,
        "target": plan.target,
        "opened_at": AT,
        "changed_at": AT + timedelta(seconds=20),
        "closed_at": AT + timedelta(minutes=4) if state is IncidentState.CLOSED else None,
        "alerts": (
            AlertLine(
                name="NodeDown",
                summary="node-a1 does not answer",
                severity="critical",
                labels='{alertname="NodeDown", node="node-a1"}',
                starts_at=AT - timedelta(seconds=4),
                firing=state is not IncidentState.CLOSED,
                source="rules",
            ),
        ),
        "remedy": "replace-dead-node",
        "mode": "approve",
        "plan": plan,
        "reason": Reason.FIXED if state is IncidentState.CLOSED else Reason.OK,
        "times": Times(detect=4.0),
        "approval_digest": plan.digest if waiting else "",
        "approval_expires_at": AT + timedelta(minutes=15) if waiting else None,
        "approvals_needed": 1 if waiting else 0,
        "acknowledged": working,
        "timeline": (TimelineEntry(at=AT, text="incident opened by alert NodeDown", seq=1),),
        "url": f"https://healer.example/#incident={id}",
    }
    return IncidentView(id=id, cluster=cluster, state=state, **(given | fields))
