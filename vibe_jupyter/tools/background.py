"""Commands that outlive the call that started them, and reports on their results.

They end with the kernel or the conversation, whichever is first. Their state is reported with the next prompt, so a
model never needs to poll.
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

LONGEST: Final = 86_400  # seconds a background command may run
MOST: Final = 8  # concurrent background commands
# Seconds to wait for commands that end at once, e.g. because of a misspelled name; these return normally
AT_ONCE: Final = 2.0
TAIL: Final = 4_000  # characters of the newest output kept while a command runs
SHOWN: Final = 1_000  # characters of output in the report on one command
NAME: Final = 60  # characters of a command's display name


class BackgroundCommand:
    """A background command, running or finished."""

    def __init__(self, command: str, redact: Callable[[str], str]) -> None:
        """Create a command that has not been started.

        Args:
            command: the command as called.
            redact: removes secrets from its output before that is shortened.
        """
        self.command = command
        self.redact = redact
        self.began = time.monotonic()
        self.seconds: float | None = None  # duration; None while it runs
        self.done: FinishedCommand | None = None  # None while it runs, or if it was cancelled
        self.task: asyncio.Task[FinishedCommand] | None = None
        self._newest = deque[str](maxlen=TAIL)

    @property
    def name(self) -> str:
        """The first line of the command, shortened."""
        return f"`{cut_line(self.redact(self.command).split(chr(10), 1)[0], NAME)}`"

    @property
    def state(self) -> str:
        """Description of the command's state."""
        if self.seconds is None:
            return f"{self.name} has been running for {time_text(time.monotonic() - self.began)}"
        if self.done is None:
            return f"{self.name} was ended after {time_text(self.seconds)}"
        if self.done.ended == "timeout":
            return f"{self.name} was ended after {time_text(self.seconds)}: it took too long"
        return f"{self.name} finished after {time_text(self.seconds)} with exit code {self.done.returncode}"

    @property
    def output(self) -> str:
        """The newest output while it runs, afterwards the shortened stdout and stderr."""
        if self.done is None:
            return self.redact("".join(self._newest))
        return self.redact("\n".join(filter(None, (self.done.stdout.rstrip("\n"), self.done.stderr.rstrip("\n")))))

    def print(self, text: str) -> None:
        """Append new output."""
        self._newest.extend(text)

    def finish(self, task: "asyncio.Task[FinishedCommand]") -> None:
        """Store the result when the command has ended."""
        self.seconds = time.monotonic() - self.began
        if not task.cancelled() and task.exception() is None:
            self.done = task.result()


class BackgroundCommands:
    """Background commands of one kernel. Start and end them on the engine's loop; reading is safe from any thread."""

    def __init__(self, at_once: float = AT_ONCE) -> None:
        self._at_once = at_once
        # Running commands, and finished ones that haven't been reported to the model
        self.commands: tuple[BackgroundCommand, ...] = ()

    async def start(
        self, command: "ShellCommand", text: str, *, redact: Callable[[str], str]
    ) -> "FinishedCommand | BackgroundCommand":
        """Start a command. Returns its result if it ends at once.

        Args:
            command: the command to run, with its timeout.
            text: the command as shown.
            redact: removes secrets from a text.

        Raises:
            ToolError: it could not be started, or too many are running.
        """
        if len(running := self.running()) >= MOST:
            raise ToolError(f"Not started: {MOST} commands run in the background already: {', '.join(running)}.")
        # The kernel creates this class with the first prompt, long before a command runs.
        from vibe_jupyter.tools.process import run_command  # noqa: PLC0415

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
        """Return the names of running commands."""
        return tuple(command.name for command in self.commands if command.seconds is None)

    def lines(self) -> list[str]:
        """Describe each command's state, for the user."""
        return [f"Background: {command.state}" for command in self.commands]

    def report(self, *, schema_only: bool) -> str:
        """Return the report for the model's next prompt, or "". A command's end is reported once.

        Args:
            schema_only: whether output must not be sent.
        """
        told = self.commands
        self.commands = tuple(command for command in told if command.seconds is None)
        return (
            section("background", "\n".join(_report_text(one, schema_only=schema_only) for one in told)) if told else ""
        )

    async def end(self) -> None:
        """Cancel and forget all commands."""
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
    """Format a duration in seconds, minutes or hours."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5_400 else f"{seconds / 3_600:.1f} h"
