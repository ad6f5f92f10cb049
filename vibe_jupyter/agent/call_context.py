"""What a call has of its run, and a call made ready: its tool found, its arguments checked.

The user's variables are looked through after a piece was printed and before it is shown: the code may just have bound
the secret that it prints. That takes longer the more variables there are, so the looks have a share of the time, and
pieces that come faster are shown together after the next look.

A call is prepared once. What the policy decides on, what the card shows and what the tool opens are all taken from one
`PreparedCall`, so that nothing can come between them: above all, no path is resolved a second time.
"""

import asyncio
import hashlib
import json
import secrets
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, JsonValue

from vibe_jupyter.agent.run import PendingRequests
from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.path_arguments import NONE_JUDGED, places_of
from vibe_jupyter.files.workspace import Located, Workspace
from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.permissions.decide import Permissions, RunTerms
from vibe_jupyter.permissions.redaction import PLACEHOLDER, RedactedStream, Redactor
from vibe_jupyter.protocol import (
    Answer,
    Approval,
    ApprovalRequested,
    Approve,
    Event,
    Headline,
    MimeBundle,
    Notice,
    Preview,
    Reject,
    Resource,
    TextPart,
    ToolCall,
    ToolFinished,
    ToolMessage,
    ToolProgress,
    ToolResult,
    ToolStarted,
)
from vibe_jupyter.session.snapshots import RunSnapshots
from vibe_jupyter.tools.arguments import find_meant
from vibe_jupyter.tools.contract import SubagentReport, Tool, Toolset

LOOK_SHARE: Final = 0.05
"""Of the time that goes by while a call prints, at most, in which its variables are looked through."""
WAITING_LIMIT: Final = 262_144
"""Characters that wait for a look; with more of them it is done at once."""

_PLACEHOLDER_SENT: Final = (
    "The arguments of {name} hold {stands}. That stands for a secret which is not shown to you; written, it would "
    "replace the secret. Nothing was run or changed. Leave the text around it as it is and change other lines, or have "
    "the code read the value from a variable or the environment."
)

FAILED_AGAIN: Final = " (the same call failed in the same way before; change something before you send it again)"
_VARYING: Final = lazy_pattern(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)? s\b")
"""What differs between two equal failures: addresses in memory, and times."""
_Key = tuple[str, str]


class Decided(NamedTuple):
    """The user's answer to a card."""

    command: Approve | Reject
    approval: Approval
    """Who gave it, and when; of a no it means nothing."""


class DuplicateCalls:
    """What was said to each distinct call of the answer that is being worked on."""

    def __init__(self) -> None:
        self._left: Counter[_Key] = Counter()
        self._said: dict[_Key, tuple[str, Decided]] = {}
        self.reviewed: set[str] = set()
        """Ids of the calls that were asked together with others, before their turn came."""

    def begin(self, calls: Sequence[ToolCall]) -> None:
        """A new answer: what was said before holds no more."""
        self._left = Counter(map(_call_key, calls))
        self._said.clear()
        self.reviewed.clear()

    def count(self, call: ToolCall) -> int:
        """How many calls of this answer are this one."""
        return self._left[_call_key(call)]

    def said(self, call: ToolCall, digest: str) -> Decided | None:
        """The user's answer to exactly this, where they gave one in this turn."""
        shown, decided = self._said.get(_call_key(call), ("", None))
        return decided if shown == digest else None

    def keep(self, call: ToolCall, digest: str, decided: Decided) -> None:
        """Remember an answer for the equal calls that follow, and for a call whose turn comes later."""
        if self.count(call) > 1 or call.id in self.reviewed:
            self._said[_call_key(call)] = (digest, decided)


class FailedCalls:
    """What the calls of a run failed with: the same failure of an equal call is not worth its text a second time."""

    def __init__(self) -> None:
        self._texts: dict[_Key, str] = {}

    def shorten(self, tool: str, arguments: str, result: ToolResult) -> ToolResult:
        """The result of a call, in one line where an equal call failed in the same way before."""
        key, text = (tool, arguments), "\n".join(part.text for part in result.parts if isinstance(part, TextPart))
        comparable = _VARYING.sub("", text)
        if not result.is_error or self._texts.get(key) != comparable:
            self._texts[key] = comparable if result.is_error else ""
            return result
        first, more, _ = text.partition("\n")
        if not more:
            return result
        line = f"{first}{FAILED_AGAIN}"
        return result.model_copy(update={"parts": (TextPart(text=line),)})


