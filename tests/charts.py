"""The chart as helm renders it, and what a pod of it would find: for tests."""

from __future__ import annotations

import dataclasses
import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from tests.documents import ROOT

JSON = dict[str, Any]
CHART: Final = ROOT / "helm" / "healer"
NAMESPACE: Final = "healer-system"
RELEASE: Final = "healer"
POSTGRES: Final[JSON] = {
    "journal": {"postgres": {"existingSecret": "healer-database"}},
    "auth": {"existingSecret": "healer-tokens"},
}


def load(text: str) -> Any:
    return YAML(typ="safe").load(text)


@functools.cache
def helm() -> str:
    """The real helm, fetched the first time it is needed."""
    fetch = [sys.executable, str(ROOT / "tests" / "tools" / "fetch_kubectl.py")]
    folder = subprocess.run(fetch, check=True, capture_output=True, text=True).stdout.strip()
    return str(Path(folder) / "helm")


def run(
    command: str, values: Mapping[str, Any], *arguments: str, chart: Path = CHART
) -> subprocess.CompletedProcess[str]:
    """`helm COMMAND`, with these values."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "values.json"
        file.write_text(json.dumps(values))
        # Nothing of whoever runs the tests: no settings, no plugins, no cluster.
        environment = {"HOME": folder, "PATH": "", "KUBECONFIG": str(Path(folder) / "none")}
        return subprocess.run(
            [helm(), command, *arguments, str(chart), "--values", str(file), "--namespace", NAMESPACE],
            check=False,
            capture_output=True,
            text=True,
            env=environment,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Rendered:
    """Every object that would be made."""

    objects: tuple[JSON, ...]

    def all(self, kind: str) -> list[JSON]:
        return [found for found in self.objects if found["kind"] == kind]

    def one(self, kind: str) -> JSON:
        (found,) = self.all(kind)
        return found

    @property
    def workload(self) -> JSON:
        (found,) = (found for found in self.objects if found["kind"] in {"Deployment", "StatefulSet"})
        return found

    @property
    def pod(self) -> JSON:
        """The spec of its pods."""
        spec: JSON = self.workload["spec"]["template"]["spec"]
        return spec

    @property
    def container(self) -> JSON:
        (found,) = self.pod["containers"]
        return dict(found)

    @property
    def config(self) -> JSON:
        """healer.yaml."""
        return dict(load(self._config_map["data"]["healer.yaml"]))

    @property
    def _config_map(self) -> JSON:
        (found,) = (found for found in self.all("ConfigMap") if "healer.yaml" in found["data"])
        return found

    def mount(self, folder: Path) -> Path:
        """Write into `folder` what the kubelet would mount at /etc/healer; secrets hold something. Gives healer.yaml."""
        (volume,) = (found for found in self.pod["volumes"] if found["name"] == "config")
        for source in volume["projected"]["sources"]:
            ((kind, content),) = source.items()
            for item in content["items"]:
                file = folder / item["path"]
                file.parent.mkdir(parents=True, exist_ok=True)
                text = "a secret of more than thirty-two bytes\n"
                if kind == "configMap":
                    assert content["name"] == self._config_map["metadata"]["name"]
                    text = self._config_map["data"][item["key"]]
                file.write_text(text)
        return folder / "healer.yaml"


def render(values: Mapping[str, Any], *arguments: str, chart: Path = CHART) -> Rendered:
    """The objects of a release with these values. AssertionError with what helm says, if it refuses."""
    done = run("template", values, *arguments, RELEASE, chart=chart)
    assert done.returncode == 0, done.stderr
    return Rendered(tuple(found for found in YAML(typ="safe").load_all(done.stdout) if found))


def refused(values: Mapping[str, Any]) -> str:
    """What helm says to values that do not go together."""
    done = run("template", values, RELEASE)
    assert done.returncode != 0, "helm took them"
    return done.stderr


REMEDIES: Final[list[JSON]] = [
    {
        "name": "restart-crashing",
        "when": {"alertname": "PodCrashLooping"},
        "mode": "shadow",
        "steps": ["rollout-restart"],
    },
    {
        "name": "empty-dead-node",
        "when": {"alertname": "NodeDown"},
        "target": "node/{{ labels.node }}",
        "mode": "auto",
        "priority": 1_000_000,
        "steps": ["cordon", {"drain": {"timeout": "5m"}}],
    },
]
RULES: Final = """\
groups:
  - name: nodes
    rules:
      - alert: NodeOdd
        expr: kube_node_spec_unschedulable > 0
        annotations: {summary: 'odd: {{ $labels.node }}'}
