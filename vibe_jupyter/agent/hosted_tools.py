"""Hosted tools: steps, approvals and files of calls that the model server runs itself.

A hosted call isn't part of the history, and the rules for our own tools don't apply to it. Approving it for the session
approves that server, in the server's own session.
"""

import asyncio
import base64
import binascii
import itertools
import os
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from vibe_jupyter.agent.call_context import CallContext, ToolStep
from vibe_jupyter.agent.hosted_approval import (
    LAST_WORD,
    UNNAMED,
    HostedApproval,
    HostedCallText,
    allowed_headline,
    call_text,
    pending_call_text,
)
from vibe_jupyter.agent.run import ClosedBy
from vibe_jupyter.errors import JournalError, ModelError
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.connections import FetchRequest, id_in_path
from vibe_jupyter.llm.hosted_events import HostedCall, HostedCallRequest, HostedFile
from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import Approve, FileProduced

NO_END: Final = "the server did not say how it ended"
CUT_OFF: Final = "cut off; it may have run there"

FILE_LIMIT: Final = 64 * 1024 * 1024  # bytes of a file to fetch
CARRIED_LIMIT: Final = 2 * 1024 * 1024  # bytes of a file embedded in the transcript, to be shown and saved from there
PREVIEW_LIMIT: Final = 4_000  # characters of a text preview
NAME_LIMIT: Final = 100  # characters of a file name on this machine

_FOLDER: Final = "files"
_WRONG: Final = re.compile(r"[^\w.()+ -]|^[. ]+|[. ]+$")
_PROBLEMS: Final = {
    404: "the server no longer has it: it keeps files for 30 minutes",
    410: "the server kept its name, but not its content",
    422: "the server could not make it",
}


@dataclass(eq=False, kw_only=True)
class HostedStep(ToolStep):
    """Step of one hosted call."""

    round: int
    kind: str
    tool: str = ""  # the server's name for the tool; '' while only an approval request named the call
    state: Literal["waiting", "running", "denied"] = "running"
    was_asked: bool = False


@dataclass(frozen=True)
class HostedFiles:
    """Storage for files produced by a model server."""

    client: LLMClient
    model: Model
    folder: Path | None  # directory of the session; None if nothing is stored

    async def take(self, file: HostedFile) -> FileProduced:
        """Store a file, and return the event for it. Failures become the file's `problem`, never an error."""
        made = FileProduced(
            file_id=file.id,
            name=file.name or file.id,
            media_type=file.media_type,
            size=file.size,
            host=self.model.server.host,
            problem=file.problem,
        )
        if file.problem:
            return made
        try:
            content = await self._file_content(file)
            path = await self._save_content(made.name, content)
        except (_Missing, ModelError) as problem:
            return made.model_copy(update={"problem": str(problem)})
        except OSError as problem:
            return made.model_copy(update={"problem": f"it could not be kept: {problem.strerror or problem}"})
        carried = base64.b64encode(content).decode() if len(content) <= CARRIED_LIMIT else ""
        said = {"size": len(content), "path": path, "data": carried, "preview": _text_preview(file, content)}
        return made.model_copy(update=said)

    async def _save_content(self, name: str, content: bytes) -> str:
        if self.folder is None:
            return ""
        return str(await asyncio.to_thread(_save_file, self.folder / _FOLDER, safe_name(name), content))

    async def _file_content(self, file: HostedFile) -> bytes:
        if file.text is not None:
            return file.text.encode("utf-8", "replace")
        if file.data is None:
            return await self._fetch_file(file)
        try:
            return base64.b64decode(file.data, validate=True)
        except binascii.Error:
            raise _Missing("the server sent it in a form that cannot be read") from None

    async def _fetch_file(self, file: HostedFile) -> bytes:
        try:
            path = f"/files/{id_in_path(file.id)}/content"
        except ValueError:
            raise _Missing("the server named no id to fetch it by") from None
        got = await self.client.fetch(self.model, FetchRequest("GET", path, most=FILE_LIMIT))
        if got.status != 200:
            raise _Missing(_PROBLEMS.get(got.status, f"the server did not give it out (status {got.status})"))
        return got.content


