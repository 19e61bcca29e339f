from datetime import UTC, datetime, timedelta

import pytest

from healer.collectors.kube_series import Series, Value
from healer.model.cluster import (
    Autoscaler,
    Budget,
    Condition,
    Container,
    Node,
    Owner,
    Pod,
    Resources,
    Taint,
    Workload,
)
from healer.model.targets import ObjectRef

AT = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
COMMON = 'cluster="test", job="kube-state-metrics"'


def rows(found: Value) -> dict[str, float]:
    """Series as Prometheus prints them, without the labels that all have."""
    made = Series({"job": "kube-state-metrics", "cluster": "test"}).of(found)
    printed = {str(labels.without("job", "cluster")): float(value) for labels, value in made}
    assert len(printed) == len(made)
    return printed


def ref(kind: str, name: str, namespace: str = "shop") -> ObjectRef:
    return ObjectRef(cluster="test", kind=kind, name=name, namespace=namespace, uid="u1")


def test_every_series_says_which_cluster_it_is_of() -> None:
    made = Series({"job": "kube-state-metrics", "cluster": "test"}).of(Node(ref=ref("Node", "n1", "")))
    assert all((labels["job"], labels["cluster"]) == ("kube-state-metrics", "test") for labels, _ in made)


def test_a_node_is_told_with_conditions_taints_and_amounts() -> None:
    node = Node(
        ref=ref("Node", "n1", ""),
        labels={"topology.kubernetes.io/zone": "a", "node-role.kubernetes.io/worker": ""},
        created_at=AT,
        unschedulable=True,
        taints=(Taint(key="k", value="v", effect="NoSchedule"),),
        conditions={"Ready": Condition(type="Ready", status="Unknown")},
        provider_id="sim:///a/i-1",
        kubelet_version="v1.33.1",
        addresses=("10.0.0.1",),
        allocatable=Resources(cpu_millicores=3900, memory_bytes=1024, pods=110),
    )
    assert rows(node) == {
        'kube_node_info{internal_ip="10.0.0.1", kubelet_version="v1.33.1", node="n1", provider_id="sim:///a/i-1"}': 1,
        'kube_node_labels{label_topology_kubernetes_io_zone="a", node="n1"}': 1,
        'kube_node_role{node="n1", role="worker"}': 1,
        'kube_node_created{node="n1"}': AT.timestamp(),
        'kube_node_spec_unschedulable{node="n1"}': 1,
        'kube_node_spec_taint{effect="NoSchedule", key="k", node="n1", value="v"}': 1,
        'kube_node_status_condition{condition="Ready", node="n1", status="true"}': 0,
        'kube_node_status_condition{condition="Ready", node="n1", status="false"}': 0,
        'kube_node_status_condition{condition="Ready", node="n1", status="unknown"}': 1,
        'kube_node_status_allocatable{node="n1", resource="cpu", unit="core"}': 3.9,
        'kube_node_status_allocatable{node="n1", resource="memory", unit="byte"}': 1024,
        'kube_node_status_allocatable{node="n1", resource="pods", unit="integer"}': 110,
    }


