"""A notebook run without a page: its kernel, its cells one after the other, and the file they are saved to."""

import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

import zmq
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager, NoSuchKernel
from jupyter_client.manager import KernelManager

from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.headless.document import PANEL, BridgeMethods, DocumentOutputs, HeadlessDocument
from vibe_jupyter.headless.file import without_halves
from vibe_jupyter.import_guard import python_environment

START_WAIT: Final = 60.0
"""Seconds a kernel has to start."""
Message = dict[str, Any]
Channel = Literal["iopub", "shell", "control"]

TURN: Final = 0.5
"""Seconds between two looks at whether the kernel lives."""
INTERRUPT_WAIT: Final = 10.0
"""Seconds an interrupted cell has to end, before the kernel is given up."""
INTERRUPT_AGAIN: Final = 2.0
"""Seconds until the next one is sent."""
_OPTIONS: Final = r"""(?:\s+--(?:(?:keep-going|keep|no-keep)(?=\s|$)|[^\s=]+(?:=|\s+)(?:"[^"]*"|'[^']*'|\S+)))+"""
"""The options of a prompt; what follows them is text."""
_DEEDS: Final = {
    "set_source": "edited a cell",
    "insert": "inserted a cell",
    "delete": "deleted cells",
    "move": "moved cells",
}

_LAUNCHERS: Final = ("ipykernel_launcher", "ipykernel")
_START: Final = """\
import sys; sys.path[:] = filter(None, sys.path)
try: from vibe_jupyter.import_guard import work_for_us; work_for_us()
except ImportError: pass
from runpy import run_module; run_module("{module}", run_name="__main__", alter_sys=True)"""
"""Starts a kernel in any version of Python; `-P` is not known before 3.11, and IPython would keep the folder out."""
_NO_CELL: Final = ""
"""Stands for the id of a cell where code belongs to none."""
_STDERR: Final = 2
"""Its descriptor."""
_WHY_KILLED: Final = MappingProxyType({9: ", as a system sends it that runs out of memory"})
"""Usual causes of signals, by number."""

Status = Literal["ok", "error", "aborted", "interrupted", "timeout", "died"]
Say = Callable[[str], object]


class _SafeStart(KernelSpecManager):
    """Kernels whose Python starts without the notebook's folder on its path, to which IPython then adds it."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        spec: Any = super().get_kernel_spec(kernel_name)
        return self._safe(spec)

    def _safe(self, spec: Any) -> KernelSpec:
        """With `-m ipykernel_launcher`, Python looks for that module, and what finds it, in the folder first."""
        argv: list[str] = spec.argv
        if "-m" in argv and (module := argv[(at := argv.index("-m")) + 1]) in _LAUNCHERS:
            spec.argv = [*argv[:at], "-c", _START.format(module=module), *argv[at + 2 :]]
        return spec


class _ThisPython(_SafeStart):
    """Knows one kernel: the Python that runs this, whatever others are installed."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return self._safe(KernelSpec(argv=command, display_name=kernel_name, language="python"))