class HostedTools:
    """Hosted calls and files of one server in one run. Engine loop only."""

    def __init__(self, call_context: CallContext, hosted_files: HostedFiles) -> None:
        self._call_context = call_context
        self._hosted_files = hosted_files
        self._host = hosted_files.model.server.host
        self._approval = HostedApproval(call_context, hosted_files.client, hosted_files.model)
        self._open: list[HostedStep] = []
        self._waits: dict[str, asyncio.Task[None]] = {}  # tasks that ask for approval, by step id
        self._fetches: set[asyncio.Task[None]] = set()
        self._in_order = asyncio.Lock()
        self._files: set[str] = set()  # ids of files that were shown

    async def take(self, event: HostedCall | HostedCallRequest | HostedFile) -> None:
        """Process an event: show it, or ask for approval. Slow work continues in parallel with the response.

        Raises:
            JournalError: an event can't be recorded.
        """
        match event:
            case HostedCall(phase="calling"):
                await self._begin_step(event)
            case HostedCall():
                await self._finish_step(event)
            case HostedCallRequest():
                text = pending_call_text(event, self._host)
                step = self._step_of(event, lambda one: not one.was_asked) or self._add_step(event, text)
                step.state, step.was_asked = "waiting", True
                self._waits[step.id] = asyncio.create_task(self._ask_approval(event, step, text))
                await asyncio.sleep(0)  # start the task now: one cancelled before its start would run no cleanup
            case HostedFile():
                if event.id not in self._files:
                    self._files.update({event.id} - {""})
                    self._fetches.add(asyncio.create_task(self._keep_file(event)))

    async def end(self) -> None:
        """Close the open cards and wait for all files, because the response is complete.

        Raises:
            JournalError: an event can't be recorded.
        """
        await self._settle_steps("server")
        await asyncio.gather(*self._fetches)
        self._fetches.clear()
        for step in self._open:
            if step.state == "running":
                await self._call_context.emit(step.finished("interrupted" if step.tool else "ok", NO_END))
        self._open.clear()

    async def stop(self) -> None:
        """Deny pending approvals and discard everything else, because the response was cut off or interrupted."""
        fetches, self._fetches = self._fetches, set()
        for task in fetches:
            task.cancel()
        steps, self._open = self._open, []
        with suppress(JournalError):  # the end of the run will report it
            await self._settle_steps("interrupt")
            for step in steps:
                if step.state == "running":
                    await self._call_context.emit(step.finished("interrupted", CUT_OFF))
        await asyncio.gather(*fetches, return_exceptions=True)

    async def _begin_step(self, event: HostedCall) -> None:
        text = call_text(event, self._host)
        step = self._step_of(event, lambda one: not one.tool)
        if step is None:
            await self._start_step(event, text)
            return
        step.tool = event.name
        step.name = event.name or step.name
        if step.state == "running":
            step.headline, step.preview = text.headline, text.preview
            await self._call_context.emit(step.started())

    async def _finish_step(self, event: HostedCall) -> None:
        step = self._step_of(event, lambda one: one.tool == event.name)
        step = step or self._step_of(event, lambda one: not one.tool)
        text = call_text(event, self._host, step)
        step = step or await self._start_step(event, text)
        if step.state == "waiting":  # the server stopped waiting and continued
            await self._settle_steps("server", step)
        self._open.remove(step)
        outcome, summary = ("denied", "") if step.state == "denied" else (text.outcome, text.summary)
        await self._call_context.emit(step.finished(outcome, summary, display=text.display))

    async def _ask_approval(self, request: HostedCallRequest, step: HostedStep, text: HostedCallText) -> None:
        """Ask for approval and show the outcome. Runs as a separate task, ended by closing its card."""
        decision, why = await self._approval.ask(request, step.id, text)
        if isinstance(decision, Approve):
            step.state = "running"
            step.headline = allowed_headline(step.headline, self._host)
            await self._call_context.emit(step.started())
            why = await self._approval.deliver(request, decision)
            if not why:
                return
            decision = "denied"
        step.state = "denied"
        await self._call_context.emit(step.finished(decision, why))

    async def _settle_steps(self, by: ClosedBy, only: HostedStep | None = None) -> None:
        """Close open cards: all of them, or that of one step."""
        ids = list(self._waits) if only is None else [only.id]
        tasks = [self._waits.pop(one) for one in ids if one in self._waits]
        for step_id in ids:
            self._approval.close(step_id, by)
        if by == "interrupt" and tasks:
            _, late = await asyncio.wait(tasks, timeout=2 * LAST_WORD)
            for task in late:
                task.cancel()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(outcome, Exception):
                raise outcome

    async def _keep_file(self, file: HostedFile) -> None:
        async with self._in_order:
            made = await self._hosted_files.take(file)
        await self._call_context.emit(made)

    async def _start_step(self, event: HostedCall, text: HostedCallText) -> HostedStep:
        step = self._add_step(event, text)
        step.tool = event.name
        step.name = event.name or step.name
        await self._call_context.emit(step.started())
        return step

    def _add_step(self, event: HostedCall | HostedCallRequest, text: HostedCallText) -> HostedStep:
        step = HostedStep(
            event.kind or UNNAMED, text.headline, text.preview, self._host, round=event.round, kind=event.kind
        )
        self._open.append(step)
        return step

    def _step_of(self, event: HostedCall | HostedCallRequest, fits: Callable[[HostedStep], bool]) -> HostedStep | None:
        """Return the oldest open step that an event may belong to."""
        place = (event.round, event.kind)
        return next((one for one in self._open if (one.round, one.kind) == place and fits(one)), None)


class _Missing(Exception):
    """Raised if a file has no content. The message is for the user."""


def safe_name(name: str) -> str:
    """Return a name that is a single file in a single directory on every platform."""
    last = name.replace("\\", "/").rpartition("/")[2]
    clean = _WRONG.sub("_", last.strip())
    if len(clean) > NAME_LIMIT:
        stem, dot, ending = clean.rpartition(".")
        clean = stem[: NAME_LIMIT - 12] + dot + ending[:11] if stem else clean[:NAME_LIMIT]
    return clean if clean.strip("._ ") else "file"


def _save_file(folder: Path, name: str, content: bytes) -> Path:
    """Write the content under the name or the next free variant of it. Existing files are never touched."""
    folder.mkdir(mode=0o700, exist_ok=True)
    # O_EXCL fails for any existing file or link, including one that was created since the name was chosen.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    for free in _free_names(name):
        try:
            opened = os.open(folder / free, flags, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(opened, "wb") as out:
            out.write(content)
        return folder / free
    raise AssertionError("there is always another name")


def _free_names(name: str) -> Iterator[str]:
    yield name
    stem, dot, ending = name.rpartition(".")
    for number in itertools.count(2):
        yield f"{stem}-{number}.{ending}" if dot and stem else f"{name}-{number}"


def _text_preview(file: HostedFile, content: bytes) -> str:
    """Return the beginning of a text file, or '' for any other file."""
    if file.text is not None:
        return file.text[:PREVIEW_LIMIT]
    if file.preview:
        return file.preview[:PREVIEW_LIMIT]
    if not file.media_type.startswith("text/"):
        return ""
    return content[:PREVIEW_LIMIT].decode("utf-8", "replace")
