"""Context of a run for its tool calls, preparation of calls, and streaming of their output.

The user's variables are scanned for secrets after output is printed and before it is shown, because the code may just
have assigned the secret that it prints. A scan takes longer the more variables there are. Scans are therefore limited
to a share of the time, and output that arrives faster is shown in batches, each after the next scan.

A call is prepared once. The policy's decision, the card and the files that the tool opens all come from one
`PreparedCall`, so that nothing can change between check and use. In particular, no path is resolved a second time.
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
from vibe_jupyter.llm.request import NEVER_RUN
from vibe_jupyter.permissions.decide import CommandJudgement, Permissions, RunTerms
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

LOOK_SHARE: Final = 0.05  # maximum share of the time for scanning variables while a call prints
WAITING_LIMIT: Final = 262_144  # characters of buffered output that trigger a scan immediately

_PLACEHOLDER_SENT: Final = (
    "The arguments of {name} hold {stands}. That stands for a secret which is not shown to you; written, it would "
    "replace the secret. Nothing was run or changed. Leave the text around it as it is and change other lines, or have "
    "the code read the value from a variable or the environment."
)

FAILED_AGAIN: Final = " (the same call failed in the same way before; change something before you send it again)"
# Differences between equal failures: memory addresses and durations
_VARYING: Final = lazy_pattern(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)? s\b")
_Key = tuple[str, str]


class Decided(NamedTuple):
    """The user's decision on a card."""

    command: Approve | Reject
    approval: Approval  # who approved and when; meaningless for a rejection


class DuplicateCalls:
    """Decisions on the calls of the current answer, shared by identical calls."""

    def __init__(self) -> None:
        self._left: Counter[_Key] = Counter()
        self._said: dict[_Key, tuple[str, Decided]] = {}
        self.reviewed: set[str] = set()  # ids of the calls that were asked for together with others, before their turn

    def begin(self, calls: Sequence[ToolCall]) -> None:
        """Start a new answer, and discard the decisions on the previous one."""
        self._left = Counter(map(_call_key, calls))
        self._said.clear()
        self.reviewed.clear()

    def count(self, call: ToolCall) -> int:
        """Return how many calls of this answer are identical to the given one."""
        return self._left[_call_key(call)]

    def said(self, call: ToolCall, digest: str) -> Decided | None:
        """Return the user's decision on exactly this call in the current turn, or None."""
        shown, decided = self._said.get(_call_key(call), ("", None))
        return decided if shown == digest else None

    def keep(self, call: ToolCall, digest: str, decided: Decided) -> None:
        """Store a decision for identical calls that follow, and for a call whose turn comes later."""
        if self.count(call) > 1 or call.id in self.reviewed:
            self._said[_call_key(call)] = (digest, decided)


class FailedCalls:
    """Failures of a run's calls, used to shorten repeated ones."""

    def __init__(self) -> None:
        self._texts: dict[_Key, str] = {}

    def shorten(self, tool: str, arguments: str, result: ToolResult) -> ToolResult:
        """Return the result of a call, shortened to one line if an identical call already failed in the same way."""
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
    """Lazy check whether a user can approve calls. Engine loop only."""

    def __init__(
        self,
        find_out: Callable[[], Awaitable[bool]] | None,
        *,
        emit: Callable[[Event], Awaitable[None]],
        known: bool | None = None,
    ) -> None:
        """
        Args:
            find_out: asks the front end, which may take seconds; None if `known` is final.
            emit: receives the notice that no user is present.
            known: result if known in advance; None to find out at the first question.
        """
        self._find_out = find_out
        self._emit = emit
        self._known = True if known is None and find_out is None else known
        self._asking = asyncio.Lock()

    @property
    def is_alone(self) -> bool:
        """True if it is known that no user can answer."""
        return self._known is False

    async def attended(self) -> bool:
        """Return whether a user can answer. Shows a notice if it turns out that none can."""
        async with self._asking:
            if self._known is None and self._find_out is not None:
                self._known = await self._find_out()
                if not self._known:
                    await self._emit(Notice(level="warning", text=NOBODY_IS_HERE))
        return bool(self._known)


