"""What can be set for scraping Prometheus metrics."""

from __future__ import annotations

import base64
import contextlib
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal, Self

import pydantic
from pydantic import Field

from healer.collectors import discovery
from healer.config import fields

ACCEPT: Final = "application/openmetrics-text;version=1.0.0;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"


class BasicAuth(fields.Section):
    """User and password for targets that ask for them."""

    username: fields.Text = Field(description="The user.")
    password: fields.Secret = Field(description="The password.")
    password_file: fields.FilePath | None = Field(
        None, description="A file that holds the password. Read again for every scrape, so that it can be rotated."
    )


class Tls(fields.Section):
    """How the certificates of https targets are checked."""

    ca_file: fields.FilePath | None = Field(
        None, description="Certificates to trust instead of the system's, as PEM: for targets with a CA of their own."
    )
    insecure_skip_verify: fields.Flag = Field(
        False, description="Take any certificate. Then anybody between healer and the target can make up metrics."
    )

    @pydantic.model_validator(mode="after")
    def _can_be_read(self) -> Self:
        try:
            self.context()
        except OSError as error:
            raise ValueError(f"reading {str(self.ca_file)!r}: {error.strerror or error}; it must hold PEM") from error
        return self

    def context(self) -> ssl.SSLContext | bool:
        """As aiohttp takes it."""
        if self.insecure_skip_verify or self.ca_file is None:
            return not self.insecure_skip_verify
        return ssl.create_default_context(cafile=self.ca_file)


class PrometheusSettings(fields.Section):
    """Scrape targets that speak the Prometheus text format or OpenMetrics."""

    job: fields.Text = Field(
        "prometheus", description="Value of the `job` label, unless a target's labels set another."
    )
    targets: tuple[fields.Text, ...] = Field((), description="Addresses to scrape, each host:port.")
    files: tuple[fields.FilePath, ...] = Field(
        (),
        description="Files that list targets as Prometheus' file_sd does, JSON or YAML; `*` may stand in the last part."
        " Looked at every 5 s; one that is broken keeps the targets it had.",
    )
    labels: dict[str, str] = Field(
        default_factory=dict, description="Labels for all series of all targets, e.g. the cluster."
    )
    interval: fields.PositiveDuration = Field(
        timedelta(seconds=15), description="Time between two scrapes of a target. 15 s is what most rules assume."
    )
    timeout: fields.PositiveDuration = Field(
        timedelta(seconds=10), description="Time for one scrape; a shorter interval shortens it. Prometheus' default."
    )
    scheme: Literal["http", "https"] = Field("http", description="How targets are reached.")
    metrics_path: fields.Text = Field("/metrics", description="The path of the page.")
    params: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="Query parameters, each with a list of values."
    )
    honor_labels: fields.Flag = Field(
        False,
        description="Let labels of the page win over the target's. Otherwise the page's are renamed to `exported_…`,"
        " so that nobody can pose as another target.",
    )
    honor_timestamps: fields.Flag = Field(
        True, description="Take the times that a page gives its samples; otherwise the time of the scrape."
    )
    bearer_token: fields.Secret | None = Field(None, description="Sent as `Authorization: Bearer …`.")
    bearer_token_file: fields.FilePath | None = Field(
        None, description="A file that holds the token. Read again for every scrape, since kubelets rotate tokens."
    )
    basic_auth: BasicAuth | None = Field(None, description="User and password; not together with a bearer token.")
    tls: Tls = Field(Tls(), validate_default=True, description="How the certificates of https targets are checked.")
    body_size_limit: fields.Size = Field(
        64 * 1024 * 1024,
        description="Longest page, after decompression; a longer one fails the scrape. Far above the largest page of"
        " kube-state-metrics, and low enough that a hostile target cannot fill the memory.",
    )
    sample_limit: pydantic.NonNegativeInt = Field(
        0, description="Most samples of a page; more fail the scrape. 0: no limit but that of the store."
    )
    label_limit: pydantic.NonNegativeInt = Field(
        0, description="Most labels of a series; more fail the scrape. 0: none."
    )
    label_name_length_limit: pydantic.NonNegativeInt = Field(
        0, description="Longest name of a label, in bytes; a longer one fails the scrape. 0: none."
    )
    label_value_length_limit: pydantic.NonNegativeInt = Field(
        0, description="Longest value of a label, in bytes; a longer one fails the scrape. 0: none."
    )

    @pydantic.model_validator(mode="after")
    def _fits_together(self) -> Self:
        if not self.targets and not self.files:
            raise ValueError("names nothing to scrape; give 'targets' or 'files'")
        if self.basic_auth is not None and self.bearer_token is not None:
            raise ValueError("give 'basic_auth' or a bearer token, not both")
        defaults = self.defaults()
        for address in self.targets:
            discovery.target(address, {}, defaults)
        return self

    def defaults(self) -> discovery.Defaults:
        """What holds for every target that does not say otherwise."""
        return discovery.Defaults(
            job=self.job, scheme=self.scheme, path=self.metrics_path, params=self.params, labels=self.labels
        )

    def headers(self, timeout_seconds: float) -> dict[str, str]:
        """Of a request, with the secrets as they are now."""
        headers = {
            "Accept": ACCEPT,
            "Accept-Encoding": "gzip",
            "User-Agent": "healer",
            "X-Prometheus-Scrape-Timeout-Seconds": f"{timeout_seconds:g}",
        }
        if self.bearer_token is not None:
            headers["Authorization"] = f"Bearer {_newest(self.bearer_token, self.bearer_token_file)}"
        if (basic := self.basic_auth) is not None:
            pair = f"{basic.username}:{_newest(basic.password, basic.password_file)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        return headers


def _newest(secret: pydantic.SecretStr, file: Path | None) -> str:
    """The secret as its file has it, or, where that cannot be read, as it was when the configuration was loaded."""
    text = ""
    if file is not None:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = file.read_text(encoding="utf-8").strip()
    return text or secret.get_secret_value()
