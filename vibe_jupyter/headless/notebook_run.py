"""A notebook run without a page: the kernel process and sequential execution of cells."""

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
from traitlets import TraitError

from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.headless.document import PANEL, BridgeMethods, DocumentOutputs, HeadlessDocument
from vibe_jupyter.headless.file import without_halves
from vibe_jupyter.import_guard import python_environment

START_WAIT: Final = 60.0  # seconds for a kernel to start
Message = dict[str, Any]
Channel = Literal["iopub", "shell", "control"]

TURN: Final = 0.5  # seconds between checks whether the kernel is alive
INTERRUPT_WAIT: Final = 10.0  # seconds for an interrupted cell to end before giving up on the kernel
INTERRUPT_AGAIN: Final = 2.0  # seconds between repeated interrupts
# Options of a prompt; anything after them is text.
_OPTIONS: Final = r"""(?:\s+--(?:(?:keep-going|keep|no-keep)(?=\s|$)|[^\s=]+(?:=|\s+)(?:"[^"]*"|'[^']*'|\S+)))+"""
_BLANK_LINES: Final = re.compile(r"\s*\n")  # at the beginning of a cell, where IPython removes them
_DEEDS: Final = {
    "set_source": "edited a cell",
    "insert": "inserted a cell",
    "delete": "deleted cells",
    "move": "moved cells",
}

_LAUNCHERS: Final = ("ipykernel_launcher", "ipykernel")
# Kernel start code for any version of Python: `-P` requires 3.11, and IPython wouldn't add the folder then.
_START: Final = """\
import sys; sys.path[:] = filter(None, sys.path)
try: from vibe_jupyter.import_guard import work_for_us; work_for_us()
except ImportError: pass
from runpy import run_module; run_module("{module}", run_name="__main__", alter_sys=True)"""
_OTHER_KERNELS: Final = (
    "`jupyter kernelspec list` shows the installed kernels and their folders; choose another with --kernel."
)
# A kernel.json that is malformed, or that names a program which is gone with its environment.
_BROKEN_SPEC: Final = (OSError, ValueError, TypeError, LookupError, TraitError)
_NO_CELL: Final = ""  # cell id for code that belongs to no cell
_STDERR: Final = 2  # file descriptor
_WHY_KILLED: Final = MappingProxyType({9: ", as a system sends it that runs out of memory"})  # common causes of signals

Status = Literal["ok", "error", "aborted", "interrupted", "timeout", "died"]
Say = Callable[[str], object]


class _SafeStart(KernelSpecManager):
    """Kernel specs changed so that Python starts without the notebook's folder on its path. IPython adds it later."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        spec: Any = super().get_kernel_spec(kernel_name)
        return self._safe(spec)

    def _safe(self, spec: Any) -> KernelSpec:
        """Replace `-m ipykernel_launcher`: to resolve it, Python would search the notebook's folder first.

        That includes the modules that implement the search, such as `runpy`.
        """
        argv: list[str] = spec.argv
        at = argv.index("-m") if "-m" in argv[:-1] else len(argv)
        if (module := "".join(argv[at + 1 : at + 2])) in _LAUNCHERS:
            spec.argv = [*argv[:at], "-c", _START.format(module=module), *argv[at + 2 :]]
        return spec


class _ThisPython(_SafeStart):
    """Kernel specs with only the current Python, regardless of the installed ones."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return self._safe(KernelSpec(argv=command, display_name=kernel_name, language="python"))