class CallContext(NamedTuple):
    """Context of a run for its tool calls."""

    tools: Toolset
    permissions: Permissions
    terms: RunTerms
    equal: DuplicateCalls
    failed: FailedCalls
    redactor: Redactor  # redacts results that are stored before they become events
    approvals: PendingRequests[Approve | Reject]
    questions: PendingRequests[Answer]
    # Returns whether a user can answer; the first call of a run may take seconds
    attended: Callable[[], Awaitable[bool]]
    emit: Callable[[Event], Awaitable[None]]  # records the event if it is durable, then shows it
    show: Callable[[ToolProgress], None]  # shows progress; thread-safe
    # Directory for results that are too long for the model; None if it has no tool to read them there
    results: Path | None
    cancelled: Callable[[], bool]  # returns whether the run was interrupted or is out of time
    # Runs a sub-agent with a call id, an agent name and a task; None if delegation isn't allowed
    delegate: Callable[[str, str, str], Awaitable[SubagentReport]] | None = None
    snapshots: RunSnapshots | None = None  # saves what calls are about to change; None if nothing is saved
    newly_lost: Callable[[], Awaitable[Sequence[str]]] | None = None  # see `Agent`
    schema_only: bool = False  # True if no values of the user's data may be sent
    model: str = ""  # who makes the calls: ``model@host``, or the external client
    # Seconds that the call with this id has waited for the user
    waited_in: Callable[[str], float] = lambda _call_id: 0.0
    turn: Callable[[], int] = lambda: 0  # number of the current request, from 1; 0 if there is none
    is_time_up: Callable[[], bool] = lambda: False  # True once calls are being ended because the run is out of time
    # Ends the run after the calls of this answer, with a text for the user
    stop: Callable[[str], None] = lambda _why: None


def shown(event: Event, kept: Event) -> Event:
    """Return the event for views: the redacted one (`kept`), except that a card shows exactly what would run."""
    if isinstance(event, ApprovalRequested) and isinstance(kept, ApprovalRequested) and event != kept:
        return event.model_copy(update={"kept": kept})
    return kept


class ProgressStreams:
    """Redacted progress streams, one per call. Thread-safe.

    Output that is still buffered when a call ends is in the result of that call.
    """

    def __init__(self, redactor: Redactor, show: Callable[[ToolProgress], None]) -> None:
        """Must be called on the event loop on which delayed output is to be shown."""
        self._redactor = redactor
        self._show = show
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._call_id = ""
        self._stream = self._new_stream()
        self._waiting: list[str] = []  # output since the latest scan
        self._characters = 0
        self._next_look = 0.0  # on the clock of `time.monotonic`
        self._has_timer = False

    def _new_stream(self) -> RedactedStream:
        return RedactedStream(self._redactor, of_output=True)

    def take(self, progress: ToolProgress) -> None:
        """Show the progress now, or together with other output after the next scan."""
        if progress.done is not None or progress.waits is not None:  # a complete text, not a part of a stream
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
        """Discard output not shown yet: the call has ended, or its trial has and a card is shown instead."""
        with self._lock:
            if call_id == self._call_id:
                self._call_id, self._waiting, self._characters = "", [], 0

    def _pass_on_late(self) -> None:
        with self._lock:
            self._has_timer = False
            self._pass_on()

    def _pass_on(self) -> None:
        """Scan the variables, then show the output that was printed before the scan."""
        if not self._waiting:
            return
        began = time.monotonic()
        self._redactor.look()
        ended = time.monotonic()
        # A scan that took d seconds is followed by a pause of d / LOOK_SHARE.
        self._next_look = ended + (ended - began) / LOOK_SHARE
        text = self._stream.feed("".join(self._waiting))
        self._waiting, self._characters = [], 0
        if text:
            self._show(ToolProgress(call_id=self._call_id, text=text))


@dataclass(frozen=True, eq=False, repr=False)
class PreparedCall:
    """A resolved and validated call, exactly as it would run."""

    call: ToolCall  # with the arguments as they were understood, which are shown and approved
    sent: ToolCall  # as sent by the model, or as edited by the user
    tool: Tool[Any]
    args: BaseModel
    touched: Sequence[Resource]
    # Where each accessed path led when the call was prepared. The tool opens these locations.
    places: Mapping[str, Located]
    edited: bool = False  # True if the user changed the arguments on the card
    notes: tuple[str, ...] = ()  # remarks of the user's hooks for the model, appended to the result
    # Why a hook of the user or the tool itself requires approval, whatever else allows the call; '' if none does
    asks: str = ""
    judgement: CommandJudgement = field(default_factory=CommandJudgement)  # verdict on its shell command

    @cached_property
    def headline(self) -> Headline:
        """Description of the call in one line."""
        return self.tool.headline(self.args)

    @cached_property
    def preview(self) -> Preview:
        """Everything that the call would do.

        Computed on first use, because it may read files, which a denied call must not.
        """
        return self.tool.preview(self.args)

    @cached_property
    def digest(self) -> str:
        """Hash that an approval is bound to."""
        identities = (part for place in self.places.values() for part in place.identity)
        return approval_digest(self.call, self.preview, identities)

    @property
    def written_files(self) -> Mapping[Path, str]:
        """Files that the call is declared to write, with their display paths."""
        written = (one.value for one in self.touched if one.kind == "path" and one.access == "write")
        places = (self.places[one] for one in written if one in self.places)
        return {place.path: place.shown for place in places}


