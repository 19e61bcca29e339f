"""From a kubeconfig, or from the service account of the pod we run in, to how a cluster is reached.

Reads what kubectl reads, in the same order of precedence. What we cannot honour (proxies, impersonation, old
authentication providers) is an error rather than something passed over.
"""

from __future__ import annotations

import dataclasses
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from healer.errors import ConfigError, Problem
from healer.kube import sections
from healer.kube.access import Access, Anonymous, Basic, Certificate, Credentials, Exec, Token, TokenFile
from healer.kube.sections import Section

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EXEC_VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_PARTS: Final = {"clusters": "cluster", "users": "user", "contexts": "context"}


def load(path: str = "", *, context: str = "", environment: Mapping[str, str] = os.environ) -> Access:
    """How to reach the cluster of `context`, or of the current one.

    `path` may begin with `~`; without it KUBECONFIG says which files (several are merged, the first wins), else
    ~/.kube/config. ConfigError with every mistake found on the way.
    """
    found = _Kubeconfig(_files(path, environment))
    access = found.access(context)
    if found.problems:
        raise ConfigError(found.problems)
    return access


def contexts(path: str = "", *, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The names of all contexts, in the order of the files."""
    return tuple(_Kubeconfig(_files(path, environment)).named["contexts"])


def in_cluster(*, environment: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT) -> Access:
    """The API server of the cluster that runs us, as the service account of our pod. ConfigError outside a cluster."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST", ""), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise _lonely("in_cluster", "KUBERNETES_SERVICE_HOST is not set: this is no pod; give a kubeconfig instead")
    try:
        authority = (folder / "ca.crt").read_bytes()
        (folder / "token").read_bytes()
    except OSError as error:
        raise _lonely(
            str(error.filename), f"{error.strerror}; is automountServiceAccountToken off for our pod?"
        ) from error
    return Access(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        authority=authority,
        credentials=TokenFile(path=folder / "token"),
    )


def _files(path: str, environment: Mapping[str, str]) -> list[Path]:
    if path:
        return [Path(path).expanduser()]
    listed = [Path(part).expanduser() for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    # As kubectl does: of several files some may be missing, but not all.
    return [file for file in listed if file.exists()] or listed[:1] or [Path("~/.kube/config").expanduser()]


class _Kubeconfig:
    """Several files merged: of equal names the first counts."""

    def __init__(self, files: list[Path]) -> None:
        self.problems: list[Problem] = []
        self.tops = [dataclasses.replace(sections.read(file), problems=self.problems) for file in files]
        self.named: dict[str, dict[str, Section]] = {part: {} for part in _PARTS}
        for top in self.tops:
            for part, inner in _PARTS.items():
                self._collect(top, part, inner)

    def _collect(self, top: Section, part: str, inner: str) -> None:
        for item in top.sections(part):
            name = item.text("name")
            if not name:
                item.wrong("name", "is missing")
            elif name not in self.named[part]:
                empty = dataclasses.replace(item, path=f"{item.path}.{inner}")
                self.named[part][name] = item.section(inner) or empty

    def access(self, context: str) -> Access:
        """With mistakes noted in `problems`."""
        chosen = self._chosen(context)
        cluster = chosen and self._part(chosen, "clusters", "cluster", required=True)
        user = chosen and self._part(chosen, "users", "user", required=False)
        access = _cluster(cluster) if cluster else Access(server="")
        if user:
            access = dataclasses.replace(access, certificate=_certificate(user), credentials=_credentials(user))
        return access

    def _chosen(self, context: str) -> Section | None:
        current = next((top for top in self.tops if top.text("current-context")), self.tops[0])
        name = context or current.text("current-context")
        known = self.named["contexts"]
        if name in known:
            return known[name]
        choice = f"there are {', '.join(known)}" if known else "there are none"
        if context:
            self.problems.append(_problem(str(current.file), f"no context is named {context!r}; {choice}"))
        elif name:
            current.wrong("current-context", f"no context is named {name!r}; {choice}")
        else:
            current.wrong("current-context", f"is missing, so say which context; {choice}")
        return None

    def _part(self, context: Section, part: str, key: str, *, required: bool) -> Section | None:
        name = context.text(key)
        if not name:
            if required:
                context.wrong(key, "is missing")
            return None
        known = self.named[part]
        if name not in known:
            choice = f"there are {', '.join(known)}" if known else "there are none"
            context.wrong(key, f"no {key} is named {name!r}; {choice}")
        return known.get(name)


def _cluster(found: Section) -> Access:
    server = found.text("server")
    split = urlsplit(server)
    if split.scheme not in ("http", "https") or not split.netloc:
        found.wrong(
            "server", f"must be a URL such as https://10.0.0.1:6443, not {server!r}" if server else "is missing"
        )
    if found.has("proxy-url"):
        found.wrong("proxy-url", "proxies are not supported; reach the server directly")
    authority = found.data("certificate-authority")
    skip = found.flag("insecure-skip-tls-verify")
    if authority is not None and skip:
        found.wrong("insecure-skip-tls-verify", "contradicts the certificate authority; remove one of the two")
    if authority is not None and not _is_authority(authority):
        key = "certificate-authority"
        found.wrong(f"{key}-data" if found.has(f"{key}-data") else key, "holds no certificate in PEM form")
    return Access(server=server, authority=authority, skip_verification=skip, server_name=found.text("tls-server-name"))


def _is_authority(authority: bytes) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=authority.decode("ascii"))
    except (ssl.SSLError, ValueError):
        return False
    return True


