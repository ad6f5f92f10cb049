"""Hosted calls that need approval: how they read on a card and as a step, and how the answer reaches the server."""

import asyncio
import json
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from pydantic import JsonValue

from vibe_jupyter.agent.approval import NOBODY
from vibe_jupyter.agent.call_context import CallContext, approval_digest
from vibe_jupyter.errors import JournalError, ModelError
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.connections import FetchRequest, FetchResult, id_in_path
from vibe_jupyter.llm.hosted_events import HostedCall, HostedCallRequest
from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import (
    PICTURES_MIME,
    ApprovalRequested,
    ApprovalResolved,
    Approve,
    DecidedBy,
    Headline,
    MimeBundle,
    Picture,
    Preview,
    Reject,
    Resource,
    ToolCall,
)

SERVER_WAIT: Final = 300.0
"""Seconds after which the server says no by itself."""
LAST_WORD: Final = 1.5
"""Seconds that a no may take when the run was interrupted."""
ATTEMPTS: Final = 2
"""How often an answer is sent over a connection that breaks; sent twice it does no harm."""
EXPIRED: Final = "expired: the server waits no longer"
UNATTENDED: Final = "nobody can answer here"

HostedDecision = Literal["allowed", "denied", "interrupted"]

OUTPUT_LIMIT: Final = 20_000
"""Characters kept of what a server tells of one call."""
PICTURE_LIMIT: Final = 3_000_000
"""Characters of base64 of one picture."""
PICTURES_LIMIT: Final = 12
"""Pictures of one call, frames of a video among them."""

_MAGIC: Final = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}
"""How pictures begin in base64."""
_VERBS: Final = {
    "code_execution": ("Ran Python code", "Running Python code"),
    "web_search": ("Searched the web", "Searching the web"),
    "shell": ("Ran a command", "Running a command"),
}
_SHOWN: Final = frozenset(
    {"tool_type", "code", "commands", "query", "arguments", "content", "stdout", "stderr", "exception", "images_base64"}
    | {"video_frames_base64", "execution_time_ms"}
)
"""What is shown in a way of its own; all else that a server tells is listed."""


@dataclass(frozen=True)
class HostedCallText:
    """What is known of a call."""

    headline: Headline
    preview: Preview | None = None
    display: MimeBundle = field(default_factory=dict[str, JsonValue])
    outcome: Literal["ok", "error"] = "ok"
    summary: str = ""


