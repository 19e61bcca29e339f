"""The storage: versions, copies, deletion, the log."""

from __future__ import annotations

from typing import Any

import pytest

from healer.sim.storage import AlreadyExists, Conflict, Expired, Missing, Storage

JSON = dict[str, Any]
Make = Any
Now = Any


def test_what_is_created_gets_identity_time_version_and_generation(storage: Storage, pod: Make) -> None:
    made = storage.create("pods", pod("web-1"))
    assert made["apiVersion"] == "v1"
    assert made["kind"] == "Pod"
    metadata = made["metadata"]
    assert metadata["creationTimestamp"] == "2026-03-01T12:00:00Z"
    assert metadata["resourceVersion"] == str(storage.version)
    assert metadata["generation"] == 1
    assert len(metadata["uid"]) == 36


def test_the_same_seed_gives_the_same_identities_and_names(now: Now) -> None:
    def names(seed: int) -> list[str]:
        storage = Storage(now=now, seed=seed)
        made = [storage.create("pods", {"metadata": {"generateName": "web-"}, "spec": {}}) for _ in range(3)]
        return [obj["metadata"]["name"] + obj["metadata"]["uid"] for obj in made]

    assert names(1) == names(1)
    assert names(1) != names(2)
    assert len(set(names(1))) == 3


def test_a_second_object_of_that_name_is_refused_and_changes_nothing(storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))
    before = storage.version
    with pytest.raises(AlreadyExists):
        storage.create("nodes", node("n1"))
    assert storage.version == before


def test_the_first_object_of_a_namespace_brings_the_namespace_with_it(storage: Storage, pod: Make) -> None:
    storage.create("pods", pod("web-1", namespace="shop"))
    storage.create("pods", pod("web-2", namespace="shop"))
    assert [obj["metadata"]["name"] for obj in storage.items("namespaces")] == ["shop"]


def test_neither_the_creator_nor_the_editor_holds_what_is_stored(storage: Storage, node: Make) -> None:
    sent = node("n1")
    storage.create("nodes", sent)
    sent["spec"]["unschedulable"] = True
    taints = [{"key": "a", "effect": "NoSchedule"}]
    storage.update("nodes", "", "n1", lambda copy: copy["spec"].update(taints=taints))
    taints[0]["key"] = "b"
    stored = storage.get("nodes", "", "n1")
    assert stored is not None
    assert "unschedulable" not in stored["spec"]
    assert stored["spec"]["taints"] == [{"key": "a", "effect": "NoSchedule"}]


def test_an_object_that_was_handed_out_stays_as_it_was(storage: Storage, node: Make) -> None:
    before = storage.create("nodes", node("n1"))
    after = storage.update("nodes", "", "n1", lambda copy: copy["spec"].update(unschedulable=True))
    assert "unschedulable" not in before["spec"]
    assert after["spec"]["unschedulable"] is True
    assert before["metadata"]["resourceVersion"] != after["metadata"]["resourceVersion"]


def test_an_edit_that_changes_nothing_does_not_move_the_version(storage: Storage, node: Make) -> None:
    made = storage.create("nodes", node("n1"))
    assert storage.update("nodes", "", "n1", lambda copy: copy["spec"].update(made["spec"])) is made


def test_the_generation_counts_changes_of_the_spec_only(storage: Storage, pod: Make) -> None:
    storage.create("pods", pod())
    labelled = storage.update("pods", "shop", "web-1", lambda copy: copy["metadata"]["labels"].update(a="b"))
    failed = storage.update("pods", "shop", "web-1", lambda copy: copy["status"].update(phase="Failed"))
    changed = storage.update("pods", "shop", "web-1", lambda copy: copy["spec"].update(activeDeadlineSeconds=3))
    assert [obj["metadata"]["generation"] for obj in (labelled, failed, changed)] == [1, 1, 2]


def test_identity_cannot_be_edited(storage: Storage, node: Make) -> None:
    made = storage.create("nodes", node("n1"))
    edits = {"name": "n2", "uid": "other", "creationTimestamp": "never", "resourceVersion": "1000"}
    after = storage.update("nodes", "", "n1", lambda copy: copy["metadata"].update(edits, labels={"a": "b"}))
    assert {name: after["metadata"][name] for name in ("name", "uid", "creationTimestamp")} == {
        name: made["metadata"][name] for name in ("name", "uid", "creationTimestamp")
    }
    assert after["metadata"]["resourceVersion"] == str(storage.version)


def test_an_edit_of_the_status_leaves_the_rest_alone(storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))

    def edit(copy: JSON) -> None:
        copy["spec"]["unschedulable"] = True
        copy["status"]["phase"] = "odd"

    after = storage.update("nodes", "", "n1", edit, status=True)
    assert "unschedulable" not in after["spec"]
    assert after["status"]["phase"] == "odd"


@pytest.mark.parametrize("precondition", [{"uid": "other"}, {"resource_version": "99"}], ids=["uid", "version"])
def test_a_precondition_that_does_not_hold_stops_update_and_delete(
    storage: Storage, node: Make, precondition: JSON
) -> None:
    made = storage.create("nodes", node("n1"))
    with pytest.raises(Conflict):
        storage.update("nodes", "", "n1", lambda copy: copy.clear(), **precondition)
    with pytest.raises(Conflict):
        storage.delete("nodes", "", "n1", **precondition)
    assert storage.get("nodes", "", "n1") is made