class KernelProcess:
    """Started by the constructor, ended by `close`.

    Raises:
        ConfigError: no kernel of this name is installed.
        NotebookError: it does not start.
    """

    def __init__(self, name: str | None, notebook: Path, *, environment: Mapping[str, str] | None = None) -> None:
        """
        Args:
            name: of its kind; None for the Python that runs this.
            notebook: the file it is for.
            environment: variables that it has beside those of this process; None for none.
        """
        self._name = name
        self._notebook = notebook
        self._environment = dict(environment or {})
        self._start()

    def _start(self) -> None:
        name, notebook = self._name, self._notebook
        self._folder = tempfile.mkdtemp(prefix="vibe-kernel-")
        self._manager = KernelManager(
            kernel_name=name or "python3",
            connection_file=f"{self._folder}/c.json",
            kernel_spec_manager=_SafeStart() if name else _ThisPython(),
        )
        if sys.platform != "win32":
            # Sockets in a folder of our own are nobody else's to open.
            self._manager.transport, self._manager.ip = "ipc", f"{self._folder}/s"
        # Where a server starts the kernel, this says which notebook it is for.
        variables = {**os.environ, **self._environment, "JPY_SESSION_NAME": str(notebook)}
        variables = python_environment(variables, str(notebook.parent))
        try:
            # What the kernel writes past its cells is no part of what our own program prints.
            self._manager.start_kernel(cwd=str(notebook.parent), env=variables, stdout=_STDERR)
        except NoSuchKernel as error:
            raise ConfigError(
                f"The notebook requires the kernel {name!r}, which is not installed here. `jupyter kernelspec list` "
                "shows those that are; choose one with --kernel."
            ) from error
        self._client = self._manager.client()
        self._client.start_channels()
        try:
            self._client.wait_for_ready(timeout=START_WAIT)
        except RuntimeError as error:
            self.close()
            raise NotebookError(f"The kernel {name!r} did not start: {error}.") from error
        except BaseException:
            self.close()
            raise
        self._channels: dict[Channel, Any] = {
            "iopub": self._client.iopub_channel,
            "shell": self._client.shell_channel,
            "control": self._client.control_channel,
        }
        self._poller = zmq.Poller()
        for channel in self._channels.values():
            self._poller.register(channel.socket, zmq.POLLIN)

    @property
    def client(self) -> str:
        """The session id in the header of everything we send."""
        return self._client.session.session

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return bool(self._manager.is_alive())

    @property
    def ending(self) -> str:
        """Exit code or signal of a process that ended by itself, in words; "" while it runs."""
        process: Any = getattr(self._manager.provisioner, "process", None)
        code: int | None = getattr(process, "returncode", None)
        if code is None:
            return ""
        if code >= 0:
            return f"exit code {code}"
        with contextlib.suppress(ValueError):  # of a signal that this Python has no name for
            return f"signal {signal.Signals(-code).name}{_WHY_KILLED.get(-code, '')}"
        return f"signal {-code}"

    def restart(self) -> None:
        """Replace the process, which may have ended, by a new one.

        Raises:
            NotebookError: it does not start.
        """
        self.close()
        self._start()

    def execute(self, code: str, cell: str) -> str:
        """Send a cell; returns the id of the request."""
        content: dict[str, Any] = {
            "code": without_halves(code),
            "silent": False,
            "store_history": cell != _NO_CELL,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        message = self._client.session.msg("execute_request", content)
        message["metadata"] = {"cellId": cell, "deletedCells": []}  # as pages do: the kernel then asks for one
        self._client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def evaluate(self, expression: str) -> str:
        """Return the repr of an expression, evaluated without a trace in the kernel's history; "" if it raises."""
        request = self._client.execute("", silent=True, user_expressions={"it": expression}, allow_stdin=False)
        end = time.monotonic() + START_WAIT
        while time.monotonic() < end and self.is_alive:
            channel, message = self.next(TURN) or (None, {})
            if channel == "shell" and message["parent_header"].get("msg_id") == request:
                found: dict[str, Any] = message["content"].get("user_expressions", {}).get("it", {})
                return str(found.get("data", {}).get("text/plain", ""))
        return ""

    def tell(self, kind: str, content: dict[str, Any]) -> None:
        """Send on the control channel, which the kernel hears while it runs a cell."""
        self._client.control_channel.send(self._client.session.msg(kind, without_halves(content)))

    def next(self, seconds: float) -> tuple[Channel, Message] | None:
        """The next message; None when none came in this time. Of iopub all is read first."""
        end = time.monotonic() + seconds
        while True:
            ready = dict(self._poller.poll(max(0, round((end - time.monotonic()) * 1000))))
            for name, channel in self._channels.items():
                if channel.socket in ready:
                    return name, channel.get_msg(timeout=1)
            if time.monotonic() >= end:
                return None

    def interrupt(self) -> None:
        """As ■ does."""
        self._manager.interrupt_kernel()

    def close(self) -> None:
        """End the process and forget it."""
        self._client.stop_channels()
        with contextlib.suppress(RuntimeError):
            self._manager.shutdown_kernel()
        self._client.context.destroy(linger=0)
        shutil.rmtree(self._folder, ignore_errors=True)


@dataclass
class CellOutcome:
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

    def __init__(
        self, document: HeadlessDocument, kernel: KernelProcess, *, path: str, say: Say, allowed: str = ""
    ) -> None:
        self._document = document
        self._kernel = kernel
        self._path = path
        self._say = say
        self._allowed = allowed
        """Tools, with commas between them, that the agent may use in this notebook without asking."""
        self._outputs = DocumentOutputs(document)
        self._requests = BridgeMethods(document, self)
        self._open: dict[str, _Request] = {}
        """Requests without their end, by message id."""
        self.died_in: tuple[str, ...] = ()
        """Ids of the cells that were running when the kernel died, in the order in which they began."""

    @property
    def client(self) -> str:
        """Names our connection to the kernel."""
        return self._kernel.client

    @property
    def path(self) -> str:
        """Of the notebook, from its folder on."""
        return self._path

    @property
    def is_alive(self) -> bool:
        """Whether the kernel's process runs."""
        return self._kernel.is_alive

    def run_cell(self, cell: str, *, timeout: float | None = None, added: str = "") -> CellOutcome:
        """Run one cell to its end.

        Args:
            cell: its id.
            timeout: seconds it may take; None for no limit.
            added: sent behind the source of a prompt, and not written into the notebook.

        Raises:
            KeyboardInterrupt: Ctrl-C; the cell was interrupted and what it had put out is in the document.
        """
        source = self._document.cell(cell)["source"] + added
        self._document.begin_run(cell)
        return self._run_code(allow_tools(source, self._allowed), cell, timeout)

    def continue_cell(self, cell: str, code: str, *, timeout: float | None = None) -> CellOutcome:
        """Run code behind what the cell shows already. Raises as `run_cell`."""
        self._document.running.add(cell)
        return self._run_code(allow_tools(code, self._allowed), cell, timeout)

    def restart(self, *commands: str) -> CellOutcome:
        """Replace the kernel by a new one that has run nothing but these commands, none of which is shown.

        Returns:
            The end of the first command that failed, or of the last one.

        Raises:
            NotebookError: it does not start.
        """
        self._open.clear()
        self._document.running.clear()
        self._kernel.restart()
        outcome = CellOutcome(_NO_CELL, "ok")
        for command in commands:
            outcome = self._run_code(command, _NO_CELL, START_WAIT)
            if outcome.status != "ok":
                break
        return outcome

    def send(self, cell: str, *, asked_by: str | None = None) -> str:
        """Send a cell to the kernel for the agent; returns the id of the request."""
        source = self._document.cell(cell)["source"]
        self._document.begin_run(cell)
        return self._send_code(source, cell, asked_by)

    def _send_code(self, code: str, cell: str, asked_by: str | None = None) -> str:
        request = self._kernel.execute(code, cell)
        self._open[request] = _Request(cell, asked_by)
        return request

    def _run_code(self, code: str, cell: str, timeout: float | None) -> CellOutcome:
        request = self._open[self._send_code(code, cell)]
        try:
            return self._to_the_end(request, timeout)
        except KeyboardInterrupt:
            self._interrupt_until_over(request)
            raise

    def interrupt(self) -> None:
        """Interrupt the kernel."""
        self._kernel.interrupt()

    def _to_the_end(self, request: _Request, timeout: float | None) -> CellOutcome:
        if self._finish_request(request, timeout):
            return _cell_outcome(request)
        if not self._kernel.is_alive:
            return CellOutcome(request.cell, "died", f"The kernel died: {self._kernel.ending}.")
        self._interrupt_until_over(request)
        return CellOutcome(request.cell, "timeout", f"It ran longer than {timeout:g} s and was interrupted.")

    def _interrupt_until_over(self, request: _Request) -> None:
        """Again and again, since a kernel ignores the interrupt that comes just before the cell does."""
        end = time.monotonic() + INTERRUPT_WAIT
        while self._kernel.is_alive and time.monotonic() < end:
            self.interrupt()
            if self._finish_request(request, INTERRUPT_AGAIN):
                return

    def _finish_request(self, request: _Request, timeout: float | None) -> bool:
        """Handle messages until it is over; False when the time is, or the kernel died."""
        end = None if timeout is None else time.monotonic() + timeout
        while not request.is_over:
            left = TURN if end is None else min(TURN, end - time.monotonic())
            if left <= 0:
                return False
            arrived = self._kernel.next(left)
            if arrived is not None:
                self._handle_message(*arrived)
            elif not self._kernel.is_alive:
                self.died_in = tuple(dict.fromkeys(one.cell for one in self._open.values() if one.cell != _NO_CELL))
                self._document.running.clear()
                return False
        return True

    def _handle_message(self, channel: Channel, message: Message) -> None:
        parent: dict[str, Any] = message["parent_header"]
        if channel == "iopub" and message["msg_type"] == "vibe_bridge":
            self._answer_bridge(message["content"], parent)
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

    def _answer_bridge(self, content: dict[str, Any], parent: dict[str, Any]) -> None:
        reply = self._requests.answer(content, parent)
        if reply is None:
            return
        self._kernel.tell("vibe_bridge_reply", reply)
        if reply["ok"] and (words := _changes_text(content)):
            self._say(words)


def allow_tools(source: str, tools: str) -> str:
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


def _cell_outcome(request: _Request) -> CellOutcome:
    reply = request.replied or {}
    if reply.get("status") == "ok":
        return CellOutcome(request.cell, "ok")
    if reply.get("status") == "aborted":
        return CellOutcome(request.cell, "aborted", "The kernel did not run it.")
    return CellOutcome(request.cell, "error", f"{reply.get('ename', 'Error')}: {reply.get('evalue', '')}".rstrip(": "))


def _changes_text(content: dict[str, Any]) -> str:
    """What the agent did to the notebook, in words; empty for what only looks."""
    if content["method"] == "run":
        return "ran a cell"
    if content["method"] != "edit":
        return ""
    return ", ".join(_DEEDS[edit["op"]] for edit in content["args"]["edits"])
