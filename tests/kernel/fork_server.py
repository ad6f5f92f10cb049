"""Kernels for tests by fork: real ipykernels in processes of their own, whose imports were made once.

Imports are most of what a test with a kernel costs: 1.2 s of CPU until the first prompt is answered. One process has
made them (`_Server`) and forks for each kernel. What a test starts in its place (`CLIENT`) hands over arguments,
environment and files, and stands for the kernel: it passes signals on, ends as it ends, and takes it along when killed.
The program `vibe-jupyter` comes in the same way, from a process of its own (`program_command`), and so do the MCP
servers of tests (`script_command`).

Tests of what is imported when start a kernel as users do (`AS_USERS_START_IT`).
"""

import ast
import atexit
import contextlib
import fcntl
import gc
import hashlib
import io
import json
import os
import random
import runpy
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from pydantic import BaseModel

ROOT = Path(__file__).resolve().parents[2]
CLIENT = Path(__file__).with_name("fork_client.py")
LARGEST_REQUEST = 1 << 20  # bytes
PRELOADED = (
    "IPython.core.application",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.guarded_eval",
    "IPython.core.logger",
    "IPython.core.magics.extension",
    "IPython.core.oinspect",
    "IPython.extensions.storemagic",
    "sqlite3",
    "tornado.platform.asyncio",
    "vibe_jupyter.magics",
    "vibe_jupyter.agent.approval",
    "vibe_jupyter.agent.review",
    "vibe_jupyter.agent.tool_call",
    "vibe_jupyter.app.app",
    "vibe_jupyter.app.built_in_tools",
    "vibe_jupyter.app.context_commands",
    "vibe_jupyter.app.custom_tools",
    "vibe_jupyter.app.mcp",
    "vibe_jupyter.app.model_setup",
    "vibe_jupyter.app.notebook_access",
    "vibe_jupyter.app.run_view",
    "vibe_jupyter.charts.outputs",
    "vibe_jupyter.commands.mcp",
    "vibe_jupyter.commands.sessions",
    "vibe_jupyter.commands.undo",
    "vibe_jupyter.context.folder_tree",
    "vibe_jupyter.context.git_state",
    "vibe_jupyter.context.read_ahead",
    "vibe_jupyter.llm.dialects.openai",
    "vibe_jupyter.mcp.session",
    "vibe_jupyter.permissions.kept_files",
    "vibe_jupyter.permissions.shell.judge",
    "vibe_jupyter.permissions.shell.patterns",
    "vibe_jupyter.session.change_lines",
    "vibe_jupyter.session.store",
    "vibe_jupyter.tools.custom",
    "vibe_jupyter.ui.terminal",
    "vibe_jupyter.ui.unprompted",
    "vibe_jupyter.ui.widget",
    "vibe_jupyter.variables.frame_changes",
    "anyio._backends._asyncio",
    "concurrent.futures.thread",
    "encodings.unicode_escape",
    "encodings.utf_8_sig",
    "httpcore",
    "httpx",
    "mcp.client.session",
    "psutil",
    "pydantic.root_model",
    "pygments.formatters.terminal256",
    "pygments.lexers.python",
    "pygments.lexers.shell",
    "stack_data",
)
"""What a kernel imports until it has answered prompts with calls of tools, with an MCP server and without."""
OF_KERNEL = ("ipykernel.debugger", "ipykernel.kernelapp", "anywidget", "ipywidgets")
"""What only a kernel imports."""
OF_TABLES = ("numpy", "pandas")
"""What the kernels of tests about tables import besides."""
OF_PROGRAM = (
    "IPython.core.crashhandler",
    "IPython.core.magics",
    "ipykernel.kernelspec",
    "vibe_jupyter.cli.ask",
    "vibe_jupyter.cli.doctor",
    "vibe_jupyter.cli.run",
    "vibe_jupyter.cli.schema",
    "vibe_jupyter.cli.verify",
)
"""What only `vibe-jupyter` imports, until it has run a notebook or answered a prompt."""
OF_TERMINAL = (
    "IPython.core.historyapp",
    "IPython.terminal.ipapp",
    "IPython.terminal.shortcuts.auto_suggest",
    "prompt_toolkit.input.vt100",
    "prompt_toolkit.output.vt100",
)
"""What only IPython in a terminal imports."""
OF_NBCONVERT = ("nbclient", "nbconvert.exporters", "nbconvert.nbconvertapp", "nbconvert.preprocessors")
"""What nbconvert imports until it starts a kernel."""
ONE_THREAD = {"JE_ARROW_MALLOC_CONF": "background_thread:false", "OPENBLAS_NUM_THREADS": "1"}
"""What keeps libraries from starting threads when they are imported."""
LANGUAGES = ("python", "bash")
"""Of the code that cards and steps show."""
SERVERS = "TESTS_FORK_SERVERS"
"""Names the folder of their addresses. One for all workers of a test run: to start one costs 1 to 2 s of CPU."""
ALIVE = "alive"
"""In that folder: servers read it, and end when nobody has it open to write."""
GLANCE = "TEST_GLANCE"
"""Names the seconds that a page has to tell its cells before a first prompt, where a busy machine may take longer."""
OWN_PYTHON = "VIBE_TEST_PYTHON"
"""Names what a process takes for its Python, where that is not the server's (`python_by_fork`)."""
OF_MCP_SERVER = (
    "anyio._backends._asyncio",
    "mcp.server.auth.routes",
    "mcp.server.mcpserver",
    "mcp.server.stdio",
    "http.server",
    "rich.logging",
    "uvicorn.lifespan.on",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.auto",
    "uvicorn.protocols.websockets.auto",
)
"""What a server imports that is written with the SDK of MCP."""
NOT_PRELOADED = ("vibe_jupyter.ui.front_end_choice", "vibe_jupyter.app.shown_form")
"""So that the first run of a kernel opens its view late, as a user's does (app/run_view.py), and a test can say which
servers the form offers."""