class HostedApproval:
    """Asks the user, and tells the server."""

    def __init__(self, call_context: CallContext, client: LLMClient, model: Model) -> None:
        self.closed_by: Literal["server", "interrupt"] = "server"
        """Why a card that waits is closed, when its task is cancelled."""
        self.undecided: set[str] = set()
        """Approvals that wait for the user, by the server's id."""
        self._call_context = call_context
        self._client = client
        self._model = model
        self._approved: dict[str, Approve] = {}

    async def ask(self, approval: HostedCallRequest, call_id: str, about: HostedCallText) -> tuple[HostedDecision, str]:
        """The outcome of asking, and the text for the step. A denial is sent to the server; a yes waits for `deliver`.

        Raises:
            JournalError: the question could not be recorded; the server was told no.
        """
        if not await self._call_context.attended():
            await self._deny_call(approval, NOBODY)
            return "denied", UNATTENDED
        waiting = self._call_context.approvals.open()
        self.undecided.add(approval.id)
        try:
            await self._call_context.emit(self._approval_request(approval, call_id, about, waiting.id))
            async with asyncio.timeout(SERVER_WAIT):
                command = await waiting.answer
        except JournalError:
            await self._deny_call(approval, "", within=LAST_WORD)
            raise
        except (TimeoutError, asyncio.CancelledError) as closed:
            by = self.closed_by if isinstance(closed, asyncio.CancelledError) else "server"
            await self._resolve_approval(waiting.id, call_id, None, by=by)
            await self._deny_call(approval, "", within=LAST_WORD)
            return ("denied", EXPIRED) if by == "server" else ("interrupted", "")
        finally:
            self._call_context.approvals.close(waiting)
            self.undecided.discard(approval.id)
        await self._resolve_approval(waiting.id, call_id, command, by=waiting.by)
        if isinstance(command, Reject):
            problem = await self._deny_call(approval, command.message)
            return "denied", problem or (f"“{command.message.strip()}”" if command.message.strip() else "")
        self._approved[approval.id] = command
        return "allowed", ""

    async def deliver(self, approval: HostedCallRequest) -> str:
        """Tell the server yes; why it did not arrive, or nothing."""
        command = self._approved.pop(approval.id)
        body: dict[str, JsonValue] = {"decision": "approve"}
        if command.remember != "once":
            body["remember_for_session"] = True
        return await self._tell_server(approval, body)

    async def _deny_call(self, approval: HostedCallRequest, message: str, *, within: float | None = None) -> str:
        body: dict[str, JsonValue] = {"decision": "deny"}
        if message.strip():
            body["message"] = message.strip()
        try:
            async with asyncio.timeout(within):
                return await self._tell_server(approval, body)
        except TimeoutError:
            return EXPIRED

    async def _tell_server(self, approval: HostedCallRequest, body: dict[str, JsonValue]) -> str:
        try:
            wanted = FetchRequest("POST", f"/agent/approvals/{id_in_path(approval.id)}", body)
        except ValueError:
            return "the server named no id to answer to"
        problem = ""
        for _ in range(ATTEMPTS):
            try:
                return _delivery_problem(await self._client.fetch(self._model, wanted))
            except ModelError as failure:
                problem = f"the answer did not reach the server: {failure}"
        return problem

    def _approval_request(
        self, approval: HostedCallRequest, call_id: str, about: HostedCallText, waiting_id: str
    ) -> ApprovalRequested:
        host = self._model.server.host
        arguments = json.dumps(approval.arguments, ensure_ascii=False)
        call = ToolCall(id=call_id, name=approval.kind or "server_tool", arguments=arguments)
        preview = about.preview or Preview(kind="code", text=arguments)
        return ApprovalRequested(
            approval_id=waiting_id,
            call=call,
            headline=about.headline,
            preview=preview,
            reason=f"{host} wants to run this by itself, there and not in this kernel",
            resources=(Resource(kind="tool", value=approval.label or approval.kind, access="execute"),),
            remember_as=f"everything that {host} wants to run by itself in this conversation; it then asks no more.",
            digest=approval_digest(call, preview),
        )

    async def _resolve_approval(
        self,
        waiting_id: str,
        call_id: str,
        command: Approve | Reject | None,
        *,
        by: DecidedBy | Literal["interrupt", "server"],
    ) -> None:
        allowed = isinstance(command, Approve)
        await self._call_context.emit(
            ApprovalResolved(
                approval_id=waiting_id,
                call_id=call_id,
                allowed=allowed,
                remember="session" if isinstance(command, Approve) and command.remember != "once" else "once",
                by=by,
                message=command.message if isinstance(command, Reject) else "",
            )
        )


def _delivery_problem(got: FetchResult) -> str:
    """Nothing where the answer was delivered: to what waited, or in time for what is about to wait."""
    if got.status == 404 or got.json.get("status") == "not_found":
        return EXPIRED
    return "" if got.status < 300 else f"the server did not take the answer (status {got.status})"


def pending_call_text(approval: HostedCallRequest, host: str) -> HostedCallText:
    """A call that waits for a yes, with everything it will be given."""
    label = approval.label or approval.kind or "a tool"
    ran, running = _VERBS.get(approval.kind, (f"Used {label}", f"Using {label}"))
    verb = "Run" if approval.kind in _VERBS else "Use"
    headline = Headline(verb=ran, doing=running, asking=f"{verb} {label}", target="", note=f"on {host}")
    return HostedCallText(headline, _arguments_preview(approval.arguments, approval.kind))


def allowed_call_text(about: HostedCallText, host: str) -> HostedCallText:
    """A call that was allowed."""
    return replace(about, headline=about.headline.model_copy(update={"note": _ran_on_note(host)}))


def call_text(call: HostedCall, host: str, before: HostedCallText | None = None) -> HostedCallText:
    """A call that goes on or is over; what was known before stays where nothing new is said."""
    data = call.data
    preview = _result_preview(data) or (before.preview if before else None)
    headline = before.headline if before else _call_headline(call, host)
    if call.phase == "calling":
        return HostedCallText(headline, preview)
    texts = [_labelled_text(data, name) for name in ("content", "stdout", "stderr", "exception")]
    texts += [f"{name}: {_json_text(value)}" for name, value in data.items() if name not in _SHOWN]
    output = head_and_tail("\n".join(filter(None, texts)), OUTPUT_LIMIT)
    pictures = _result_pictures(data)
    display: MimeBundle = {"text/plain": output} if output else {}
    if pictures:
        display[PICTURES_MIME] = [picture.model_dump() for picture in pictures]
    return HostedCallText(
        headline, preview, display, "error" if _has_failed(data) else "ok", _result_summary(data, len(pictures))
    )


