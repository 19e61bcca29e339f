"""The building blocks of every section, also for the `Settings` of plugins.

`Section` forbids unknown keys and suggests the right one; `Secret` has a twin `<name>_file`; durations, shares, sizes
and addresses are read from the text that people write.
"""

from __future__ import annotations

import re  # noqa: TID251 (fixed patterns over single values)
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    Strict,
    ValidationInfo,
    model_validator,
)

from healer.config import context
from healer.model.plans import Share

_DURATION: Final = re.compile(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)
_DURATION_UNITS: Final = ("weeks", "days", "hours", "minutes", "seconds", "milliseconds")
_SIZE: Final = re.compile(r"(\d+)\s*(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)", re.ASCII)
_SIZES: Final = {
    "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40,
}  # fmt: skip
_PERCENT: Final = re.compile(r"(\d{1,3}(?:\.\d+)?)\s*%", re.ASCII)


class Section(BaseModel):
    """A part of the configuration. Frozen; unknown keys are mistakes; defaults are checked like given values."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _prepare(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, dict):
            return data
        given = dict(data)
        known = {field.alias or name for name, field in cls.model_fields.items()}
        for key in data:
            if key not in known and context.loading(info):
                context.report(info, data, (key,), context.unknown("key", str(key), known))
                del given[key]
        for name, field in cls.model_fields.items():
            key = field.alias or name
            if key not in given and _is_section(field.annotation) and not field.is_required():
                # Validated like a given one, so that relative paths in its defaults start at the right folder.
                given[key] = {}
            if f"{name}_file" in cls.model_fields:
                _take_secret(name, given, required=field.is_required(), info=info)
        return given


def _is_section(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Section)


class _NoSecret:
    """Stands where a secret should be, and says why there is none: so that the other mistakes are found as well."""

    def __init__(self, why: str) -> None:
        self.why = why


def _take_secret(name: str, given: dict[str, Any], *, required: bool, info: ValidationInfo) -> None:
    twin = f"{name}_file"
    if name in given and twin in given:
        given[name] = _NoSecret(f"give exactly one of {name!r} and {twin!r}, not both")
    elif twin in given:
        given[name] = _read_secret(given[twin], info)
    elif name not in given and required:
        given[name] = _NoSecret(f"give exactly one of {name!r} and {twin!r}")


def _read_secret(path: object, info: ValidationInfo) -> str | _NoSecret:
    if not isinstance(path, str | Path) or not str(path):
        return _NoSecret("must be the path of a file")
    file = in_folder(Path(path), info)
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        return _NoSecret(f"reading {str(file)!r}: {reason}; put the secret there, readable for healer")
    return text or _NoSecret(f"{str(file)!r} is empty; put the secret there")


def in_folder(path: Path, info: ValidationInfo) -> Path:
    """`path` with `~` expanded; a relative one starts at the folder of the configuration file."""
    found = context.loading(info)
    expanded = path.expanduser()
    return found.folder / expanded if found else expanded


def _secret(value: Any) -> Any:
    if isinstance(value, _NoSecret):
        raise ValueError(value.why)  # noqa: TRY004 (pydantic collects only ValueError)
    if not isinstance(value, str | SecretStr):
        raise ValueError("must be text; put it in quotes")  # noqa: TRY004 (and the value is not shown)
    if isinstance(value, str) and not value.strip():
        raise ValueError("is empty; an empty secret protects nothing")
    return value


def _path(value: Any, info: ValidationInfo) -> Any:
    if value == "":
        raise ValueError("is empty; give a path")
    return in_folder(Path(value), info) if isinstance(value, str | Path) else value


def parse_duration(value: Any) -> Any:
    """Prometheus' durations. ValueError with the mend."""
    if isinstance(value, timedelta):
        return value
    text = value if isinstance(value, str) else ""
    if text == "0" or (value == 0 and not isinstance(value, bool)):
        return timedelta(0)
    found = _DURATION.fullmatch(text) if len(text) < 64 else None
    if not text or found is None:
        mend = (
            f"write {value}s for seconds"
            if isinstance(value, int) and value is not True
            else "write e.g. 30s, 5m or 1h30m"
        )
        raise ValueError(f"must be a duration, not {context.shown(value)}; {mend}")
    try:
        return timedelta(**{unit: int(n) for unit, n in zip(_DURATION_UNITS, found.groups(), strict=True) if n})
    except OverflowError as error:
        raise ValueError(f"{text!r} is too long a duration") from error


