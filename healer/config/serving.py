"""`web:` and `telemetry:` healer's own server, and what it says about itself."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from healer.config.fields import Address, FilePath, Listen, Section, Size, Url


class Web(Section):
    """Healer's own server: webhooks, API, console, metrics."""

    listen: Listen = Field(
        Address("127.0.0.1", 9095),
        description="Where to listen. Only this machine by default; in a pod, `0.0.0.0:9095`.",
    )
    token_file: FilePath = Field(
        Path("data/token"),
        validate_default=True,
        description="The bearer token for API, console and webhooks. Made with mode 0600 if it is not there: nothing is open by default.",
    )
    hooks_token_file: FilePath | None = Field(
        None, description="Another token for webhooks only, so that Alertmanager's does not open the console."
    )
    alertmanagers: tuple[Url, ...] = Field(
        (),
        description="Alertmanagers whose whole list of alerts may be read when a webhook was cut off (`max_alerts`). Others are never asked, whatever a webhook says.",
    )
    external_url: Url | None = Field(
        None, description="How people reach the console, for links in messages. Default: made from `listen`."
    )
    max_body: Size = Field(
        10 * 2**20,
        description="The largest body of a webhook; a larger one is answered 413. Alertmanager's largest ones are a few MiB.",
    )


class Telemetry(Section):
    """What healer says about itself. Its metrics are at `/metrics`, always."""

    otlp_endpoint: Url | None = Field(
        None,
        description="Where traces go by OTLP over HTTP, e.g. `http://tempo:4318`. Each incident is one trace. Default: nowhere.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least important lines that are logged."
    )
    log_format: Literal["text", "json"] = Field("text", description="`text` for people, `json` for programs.")
