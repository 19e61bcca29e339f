import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

from healer.kube.objects import Warned
from healer.kube.tables import Beat, Nodes, Pods, Table, Warnings
from healer.model.cluster import Condition, Node, Owner, Pod, Workload
from healer.model.targets import ObjectRef

AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class HandClock:
    """Time as the test says."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> datetime:
        return AT + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


def pod(name: str, *, node: str = "n1", uid: str = "", version: str = "1", phase: str = "Running") -> Pod:
    ref = ObjectRef(cluster="test", kind="Pod", namespace="shop", name=name, uid=uid or name)
    return Pod(ref=ref, node_name=node, resource_version=version, phase=phase)


def node(name: str, *, uid: str = "u", beat: datetime | None = AT) -> Node:
    ready = Condition(type="Ready", status="True", heartbeat_at=beat)
    return Node(ref=ObjectRef(cluster="test", kind="Node", name=name, uid=uid), conditions={"Ready": ready})


def test_a_new_list_tells_only_of_what_has_changed() -> None:
    told: list[tuple[Any, Any]] = []
    pods = Pods(lambda before, after: told.append((before, after)))
    a, b, c = pod("a"), pod("b"), pod("c")
    pods.replace([a, b])
    told.clear()
    newer = pod("b", version="2")
    pods.replace([a, newer, c])
    assert told == [(b, newer), (None, c)]
    pods.replace([newer, c])
    assert told[2:] == [(a, None)]


def test_an_object_made_anew_is_one_that_went_and_one_that_came() -> None:
    told: list[tuple[Any, Any]] = []
    pods = Pods(lambda before, after: told.append((before, after)))
    old, new = pod("a", uid="1"), pod("a", uid="2")
    pods.put(old)
    pods.put(new)
    assert told == [(None, old), (old, None), (None, new)]
    pods.remove(old)
    assert pods.rows == {("shop", "a"): new}


def test_pods_are_found_by_their_node() -> None:
    pods = Pods(lambda _before, _after: None)
    pods.put(pod("a", node=""))
    assert pods.by_node.rows == {}
    pods.put(pod("a", node="n1", version="2"))
    pods.put(pod("b", node="n2"))
    assert {name: list(there) for name, there in pods.by_node.rows.items()} == {
        "n1": [("shop", "a")],
        "n2": [("shop", "b")],
    }
    pods.remove(pod("a"))
    pods.replace([pod("b", uid="new", node="n3")])
    assert {name: list(there) for name, there in pods.by_node.rows.items()} == {"n3": [("shop", "b")]}


def test_pods_are_found_by_their_controller() -> None:
    pods = Pods(lambda _before, _after: None)
    pods.put(pod("a"))
    assert pods.by_owner.rows == {}
    owned = dataclasses.replace(pod("a", version="2"), owner=Owner(kind="ReplicaSet", name="web-1", uid="r"))
    pods.put(owned)
    assert pods.by_owner.rows == {("ReplicaSet", "shop", "web-1"): {("shop", "a"): owned}}
    pods.remove(owned)
    assert pods.by_owner.rows == {}


def test_kinds_that_share_their_rows_replace_only_their_own() -> None:
    rows: dict[tuple[str, str], Workload] = {}

    def table() -> Table[tuple[str, str], Workload]:
        return Table(lambda found: (found.ref.kind, found.ref.name), lambda _before, _after: None, rows)

    def workload(kind: str) -> Workload:
        return Workload(ref=ObjectRef(cluster="test", kind=kind, namespace="shop", name="web", uid=kind))

    deployments, jobs = table(), table()
    deployments.replace([workload("Deployment")])
    jobs.replace([workload("Job")])
    assert len(rows) == 2
    deployments.replace([])
    assert list(rows) == [("Job", "web")]


def test_a_heartbeat_is_a_change_of_what_the_node_writes() -> None:
    clock = HandClock()
    nodes = Nodes(lambda _before, _after: None, clock)
    nodes.leases.put(Beat("n1", AT))
    assert nodes.heartbeats == {}
    nodes.put(node("n1"))
    assert nodes.heartbeats == {"n1": 100.0}
    assert nodes.rows["n1"].lease_renewed_at == AT
    clock.seconds = 110.0
    nodes.leases.replace([Beat("n1", AT)])
    nodes.put(node("n1"))
    assert nodes.heartbeats == {"n1": 100.0}
    nodes.leases.put(Beat("n1", AT + timedelta(seconds=10)))
    assert nodes.heartbeats == {"n1": 110.0}
    clock.seconds = 120.0
    nodes.put(node("n1", beat=AT + timedelta(seconds=20)))
    assert nodes.heartbeats == {"n1": 120.0}
    assert nodes.rows["n1"].lease_renewed_at == AT + timedelta(seconds=10)
    nodes.remove(node("n1"))
    assert nodes.heartbeats == {}


def test_the_controller_that_declares_a_node_unknown_is_no_heartbeat() -> None:
    clock = HandClock()
    nodes = Nodes(lambda _before, _after: None, clock)
    nodes.put(node("n1"))
    clock.seconds = 150.0
    unknown = Condition(type="Ready", status="Unknown", heartbeat_at=AT, changed_at=AT + timedelta(seconds=50))
    nodes.put(Node(ref=node("n1").ref, conditions={"Ready": unknown}))
    assert nodes.heartbeats == {"n1": 100.0}


def test_a_lease_without_a_node_is_nobodys_heartbeat() -> None:
    nodes = Nodes(lambda _before, _after: None, HandClock())
    nodes.leases.put(Beat("n1", AT))
    nodes.leases.remove(Beat("n1", AT))
    nodes.leases.remove(Beat("n1", AT))
    assert nodes.heartbeats == {}


def warned(name: str, message: str, count: int = 1) -> Warned:
    about = ObjectRef(cluster="test", kind="Pod", namespace="shop", name=name, uid=name)
    return Warned(about=about, reason="Failed", message=message, count=count, at=AT)


def test_the_latest_warnings_are_kept_and_the_same_one_once() -> None:
    warnings = Warnings()
    about = warned("a", "").about
    for number in range(8):
        warnings.put(warned("a", f"m{number}"))
    warnings.put(warned("a", "m4", count=9))
    kept = [(found.message, found.count) for found in warnings.about(about)]
    assert kept == [("m3", 1), ("m5", 1), ("m6", 1), ("m7", 1), ("m4", 9)]


def test_warnings_about_very_many_objects_are_bounded() -> None:
    warnings = Warnings()
    warnings.replace([warned(f"p{number}", "m") for number in range(2001)])
    assert warnings.about(warned("p0", "").about) == ()
    assert len(warnings.about(warned("p2000", "").about)) == 1