def _positive(value: timedelta) -> timedelta:
    if not value:
        raise ValueError("must be more than 0s")
    return value


def parse_share(value: Any) -> Any:
    """A whole number from 1, or a percentage above 0 up to 100. ValueError with the mend."""
    if isinstance(value, Share):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return Share(count=value)
    found = _PERCENT.fullmatch(value) if isinstance(value, str) else None
    if found and 0 < float(found[1]) <= 100:
        return Share(percent=float(found[1]))
    raise ValueError(f"must be a number from 1 or a share above 0%, not {context.shown(value)}; write e.g. 3 or 20%")


def parse_percent(value: Any) -> Any:
    """A percentage above 0 up to 100, as a share."""
    share = parse_share(value) if isinstance(value, Share | str) else None
    if not isinstance(share, Share) or share.percent is None:
        raise ValueError(f"must be a share above 0%, not {context.shown(value)}; write e.g. 55%")
    return share


def parse_size(value: Any) -> Any:
    """Bytes. ValueError with the mend."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[1]) == 0:
        raise ValueError(f"must be a size, not {context.shown(value)}; write e.g. 64MiB or 500kB")
    return int(found[1]) * _SIZES[found[2]]


class Address(NamedTuple):
    """Where to listen. Shown as people write it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(value: Any) -> Any:
    """`host:port`, `[v6]:port`. ValueError with the mend."""
    if isinstance(value, Address):
        return value
    host, _, port = value.rpartition(":") if isinstance(value, str) else ("", "", "")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or (":" in bare and bare == host) or not port.isdecimal() or not port.isascii() or int(port) > 65535:
        raise ValueError(f"must be host:port, not {context.shown(value)}; write e.g. 127.0.0.1:9095 or '[::]:9095'")
    return Address(bare, int(port))


def parse_url(value: Any) -> Any:
    """An http or https URL without a slash at the end."""
    if isinstance(value, str) and re.fullmatch(r"https?://[^\s/?#]+[^\s]*", value):
        return value.rstrip("/")
    raise ValueError(f"must be a URL, not {context.shown(value)}; write e.g. https://example.com/path")


def _named(text: str) -> Callable[[Any], Any]:
    """Gives a type the word that the reference calls it by."""
    return Field(json_schema_extra={"x-type": text})  # type: ignore[no-any-return]


Secret = Annotated[SecretStr, BeforeValidator(_secret), _named("text, kept secret")]
"""Put `<name>_file: FilePath | None = None` beside it: then it can be read from a file as well. Never printed."""
Duration = Annotated[timedelta, BeforeValidator(parse_duration), _named("duration")]
PositiveDuration = Annotated[
    timedelta, BeforeValidator(parse_duration), AfterValidator(_positive), _named("duration above 0s")
]
ShareOf = Annotated[Share, BeforeValidator(parse_share), _named("number or share")]
Percent = Annotated[Share, BeforeValidator(parse_percent), _named("share")]
Size = Annotated[int, BeforeValidator(parse_size), _named("size")]
Listen = Annotated[Address, BeforeValidator(parse_address), _named("host:port")]
Url = Annotated[str, BeforeValidator(parse_url), _named("URL")]
FilePath = Annotated[Path, BeforeValidator(_path), _named("path")]
Flag = Annotated[bool, Strict(), _named("true or false")]
Count = Annotated[int, Strict(), Field(ge=1, json_schema_extra={"x-type": "whole number from 1"})]
Text = Annotated[str, Strict(), Field(min_length=1, json_schema_extra={"x-type": "text"})]
