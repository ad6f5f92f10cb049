"""What goes into a run (commands, answers to questions) and what comes out of it (events).

Durable events are kept by the journal, and history and transcript are folds over them.
"""

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue

from vibe_jupyter.protocol.messages import Delta, Message, ToolCall, Usage, Value
from vibe_jupyter.protocol.tools import Effect, Headline, MimeBundle, Preview, Resource, Risk

DecidedBy = Literal["person", "nobody", "code"]
"""Where a decision came from: a click or typed text that was seen to arrive, a front end that nobody answers at, or
code in this process."""

FinishReason = Literal[
    "stop",
    "length",
    "tool_calls",
    "turn_limit",
    "price_limit",
    "token_limit",
    "time_limit",
    "loop",
    "interrupted",
    "refused",
    "error",
]

ALLOW_ONCE: Final = "Allow once"
"""On the button for yes, where a card says nothing else."""


class Approve(Value):
    """Let the call run."""

    type: Literal["approve"] = "approve"
    approval_id: str
    remember: Literal["once", "session", "project"] = "once"
    """How long the shown pattern is allowed; ``project`` counts as ``session`` where it was not offered."""
    edited: str | None = None
    """The user's version of the argument that `Preview.edits` names; None when it was left as shown."""


class Reject(Value):
    """Do not run the call."""

    type: Literal["reject"] = "reject"
    approval_id: str
    message: str = ""
    """The user's words to the model; may be empty."""


class Answered(Value):
    """The user's answer to one question: what they chose, and what they wrote."""

    question: str
    selected: tuple[str, ...] = ()
    """Labels, in the order of the options."""
    other: str = ""
    """Their own words; empty when they wrote none."""

    @property
    def words(self) -> str:
        """The whole answer in one line."""
        return ", ".join(filter(None, (*self.selected, self.other))) or "(no answer)"


class Answer(Value):
    """What the user says to questions."""

    type: Literal["answer"] = "answer"
    question_id: str
    answers: tuple[Answered, ...] | None
    """One for each question, in order; None when the user wants to answer none."""


class Interrupt(Value):
    """End the run: answer every open call, keep what was said."""

    type: Literal["interrupt"] = "interrupt"


Command = Annotated[Approve | Reject | Answer | Interrupt, Field(discriminator="type")]


class Choice(Value):
    """One answer to choose."""

    label: str
    description: str = ""


class Question(Value):
    """One thing to know. Free text is always an answer as well."""

    question: str
    header: str = ""
    """A word or two that stand for it, such as ``Encoding``."""
    options: tuple[Choice, ...] = ()
    """Empty where only free text makes sense."""
    multi_select: bool = False
    link: str = ""
    """An address the user may open, shown in full beside it; nothing opens it by itself. Empty for none."""


class RunStarted(Value):
    """A prompt was taken."""

    type: Literal["run_started"] = "run_started"
    run_id: str
    model: str
    provider: str
    """Host the prompt goes to, such as ``api.mistral.ai``."""
    agent: str
    """Name of the profile."""
    prompt: str = ""
    """As the user wrote it, but for secrets; empty for a run of another kind."""
    schema_only: bool = False
    """Whether no value of the user's data is sent."""


class TurnStarted(Value):
    """A request goes to the model."""

    type: Literal["turn_started"] = "turn_started"
    turn: int
    """From 1."""
    context: float | None = None
    """Share of the model's window that the request takes, about; None where the window is not known."""


class RequestSent(Value):
    """That request is on its way: from now on there is time while the model works."""

    type: Literal["request_sent"] = "request_sent"


class AnswerAwaited(Value):
    """The model server has sent no part of its answer for some seconds. The next part ends the wait."""

    type: Literal["answer_awaited"] = "answer_awaited"
    has_begun: bool
    """True if a part of the answer has come."""
    seconds: float
    """Of silence so far."""
    limit: float | None
    """Seconds of silence after which the request is given up; None for no limit."""


