"""`rules:` which rule files there are. Only found here; `healer.app` reads them."""

from __future__ import annotations

import dataclasses
import glob
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, InstanceOf, ValidationInfo

from healer.config import context, fields

PACK: Final = "pack:"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RuleSource:
    """An entry of `rules:` the name of a pack that comes with healer, or files."""

    text: str
    pack: str = ""
    files: tuple[Path, ...] = ()


def _sources(value: Any, info: ValidationInfo) -> Any:
    if not isinstance(value, list):
        raise ValueError(f"must be a list, not {context.shown(value)}")  # noqa: TRY004 (pydantic collects ValueError)
    found: list[RuleSource] = []
    for index, text in enumerate(value):
        try:
            found.append(_source(text, info))
        except ValueError as error:
            context.report(info, value, (index,), str(error))
    return tuple(found)


def _source(text: Any, info: ValidationInfo) -> RuleSource:
    if not isinstance(text, str) or not text:
        raise ValueError(f"must be the path of rule files or pack:NAME, not {context.shown(text)}")
    if text.startswith(PACK):
        return RuleSource(text=text, pack=text.removeprefix(PACK))
    pattern = fields.in_folder(Path(text), info)
    files = tuple(Path(name) for name in sorted(glob.glob(str(pattern), recursive=True)) if Path(name).is_file())  # noqa: PTH207 (absolute patterns)
    if not files:
        raise ValueError(f"no file matches {str(pattern)!r}; paths start at the folder of this file")
    return RuleSource(text=text, files=files)


RuleSources = Annotated[
    tuple[InstanceOf[RuleSource], ...],
    BeforeValidator(_sources),
    Field(json_schema_extra={"x-type": "list of paths or `pack:NAME`"}),
]
