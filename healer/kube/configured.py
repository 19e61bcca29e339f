"""Texts of configuration that stand in a cluster: ConfigMaps and PrometheusRule objects with a label, followed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from healer.clock import Clock
from healer.kube import resources, wire
from healer.kube.client import KubeClient
from healer.kube.watching import Reflector
from healer.model.targets import ObjectRef

_INDENT: Final = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Texts:
    """What one object holds: YAML texts by the name under which messages speak of them."""

    ref: ObjectRef
    texts: Mapping[str, str]


class Configured:
    """Follows the objects of one kind while `run` runs; `changed` is called whenever what they hold is other than before."""

    def __init__(
        self,
        client: KubeClient,
        kind: str,
        *,
        namespace: str,
        selector: str,
        clock: Clock,
        changed: Callable[[], None],
    ) -> None:
        self._cluster = client.cluster
        self._changed = changed
        self._found: dict[tuple[str, str], Texts] = {}
        convert: Callable[[Any], Texts] = self._config_map if kind == "ConfigMap" else self._rule
        form: type[Any] = wire.ConfigMap if kind == "ConfigMap" else wire.PrometheusRule
        self._reflector: Reflector[Any, Texts] = Reflector(
            client, kind, form, convert, self, clock=clock, namespace=namespace, label_selector=selector
        )
        self.run = self._reflector.run
        self.settled = self._reflector.settled

    @property
    def found(self) -> Sequence[Texts]:
        """All of them, by namespace and name."""
        return [self._found[key] for key in sorted(self._found)]

    # What the reflector brings ---------------------------------------------------------------------------------------

    def replace(self, items: Sequence[Texts]) -> None:
        self._take({_key(item): item for item in items})

    def put(self, obj: Texts) -> None:
        self._take({**self._found, _key(obj): obj})

    def remove(self, obj: Texts) -> None:
        self._take({key: item for key, item in self._found.items() if key != _key(obj)})

    def _take(self, found: dict[tuple[str, str], Texts]) -> None:
        if found != self._found:
            self._found = found
            self._changed()

    # From objects to texts -------------------------------------------------------------------------------------------

    def _ref(self, kind: str, metadata: wire.Metadata) -> ObjectRef:
        return ObjectRef(
            cluster=self._cluster, kind=kind, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid
        )

    def _config_map(self, obj: wire.ConfigMap) -> Texts:
        ref = self._ref("ConfigMap", obj.metadata)
        return Texts(ref=ref, texts={f"{ref}[{key}]": text for key, text in sorted((obj.data or {}).items())})

    def _rule(self, obj: wire.PrometheusRule) -> Texts:
        ref = self._ref("PrometheusRule", obj.metadata)
        manifest = {
            "apiVersion": resources.of("PrometheusRule").api_version,
            "kind": "PrometheusRule",
            "metadata": {"name": ref.name, "namespace": ref.namespace},
            "spec": msgspec.json.decode(obj.spec),
        }
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=_INDENT).decode()
        return Texts(ref=ref, texts={str(ref): text})


def _key(texts: Texts) -> tuple[str, str]:
    return texts.ref.namespace, texts.ref.name