def kernel_command(*, has_pandas: bool = False) -> list[str]:
    """What starts a kernel: in place of `python -m ipykernel_launcher -f {connection_file}`. Starts its server.

    pandas is there for those that import it anyway. Not for tests of what happens while it is not there.
    """
    client = _client(PRELOADED, OF_KERNEL, *([OF_TABLES] if has_pandas else []))
    return [*client, "ipykernel_launcher", "-f", "{connection_file}"]


def program_command(entry: str = "vibe_jupyter.cli:main") -> list[str]:
    """What starts the program, or a script that becomes it: in place of `vibe-jupyter`. Starts its server."""
    return [*_client(PRELOADED, OF_PROGRAM), entry]


def terminal_command(*, is_simple: bool = False) -> list[str]:
    """What starts IPython in a terminal, which is not its controlling one: in place of `ipython`. Starts its server."""
    # By itself it would know the terminal from when it was imported: none.
    looks = f"--TerminalInteractiveShell.simple_prompt={is_simple}"
    return [*_client(PRELOADED, OF_TERMINAL), "IPython:start_ipython", looks]


def nbconvert_command() -> list[str]:
    """What executes a notebook in its place with nbconvert, followed by its name. Starts its server."""
    return [*_client(OF_NBCONVERT), "nbconvert", "--to", "notebook", "--execute", "--inplace"]


def python_by_fork(folder: Path) -> str:
    """A program for `sys.executable`: kernels and verifications that it starts come by fork, all else as ever."""
    place = folder / "python"
    kernel, program = (shlex.join(_client(PRELOADED, more)) for more in (OF_KERNEL, OF_PROGRAM))
    place.write_text(f"""#!/bin/sh
export {OWN_PYTHON}="$0"
if [ "$1 $2" = "-m ipykernel_launcher" ]; then shift; exec {kernel} "$@"; fi
if [ "$1 $2 $4" = "-P -c verify" ]; then shift 3; exec {program} vibe_jupyter.cli:main "$@"; fi
exec {shlex.quote(sys.executable)} "$@"
""")
    place.chmod(0o755)
    return str(place)


