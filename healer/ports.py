"""What the core needs from outside, and what people may ask of it. Protocols with their contracts; no code.

A method that changes something outside is safe to call again after a crash, or says here why it is not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from healer.clock import Clock
from healer.model.alerts import Alert
from healer.model.cluster import ClusterState, Node
from healer.model.decisions import Reason, Verdict
from healer.model.events import AnyEvent, Recorded
from healer.model.fencing import FenceProof, Machine, Replacement
from healer.model.incidents import IncidentView
from healer.model.matchers import Matcher
from healer.model.plans import Preview
from healer.model.series import Batch, Columns
from healer.model.targets import ObjectRef

JSON = dict[str, Any]


# Time series ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """How many samples were kept, and how many not, by reason ("out of order", "duplicate", "too far in the future", …)."""

    accepted: int
    rejected: Mapping[str, int] = dataclasses.field(default_factory=dict)


class Store(Protocol):
    """Keeps samples and gives them back by matcher."""

    async def append(self, batch: Batch) -> Appended:
        """Keep `batch`; durable against a killed process when it returns. StoreError when nothing could be kept."""

    async def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int) -> Columns:
        """Every series that matches and has a sample in [start_ms, end_ms], stale markers included."""


# Coming in -----------------------------------------------------------------------------------------------------------


class Sink(Protocol):
    """Where collectors put what they bring."""

    async def samples(self, batch: Batch) -> Appended:
        """Keep samples, and let the rules that read these metrics know. StoreError when nothing could be kept."""

    async def alerts(self, report: AlertReport) -> None:
        """Journal alerts. When it returns they are durable and may be acknowledged; JournalError means: answer 503."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AlertReport:
    """What arrived together. `rejected`: (reason, example) for what could not be read; `truncated`: alerts cut off by the sender.

    `complete_url`: where the whole list can be had, when the sender said.
    """

    source: str
    alerts: tuple[Alert, ...]
    rejected: tuple[tuple[str, str], ...] = ()
    truncated: int = 0
    complete_url: str = ""


class Collector(Protocol):
    """Brings samples or objects from one source."""

    @property
    def name(self) -> str:
        """For metrics and logs, e.g. `prometheus/node`."""

    async def run(self, sink: Sink) -> None:
        """Work until cancelled. A source that cannot be read is counted and tried again; it never ends the service."""


# Kubernetes ----------------------------------------------------------------------------------------------------------


class PatchKind(enum.StrEnum):
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"


