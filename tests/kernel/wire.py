"""A real kernel process, spoken to message by message."""

import os
import queue
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

from tests.kernel.fork_server import kernel_command
from tests.kernel.matrix import ROOT, Target
from tests.patience import patient

WAIT = patient(30.0)
"""Seconds that any one answer may take."""
START_WAIT = patient(60.0)
"""Seconds in which a kernel must answer first."""
NO_HISTORY_FILE = "--HistoryManager.hist_file=:memory:"
"""A quarter of what a short cell costs is to write its line into a database on disk."""
HEARD_WAIT = 0.1
"""Seconds after which it is asked again: what it published before the client listened is lost."""
Message = dict[str, Any]


@dataclass
class Cell:
    """What came back for one execute_request."""

    text: str = ""
    outputs: list[Message] = field(default_factory=list)
    error: str = ""
    reply: Message = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.reply["execution_count"]


class Wire:
    """One client; every message of iopub is kept in the order it came."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client
        self.seen: list[Message] = []
        self._replies: dict[str, Message] = {}
        self._idle: set[str] = set()
        """Requests that are over, as far as was looked."""
        self._looked = 0

    def wait_until_ready(self) -> None:
        """Wait until the kernel answers and its iopub is heard.

        The client's own `wait_for_ready` ends a fifth of a second after the last message of iopub.
        """
        end = time.monotonic() + START_WAIT
        asked: list[str] = []
        while not asked or not self.is_idle(asked[-1]):
            assert self.manager.is_alive(), "the kernel ended while it started"
            assert time.monotonic() < end, f"the kernel did not answer within {START_WAIT} s"
            asked.append(self.client.kernel_info())
            self.reply(asked[-1], within=START_WAIT)
            with suppress(queue.Empty):
                while not self.is_idle(asked[-1]):
                    self.seen.append(self.client.get_iopub_msg(timeout=HEARD_WAIT))
        self.forget()

    def forget(self) -> None:
        """Leave behind all that was seen so far."""
        self.seen.clear()
        self._looked = 0

    def send(self, code: str, *, metadata: Message | None = None, **more: Any) -> str:
        """Begin to run a cell, whose request may say more; its id."""
        usual = {"silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": True}
        content = {"code": code, **usual, "stop_on_error": True, **more}
        return self.send_shell("execute_request", content, metadata=metadata)

    def run(self, code: str) -> Cell:
        """Run a cell to its end; an error in it fails the test."""
        cell = self.cell(self.send(code))
        assert not cell.error, cell.error
        return cell

    def cell(self, request: str) -> Cell:
        """All that a request gave, once it is over."""
        self.until(lambda: self.is_idle(request), f"idle of {request}")
        cell = Cell(reply=self.reply(request)["content"])
        for message in self.of(request):
            content = message["content"]
            match message["msg_type"]:
                case "stream":
                    cell.text += content["text"]
                case "error":
                    cell.error = "\n".join(content["traceback"])
                case "display_data" | "execute_result" | "update_display_data" | "clear_output":
                    cell.outputs.append(message)
                case _:
                    pass
        return cell

    def reply(self, request: str, *, within: float = WAIT) -> Message:
        end = time.monotonic() + within
        while request not in self._replies:
            message = self.client.get_shell_msg(timeout=max(0.01, end - time.monotonic()))
            self._replies[message["parent_header"]["msg_id"]] = message
        return self._replies[request]

    def of(self, request: str) -> list[Message]:
        return [message for message in self.seen if message["parent_header"].get("msg_id") == request]

    def is_idle(self, request: str) -> bool:
        while self._looked < len(self.seen):
            message = self.seen[self._looked]
            self._looked += 1
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                self._idle.add(message["parent_header"].get("msg_id", ""))
        return request in self._idle

    def printed(self, request: str) -> str:
        return "".join(message["content"]["text"] for message in self.of(request) if message["msg_type"] == "stream")

    def until_printed(self, request: str, text: str) -> None:
        self.until(lambda: text in self.printed(request), f"{text!r} from {request}")

    def until(self, happened: Callable[[], bool], what: str) -> None:
        """Read iopub until it happened."""
        end = time.monotonic() + WAIT
        while not happened():
            try:
                self.seen.append(self.client.get_iopub_msg(timeout=max(0.01, end - time.monotonic())))
            except queue.Empty:
                kinds = [(message["msg_type"], message["content"]) for message in self.seen[-8:]]
                raise AssertionError(f"no {what} within {WAIT} s; last on iopub: {kinds}") from None

    def comm(self, comm_id: str, data: object, *, subshell: str | None = None) -> str:
        """Send what a click sends."""
        return self.send_shell("comm_msg", {"comm_id": comm_id, "data": data}, subshell=subshell)

    def send_shell(
        self, kind: str, content: Message, *, subshell: str | None = None, metadata: Message | None = None
    ) -> str:
        message = self.client.session.msg(kind, content, metadata=metadata)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return message["header"]["msg_id"]

    def ask_control(self, kind: str) -> Message:
        message = self.client.session.msg(kind, {})
        self.client.control_channel.send(message)
        while True:
            answer = self.client.get_control_msg(timeout=WAIT)
            if answer["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return answer["content"]

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()


@contextmanager
def running_kernel(target: Target, folder: Path) -> Iterator[Wire]:
    """A kernel with nothing in it."""
    path = [str(target.first_on_path)] if target.first_on_path else []
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*path, str(ROOT)]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "IPYTHONDIR": str(folder / "ipython"),
        "VIBE_HOME": str(folder / "vibe"),
    }
    environment.pop("PYTEST_CURRENT_TEST", None)  # with it ipykernel does not read its own descriptors
    usual = [target.python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    argv = [*kernel_command(has_pandas=target.has_pandas), NO_HISTORY_FILE] if target.is_forked else usual
    # Sockets in the file system: free ports are found by chance, and two test processes may find the same.
    sockets = Path(tempfile.mkdtemp(prefix="vibe-"))
    manager = KernelManager(
        connection_file=str(folder / "connection.json"), transport="ipc", ip=str(sockets / "kernel")
    )
    manager._kernel_spec = KernelSpec(argv=argv, display_name=target.name, language="python")
    log = folder / "kernel.log"
    with log.open("wb") as out:
        manager.start_kernel(env=environment, cwd=str(folder), stdout=out, stderr=out)
        client = manager.client()
        client.start_channels()
        try:
            wire = Wire(manager, client)
            wire.wait_until_ready()
            yield wire
        finally:
            client.stop_channels()
            _kill(manager)
            manager.cleanup_resources()
            shutil.rmtree(sockets, ignore_errors=True)


def _kill(manager: KernelManager) -> None:
    """`shutdown_kernel` alone looks every tenth of a second whether the process has ended."""
    process = getattr(manager.provisioner, "process", None)
    if process is not None:
        process.kill()
        process.wait(WAIT)
    manager.shutdown_kernel(now=True)
