"""What can be set: everything is described by the schema, what does not go together is refused with the mend, all of it at once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from healer import __version__
from healer.app import service
from healer.kube.quantities import whole
from healer.web.server import SHUTDOWN_SECONDS
from tests import charts
from tests.charts import CHART, JSON, MATRIX, POSTGRES, refused, render, rendered

VALUES: JSON = charts.load((CHART / "values.yaml").read_text("utf-8"))
SCHEMA: JSON = json.loads((CHART / "values.schema.json").read_text("utf-8"))
FREE = {"config", "resources"}
MONITORS = {"serviceMonitor", "podMonitor"}
"""Asked for by the kind that they make."""
WHOLE = {*FREE, "labels", "podSecurityContext"}
"""Taken as they are."""


def test_the_chart_bears_the_version_of_healer() -> None:
    chart = charts.load((CHART / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def compare(path: str, values: JSON, schema: JSON) -> None:
    properties = schema["properties"]
    assert set(values) == set(properties) - {"global"}, path
    assert schema["additionalProperties"] is False, path
    for name, value in values.items():
        if name not in FREE and "properties" in properties[name]:
            compare(f"{path}.{name}", value, properties[name])


def test_every_value_stands_in_the_schema_and_every_word_of_the_schema_is_a_value() -> None:
    compare("", VALUES, SCHEMA)


def test_every_value_is_used() -> None:
    templates = "".join(path.read_text("utf-8") for path in (CHART / "templates").iterdir())

    def check(path: str, value: Any) -> None:
        last = path.rpartition(".")[2]
        assert f".{last}" in templates or f'"{last}"' in templates or last in MONITORS, path
        if isinstance(value, dict) and last not in WHOLE:
            for name, below in value.items():
                check(f"{path}.{name}", below)

    for name, value in VALUES.items():
        check(name, value)


# Refusals ---------------------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[JSON, str]] = {
    "replicas-without-postgres": (
        {"replicas": 2},
        "replicas: more than one share a journal; set journal.postgres.existingSecret",
    ),
    "replicas-without-a-token": (
        {"replicas": 2, "journal": {"postgres": {"existingSecret": "db"}}},
        "replicas: each would make a token of its own; set auth.existingSecret",
    ),
    "unknown-action": ({"actions": ["reboot"]}, 'actions: there is no "reboot"; there are cordon, drain, fence'),
    "remedy-beyond-the-role": (
        {"config": {"remedies": charts.REMEDIES}, "actions": ["cordon"]},
        'remedy "empty-dead-node" may drain (mode auto), but the role does not allow it; add it to `actions`',
    ),
    "two-monitors": (
        {"metrics": {"serviceMonitor": {"enabled": True}, "podMonitor": {"enabled": True}}},
        "metrics: serviceMonitor and podMonitor would both scrape every pod",
    ),
    "drain-in-some-namespaces": (
        {"actions": ["drain"], "rbac": {"namespaces": ["a"]}},
        "rbac.namespaces: a node holds pods of any namespace",
    ),
    "fence-in-some-namespaces": ({"actions": ["fence"], "rbac": {"namespaces": ["a"]}}, "so `fence` needs all of them"),
    "config.journal": ({"config": {"journal": {"path": "x"}}}, "config.journal: the chart sets it"),
    "config.web.listen": (
        {"config": {"web": {"listen": "x"}}},
        "config.web.listen: the chart sets it; use service.port",
    ),
    "config.web.token_file": (
        {"config": {"web": {"token_file": "x"}}},
        "config.web.token_file: the chart sets it; use auth.existingSecret",
    ),
    "config.store.embedded.path": (
        {"config": {"store": {"embedded": {"path": "x"}}}},
        "config.store.embedded.path: the chart sets it",
    ),
    "a-name-of-the-charts": (
        {"secretFiles": {"journal-url": {"existingSecret": "a", "key": "b"}}},
        "secretFiles.journal-url: the chart makes this file",
    ),
}
MISSHAPEN: dict[str, tuple[JSON, str]] = {
    "unknown": ({"replica": 2}, "'replica' not allowed"),
    "a-secret-in-the-values": ({"secretFiles": {"slack": "xoxb-123"}}, "/secretFiles/slack"),
    "latest": ({"image": {"tag": "latest"}}, "/image/tag"),
    "half-a-digest": ({"image": {"digest": "sha256:abc"}}, "/image/digest"),
    "no-replica": ({"replicas": 0}, "/replicas"),
    "root": ({"podSecurityContext": {"runAsUser": 0}}, "/podSecurityContext/runAsUser"),
    "remedies-as-a-mapping": ({"config": {"remedies": {"a": 1}}}, "/config/remedies"),
    "a-path-as-the-name-of-a-file": ({"secretFiles": {"../x": {"existingSecret": "a", "key": "b"}}}, "/secretFiles"),
    "rules-that-are-not-yaml": ({"ruleFiles": {"nodes.txt": "x"}}, "/ruleFiles"),
}


@pytest.mark.parametrize(("values", "said"), [*WRONG.values(), *MISSHAPEN.values()], ids=[*WRONG, *MISSHAPEN])
def test_it_is_refused_with_what_is_wrong(values: JSON, said: str) -> None:
    assert said in refused(values)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    said = refused({"replicas": 2, "actions": ["reboot"], "config": {"web": {"listen": "x"}}})
    assert [line.split(":")[0] for line in said.splitlines() if line.startswith("- ")] == [
        "- replicas",
        "- replicas",
        "- actions",
        "- config.web.listen",
    ]


@pytest.mark.parametrize("mode", ["shadow", "suggest"])
def test_a_remedy_that_only_looks_on_needs_no_permission(mode: str) -> None:
    render({"config": {"remedies": [{**charts.REMEDIES[1], "mode": mode}]}})


# What it makes of them --------------------------------------------------------------------------------------------------


def test_with_a_volume_it_is_a_stateful_set_and_without_a_deployment_of_which_no_two_work_at_once() -> None:
    assert rendered("defaults").workload["kind"] == "StatefulSet"
    assert rendered("without-a-volume").workload["spec"]["strategy"] == {"type": "Recreate"}
    assert rendered("replicas").workload["kind"] == "Deployment"
    assert rendered("replicas").workload["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert rendered("replicas-with-volumes").workload["spec"]["replicas"] == 2


def test_replicas_keep_apart_and_one_of_them_stays() -> None:
    found = rendered("replicas")
    assert found.one("PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    spread = found.pod["topologySpreadConstraints"]
    assert [(one["topologyKey"], one["whenUnsatisfiable"]) for one in spread] == [
        ("kubernetes.io/hostname", "DoNotSchedule"),
        ("topology.kubernetes.io/zone", "ScheduleAnyway"),
    ]
    assert rendered("defaults").all("PodDisruptionBudget") == []


def test_it_leaves_a_dead_node_within_half_a_minute() -> None:
    found = {one["key"]: one["tolerationSeconds"] for one in rendered("defaults").pod["tolerations"]}
    assert found == {"node.kubernetes.io/not-ready": 30, "node.kubernetes.io/unreachable": 30}


def test_the_end_waits_for_a_repair_under_way() -> None:
    assert rendered("defaults").pod["terminationGracePeriodSeconds"] >= service.GRACE_SECONDS + SHUTDOWN_SECONDS + 10


def test_the_cpu_is_not_limited() -> None:
    assert all("cpu" not in rendered(case).container["resources"]["limits"] for case in MATRIX)


def test_the_image_is_the_digest_if_there_is_one() -> None:
    assert rendered("defaults").container["image"] == f"cluster-healer:{__version__}"
    assert rendered("everything").container["image"] == "registry.example/cluster-healer@sha256:" + 64 * "a"


def test_on_the_edge_it_has_128_mebibytes() -> None:
    resources = rendered("edge").container["resources"]
    assert whole(resources["limits"]["memory"]) <= 128 * 2**20
    assert whole(resources["requests"]["memory"]) <= whole(resources["limits"]["memory"])


def test_its_own_cluster_is_the_one_that_is_named() -> None:
    config = rendered("everything").config
    assert config["clusters"] == [{"name": "prod-eu", "in_cluster": True}]
    assert config["safety"]["self"]["cluster"] == "prod-eu"


def test_the_volume_goes_with_the_release_only_if_that_is_wanted() -> None:
    policy = "persistentVolumeClaimRetentionPolicy"
    assert rendered("defaults").workload["spec"][policy]["whenDeleted"] == "Retain"
    found = render({"persistence": {"whenDeleted": "Delete", "storageClass": "fast", "size": "2Gi"}}).workload["spec"]
    assert found[policy]["whenDeleted"] == "Delete"
    (claim,) = found["volumeClaimTemplates"]
    assert (claim["spec"]["storageClassName"], claim["spec"]["resources"]["requests"]["storage"]) == ("fast", "2Gi")


# Network ----------------------------------------------------------------------------------------------------------------


def ports(egress: list[JSON]) -> list[int]:
    return [port["port"] for rule in egress for port in rule["ports"]]


def test_nothing_is_reached_but_dns_and_api_servers_and_nobody_comes_in_but_monitoring() -> None:
    policy = rendered("defaults").one("NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert ports(policy["egress"]) == [53, 53, 443, 6443]
    (rule,) = policy["ingress"]
    assert rule["ports"] == [{"port": 9095, "protocol": "TCP"}]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]


def test_what_the_configuration_names_is_reached_and_what_people_only_click_on_is_not() -> None:
    policy = rendered("everything").one("NetworkPolicy")["spec"]
    assert ports(policy["egress"]) == [53, 53, 6443, 5432, 9093, 4318, 443, 9100, 80, 8428]
    assert policy["egress"][1]["to"] == [{"ipBlock": {"cidr": "10.0.0.1/32"}}, {"ipBlock": {"cidr": "fd00::1/128"}}]


def test_from_nobody_means_nobody() -> None:
    assert rendered("closed").one("NetworkPolicy")["spec"]["ingress"] == []
    assert rendered("service-monitor").all("NetworkPolicy") == []


# Being watched ----------------------------------------------------------------------------------------------------------


def test_a_monitor_finds_the_port_and_calls_the_job_healer() -> None:
    service, monitor = rendered("service-monitor").one("Service"), rendered("service-monitor").one("ServiceMonitor")
    assert service["metadata"]["labels"].items() >= monitor["spec"]["selector"]["matchLabels"].items()
    assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "healer"
    assert [end["port"] for end in monitor["spec"]["endpoints"]] == [port["name"] for port in service["spec"]["ports"]]
    pods, monitor = rendered("everything").workload["spec"]["template"], rendered("everything").one("PodMonitor")
    assert pods["metadata"]["labels"].items() >= monitor["spec"]["selector"]["matchLabels"].items()
    assert pods["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "healer"
    assert [end["port"] for end in monitor["spec"]["podMetricsEndpoints"]] == ["http"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


def test_the_alerts_are_those_of_the_document_each_with_a_sentence_for_whoever_is_woken() -> None:
    rule = rendered("everything").one("PrometheusRule")
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    assert rule["spec"] == charts.load((CHART / "files" / "alerts.yaml").read_text("utf-8"))
    alerts = [one for group in rule["spec"]["groups"] for one in group["rules"]]
    assert len(alerts) > 5
    assert all(one["annotations"]["summary"].endswith(".") and one["labels"]["severity"] for one in alerts)


def test_grafanas_sidecar_finds_the_dashboard() -> None:
    (board,) = (one for one in rendered("everything").all("ConfigMap") if "healer.yaml" not in one["data"])
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert board["metadata"]["annotations"] == {"grafana_folder": "Healer"}
    ((name, text),) = board["data"].items()
    assert json.loads(text) == json.loads((CHART / "files" / "dashboards" / name).read_text("utf-8"))


# Notes ------------------------------------------------------------------------------------------------------------------


def notes(values: JSON) -> str:
    done = charts.run("install", values, "--dry-run=client", charts.RELEASE)
    assert done.returncode == 0, done.stderr
    return done.stdout.rpartition("\nNOTES:\n")[2]


def test_the_notes_say_what_it_may_do_and_how_to_look() -> None:
    text = notes({"config": {"rules": ["pack:demo"]}})
    assert "looks on" in text
    assert "kubectl exec -n healer-system statefulset/healer -- healer incidents" in text
    assert "cat /var/lib/healer/token" in text
    assert "neither a rule nor a remedy" not in text
    assert "Kubernetes does not start it elsewhere" in text
    text = notes({**MATRIX["replicas"], "actions": ["drain", "cordon"]})
    assert "may cordon, drain" in text
    assert "deployment/healer" in text
    assert "kubectl get secret -n healer-system healer-tokens" in text
    assert "neither a rule nor a remedy" in text
    assert "only in shop, web" in notes(MATRIX["some-namespaces"])


def test_the_notes_warn_of_what_will_be_forgotten_and_of_closed_doors() -> None:
    assert "forgets every decision" in notes(MATRIX["without-a-volume"])
    assert "forgets every decision" not in notes(MATRIX["replicas"])
    assert "lets nobody in" in notes(MATRIX["closed"])
    assert "network policy" not in notes(MATRIX["service-monitor"])


def test_the_values_of_the_edge_are_values_of_the_chart() -> None:
    assert set(MATRIX["edge"]) <= set(VALUES)
    assert POSTGRES.keys() <= VALUES.keys()
