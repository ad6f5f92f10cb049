"""Hosted tools: calls that the model server runs by itself: their steps, our cards for them, and their files.

A call of the server is none of ours: it has no place in the history, our rules for tools do not hold for it, and a yes
for the session is a yes to that server in that session of its own.
"""

import asyncio
import base64
import binascii
import itertools
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from vibe_jupyter.agent.call_context import CallContext
from vibe_jupyter.agent.hosted_approval import (
    LAST_WORD,
    HostedApproval,
    HostedCallText,
    allowed_call_text,
    call_text,
    pending_call_text,
)
from vibe_jupyter.errors import JournalError, ModelError
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.connections import FetchRequest, id_in_path
from vibe_jupyter.llm.hosted_events import HostedCall, HostedCallRequest, HostedFile
from vibe_jupyter.llm.request import Model
from vibe_jupyter.protocol import FileProduced, ToolFinished, ToolStarted

NO_END: Final = "the server did not say how it ended"
CUT_OFF: Final = "cut off; it may have run there"

FILE_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of one file that is fetched."""
CARRIED_LIMIT: Final = 2 * 1024 * 1024
"""Bytes of a file that the transcript carries along, to be shown and saved from there."""
PREVIEW_LIMIT: Final = 4_000
"""Characters of a text shown."""
NAME_LIMIT: Final = 100
"""Characters of a file's name on this machine."""

_FOLDER: Final = "files"
_WRONG: Final = re.compile(r"[^\w.()+ -]|^[. ]+|[. ]+$")
_PROBLEMS: Final = {
    404: "the server has it no longer: it keeps files for 30 minutes",
    410: "the server kept its name, but not its content",
    422: "the server could not make it",
}


