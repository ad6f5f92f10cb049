"""Child programs, each under a supervisor process (`supervisor.py`) that ends all its descendants."""

import asyncio
import contextlib
import errno
import marshal
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, cast

from vibe_jupyter.tools import supervisor as program
from vibe_jupyter.tools.process_marks import TITLE, VARIABLE, end_marked, new_mark

# Folder and name of a module whose `main` starts a command unchanged. It isn't imported by its full name, since
# importing our packages would take longer than everything else it needs.
COMMAND_SUPERVISOR: Final = (str(Path(__file__).parent), "supervisor")
ANSWER_SECONDS: Final = 10.0  # seconds for a supervisor to end all processes, with a margin; after that it is killed
# Finds only the standard library and modules in that folder
_RUN_MODULE: Final = "import sys; sys.path.append(sys.argv[1]); __import__(sys.argv[2], fromlist=['main']).main()"
_LIBRARY_PATHS: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # variables that some Python builds need to start


class SupervisedProgram(NamedTuple):
    """A program to start."""

    argv: Sequence[str]
    folder: Path
    environment: Mapping[str, str]  # the complete environment
    supervisor: tuple[str, str] = COMMAND_SUPERVISOR  # folder and module of the supervisor


class SupervisedProcess:
    """A program with all its descendants. Created by `start_supervised`, ended by `end`."""

    def __init__(self, on_exit: Callable[[], None]) -> None:
        """Create the process without starting it.

        Args:
            on_exit: called when the program itself exits. Its descendants may still run.
        """
        self.exited = asyncio.Event()
        # Exit code, negative for a signal; None while it runs; the supervisor's if that was killed
        self.returncode: int | None = None
        self.left_behind: tuple[str, ...] = ()  # processes that were ended after the program's exit, or with it
        self.unended: tuple[str, ...] = ()  # processes that could not be ended
        self._on_exit = on_exit
        self._mark = new_mark()
        self._connection = _Connection(self._take_line, self._supervisor_ended)
        self._began = asyncio.get_running_loop().create_future()
        self._gone = asyncio.Event()  # the event loop has reaped the supervisor
        self._is_done = False
        self._socket: socket.socket | None = None
        self._process: asyncio.SubprocessTransport | None = None
        self._ending: asyncio.Future[None] | None = None

    async def start(
        self, asked: SupervisedProgram, protocol: Callable[[], asyncio.SubprocessProtocol], stdin: int
    ) -> None:
        """Start the program. See `start_supervised`."""
        loop = asyncio.get_running_loop()
        near, far = socket.socketpair()
        try:
            self._socket = near.dup()
            await loop.create_unix_connection(lambda: self._connection, sock=near)
            starting = asyncio.ensure_future(
                loop.subprocess_exec(
                    lambda: _Relay(protocol(), self._gone),
                    *(sys.executable, "-I", "-S", "-c", _RUN_MODULE, *asked.supervisor, TITLE),
                    *map(str, (far.fileno(), os.getpid(), self._mark)),
                    stdin=stdin,
                    cwd=asked.folder,
                    env={name: os.environ[name] for name in _LIBRARY_PATHS if name in os.environ},
                    pass_fds=(far.fileno(),),
                    start_new_session=True,
                )
            )
            try:
                self._process, _ = await asyncio.shield(starting)
            except asyncio.CancelledError:
                await asyncio.wait([starting])
                if not starting.cancelled() and starting.exception() is None:
                    self._process, _ = starting.result()
                raise
        finally:
            far.close()
            if not self._connection.is_made:
                near.close()
        given = {os.fsencode(name): os.fsencode(value) for name, value in asked.environment.items()}
        given[VARIABLE.encode()] = str(self._mark).encode()
        request = marshal.dumps(([os.fsencode(one) for one in asked.argv], given))
        self._connection.send(len(request).to_bytes(program.LENGTH, "little") + request)
        if failed := await self._began:
            raise OSError(failed, os.strerror(failed), asked.argv[0])

    async def end(self) -> None:
        """End the program and all its descendants. Cancellation is delayed until that is done."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        try:
            await asyncio.shield(self._ending)
        except asyncio.CancelledError:
            await asyncio.wait([self._ending])
            raise

    def close(self) -> None:
        """Release the supervisor.

        If `end` was not awaited, as when the engine is shutting down, blocks until it is done.
        """
        if self._socket is not None:
            if not self._is_done:
                _wait_for_end(self._socket)
            self._socket.close()
        self._connection.close()
        if self._process is not None:
            self._process.close()

    async def _end(self) -> None:
        self._connection.close_sending()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._connection.lost.wait(), ANSWER_SECONDS)
        # The supervisor was killed or stopped, perhaps by the command
        if self._process is not None and not self._is_done:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
        if not self._is_done or sys.platform != "linux":
            left = await asyncio.to_thread(end_marked, self._mark)
            self.left_behind = (*self.left_behind, *left)
        with contextlib.suppress(TimeoutError):
            if self._process is not None:
                await asyncio.wait_for(self._gone.wait(), ANSWER_SECONDS)
        if self.returncode is None and self._process is not None:
            self.returncode = self._process.get_returncode()
        self._is_done = True
        self._exit(self.returncode)

    def _take_line(self, line: bytes) -> None:
        kind, text = line[:1], line[1:].decode("utf-8", "replace")
        names = tuple(text.split(", ")) if text else ()
        if kind in (program.BEGAN, program.FAILED) and not self._began.done():
            self._began.set_result(int(text or errno.EINVAL) if kind == program.FAILED else 0)
        elif kind == program.EXITED:
            self._exit(int(text))
        elif kind == program.ENDED:
            self.left_behind = names
        elif kind == program.STAYED:
            self.unended = names
        elif kind == program.DONE:
            self._is_done = True

    def _supervisor_ended(self) -> None:
        if not self._began.done():
            self._began.set_result(0)  # the command may have started and killed its supervisor
        self._exit(self.returncode)

    def _exit(self, returncode: int | None) -> None:
        if not self.exited.is_set():
            self.returncode = returncode
            self.exited.set()
            self._on_exit()


async def start_supervised(
    asked: SupervisedProgram,
    protocol: Callable[[], asyncio.SubprocessProtocol],
    *,
    stdin: int,
    on_exit: Callable[[], None] = lambda: None,
) -> SupervisedProcess:
    """Start a program under its own supervisor.

    Args:
        asked: the program.
        protocol: creates the receiver of its output.
        stdin: as for `subprocess.Popen`.
        on_exit: called when the program itself exits. Its descendants may still run.

    Raises:
        OSError: the program could not be started.
        asyncio.CancelledError: the start was interrupted. Nothing is left running.
    """
    started = SupervisedProcess(on_exit)
    try:
        await started.start(asked, protocol, stdin)
    except BaseException:
        try:
            await started.end()
        finally:
            started.close()
        raise
    return started


def _wait_for_end(connection: socket.socket) -> None:
    connection.settimeout(ANSWER_SECONDS)
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4_096):
            pass


class _Relay(asyncio.SubprocessProtocol):
    """Forwards output. The exit that asyncio sees is the supervisor's rather than the program's."""

    def __init__(self, output: asyncio.SubprocessProtocol, gone: asyncio.Event) -> None:
        self._gone = gone
        self.connection_made = output.connection_made
        self.connection_lost = output.connection_lost
        self.pipe_data_received = output.pipe_data_received
        self.pipe_connection_lost = output.pipe_connection_lost

    def process_exited(self) -> None:
        self._gone.set()


class _Connection(asyncio.Protocol):
    """Our end of the socket to the supervisor."""

    def __init__(self, take_line: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self.lost = asyncio.Event()
        self._take_line = take_line
        self._on_end = on_end
        self._partial = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports don't inherit from Transport

    def data_received(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._take_line(line)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        self._on_end()

    @property
    def is_made(self) -> bool:
        return self._transport is not None

    def send(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close_sending(self) -> None:
        """Shut down the sending side, which tells the supervisor to end everything, even if another process inherited
        the socket."""
        if self._transport is None:
            self.lost.set()
        elif self._transport.can_write_eof() and not self._transport.is_closing():
            self._transport.write_eof()

    def close(self) -> None:
        self.close_sending()
        if self._transport is not None:
            self._transport.abort()
