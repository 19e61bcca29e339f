"""From labels to exactly one object."""

import pytest

from healer.model.cluster import Autoscaler, ClusterState, Container, Freshness, Node, Owner, Pod, Workload
from healer.model.decisions import Reason
from healer.model.targets import ObjectRef
from healer.rules.targets import Unresolved, is_name, is_namespace, parse_template, resolve


def ref(kind: str, name: str, namespace: str = "") -> ObjectRef:
    return ObjectRef(cluster="c", kind=kind, name=name, namespace=namespace, uid=f"uid-{kind}-{namespace}-{name}")


def node(name: str, address: str, provider: str) -> Node:
    return Node(
        ref=ref("Node", name),
        addresses=(address,),
        provider_id=provider,
        labels={"kubernetes.io/hostname": f"host-{name}"},
    )


def pod(namespace: str, name: str, *containers: str, on: str = "n1", app: str = "") -> Pod:
    return Pod(
        ref=ref("Pod", name, namespace),
        node_name=on,
        containers=tuple(Container(name=c) for c in containers or ("app",)),
        labels={"app.kubernetes.io/name": app} if app else {},
        owner=Owner(kind="ReplicaSet", name="x", uid="u"),
    )


NODES = [node("n1", "10.0.0.1", "aws:///eu-1a/i-1"), node("n2", "10.0.0.2", "aws:///eu-1b/i-2")]
PODS = [
    pod("shop", "web-1"),
    pod("shop", "db-0", "mysql", "mysqld-exporter"),
    pod("a", "twin"),
    pod("b", "twin"),
    pod("monitoring", "kube-state-metrics-0", "kube-state-metrics"),
    pod("monitoring", "metrics-xyz", "kube-rbac-proxy-main", "kube-state-metrics"),
    pod("monitoring", "node-exporter-7", "node-exporter", on="n2"),
]
WORKLOADS = [
    (kind, "shop", name)
    for kind, name in [
        ("Deployment", "cart"),
        ("StatefulSet", "db"),
        ("DaemonSet", "agent"),
        ("ReplicaSet", "cart-1"),
        ("Job", "import"),
    ]
]
STATE = ClusterState(
    name="c",
    freshness=Freshness(synced=True, silent_seconds=0, healthy_seconds=100),
    nodes={n.name: n for n in NODES},
    pods={(p.ref.namespace, p.ref.name): p for p in PODS},
    workloads={key: Workload(ref=ref(key[0], key[2], key[1])) for key in WORKLOADS},
    budgets={},
    autoscalers={
        ("shop", "cart"): Autoscaler(
            ref=ref("HorizontalPodAutoscaler", "cart", "shop"),
            target_kind="Deployment",
            target_name="cart",
            min_replicas=1,
            max_replicas=3,
        )
    },
    attachments={},
    pods_by_node={},
)
KSM = {"job": "kube-state-metrics", "container": "kube-state-metrics", "pod": "kube-state-metrics-0"}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param(
            {"alertname": "KubeHpaMaxedOut", "namespace": "shop", "horizontalpodautoscaler": "cart", **KSM},
            "horizontalpodautoscaler/shop/cart",
            id="R4 the autoscaler, not the exporter",
        ),
        pytest.param({"namespace": "shop", "deployment": "cart", **KSM}, "deployment/shop/cart", id="deployment"),
        pytest.param({"namespace": "shop", "statefulset": "db"}, "statefulset/shop/db", id="statefulset"),
        pytest.param({"namespace": "shop", "daemonset": "agent"}, "daemonset/shop/agent", id="daemonset"),
        pytest.param({"namespace": "shop", "replicaset": "cart-1"}, "replicaset/shop/cart-1", id="replicaset"),
        pytest.param({"namespace": "shop", "job_name": "import", "job": "ksm"}, "job/shop/import", id="job"),
        pytest.param({"namespace": "shop", "pod": "web-1"}, "pod/shop/web-1", id="pod"),
        pytest.param(
            {"namespace": "shop", "pod": "web-1", "node": "n1", "job": "kube-state-metrics"},
            "pod/shop/web-1",
            id="a real pod told by an exporter that honours labels",
        ),
        pytest.param(
            {"namespace": "monitoring", "exported_namespace": "shop", "exported_pod": "web-1", **KSM},
            "pod/shop/web-1",
            id="exported labels first",
        ),
        pytest.param(
            {"namespace": "monitoring", "exported_pod": "web-1", **KSM},
            "pod/shop/web-1",
            id="the exporter's namespace is not the pod's",
        ),
        pytest.param(
            {"namespace": "shop", "pod": "db-0", "container": "mysqld-exporter", "job": "mysqld-exporter"},
            "pod/shop/db-0",
            id="a database with an exporter beside it",
        ),
        pytest.param({"pod": "web-1"}, "pod/shop/web-1", id="R5 the only pod of that name"),
        pytest.param(
            {"namespace": "shop", "workload": "db", "workload_type": "statefulset"},
            "statefulset/shop/db",
            id="workload",
        ),
        pytest.param({"k8s.pod.name": "web-1", "k8s.namespace.name": "shop"}, "pod/shop/web-1", id="OpenTelemetry"),
        pytest.param({"node": "n1"}, "node/n1", id="node"),
        pytest.param({"exported_node": "n2", "node": "n1", **KSM}, "node/n2", id="exported node"),
        pytest.param({"node": "n1", "condition": "Ready", **KSM}, "node/n1", id="a condition of the exporter's node"),
        pytest.param(
            {"job": "node-exporter", "instance": "10.0.0.1:9100", "pod": "node-exporter-7", "namespace": "monitoring"},
            "node/n1",
            id="node_exporter by address and port",
        ),
        pytest.param({"job": "node", "instance": "n2:9100"}, "node/n2", id="node_exporter by name and port"),
        pytest.param({"job": "node_exporter", "instance": "host-n2"}, "node/n2", id="node_exporter by host name label"),
        pytest.param({"job": "x", "nodename": "n1"}, "node/n1", id="nodename"),
        pytest.param({"job": "monitoring/node-exporter", "instance": "10.0.0.2"}, "node/n2", id="job with namespace"),
        pytest.param({"node": "aws:///eu-1b/i-2"}, "node/n2", id="by provider id"),
        pytest.param({"node": "i-1"}, "node/n1", id="by instance id"),
    ],
)
def test_labels_name_one_object(labels: dict[str, str], expected: str) -> None:
    found = resolve(labels, STATE)
    assert isinstance(found, ObjectRef), found
    assert str(found) == expected
    assert found.uid