class KernelProcess:
    """A kernel process, started by the constructor and ended by `close`.

    Raises:
        ConfigError: No kernel of this name is installed, or its installation is broken.
        NotebookError: It doesn't start.
    """

    def __init__(self, name: str | None, notebook: Path, *, environment: Mapping[str, str] | None = None) -> None:
        """
        Args:
            name: Name of the kernel spec; None for the current Python.
            notebook: The notebook file.
            environment: Additional environment variables.
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
            # IPC sockets in a private directory can't be opened by other users, unlike TCP ports.
            self._manager.transport, self._manager.ip = "ipc", f"{self._folder}/s"
        # The variable in which Jupyter Server passes the notebook's path.
        variables = {**os.environ, **self._environment, "JPY_SESSION_NAME": str(notebook)}
        variables = python_environment(variables, str(notebook.parent))
        try:
            # Output outside of cells must not mix with our own stdout.
            self._manager.start_kernel(cwd=str(notebook.parent), env=variables, stdout=_STDERR)
        except NoSuchKernel as error:
            self._remove_folder()
            raise ConfigError(f"The kernel {name!r} is not installed here. {_OTHER_KERNELS}") from error
        except _BROKEN_SPEC as error:
            self._remove_folder()
            raise ConfigError(f"The kernel {name!r} cannot be started: {error}. {_OTHER_KERNELS}") from error
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
        """Session id in the headers of all messages we send."""
        return self._client.session.session

    @property
    def is_alive(self) -> bool:
        """True if the process is running."""
        return bool(self._manager.is_alive())

    @property
    def ending(self) -> str:
        """Exit code or signal if the process ended on its own, else ""."""
        process: Any = getattr(self._manager.provisioner, "process", None)
        code: int | None = getattr(process, "returncode", None)
        if code is None:
            return ""
        if code >= 0:
            return f"exit code {code}"
        with contextlib.suppress(ValueError):  # a signal unknown to this Python version
            return f"signal {signal.Signals(-code).name}{_WHY_KILLED.get(-code, '')}"
        return f"signal {-code}"

    def restart(self) -> None:
        """Replace the process, which may have ended.

        Raises:
            NotebookError: The new one doesn't start.
        """
        self.close()
        self._start()

    def execute(self, code: str, cell: str) -> str:
        """Send a cell and return the request's id."""
        content: dict[str, Any] = {
            "code": without_halves(code),
            "silent": False,
            "store_history": cell != _NO_CELL,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        }
        message = self._client.session.msg("execute_request", content)
        # As pages do: a kernel that expects no page would read the saved file, which may be outdated.
        message["metadata"] = {"cellId": cell, "deletedCells": []}
        self._client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def evaluate(self, expression: str) -> str:
        """Return the repr of an expression, evaluated without entering the history; "" if it raises."""
        request = self._client.execute("", silent=True, user_expressions={"it": expression}, allow_stdin=False)
        end = time.monotonic() + START_WAIT
        while time.monotonic() < end and self.is_alive:
            channel, message = self.next(TURN) or (None, {})
            if channel == "shell" and message["parent_header"].get("msg_id") == request:
                found: dict[str, Any] = message["content"].get("user_expressions", {}).get("it", {})
                return str(found.get("data", {}).get("text/plain", ""))
        return ""

    def tell(self, kind: str, content: dict[str, Any]) -> None:
        """Send a message on the control channel, which the kernel processes even while it runs a cell."""
        self._client.control_channel.send(self._client.session.msg(kind, without_halves(content)))

    def next(self, seconds: float) -> tuple[Channel, Message] | None:
        """Return the next message, or None after `seconds`. Messages on iopub come first."""
        end = time.monotonic() + seconds
        while True:
            ready = dict(self._poller.poll(max(0, round((end - time.monotonic()) * 1000))))
            for name, channel in self._channels.items():
                if channel.socket in ready:
                    return name, channel.get_msg(timeout=1)
            if time.monotonic() >= end:
                return None

    def interrupt(self) -> None:
        """Interrupt the kernel, like the ■ button."""
        self._manager.interrupt_kernel()

    def close(self) -> None:
        """End the process and clean up."""
        self._client.stop_channels()
        with contextlib.suppress(RuntimeError):
            self._manager.shutdown_kernel()
        self._client.context.destroy(linger=0)
        self._remove_folder()

    def _remove_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


@dataclass
class CellOutcome:
    cell: str
    status: Status
    error: str = ""  # name and message of the exception, or ""


@dataclass
class _Request:
    cell: str
    asked_by: str | None  # id of the bridge request that caused the run; None for our own
    replied: Message | None = None
    idle: bool = False  # True once iopub reported the kernel idle again

    @property
    def is_over(self) -> bool:
        """True if both reply and idle status have arrived. They come on two channels, in either order."""
        return self.idle and self.replied is not None


