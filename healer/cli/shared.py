"""What several commands need: the option for the configuration, errors for people, reading a journal."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click

from healer.errors import ConfigError, HealerError

REFUSED_ADDRESS: Final = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)
"""Of an OSError that says that we may not listen where we should."""
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def config_option(command: F) -> F:
    """`-c FILE`, which is also taken from HEALER_CONFIG."""
    option: Callable[[F], F] = click.option(
        "-c",
        "--config",
        "config",
        type=click.Path(path_type=Path),
        default=Path("healer.yaml"),
        envvar="HEALER_CONFIG",
        show_default=True,
        show_envvar=True,
        help="The configuration file.",
    )
    return option(command)


def output_option(command: F) -> F:
    """`-o text|json`"""
    option: Callable[[F], F] = click.option(
        "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print."
    )
    return option(command)


def fail(text: str, *, code: int = 1) -> NoReturn:
    """Say it on standard error and end."""
    click.echo(text, err=True)
    raise SystemExit(code)


def running(work: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run`, with our own errors said as one line."""
    try:
        return asyncio.run(work)
    except ConfigError as error:
        fail("\n".join(map(str, error.problems)), code=2)
    except HealerError as error:
        fail(f"healer: {error}")
    except BaseExceptionGroup as group:
        match _only(group):
            case HealerError() as one:
                fail(f"healer: {one}")
            case OSError() as refused if refused.errno in REFUSED_ADDRESS:
                fail(f"healer: {refused.strerror or refused}; set another web.listen, or stop who listens there")
            case _:
                raise


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one error in `group`, if there is but one."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