@pytest.mark.parametrize(
    ("labels", "reason", "said"),
    [
        pytest.param({"pod": "twin"}, Reason.AMBIGUOUS_TARGET, "could be any of 2: pod/a/twin, pod/b/twin", id="R5"),
        pytest.param({"pod": "nobody"}, Reason.TARGET_NOT_FOUND, "is not in cluster 'c'", id="no such pod"),
        pytest.param(
            {"pod": "web-1", "namespace": "default"}, Reason.TARGET_NOT_FOUND, "namespace 'default'", id="elsewhere"
        ),
        pytest.param({"pod": "x; rm -rf /", "namespace": "shop"}, Reason.INVALID_TARGET, "x; rm -rf /", id="R25 pod"),
        pytest.param(
            {"pod": "web-1", "namespace": "{{ secrets.token }}"}, Reason.INVALID_TARGET, "namespace", id="R25 ns"
        ),
        pytest.param({"node": "n1/../n2"}, Reason.INVALID_TARGET, "n1/../n2", id="R25 node"),
        pytest.param(KSM, Reason.TARGET_NOT_FOUND, "the exporter's own", id="only the exporter"),
        pytest.param(
            {"job": "kube-state-metrics", "pod": "metrics-xyz", "namespace": "monitoring", "instance": "10.0.0.1:8080"},
            Reason.TARGET_NOT_FOUND,
            "the exporter's own",
            id="an exporter under another name",
        ),
        pytest.param(
            {**KSM, "node": "n1"}, Reason.TARGET_NOT_FOUND, "where the exporter runs", id="the exporter's node"
        ),
        pytest.param(
            {"instance": "10.0.0.1:80", "job": "web"}, Reason.TARGET_NOT_FOUND, "no label names", id="some instance"
        ),
        pytest.param({}, Reason.TARGET_NOT_FOUND, "no label names", id="no labels"),
        pytest.param(
            {"namespace": "shop", "deployment": "cart", "statefulset": "db"},
            Reason.AMBIGUOUS_TARGET,
            "deployment 'cart', statefulset 'db'",
            id="two workloads",
        ),
        pytest.param({"node": "n9"}, Reason.TARGET_NOT_FOUND, "node 'n9'", id="no such node"),
        pytest.param({"deployment": "cart" * 80, "namespace": "shop"}, Reason.INVALID_TARGET, "cart", id="too long"),
    ],
)
def test_what_is_not_one_object_is_refused(labels: dict[str, str], reason: Reason, said: str) -> None:
    found = resolve(labels, STATE)
    assert isinstance(found, Unresolved)
    assert found.reason is reason
    assert said in found.detail