def _certificate(user: Section) -> Certificate | None:
    certificate, key = user.data("client-certificate"), user.data("client-key")
    names = {"client-certificate": certificate, "client-key": key}
    given = [name for name in names if user.has(name) or user.has(f"{name}-data")]
    if len(given) == 1:
        other = next(name for name in names if name not in given)
        user.wrong(other, f"is missing: {given[0]} needs it, as a file or as {other}-data")
    if certificate is None or key is None:
        return None
    return Certificate(certificate=certificate, key=key)


def _credentials(user: Section) -> Credentials:
    """In kubectl's order: a token file wins over a token, both over a plugin."""
    if user.has("auth-provider"):
        user.wrong("auth-provider", "Kubernetes 1.26 removed these; use the exec plugin of your provider")
    for key in ("as", "as-uid", "as-groups", "as-user-extra"):
        if user.has(key):
            user.wrong(key, "impersonation is not supported; give credentials of the account itself")
    if user.has("tokenFile"):
        path = user.beside(user.text("tokenFile"))
        if not path.is_file():
            user.wrong("tokenFile", f"there is no file {path}")
        return TokenFile(path=path)
    if user.has("token"):
        return Token(token=user.text("token"))
    if user.has("username"):
        return Basic(username=user.text("username"), password=user.text("password"))
    plugin = user.section("exec")
    return _plugin(plugin) if plugin else Anonymous()


def _plugin(found: Section) -> Exec:
    version = found.text("apiVersion")
    if version not in _EXEC_VERSIONS:
        found.wrong("apiVersion", f"must be one of {', '.join(_EXEC_VERSIONS)}, not {version!r}")
    command = found.text("command")
    if not command:
        found.wrong("command", "is missing")
    if found.text("interactiveMode") == "Always":
        found.wrong("interactiveMode", "there is nobody at a terminal; use credentials that need no person")
    if "/" in command:
        command = str(found.beside(command))
    return Exec(
        api_version=version,
        command=command,
        arguments=found.texts("args"),
        environment={item.text("name"): item.text("value") for item in found.sections("env")},
        provide_cluster=found.flag("provideClusterInfo"),
        install_hint=found.text("installHint").strip(),
    )


def _problem(file: str, message: str) -> Problem:
    return Problem(file=file, line=1, column=1, path="", message=message)


def _lonely(file: str, message: str) -> ConfigError:
    return ConfigError([_problem(file, message)])
