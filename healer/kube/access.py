"""How to reach an API server and as whom, as values. Made by `healer.kube.kubeconfig`, used by `healer.kube.http`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A client certificate and its key, PEM."""

    certificate: bytes
    key: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Anonymous:
    """No credentials, or only a client certificate."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Basic:
    username: str
    password: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    token: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TokenFile:
    """A token that somebody else keeps fresh in a file."""

    path: Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exec:
    """A program that gives credentials (client.authentication.k8s.io). `cluster` is what it is told of it, when it asks to be told."""

    api_version: str
    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    provide_cluster: bool = False
    install_hint: str = ""


Credentials = Anonymous | Basic | Token | TokenFile | Exec


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """`server` is a URL, maybe with a path. `authority`: PEM of the authorities to trust; None means the system's."""

    server: str
    authority: bytes | None = None
    skip_verification: bool = False
    """Only where the kubeconfig says so: whoever sits in between can then read and change everything."""
    server_name: str = ""
    """The name to expect in the server's certificate, when it is not that in `server`."""
    certificate: Certificate | None = None
    credentials: Credentials = dataclasses.field(default_factory=Anonymous)
