"""Plugins by name: entry points in four groups, loaded only when a configuration names them.

A plugin is a class with a `Settings` model (pydantic, every field documented) and a constructor that takes
`(settings, …)` as its group says. Ours are declared in pyproject.toml like anybody else's.
"""

from __future__ import annotations

import functools
import importlib.metadata
from typing import Any, Final

from healer.errors import PluginError

COLLECTORS: Final = "healer.collectors"
ACTIONS: Final = "healer.actions"
NOTIFIERS: Final = "healer.notifiers"
PROVIDERS: Final = "healer.providers"
GROUPS: Final = (COLLECTORS, ACTIONS, NOTIFIERS, PROVIDERS)


@functools.cache
def names(group: str) -> tuple[str, ...]:
    """What is installed in a group, sorted. Imports nothing."""
    return tuple(sorted(point.name for point in importlib.metadata.entry_points(group=group)))


@functools.cache
def load(group: str, name: str) -> Any:
    """The class of that name.

    Raises PluginError when there is none (with what there is), two, or when it cannot be imported.
    """
    found = tuple(importlib.metadata.entry_points(group=group, name=name))
    if not found:
        raise PluginError(group, name, f"there is none of that name; installed are {', '.join(names(group)) or 'none'}")
    if len({point.value for point in found}) > 1:
        owners = ", ".join(sorted(point.dist.name if point.dist else "?" for point in found))
        raise PluginError(group, name, f"more than one package offers it: {owners}; uninstall all but one")
    point = found[0]
    try:
        return point.load()
    except Exception as error:
        owner = point.dist.name if point.dist else "an unknown package"
        raise PluginError(group, name, f"{owner} is broken: {type(error).__name__}: {error}") from error
