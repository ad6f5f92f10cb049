"""A server that is a program of this machine: started, spoken to over its pipes, and ended with all it started.

Imports the SDK: imported itself when the first server starts.
"""

import asyncio
import contextlib
from pathlib import Path
from types import TracebackType
from typing import Final

from vibe_jupyter.tools.mcp.incoming import Incoming
from vibe_jupyter.tools.mcp.log import ServerLog
from vibe_jupyter.tools.mcp.pipes import Outgoing, Pipes
from vibe_jupyter.tools.mcp.server import Program
from vibe_jupyter.tools.mcp.surroundings import Surroundings
from vibe_jupyter.tools.shell.environment import child_environment
from vibe_jupyter.tools.shell.process_tree import MARK, ProcessTree, new_mark

LEAVE_GRACE: Final = 0.5
"""Seconds a program is given to end by itself once its input is closed."""
DEATH_GRACE: Final = 5.0
"""Seconds a killed program may take to be gone: a large one on a busy machine takes more than a moment."""


class ProgramTransport:
    """One life of the program; the SDK's Client enters and leaves it."""

    def __init__(self, program: Program, surroundings: Surroundings, log: ServerLog) -> None:
        self._program = program
        self._surroundings = surroundings
        self._folder = surroundings.folder / Path(program.cwd).expanduser()
        self._mark = new_mark()
        self._process: asyncio.SubprocessTransport | None = None
        self._tree: ProcessTree | None = None
        self._returncode: int | None = None
        self.pipes = Pipes(log)

    @property
    def trouble(self) -> str:
        """How it ended by itself; empty where it did not."""
        if self.pipes.trouble or not self.pipes.lost:
            return self.pipes.trouble
        code = self._returncode
        if code is None:
            return "it closed its output"
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    async def __aenter__(self) -> tuple[Incoming, Outgoing]:
        given = child_environment(self._surroundings.environ)
        self._process, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: self.pipes,
            *self._program.argv,
            cwd=self._folder,
            env={**given, **self._program.env, MARK: self._mark},
            start_new_session=True,
        )
        self._tree = ProcessTree(self._process.get_pid(), self._mark)
        return self.pipes.incoming, self.pipes.outgoing

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        ending = asyncio.ensure_future(self._end())
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            await asyncio.wait([ending])
            raise

    async def _end(self) -> None:
        """Its input is closed, then it is asked, then forced; nothing of its group is left."""
        process, tree = self._process, self._tree
        if process is None or tree is None:
            return
        self.pipes.close()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.pipes.exited.wait(), LEAVE_GRACE)
        finally:  # also where the engine ends, and with it every task
            self._returncode = process.get_returncode()
            try:
                await asyncio.to_thread(tree.end)
                with contextlib.suppress(TimeoutError):  # nobody would wait for it any more
                    await asyncio.wait_for(self.pipes.exited.wait(), DEATH_GRACE)
            finally:
                tree.close()
                process.close()
