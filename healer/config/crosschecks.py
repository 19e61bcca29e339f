"""What only shows when sections are seen together: names that nobody has, questions that nobody can answer.

Over the values as written, not over a validated configuration, so that one mistake does not hide another: what is not
of the expected shape is left to the sections' own checks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from healer import plugins
from healer.config import context, plugged
from healer.config.context import Location
from healer.errors import PluginError

Finding = tuple[Location, str]


def findings(raw: Mapping[str, Any], elsewhere: Collection[str] = ()) -> Iterator[Finding]:
    """Each mistake, and where it stands. `elsewhere`: names of remedies in other texts of the same configuration."""
    for section in (("clusters",), ("remedies",), ("safety", "maintenance")):
        yield from _twice(raw, section)
    names = [remedy.get("name") for _, remedy in _mappings(raw, "remedies")]
    known = [name for name in names if isinstance(name, str)] + list(elsewhere)
    for at, remedy in _mappings(raw, "remedies"):
        if remedy.get("name") in elsewhere:
            yield (*at, "name"), f"{remedy['name']!r} is the name of another remedy already; names are unique"
        yield from _approval(raw, remedy, (*at, "approval"))
        yield from _providers(raw, remedy, (*at, "steps"))
        for rung, name in enumerate(_texts(remedy.get("after"))):
            if name not in known:
                yield (*at, "after", rung), context.unknown("remedy", name, known)
    yield from _circles(raw)
    yield from _sources(raw)
    yield from _leader(raw)


def _leader(raw: Mapping[str, Any]) -> Iterator[Finding]:
    clusters = _names(raw)
    if _mapping(raw.get("journal")).get("postgres") is None:
        if "leader" in raw:
            yield ("leader",), "one process has its journal for itself and needs no leader; see `journal.postgres`"
        return
    wanted = _mapping(raw.get("leader")).get("cluster")
    if not clusters:
        yield ("journal", "postgres"), "replicas need a cluster that holds their Lease; add one under `clusters`"
    elif isinstance(wanted, str) and wanted not in clusters:
        yield ("leader", "cluster"), context.unknown("cluster", wanted, clusters)


def _sources(raw: Mapping[str, Any]) -> Iterator[Finding]:
    clusters = _names(raw)
    for at, source in _mappings(raw, "from_kubernetes"):
        if not clusters:
            yield at, "there is no cluster to find it in; add one under `clusters`"
        elif str(source.get("cluster", clusters[0])) not in clusters:
            yield (*at, "cluster"), context.unknown("cluster", str(source["cluster"]), clusters)


def _names(raw: Mapping[str, Any]) -> list[str]:
    return [str(cluster["name"]) for _, cluster in _mappings(raw, "clusters") if "name" in cluster]


def _twice(raw: Mapping[str, Any], section: tuple[str, ...]) -> Iterator[Finding]:
    seen: dict[str, Location] = {}
    for at, entry in _mappings(raw, *section):
        name = entry.get("name")
        if not isinstance(name, str):
            continue
        if name in seen:
            yield (*at, "name"), f"{name!r} is also the name of {context.dotted(seen[name])}; names are unique"
        seen.setdefault(name, at)


def _approval(raw: Mapping[str, Any], remedy: Mapping[str, Any], at: Location) -> Iterator[Finding]:
    approval, approvers = _mapping(remedy.get("approval")), _mapping(raw.get("approvers"))
    members: set[str] = set()
    groups = _texts(approval.get("groups"))
    for index, group in enumerate(groups):
        members.update(_texts(approvers.get(group)))
        if group not in approvers:
            yield (*at, "groups", index), context.unknown("group of approvers", group, approvers)
    minimum = approval.get("minimum", 1)
    open_ended = not members or members & {"console", "cli"}
    if remedy.get("mode") == "approve" and isinstance(minimum, int) and not open_ended and minimum > len(members):
        yield (
            (*at, "minimum"),
            f"{minimum} people have to agree, but its groups have {len(members)}; it could never start",
        )


def _providers(raw: Mapping[str, Any], remedy: Mapping[str, Any], at: Location) -> Iterator[Finding]:
    labels = [str(label) for label in _mapping(raw.get("providers"))]
    for index, (action, params) in enumerate(_steps(remedy.get("steps"))):
        if not _takes_a_provider(action):
            continue
        wanted, place = params.get("provider", ""), (*at, index, action, "provider")
        if wanted and isinstance(wanted, str) and wanted not in labels:
            yield place, context.unknown("provider", wanted, labels)
        elif not wanted and len(labels) != 1:
            known = f"say which: {', '.join(labels)}" if labels else "add one under `providers`"
            yield place, f"{action!r} needs a provider and there are {len(labels)}; {known}"


def _takes_a_provider(action: str) -> bool:
    if action not in plugins.names(plugins.ACTIONS):
        return False
    try:
        return "provider" in plugged.settings_model(plugins.ACTIONS, action).model_fields
    except PluginError:
        return False  # Reported where the step is read.


def _steps(value: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for step in value if isinstance(value, list) else ():
        if isinstance(step, dict) and len(step) == 1:
            ((name, params),) = step.items()
            yield name, _mapping(params)
        else:
            yield step if isinstance(step, str) else "", {}


def _circles(raw: Mapping[str, Any]) -> Iterator[Finding]:
    after = {str(remedy.get("name")): _texts(remedy.get("after")) for _, remedy in _mappings(raw, "remedies")}
    for at, remedy in _mappings(raw, "remedies"):
        reached, todo = set[str](), list(_texts(remedy.get("after")))
        while todo:
            name = todo.pop()
            if name not in reached:
                reached.add(name)
                todo += after.get(name, ())
        if remedy.get("name") in reached:
            yield (*at, "after"), f"{remedy['name']!r} comes after itself; it would never start"


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(raw: Mapping[str, Any], *section: str) -> Iterator[tuple[Location, Mapping[str, Any]]]:
    """The entries of a list that are mappings, and where they stand."""
    value: object = raw
    for part in section:
        value = _mapping(value).get(part)
    for index, entry in enumerate(value if isinstance(value, list) else ()):
        if isinstance(entry, dict):
            yield (*section, index), entry


def _texts(value: object) -> list[str]:
    """The list, if it is one of texts."""
    return value if isinstance(value, list) and all(isinstance(item, str) for item in value) else []