def test_candidates_are_named() -> None:
    found = resolve({"pod": "twin"}, STATE)
    assert isinstance(found, Unresolved)
    assert [str(candidate) for candidate in found.candidates] == ["pod/a/twin", "pod/b/twin"]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("node/{{ labels.node }}", "node/n1"),
        ("node/{{labels.where}}", "node/n2"),
        ("Node/n2", "node/n2"),
        ("deployment/{{ labels.namespace }}/{{ labels.deployment }}", "deployment/shop/cart"),
        ("deployment/shop/{{ $labels.deployment }}", "deployment/shop/cart"),
        ("pod/{{ .Labels.pod }}", "pod/shop/web-1"),
        ("hpa/shop/{{ labels.deployment }}", "horizontalpodautoscaler/shop/cart"),
        ('deployment/shop/{{ labels["k8s/app"] }}', "deployment/shop/cart"),
        ("statefulset/shop/{{ labels.prefix }}b", "statefulset/shop/db"),
    ],
)
def test_a_template_names_the_object(template: str, expected: str) -> None:
    labels = {
        "node": "n1",
        "where": "10.0.0.2:10250",
        "namespace": "shop",
        "deployment": "cart",
        "pod": "web-1",
        "k8s/app": "cart",
        "prefix": "d",
    }
    found = resolve(labels, STATE, template)
    assert isinstance(found, ObjectRef), found
    assert str(found) == expected


@pytest.mark.parametrize(
    ("template", "labels", "reason"),
    [
        ("node/{{ labels.node }}", {}, Reason.TARGET_NOT_FOUND),
        ("pod/{{ labels.pod }}", {"pod": "shop/web-1"}, Reason.INVALID_TARGET),
        ("pod/shop/{{ labels.pod }}", {"pod": "{{ labels.x }}", "x": "web-1"}, Reason.INVALID_TARGET),
        ("pod/{{ labels.pod }}", {"pod": "twin"}, Reason.AMBIGUOUS_TARGET),
        ("gateway/x", {}, Reason.INVALID_TARGET),
    ],
)
def test_values_in_a_template_are_only_names(template: str, labels: dict[str, str], reason: Reason) -> None:
    found = resolve(labels, STATE, template)
    assert isinstance(found, Unresolved)
    assert found.reason is reason


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("node", "must be node/NAME"),
        ("node/a/b", "must be node/NAME"),
        ("pod/a/b/c", "must be pod/NAMESPACE/NAME or pod/NAME"),
        ("pod//x", "must be pod/"),
        ("thing/x", "must begin with a kind: node, pod"),
        ("{{ labels.kind }}/x", "must begin with a kind"),
        ("node/{{ value }}", "only {{ labels.NAME }} can stand in braces"),
        ("node/\0", "only {{ labels.NAME }}"),
    ],
)
def test_a_wrong_template_says_how_it_should_look(template: str, said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("{", r"\{")):
        parse_template(template)


def test_names_follow_dns_1123() -> None:
    assert is_name("a.b-c.9")
    assert is_name("a" * 253)
    for wrong in ("", "-a", "a-", "A", "a..b", "a_b", "a" * 254, "a\n", "é"):
        assert not is_name(wrong)
    assert is_namespace("kube-system")
    assert not is_namespace("a.b")
    assert not is_namespace("a" * 64)
