"""How controllers make pods of their templates, with what admission adds to them."""

from __future__ import annotations

from typing import Final

from healer.sim import manifests, objects
from healer.sim.core import Core
from healer.sim.objects import JSON

HASH_LABEL: Final = "pod-template-hash"
GENERATION: Final = "controller-revision-hash"


def make_pod(core: Core, owner: JSON, kind: str, more: JSON, labels: JSON | None = None) -> None:
    """A pod of `owner`'s template under a name of its own; `more` goes into its spec."""
    template = owner["spec"]["template"]
    prefix = f"{owner['metadata']['name']}-"
    name = prefix + "".join(core.random.choices(objects.SAFE, k=5))
    tolerations = template["spec"].get("tolerations") or []
    pod = manifests.pod(
        owner["metadata"]["namespace"],
        name,
        spec={
            **template["spec"],
            **more,
            "tolerations": admitted_tolerations(more.get("tolerations", tolerations), core.options.toleration_seconds),
        },
        labels={**template["metadata"]["labels"], **(labels or {})},
        annotations=template["metadata"].get("annotations"),
        owner=objects.owner_reference(owner, kind),
    )
    pod["metadata"]["generateName"] = prefix
    core.storage.create("pods", pod)
    component = f"{kind.lower()}-controller"
    core.event(owner, kind, "SuccessfulCreate", f"Created pod: {name}", component=component)


def admitted_tolerations(tolerations: list[JSON], seconds: int) -> list[JSON]:
    """The tolerations of a pod with the two that admission adds where the pod says nothing about them."""
    return list(tolerations) + [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key in (objects.NOT_READY, objects.UNREACHABLE)
        if not objects.is_tolerated({"key": key, "effect": "NoExecute"}, tolerations)
    ]
