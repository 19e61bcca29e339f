"""What the chart renders, over a matrix of values: Kubernetes takes it, it keeps to Pod Security "restricted", healer can run with it."""

from __future__ import annotations

from pathlib import Path

import kubernetes_validate
import pytest
from click.testing import CliRunner

from healer.app import service
from healer.cli import COMMANDS, main
from healer.config.schema import Config
from healer.web import server
from tests import charts
from tests.charts import CHART, JSON, MATRIX, NAMESPACE, POSTGRES, render, rendered

OLDEST = "1.30"
RESTRICTED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
MONITORING = "monitoring.coreos.com/v1"


@pytest.fixture(params=MATRIX)
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# Kubernetes takes it ----------------------------------------------------------------------------------------------------


def test_helm_lints_it(case: str) -> None:
    done = charts.run("lint", MATRIX[case], "--strict")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", [OLDEST, kubernetes_validate.latest_version()])
def test_every_object_keeps_to_the_schema_of_kubernetes(case: str, version: str) -> None:
    for found in rendered(case).objects:
        if found["apiVersion"] != MONITORING:
            kubernetes_validate.validate(found, version, strict=True)


def test_a_wrong_object_would_be_noticed() -> None:
    wrong = rendered("defaults").one("Service") | {"spec": {"prots": []}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, OLDEST, strict=True)


def test_the_oldest_version_that_is_checked_is_the_oldest_that_the_chart_takes() -> None:
    assert charts.load((CHART / "Chart.yaml").read_text("utf-8"))["kubeVersion"] == f">={OLDEST}.0-0"


def test_every_object_has_a_name_and_labels_of_its_own_and_stands_where_it_should(case: str) -> None:
    objects = rendered(case).objects
    names = [(found["kind"], found["metadata"].get("namespace"), found["metadata"]["name"]) for found in objects]
    assert len(set(names)) == len(names)
    for found in objects:
        assert found["metadata"]["labels"].items() >= selector().items()
        if found["kind"] not in {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}:
            assert found["metadata"]["namespace"] == NAMESPACE


def selector() -> dict[str, str]:
    return {"app.kubernetes.io/name": "healer", "app.kubernetes.io/instance": charts.RELEASE}


# Pods -------------------------------------------------------------------------------------------------------------------


def test_pods_keep_to_pod_security_restricted(case: str) -> None:
    pod, container = rendered(case).pod, rendered(case).container
    assert not any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC", "initContainers"))
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["securityContext"].get("runAsUser") != 0
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not any("hostPort" in port for port in container["ports"])
    for volume in pod["volumes"]:
        assert set(volume) - {"name"} <= RESTRICTED_VOLUMES


def test_every_volume_is_there_and_mounted(case: str) -> None:
    found = rendered(case)
    claims = [claim["metadata"]["name"] for claim in found.workload["spec"].get("volumeClaimTemplates", ())]
    volumes = [volume["name"] for volume in found.pod["volumes"]] + claims
    assert sorted(volumes) == sorted(mount["name"] for mount in found.container["volumeMounts"])
    assert (found.workload["kind"] == "StatefulSet") == bool(claims)


def test_what_is_selected_is_what_is_made(case: str) -> None:
    found = rendered(case)
    labels = found.workload["spec"]["template"]["metadata"]["labels"]
    selectors = [found.workload["spec"]["selector"]["matchLabels"], found.one("Service")["spec"]["selector"]]
    selectors += [one["spec"]["podSelector"]["matchLabels"] for one in found.all("NetworkPolicy")]
    selectors += [
        one["spec"]["selector"]["matchLabels"]
        for kind in ("PodDisruptionBudget", "PodMonitor")
        for one in found.all(kind)
    ]
    selectors += [one["labelSelector"]["matchLabels"] for one in found.pod.get("topologySpreadConstraints", ())]
    assert all(one == selector() for one in selectors), "an upgrade cannot change a selector"
    assert labels.items() >= selector().items()
    for claim in found.workload["spec"].get("volumeClaimTemplates", ()):
        assert claim["metadata"]["labels"] == selector(), "an upgrade cannot change it"


def test_its_account_is_the_one_that_is_bound(case: str) -> None:
    found = rendered(case)
    account = found.pod["serviceAccountName"]
    for made in found.all("ServiceAccount"):
        assert (made["metadata"]["name"], made["automountServiceAccountToken"]) == (account, False)
    bindings = [*found.all("ClusterRoleBinding"), *found.all("RoleBinding")]
    assert bool(bindings) == bool(MATRIX[case].get("rbac", {}).get("create", True))
    roles = {(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in found.objects}
    for binding in bindings:
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]
        assert (binding["roleRef"]["kind"], binding["metadata"].get("namespace"), binding["roleRef"]["name"]) in roles


