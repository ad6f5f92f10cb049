"""Approval of hosted calls: how cards and steps describe them, and how the decision reaches the server."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue

from vibe_jupyter.agent.approval import NOBODY, PendingApproval, card_without_tool
from vibe_jupyter.agent.call_context import CallContext, ToolStep
from vibe_jupyter.agent.run import ClosedBy
from vibe_jupyter.errors import JournalError, ModelError
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.connections import FetchRequest, FetchResult, id_in_path
from vibe_jupyter.llm.hosted_events import HostedCall, HostedCallRequest
from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import (
    PICTURES_MIME,
    ApprovalRequested,
    Approve,
    Headline,
    MimeBundle,
    Picture,
    Preview,
    Resource,
    ToolCall,
)

SERVER_WAIT: Final = 300.0  # seconds after which the server denies the call itself
LAST_WORD: Final = 1.5  # seconds to deliver a denial after an interrupt
ATTEMPTS: Final = 2  # to send a decision if the connection fails; sending it twice is harmless
EXPIRED: Final = "expired: the server stopped waiting"
ONLY_READS: Final = 'this agent only reads (safety = "safe")'
UNATTENDED: Final = "non-interactive session"
UNNAMED: Final = "server_tool"  # shown in the place of a tool name if the server gives none

OUTPUT_LIMIT: Final = 20_000  # characters of the server's output for one call
PICTURE_LIMIT: Final = 3_000_000  # base64 characters of one image
PICTURES_LIMIT: Final = 12  # images of one call, including video frames

# First base64 characters of each image format
_MAGIC: Final = {"iVBOR": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}
_VERBS: Final = {
    "code_execution": ("Ran Python code", "Running Python code"),
    "web_search": ("Searched the web", "Searching the web"),
    "shell": ("Ran a command", "Running a command"),
}
# Fields with a presentation of their own; all other fields are listed
_SHOWN: Final = frozenset(
    {"tool_type", "code", "commands", "query", "arguments", "content", "stdout", "stderr", "exception", "images_base64"}
    | {"video_frames_base64", "execution_time_ms"}
)


@dataclass(frozen=True)
class HostedCallText:
    """Description of a hosted call for cards and steps."""

    headline: Headline
    preview: Preview | None = None
    display: MimeBundle = field(default_factory=dict[str, JsonValue])
    outcome: Literal["ok", "error"] = "ok"
    summary: str = ""


class HostedApproval:
    """Approvals of hosted calls: asks the user, and sends the decision to the server."""

    def __init__(self, call_context: CallContext, client: LLMClient, model: Model) -> None:
        self._call_context = call_context
        self._client = client
        self._model = model
        self._pending: dict[str, PendingApproval] = {}  # open cards by step id

    def close(self, step_id: str, by: ClosedBy) -> None:
        """Close the card of a step, if one is open."""
        if step_id in self._pending:
            self._pending[step_id].close(by)

    async def ask(
        self, request: HostedCallRequest, step_id: str, text: HostedCallText
    ) -> tuple[Approve | Literal["denied", "interrupted"], str]:
        """Ask the user, and return the outcome and the text for the step.

        A denial is sent to the server here, an approval only by `deliver`.

        Raises:
            JournalError: an event can't be recorded. A denial was sent to the server.
        """
        if self._call_context.terms.only_reads:
            await self._deny_call(request, ONLY_READS)
            return "denied", ONLY_READS
        if not await self._call_context.attended():
            await self._deny_call(request, NOBODY)
            return "denied", UNATTENDED
        card = self._approval_card(request, step_id, text)
        pending = PendingApproval(card, self._call_context.approvals, self._call_context.emit)
        self._pending[step_id] = pending
        try:
            command = await pending.ask(within=SERVER_WAIT)
        except (JournalError, asyncio.CancelledError):
            await self._deny_call(request, "", within=LAST_WORD)
            raise
        finally:
            del self._pending[step_id]
        if isinstance(command, Approve):
            return command, ""
        if pending.decided_by in ("server", "interrupt"):
            await self._deny_call(request, "", within=LAST_WORD)
            return ("denied", EXPIRED) if pending.decided_by == "server" else ("interrupted", "")
        words = command.message.strip()
        return "denied", await self._deny_call(request, words) or (f"“{words}”" if words else "")

    async def deliver(self, request: HostedCallRequest, command: Approve) -> str:
        """Send the approval to the server. Returns why it could not be delivered, or ''."""
        body: dict[str, JsonValue] = {"decision": "approve"}
        if command.remember != "once":
            body["remember_for_session"] = True
        return await self._tell_server(request, body)

    async def _deny_call(self, request: HostedCallRequest, message: str, *, within: float | None = None) -> str:
        body: dict[str, JsonValue] = {"decision": "deny"}
        if message.strip():
            body["message"] = message.strip()
        try:
            async with asyncio.timeout(within):
                return await self._tell_server(request, body)
        except TimeoutError:
            return EXPIRED

    async def _tell_server(self, request: HostedCallRequest, body: dict[str, JsonValue]) -> str:
        try:
            wanted = FetchRequest("POST", f"/agent/approvals/{id_in_path(request.id)}", body)
        except ValueError:
            return "the server named no id to answer to"
        problem = ""
        for _ in range(ATTEMPTS):
            try:
                return _delivery_problem(await self._client.fetch(self._model, wanted))
            except ModelError as failure:
                problem = f"the answer did not reach the server: {failure}"
        return problem

    def _approval_card(self, request: HostedCallRequest, step_id: str, text: HostedCallText) -> ApprovalRequested:
        host = self._model.server.host
        arguments = json.dumps(request.arguments, ensure_ascii=False)
        call = ToolCall(id=step_id, name=request.kind or UNNAMED, arguments=arguments)
        preview = text.preview or Preview(kind="code", text=arguments)
        return card_without_tool(
            call,
            text.headline,
            preview,
            f"{host} wants to run this by itself, there and not in this kernel",
            (Resource(kind="tool", value=request.label or request.kind, access="execute"),),
            remember_as=f"everything that {host} wants to run by itself in this conversation; it then asks no more.",
        )


def _delivery_problem(got: FetchResult) -> str:
    """Return why a decision was not delivered, or ''.

    A decision that arrives just before the server waits for it counts as delivered.
    """
    if got.status == 404 or got.json.get("status") == "not_found":
        return EXPIRED
    return "" if got.status < 300 else f"the server did not take the answer (status {got.status})"


def pending_call_text(request: HostedCallRequest, host: str) -> HostedCallText:
    """Describe a call that waits for approval, with all its arguments."""
    label = request.label or request.kind or "a tool"
    ran, running = _VERBS.get(request.kind, (f"Used {label}", f"Using {label}"))
    verb = "Run" if request.kind in _VERBS else "Use"
    headline = Headline(verb=ran, doing=running, asking=f"{verb} {label}", target="", note=f"on {host}")
    return HostedCallText(headline, _arguments_preview(request.arguments, request.kind))


def allowed_headline(headline: Headline, host: str) -> Headline:
    """Return the headline of a call that has been approved."""
    return headline.model_copy(update={"note": _ran_on_note(host)})


def call_text(call: HostedCall, host: str, before: HostedCallText | ToolStep | None = None) -> HostedCallText:
    """Describe a call that is running or has finished. Details missing from the event are taken from `before`."""
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
    """Show all arguments.

    Code is shown alone if it is the only argument. Otherwise each argument has its name, and its value is indented, so
    that no value can pass for the name of another argument.
    """
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
    """Summarize the outcome in one line."""
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