"""
EVERYTHING: Final[JSON] = {
    **POSTGRES,
    "auth": {"existingSecret": "healer-tokens", "hooksTokenKey": "hooks"},
    "clusterName": "prod-eu",
    "replicas": 3,
    "persistence": {"enabled": False},
    "actions": ["cordon", "drain", "restart"],
    "ruleFiles": {"nodes.yaml": RULES},
    "secretFiles": {
        "slack-bot": {"existingSecret": "healer-slack", "key": "bot-token"},
        "pagerduty": {"existingSecret": "healer-pagerduty", "key": "routing-key"},
        "provider": {"existingSecret": "healer-provider", "key": "secret"},
    },
    "config": {
        "rules": ["pack:demo"],
        "remedies": REMEDIES,
        "collect": [{"prometheus": {"targets": ["node-exporter.monitoring:9100", "blackbox.monitoring"]}}],
        "providers": {
            "datacentre": {"webhook": {"url": "https://machines.example/healer", "secret_file": "secrets/provider"}}
        },
        "notify": {
            "slack": {"channel": "#oncall", "bot_token_file": "secrets/slack-bot"},
            "pagerduty": {"routing_key_file": "secrets/pagerduty"},
        },
        "web": {
            "alertmanagers": ["http://alertmanager.monitoring:9093"],
            "external_url": "https://healer.example:8443",
        },
        "telemetry": {"otlp_endpoint": "http://tempo.monitoring:4318", "log_level": "debug"},
        "from_kubernetes": [{"selector": "healer.dev/config=true", "namespace": "shop"}],
    },
    "image": {"repository": "registry.example/cluster-healer", "digest": "sha256:" + 64 * "a"},
    "imagePullSecrets": [{"name": "registry"}],
    "serviceAccount": {"annotations": {"example.com/role": "healer"}},
    "networkPolicy": {
        "apiServer": {"cidrs": ["10.0.0.1/32", "fd00::1/128"], "ports": [6443]},
        "egress": [{"to": [{"podSelector": {}}], "ports": [{"port": 8428, "protocol": "TCP"}]}],
    },
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "affinity": {"nodeAffinity": {}},
    "podAnnotations": {"example.com/a": "b"},
    "podLabels": {"team": "sre"},
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "service": {"annotations": {"example.com/a": "b"}, "port": 80},
    "metrics": {"podMonitor": {"enabled": True}, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    "dashboards": {"enabled": True, "annotations": {"grafana_folder": "Healer"}},
}
MATRIX: Final[Mapping[str, JSON]] = {
    "defaults": {},
    "without-a-volume": {"persistence": {"enabled": False}},
    "edge": load((CHART / "values-edge.yaml").read_text("utf-8")),
    "replicas": {**POSTGRES, "replicas": 2, "persistence": {"enabled": False}},
    "replicas-with-volumes": {**POSTGRES, "replicas": 2},
    "everything": EVERYTHING,
    "some-namespaces": {
        "actions": ["restart", "rollout-restart", "scale", "cordon"],
        "rbac": {"namespaces": ["shop", "web"]},
    },
    "every-action": {
        "actions": ["cordon", "drain", "fence", "replace", "restart", "rollout-restart", "scale", "uncordon"]
    },
    "other-clusters": {
        **POSTGRES,
        "config": {"clusters": [{"name": "a", "in_cluster": True}, {"name": "b", "kubeconfig": "secrets/cluster-b"}]},
        "secretFiles": {"cluster-b": {"existingSecret": "healer-cluster-b", "key": "kubeconfig"}},
    },
    "closed": {
        "networkPolicy": {"from": []},
        "serviceAccount": {"create": False, "name": "mine"},
        "rbac": {"create": False},
        "podDisruptionBudget": {"enabled": False},
        "topologySpread": {"enabled": False},
        "tolerations": [],
    },
    "service-monitor": {"metrics": {"serviceMonitor": {"enabled": True}}, "networkPolicy": {"enabled": False}},
    "openshift": {"podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None}},
}
"""Values under which everything about the chart has to hold."""


@functools.cache
def rendered(case: str) -> Rendered:
    """One of MATRIX."""
    return render(MATRIX[case])
