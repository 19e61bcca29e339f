import pytest

from healer.errors import Permanent
from healer.kube import resources


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "subresource", "path"),
    [
        ("Node", "", "n1", "", "/api/v1/nodes/n1"),
        ("Pod", "shop", "web-1", "eviction", "/api/v1/namespaces/shop/pods/web-1/eviction"),
        ("Deployment", "shop", "web", "scale", "/apis/apps/v1/namespaces/shop/deployments/web/scale"),
        ("Lease", "kube-node-lease", "n1", "", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1"),
        ("HorizontalPodAutoscaler", "a", "b", "", "/apis/autoscaling/v2/namespaces/a/horizontalpodautoscalers/b"),
    ],
)
def test_an_object_has_the_path_that_the_api_gives_it(
    kind: str, namespace: str, name: str, subresource: str, path: str
) -> None:
    assert resources.object_path(resources.of(kind), namespace, name, subresource) == path


def test_a_list_is_of_one_namespace_or_of_all() -> None:
    pods = resources.of("Pod")
    assert resources.collection_path(pods) == "/api/v1/pods"
    assert resources.collection_path(pods, "shop") == "/api/v1/namespaces/shop/pods"


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../secrets/x", "a%2fb", "a b", "a?b", "a#b", "a\nb", "ü", "x" * 254]
)
def test_a_name_that_would_lead_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(Permanent, match="cannot be the name"):
        resources.object_path(resources.of("Node"), "", name)


def test_a_namespaced_object_needs_its_namespace() -> None:
    with pytest.raises(Permanent, match="needs a namespace"):
        resources.object_path(resources.of("Pod"), "", "web-1")


def test_an_unknown_kind_is_named_with_the_known_ones() -> None:
    with pytest.raises(Permanent, match=r"'Widget' is not one of .*Node.*Pod"):
        resources.of("Widget")