def test_a_pod_is_told_with_phase_readiness_and_containers() -> None:
    pod = Pod(
        ref=ref("Pod", "web-1"),
        created_at=AT,
        deleting_since=AT,
        grace_seconds=60,
        owner=Owner(kind="ReplicaSet", name="web", uid="u2"),
        node_name="n1",
        phase="Running",
        reason="NodeLost",
        ip="10.1.0.1",
        containers=(
            Container(
                name="c",
                image="i:1",
                restarts=3,
                waiting_reason="CrashLoopBackOff",
                last_exit_reason="OOMKilled",
                requests=Resources(cpu_millicores=250),
                limits=Resources(memory_bytes=2048),
            ),
        ),
    )
    on = 'namespace="shop", pod="web-1"'
    c = 'container="c", namespace="shop"'
    end = 'pod="web-1", uid="u1"'
    deletion = (AT + timedelta(seconds=60)).timestamp()
    assert rows(pod) == {
        'kube_pod_info{created_by_kind="ReplicaSet", created_by_name="web", namespace="shop", node="n1", pod="web-1", pod_ip="10.1.0.1", uid="u1"}': 1,
        'kube_pod_owner{namespace="shop", owner_is_controller="true", owner_kind="ReplicaSet", owner_name="web", pod="web-1", uid="u1"}': 1,
        f'kube_pod_created{{{on}, uid="u1"}}': AT.timestamp(),
        f'kube_pod_deletion_timestamp{{{on}, uid="u1"}}': deletion,
        **{
            f'kube_pod_status_phase{{namespace="shop", phase="{phase}", {end}}}': float(phase == "Running")
            for phase in ("Pending", "Running", "Succeeded", "Failed", "Unknown")
        },
        f'kube_pod_status_ready{{condition="true", {on}, uid="u1"}}': 0,
        f'kube_pod_status_ready{{condition="false", {on}, uid="u1"}}': 1,
        f'kube_pod_status_ready{{condition="unknown", {on}, uid="u1"}}': 0,
        f'kube_pod_status_reason{{{on}, reason="NodeLost", uid="u1"}}': 1,
        f'kube_pod_container_info{{container="c", image="i:1", namespace="shop", {end}}}': 1,
        f"kube_pod_container_status_ready{{{c}, {end}}}": 0,
        f"kube_pod_container_status_restarts_total{{{c}, {end}}}": 3,
        f"kube_pod_container_status_waiting{{{c}, {end}}}": 1,
        f'kube_pod_container_status_waiting_reason{{{c}, pod="web-1", reason="CrashLoopBackOff", uid="u1"}}': 1,
        f'kube_pod_container_status_last_terminated_reason{{{c}, pod="web-1", reason="OOMKilled", uid="u1"}}': 1,
        f'kube_pod_container_resource_requests{{{c}, node="n1", pod="web-1", resource="cpu", uid="u1", unit="core"}}': 0.25,
        f'kube_pod_container_resource_limits{{{c}, node="n1", pod="web-1", resource="memory", uid="u1", unit="byte"}}': 2048,
    }


def names(found: Value) -> dict[str, float]:
    """The values by metric name and, where a name has several, the label that tells them apart."""
    return {name.split("{", maxsplit=1)[0]: value for name, value in rows(found).items()}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (
            "Deployment",
            {
                "kube_deployment_spec_replicas": 5,
                "kube_deployment_spec_paused": 0,
                "kube_deployment_status_replicas": 4,
                "kube_deployment_status_replicas_ready": 3,
                "kube_deployment_status_replicas_available": 2,
                "kube_deployment_status_replicas_unavailable": 2,
                "kube_deployment_status_replicas_updated": 1,
                "kube_deployment_metadata_generation": 7,
                "kube_deployment_status_observed_generation": 6,
            },
        ),
        (
            "StatefulSet",
            {
                "kube_statefulset_replicas": 5,
                "kube_statefulset_status_replicas": 4,
                "kube_statefulset_status_replicas_ready": 3,
                "kube_statefulset_status_replicas_available": 2,
                "kube_statefulset_status_replicas_updated": 1,
                "kube_statefulset_metadata_generation": 7,
                "kube_statefulset_status_observed_generation": 6,
                "kube_statefulset_status_current_revision": 1,
                "kube_statefulset_status_update_revision": 1,
            },
        ),
        (
            "DaemonSet",
            {
                "kube_daemonset_status_desired_number_scheduled": 5,
                "kube_daemonset_status_current_number_scheduled": 4,
                "kube_daemonset_status_number_ready": 3,
                "kube_daemonset_status_number_available": 2,
                "kube_daemonset_status_number_unavailable": 3,
                "kube_daemonset_status_number_misscheduled": 8,
                "kube_daemonset_status_updated_number_scheduled": 1,
                "kube_daemonset_metadata_generation": 7,
                "kube_daemonset_status_observed_generation": 6,
            },
        ),
        (
            "ReplicaSet",
            {
                "kube_replicaset_owner": 1,
                "kube_replicaset_spec_replicas": 5,
                "kube_replicaset_status_replicas": 4,
                "kube_replicaset_status_ready_replicas": 3,
                "kube_replicaset_metadata_generation": 7,
                "kube_replicaset_status_observed_generation": 6,
            },
        ),
        (
            "Job",
            {
                "kube_job_owner": 1,
                "kube_job_spec_parallelism": 5,
                "kube_job_status_active": 4,
                "kube_job_status_succeeded": 9,
                "kube_job_status_failed": 10,
                "kube_job_status_start_time": AT.timestamp(),
            },
        ),
    ],
)
def test_a_workload_is_told_under_the_names_of_its_kind(kind: str, expected: dict[str, float]) -> None:
    found = Workload(
        ref=ref(kind, "web"),
        replicas=5,
        current=4,
        ready=3,
        available=2,
        updated=1,
        generation=7,
        observed_generation=6,
        misscheduled=8,
        succeeded=9,
        failed=10,
        started_at=AT,
        current_revision="r1",
        update_revision="r2",
    )
    assert names(found) == expected


