"""The tool `bash`: one shell command in the project folder, whose child processes end with it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.truncation import head_and_tail
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.protocol import Headline, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.background import LONGEST, BackgroundCommands
from vibe_jupyter.tools.child_environment import child_environment
from vibe_jupyter.tools.contract import NotExplored, Tool, ToolContext, ToolOptions
from vibe_jupyter.tools.process import FinishedCommand, ShellCommand, run_command
from vibe_jupyter.tools.shell_path import find_shell, why_no_shell

LONGEST_TIMEOUT: Final = 3_600  # seconds
STARTED: Final = (
    "Started; it runs until it ends, or the kernel does. The first prompt after its end reports how it ended and what "
    "it printed: do not wait for it, and end your turn when nothing else is to be done."
)
_IN_SANDBOX: Final = "in a sandbox: nothing was changed"
_SAID: Final = 2_000  # characters reserved for the status and notes of a result
_SHOWN_TEXT: Final = 100_000  # characters of output shown to the user


class BashOptions(ToolOptions):
    """Settings in ``[tools.bash]``."""

    default_timeout: int = Field(default=300, ge=1, le=LONGEST_TIMEOUT)  # seconds
    max_output_bytes: int = Field(default=16_000, ge=200)  # bytes kept of each stream, from its beginning and end
    # Further environment variables passed to commands; may contain ``*`` as a wildcard
    environment: tuple[str, ...] = ()


class BashArgs(BaseModel):
    """What to run."""

    model_config = ConfigDict(extra="forbid")

    command: str = Field(min_length=1)
    timeout: int | None = Field(default=None, ge=1, le=LONGEST_TIMEOUT)
    background: bool = False


@dataclass(frozen=True)
class ShellEnvironment:
    """Working directory and environment of commands."""

    workspace: Workspace
    environ: Mapping[str, str]  # the kernel's environment, read again at each call
    fixed: Mapping[str, str]  # variables set for every command
    # Returns variables for one command that prevent git from running a repository's programs, and searches from reading
    # protected files.
    guard: Callable[[str], Mapping[str, str]] = lambda command: {}


class CommandSandbox(Protocol):
    """Runs commands without side effects."""

    async def run(self, command: ShellCommand, progress: Callable[[str], None]) -> FinishedCommand | NotExplored:
        """Run a command. Returns the reason if it needs something that the sandbox denies."""
        ...


class BashTool(Tool[BashArgs]):
    """Runs commands without a terminal or input."""

    name = "bash"
    description = (
        "Run one shell command in the project folder: git, tests; no input. Use read_file, grep, write_file, "
        "search_replace and run_code instead of cat, find, echo >, sed and python."
    )
    arguments = BashArgs
    tried_in = "a sandbox"

    def __init__(
        self,
        surroundings: ShellEnvironment,
        options: BashOptions | None = None,
        background: BackgroundCommands | None = None,
    ) -> None:
        self._around = surroundings
        self._options = options or BashOptions()
        self._background = background or BackgroundCommands()
        if "max_output_bytes" in self._options.model_fields_set:
            self.result_limit = 2 * self._options.max_output_bytes + _SAID  # both streams and the notes
        self.sandbox: CommandSandbox | None = None  # runs commands without approval; None if unavailable

    def headline(self, args: BashArgs) -> Headline:
        target = args.command.split("\n", 1)[0]
        if args.background:
            asking = "Run a command in the background"
            return Headline(verb="Started", doing="Starting", asking=asking, target=target, note="in the background")
        return Headline(verb="Ran", doing="Running", asking="Run a command", target=target)

    def preview(self, args: BashArgs) -> Preview:
        return Preview(kind="command", text=args.command, language="bash", edits="command")

    def touches(self, args: BashArgs) -> Sequence[Resource]:
        return (Resource(kind="command", value=args.command, access="execute"),)

    async def run(self, args: BashArgs, context: ToolContext) -> ToolResult:
        seconds = self._seconds(args)
        command = self._command(args, seconds)
        if not args.background:
            return command_result(args.command, await run_command(command, context.progress), seconds)
        started = await self._background.start(command, args.command, redact=context.redact)
        if isinstance(started, FinishedCommand):
            return command_result(args.command, started, seconds)
        return ToolResult(parts=(TextPart(text=STARTED),), summary="runs in the background")

    def can_explore(self, args: BashArgs) -> bool:
        """Return False for background commands, which always need approval."""
        return self.sandbox is not None and not args.background

    async def explore(self, args: BashArgs, context: ToolContext) -> ToolResult | NotExplored:
        """Run the command in the sandbox, where it can only read the project."""
        assert self.sandbox is not None
        seconds = self._seconds(args)
        done = await self.sandbox.run(self._command(args, seconds), context.progress)
        if isinstance(done, NotExplored):
            return done
        told = command_result(args.command, done, seconds, also=_IN_SANDBOX)
        return told.model_copy(
            update={"summary": f"{told.summary}, {_IN_SANDBOX}", "details": {**told.details, "in_sandbox": True}}
        )

    def _seconds(self, args: BashArgs) -> int:
        return args.timeout or (LONGEST if args.background else self._options.default_timeout)

    def _command(self, args: BashArgs, seconds: float) -> ShellCommand:
        shell = find_shell()
        if shell is None:
            raise ToolError(f"{why_no_shell()} Use run_code instead.")
        return ShellCommand(
            argv=(shell, "--noprofile", "--norc", "-c", args.command),
            folder=self._around.workspace.root,
            environment={
                **child_environment(self._around.environ, self._options.environment),
                **self._around.fixed,
                **self._around.guard(args.command),
            },
            timeout=seconds,
            output_limit=self._options.max_output_bytes,
        )


def command_result(command: str, done: FinishedCommand, timeout: float, also: str = "") -> ToolResult:
    """Build the result of a finished command. `also` is appended to the status line."""
    failed = done.returncode != 0
    status = f"returncode: {done.returncode}" if done.ended == "exit" else f"timeout: ended after {timeout:g} s"
    status += f", {also}" if also else ""
    text = "\n".join(
        filter(
            None,
            (status, *_result_lines(done), _stream_block("stdout", done.stdout), _stream_block("stderr", done.stderr)),
        )
    )
    shown = "\n".join(filter(None, (done.stdout.rstrip("\n"), done.stderr.rstrip("\n"))))
    return ToolResult(
        parts=(TextPart(text=text),),
        summary=_bash_summary(done, timeout),
        display={"text/plain": head_and_tail(shown, _SHOWN_TEXT)} if shown else {},
        details={
            "command": command,
            "stdout": done.stdout,
            "stderr": done.stderr,
            "returncode": done.returncode,
            "seconds": round(done.seconds, 3),
            "was_truncated": done.was_truncated,
        },
        is_error=failed,
    )


def _result_lines(done: FinishedCommand) -> list[str]:
    out: list[str] = []
    if done.ended == "timeout" and not done.unended:
        out.append("note: it and all it started were ended; a longer timeout can be given")
    if done.unended:
        out.append(f"note: could not be ended, and still running: {', '.join(done.unended)}")
    if done.left_behind:
        out.append(f"note: still running when the shell ended, and ended too: {', '.join(done.left_behind)}")
    if done.was_truncated:
        out.append("note: output was cut in the middle")
    return out


def _stream_block(name: str, text: str) -> str:
    return f"{name}:\n{text}".rstrip("\n") if text.strip() else ""


def _bash_summary(done: FinishedCommand, timeout: float) -> str:
    if done.ended == "timeout":
        return f"ended after {timeout:g} s"
    if done.returncode:
        return f"exit code {done.returncode}"
    lines = len(done.stdout.splitlines())
    return f"{lines} line{'s' * (lines != 1)}" if lines else "no output"