NOBODY_IS_HERE: Final = (
    "Nobody can approve calls here: no front end shows this run, and no text can be typed. "
    "What needs approval is denied for the rest of this run."
)


class Presence:
    """On the engine's loop."""

    def __init__(
        self,
        find_out: Callable[[], Awaitable[bool]] | None,
        *,
        emit: Callable[[Event], Awaitable[None]],
        known: bool | None = None,
    ) -> None:
        """
        Args:
            find_out: asks the front end, which may take seconds; None where `known` says it.
            emit: takes the notice that nobody is here.
            known: what is known in advance; None asks at the first question.
        """
        self._find_out = find_out
        self._emit = emit
        self._known = True if known is None and find_out is None else known
        self._asking = asyncio.Lock()

    @property
    def is_alone(self) -> bool:
        """Whether it is known that nobody can answer."""
        return self._known is False

    async def attended(self) -> bool:
        """Whether anyone can answer; shows a notice when it turns out that nobody can."""
        async with self._asking:
            if self._known is None and self._find_out is not None:
                self._known = await self._find_out()
                if not self._known:
                    await self._emit(Notice(level="warning", text=NOBODY_IS_HERE))
        return bool(self._known)


class CallContext(NamedTuple):
    """What answering a call needs of its run."""

    tools: Toolset
    permissions: Permissions
    terms: RunTerms
    equal: DuplicateCalls
    failed: FailedCalls
    redactor: Redactor
    """For what is kept of a result before it is an event."""
    approvals: PendingRequests[Approve | Reject]
    questions: PendingRequests[Answer]
    attended: Callable[[], Awaitable[bool]]
    """Whether anyone can answer; the first call of a run may take seconds."""
    emit: Callable[[Event], Awaitable[None]]
    """Record an event if it is durable, then show it."""
    show: Callable[[ToolProgress], None]
    """Show progress; callable from any thread."""
    results: Path | None
    """Folder where results are kept that are too long for the model; None where it has no tool to read them there."""
    cancelled: Callable[[], bool]
    delegate: Callable[[str, str, str], Awaitable[SubagentReport]] | None = None
    """Has a sub-agent work: call, agent, task; None where none may."""
    snapshots: RunSnapshots | None = None
    """Keeps what calls are about to change; None where nothing is kept."""
    newly_lost: Callable[[], Awaitable[Sequence[str]]] | None = None
    """As in `Agent`."""
    schema_only: bool = False
    """Whether no value of the user's data may be sent."""
    model: str = ""
    """Who makes the calls: name and server of the model, or the external client."""
    waited_in: Callable[[str], float] = lambda _call_id: 0.0
    """Seconds in which the call with this id waited for the user so far."""
    turn: Callable[[], int] = lambda: 0
    """Number of the present request, from 1; 0 where there is none."""
    stop: Callable[[str], None] = lambda _why: None
    """End the run after the calls of this answer, with a text for the user."""


def shown(event: Event, kept: Event) -> Event:
    """The event as a view gets it: redacted, as it is kept, but for a card, which shows exactly what would run."""
    if isinstance(event, ApprovalRequested) and isinstance(kept, ApprovalRequested) and event != kept:
        return event.model_copy(update={"kept": kept})
    return kept


