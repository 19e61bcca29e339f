"""Attach and detach: a volume is on one node at a time, and leaves a node that cannot be asked only after six minutes.

Out of service (the taint) means nothing can be writing there any more: then it leaves at once.
"""

from __future__ import annotations

from datetime import datetime

from healer.sim import manifests, objects, podstatus
from healer.sim.core import Core
from healer.sim.objects import JSON


class VolumeController:
    """Keeps VolumeAttachments in step with the pods that mount claims."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._wanted: dict[tuple[str, str], dict[str, None]] = {}
        """(volume, node) → UIDs of the pods there that mount it."""
        self._waiting: dict[tuple[str, str], None] = {}
        self._released: dict[tuple[str, str], datetime] = {}
        self._busy: set[tuple[str, str]] = set()
        core.view.hear("pods", self._heard_pod)

    def run(self) -> None:
        for place in list(self._released):
            self._try_detach(place)
        for place in list(self._waiting):
            self._try_attach(place)

    def _heard_pod(self, old: JSON | None, new: JSON | None) -> None:
        before, after = _places(old), _places(new)
        if before == after:
            return
        for place in before - after:
            users = self._wanted.get(place, {})
            users.pop(objects.uid_of(old or {}), None)
            if not users:
                self._wanted.pop(place, None)
                self._waiting.pop(place, None)
                self._released[place] = self.core.now
        for place in sorted(after - before):
            self._wanted.setdefault(place, {})[objects.uid_of(new or {})] = None
            self._released.pop(place, None)
            self._waiting[place] = None

    def _try_attach(self, place: tuple[str, str]) -> None:
        volume, node = place
        holders = [held for held in self.core.view.all["volumeattachments"].values() if _volume(held) == volume]
        here = next((held for held in holders if held["spec"]["nodeName"] == node), None)
        if here is not None and here["status"].get("attached"):
            del self._waiting[place]
        elif not holders and place not in self._busy:
            self.core.storage.create("volumeattachments", manifests.attachment(node, volume))
            self._busy.add(place)
            self.core.after(self.core.options.attach_seconds, lambda: self._attached(place))
            self.core.view.catch_up()

    def _attached(self, place: tuple[str, str]) -> None:
        self._busy.discard(place)
        name = manifests.attachment_name(place[1], place[0])

        def change(copy: JSON) -> None:
            copy["status"]["attached"] = True

        if self.core.storage.get("volumeattachments", "", name) is not None:
            self.core.storage.update("volumeattachments", "", name, change, status=True)

    def _try_detach(self, place: tuple[str, str]) -> None:
        volume, node_name = place
        node = self.core.view.node(node_name)
        safe = node is None or objects.is_ready(node) or objects.has_taint(node, objects.OUT_OF_SERVICE, "NoExecute")
        waited = (self.core.now - self._released[place]).total_seconds()
        if not safe and waited < self.core.options.force_detach_seconds:
            return
        del self._released[place]
        if self.core.storage.get("volumeattachments", "", manifests.attachment_name(node_name, volume)) is not None:
            self.core.storage.remove("volumeattachments", "", manifests.attachment_name(node_name, volume))
            self.core.note(f"volume {volume} is detached from {node_name}" + ("" if safe else " by force"))
            self.core.view.catch_up()


def _volume(attachment: JSON) -> str:
    volume: str = attachment["spec"]["source"]["persistentVolumeName"]
    return volume


def _places(pod: JSON | None) -> set[tuple[str, str]]:
    """Which volumes must be attached to which node for this pod."""
    if pod is None or objects.is_finished(pod) or not (node := objects.node_of(pod)):
        return set()
    namespace = pod["metadata"]["namespace"]
    return {(manifests.volume_name(namespace, claim), node) for claim in podstatus.claims_of(pod)}