class MessageAdded(Value):
    """A message is complete."""

    type: Literal["message_added"] = "message_added"
    message: Message
    in_history: bool = True
    """False for an answer that was cut off: the user keeps its text, the model is not sent it again."""


class HistoryEdit(Value):
    """Some messages that follow each other, and what takes their place."""

    at: int
    """Of the first, from 0, in the history before."""
    length: int
    """How many."""
    by: tuple[Message, ...] = ()


class CarriedOver(Value):
    """What a compaction keeps word for word, for the next one."""

    prompts: tuple[str, ...] = ()
    """The user's own, oldest first."""
    made: tuple[str, ...] = ()
    """Cells and files, a line each."""
    plan: str = ""
    """The list of steps as the agent wrote it last."""


class HistoryRewritten(Value):
    """The history that the model is sent was changed; the journal keeps what was there before."""

    type: Literal["history_rewritten"] = "history_rewritten"
    kind: Literal["shortened", "compacted", "dropped"]
    """``shortened``: old results and pictures; ``compacted``: summarised; ``dropped``: an exchange, by the user."""
    length: int
    """Messages there were."""
    edits: tuple[HistoryEdit, ...]
    """In order, without overlap."""
    tokens_before: int
    """Of a request with that history, about."""
    tokens_after: int
    carried: CarriedOver = CarriedOver.model_construct()


class Review(Value):
    """Changes of one answer that are shown together, each with a decision of its own."""

    id: str
    size: int
    """How many there are."""


class ApprovalRequested(Value):
    """A call waits for a user."""

    type: Literal["approval_requested"] = "approval_requested"
    approval_id: str
    call: ToolCall
    headline: Headline
    preview: Preview
    reason: str
    resources: tuple[Resource, ...]
    remember_as: str | None
    """What a grant would cover; None when it is not offered."""
    keepable: bool = False
    """Whether it may be granted for the project, and not for this session alone."""
    digest: str
    """SHA-256 of tool, arguments and what was shown; a decision names it."""
    allow: str = ALLOW_ONCE
    """What the button for yes says."""
    risk: Risk = "medium"
    """How much it weighs; no card with ``high`` offers more than once, and Enter does not answer it."""
    effects: tuple[Effect, ...] = ()
    """What each part of a shell command does, in the order in which they are written; empty for other calls."""
    review: Review | None = None
    """The changes that it is shown with; None where it is asked alone."""
    kept: "ApprovalRequested | None" = Field(default=None, exclude=True)
    """The same without secrets, where that differs: what is left of the card once it is answered. Never recorded."""


class ApprovalResolved(Value):
    """The waiting ended."""

    type: Literal["approval_resolved"] = "approval_resolved"
    approval_id: str
    call_id: str
    allowed: bool
    remember: Literal["once", "session", "project"] = "once"
    by: DecidedBy | Literal["interrupt", "server", "rules"]
    """``code``: no click and no typed text came before it; ``server``: the model server, whose call it was, waits no
    longer; ``rules``: the call as it was edited is not allowed, or no call any more, or it is `outdated`."""
    outdated: bool = False
    """Whether what it would change was changed meanwhile: neither yes nor no. It is asked again if it still fits."""
    message: str = ""
    arguments: str | None = None
    """The call's arguments after the user edited them; None when they stayed as shown."""


class QuestionAsked(Value):
    """A running call wants to know something from the user."""

    type: Literal["question_asked"] = "question_asked"
    question_id: str
    call_id: str
    asker: str = ""
    """Who asks, such as ``the server github``; empty for the agent itself."""
    questions: tuple[Question, ...]


class QuestionAnswered(Value):
    """The waiting ended."""

    type: Literal["question_answered"] = "question_answered"
    question_id: str
    call_id: str
    answers: tuple[Answered, ...] | None
    """One for each question; None when the user answered none."""
    by: DecidedBy | Literal["interrupt", "server"]
    """``code``: no click and no typed text came before it; ``server``: who asked wants to know it no more."""


