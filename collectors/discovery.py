"""Where to scrape: targets written in the configuration, and files that list targets (Prometheus' `file_sd`).

A file is read again when it changes. One that is broken, or half written, keeps what it said before.
"""

from __future__ import annotations

import dataclasses
import glob
import json
import logging
import pathlib
import re  # noqa: TID251 (fixed patterns of ours)
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from healer.model.series import Labels

logger = logging.getLogger(__name__)

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_ADDRESS: Final = re.compile(r"[^\s/?#@]+")
_NOT_THERE: Final = (0, 0, 0)
_PARAM: Final = "__param_"
_LONGEST_FILE_BYTES: Final = 16 * 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One page to read, and the labels that its series get."""

    url: str
    labels: Labels

    @property
    def instance(self) -> str:
        return self.labels.get("instance", "")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What holds for every target of a job that does not say otherwise by a label (`__scheme__`, `__metrics_path__`, …)."""

    job: str
    scheme: str = "http"
    path: str = "/metrics"
    params: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    labels: Mapping[str, str] = dataclasses.field(default_factory=dict)


class WrongTarget(ValueError):
    """What is wrong with a target or its labels."""


def target(address: str, labels: Mapping[str, str], defaults: Defaults) -> Target:
    """The target at `address`. Labels that begin with two underscores say how to reach it, and are dropped.

    WrongTarget when it is not an address, or a label is not one.
    """
    for name, value in (*defaults.labels.items(), *labels.items()):
        if not _LABEL.fullmatch(name):
            raise WrongTarget(f"label {name!r} of target {address!r}: write letters, digits and underscores only")
        if not isinstance(value, str):
            raise WrongTarget(f"label {name!r} of target {address!r}: must be text; put the value in quotes")
    every = {"job": defaults.job, **defaults.labels, "__address__": address, **labels}
    host = every["__address__"]
    if not _ADDRESS.fullmatch(host):
        raise WrongTarget(f"target {host!r}: must be host:port, without scheme and path")
    scheme = every.get("__scheme__", defaults.scheme)
    if scheme not in ("http", "https"):
        raise WrongTarget(f"target {host!r}: scheme {scheme!r} must be http or https")
    params = {name: list(values) for name, values in defaults.params.items()}
    for name, value in labels.items():
        if name.startswith(_PARAM):
            params[name.removeprefix(_PARAM)] = [value]
    path = every.get("__metrics_path__", defaults.path)
    query = urllib.parse.urlencode(params, doseq=True)
    url = f"{scheme}://{host}/{path.removeprefix('/')}" + (f"?{query}" if query else "")
    shown = {name: value for name, value in every.items() if not name.startswith("__")}
    return Target(url=url, labels=Labels({"instance": host, **shown}))


class FileDiscovery:
    """The targets listed in some files."""

    def __init__(self, patterns: Sequence[pathlib.Path], defaults: Defaults) -> None:
        """The last part of a pattern may hold `*`."""
        self._patterns = patterns
        self._defaults = defaults
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._targets: dict[str, tuple[Target, ...]] = {}
        self._missing: set[str] = set()

    def read(self) -> tuple[Target, ...]:
        """What the files list now. Reads only those that have changed."""
        for path in sorted({*self._paths(), *self._targets}):
            self._read(path)
        return tuple(one for path in sorted(self._targets) for one in self._targets[path])

    def _paths(self) -> Iterator[str]:
        for pattern in self._patterns:
            if glob.has_magic(pattern.name):
                yield from map(str, pattern.parent.glob(pattern.name))
            else:
                yield str(pattern)

    def _read(self, path: str) -> None:
        try:
            status = pathlib.Path(path).stat()
        except FileNotFoundError as error:
            # Editors replace a file by removing it first, so it is gone only when it is missing twice.
            if path in self._missing and self._targets.pop(path, None) is not None:
                logger.warning("the file of targets %r is gone, and its targets with it", path)
            self._missing.add(path)
            self._complain(path, _NOT_THERE, str(error.strerror))
            return
        except OSError as error:
            self._complain(path, _NOT_THERE, str(error.strerror or error))
            return
        self._missing.discard(path)
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if self._seen.get(path) == stamp:
            return
        try:
            if status.st_size > _LONGEST_FILE_BYTES:
                raise WrongTarget(f"it is longer than {_LONGEST_FILE_BYTES} bytes")
            self._targets[path] = tuple(_targets(_load(pathlib.Path(path)), self._defaults))
            self._seen[path] = stamp
        except (OSError, ValueError, YAMLError, RecursionError) as error:
            self._complain(path, stamp, str(error))

    def _complain(self, path: str, stamp: tuple[int, int, int], why: str) -> None:
        """Once for each state of the file."""
        if self._seen.get(path) != stamp:
            self._seen[path] = stamp
            count = len(self._targets.get(path, ()))
            logger.warning("reading targets from %r: %s; the %d targets it had before are kept", path, why, count)


def _load(path: pathlib.Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else YAML(typ="safe", pure=True).load(text)


def _targets(groups: Any, defaults: Defaults) -> Iterable[Target]:
    if groups is None:
        return
    if not isinstance(groups, list):
        raise WrongTarget("must be a list of groups, each with 'targets' and perhaps 'labels'")
    for number, group in enumerate(groups, start=1):
        if not isinstance(group, dict) or not group.keys() <= {"targets", "labels"} or not _are_texts(group):
            raise WrongTarget(f"group {number}: must hold 'targets', a list of host:port, and perhaps 'labels'")
        for address in group["targets"]:
            yield target(address, group.get("labels") or {}, defaults)


def _are_texts(group: Mapping[str, Any]) -> bool:
    targets, labels = group.get("targets"), group.get("labels") or {}
    if not isinstance(targets, list) or not isinstance(labels, dict):
        return False
    return all(isinstance(text, str) for text in [*targets, *labels])
