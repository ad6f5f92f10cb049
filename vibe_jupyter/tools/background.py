"""Commands that go on when the call that started them is over, and what is said of them afterwards.

They end with the kernel, or with the conversation, whichever is first. Nobody asks a model how they stand.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.code_files import WITHHELD
from vibe_jupyter.files.truncation import cut_line, head_and_tail, section

if TYPE_CHECKING:
    from vibe_jupyter.tools.process import FinishedCommand, ShellCommand

LONGEST: Final = 86_400
"""Seconds a command may take in the background."""
MOST: Final = 8
"""Commands at a time."""
AT_ONCE: Final = 2.0
"""Seconds in which a command that ends is answered as any other: a wrong name is known at once."""
TAIL: Final = 4_000
"""Characters of the newest output that are kept while a command runs."""
SHOWN: Final = 1_000
"""Characters of output in the report on one command."""
NAME: Final = 60
"""Characters of a command by which it is named."""


class BackgroundCommand:
    """One command, from its start on."""

    def __init__(self, command: str, redact: Callable[[str], str]) -> None:
        """
        Args:
            command: as it was called.
            redact: takes secrets out of what it prints, before it is cut.
        """
        self.command = command
        self.redact = redact
        self.began = time.monotonic()
        self.seconds: float | None = None
        """None while it runs."""
        self.done: FinishedCommand | None = None
        """None while it runs, and where it was ended."""
        self.task: asyncio.Task[FinishedCommand] | None = None
        self._newest = deque[str](maxlen=TAIL)

    @property
    def name(self) -> str:
        """Its first line, shortened."""
        return f"`{cut_line(self.redact(self.command).split(chr(10), 1)[0], NAME)}`"

    @property
    def state(self) -> str:
        """How it stands, in words."""
        if self.seconds is None:
            return f"{self.name} has been running for {time_text(time.monotonic() - self.began)}"
        if self.done is None:
            return f"{self.name} was ended after {time_text(self.seconds)}"
        if self.done.ended == "timeout":
            return f"{self.name} was ended after {time_text(self.seconds)}: it took too long"
        return f"{self.name} finished after {time_text(self.seconds)} with exit code {self.done.returncode}"

    @property
    def output(self) -> str:
        """The newest while it runs, then head and tail of both streams."""
        if self.done is None:
            return self.redact("".join(self._newest))
        return self.redact("\n".join(filter(None, (self.done.stdout.rstrip("\n"), self.done.stderr.rstrip("\n")))))

    def print(self, text: str) -> None:
        """Take new output."""
        self._newest.extend(text)

    def finish(self, task: "asyncio.Task[FinishedCommand]") -> None:
        """It runs no more."""
        self.seconds = time.monotonic() - self.began
        if not task.cancelled() and task.exception() is None:
            self.done = task.result()


class BackgroundCommands:
    """Those of one kernel. Started and ended on the engine's loop, asked from anywhere."""

    def __init__(self, at_once: float = AT_ONCE) -> None:
        self._at_once = at_once
        self.commands: tuple[BackgroundCommand, ...] = ()
        """Those that run, and those whose end the model does not know."""

    async def start(
        self, command: "ShellCommand", text: str, *, redact: Callable[[str], str]
    ) -> "FinishedCommand | BackgroundCommand":
        """Start a command; its result where it ends at once.

        Args:
            command: what is run, and for how long.
            text: the same as it was shown.
            redact: takes secrets out of a text.

        Raises:
            ToolError: it could not be started, or too many run already.
        """
        if len(running := self.running()) >= MOST:
            raise ToolError(f"Not started: {MOST} commands run in the background already: {', '.join(running)}.")
        from vibe_jupyter.tools.process import run_command  # noqa: PLC0415 (a kernel has this class from its first prompt on)

        begun = BackgroundCommand(text, redact)
        task = begun.task = asyncio.create_task(run_command(command, begun.print))
        task.add_done_callback(begun.finish)
        self.commands = (*self.commands, begun)
        try:
            await asyncio.wait([task], timeout=self._at_once)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            return begun
        self.commands = tuple(one for one in self.commands if one is not begun)
        return task.result()

    def running(self) -> tuple[str, ...]:
        """The names of those that run."""
        return tuple(command.name for command in self.commands if command.seconds is None)

    def lines(self) -> list[str]:
        """How each stands, for the user."""
        return [f"Background: {command.state}" for command in self.commands]

    def report(self, *, schema_only: bool) -> str:
        """What the model is shown with the next prompt; empty for nothing. The end of a command is reported once.

        Args:
            schema_only: whether what they print may not be sent.
        """
        told = self.commands
        self.commands = tuple(command for command in told if command.seconds is None)
        return (
            section("background", "\n".join(_report_text(one, schema_only=schema_only) for one in told)) if told else ""
        )

    async def end(self) -> None:
        """End and forget all."""
        commands, self.commands = self.commands, ()
        tasks = [command.task for command in commands if command.task is not None and not command.task.done()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _report_text(command: BackgroundCommand, *, schema_only: bool) -> str:
    if schema_only:
        return f"{command.state}; its output is {WITHHELD}"
    output = command.output.strip()
    return f"{command.state}\n{head_and_tail(output, SHOWN)}" if output else f"{command.state}, no output"


def time_text(seconds: float) -> str:
    """A time in seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"
