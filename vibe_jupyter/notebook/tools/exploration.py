"""Code that only looks, run in a copy of the kernel where it can have no effects, without asking."""

import asyncio
import re
import time
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from IPython.core.error import StdinNotImplementedError
from IPython.core.inputtransformer2 import TransformerManager
from pydantic import JsonValue, ValidationError

from vibe_jupyter.errors import NotebookError, ToolError
from vibe_jupyter.kernel.copied_shell import cut_off_shell
from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.outputs import Output
from vibe_jupyter.protocol import ExecutionResult
from vibe_jupyter.protocol.messages import Value
from vibe_jupyter.sandbox.availability import memory_budget, process_refusal
from vibe_jupyter.sandbox.confinement import Confined, Confinement
from vibe_jupyter.sandbox.file_changes import FileChange, TooManyChanges, file_changes
from vibe_jupyter.sandbox.font_list import FontList
from vibe_jupyter.sandbox.forked_copy import CopyReport, ForkedCopy
from vibe_jupyter.sandbox.readable import ProjectNotReadable, readable_paths
from vibe_jupyter.tools.contract import NotExplored, ToolContext

_GRACE: Final = 2.0
"""Seconds after its own deadline in which the copy may say what came of the code."""
_STARTS_PROGRAMS: Final = re.compile(
    r"get_ipython\(\)\.(?:system|getoutput)\(|"
    r"run_(?:cell|line)_magic\('(?:bash|sh|script|system|sx|!|pip|conda|mamba|uv|perl|ruby|javascript|cmd)'"
)
_LINE_MAGIC: Final = re.compile(r"get_ipython\(\)\.run_line_magic\('([^']+)'")
_PICTURES: Final = {"image/png": b"\x89PNG\r\n", "image/jpeg": b"\xff\xd8\xff"}
"""What is shown of a copy's outputs, and how it begins: nothing that a page runs."""
_ENDINGS: Final = {
    "memory": "it needs more memory than a copy of the kernel may have",
    "too much": "its output is too large for a copy of the kernel",
    "stalled": "in a copy of the kernel it waited for what is not there",
    "died": "it ended the copy of the kernel that ran it, as it may end the kernel",
}


class CopiedRun(Value):
    """What came of code in a copy, as the copy says."""

    result: ExecutionResult
    changed: tuple[str, ...] = ()
    """Names of objects that were changed in place, in the copy."""
    hint: str = ""
    effects: tuple[str, ...] = ()
    """What it would change, a line for each variable; only of a trial."""
    may_differ: bool = False
    """Whether it may go another way in the kernel; only of a trial."""
    rows: tuple[str, ...] = ()
    """See `CodeRun`."""
    refused: str = ""
    """What it failed for that a copy may not do; empty where it would have ended so anyway."""
    attempts: tuple[str, ...] = ()
    """What it tried in vain."""
    files: tuple[FileChange, ...] | None = ()
    """What it did to files that were its own; None where that cannot be told."""
    secrets: dict[str, str] = {}
    """Values that the code bound to names which call them secret."""
    cpu_seconds: float = 0.0


class CodeRun(NamedTuple):
    """What came of code."""

    result: ExecutionResult
    changed: tuple[str, ...]
    """Names of objects that were changed in place."""
    hint: str
    effects: tuple[str, ...] = ()
    """What it changed, a line for each variable; only of a trial."""
    may_differ: bool = False
    """Whether it may go another way in the kernel; only of a trial."""
    rows: tuple[str, ...] = ()
    """What became of the rows of frames, a line for each."""


@dataclass(frozen=True)
class SecretNames:
    """What a copy needs to know of secrets, and what is learned from it."""

    is_secret: Callable[[str], bool]
    """Whether a variable of this name holds one."""
    found: Callable[[], Mapping[str, str]]
    """Every value found so far, and the name that calls it secret."""
    learn: Callable[[Mapping[str, str]], None]
    """Takes values that a copy found, with their names."""