class PermittedCall(NamedTuple):
    """A call that is allowed to run."""

    prepared: PreparedCall
    approval: Approval


class RefusedCall(NamedTuple):
    """A call that does not run, with the result for the model."""

    message: ToolMessage
    headline: Headline  # description of the call in one line, as far as it could be parsed
    denied: bool = False  # True for a denial, also if no user was present; False for an invalid call
    summary: str = ""  # reason as shown to the user, who knows their own message


def prepare_call(
    call: ToolCall,
    tools: Toolset,
    workspace: Workspace,
    judged: Mapping[str, Located] = NONE_JUDGED,
    *,
    edited: bool = False,
) -> PreparedCall | RefusedCall:
    """Resolve everything that the decision, the card and the execution of a call depend on, exactly once.

    Args:
        call: as sent by the model, or as edited by the user.
        tools: available tools.
        workspace: base of relative paths.
        judged: locations that were already shown. Their paths aren't resolved again.
        edited: whether the user changed the arguments.
    """
    if (cut := NEVER_RUN.get(call.mark)) is not None:
        return refuse_call(call, cut, headline_of(call.model_copy(update={"mark": ""}), tools))
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
    """Return the headline of any call, including one that can't be prepared."""
    try:
        meant = find_meant(call.name, call.arguments, tools)
    except ToolError as error:
        return refuse_call(call, str(error)).headline
    return meant.tool.headline(meant.args)


def refuse_call(call: ToolCall, text: str, headline: Headline | None = None) -> RefusedCall:
    """Build a refusal with a message for the model. Without a headline, the call is shown by its tool name."""
    headline = headline or Headline(verb="Called", doing="Calling", asking="Call", target=call.name)
    return RefusedCall(error_message(call, text), headline, summary=text.split("\n", 1)[0])


def error_message(call: ToolCall, text: str) -> ToolMessage:
    """Build a failed result that consists of one text."""
    return ToolMessage(call_id=call.id, name=call.name, parts=(TextPart(text=text),), is_error=True)


def _call_key(call: ToolCall) -> _Key:
    return call.name, call.arguments


def approval_digest(call: ToolCall, preview: Preview, also: Iterable[str] = ()) -> str:
    """Return the SHA-256 of everything that an approval is bound to.

    That is the tool, its arguments, exactly what is shown, and `also`, such as the resolved paths.
    """
    bound = (call.name, call.arguments, json.dumps(preview.model_dump()), *also)  # names may contain surrogates
    return hashlib.sha256("\0".join(bound).encode("utf-8", "surrogatepass")).hexdigest()


StepOutcome = Literal["ok", "error", "denied", "interrupted"]


@dataclass(eq=False, repr=False)
class ToolStep:
    """A step of a run: a tool call, a hosted call, or something that a prompt or an MCP server needs.

    `ToolStarted` and `ToolFinished` are created only here. A call that never ran finishes without having started.
    """

    name: str  # name of the tool, or a substitute
    headline: Headline
    preview: Preview | None = None
    host: str = ""  # server that runs the call; '' for local calls
    mark: str = ""  # how the call arrived if that was unusual; appended to the summary
    id: str = ""  # Call id. Generated if not given: such a step answers no call, so it has no place in the history.
    _began: float | None = field(default=None, init=False)  # on the clock of `time.monotonic`; None if nothing was done

    def __post_init__(self) -> None:
        self.id = self.id or f"step-{secrets.token_hex(8)}"

    def started(self, tried_in: str = "") -> ToolStarted:
        """Start the step, or restart it with more information. Its duration counts from here.

        Args:
            tried_in: name of the isolated environment, such as ``a sandbox``, if the call is only tried; else ''.
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
        """Finish the step.

        `has_run` is False if the step started but nothing was done. `waited` is the time in seconds spent waiting for
        the user, which doesn't count as duration.
        """
        seconds = time.monotonic() - self._began - waited if self._began is not None and has_run else 0.0
        return ToolFinished(
            call_id=self.id,
            name=self.name,
            headline=self.headline,
            outcome=outcome,
            summary=" · ".join(filter(None, (summary, self.mark))),
            seconds=round(max(0.0, seconds), 3),
            display=display or {},
            details=details or {},
            host=self.host,
        )