def test_no_secret_is_made_or_shown(case: str) -> None:
    assert rendered(case).all("Secret") == []


# Healer can run with it -------------------------------------------------------------------------------------------------


def test_healer_takes_the_configuration(case: str, tmp_path: Path) -> None:
    file = rendered(case).mount(tmp_path)
    done = CliRunner().invoke(main, ["check", str(file)])
    assert (done.exit_code, "fine" in done.output) == (0, True), done.output


def test_what_runs_is_a_command_that_finds_its_configuration_and_answers_its_probes(case: str) -> None:
    found, container = rendered(case), rendered(case).container
    environment = {one["name"]: one.get("value") for one in container["env"]}
    (mount,) = (one for one in container["volumeMounts"] if one["name"] == "config")
    assert container["args"][0] in COMMANDS
    assert environment["HEALER_CONFIG"] == f"{mount['mountPath']}/healer.yaml"
    assert {"POD_NAME", "POD_NAMESPACE", "NODE_NAME"} <= set(environment)
    (port,) = container["ports"]
    assert found.config["web"]["listen"] == f"0.0.0.0:{port['containerPort']}"
    for probe, path in {"startupProbe": "/healthz", "livenessProbe": "/healthz", "readinessProbe": "/readyz"}.items():
        assert container[probe]["httpGet"] == {"path": path, "port": port["name"]}
        assert hasattr(server, path.removeprefix("/"))
    (service,) = found.one("Service")["spec"]["ports"]
    assert service["targetPort"] == port["name"]


def test_what_it_writes_stands_on_its_volume(case: str) -> None:
    found = rendered(case)
    (mount,) = (one for one in found.container["volumeMounts"] if one["name"] == "data")
    written = [found.config["store"]["embedded"]["path"]]
    written += [found.config["journal"]["path"]] if "path" in found.config["journal"] else []
    written += [token] if not (token := found.config["web"]["token_file"]).startswith("secrets/") else []
    assert all(path.startswith(f"{mount['mountPath']}/") for path in written)


def test_a_number_stays_a_number() -> None:
    (_, remedy) = rendered("everything").config["remedies"]
    assert remedy["priority"] == 1_000_000
    assert remedy["target"] == "node/{{ labels.node }}"


def test_rule_files_stand_beside_it_as_they_were_given(tmp_path: Path) -> None:
    file = rendered("everything").mount(tmp_path)
    assert rendered("everything").config["rules"] == ["pack:demo", "rules/nodes.yaml"]
    assert (file.parent / "rules" / "nodes.yaml").read_text() == charts.RULES


# Restarts ---------------------------------------------------------------------------------------------------------------

LIVE = {"rules", "remedies", "safety", "approvers"}


def template(config: JSON) -> JSON:
    found: JSON = render({**POSTGRES, "config": config}).workload["spec"]["template"]
    return found


@pytest.mark.parametrize(
    "config",
    [
        {"remedies": charts.REMEDIES[:1]},
        {"rules": ["pack:demo"]},
        {"safety": {"max_unhealthy": 1}},
        {"approvers": {"sre": ["cli"]}},
    ],
    ids="".join,
)
def test_what_is_read_again_while_it_runs_restarts_nothing(config: JSON) -> None:
    assert template(config) == template({})


@pytest.mark.parametrize(
    "config",
    [
        {"clusters": [{"name": "other", "in_cluster": True}]},
        {"collect": [{"prometheus": {"targets": ["a:1"]}}]},
        {"from_kubernetes": [{"selector": "a=b"}]},
        {"store": {"embedded": {"keep": "1d"}}},
        {"leader": {"retry": "500ms"}},
        {"providers": {"dc": {"webhook": {"url": "https://dc.example"}}}},
        {"notify": {"pagerduty": {"routing_key_file": "secrets/pagerduty"}}},
        {"web": {"external_url": "https://healer.example"}},
        {"telemetry": {"log_level": "debug"}},
    ],
    ids="".join,
)
def test_what_is_read_only_once_restarts_the_pods(config: JSON) -> None:
    assert template(config) != template({})


def test_it_is_known_of_every_section_whether_it_is_read_again() -> None:
    fixed = set(service.FIXED)
    assert fixed | LIVE == set(Config.model_fields)
    assert not fixed & LIVE
    (line,) = (
        line for line in (CHART / "templates" / "_config.tpl").read_text("utf-8").splitlines() if "omit (" in line
    )
    assert all(f'"{name}"' in line for name in LIVE)