def script_command(script: Path) -> list[str]:
    """What runs a script that is an MCP server: in place of `python SCRIPT`. Starts its server."""
    return [*_client(OF_MCP_SERVER), str(script)]


def share_servers() -> None:
    """Have the workers that this process starts ask the same servers as this one. They end when it does."""
    folder = tempfile.mkdtemp(prefix="vibe-fork-")
    os.environ[SERVERS] = folder
    os.mkfifo(Path(folder, ALIVE))
    os.open(Path(folder, ALIVE), os.O_RDWR)  # open as long as this process is there, however it ends
    atexit.register(shutil.rmtree, folder, ignore_errors=True)


@cache
def _client(*layers: tuple[str, ...]) -> list[str]:
    """What a server of processes with these modules is asked with, followed by what one is to run.

    It is itself a fork of the server that has all layers of modules but the last.
    """
    if SERVERS not in os.environ:
        share_servers()
    python = _client(*layers[:-1]) if layers[1:] else [sys.executable, "-m"]
    folder = Path(os.environ[SERVERS])
    name = hashlib.sha256(repr((sys.executable, str(ROOT), layers)).encode()).hexdigest()[:8]
    address = str(folder / name)
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not Path(address).exists():
            _start([*python, "tests.kernel.fork_server", address, *layers[-1]], folder / ALIVE)
    return [sys.executable, "-I", "-S", str(CLIENT), address]


def _start(command: list[str], alive: Path) -> None:
    """Start a server, and wait until it answers."""
    environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": str(ROOT), "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    with alive.open("rb") as until:
        server = subprocess.Popen(command, env=environment, stdin=until, stdout=subprocess.PIPE, cwd=ROOT)
    assert server.stdout is not None
    with server.stdout as answer:
        assert answer.readline() == b"ready\n", "the fork server did not start"
    server.returncode = 0  # other workers may need it when this one ends: nobody waits for it


def kernels_on_path(folder: Path) -> str:
    """A value of `JUPYTER_PATH` with which all programs find such kernels as `python3`."""
    spec = folder / "kernels" / "python3" / "kernel.json"
    spec.parent.mkdir(parents=True, exist_ok=True)
    spec.write_text(json.dumps({"display_name": "Python 3", "language": "python", "argv": kernel_command()}))
    return str(folder)


