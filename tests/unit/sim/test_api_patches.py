"""Patch kinds on plain documents, where the API adds nothing."""

from __future__ import annotations

from typing import Any

import pytest

from healer.sim import patches
from healer.sim.api_errors import ApiError

JSON = dict[str, Any]


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": 1}, {"a": None, "b": 2}, {"b": 2}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": None}}, {"a": {"c": 2}}),
        ({"a": "x"}, {"a": {"b": {"c": None, "d": 1}}}, {"a": {"b": {"d": 1}}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({}, {"gone": None}, {}),
    ],
    ids=["null", "nested", "replaces-scalar", "list", "nothing"],
)
def test_a_merge_patch_merges(document: JSON, patch: JSON, expected: JSON) -> None:
    patches.merge(document, patch)
    assert document == expected


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        (
            {"env": [{"name": "a", "value": "1"}]},
            {"env": [{"name": "b", "value": "2"}, {"name": "a", "value": "3"}]},
            {"env": [{"name": "a", "value": "3"}, {"name": "b", "value": "2"}]},
        ),
        (
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {"containers": [{"name": "a", "$patch": "delete"}]},
            {"containers": [{"name": "b"}]},
        ),
        ({"containers": [{"name": "a"}]}, {"containers": [{"name": "gone", "$patch": "delete"}]}, {"containers": [{"name": "a"}]}),
        (
            {"containers": [{"name": "a"}]},
            {"containers": [{"name": "b"}, {"$patch": "replace"}]},
            {"containers": [{"name": "b"}]},
        ),
        (
            {"containers": [{"name": "a"}, {"name": "b"}]},
            {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b", "image": "x"}]},
            {"containers": [{"name": "b", "image": "x"}, {"name": "a"}]},
        ),
        ({"finalizers": ["a"]}, {"finalizers": ["a", "b"]}, {"finalizers": ["a", "b"]}),
        ({"finalizers": ["a", "b"]}, {"$deleteFromPrimitiveList/finalizers": ["a"]}, {"finalizers": ["b"]}),
        ({"taints": [{"key": "a"}]}, {"taints": [{"key": "b"}]}, {"taints": [{"key": "b"}]}),
        ({"tolerations": [{"key": "a"}]}, {"tolerations": []}, {"tolerations": []}),
        ({"labels": {"a": "1"}}, {"labels": {"$patch": "replace", "b": "2"}}, {"labels": {"b": "2"}}),
        ({"strategy": {"type": "RollingUpdate"}}, {"strategy": {"$patch": "delete"}}, {}),
        (
            {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}},
            {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
            {"strategy": {"type": "Recreate"}},
        ),
        (
            {"ports": [{"port": 80, "nodePort": 1}]},
            {"ports": [{"port": 80, "name": "web"}]},
            {"ports": [{"port": 80, "nodePort": 1, "name": "web"}]},
        ),
        (
            {"ports": [{"containerPort": 80}]},
            {"ports": [{"containerPort": 81}]},
            {"ports": [{"containerPort": 80}, {"containerPort": 81}]},
        ),
        ({}, {"volumes": [{"name": "v", "emptyDir": {"medium": None}}]}, {"volumes": [{"name": "v", "emptyDir": {}}]}),
    ],
    ids=[
        "by-key", "delete-item", "delete-missing", "replace-list", "order", "set", "delete-from-set", "taints",
        "tolerations", "replace-map", "delete-map", "retain", "service-ports", "container-ports", "new",
    ],
)  # fmt: skip
def test_a_strategic_patch_merges(document: JSON, patch: JSON, expected: JSON) -> None:
    patches.strategic(document, patch)
    assert document == expected


def test_an_item_without_its_merge_key_is_a_bad_request() -> None:
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        patches.strategic({"containers": []}, {"containers": [{"image": "x"}]})


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/b", "value": 2}], {"a": [1, 2], "b": 2}),
        ([{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2]}),
        ([{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 2, 9]}),
        ([{"op": "remove", "path": "/a/0"}], {"a": [2]}),
        ([{"op": "replace", "path": "/a", "value": None}], {"a": None}),
        ([{"op": "move", "from": "/a", "path": "/b"}], {"b": [1, 2]}),
        ([{"op": "copy", "from": "/a", "path": "/b"}, {"op": "add", "path": "/b/-", "value": 3}], {"a": [1, 2], "b": [1, 2, 3]}),
        ([{"op": "test", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
        ([{"op": "test", "path": "/gone", "value": None}], {"a": [1, 2]}),
        ([{"op": "replace", "path": "", "value": {"c": 1}}], {"c": 1}),
        ([{"op": "add", "path": "", "value": {"c": 1}}], {"c": 1}),
    ],
)  # fmt: skip
def test_a_json_patch_operates(operations: list[JSON], expected: JSON) -> None:
    assert patches.apply_operations({"a": [1, 2]}, operations) == expected


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ({}, 400),
        ([1], 400),
        ([{"op": "dance", "path": "/a"}], 400),
        ([{"op": "remove", "path": "/gone"}], 422),
        ([{"op": "replace", "path": "/gone", "value": 1}], 422),
        ([{"op": "remove", "path": "/a/7"}], 422),
        ([{"op": "remove", "path": ""}], 422),
        ([{"op": "add", "path": "/a/x", "value": 1}], 422),
        ([{"op": "add", "path": "/a/0/deep", "value": 1}], 422),
        ([{"op": "add", "path": "no-slash", "value": 1}], 422),
        ([{"op": "add", "path": "", "value": 3}], 422),
        ([{"op": "test", "path": "/a/0", "value": 2}], 422),
    ],
)
def test_a_json_patch_that_cannot_be_applied_is_refused(operations: Any, code: int) -> None:
    with pytest.raises(ApiError) as caught:
        patches.apply_operations({"a": [1, 2]}, operations)
    assert caught.value.code == code