class Kube(Protocol):
    """The few things that Healer asks of an API server. Every call has a bound in time and never retries by itself.

    Raises, besides what a method names: Retryable (429, 5xx, connection; nothing was done, or for GET nothing matters),
    OutcomeUnknown (a change whose answer did not come), Forbidden, Permanent.
    A change of an object carries the UID of `ref` as a precondition: another object under the same name is a Conflict.
    """

    cluster: str

    async def get(self, ref: ObjectRef) -> JSON:
        """A fresh read, past every cache. NotFound; TargetGone when the object of that name has another UID (if ref has one)."""

    async def list(
        self, kind: str, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> tuple[JSON, ...]:
        """All objects of a kind, page by page."""

    async def patch(
        self,
        ref: ObjectRef,
        body: JSON | Sequence[JSON],
        *,
        kind: PatchKind = PatchKind.MERGE,
        subresource: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> JSON:
        """Change an object. Conflict when UID or `resource_version` differ; NotFound."""

    async def create(self, kind: str, namespace: str, body: JSON, *, dry_run: bool = False) -> JSON:
        """Make an object. Conflict when one of that name exists."""

    async def delete(self, ref: ObjectRef, *, grace_seconds: int | None = None, dry_run: bool = False) -> None:
        """Delete. NotFound, Conflict (other UID)."""

    async def evict(self, pod: ObjectRef, *, grace_seconds: int | None = None, dry_run: bool = False) -> None:
        """Evict a pod. BudgetBlocked (429 with the budgets named), MultipleBudgets, NotFound, Conflict (other UID)."""

    async def event(self, about: ObjectRef, *, reason: str, message: str, warning: bool = False) -> None:
        """Put an Event on an object, for `kubectl describe`. Never raises for a refused Event: it is only telling."""


# Acting --------------------------------------------------------------------------------------------------------------


class Provider(Protocol):
    """Whoever owns the machines behind nodes.

    `key` makes a request idempotent: the same key never does the work twice. Raises Retryable, OutcomeUnknown, Permanent.
    """

    name: str

    async def describe(self, node: Node) -> Machine:
        """What it says of the machine behind `node`, by provider id. Permanent when it knows 0 or 2 such machines."""

    async def power_off(self, node: Node, *, key: str) -> Machine:
        """Order the machine off and say what state it is in now; ask `describe` until it is stopped."""

    async def replace(self, node: Node, *, key: str) -> Replacement:
        """Order that the machine is terminated and a new one of its kind takes its place."""

    async def find(self, node: Node, *, key: str) -> Replacement | None:
        """The replacement ordered with `key`, or None when there is none: settles an unknown outcome."""


class Settled(enum.StrEnum):
    """What reading the cluster says of a call whose outcome is unknown."""

    DONE = "done"
    NOT_DONE = "not done"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A permission an action needs, as in a ClusterRole."""

    group: str
    resource: str
    verb: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What an action's own check of its target says. `evidence` are sentences with numbers."""

    verdict: Verdict
    evidence: tuple[str, ...] = ()


class StepContext(Protocol):
    """What an action may use while it runs. Everything it does to the outside goes through `once`."""

    target: ObjectRef
    operation: str
    kube: Kube
    clock: Clock
    proof: FenceProof | None
    """Set by a step that has proven the machine dead; later steps of the same operation may rely on it."""

    def state(self) -> ClusterState:
        """The cluster now. Ask again after each await."""

    def provider(self, name: str) -> Provider:
        """By the name it has in the configuration; "" is the only one there is. Permanent when there is no such one."""

    async def once(
        self,
        call: str,
        on: ObjectRef | str,
        do: Callable[[str], Awaitable[JSON | None]],
        settle: Callable[[], Awaitable[Settled]],
        *,
        irreversible: bool = True,
    ) -> JSON | None:
        """Do something outside exactly once, also over a crash, and give its result.

        `call` names it within the step, and must be the same after a restart (e.g. `evict shop/web-1 <uid>`).
        Writes the intent, awaits `do(key)`, writes the outcome. A call that is journalled as done is not made again.
        One whose outcome is unknown is settled by `settle`, which reads the cluster: done, not done (then it is made
        again with the same key), or unknown (OutcomeUnknown: a person must look).
        Retryable from `do` counts as not done and passes through: the caller decides whether to come back to it.
        Before an `irreversible` call it checks that nobody has paused or cancelled (StoppedByOperator), that the target
        is still the same object (TargetGone), and that the API server has answered of late (else it waits).
        """

    def recall(self, name: str) -> Any:
        """What `remember` stored for this step, or None."""

    async def remember(self, name: str, value: Any) -> None:
        """Keep a JSON value for this step, durable when it returns."""

    def recall_from(self, action: str, name: str) -> Any:
        """What an earlier step of this operation, by its action, remembered; or None."""

    async def say(self, text: str) -> None:
        """A line for the incident's timeline."""

    async def changed(self, within_seconds: float) -> None:
        """Wait until the cluster changes, at most so long."""

    def check(self) -> None:
        """Raise StoppedByOperator or TargetGone when the operation must not go on. Call it in every loop."""


class Action(Protocol):
    """Something that can be done to one object. Made by its plugin from the step's parameters.

    `plan` is pure. `run`, `verify` and `undo` may be called again after a crash and must then continue, not repeat.
    """

    name: ClassVar[str]
    kinds: ClassVar[frozenset[str]]
    """Kinds of target it takes."""
    verbs: ClassVar[tuple[Verb, ...]]
    """Least permissions, for the ClusterRole and the access review."""
    disruptive: ClassVar[bool]
    """False for what only takes back or helps (uncordon): guards of new disruption do not stop it."""

    def plan(self, target: ObjectRef, state: ClusterState) -> Preview:
        """What it would do now, or why it cannot (`Preview.blocked`)."""

    async def run(self, context: StepContext) -> None:
        """Do it. Returning means done. Raises ActionError otherwise; Retryable is tried again by the engine a few times."""

    async def verify(self, context: StepContext) -> Finding:
        """Whether its target, or what took its place, is healthy now. Reads only."""

    async def undo(self, context: StepContext) -> None:
        """Take back what can be taken back of what `run` did (it may have got only part of the way)."""


# Deciding ------------------------------------------------------------------------------------------------------------


class Journal(Protocol):
    """Every decision, durable, in order, chained by hash."""

    async def append(self, events: Sequence[AnyEvent]) -> Sequence[Recorded]:
        """Write all of `events`, or none. When it returns they are on disk. JournalError when they could not be written."""

    def read(self, *, after: int = 0, incident: str = "") -> AsyncIterator[Recorded]:
        """Everything with a `seq` above `after`, in order; of one incident only, if named."""

    async def close(self) -> None:
        """Let go of the journal."""


class SharedJournal(Journal, Protocol):
    """A journal that several replicas write to, of which one leads. Everything stands in one order for all of them."""

    async def append(self, events: Sequence[AnyEvent], *, term: int = 0) -> Sequence[Recorded]:
        """As in `Journal`. With `term`, what a leader writes: Deposed, and nothing written, unless that term is the newest."""

    async def lead(self, term: int) -> None:
        """From now on refuse what leaders of older terms write. Deposed when that term, or a newer one, has begun already."""

    async def term(self) -> int:
        """The newest term that has begun; 0 before the first."""


# Telling -------------------------------------------------------------------------------------------------------------


class Notifier(Protocol):
    """Tells people. Telling never changes a cluster and never holds up a repair.

    `shadow`: whether it is also told what remedies in shadow mode would do. Those are to be read when one wants to,
    not to call anybody.
    """

    name: str
    shadow: bool

    async def tell(self, view: IncidentView, handle: str) -> str:
        """Show `view`, editing the message known as `handle` if there is one. Returns its handle, to be kept.

        Called once at a time for an incident, with the newest view. Retryable (with the delay that was asked for) and
        Permanent as usual.
        """

    async def run(self, operator: Operator) -> None:
        """Bring in what people answer, until cancelled. One that takes no answers, or gets them by a route, just waits."""

    def routes(self, operator: Operator) -> Sequence[Any]:
        """aiohttp routes by which answers come in; each checks for itself who sends."""

    async def close(self) -> None:
        """Let go of connections."""


class Operator(Protocol):
    """What people may ask: from the console, the command line, Slack."""

    def incidents(self, *, open_only: bool = False) -> Sequence[IncidentView]:
        """Newest first."""

    def incident(self, id_: str) -> IncidentView | None: ...

    async def answer(self, incident: str, *, approve: bool, by: str, via: str, digest: str = "") -> Reason:
        """Approve or deny. OK when it counted, else why not; journalled in both cases. `digest`: what was on the button."""

    async def cancel(self, incident: str, *, by: str) -> Reason:
        """Stop what is being done, before its next irreversible call."""

    async def pause(self, *, by: str, why: str) -> None:
        """Start no disruption any more; durable."""

    async def resume(self, *, by: str, why: str) -> None: ...

    def paused(self) -> str:
        """Who paused and why, or an empty string."""

    def cluster_states(self) -> Sequence[ClusterState]: ...

    def watch(self) -> contextlib.AbstractAsyncContextManager[AsyncIterator[IncidentView]]:
        """Every incident as it changes, from now on; a slow reader misses intermediate views, never the newest."""
