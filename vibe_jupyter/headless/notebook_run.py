"""Run a notebook's cells in their order, and answer the bridge meanwhile."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from vibe_jupyter.headless.document import Document
from vibe_jupyter.headless.kernel import Channel, KernelProcess, Message
from vibe_jupyter.headless.outputs import Outputs
from vibe_jupyter.headless.requests import PANEL, Requests

TURN: Final = 0.5
"""Seconds between two looks at whether the kernel lives."""
INTERRUPT_WAIT: Final = 10.0
"""Seconds an interrupted cell has to end, before the kernel is given up."""
INTERRUPT_AGAIN: Final = 2.0
"""Seconds until the next one is sent."""
_OPTIONS: Final = r"""(?:\s+--(?:keep-going(?=\s|$)|[^\s=]+(?:=|\s+)(?:"[^"]*"|'[^']*'|\S+)))+"""
"""The options of a prompt; what follows them is text."""
_DEEDS: Final = {
    "set_source": "edited a cell",
    "insert": "inserted a cell",
    "delete": "deleted cells",
    "move": "moved cells",
}

Status = Literal["ok", "error", "aborted", "interrupted", "timeout", "died"]
Say = Callable[[str], object]


@dataclass
class Outcome:
    """How a cell ended."""

    cell: str
    status: Status
    error: str = ""
    """Name and words of the exception; empty when there was none."""


@dataclass
class _Request:
    cell: str
    asked_by: str | None
    """Id of the bridge request that wanted the cell to run; None for our own."""
    replied: Message | None = None
    idle: bool = False
    """Whether the kernel said on iopub that it is done with it."""

    @property
    def is_over(self) -> bool:
        """Whether its end and its reply are here; they come on two channels, and either may be the first."""
        return self.idle and self.replied is not None


class NotebookRun:
    """One kernel, one document, and the messages between them. Belongs to the thread that made it."""

    def __init__(self, document: Document, kernel: KernelProcess, *, path: str, say: Say, allowed: str = "") -> None:
        self._document = document
        self._kernel = kernel
        self._path = path
        self._say = say
        self._allowed = allowed
        """Tools, with commas between them, that the agent may use in this notebook without asking."""
        self._outputs = Outputs(document)
        self._requests = Requests(document, self)
        self._open: dict[str, _Request] = {}
        """Requests without their end, by message id."""

    @property
    def client(self) -> str:
        """Names our connection to the kernel."""
        return self._kernel.client

    @property
    def path(self) -> str:
        """Of the notebook, from its folder on."""
        return self._path

    def run_cell(self, cell: str, *, timeout: float | None = None) -> Outcome:
        """Run one cell to its end.

        Raises:
            KeyboardInterrupt: Ctrl-C; the cell was interrupted and what it had put out is in the document.
        """
        self.send(cell)
        *_, request = self._open.values()
        try:
            return self._to_the_end(request, timeout)
        except KeyboardInterrupt:
            self._interrupt_until_over(request)
            raise

    def send(self, cell: str, *, asked_by: str | None = None) -> str:
        """Send a cell to the kernel, with what the command line allows; the id of the request."""
        source = self._document.cell(cell)["source"]
        self._document.begin_run(cell)
        code = source if asked_by else allowing(source, self._allowed)
        request = self._kernel.execute(code, cell)
        self._open[request] = _Request(cell, asked_by)
        return request

    def interrupt(self) -> None:
        """Interrupt the kernel."""
        self._kernel.interrupt()

    def _to_the_end(self, request: _Request, timeout: float | None) -> Outcome:
        if self._finish(request, timeout):
            return _outcome(request)
        if not self._kernel.is_alive:
            return Outcome(request.cell, "died", "The kernel died.")
        self._interrupt_until_over(request)
        return Outcome(request.cell, "timeout", f"It ran longer than {timeout:g} s and was interrupted.")

    def _interrupt_until_over(self, request: _Request) -> None:
        """Again and again, since a kernel ignores the interrupt that comes just before the cell does."""
        end = time.monotonic() + INTERRUPT_WAIT
        while self._kernel.is_alive and time.monotonic() < end:
            self.interrupt()
            if self._finish(request, INTERRUPT_AGAIN):
                return

    def _finish(self, request: _Request, timeout: float | None) -> bool:
        """Handle messages until it is over; False when the time is, or the kernel died."""
        end = None if timeout is None else time.monotonic() + timeout
        while not request.is_over:
            left = TURN if end is None else min(TURN, end - time.monotonic())
            if left <= 0:
                return False
            arrived = self._kernel.next(left)
            if arrived is not None:
                self._handle(*arrived)
            elif not self._kernel.is_alive:
                self._document.running.clear()
                return False
        return True

    def _handle(self, channel: Channel, message: Message) -> None:
        parent: dict[str, Any] = message["parent_header"]
        if channel == "iopub" and message["msg_type"] == "vibe_bridge":
            self._answer(message["content"], parent)
            return
        request = self._open.get(parent.get("msg_id", ""))
        if request is None:
            return
        if channel == "shell":
            request.replied = message["content"]
        elif channel == "iopub" and message["msg_type"] == "status":
            self._hear_status(request, message["content"]["execution_state"])
        elif channel == "iopub":
            self._outputs.take(request.cell, message)
        if request.is_over:
            del self._open[parent["msg_id"]]
            if all(other.cell != request.cell for other in self._open.values()):  # else it was sent once more
                self._outputs.number(request.cell, (request.replied or {}).get("execution_count"))

    def _hear_status(self, request: _Request, state: str) -> None:
        """The run ends here, in the order of iopub: what a later cell asks cannot come before it, as the reply can."""
        if state != "idle" or request.idle:
            return
        request.idle = True
        self._document.running.discard(request.cell)
        if request.asked_by is not None:
            content = {"client": self.client, "panel": PANEL, "event": "run_done"}
            self._kernel.tell("vibe_bridge_event", {**content, "id": request.asked_by, "cell": request.cell})

    def _answer(self, content: dict[str, Any], parent: dict[str, Any]) -> None:
        reply = self._requests.answer(content, parent)
        if reply is None:
            return
        self._kernel.tell("vibe_bridge_reply", reply)
        if reply["ok"] and (words := _done(content)):
            self._say(words)


def allowing(source: str, tools: str) -> str:
    """The code that is sent for a cell: the same, with what the command line allows at each prompt.

    It is not written into the notebook, which would allow it to whoever runs the notebook next.

    Args:
        source: of the cell: a `%%vibe` cell, or code with `%vibe` lines. Lines in and behind a text in triple quotes
            stay as they are.
        tools: names with commas between them; empty for none.
    """
    if not tools:
        return source
    line, newline, rest = source.partition("\n")
    if line.lstrip().startswith("%%"):
        return _allowing("%%vibe", line, tools) + newline + rest
    code = re.split("\"{3}|'{3}", source)[0]
    lines = [_allowing("%vibe", one, tools) for one in code.split("\n")]
    return "\n".join(lines) + source[len(code) :]


def _allowing(magic: str, line: str, tools: str) -> str:
    """One line that begins with this magic, with the tools among its options; another stays as it is."""
    found = re.fullmatch(rf"(\s*{magic})(?=\s|$)(.*)", line)
    if found is None:
        return line
    options = re.match(_OPTIONS, found[2])
    given, words = (options[0], found[2][options.end() :]) if options else ("", found[2])
    names = [tools, *re.findall(r"\s--yes[= ]+(\S+)", given)]
    given = re.sub(r"\s+--yes[= ]+\S+", "", given)
    return f"{found[1]} --yes={','.join(names)}{given}{words}"


def _outcome(request: _Request) -> Outcome:
    reply = request.replied or {}
    if reply.get("status") == "ok":
        return Outcome(request.cell, "ok")
    if reply.get("status") == "aborted":
        return Outcome(request.cell, "aborted", "The kernel did not run it.")
    return Outcome(request.cell, "error", f"{reply.get('ename', 'Error')}: {reply.get('evalue', '')}".rstrip(": "))


def _done(content: dict[str, Any]) -> str:
    """What the agent did to the notebook, in words; empty for what only looks."""
    if content["method"] == "run":
        return "ran a cell"
    if content["method"] != "edit":
        return ""
    return ", ".join(_DEEDS[edit["op"]] for edit in content["args"]["edits"])