class _Server:
    """Forks when asked, and tells who asked how the child ended."""

    def __init__(self, address: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen(64)
        self._clients: dict[int, socket.socket] = {}
        """Process id of a kernel to the connection of who stands for it."""
        self._selector = selectors.DefaultSelector()
        self._wakeup, wake = socket.socketpair()
        for end in (self._wakeup, wake):
            end.setblocking(False)
        signal.set_wakeup_fd(wake.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._own = [self._listener, self._wakeup, wake]
        for readable in (self._listener, self._wakeup, sys.stdin.buffer):
            self._selector.register(readable, selectors.EVENT_READ)

    def serve(self) -> list[str]:
        """Go on until standard input ends; returns, in a child, with the arguments of the kernel it is to be."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    if argv := self._fork():
                        return argv
                elif key.fileobj is self._wakeup:
                    self._wakeup.recv(4096)
                    self._report_ends()
                elif key.fileobj is sys.stdin.buffer:
                    sys.exit()
                elif key.data is not None and not _stays(key.fileobj):
                    # Who stands for the kernel was killed: a kill of the kernel.
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(key.data, signal.SIGKILL)
                    self._selector.unregister(key.fileobj)

    def _fork(self) -> list[str]:
        client, _ = self._listener.accept()
        data, files, _, _ = socket.recv_fds(client, LARGEST_REQUEST, 3)
        while not data.endswith(b"\n"):
            data += client.recv(LARGEST_REQUEST)
        asked = ast.literal_eval(data.decode())
        if pid := os.fork():
            for file in files:
                os.close(file)
            self._clients[pid] = client
            self._selector.register(client, selectors.EVENT_READ, pid)
            client.sendall(f"{pid}\n".encode())
            return []
        self._become(files, asked["environment"], asked["folder"])
        client.close()
        return asked["argv"]

    def _become(self, files: list[int], environment: dict[str, str], folder: str) -> None:
        """Leave everything of the server behind."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        self._selector.close()
        for one in (*self._own, *self._clients.values()):
            one.close()
        assert isinstance(sys.stdout, io.TextIOWrapper)
        sys.stdout.reconfigure(line_buffering=sys.stdout.isatty())
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        if "JPY_PARENT_PID" in environment:
            # A kernel ends when its parent does; here that is the server.
            os.environ["JPY_PARENT_PID"] = str(os.getppid())
        sys.executable = environment.get(OWN_PYTHON, sys.executable)
        if GLANCE in environment:
            import_module("vibe_jupyter.notebook.open_notebook").GLANCE = float(environment[GLANCE])
        random.seed()
        first = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
        sys.path[:] = [folder, *first, *(one for one in sys.path if one not in ("", str(ROOT)))]

    def _report_ends(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            client = self._clients.pop(pid)
            with contextlib.suppress(KeyError):
                self._selector.unregister(client)
            with contextlib.suppress(OSError):
                client.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
            client.close()


def _stays(client: object) -> bool:
    """Whether a connection that can be read is open."""
    assert isinstance(client, socket.socket)
    try:
        return bool(client.recv(1))
    except OSError:
        return False


def _build_models(model: "type[BaseModel]") -> None:
    """What pydantic otherwise does at the first use of a class."""
    for below in model.__subclasses__():
        if below.__module__.startswith("vibe_jupyter."):
            below.model_rebuild(raise_errors=False)
        _build_models(below)


def _show_error() -> None:
    """What is otherwise done at the first error: `inspect` has the files of all modules looked up, one by one."""
    from IPython.core.ultratb import AutoFormattedTB

    try:
        exec(compile("1 / 0", "<first>", "exec"))
    except ZeroDivisionError:
        AutoFormattedTB(mode="Context").structured_traceback(*sys.exc_info())


def _compile_patterns() -> None:
    """What `re` and pygments otherwise do at the first use of a pattern, and of a lexer."""
    from pygments.lexers import get_lexer_by_name

    from vibe_jupyter.lazy_patterns import _LazyPattern

    for one in gc.get_objects():
        if type(one) is _LazyPattern:
            assert one.pattern
    for language in LANGUAGES:
        get_lexer_by_name(language)


def main(address: str, *preloaded: str) -> None:
    """Serve; in a child, be what was asked for: a module, a function of one, or a script."""
    for name in preloaded:
        __import__(name)
    from pydantic import BaseModel

    _build_models(BaseModel)
    if preloaded == PRELOADED:
        _compile_patterns()
    if "IPython" in sys.modules:
        _show_error()
    if nbformat := sys.modules.get("nbformat"):
        nbformat.validate(nbformat.v4.new_notebook())  # makes the code that checks notebooks
    assert preloaded != OF_KERNEL or sys.modules.keys().isdisjoint(NOT_PRELOADED)
    threads = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
    assert threads == 1, "only what has one thread can be forked"
    gc.collect()
    server = _Server(address)
    print("ready", flush=True)
    sys.argv = server.serve()
    module, _, function = sys.argv[0].partition(":")
    if module == "ipykernel_launcher":
        sys.modules["ipywidgets"].register_comm_target()  # as it does when a kernel imports it
    try:
        if function:
            sys.exit(getattr(import_module(module), function)())
        if module.endswith(".py"):
            runpy.run_path(module, run_name="__main__")
        else:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        _end(end.code if isinstance(end.code, int) else int(end.code is not None))
    _end(0)


def _end(code: int) -> NoReturn:
    """End as Python does, but take nothing apart: that copies every page of memory that is shared with the server."""
    gc.freeze()  # IPython collects at its end, which alone takes 0.1 s
    with contextlib.suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads; only then are exit functions called
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main(*sys.argv[1:])