class ProgressStreams:
    """One stream for each call; what is held back when a call ends is in its result. Callable from any thread."""

    def __init__(self, redactor: Redactor, show: Callable[[ToolProgress], None]) -> None:
        """Create it on the event loop on which late pieces are to be shown."""
        self._redactor = redactor
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._call_id = ""
        self._stream = self._new_stream()
        self._waiting: list[str] = []
        """Pieces printed since the last look."""
        self._characters = 0
        self._next_look = 0.0
        """By `time.monotonic`."""
        self._has_timer = False

    def _new_stream(self) -> RedactedStream:
        return RedactedStream(self._redactor, of_output=True)

    def take(self, progress: ToolProgress) -> None:
        """Show what may be shown of it, now or soon."""
        if progress.done is not None or progress.waits is not None:  # whole each time
            self._show(self._redactor.output(progress))
            return
        with self._lock:
            if progress.call_id != self._call_id:
                self._call_id, self._stream, self._waiting = progress.call_id, self._new_stream(), []
                self._characters = 0
            self._waiting.append(progress.text)
            self._characters += len(progress.text)
            seconds = self._next_look - time.monotonic()
            if seconds <= 0 or self._characters > WAITING_LIMIT:
                self._pass_on()
            elif not self._has_timer and not self._loop.is_closed():
                self._has_timer = True
                self._loop.call_soon_threadsafe(self._loop.call_later, seconds, self._pass_on_late)

    def drop(self, call_id: str) -> None:
        """Forget what a call printed and nobody has seen: it has ended, or the try of it has and its card is shown."""
        with self._lock:
            if call_id == self._call_id:
                self._call_id, self._waiting, self._characters = "", [], 0

    def _pass_on_late(self) -> None:
        with self._lock:
            self._has_timer = False
            self._pass_on()

    def _pass_on(self) -> None:
        """Look through the variables, and show what was printed before that."""
        if not self._waiting:
            return
        began = time.monotonic()
        self._redactor.look()
        ended = time.monotonic()
        self._next_look = ended + (ended - began) / LOOK_SHARE
        text = self._stream.feed("".join(self._waiting))
        self._waiting, self._characters = [], 0
        if text:
            self._show(ToolProgress(call_id=self._call_id, text=text))


@dataclass(frozen=True, eq=False, repr=False)
class PreparedCall:
    """A call that could run, as it would run."""

    call: ToolCall
    """With the arguments as they were understood, which is what is shown and approved."""
    sent: ToolCall
    """As the model sent it, or as the user edited it."""
    tool: Tool[Any]
    args: BaseModel
    touched: Sequence[Resource]
    places: Mapping[str, Located]
    """Where each path that is touched led when the call was prepared: what the tool opens."""
    edited: bool = False
    """Whether the user changed the arguments on the card."""
    notes: tuple[str, ...] = ()
    """What the user's hooks say of it to the model; goes behind its result."""
    asks: str = ""
    """Why a hook of the user's wants it to be asked about, whatever else allows it; empty where none does."""

    @cached_property
    def headline(self) -> Headline:
        """The call in one line."""
        return self.tool.headline(self.args)

    @cached_property
    def preview(self) -> Preview:
        """All that it would do. Made when it is first needed: it may look into files, which a denied call must not."""
        return self.tool.preview(self.args)

    @cached_property
    def digest(self) -> str:
        """What an approval is bound to."""
        identities = (part for place in self.places.values() for part in place.identity)
        return approval_digest(self.call, self.preview, identities)

    @property
    def written_files(self) -> Mapping[Path, str]:
        """The files that it declares to write, and what each is called."""
        written = (one.value for one in self.touched if one.kind == "path" and one.access == "write")
        places = (self.places[one] for one in written if one in self.places)
        return {place.path: place.shown for place in places}


class PermittedCall(NamedTuple):
    """A call that may run."""

    prepared: PreparedCall
    approval: Approval


class RefusedCall(NamedTuple):
    """A call that does not run, and what is reported to the model."""

    message: ToolMessage
    headline: Headline
    """The call in one line, as far as it could be read."""
    denied: bool = False
    """Whether a user, or the lack of one, said no; a broken call is no denial."""
    summary: str = ""
    """The same for the user, who knows what they said."""


def prepare_call(
    call: ToolCall,
    tools: Toolset,
    workspace: Workspace,
    judged: Mapping[str, Located] = NONE_JUDGED,
    *,
    edited: bool = False,
) -> PreparedCall | RefusedCall:
    """Everything that is decided on, shown and run, found out once.

    Args:
        call: as the model sent it, or as the user edited it.
        tools: where its tool is found.
        workspace: where its paths start.
        judged: places that were shown already; the paths of these are not resolved again.
        edited: whether the user changed the arguments.
    """
    try:
        tool, args, arguments = find_meant(call.name, call.arguments, tools)
    except ToolError as error:
        return refuse_call(call, str(error))
    sent = call
    if arguments != call.arguments:
        call = call.model_copy(update={"arguments": arguments})
    touched = tuple(tool.touches(args))
    if (stands := PLACEHOLDER.search(call.arguments)) and any(one.access != "read" for one in touched):
        return refuse_call(call, _PLACEHOLDER_SENT.format(name=call.name, stands=stands[0]), tool.headline(args))
    paths = [one.value for one in touched if one.kind == "path"]
    try:
        places = places_of(args, workspace, paths, judged) if paths else NONE_JUDGED
    except ToolError as error:
        return RefusedCall(error_message(call, str(error)), tool.headline(args), denied=True, summary=str(error))
    return PreparedCall(call, sent, tool, args, touched, places, edited)