class ToolStarted(Value):
    """A call began to run; written before its effect, so that a crash leaves a trace of it."""

    type: Literal["tool_started"] = "tool_started"
    call_id: str
    name: str
    headline: Headline
    preview: Preview | None = None
    """What the line shows when opened while the tool runs; None when the headline says all."""
    trial: bool = False
    """Whether it is tried first where it has no effects. If that isn't enough, the call is asked about, then starts."""
    host: str = ""
    """The model server that runs it by itself; empty for a call of ours. Such a call is no part of the history: its
    id answers no `ToolCall`."""


class ToolProgress(Value):
    """A running call has something to show."""

    type: Literal["tool_progress"] = "tool_progress"
    call_id: str
    text: str
    """New output since the last progress event; where `done` is given, a few words on where it is."""
    done: float | None = None
    """How far it is, in units of its own; None where the tool does not say."""
    total: float | None = None
    """How far it goes; None where that is not known."""
    waits: bool | None = None
    """Whether the call waits from now on for what the user types; None where this is not about that."""


class ToolFinished(Value):
    """A call ended. A call that never ran (denied, unknown, broken arguments) has no ToolStarted before it."""

    type: Literal["tool_finished"] = "tool_finished"
    call_id: str
    name: str
    headline: Headline
    outcome: Literal["ok", "error", "denied", "interrupted"]
    summary: str = ""
    seconds: float = 0.0
    """0 where nothing was done."""
    display: MimeBundle = {}
    details: dict[str, JsonValue] = {}
    host: str = ""
    """As in `ToolStarted`."""


class FileProduced(Value):
    """The model server made a file while it answered."""

    type: Literal["file_produced"] = "file_produced"
    file_id: str
    name: str
    media_type: str
    size: int
    """Bytes, as far as known."""
    host: str
    """The model server that made it."""
    path: str = ""
    """Where it is kept on this machine; empty where it is not."""
    data: str = ""
    """Base64 of its content, where that is small enough to be shown; else empty."""
    preview: str = ""
    """The beginning of a text."""
    problem: str = ""
    """Why there is no such file, in words for the user; empty where there is one."""


class Notice(Value):
    """Something the user should know that is no message: a retry, a fall-back."""

    type: Literal["notice"] = "notice"
    level: Literal["info", "warning"]
    text: str
    wait: float = Field(default=0.0, ge=0)
    """Seconds that are waited from now on, for a view to count down; 0 for none."""


class Change(Value):
    """One cell or file that is not as it was before a run."""

    kind: Literal["cell", "file"]
    name: str
    """The cell's id, or the file's path: relative to the project where it is inside."""
    what: Literal["edited", "new", "deleted", "moved"]
    was: str = ""
    """How the user knew a cell that is gone, such as ``[4]``."""


class RunFinished(Value):
    """The run is over. Exactly one, always the last."""

    type: Literal["run_finished"] = "run_finished"
    reason: FinishReason
    turns: int
    seconds: float
    """Of work: without the time in which it waited for the user."""
    waited: float = 0.0
    """Seconds in which it waited for the user."""
    usage: Usage
    cost: float | None = None
    """US dollars; None where the prices of the model are not known."""
    error: str = ""
    """For reason error: what happened and the next step, for the user."""
    changed: tuple[Change, ...] = ()
    """What its tools changed, cells first."""


DurableEvent = Annotated[
    RunStarted
    | MessageAdded
    | HistoryRewritten
    | ApprovalRequested
    | ApprovalResolved
    | QuestionAsked
    | QuestionAnswered
    | ToolStarted
    | ToolFinished
    | FileProduced
    | RunFinished,
    Field(discriminator="type"),
]
DURABLE_EVENTS = (
    RunStarted,
    MessageAdded,
    HistoryRewritten,
    ApprovalRequested,
    ApprovalResolved,
    QuestionAsked,
    QuestionAnswered,
    ToolStarted,
    ToolFinished,
    FileProduced,
    RunFinished,
)

Event = DurableEvent | TurnStarted | RequestSent | AnswerAwaited | ToolProgress | Notice | Delta
