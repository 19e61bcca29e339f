"""Deployments, StatefulSets, DaemonSets, what they own, and the scheduler that places it."""

from __future__ import annotations

from healer.sim import objects
from healer.sim.builders import a_world, add_bare_pod, add_daemonset, add_deployment, add_node, empty_world
from healer.sim.objects import JSON
from healer.sim.world import World


def deployment(world: World, name: str) -> JSON:
    return world.view.all["deployments"]["shop", name]


def pods_of(world: World, name: str) -> list[JSON]:
    workload = world.view.workload(("shop", name))
    assert workload is not None
    return world.view.pods_below(objects.uid_of(workload))


def restart(world: World, resource: str, name: str) -> None:
    def change(copy: JSON) -> None:
        annotations = copy["spec"]["template"]["metadata"].setdefault("annotations", {})
        annotations["kubectl.kubernetes.io/restartedAt"] = objects.stamp(world.now)

    world.storage.update(resource, "shop", name, change)


def test_a_world_starts_whole() -> None:
    world = a_world()
    assert len(world.view.nodes) == 12
    assert all(map(objects.is_ready, world.view.pods.values()))
    assert {key[1] for key in world.view.nodes} == {f"node-{zone}{n}" for zone in "abc" for n in range(1, 5)}
    assert world.now == world.started
    zones = {objects.labels_of(node)[objects.ZONE] for node in world.view.nodes.values()}
    assert zones == {"zone-a", "zone-b", "zone-c"}


def test_a_rolling_restart_replaces_every_pod_and_never_lacks_more_than_a_quarter() -> None:
    world = a_world()
    before = {objects.uid_of(pod) for pod in pods_of(world, "web")}
    restart(world, "deployments", "web")
    fewest, most = 8, 8
    for _ in range(90):
        world.run_for(1)
        active = [pod for pod in pods_of(world, "web") if objects.is_active(pod)]
        fewest = min(fewest, sum(map(objects.is_ready, active)))
        most = max(most, len(active))
    after = {objects.uid_of(pod) for pod in pods_of(world, "web")}
    assert not before & after
    assert len(after) == 8
    assert fewest >= 6
    assert most <= 10
    status = deployment(world, "web")["status"]
    assert (status["updatedReplicas"], status["availableReplicas"], status["replicas"]) == (8, 8, 8)
    assert status["observedGeneration"] == deployment(world, "web")["metadata"]["generation"]
    progressing = objects.condition(deployment(world, "web"), "Progressing")
    assert progressing is not None
    assert progressing["reason"] == "NewReplicaSetAvailable"


def test_a_rollout_that_cannot_come_up_misses_its_deadline() -> None:
    world = a_world()

    def change(copy: JSON) -> None:
        copy["spec"]["template"]["spec"]["nodeSelector"] = {"no": "such"}

    world.storage.update("deployments", "shop", "web", change)
    world.run_for(660)
    progressing = objects.condition(deployment(world, "web"), "Progressing")
    assert progressing is not None
    assert progressing["reason"] == "ProgressDeadlineExceeded"
    assert deployment(world, "web")["status"]["availableReplicas"] >= 6


def test_scaling_makes_and_ends_pods() -> None:
    world = a_world()
    for replicas in (10, 2):

        def change(copy: JSON, replicas: int = replicas) -> None:
            copy["spec"]["replicas"] = replicas

        world.storage.update("deployments", "shop", "cart", change)
        world.run_for(20)
        assert len(pods_of(world, "cart")) == replicas
        assert deployment(world, "cart")["status"]["readyReplicas"] == replicas


def test_a_deleted_deployment_takes_its_sets_and_pods_along() -> None:
    world = a_world()
    owned = {objects.key_of(pod) for pod in pods_of(world, "cart")}
    world.storage.delete("deployments", "shop", "cart")
    world.run_for(15)
    assert not owned & set(world.view.pods)
    assert not [key for key in world.view.all["replicasets"] if key[1].startswith("cart-")]


def test_a_deleted_pod_ends_within_its_grace_and_is_replaced() -> None:
    world = a_world()
    pod = pods_of(world, "cart")[0]
    world.storage.delete("pods", *objects.key_of(pod))
    world.run_for(20)
    assert objects.key_of(pod) not in world.view.pods
    assert len(pods_of(world, "cart")) == 6


def test_slow_pods_use_their_grace_and_no_more() -> None:
    world = empty_world()
    add_node(world)
    add_bare_pod(
        world,
        "shop",
        "slow",
        annotations={"sim.healer.dev/shutdown-seconds": "300"},
        terminationGracePeriodSeconds=120,
    )
    world.settle()
    world.storage.delete("pods", "shop", "slow")
    world.run_for(119)
    assert ("shop", "slow") in world.view.pods
    world.run_for(2)
    assert ("shop", "slow") not in world.view.pods


