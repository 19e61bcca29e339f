from healer.testing.states import a_cluster, a_pod, a_ref, a_workload


def test_a_pod_is_its_deployments_through_the_replica_set() -> None:
    web, old = a_ref("Deployment", "web", "shop"), a_ref("ReplicaSet", "web-1", "shop")
    pod = a_pod("web-1-x", owner=old)
    state = a_cluster(a_workload("Deployment", "web"), a_workload("ReplicaSet", "web-1", owner=web), pod)
    assert state.owner_of(pod.ref).key == web.key
    assert list(state.pods_of(web)) == [pod]
    assert list(state.pods_of(old)) == []


def test_objects_that_name_each_other_as_owners_do_not_hold_anything_up() -> None:
    one, other = a_ref("ReplicaSet", "one", "shop"), a_ref("ReplicaSet", "other", "shop")
    pod = a_pod("x", owner=one)
    state = a_cluster(a_workload("ReplicaSet", "one", owner=other), a_workload("ReplicaSet", "other", owner=one), pod)
    owner = state.owner_of(pod.ref)
    assert owner.name in ("one", "other")
    assert {found.ref.name for found in state.pods_of(owner)} <= {"x"}
