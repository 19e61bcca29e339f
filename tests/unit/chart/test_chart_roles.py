"""The roles hold exactly what the enabled actions declare, where it is needed, and nothing more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from healer import plugins
from healer.kube.caches import LEASE_NAMESPACE
from scripts import permissions
from tests.charts import JSON, NAMESPACE, POSTGRES, Rendered, render

EVERYWHERE = ""
ACTIONS = plugins.names(plugins.ACTIONS)
Grant = tuple[str, str, str, str, str]
"""Namespace (or EVERYWHERE), group, resource, verb, and the one name it is for, if it is for one."""


def granted(found: Rendered) -> set[Grant]:
    """What a release may do."""
    return set(_granted(found))


def _granted(found: Rendered) -> Iterator[Grant]:
    for role in [*found.all("ClusterRole"), *found.all("Role")]:
        for rule in role["rules"]:
            assert set(rule) <= {"apiGroups", "resources", "verbs", "resourceNames"}
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        for name in rule.get("resourceNames", [""]):
                            yield role["metadata"].get("namespace", EVERYWHERE), group, resource, verb, name


def declared(name: str, *namespaces: str) -> set[Grant]:
    """What an action says that it needs; of what stands in namespaces, only in these if any are named."""
    found = set()
    for verb in plugins.load(plugins.ACTIONS, name).verbs:
        of_cluster = verb.resource.partition("/")[0] in {"nodes", "volumeattachments"}
        for namespace in (EVERYWHERE,) if of_cluster or not namespaces else namespaces:
            found.add((namespace, verb.group, verb.resource, verb.verb, ""))
    return found


def always() -> set[Grant]:
    return {
        (found.only_in, found.group, found.resource, verb, "") for found in permissions.always() for verb in found.verbs
    }


def telling(*namespaces: str) -> set[Grant]:
    return {(one, "", "events", verb, "") for one in namespaces or (EVERYWHERE,) for verb in ("create", "patch")}


def test_by_default_it_only_reads_and_tells() -> None:
    assert granted(render({})) == always() | telling()
    changes = {grant for grant in granted(render({})) if grant[3] not in {"list", "watch"}}
    assert changes == telling()


def test_of_leases_it_reads_only_those_of_nodes() -> None:
    assert {grant[0] for grant in granted(render({})) if grant[2] == "leases"} == {LEASE_NAMESPACE}


@pytest.mark.parametrize("action", ACTIONS)
def test_an_enabled_action_brings_what_it_declares(action: str) -> None:
    assert granted(render({"actions": [action]})) == always() | telling() | declared(action)


def test_all_actions_bring_what_they_declare_together() -> None:
    every = set().union(*map(declared, ACTIONS))
    assert granted(render({"actions": list(ACTIONS)})) == always() | telling() | every


@pytest.mark.parametrize("action", [name for name in ACTIONS if name not in {"drain", "fence"}])
def test_in_some_namespaces_only_it_changes_nothing_elsewhere(action: str) -> None:
    found = granted(render({"actions": [action], "rbac": {"namespaces": ["shop", "web"]}}))
    assert found == always() | telling("shop", "web", "default") | declared(action, "shop", "web")


def test_nothing_is_given_for_everything() -> None:
    every = granted(
        render({"actions": list(ACTIONS), **POSTGRES, "config": {"from_kubernetes": [{"selector": "a=b"}]}})
    )
    assert not any("*" in part for grant in every for part in grant)
    assert not any(grant[2] in {"secrets", "pods/exec", "clusterroles", "serviceaccounts/token"} for grant in every)


def test_several_replicas_hold_one_lease_of_their_own() -> None:
    lease = "coordination.k8s.io", "leases"
    wanted = {
        (NAMESPACE, *lease, "create", ""),
        (NAMESPACE, *lease, "get", "healer"),
        (NAMESPACE, *lease, "patch", "healer"),
    }
    found = render({**POSTGRES, "replicas": 2})
    assert granted(found) - always() - telling() == wanted
    assert found.config["leader"] == {"name": "healer"}
    elsewhere = render({**POSTGRES, "config": {"leader": {"name": "mine", "namespace": "locks"}}})
    assert {(grant[0], grant[4]) for grant in granted(elsewhere) - always() - telling()} == {
        ("locks", ""),
        ("locks", "mine"),
    }


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ({}, {(EVERYWHERE, "configmaps"), (EVERYWHERE, "prometheusrules")}),
        ({"namespace": "shop"}, {("shop", "configmaps"), ("shop", "prometheusrules")}),
        ({"namespace": "shop", "kinds": ["ConfigMap"]}, {("shop", "configmaps")}),
        ({"cluster": "main", "kinds": ["PrometheusRule"]}, {(EVERYWHERE, "prometheusrules")}),
        ({"cluster": "another"}, set()),
    ],
    ids=["both-kinds", "in-a-namespace", "one-kind-there", "by-name-of-the-cluster", "in-another-cluster"],
)
def test_configuration_is_read_only_where_it_stands(source: Mapping[str, object], wanted: set[tuple[str, str]]) -> None:
    found = granted(render({"config": {"from_kubernetes": [{"selector": "a=b", **source}]}}))
    more = found - always() - telling()
    assert {grant[::2][:2] for grant in more} == wanted
    assert {grant[3] for grant in more} <= {"list", "watch"}


def test_where_it_watches_only_others_it_may_do_nothing_but_lead() -> None:
    clusters: list[JSON] = [{"name": "b", "kubeconfig": "secrets/b"}]
    assert granted(render({"config": {"clusters": clusters}, "actions": ["drain"]})) == set()
    found = granted(render({**POSTGRES, "config": {"clusters": clusters}}))
    assert {grant[2] for grant in found} == {"leases"}


def test_rules_for_plugins_of_ones_own_are_added() -> None:
    rule = {"apiGroups": ["example.com"], "resources": ["robots"], "verbs": ["patch"]}
    found = granted(render({"rbac": {"extraRules": [rule]}}))
    assert found - always() - telling() == {(EVERYWHERE, "example.com", "robots", "patch", "")}


def test_two_releases_do_not_share_a_role() -> None:
    def names(*arguments: str) -> set[str]:
        return {role["metadata"]["name"] for role in render({}, *arguments).all("ClusterRole")}

    assert names().isdisjoint(names("--set", "fullnameOverride=second"))
