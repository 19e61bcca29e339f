"""Takes in what stands in clusters as it changes; an object with a mistake is told so, and the rest goes on without it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from healer import telemetry
from healer.app.merging import Given, with_more
from healer.app.prepare import Prepared
from healer.clock import Clock
from healer.config.sources import KubernetesSource
from healer.errors import ConfigError, Problem
from healer.kube.client import KubeClient
from healer.kube.configured import Configured
from healer.loop.supervise import Worker
from healer.model.targets import ObjectRef

log = logging.getLogger(__name__)

FIRST_LOOK_SECONDS: Final = 10.0
"""How long a start waits for them: rules that are missing meanwhile would end their alerts."""
TOLD_PROBLEMS: Final = 5


@dataclasses.dataclass(frozen=True, slots=True)
class _Followed:
    source: KubernetesSource
    client: KubeClient
    objects: Configured


class Gathering:
    """Run `workers`. Their `apply` is called for the first look and after each change; it asks `over` for the whole.

    `telling`: whether Events about mistakes are ours to put; `tell` makes up for those that were not.
    """

    def __init__(
        self,
        sources: Sequence[KubernetesSource],
        clients: Mapping[str, KubeClient],
        clock: Clock,
        *,
        telling: Callable[[], bool] = lambda: True,
    ) -> None:
        self._telling = telling
        self._changed = asyncio.Event()
        self._followed = [
            _Followed(source, client, self._follow(source, client, kind, clock))
            for source in sources
            for client in [clients[source.cluster or next(iter(clients))]]
            for kind in source.kinds
        ]
        self._good: dict[tuple[str, ...], Given] = {}
        self._bad: dict[tuple[str, ...], tuple[Problem, ...]] = {}
        self._told: dict[tuple[str, ...], tuple[Problem, ...]] = {}

    def _follow(self, source: KubernetesSource, client: KubeClient, kind: str, clock: Clock) -> Configured:
        return Configured(
            client,
            kind,
            namespace=source.namespace or "",
            selector=source.selector,
            clock=clock,
            changed=self._changed.set,
        )

    def __bool__(self) -> bool:
        return bool(self._followed)

    def over(self, base: Prepared) -> Prepared:
        """`base` with every object that is well, in the order of their names; one that is not, as it last was well.

        May take seconds: call it in a thread, and never twice at once.
        """
        prepared, there = base, self._given()
        good = {key: given for key, given in self._good.items() if key in there}
        bad: dict[tuple[str, ...], tuple[Problem, ...]] = {}
        for key, (given, _) in there.items():
            try:
                prepared = with_more(prepared, given)
                good[key] = given
            except ConfigError as error:
                bad[key] = error.problems
                if key in good:
                    with contextlib.suppress(ConfigError):
                        prepared = with_more(prepared, good[key])
        # Others look at these meanwhile: they are replaced, not changed.
        self._good, self._bad = good, bad
        telemetry.CONFIG_OBJECTS.labels("taken").set(len(there) - len(bad))
        telemetry.CONFIG_OBJECTS.labels("refused").set(len(bad))
        return prepared

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with them, as of the last look."""
        return tuple(str(problem) for problems in self._bad.values() for problem in problems)

    def _given(self) -> dict[tuple[str, ...], tuple[Given, KubeClient]]:
        """Each object once, also where two sources find it: the first counts."""
        found: dict[tuple[str, ...], tuple[Given, KubeClient]] = {}
        for followed in self._followed:
            for texts in followed.objects.found:
                given = Given(texts=texts, at_most=followed.source.at_most)
                found.setdefault(_key(texts.ref), (given, followed.client))
        return dict(sorted(found.items()))

    # Workers ---------------------------------------------------------------------------------------------------------

    def workers(self, apply: Callable[[], Awaitable[None]]) -> dict[str, Worker]:
        workers: dict[str, Worker] = {
            f"configuration {index}": followed.objects.run for index, followed in enumerate(self._followed)
        }

        async def work() -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_LOOK_SECONDS):
                    for followed in self._followed:
                        await followed.objects.settled.wait()
            while True:
                self._changed.clear()
                await apply()
                await self.tell()
                await self._changed.wait()

        return {**workers, "configuration from clusters": work}

    async def tell(self) -> None:
        """An Event on each object that is newly refused, refused for another reason, or well again; if it is for us to tell."""
        if not self._telling():
            return
        there = self._given()
        for key, (given, client) in there.items():
            problems, told = self._bad.get(key, ()), self._told.get(key, ())
            if problems == told:
                continue
            ref = given.texts.ref
            if problems:
                text = "\n".join(map(str, problems[:TOLD_PROBLEMS]))
                log.warning("%s was not taken:\n%s", ref, text)
                await client.event(ref, reason="HealerConfigRefused", message=text, warning=True)
            else:
                await client.event(ref, reason="HealerConfigTaken", message="all of it is well again")
        self._told = {key: problems for key, problems in self._bad.items() if key in there}


def _key(ref: ObjectRef) -> tuple[str, ...]:
    return ref.cluster, ref.kind, ref.namespace, ref.name
