"""Report of code that ran in a copy of the kernel: bounded fields, validated by the kernel.

Code in a copy may be hostile and can write anything in place of the report. So no field is prose: fields are numbers
with a range, members of a closed set, names, and data of the code (outputs, error). `checked_run` is the only way from
a report to the rest of the product. It keeps names that are known (`notebook/known_names.py`) and counts the others.
"""

import json
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import ConfigDict, Field, JsonValue, StringConstraints
from pydantic_core import PydanticSerializationError

from vibe_jupyter.notebook.known_names import NameCheck
from vibe_jupyter.notebook.told_message import told_class
from vibe_jupyter.notebook.tools.copied_outputs import copied_outputs
from vibe_jupyter.protocol import ExecutionResult, RaisedError
from vibe_jupyter.protocol.messages import Value
from vibe_jupyter.protocol.variable_effects import LONGEST_NAME, Count, ReportedName, RowCount, VariableEffect
from vibe_jupyter.sandbox.attempts import MOST_ATTEMPTS, Attempt, attempt_words
from vibe_jupyter.sandbox.file_changes import MOST_CHANGES, FileChange

MOST_NAMES: Final = 200  # names of one kind, or effects, per report; the rest is counted
_MOST_OUTPUTS: Final = 50_000
_LONGEST_MESSAGE: Final = 20_000
_LONGEST_TRACEBACK: Final = 200_000  # characters, as for `_LONGEST_MESSAGE`
_LONGEST_SECONDS: Final = 100_000.0


class ReportedNames(NamedTuple):
    """Names of one kind in a report."""

    names: Annotated[tuple[ReportedName, ...], Field(max_length=MOST_NAMES)] = ()
    others: Count = 0  # number of further names

    @classmethod
    def of(cls, names: Collection[str]) -> "ReportedNames":
        """Return the names within the limits of a report."""
        kept = [name for name in names if len(name) <= LONGEST_NAME][:MOST_NAMES]
        return cls(tuple(kept), len(names) - len(kept))


class ReportedError(NamedTuple):
    """The error that the code raised. Untrusted data."""

    name: ReportedName
    message: Annotated[str, StringConstraints(max_length=_LONGEST_MESSAGE)]
    traceback: Annotated[str, StringConstraints(max_length=_LONGEST_TRACEBACK)]


class ReportedRun(Value):
    """The report as sent by the copy."""

    model_config = ConfigDict(strict=True)

    status: Literal["ok", "error", "interrupted", "timeout"]
    seconds: Annotated[float, Field(ge=0, le=_LONGEST_SECONDS, allow_inf_nan=False)]
    outputs: Annotated[tuple[dict[str, JsonValue], ...], Field(max_length=_MOST_OUTPUTS)]
    error: ReportedError | None = None
    created: ReportedNames = ReportedNames()
    rebound: ReportedNames = ReportedNames()
    in_place: ReportedNames = ReportedNames()  # names of objects changed in place
    # Effects on variables; trials only.
    effects: Annotated[tuple[VariableEffect, ...], Field(max_length=MOST_NAMES)] = ()
    more_effects: Count = 0
    may_differ: bool = False  # True if it may behave differently in the kernel; trials only
    rows: Annotated[tuple[RowCount, ...], Field(max_length=MOST_NAMES)] = ()
    # The forbidden operation that made it fail; None if it would have ended this way in any case.
    refused: Attempt | None = None
    attempts: Annotated[tuple[Attempt, ...], Field(max_length=MOST_ATTEMPTS)] = ()
    # Changes to files in its overlay; None if they couldn't be determined.
    files: Annotated[tuple[FileChange, ...], Field(max_length=MOST_CHANGES)] | None = ()
    # Values bound to names that suggest secrets. They are used to redact this report, then discarded.
    secrets: dict[str, str] = {}
    # Names of secrets that the copy couldn't inspect completely, with some of their values.
    partly_known: dict[str, tuple[str, ...]] = {}

    def as_bytes(self) -> bytes:
        """Serialize to UTF-8 JSON. Lone surrogates, as in file names that aren't UTF-8, become ``?``."""
        try:
            return self.model_dump_json().encode("utf-8")
        except PydanticSerializationError:
            return json.dumps(self.model_dump(), ensure_ascii=False).encode("utf-8", "replace")


class CopiedRun(NamedTuple):
    """A validated report."""

    # Error, outputs and the names in them are data of the code; the name lists have known names only.
    result: ExecutionResult
    names: NameCheck
    changed: tuple[str, ...] = ()  # names of the user's objects that were changed in place in the copy
    other_created: int = 0
    other_rebound: int = 0
    other_changed: int = 0  # numbers of further names of these kinds, which aren't known
    pictures_left_out: int = 0  # images that were dropped
    effects: tuple[VariableEffect, ...] = ()
    more_effects: int = 0
    may_differ: bool = False
    rows: tuple[RowCount, ...] = ()
    refused: str = ""  # a sentence, or '' if it would have ended this way in any case
    attempts: tuple[str, ...] = ()  # descriptions of blocked operations
    files: tuple[FileChange, ...] | None = ()
    cpu_seconds: float = 0.0


def reported_error(error: RaisedError | None) -> ReportedError | None:
    """Return the error within the limits of a report."""
    if error is None:
        return None
    return ReportedError(
        error.name[:LONGEST_NAME], error.message[:_LONGEST_MESSAGE], error.traceback[-_LONGEST_TRACEBACK:]
    )


def checked_run(report: ReportedRun, names: NameCheck, cpu_seconds: float, *, schema_only: bool) -> CopiedRun:
    """Validate a report and return what it says about the run.

    Args:
        report: Report of the copy.
        names: Names in the code and of the user's variables.
        cpu_seconds: CPU time of the copy.
        schema_only: Whether values of the user's data must not be sent. Then sentences omit all names chosen by the
            code.
    """
    outputs, left_out = copied_outputs(report.outputs)
    created, rebound = (_known(kind, names.is_name) for kind in (report.created, report.rebound))
    changed = _known(report.in_place, names.is_variable)
    words = [attempt_words(one, named=not schema_only) for one in report.attempts]
    refused = attempt_words(report.refused, named=not schema_only) if report.refused is not None else ""
    result = ExecutionResult(
        status=report.status,
        outputs=outputs,
        error=_checked_error(report, names),
        seconds=report.seconds,
        names_created=created,
        names_changed=rebound,
    )
    return CopiedRun(
        result,
        names,
        changed,
        other_created=_count_others(report.created, created),
        other_rebound=_count_others(report.rebound, rebound),
        other_changed=_count_others(report.in_place, changed),
        pictures_left_out=left_out,
        effects=report.effects,
        more_effects=report.more_effects,
        may_differ=report.may_differ,
        rows=report.rows,
        refused=refused and f"a copy of the kernel may not {refused}",
        attempts=tuple(dict.fromkeys(words)),
        files=report.files,
        cpu_seconds=cpu_seconds,
    )


def _known(reported: ReportedNames, is_known: Callable[[str], bool]) -> tuple[str, ...]:
    return tuple(filter(is_known, dict.fromkeys(reported.names)))


def _count_others(reported: ReportedNames, known: Sequence[str]) -> int:
    return len(set(reported.names)) - len(known) + reported.others


def _checked_error(report: ReportedRun, names: NameCheck) -> RaisedError | None:
    error = report.error if report.status == "error" else None
    if error is None:
        return None
    name = error.name if names.is_name(error.name) else told_class(error.name)
    return RaisedError(name=name, message=error.message, traceback=error.traceback)