def test_what_is_not_there_cannot_be_changed(storage: Storage) -> None:
    with pytest.raises(Missing):
        storage.update("nodes", "", "n1", lambda copy: copy.clear())
    with pytest.raises(Missing):
        storage.delete("nodes", "", "n1")
    storage.remove("nodes", "", "n1")
    assert storage.version == 0


def test_a_pod_on_a_node_waits_for_its_grace_period_and_for_its_kubelet(storage: Storage, pod: Make) -> None:
    storage.create("pods", pod())
    marked = storage.delete("pods", "shop", "web-1")
    assert marked["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:30Z"
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    again = storage.update("pods", "shop", "web-1", lambda copy: copy["status"].update(phase="Running", note="x"))
    assert again["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:30Z"
    storage.remove("pods", "shop", "web-1")
    assert storage.get("pods", "shop", "web-1") is None


def test_a_second_delete_can_only_bring_the_end_forward(storage: Storage, pod: Make, now: Now) -> None:
    storage.create("pods", pod())
    storage.delete("pods", "shop", "web-1", grace_seconds=20)
    now.later(5)
    same = storage.delete("pods", "shop", "web-1", grace_seconds=60)
    assert same["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:20Z"
    sooner = storage.delete("pods", "shop", "web-1", grace_seconds=8)
    assert sooner["metadata"]["deletionTimestamp"] == "2026-03-01T12:00:08Z"
    storage.delete("pods", "shop", "web-1", grace_seconds=0)
    assert storage.get("pods", "shop", "web-1") is None


@pytest.mark.parametrize(
    "sort", [{"node": ""}, {"phase": "Succeeded"}, {"phase": "Failed"}], ids=["unscheduled", "succeeded", "failed"]
)
def test_a_pod_that_nothing_runs_goes_at_once(storage: Storage, pod: Make, sort: JSON) -> None:
    storage.create("pods", pod(**sort))
    storage.delete("pods", "shop", "web-1")
    assert storage.items("pods") == []


def test_finalizers_keep_an_object_until_the_last_is_taken_off(storage: Storage, node: Make) -> None:
    made = node("n1")
    made["metadata"]["finalizers"] = ["a/b"]
    storage.create("nodes", made)
    assert "deletionTimestamp" in storage.delete("nodes", "", "n1")["metadata"]
    assert storage.get("nodes", "", "n1") is not None
    storage.update("nodes", "", "n1", lambda copy: copy["metadata"].update(finalizers=[]))
    assert storage.get("nodes", "", "n1") is None
    assert [change.type for change in storage.log_since("nodes", 0)] == ["ADDED", "MODIFIED", "DELETED"]


def test_a_pod_with_a_finalizer_outlives_its_kubelet(storage: Storage, pod: Make) -> None:
    made = pod()
    made["metadata"]["finalizers"] = ["a/b"]
    storage.create("pods", made)
    storage.delete("pods", "shop", "web-1")
    storage.update("pods", "shop", "web-1", lambda copy: copy["status"].update(phase="Failed"))
    storage.remove("pods", "shop", "web-1")
    assert storage.get("pods", "shop", "web-1") is not None
    storage.update("pods", "shop", "web-1", lambda copy: copy["metadata"].pop("finalizers"))
    assert storage.get("pods", "shop", "web-1") is None


def test_the_log_tells_each_change_with_what_was_before(storage: Storage, node: Make) -> None:
    made = storage.create("nodes", node("n1"))
    after = storage.update("nodes", "", "n1", lambda copy: copy["spec"].update(unschedulable=True))
    storage.delete("nodes", "", "n1")
    added, modified, deleted = storage.log_since("nodes", 0)
    assert (added.type, added.obj, added.before) == ("ADDED", made, None)
    assert (modified.type, modified.obj, modified.before) == ("MODIFIED", after, made)
    assert (deleted.type, deleted.version, deleted.before) == ("DELETED", storage.version, after)
    assert deleted.obj["metadata"]["resourceVersion"] == str(storage.version)
    assert storage.log_since("nodes", added.version) == [modified, deleted]
    assert storage.log_since("nodes", storage.version) == []


def test_the_log_of_one_resource_is_not_crowded_out_by_another(now: Now, node: Make) -> None:
    storage = Storage(now=now, history=10)
    storage.create("nodes", node("n1"))
    for count in range(100):
        lease = {"metadata": {"name": f"l{count}", "namespace": "kube-node-lease"}, "spec": {}}
        storage.create("leases", lease)
    assert len(storage.log_since("nodes", 0)) == 1
    with pytest.raises(Expired):
        storage.log_since("leases", 1)
    kept = storage.log_since("leases", storage.version - 10)
    assert [change.version for change in kept] == list(range(storage.version - 9, storage.version + 1))


def test_compaction_forgets_the_past_but_not_the_present(storage: Storage, node: Make) -> None:
    storage.create("nodes", node("n1"))
    storage.create("nodes", node("n2"))
    storage.compact()
    assert storage.log_since("nodes", storage.version) == []
    with pytest.raises(Expired):
        storage.log_since("nodes", storage.version - 1)
    assert len(storage.items("nodes")) == 2


def test_subscribers_hear_of_each_change_until_they_leave(storage: Storage, node: Make) -> None:
    heard: list[int] = []
    leave = storage.subscribe(lambda: heard.append(storage.version))
    storage.create("nodes", node("n1"))
    storage.create("nodes", node("n2"))
    leave()
    storage.create("nodes", node("n3"))
    assert heard == [1, 2]
