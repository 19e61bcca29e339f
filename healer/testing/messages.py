"""A notifier that only remembers, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from healer.model.incidents import IncidentView
from healer.ports import Operator


class Messages:
    """ports.Notifier: one message per incident, edited, as people would see it. `edits` holds every version."""

    name = "messages"
    shadow = True

    def __init__(self) -> None:
        self.shown: dict[str, IncidentView] = {}
        self.edits: list[IncidentView] = []

    async def tell(self, view: IncidentView, handle: str) -> str:
        handle = handle or f"message-{len(self.shown) + 1}"
        self.shown[handle] = view
        self.edits.append(view)
        return handle

    async def run(self, operator: Operator) -> None:  # noqa: ARG002 — takes no answers
        await asyncio.Event().wait()

    def routes(self, operator: Operator) -> Sequence[Any]:  # noqa: ARG002 — takes no answers
        return ()

    async def close(self) -> None:
        return