def headline_of(call: ToolCall, tools: Toolset) -> Headline:
    """The headline of any call, also of one that cannot be prepared."""
    try:
        meant = find_meant(call.name, call.arguments, tools)
    except ToolError as error:
        return refuse_call(call, str(error)).headline
    return meant.tool.headline(meant.args)


def refuse_call(call: ToolCall, text: str, headline: Headline | None = None) -> RefusedCall:
    """A call that does not run, with what is reported to the model; without a headline it is shown by its name."""
    headline = headline or Headline(verb="Called", doing="Calling", asking="Call", target=call.name)
    return RefusedCall(error_message(call, text), headline, summary=text.split("\n", 1)[0])


def error_message(call: ToolCall, text: str) -> ToolMessage:
    """A failed result of one text."""
    return ToolMessage(call_id=call.id, name=call.name, parts=(TextPart(text=text),), is_error=True)


def _call_key(call: ToolCall) -> _Key:
    return call.name, call.arguments


def approval_digest(call: ToolCall, preview: Preview, also: Iterable[str] = ()) -> str:
    """SHA-256 over the tool, its arguments, exactly what is shown, and what else the answer holds for, such as the
    places that were judged."""
    bound = (call.name, call.arguments, json.dumps(preview.model_dump()), *also)  # names may hold what no UTF-8 can
    return hashlib.sha256("\0".join(bound).encode("utf-8", "surrogatepass")).hexdigest()


StepOutcome = Literal["ok", "error", "denied", "interrupted"]


@dataclass(eq=False, repr=False)
class ToolStep:
    """A call of the model, a call that a model server runs by itself, or what a prompt or an MCP server needs.

    Nothing else makes `ToolStarted` and `ToolFinished`. What never ran has an end without a beginning.
    """

    name: str
    """Of the tool, or what stands in its place."""
    headline: Headline
    preview: Preview | None = None
    host: str = ""
    """The server that does it; empty for a call of ours."""
    id: str = ""
    """Of the call. One is made up where none is given: it answers no call, so the step has no place in the history."""
    _began: float | None = field(default=None, init=False)
    """By `time.monotonic`; None while nothing was done."""

    def __post_init__(self) -> None:
        self.id = self.id or f"step-{secrets.token_hex(8)}"

    def started(self, tried_in: str = "") -> ToolStarted:
        """It begins, or begins again with more known of it; its time counts from here.

        Args:
            tried_in: where it is tried without effects, such as ``a sandbox``; empty where it is done.
        """
        self._began = time.monotonic()
        headline = self.headline.model_copy(update={"doing": f"Trying it in {tried_in}"}) if tried_in else self.headline
        return ToolStarted(
            call_id=self.id,
            name=self.name,
            headline=headline,
            preview=self.preview,
            trial=bool(tried_in),
            host=self.host,
        )

    def finished(
        self,
        outcome: StepOutcome,
        summary: str = "",
        *,
        display: MimeBundle | None = None,
        details: dict[str, JsonValue] | None = None,
        has_run: bool = True,
        waited: float = 0.0,
    ) -> ToolFinished:
        """It is over; `has_run` is false where it began and nothing was done. `waited`: seconds, for the user."""
        seconds = time.monotonic() - self._began - waited if self._began is not None and has_run else 0.0
        return ToolFinished(
            call_id=self.id,
            name=self.name,
            headline=self.headline,
            outcome=outcome,
            summary=summary,
            seconds=round(max(0.0, seconds), 3),
            display=display or {},
            details=details or {},
            host=self.host,
        )
