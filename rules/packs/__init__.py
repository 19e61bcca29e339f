"""Rule files that come with Healer, by name. Only text: parsing is `healer.rules.rulefiles`."""

from __future__ import annotations

import importlib.resources
from typing import Final

_SUFFIX: Final = ".yaml"


def names() -> tuple[str, ...]:
    """Every pack there is."""
    files = importlib.resources.files(__name__).iterdir()
    return tuple(sorted(file.name.removesuffix(_SUFFIX) for file in files if file.name.endswith(_SUFFIX)))


def read(name: str) -> str:
    """The text of pack `name`. KeyError, with the names there are, when it does not exist."""
    if name not in names():
        raise KeyError(f"no rule pack {name!r}; there are: {', '.join(names())}")
    return importlib.resources.files(__name__).joinpath(name + _SUFFIX).read_text("utf-8")