class NotebookRun:
    """A kernel, a document, and the messages between them. Belongs to the thread that created it."""

    def __init__(
        self, document: HeadlessDocument, kernel: KernelProcess, *, path: str, say: Say, allowed: str = ""
    ) -> None:
        self._document = document
        self._kernel = kernel
        self._path = path
        self._say = say
        self._allowed = allowed  # comma-separated tools that the agent may use in this notebook without asking
        self._outputs = DocumentOutputs(document)
        self._requests = BridgeMethods(document, self)
        self._open: dict[str, _Request] = {}  # unfinished requests by message id
        # Ids of the cells that were running when the kernel died, in order of their start.
        self.died_in: tuple[str, ...] = ()

    @property
    def client(self) -> str:
        """Session id of the connection to the kernel."""
        return self._kernel.client

    @property
    def path(self) -> str:
        """Path of the notebook, relative to its folder."""
        return self._path

    @property
    def is_alive(self) -> bool:
        """True if the kernel process is running."""
        return self._kernel.is_alive

    def run_cell(self, cell: str, *, timeout: float | None = None, added: str = "") -> CellOutcome:
        """Run one cell to its end.

        Args:
            cell: Cell id.
            timeout: Time limit in seconds; None for none.
            added: Text sent after the source of a prompt, but not written to the notebook.

        Raises:
            KeyboardInterrupt: Ctrl-C. The cell was interrupted; its output so far is in the document.
        """
        source = self._document.cell(cell)["source"] + added
        self._document.begin_run(cell)
        return self._run_code(allow_tools(source, self._allowed), cell, timeout)

    def continue_cell(self, cell: str, code: str, *, timeout: float | None = None) -> CellOutcome:
        """Run code, appending to the cell's output. Raises as `run_cell`."""
        self._document.running.add(cell)
        return self._run_code(allow_tools(code, self._allowed), cell, timeout)

    def restart(self, *commands: str) -> CellOutcome:
        """Replace the kernel with a new one and run some commands in it without displaying output.

        Returns:
            The outcome of the first command that failed, or of the last.

        Raises:
            NotebookError: The kernel doesn't start.
        """
        self._open.clear()
        self._document.running.clear()
        self._kernel.restart()
        return self.run_aside(*commands)

    def run_aside(self, *commands: str) -> CellOutcome:
        """Run some commands without displaying output, as `restart` does. Returns the same."""
        outcome = CellOutcome(_NO_CELL, "ok")
        for command in commands:
            outcome = self._run_code(command, _NO_CELL, START_WAIT)
            if outcome.status != "ok":
                break
        return outcome

    def send(self, cell: str, *, asked_by: str | None = None) -> str:
        """Send a cell to the kernel for the agent, and return the request's id."""
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
        self._kernel.interrupt()

    def _to_the_end(self, request: _Request, timeout: float | None) -> CellOutcome:
        if self._finish_request(request, timeout):
            return _cell_outcome(request)
        if not self._kernel.is_alive:
            return CellOutcome(request.cell, "died", f"The kernel died: {self._kernel.ending}.")
        self._interrupt_until_over(request)
        return CellOutcome(request.cell, "timeout", f"It ran longer than {timeout:g} s and was interrupted.")

    def _interrupt_until_over(self, request: _Request) -> None:
        """Interrupt repeatedly, since a kernel ignores an interrupt that arrives just before the cell."""
        end = time.monotonic() + INTERRUPT_WAIT
        while self._kernel.is_alive and time.monotonic() < end:
            self.interrupt()
            if self._finish_request(request, INTERRUPT_AGAIN):
                return

    def _finish_request(self, request: _Request, timeout: float | None) -> bool:
        """Process messages until the request is finished. Returns False on timeout or if the kernel died."""
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
            if all(other.cell != request.cell for other in self._open.values()):  # otherwise the cell was sent again
                self._outputs.number(request.cell, (request.replied or {}).get("execution_count"))

    def _hear_status(self, request: _Request, state: str) -> None:
        """Handle a status message. The run ends with iopub's idle status rather than the reply.

        Messages of later cells can't overtake it on iopub, whereas the reply arrives on another channel.
        """
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
    """Return the code to send for a cell, with the tools allowed on the command line added to each prompt.

    This isn't written to the notebook, where it would apply to whoever runs it next.

    Args:
        source: A `%%vibe` cell, or code with `%vibe` lines. Lines in and after triple-quoted strings stay unchanged.
        tools: Comma-separated tool names, or "".
    """
    if not tools:
        return source
    begin = _BLANK_LINES.match(source)
    blank = begin[0] if begin else ""
    line, newline, rest = source[len(blank) :].partition("\n")
    if line.lstrip().startswith("%%"):
        return blank + _allowing("%%vibe", line, tools) + newline + rest
    code = re.split("\"{3}|'{3}", source)[0]
    lines = [_allowing("%vibe", one, tools) for one in code.split("\n")]
    return "\n".join(lines) + source[len(code) :]


def _allowing(magic: str, line: str, tools: str) -> str:
    """Add the tools to the options of a line that starts with this magic. Other lines stay unchanged."""
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
    """Describe the agent's change to the notebook, or return "" for requests that only read."""
    if content["method"] == "run":
        return "ran a cell"
    if content["method"] != "edit":
        return ""
    return ", ".join(_DEEDS[edit["op"]] for edit in content["args"]["edits"])
