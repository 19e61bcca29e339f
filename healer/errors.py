"""The closed error tree. A refusal is not an error: it is a decision with a reason (`healer.model.decisions`).

Adapters translate foreign exceptions into these at one place each; nothing above sees an aiohttp or SQL exception.
Messages say what was being done, to what, with which value: "doing x: cause"; lower case, no full stop.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


class HealerError(Exception):
    """Anything that Healer itself raises."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One mistake in a file: where it is and what to do about it. Line and column count from 1."""

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}: "
        return where + (f"{self.path}: {self.message}" if self.path else self.message)


class ConfigError(HealerError):
    """Every problem found in what the user configured, at once."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


class PluginError(HealerError):
    """A plugin that cannot be loaded; names its entry-point group and name."""

    def __init__(self, group: str, name: str, cause: str) -> None:
        super().__init__(f"loading {name!r} of {group}: {cause}")
        self.group = group
        self.name = name


class SourceError(HealerError):
    """A collector could not read its source. Always worth another try."""


class Unreachable(SourceError):
    """No connection to it could be made: nothing was sent, so nothing was done."""


class StoreError(HealerError):
    """The time-series store could not take or give samples."""


class QueryError(HealerError):
    """An expression that is wrong, or cannot be evaluated over this data."""


class JournalError(HealerError):
    """The journal could not record. Nothing may be acknowledged and nothing may be done until it can."""


class JournalInUse(JournalError):
    """Another process holds this journal."""


class Deposed(JournalError):
    """A leader's write that came too late: another replica leads by now. Nothing was written."""


class JournalRewound(HealerError):
    """The journal does not hold any more what it has acknowledged. Only a new start can know what is true."""


class ActionError(HealerError):
    """A step on the cluster did not work."""


class Retryable(ActionError):
    """Worth another try after `delay_seconds` (at least); nothing is known to be wrong with the request itself."""

    def __init__(self, message: str, *, delay_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.delay_seconds = delay_seconds


class Permanent(ActionError):
    """Trying again will not help; a person has to look."""


class OutcomeUnknown(ActionError):
    """The request may or may not have been carried out. Settle it by reading the cluster, never by repeating it."""


class NotFound(Permanent):
    """The object is not there."""


class Conflict(ActionError):
    """The object is not what the request assumed: its UID or resourceVersion differs."""


class Forbidden(Permanent):
    """The API server will not let this account do that."""


class Gone(ActionError):
    """The resourceVersion is too old; list again."""


class TargetGone(ActionError):
    """The object was deleted, or deleted and made anew under the same name. The operation is over."""


class TakenOver(ActionError):
    """A person has changed the object by hand while we were at work; we stand back."""


class BudgetBlocked(Retryable):
    """An eviction that a disruption budget does not allow now; `budgets` as "namespace/name: numbers" where told."""

    def __init__(self, message: str, *, delay_seconds: float = 5.0, budgets: tuple[str, ...] = ()) -> None:
        super().__init__(message, delay_seconds=delay_seconds)
        self.budgets = budgets


class MultipleBudgets(Permanent):
    """More than one disruption budget covers the pod: the eviction API cannot serve it until somebody mends that."""


class StoppedByOperator(ActionError):
    """The operation was cancelled, or all disruption is paused, before the next irreversible step."""


class BadPayload(HealerError):
    """What was sent to us cannot be read at all; the text says why. The sender must mend it: HTTP 400."""