def test_a_finalizer_keeps_a_pod_until_it_is_taken_away() -> None:
    world = empty_world()
    add_node(world)
    add_bare_pod(world, "shop", "held", finalizers=["example.com/hold"])
    world.settle()
    world.storage.delete("pods", "shop", "held")
    world.run_for(3600)
    assert objects.is_deleting(world.view.pods["shop", "held"])
    world.storage.update("pods", "shop", "held", lambda pod: pod["metadata"].update(finalizers=[]))
    world.run_for(10)
    assert ("shop", "held") not in world.view.pods


def test_a_stateful_pod_keeps_its_name_and_gets_another_uid() -> None:
    world = a_world()
    uid = objects.uid_of(world.view.pods["shop", "db-1"])
    world.storage.delete("pods", "shop", "db-1")
    world.run_for(20)
    assert objects.uid_of(world.view.pods["shop", "db-1"]) != uid
    assert objects.is_ready(world.view.pods["shop", "db-1"])


def test_a_stateful_rollout_goes_from_the_last_to_the_first_one_at_a_time() -> None:
    world = a_world()
    uids = {name: objects.uid_of(world.view.pods["shop", name]) for name in ("db-0", "db-1", "db-2")}
    restart(world, "statefulsets", "db")
    order: list[str] = []
    for _ in range(120):
        world.run_for(1)
        pods = {name: world.view.pods.get(("shop", name)) for name in uids}
        bad = [
            name for name, pod in pods.items() if pod is None or objects.is_deleting(pod) or not objects.is_ready(pod)
        ]
        assert len(bad) <= 1
        order += [name for name, pod in pods.items() if pod and objects.uid_of(pod) != uids[name] and name not in order]
    assert order == ["db-2", "db-1", "db-0"]
    status = world.view.all["statefulsets"]["shop", "db"]["status"]
    assert status["currentRevision"] == status["updateRevision"]


def test_daemons_run_on_every_node_and_return_to_a_cordoned_one() -> None:
    world = a_world(nodes=6)

    def agent(name: str) -> JSON:
        pods = world.view.pods_on[name].values()
        return next(pod for pod in pods if objects.labels_of(pod).get("app") == "node-agent")

    world.storage.update("nodes", "", "node-a1", lambda node: node["spec"].update(unschedulable=True))
    old = agent("node-a1")
    world.storage.delete("pods", *objects.key_of(old))
    world.run_for(20)
    assert objects.uid_of(agent("node-a1")) != objects.uid_of(old)
    status = world.view.all["daemonsets"]["kube-system", "node-agent"]["status"]
    assert status["desiredNumberScheduled"] == status["numberReady"] == 6


def test_a_daemon_set_that_chooses_its_nodes_runs_only_there() -> None:
    world = a_world(nodes=6)
    add_daemonset(world, "kube-system", "gpu-agent", nodeSelector={objects.ZONE: "zone-a"})
    world.run_for(20)
    status = world.view.all["daemonsets"]["kube-system", "gpu-agent"]["status"]
    assert status["desiredNumberScheduled"] == status["numberReady"] == 2


def test_a_mirror_pod_that_was_deleted_is_reflected_again() -> None:
    world = a_world(nodes=3)
    key = ("kube-system", "kube-proxy-node-a1")
    uid = objects.uid_of(world.view.pods[key])
    world.storage.delete("pods", *key)
    world.run_for(40)
    assert objects.uid_of(world.view.pods[key]) != uid
    assert objects.is_ready(world.view.pods[key])


def test_nothing_is_placed_on_a_cordoned_or_tainted_node() -> None:
    world = empty_world()
    cordoned, tainted, free = (add_node(world) for _ in range(3))
    world.storage.update("nodes", "", cordoned, lambda node: node["spec"].update(unschedulable=True))
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    world.storage.update("nodes", "", tainted, lambda node: node["spec"].update(taints=[taint]))
    world.run_for(1)
    add_deployment(world, "shop", "plain", replicas=4)
    tolerations = [{"key": "dedicated", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}]
    add_deployment(world, "shop", "gpu", replicas=4, tolerations=tolerations)
    world.run_for(10)
    assert {objects.node_of(pod) for pod in pods_of(world, "plain")} == {free}
    assert {objects.node_of(pod) for pod in pods_of(world, "gpu")} == {free, tainted}


def test_a_pod_that_fits_nowhere_waits_says_why_and_is_placed_when_there_is_room() -> None:
    world = empty_world()
    add_node(world)
    add_deployment(world, "shop", "big", replicas=2, cpu="3")
    world.run_for(10)
    (waiting,) = world.view.unassigned.values()
    scheduled = objects.condition(waiting, "PodScheduled")
    assert scheduled is not None
    assert scheduled["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert "FailedScheduling" in {event["reason"] for event in world.storage.items("events")}
    add_node(world)
    world.run_for(10)
    assert not world.view.unassigned


def test_replicas_are_spread_over_zones_and_hosts() -> None:
    world = a_world(with_apps=False)
    add_deployment(world, "shop", "wide", replicas=12)
    world.settle()
    assert len({objects.node_of(pod) for pod in pods_of(world, "wide")}) == 12