class CodeExploration:
    """Makes a copy of the kernel for each piece of code. On the engine's loop; copies run side by side."""

    def __init__(self, main_thread: MainThread, shell: object, project: Path, secrets: SecretNames) -> None:
        self._main_thread = main_thread
        self._shell: Any = shell
        self._project = project
        self._secrets = secrets
        self._fonts = FontList()
        self._writes = True
        """Whether copies may write; False since one could not."""

    async def run(
        self, code: str, seconds: float, context: ToolContext, execute: Callable[[CodeRunner], CodeRun]
    ) -> CopiedRun | NotExplored:
        """Run it in a copy, or say in one line why a copy will not do.

        Args:
            code: what is run.
            seconds: how long it may take.
            context: of the call.
            execute: runs it, in the copy.

        Raises:
            ToolError: the user interrupted it, or no cell serves any more.
        """
        ran = await self._run(code, seconds, context, execute)
        return NotExplored(ran.refused) if isinstance(ran, CopiedRun) and ran.refused else ran

    async def trial(
        self,
        code: str,
        seconds: float,
        context: ToolContext,
        execute: Callable[[CodeRunner], CodeRun],
        *,
        writes: bool = False,
    ) -> CopiedRun | None:
        """The same for code that will run for real: also what it failed for that a copy may not do; None where no copy
        can be made, or where it broke off. All of it within that time. One that `writes` has files of its own."""
        if writes and not self._writes:
            return None
        ran = await self._run(code, seconds, context, execute, trial=True, writes=writes)
        return ran if isinstance(ran, CopiedRun) else None

    async def _run(
        self,
        code: str,
        seconds: float,
        context: ToolContext,
        execute: Callable[[CodeRunner], CodeRun],
        *,
        trial: bool = False,
        writes: bool = False,
    ) -> CopiedRun | NotExplored:
        if self._starts_programs(TransformerManager().transform_cell(code)):
            return NotExplored("a copy of the kernel may not start a program")
        if refusal := await asyncio.to_thread(process_refusal):
            return NotExplored(f"no copy of the kernel can be made: {refusal}")
        await self._fonts.ready(code)
        try:
            paths = await asyncio.to_thread(readable_paths, self._project)
        except ProjectNotReadable as error:
            return NotExplored(f"no copy of the kernel can be made: {error}")
        confinement = Confinement(
            paths, seconds + (0 if trial else _GRACE), memory_budget(), self._secrets.is_secret, writes
        )
        began = time.monotonic()
        try:
            report = await self._report_of_copy(execute, confinement, context, formats=not trial)
        except OSError as error:
            return NotExplored(f"no copy of the kernel can be made: {error}")
        if report.ending == "time":
            return CopiedRun(result=_timed_out(began), cpu_seconds=report.cpu_seconds)
        if report.ending == "not confined":
            self._writes = self._writes and not writes
            return NotExplored(f"no copy of the kernel can be made: {report.data.decode('utf-8', 'replace')}")
        if report.ending != "done":
            return NotExplored(_ENDINGS[report.ending], is_harmful=report.ending == "died")
        return self._understood(report)

    def _starts_programs(self, code: str) -> bool:
        """Whether code does, by a command or a magic of IPython's: `%ls` is one as well."""
        aliases: Any = self._shell.alias_manager
        return bool(_STARTS_PROGRAMS.search(code)) or any(map(aliases.is_alias, _LINE_MAGIC.findall(code)))

    async def show_pictures(self, outputs: Sequence[Output], call_id: str) -> None:
        """Show in the cell what a copy drew, as code shows it that runs in the kernel.

        Args:
            outputs: of the copy.
            call_id: of the call that had it made.
        """
        bundles = [cast(dict[str, JsonValue], output.get("data") or {}) for output in outputs]
        pictures = [{mime: data[mime]} for data in bundles for mime in _PICTURES if _is_picture(mime, data.get(mime))]
        if pictures:
            await self._main_thread.call(lambda: self._publish(pictures, call_id), raises=False)

    def _publish(self, pictures: Sequence[dict[str, JsonValue]], call_id: str) -> None:
        for picture in pictures:
            self._shell.display_pub.publish(picture)
        self._main_thread.note_outputs(call_id)

    async def _report_of_copy(
        self,
        execute: Callable[[CodeRunner], CodeRun],
        confinement: Confinement,
        context: ToolContext,
        *,
        formats: bool,
    ) -> CopyReport:
        def work(confined: Confined) -> bytes:
            cut_off_shell(self._shell, formats=formats)
            return self._run_in_copy(execute, confined).model_dump_json().encode("utf-8", "replace")

        def fork() -> ForkedCopy:
            if context.cancelled() or self._main_thread.interrupted:
                raise ToolError("interrupted before it ran")
            return ForkedCopy(work, confinement)

        try:
            copy = await self._main_thread.call(fork, raises=False)
        except NotebookError as error:
            raise ToolError(f"Not run to its end: {error}") from error
        return await copy.report()

    def _run_in_copy(self, execute: Callable[[CodeRunner], CodeRun], confined: Confined) -> CopiedRun:
        known = set(self._secrets.found())
        found: dict[str, str] = {}

        def look() -> None:
            """While the names that the code bound are there."""
            found.update({value: name for value, name in self._secrets.found().items() if value not in known})

        ran = execute(CodeRunner(self._shell, None, on_ran=look, in_copy=True))
        outcome = self._shell.last_execution_result
        error = outcome.error_before_exec or outcome.error_in_exec if ran.result.status == "error" else None
        refused = confined.attempts.refusal(error)
        if isinstance(error, StdinNotImplementedError):
            refused = "ask for text to be typed"
        return CopiedRun(
            result=ran.result,
            changed=ran.changed,
            hint=ran.hint,
            effects=ran.effects,
            may_differ=ran.may_differ,
            rows=ran.rows,
            refused=refused and f"a copy of the kernel may not {refused}",
            attempts=confined.attempts.words,
            files=_changed_files(confined),
            secrets=found,
        )

    def _understood(self, report: CopyReport) -> CopiedRun | NotExplored:
        try:
            ran = CopiedRun.model_validate_json(report.data)
        except ValidationError:  # the code wrote into the report
            return NotExplored(_ENDINGS["died"], is_harmful=True)
        self._secrets.learn(ran.secrets)
        return ran.model_copy(update={"cpu_seconds": report.cpu_seconds})


def _is_picture(mime: str, data: object) -> bool:
    """Whether it is one: with anything else under its name, the notebook is no longer valid, and no export reads it."""
    if not isinstance(data, str):
        return False
    with suppress(ValueError):
        return b64decode("".join(data.split()), validate=True).startswith(_PICTURES[mime])
    return False


def _changed_files(confined: Confined) -> tuple[FileChange, ...] | None:
    try:
        return () if confined.overlay is None else tuple(file_changes(confined.overlay))
    except (OSError, TooManyChanges):
        return None


def _timed_out(began: float) -> ExecutionResult:
    return ExecutionResult(status="timeout", outputs=(), seconds=time.monotonic() - began)
