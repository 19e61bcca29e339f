"""docs/configuration.md and docs/plugins.md, made from the schema, so that they cannot say anything else.

`python -m healer.config.describe > docs/configuration.md`, and with the word `plugins` for docs/plugins.md.
"""

from __future__ import annotations

import enum
import inspect
import sys
import types
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from healer import plugins
from healer.config import plugged
from healer.config.fields import Section
from healer.config.schema import Config

_TYPE: Final = "x-type"
_INTRODUCTION: Final = """\
<!-- Made from the schema: python -m healer.config.describe > docs/configuration.md -->

# Configuration

One YAML file. `healer check FILE` prints everything that is wrong with it, each mistake with its line and column;
`healer run` reads it again on SIGHUP and keeps the old one when the new one is wrong.

- The file is YAML 1.2: `NO` and `22:00` are text.
- Unknown keys, keys given twice and empty values are mistakes. Empty never means everything.
- A **duration** is written as in Prometheus: `30s`, `5m`, `1h30m`, `7d`.
- A **number or share** is `3` or `20%`; a **size** is `500kB` or `64MiB`.
- A **path** starts at the folder of the configuration file; `~` is your home.
- Every secret can stand in a file instead: `KEY_file` in place of `KEY`. Give exactly one of them.
"""

_PLUGINS_INTRODUCTION: Final = """\
<!-- Made from the plugins: python -m healer.config.describe plugins > docs/plugins.md -->

# Settings of the plugins

What [the configuration](configuration.md) can name. A plugin without settings is written by its name alone in a list
(`- cordon`) and with `{}` in a mapping (`terminal: {}`).
"""
_WHERE: Final = {
    plugins.COLLECTORS: "Under `collect`, as `- NAME: {…}`.",
    plugins.ACTIONS: "Under `steps` of a remedy, as `- NAME: {…}`.",
    plugins.NOTIFIERS: "Under `notify`, as `NAME: {…}`.",
    plugins.PROVIDERS: "Under `providers`, as `your-name-for-it: {NAME: {…}}`.",
}


def reference() -> str:
    """The whole document."""
    parts = [_INTRODUCTION, *_sections(Config, "")]
    return "\n".join(parts).rstrip() + "\n"


def plugin_reference(group: str, name: str) -> str:
    """The settings of one plugin, as a table."""
    return "\n".join(_section(plugged.settings_model(group, name), name, level=3)).rstrip() + "\n"


def plugins_reference() -> str:
    """The settings of every installed plugin, by group: docs/plugins.md."""
    parts = [_PLUGINS_INTRODUCTION]
    for group, where in _WHERE.items():
        parts.append(f"## {plugged.NOUNS[group].capitalize()}s\n\n{where}\n")
        parts += [plugin_reference(group, name) for name in plugins.names(group)]
    return "\n".join(parts).rstrip() + "\n"


def _sections(model: type[BaseModel], path: str) -> Iterator[str]:
    yield from _section(model, path, level=2)
    for key, field in _fields(model):
        for inner, suffix in _inner_sections(field.annotation):
            yield from _sections(inner, f"{path}.{key}{suffix}".removeprefix("."))


def _section(model: type[BaseModel], path: str, *, level: int) -> Iterator[str]:
    yield f"{'#' * level} `{path}`\n" if path else "## The file\n"
    yield f"{inspect.cleandoc(model.__doc__ or '')}\n"
    fields = list(_fields(model))
    if not fields:
        yield "No settings.\n"
        return
    yield "| Key | Type | Default | Meaning |"
    yield "|---|---|---|---|"
    for key, field in fields:
        cells = (f"`{key}`", _type(field), _default(field), field.description or "")
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        yield field.alias or name, field


def _inner_sections(annotation: Any) -> Iterator[tuple[type[Section], str]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation, ""
    elif get_origin(annotation) is tuple:
        for inner, suffix in _inner_sections(get_args(annotation)[0]):
            yield inner, f"[]{suffix}"


def _type(field: FieldInfo) -> str:
    named = _named(field)
    return named or _type_of(field.annotation)


def _named(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    return str(extra[_TYPE]) if isinstance(extra, dict) and _TYPE in extra else ""


def _type_of(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        found = (_named(note) for note in arguments[1:] if isinstance(note, FieldInfo))
        return next(filter(None, found), "") or _type_of(arguments[0])
    if origin in (Union, types.UnionType):
        return " or ".join(_type_of(part) for part in arguments if part is not type(None))
    if origin is Literal:
        return ", ".join(f"`{choice}`" for choice in arguments)
    if origin is tuple:
        of = _type_of(arguments[0])
        return "list of sections" if of == "section" else f"list of {of}"
    if origin is dict:
        return f"{_type_of(arguments[1])}, by {_type_of(arguments[0])}"
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return ", ".join(f"`{member.value}`" for member in annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "section"
    return {str: "text", int: "whole number", float: "number", bool: "true or false", Path: "path"}.get(
        annotation, getattr(annotation, "__name__", str(annotation)).lower()
    )


def _default(field: FieldInfo) -> str:
    value = field.default
    if field.is_required():
        return "required"
    if value is PydanticUndefined or value is None or isinstance(value, BaseModel) or value in ((), {}, ""):
        return ""
    return f"`{_value(value, _type(field))}`"


def _value(value: Any, type_: str) -> str:
    match value:
        case bool():
            return str(value).lower()
        case timedelta():
            return duration(value)
        case enum.Enum():
            return str(value.value)
        case int() if type_ == "size":
            return next(f"{value // size}{unit}" for unit, size in _UNITS if value % size == 0)
        case tuple() if not hasattr(value, "_fields"):
            return f"[{', '.join(map(str, value))}]"
        case _:
            return str(value)


_UNITS: Final = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))


def duration(value: timedelta) -> str:
    """As people write it, e.g. `1h30m`."""
    left, found = round(value.total_seconds() * 1000), ""
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, left = divmod(left, size)
        found += f"{count}{unit}" if count else ""
    return found or "0s"


if __name__ == "__main__":
    sys.stdout.write(plugins_reference() if sys.argv[1:] == ["plugins"] else reference())
