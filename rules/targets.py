"""From an alert's labels to exactly one object of the cluster, or the reason why not.

Labels are data from outside: names are checked before they are used, nothing is expanded twice, and what is not there,
or could be two things, is refused instead of guessed.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re  # noqa: TID251 (fixed patterns, linear in the input)
from collections.abc import Iterable, Mapping
from typing import Final

from healer.model.cluster import HOSTNAME_LABEL, ClusterState, Node, Pod
from healer.model.decisions import Reason
from healer.model.series import Labels
from healer.model.targets import ObjectRef
from healer.rules.target_labels import KINDS, Reading, exports, read


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unresolved:
    """No target. `candidates`: what it could have been, where there was more than one."""

    reason: Reason
    detail: str
    candidates: tuple[ObjectRef, ...] = ()


Resolution = ObjectRef | Unresolved


_SUBDOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_PLACEHOLDER: Final = re.compile(r"\{\{\s*(?:labels|\$labels|\.Labels)(?:\.(\w+)|\[\"([^\"\]]+)\"\])\s*\}\}")


def resolve(labels: Mapping[str, str], state: ClusterState, template: str = "") -> Resolution:
    """The object that the alert with `labels` is about; by `template` (as a remedy's `target`) if there is one."""
    if template:
        return _by_template(labels, state, template)
    return _by_labels(read(labels if isinstance(labels, Labels) else Labels(labels)), state)


def is_name(text: str) -> bool:
    """Whether `text` can be the name of an object: a DNS-1123 subdomain."""
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def is_namespace(text: str) -> bool:
    """Whether `text` can be a namespace: a DNS-1123 label."""
    return len(text) <= 63 and "." not in text and _SUBDOMAIN.fullmatch(text) is not None


# By template ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class TargetTemplate:
    """`kind/name` or `kind/namespace/name`. The parts may hold `{{ labels.x }}`; the kind may not."""

    kind: str
    parts: tuple[str, ...]


def parse_template(template: str) -> TargetTemplate:
    """A remedy's `target`, checked. ValueError says what is wrong and how it should look."""
    # Placeholders are masked while it is taken apart, so that a slash in a label's name stays where it is.
    names = list(_PLACEHOLDER.finditer(template))
    masked = _PLACEHOLDER.sub("\0", template)
    if "{{" in masked or "}}" in masked or "\0" in template:
        raise ValueError(f"target {template!r}: only {{{{ labels.NAME }}}} can stand in braces")
    kind, *parts = masked.split("/")
    if kind.lower() not in KINDS:
        raise ValueError(f"target {template!r} must begin with a kind: {', '.join(KINDS)}")
    limit = 1 if KINDS[kind.lower()] == "Node" else 2
    if not 1 <= len(parts) <= limit or not all(part.strip() for part in parts):
        form = f"{kind}/NAME" if limit == 1 else f"{kind}/NAMESPACE/NAME or {kind}/NAME"
        raise ValueError(f"target {template!r} must be {form}")
    texts = iter(names)
    restored = tuple(re.sub("\0", lambda _: next(texts)[0], part.strip()) for part in parts)
    return TargetTemplate(KINDS[kind.lower()], restored)


def _by_template(labels: Mapping[str, str], state: ClusterState, template: str) -> Resolution:
    try:
        target = parse_template(template)
    except ValueError as error:
        return Unresolved(reason=Reason.INVALID_TARGET, detail=str(error))
    missing: list[str] = []

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if not labels.get(name):
            missing.append(name)
        return labels.get(name, "")

    parts = [_PLACEHOLDER.sub(value, part) for part in target.parts]
    if missing:
        detail = f"the alert has no label {', '.join(missing)}, which the target {template!r} needs"
        return Unresolved(reason=Reason.TARGET_NOT_FOUND, detail=detail)
    if target.kind == "Node":
        return _node(state, parts[0])
    return _namespaced(state, target.kind, parts[0] if len(parts) == 2 else "", parts[-1])


# By labels -----------------------------------------------------------------------------------------------------------


def _by_labels(labels: Reading, state: ClusterState) -> Resolution:
    if len(labels.alternatives) > 1:
        return _ambiguous_kinds(labels, state)
    skipped = ""
    for kind, name, is_exported in labels.named:
        if kind == "Node":
            own = _is_exporters_node(labels, state, name) and not is_exported
            if not own:
                return _node(state, name)
            skipped = f"node {name!r} is only where the exporter runs"
        elif kind == "Pod" and not is_exported and _is_exporters_pod(labels, state, name):
            skipped = f"pod {name!r} is the exporter's own"
        else:
            return _namespaced(state, kind, labels.namespace_of(is_exported=is_exported), name)
    if labels.address and labels.speaks_of_its_node:
        return _node(state, labels.address)
    detail = "no label names an object of the cluster"
    return Unresolved(reason=Reason.TARGET_NOT_FOUND, detail=f"{detail}: {skipped}" if skipped else detail)


def _ambiguous_kinds(labels: Reading, state: ClusterState) -> Unresolved:
    namespace = labels.namespace_of(is_exported=False)
    refs = (state.find(kind, namespace, name) for kind, name in labels.alternatives)
    listed = ", ".join(f"{kind.lower()} {name!r}" for kind, name in labels.alternatives)
    return Unresolved(
        reason=Reason.AMBIGUOUS_TARGET,
        detail=f"the alert names {listed}; give the remedy a target",
        candidates=tuple(ref for ref in refs if ref),
    )


def _is_exporters_pod(labels: Reading, state: ClusterState, name: str) -> bool:
    """Whether pod `name` is the one that told, not the one that is told of."""
    if not labels.exporters:
        return False
    if any(name == exporter or name.startswith(exporter + "-") for exporter in labels.exporters):
        return True
    namespace = labels.plain_namespace
    refs = [ref] if namespace and (ref := state.find("Pod", namespace, name)) else state.named("Pod", name)
    pods = [state.pods[ref.namespace, ref.name] for ref in refs]
    return bool(pods) and all(_is_exporter(pod) for pod in pods)


def _is_exporter(pod: Pod) -> bool:
    """Whether a pod does nothing but export: a database with an exporter beside it is not one."""
    labelled = pod.labels.get("app.kubernetes.io/name") or pod.labels.get("app", "")
    return exports(labelled, tuple(container.name for container in pod.containers))


def _is_exporters_node(labels: Reading, state: ClusterState, name: str) -> bool:
    """Whether `node` only says where the exporter runs: it is that pod's node, and nothing tells that it is about a node."""
    if not labels.pod or labels.speaks_of_its_node or not _is_exporters_pod(labels, state, labels.pod):
        return False
    if labels.is_about_a_node:
        return False
    return any(state.pods[ref.namespace, ref.name].node_name == name for ref in state.named("Pod", labels.pod))


# Looking up ----------------------------------------------------------------------------------------------------------


def _namespaced(state: ClusterState, kind: str, namespace: str, name: str) -> Resolution:
    if namespace and (found := state.find(kind, namespace, name)):
        return found
    if not is_name(name):
        return _invalid(kind, name)
    if namespace and not is_namespace(namespace):
        return _invalid("namespace", namespace)
    if namespace:
        return _not_found(f"{kind} {name!r} is not in namespace {namespace!r} of cluster {state.name!r}")
    return _exactly_one(tuple(state.named(kind, name)), f"{kind} {name!r}", "; the alert has no namespace", state)


def _node(state: ClusterState, name: str) -> Resolution:
    """A node by name, address with or without port, host name label or provider id."""
    exact = state.nodes.get(name)
    if exact is not None:
        return exact.ref
    host = _host(name)
    found = tuple(node.ref for node in state.nodes.values() if _is_known_as(node, name, host))
    if not found and not is_name(host) and not _is_address(host):
        return _invalid("Node", name)
    return _exactly_one(found, f"node {name!r}", "", state)


def _is_known_as(node: Node, name: str, host: str) -> bool:
    if node.name == host or host in node.addresses or node.labels.get(HOSTNAME_LABEL) == host:
        return True
    return bool(node.provider_id) and (node.provider_id == name or node.provider_id.rsplit("/", 1)[-1] == name)


def _host(address: str) -> str:
    if address.startswith("["):
        return address[1:].partition("]")[0]
    host, colon, port = address.rpartition(":")
    return host if colon and ":" not in host and port.isdigit() else address


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _exactly_one(found: Iterable[ObjectRef], what: str, why: str, state: ClusterState) -> Resolution:
    refs = tuple(sorted(found, key=lambda ref: ref.key))
    if len(refs) == 1:
        return refs[0]
    if not refs:
        return _not_found(f"{what} is not in cluster {state.name!r}")
    listed = ", ".join(str(ref) for ref in refs[:5]) + (", …" if len(refs) > 5 else "")
    return Unresolved(
        reason=Reason.AMBIGUOUS_TARGET, detail=f"{what} could be any of {len(refs)}: {listed}{why}", candidates=refs
    )


def _not_found(detail: str) -> Unresolved:
    return Unresolved(reason=Reason.TARGET_NOT_FOUND, detail=detail)


def _invalid(kind: str, name: str) -> Unresolved:
    return Unresolved(reason=Reason.INVALID_TARGET, detail=f"not a name of a {kind}: {name[:80]!r}")