@dataclass
class HostedStep:
    """One call of the server, as far as it went."""

    round: int
    kind: str
    told: HostedCallText
    name: str = ""
    """The server's name for the tool; empty where only an approval told of the call so far."""
    id: str = field(default_factory=lambda: f"server-{secrets.token_hex(8)}")
    state: Literal["waiting", "running", "denied"] = "running"
    was_asked: bool = False
    began: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class HostedFiles:
    """Where files of a server go."""

    client: LLMClient
    model: Model
    folder: Path
    """The session's own."""

    async def take(self, file: HostedFile) -> FileProduced:
        """Keep a file and say so. What cannot be had is a file with a problem, never an error."""
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
            path = await asyncio.to_thread(_save_file, self.folder / _FOLDER, safe_name(made.name), content)
        except (_Missing, ModelError) as problem:
            return made.model_copy(update={"problem": str(problem)})
        except OSError as problem:
            return made.model_copy(update={"problem": f"it could not be kept: {problem.strerror or problem}"})
        carried = base64.b64encode(content).decode() if len(content) <= CARRIED_LIMIT else ""
        said = {"size": len(content), "path": str(path), "data": carried, "preview": _text_preview(file, content)}
        return made.model_copy(update=said)

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
    """Folds what one server does in one run. Engine loop only."""

    def __init__(self, call_context: CallContext, hosted_files: HostedFiles) -> None:
        self.acted = False
        """Whether it did anything since `begin`: its answer is then not asked for a second time."""
        self._call_context = call_context
        self._hosted_files = hosted_files
        self._host = hosted_files.model.server.host
        self._approval = HostedApproval(call_context, hosted_files.client, hosted_files.model)
        self._open: list[HostedStep] = []
        self._waits: dict[str, tuple[str, asyncio.Task[None]]] = {}
        """Approvals that are asked for: the server's id and who asks, by the id of the step."""
        self._fetches: set[asyncio.Task[None]] = set()
        self._in_order = asyncio.Lock()
        self._files: set[str] = set()
        """Ids of files that were shown."""

    def begin(self) -> None:
        """An answer is asked for."""
        self.acted = False

    async def take(self, event: HostedCall | HostedCallRequest | HostedFile) -> None:
        """Show one thing, or ask; what takes long goes on beside the answer.

        Raises:
            JournalError: it could not be recorded.
        """
        self.acted = True
        match event:
            case HostedCall(phase="calling"):
                await self._begin_step(event)
            case HostedCall():
                await self._finish_step(event)
            case HostedCallRequest():
                step = self._step_of(event.round, event.kind, lambda one: not one.was_asked)
                step = step or self._add_step(HostedStep(event.round, event.kind, pending_call_text(event, self._host)))
                step.state, step.was_asked = "waiting", True
                self._waits[step.id] = (event.id, asyncio.create_task(self._ask_approval(event, step)))
                await asyncio.sleep(0)  # it begins now, so that it can be ended in its own way at any time
            case HostedFile():
                if event.id not in self._files:
                    self._files.update({event.id} - {""})
                    self._fetches.add(asyncio.create_task(self._keep_file(event)))

    async def end(self) -> None:
        """The answer is complete: nothing waits any more, and all files are there.

        Raises:
            JournalError: something could not be recorded.
        """
        await self._settle_steps("server")
        await asyncio.gather(*self._fetches)
        self._fetches.clear()
        for step in self._open:
            if step.state == "running":
                known = bool(step.name)
                await self._emit_finished(step, "interrupted" if known else "ok", NO_END)
        self._open.clear()

    async def stop(self) -> None:
        """The answer was cut off or interrupted: say no to what waits, and forget the rest."""
        fetches, self._fetches = self._fetches, set()
        for task in fetches:
            task.cancel()
        steps, self._open = self._open, []
        with suppress(JournalError):  # the end of the run meets the same journal, and says so
            await self._settle_steps("interrupt")
            for step in steps:
                if step.state == "running":
                    await self._emit_finished(step, "interrupted", CUT_OFF)
        await asyncio.gather(*fetches, return_exceptions=True)

    async def _begin_step(self, event: HostedCall) -> None:
        step = self._step_of(event.round, event.kind, lambda one: not one.name)
        if step is None:
            step = self._add_step(HostedStep(event.round, event.kind, call_text(event, self._host), event.name))
            await self._emit_started(step)
        elif step.state == "running":
            step.name, step.told = event.name, call_text(event, self._host)
            await self._emit_started(step)
        else:
            step.name = event.name

    async def _finish_step(self, event: HostedCall) -> None:
        step = self._step_of(event.round, event.kind, lambda one: one.name == event.name)
        step = step or self._step_of(event.round, event.kind, lambda one: not one.name)
        if step is None:
            step = self._add_step(HostedStep(event.round, event.kind, call_text(event, self._host), event.name))
            if event.kind == "record":
                step.began = time.monotonic()
            await self._emit_started(step)
        if step.state == "waiting":  # it went on without an answer: time was up there
            await self._settle_steps("server", step)
        self._open.remove(step)
        step.told = call_text(event, self._host, step.told)
        if step.state == "denied":
            await self._emit_finished(step, "denied", "")
        else:
            await self._emit_finished(step, step.told.outcome, step.told.summary)

    async def _ask_approval(self, approval: HostedCallRequest, step: HostedStep) -> None:
        """Ask, and then say what came of it. A task of its own, which ends well however it ends."""
        said, why = await self._approval.ask(approval, step.id, pending_call_text(approval, self._host))
        if said == "allowed":
            step.state = "running"
            step.began = time.monotonic()
            step.told = allowed_call_text(step.told, self._host)
            await self._emit_started(step)
            why = await self._approval.deliver(approval)
            if not why:
                return
        step.state = "denied"
        await self._emit_finished(step, "interrupted" if said == "interrupted" else "denied", why)

    async def _settle_steps(self, by: Literal["server", "interrupt"], only: HostedStep | None = None) -> None:
        """Close the cards that wait."""
        ids = list(self._waits) if only is None else [only.id]
        waits = [self._waits.pop(one) for one in ids if one in self._waits]
        tasks = [task for _, task in waits]
        for approval_id, task in waits:
            if approval_id in self._approval.undecided:
                self._approval.closed_by = by
                task.cancel()
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

    def _add_step(self, step: HostedStep) -> HostedStep:
        self._open.append(step)
        return step

    def _step_of(self, in_round: int, kind: str, fits: Callable[[HostedStep], bool]) -> HostedStep | None:
        """The oldest open step that an event may be about."""
        return next((one for one in self._open if (one.round, one.kind) == (in_round, kind) and fits(one)), None)

    async def _emit_started(self, step: HostedStep) -> None:
        about = step.told
        await self._call_context.emit(
            ToolStarted(
                call_id=step.id, name=_step_name(step), headline=about.headline, preview=about.preview, host=self._host
            )
        )

    async def _emit_finished(
        self, step: HostedStep, outcome: Literal["ok", "error", "denied", "interrupted"], summary: str
    ) -> None:
        await self._call_context.emit(
            ToolFinished(
                call_id=step.id,
                name=_step_name(step),
                headline=step.told.headline,
                outcome=outcome,
                summary=summary,
                seconds=round(time.monotonic() - step.began, 3),
                display=step.told.display,
                host=self._host,
            )
        )


def _step_name(step: HostedStep) -> str:
    return step.name or step.kind or "server_tool"


class _Missing(Exception):
    """Why there is no content, in words for the user."""


def safe_name(name: str) -> str:
    """A name that is one file in one folder, on every system."""
    last = name.replace("\\", "/").rpartition("/")[2]
    clean = _WRONG.sub("_", last.strip())
    stem, dot, ending = clean.rpartition(".")
    if len(clean) > NAME_LIMIT:
        clean = (stem or clean)[: NAME_LIMIT - 12] + dot + ending[:11]
    return clean if clean.strip("._ ") else "file"


def _save_file(folder: Path, name: str, content: bytes) -> Path:
    """Write it under its name, or under the next free one: nothing that is there is touched."""
    folder.mkdir(mode=0o700, exist_ok=True)
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
    """The beginning of a text; empty for anything else."""
    if file.text is not None:
        return file.text[:PREVIEW_LIMIT]
    if file.preview:
        return file.preview[:PREVIEW_LIMIT]
    if not file.media_type.startswith("text/"):
        return ""
    return content[:PREVIEW_LIMIT].decode("utf-8", "replace")