def _call_headline(call: HostedCall, host: str) -> Headline:
    verb, doing = _VERBS.get(call.kind, ("Used", "Using"))
    return Headline(verb=verb, doing=doing, asking="Use", target=_call_target(call), note=_ran_on_note(host))


def _ran_on_note(host: str) -> str:
    return f"ran on {host}"


def _call_target(call: HostedCall) -> str:
    query, commands = call.data.get("query"), call.data.get("commands")
    if call.kind == "web_search" and isinstance(query, str):
        return query
    if call.kind == "shell" and isinstance(commands, list) and commands and isinstance(commands[0], str):
        return commands[0]
    return call.name or "a tool"


def _result_preview(data: dict[str, JsonValue]) -> Preview | None:
    code, commands, arguments = (data.get(name) for name in ("code", "commands", "arguments"))
    if isinstance(code, str) and code:
        return Preview(kind="code", text=code, language="python")
    if commands:
        lines = commands if isinstance(commands, list) else [commands]
        return Preview(kind="command", text="\n".join(map(_json_text, lines)))
    return Preview(kind="code", text=_json_text(arguments), language="json") if arguments else None


def _arguments_preview(arguments: JsonValue, kind: str) -> Preview:
    """All arguments. Code stands alone where there is nothing beside it; else each has its name, and what belongs to
    it is set in, so that no text can pass for the name of another."""
    if not isinstance(arguments, dict):
        return Preview(kind="code", text=_json_text(arguments) or "(no arguments)")
    given = {name: value for name, value in arguments.items() if value not in (None, "", [], {})}
    if kind == "code_execution" and list(given) == ["code"] and isinstance(given["code"], str):
        return Preview(kind="code", text=given["code"], language="python")
    lines: list[str] = []
    for name, value in given.items():
        lines.append(f"{json.dumps(name, ensure_ascii=False)[1:-1]}:")
        entries = value if isinstance(value, list) else [value]
        lines += [f"    {line}" for entry in entries for line in _json_text(entry).split("\n")]
    return Preview(kind="code", text="\n".join(lines) or "(no arguments)")


def _labelled_text(data: dict[str, JsonValue], name: str) -> str:
    value = data.get(name)
    if value in (None, ""):
        return ""
    return _json_text(value) if name in ("content", "stdout") else f"{name}: {_json_text(value)}"


def _result_pictures(data: dict[str, JsonValue]) -> list[Picture]:
    pictures: list[Picture] = []
    for name, word in (("images_base64", "picture"), ("video_frames_base64", "frame")):
        values = data.get(name)
        values = values if isinstance(values, list) else []
        for number, value in enumerate(values, 1):
            media_type = _media_type(value)
            if isinstance(value, str) and media_type and len(value) <= PICTURE_LIMIT:
                label = f"{word} {number} of {len(values)}"
                pictures.append(Picture(media_type=media_type, data=value, label=label))
    return pictures[:PICTURES_LIMIT]


def _media_type(value: JsonValue) -> str:
    if not isinstance(value, str):
        return ""
    return next((kind for head, kind in _MAGIC.items() if value.startswith(head)), "")


def _has_failed(data: dict[str, JsonValue]) -> bool:
    return bool(data.get("exception")) or data.get("exit_code") not in (None, 0) or data.get("timed_out") is True


def _result_summary(data: dict[str, JsonValue], shown: int) -> str:
    """A few words on what came of it."""
    words: list[str] = []
    exception, status, found = data.get("exception"), data.get("exit_code"), data.get("results_count")
    if isinstance(exception, str) and exception.strip():
        words.append(exception.strip().rpartition("\n")[2])
    if isinstance(status, int):
        words.append(f"exit status {status}")
    if data.get("timed_out") is True:
        words.append("timed out")
    if isinstance(found, int):
        words.append(f"{found} results")
    counts = (data.get(name) for name in ("images_base64", "video_frames_base64"))
    left_out = sum(len(values) for values in counts if isinstance(values, list)) - shown
    if left_out:
        words.append(f"{left_out} more pictures not shown")
    return ", ".join(words)


def _json_text(value: JsonValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
