"""A tool call as values: what it touches, what the policy says, what it gives back to each of its readers."""

import json
from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue

from vibe_jupyter.protocol.messages import ImagePart, TextPart, Value

MimeBundle = dict[str, JsonValue]
"""MIME type to content, as in Jupyter display messages.

The transcript shows ``text/plain``, ``text/markdown``, ``text/x-python``, `TABLE_MIME`, `PLAN_MIME`,
`PICTURES_MIME` and `DOWNLOAD_MIME`; it renders all of them itself, and never passes HTML through.
"""

TABLE_MIME = "application/vnd.vibe.table+json"
"""MIME type of a dumped `Table` in a `MimeBundle`."""

PLAN_MIME = "application/vnd.vibe.plan+json"
"""MIME type of a dumped `Plan` in a `MimeBundle`: the whole plan, in the place of the one before."""

PICTURES_MIME = "application/vnd.vibe.pictures+json"
"""MIME type of a list of dumped `Picture` in a `MimeBundle`."""

DOWNLOAD_MIME = "application/vnd.vibe.download+json"
"""MIME type of a dumped `Download`, or of a list of them, in a `MimeBundle`."""
WHOLE = "*"
"""As `Preview.edits`: the user may edit all arguments, shown as `arguments_text`."""

Level = Literal["always", "ask", "sandbox", "never"]
"""How a tool is allowed in the configuration, in Mistral Vibe's terms."""


Risk = Literal["low", "medium", "high"]
"""How much an approval weighs. ``high``: cannot be undone, leaves this computer, affects others or reads secrets."""


class Table(Value):
    """A small table shown in the detail of a step."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


PlanStatus = Literal["to do", "in progress", "done", "cancelled"]


class PlanItem(Value):
    """One step of a plan."""

    words: str
    status: PlanStatus


class Plan(Value):
    """What the agent means to do, and how far it is."""

    items: tuple[PlanItem, ...]


class Picture(Value):
    """A raster image shown in the detail of a step."""

    media_type: str
    data: str
    """Base64, without line breaks."""
    label: str
    """For who cannot see it, such as ``picture 1 of 2``."""


class Download(Value):
    """A file the user may take out of the transcript."""

    name: str
    data: str
    """Base64; empty where it is too long to be carried along."""
    path: str
    """Where it is kept on this machine; empty where it is not."""
    media_type: str = ""
    """Such as ``audio/wav``, which is played in the live view; empty where it does not matter."""


def arguments_text(arguments: Mapping[str, JsonValue]) -> str:
    """All arguments of a call as a user reads and edits them."""
    return json.dumps(arguments, ensure_ascii=False, indent=2)


class ToolSpec(Value):
    """What the model sees of a tool."""

    name: str
    description: str
    parameters: dict[str, JsonValue]
    """JSON Schema of type object."""


class Headline(Value):
    """A call as one quiet line: a verb in the past tense and its object."""

    verb: str
    """Such as ``Inspected``."""
    doing: str
    """The same while it goes on, such as ``Inspecting``."""
    asking: str
    """The same as a request on an approval card, such as ``Inspect``."""
    target: str
    """The object in code font, such as ``penguins``; empty when the verb says all."""
    note: str = ""
    """A few plain words after the target, such as the model's reason; may be empty."""


class Preview(Value):
    """Exactly what an approval card shows, whole."""

    kind: Literal["code", "command", "diff", "text"]
    text: str
    language: str = ""
    """Pygments name for colours, empty for none."""
    edits: str | None = None
    """Name of the string argument the user may edit before allowing, or `WHOLE`; None when nothing can be edited."""
    note: str = ""
    """A few plain words on the card alone, such as what a server says of its tool; may be empty."""
    made_from: str = ""
    """Fingerprint of the file it was made from, which the approval is bound to; never shown, empty for none."""


class ToolResult(Value):
    """What a call gave: to the model, to the user, to the log."""

    parts: tuple[TextPart | ImagePart, ...]
    """To the model."""
    summary: str = ""
    """To the user, a few words after the headline: ``344 × 8, nulls in 5 columns``."""
    display: MimeBundle = {}
    """To the user, when the line is opened."""
    details: dict[str, JsonValue] = {}
    """To the log."""
    is_error: bool = False

    @classmethod
    def text(cls, text: str, *, summary: str = "", display: MimeBundle | None = None) -> "ToolResult":
        """A successful result of one text part."""
        return cls(parts=(TextPart(text=text),), summary=summary, display=display or {})

    @classmethod
    def error(cls, text: str, *, summary: str = "") -> "ToolResult":
        """A failed result; the model reads `text`, the user `summary` or else the first line of `text`."""
        return cls(parts=(TextPart(text=text),), summary=summary or text.split("\n", 1)[0], is_error=True)


class Resource(Value):
    """One thing a call touches."""

    kind: Literal["path", "command", "code", "variable", "cell", "url", "mcp", "memory", "tool"]
    value: str
    access: Literal["read", "write", "execute"]


class Effect(Value):
    """What one part of a call does, in words. Names of things stand in backticks."""

    part: str
    """As written, such as ``rm -rf cache``; empty where the call has no parts."""
    text: str
    """Such as ``Deletes 1 folder with 14 files (3.0 MB); they don't go to the trash``."""
    detail: str = ""
    """More sentences, such as how it hangs together with the part before; may be empty."""
    tag: str = ""
    """Its kind in a few words, such as ``Can't be undone``."""
    risk: Risk = "medium"
    action: str = ""
    """The effect as a label, such as ``delete 14 files``; empty where it needs none."""


class Allow(Value):
    """The call may run."""

    decision: Literal["allow"] = "allow"
    rule: str
    """Which rule allowed it, in words for the log."""


class Ask(Value):
    """The call runs only after a user approved exactly this call."""

    decision: Literal["ask"] = "ask"
    reason: str
    """Why it asks, in words a user reads on the card: ``runs code in this kernel``."""
    remember_as: str | None
    """The pattern a grant would store; None where only a single approval may be given."""
    keepable: bool = False
    """Whether a grant may be kept for the project, and not for this session alone."""


class Deny(Value):
    """The call does not run."""

    decision: Literal["deny"] = "deny"
    reason: str
    """Read by the model and by the user."""
    in_sandbox: bool = False
    """Whether it may be done all the same where it can have no effects."""


Decision = Allow | Ask | Deny


class Approval(Value):
    """Who let a call run."""

    by: Literal["user", "settings", "code"]
    """``user``: on a card. ``settings``: by `rule`, and nobody was asked. ``code``: a card was answered, and neither a
    click nor typed text was seen."""
    rule: str = ""
    """What allowed it, such as ``edit_cell: always``, ``--yes`` or ``auto_approve``; empty for a card."""
    time: str
    """In UTC, ISO 8601, to the second."""


class RaisedError(Value):
    """The exception a piece of code ended with."""

    name: str
    """Class name, such as ``KeyError``."""
    message: str
    traceback: str
    """Plain text, terminal colours removed."""


class ExecutionResult(Value):
    """A final result: never ``maybe``."""

    status: Literal["ok", "error", "interrupted", "timeout"]
    outputs: tuple[dict[str, JsonValue], ...]
    """nbformat 4 outputs, adjacent streams merged, display updates applied."""
    execution_count: int | None = None
    """None for code that is no cell and enters no history."""
    error: RaisedError | None = None
    """None unless status is error."""
    seconds: float
    names_created: tuple[str, ...] = ()
    names_changed: tuple[str, ...] = ()
    """Names now bound to another object; an object changed in place is not noticed."""
