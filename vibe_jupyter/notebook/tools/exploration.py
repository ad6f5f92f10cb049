"""Read-only exploration: code that runs without approval in a copy of the kernel, where it can't have effects.

Reports of a copy are untrusted: see `copy_report.py`.
"""

import asyncio
import functools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

from IPython.core.error import StdinNotImplementedError
from IPython.core.inputtransformer2 import TransformerManager
from pydantic import JsonValue, ValidationError

from vibe_jupyter.errors import NotebookError, ToolError
from vibe_jupyter.kernel.copied_shell import cut_off_shell, has_running_loop, run_inside_loop
from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.outputs import Output
from vibe_jupyter.notebook.known_names import NameCheck
from vibe_jupyter.notebook.tools.copied_outputs import PICTURES
from vibe_jupyter.notebook.tools.copy_report import (
    MOST_NAMES,
    CopiedRun,
    ReportedNames,
    ReportedRun,
    checked_run,
    reported_error,
)
from vibe_jupyter.protocol import ExecutionResult
from vibe_jupyter.protocol.variable_effects import LONGEST_NAME, RowCount, VariableEffect
from vibe_jupyter.sandbox.attempts import Attempt
from vibe_jupyter.sandbox.availability import memory_budget, process_refusal
from vibe_jupyter.sandbox.confinement import Confined, Confinement
from vibe_jupyter.sandbox.file_changes import FileChange, TooManyChanges, file_changes
from vibe_jupyter.sandbox.font_list import FontList
from vibe_jupyter.sandbox.forked_copy import CopyReport, ForkedCopy
from vibe_jupyter.sandbox.readable import ProjectNotReadable, readable_paths
from vibe_jupyter.tools.contract import NotExplored, ToolContext

_GRACE: Final = 2.0  # seconds after its own deadline in which the copy may still report
_STARTS_PROGRAMS: Final = re.compile(
    r"get_ipython\(\)\.(?:system|getoutput)\(|"
    r"run_(?:cell|line)_magic\('(?:bash|sh|script|system|sx|!|pip|conda|mamba|uv|perl|ruby|javascript|cmd)'"
)
_LINE_MAGIC: Final = re.compile(r"get_ipython\(\)\.run_line_magic\('([^']+)'")
_LARGE_REPORT: Final = 1 << 20  # bytes; larger reports are parsed in a worker thread
_ENDINGS: Final = {
    "memory": "it needs more memory than a copy of the kernel may have",
    "too much": "its output is too large for a copy of the kernel",
    "stalled": "in a copy of the kernel it waited for what is not there",
    "died": "it ended the copy of the kernel that ran it, as it may end the kernel",
}


class CodeRun(NamedTuple):
    """Result of code in the kernel or in a copy."""

    result: ExecutionResult
    changed: tuple[str, ...]  # names of objects changed in place
    hint: str  # suggestions for a missing name; runs in the kernel only
    effects: tuple[VariableEffect, ...] = ()  # effects on variables; trials only
    may_differ: bool = False  # True if it may behave differently in the kernel; trials only
    rows: tuple[RowCount, ...] = ()  # row counts of frames; copies only


class FoundSecrets(Protocol):
    """Secrets in the user's variables."""

    def __call__(self) -> Mapping[str, str]:
        """Return all values found so far, each with the name that suggests a secret."""
        ...

    def partly_known(self) -> Mapping[str, tuple[str, ...]]:
        """Return names whose values couldn't all be inspected, with some of those values."""
        ...


@dataclass(frozen=True)
class SecretNames:
    """Secrets of a copy, used to redact its report.

    They are discarded with the report: otherwise code in a copy could fill the session's list of secrets, or have
    ordinary words redacted for the rest of the session.
    """

    is_secret: Callable[[str], bool]  # True if a variable of this name contains a secret
    found: FoundSecrets
    redact: Callable[[ReportedRun], ReportedRun]  # redacts a report by the secrets it lists