def test_a_replicaset_names_its_deployment() -> None:
    found = Workload(ref=ref("ReplicaSet", "web-5f"), owner=Owner(kind="Deployment", name="web", uid="u"))
    assert rows(found)[
        'kube_replicaset_owner{namespace="shop", owner_is_controller="true", owner_kind="Deployment", owner_name="web", replicaset="web-5f"}'
    ]


def test_a_failed_job_is_told_by_its_condition() -> None:
    found = Workload(ref=ref("Job", "backup"), conditions={"Failed": Condition(type="Failed", status="True")})
    assert rows(found)['kube_job_failed{condition="true", job_name="backup", namespace="shop"}'] == 1
    assert rows(found)['kube_job_failed{condition="false", job_name="backup", namespace="shop"}'] == 0


def test_a_budget_and_an_autoscaler_are_told() -> None:
    budget = Budget(ref=ref("PodDisruptionBudget", "web"), current_healthy=3, desired_healthy=2, disruptions_allowed=1)
    assert rows(budget) == {
        'kube_poddisruptionbudget_status_current_healthy{namespace="shop", poddisruptionbudget="web"}': 3,
        'kube_poddisruptionbudget_status_desired_healthy{namespace="shop", poddisruptionbudget="web"}': 2,
        'kube_poddisruptionbudget_status_pod_disruptions_allowed{namespace="shop", poddisruptionbudget="web"}': 1,
        'kube_poddisruptionbudget_status_expected_pods{namespace="shop", poddisruptionbudget="web"}': 0,
        'kube_poddisruptionbudget_status_observed_generation{namespace="shop", poddisruptionbudget="web"}': 0,
    }
    scaler = Autoscaler(
        ref=ref("HorizontalPodAutoscaler", "web"),
        target_kind="Deployment",
        target_name="web",
        min_replicas=2,
        max_replicas=9,
        current=9,
        desired=9,
        conditions={"ScalingLimited": Condition(type="ScalingLimited", status="True")},
    )
    printed = rows(scaler)
    on = 'horizontalpodautoscaler="web", namespace="shop"'
    assert printed[f"kube_horizontalpodautoscaler_spec_max_replicas{{{on}}}"] == 9
    assert printed[f"kube_horizontalpodautoscaler_status_current_replicas{{{on}}}"] == 9
    condition = f'kube_horizontalpodautoscaler_status_condition{{condition="ScalingLimited", {on}, status="true"}}'
    assert printed[condition] == 1
