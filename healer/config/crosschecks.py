"""What only shows when sections are seen together: names that nobody has, questions that nobody can answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from healer.config import context
from healer.config.context import Location
from healer.config.remedies import Remedy
from healer.config.schema import Config
from healer.model.plans import Mode

Finding = tuple[Location, str]


def findings(config: Config) -> Iterator[Finding]:
    """Each mistake, and where it stands."""
    yield from _twice("clusters", (cluster.name for cluster in config.clusters))
    yield from _twice("remedies", (remedy.name for remedy in config.remedies))
    yield from _twice("safety.maintenance", (window.name for window in config.safety.maintenance))
    names = [remedy.name for remedy in config.remedies]
    for index, remedy in enumerate(config.remedies):
        at: Location = ("remedies", index)
        yield from _approval(config, remedy, (*at, "approval"))
        yield from _providers(config, remedy, (*at, "steps"))
        for rung, name in enumerate(remedy.after):
            if name not in names:
                yield (*at, "after", rung), context.unknown("remedy", name, names)
    yield from _circles(config)


def _twice(section: str, names: Iterable[str]) -> Iterator[Finding]:
    seen: dict[str, int] = {}
    parts: Location = tuple(section.split("."))
    for index, name in enumerate(names):
        if name in seen:
            yield (*parts, index, "name"), f"{name!r} is also the name of {section}[{seen[name]}]; names are unique"
        seen.setdefault(name, index)


def _approval(config: Config, remedy: Remedy, at: Location) -> Iterator[Finding]:
    approval = remedy.approval
    members: set[str] = set()
    for index, group in enumerate(approval.groups):
        if group in config.approvers:
            members.update(config.approvers[group])
        else:
            yield (*at, "groups", index), context.unknown("group of approvers", group, config.approvers)
            return
    open_ended = not approval.groups or members & {"console", "cli"}
    if remedy.mode is Mode.APPROVE and not open_ended and approval.minimum > len(members):
        yield (
            (*at, "minimum"),
            f"{approval.minimum} people have to agree, but the groups have {len(members)}; nobody could ever",
        )


def _providers(config: Config, remedy: Remedy, at: Location) -> Iterator[Finding]:
    labels = [provider.label for provider in config.providers]
    for index, step in enumerate(remedy.steps):
        wanted = getattr(step.settings, "provider", None)
        if not isinstance(wanted, str):
            continue
        place: Location = (*at, index, step.name, "provider")
        if wanted and wanted not in labels:
            yield place, context.unknown("provider", wanted, labels)
        elif not wanted and len(labels) != 1:
            known = f"say which: {', '.join(labels)}" if labels else "add one under `providers`"
            yield place, f"{step.name!r} needs a provider and there are {len(labels)}; {known}"


def _circles(config: Config) -> Iterator[Finding]:
    after = {remedy.name: set(remedy.after) for remedy in config.remedies}
    for index, remedy in enumerate(config.remedies):
        reached, todo = set[str](), list(remedy.after)
        while todo:
            name = todo.pop()
            if name not in reached:
                reached.add(name)
                todo += after.get(name, ())
        if remedy.name in reached:
            yield ("remedies", index, "after"), f"{remedy.name!r} comes after itself; it would never start"