class CodeExploration:
    """Forks a copy of the kernel for each piece of code. On the engine's loop; copies may run in parallel."""

    def __init__(self, main_thread: MainThread, shell: object, project: Path, secrets: SecretNames) -> None:
        self._main_thread = main_thread
        self._shell: Any = shell
        self._project = project
        self._secrets = secrets
        self._fonts = FontList()
        self._writes = True  # whether copies may write; False after one couldn't be confined for it

    async def run(
        self, code: str, seconds: float, context: ToolContext, execute: Callable[[CodeRunner], CodeRun]
    ) -> CopiedRun | NotExplored:
        """Run code in a copy, or return why a copy won't do.

        Args:
            code: The code.
            seconds: Time limit.
            context: Context of the call.
            execute: Runs the code, in the copy.

        Raises:
            ToolError: The user interrupted, or the cell has finished.
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
        """Run code in a copy to preview its effects and any operation that the copy blocked, within the time limit.

        Returns None if no copy can be made or it ended early. With `writes`, the copy writes to an overlay of the file
        system.
        """
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
        # On first import matplotlib writes a list of fonts, which a copy isn't allowed to.
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
            report, names = await self._report_of_copy(code, execute, confinement, context, formats=not trial)
        except OSError as error:
            return NotExplored(f"no copy of the kernel can be made: {error}")
        if report.ending == "time":
            return CopiedRun(_timed_out(began), names, cpu_seconds=report.cpu_seconds)
        if report.ending == "not confined":
            self._writes = self._writes and not writes
            return NotExplored(f"no copy of the kernel can be made: {report.data.decode('utf-8', 'replace')}")
        if report.ending != "done":
            return NotExplored(_ENDINGS[report.ending], is_harmful=report.ending == "died")
        return await self._understood(report, names, schema_only=context.schema_only)

    def _starts_programs(self, code: str) -> bool:
        """Return whether transformed code starts programs, by a shell command or a magic. `%ls` does so too."""
        aliases: Any = self._shell.alias_manager
        return bool(_STARTS_PROGRAMS.search(code)) or any(map(aliases.is_alias, _LINE_MAGIC.findall(code)))

    async def show_pictures(self, outputs: Sequence[Output], call_id: str) -> None:
        """Show a copy's images in the cell, as if the code had run in the kernel.

        Args:
            outputs: Validated outputs of the copy.
            call_id: Id of the call that ran it.
        """
        bundles = [cast(dict[str, JsonValue], output.get("data") or {}) for output in outputs]
        pictures = [{mime: data[mime]} for data in bundles for mime in PICTURES if mime in data]
        if pictures:
            await self._main_thread.call(lambda: self._publish(pictures, call_id), raises=False)

    def _publish(self, pictures: Sequence[dict[str, JsonValue]], call_id: str) -> None:
        for picture in pictures:
            self._shell.display_pub.publish(picture)
        self._main_thread.note_outputs(call_id)

    async def _report_of_copy(
        self,
        code: str,
        execute: Callable[[CodeRunner], CodeRun],
        confinement: Confinement,
        context: ToolContext,
        *,
        formats: bool,
    ) -> tuple[CopyReport, NameCheck]:
        def work(confined: Confined, in_loop: bool) -> bytes:
            cut_off_shell(self._shell, formats=formats)
            run = functools.partial(self._run_in_copy, execute, confined)
            return (run_inside_loop(self._shell, run) if in_loop else run()).as_bytes()

        def fork() -> tuple[ForkedCopy, NameCheck]:
            if context.cancelled() or self._main_thread.interrupted:
                raise ToolError("interrupted before it ran")
            names = NameCheck(code, frozenset(self._shell.user_ns))
            in_loop = has_running_loop()
            return ForkedCopy(functools.partial(work, in_loop=in_loop), confinement), names

        forked = asyncio.ensure_future(self._main_thread.call(fork, raises=False))
        try:
            copy, names = await asyncio.shield(forked)
        except NotebookError as error:
            raise ToolError(f"Not run to its end: {error}") from error
        except asyncio.CancelledError:
            # The main thread may have forked, or be about to, and nothing else would end that copy.
            forked.add_done_callback(_end_unheard)
            raise
        return await copy.report(), names

    def _run_in_copy(self, execute: Callable[[CodeRunner], CodeRun], confined: Confined) -> ReportedRun:
        known = self._secrets.found().keys()
        found: dict[str, str] = {}

        def look() -> None:
            """Collect secrets while the names that the code bound still exist."""
            found.update({value: name for value, name in self._secrets.found().items() if value not in known})

        ran = execute(CodeRunner(self._shell, None, on_ran=look, in_copy=True))
        outcome = self._shell.last_execution_result
        error = outcome.error_before_exec or outcome.error_in_exec if ran.result.status == "error" else None
        refused = confined.attempts.refusal(error)
        if isinstance(error, StdinNotImplementedError):
            refused = Attempt("ask for text to be typed")
        return ReportedRun(
            status=ran.result.status,
            seconds=ran.result.seconds,
            outputs=ran.result.outputs,
            error=reported_error(ran.result.error),
            created=ReportedNames.of(ran.result.names_created),
            rebound=ReportedNames.of(ran.result.names_changed),
            in_place=ReportedNames.of(ran.changed),
            effects=(effects := tuple(one for one in ran.effects if len(one.name) <= LONGEST_NAME)[:MOST_NAMES]),
            more_effects=len(ran.effects) - len(effects),
            may_differ=ran.may_differ,
            rows=ran.rows[:MOST_NAMES],
            refused=refused,
            attempts=confined.attempts.tried,
            files=_changed_files(confined),
            secrets=found,
            partly_known=dict(self._secrets.found.partly_known()),
        )

    async def _understood(self, report: CopyReport, names: NameCheck, *, schema_only: bool) -> CopiedRun | NotExplored:
        is_large = len(report.data) > _LARGE_REPORT
        try:
            ran = await asyncio.to_thread(_read, report.data) if is_large else _read(report.data)
            ran = await asyncio.to_thread(self._secrets.redact, ran) if is_large else self._secrets.redact(ran)
        except ValidationError:  # the code overwrote the report
            return NotExplored(_ENDINGS["died"], is_harmful=True)
        return checked_run(ran, names, report.cpu_seconds, schema_only=schema_only)


def _end_unheard(forked: "asyncio.Future[tuple[ForkedCopy, NameCheck]]") -> None:
    if not forked.cancelled() and forked.exception() is None:
        forked.result()[0].end()


def _read(data: bytes) -> ReportedRun:
    return ReportedRun.model_validate_json(data)


def _changed_files(confined: Confined) -> tuple[FileChange, ...] | None:
    try:
        return () if confined.overlay is None else tuple(file_changes(confined.overlay))
    except (OSError, TooManyChanges):
        return None


def _timed_out(began: float) -> ExecutionResult:
    return ExecutionResult(status="timeout", outputs=(), seconds=time.monotonic() - began)
