"""The report of code that ran in a copy of the kernel: a fixed set of bounded fields, checked by the kernel.

The code in a copy may be hostile, and it can write whatever it likes in the place of the report. Nothing in a report is
a sentence: its fields are numbers with a range, members of a closed list, names, and data of the code (outputs, error).
`checked_run` is the only way from a report to what the rest of the product reads. It keeps names that are known
(`notebook/known_names.py`) and counts the others.
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

MOST_NAMES: Final = 200
"""Names of one kind, or effects, in one report; further ones are counted."""
_MOST_OUTPUTS: Final = 50_000
_LONGEST_MESSAGE: Final = 20_000
_LONGEST_TRACEBACK: Final = 200_000
"""Characters."""
_LONGEST_SECONDS: Final = 100_000.0


class ReportedNames(NamedTuple):
    """Names of one kind."""

    names: Annotated[tuple[ReportedName, ...], Field(max_length=MOST_NAMES)] = ()
    others: Count = 0
    """How many more there are."""

    @classmethod
    def of(cls, names: Collection[str]) -> "ReportedNames":
        """Return them within the bounds of a report."""
        kept = [name for name in names if len(name) <= LONGEST_NAME][:MOST_NAMES]
        return cls(tuple(kept), len(names) - len(kept))


class ReportedError(NamedTuple):
    """The error that the code raised: data of the code."""

    name: ReportedName
    message: Annotated[str, StringConstraints(max_length=_LONGEST_MESSAGE)]
    traceback: Annotated[str, StringConstraints(max_length=_LONGEST_TRACEBACK)]


class ReportedRun(Value):
    """The report itself, as it comes out of the copy."""

    model_config = ConfigDict(strict=True)

    status: Literal["ok", "error", "interrupted", "timeout"]
    seconds: Annotated[float, Field(ge=0, le=_LONGEST_SECONDS, allow_inf_nan=False)]
    outputs: Annotated[tuple[dict[str, JsonValue], ...], Field(max_length=_MOST_OUTPUTS)]
    error: ReportedError | None = None
    created: ReportedNames = ReportedNames()
    rebound: ReportedNames = ReportedNames()
    in_place: ReportedNames = ReportedNames()
    """Names of objects that were changed in place."""
    effects: Annotated[tuple[VariableEffect, ...], Field(max_length=MOST_NAMES)] = ()
    """What it would change; only of a trial."""
    more_effects: Count = 0
    may_differ: bool = False
    """Whether it may go another way in the kernel; only of a trial."""
    rows: Annotated[tuple[RowCount, ...], Field(max_length=MOST_NAMES)] = ()
    refused: Attempt | None = None
    """What it failed for that a copy may not do; None where it would have ended so anyway."""
    attempts: Annotated[tuple[Attempt, ...], Field(max_length=MOST_ATTEMPTS)] = ()
    files: Annotated[tuple[FileChange, ...], Field(max_length=MOST_CHANGES)] | None = ()
    """What it did to files that were its own; None where that cannot be told."""
    secrets: dict[str, str] = {}
    """Values that the code bound to names which call them secret; they redact this report and are forgotten."""
    partly_known: dict[str, tuple[str, ...]] = {}
    """Names of secrets that the copy could not look at whole, with some of their values."""

    def as_bytes(self) -> bytes:
        """Return it as JSON in UTF-8; half a pair of surrogates, as of a file name that is no UTF-8, becomes ``?``."""
        try:
            return self.model_dump_json().encode("utf-8")
        except PydanticSerializationError:
            return json.dumps(self.model_dump(), ensure_ascii=False).encode("utf-8", "replace")


class CopiedRun(NamedTuple):
    """A checked report."""

    result: ExecutionResult
    """Its error, its outputs and the names in it are data of the code; the names are known ones."""
    names: NameCheck
    changed: tuple[str, ...] = ()
    """Names of the user's objects that were changed in place, in the copy."""
    other_created: int = 0
    other_rebound: int = 0
    other_changed: int = 0
    """Further names of these kinds, which are not known."""
    pictures_left_out: int = 0
    """Pictures that were not kept."""
    effects: tuple[VariableEffect, ...] = ()
    more_effects: int = 0
    may_differ: bool = False
    rows: tuple[RowCount, ...] = ()
    refused: str = ""
    """A sentence, or '' where it would have ended so anyway."""
    attempts: tuple[str, ...] = ()
    """What it tried in vain, in words."""
    files: tuple[FileChange, ...] | None = ()
    cpu_seconds: float = 0.0


def reported_error(error: RaisedError | None) -> ReportedError | None:
    """Return the error within the bounds of a report."""
    if error is None:
        return None
    return ReportedError(
        error.name[:LONGEST_NAME], error.message[:_LONGEST_MESSAGE], error.traceback[-_LONGEST_TRACEBACK:]
    )


def checked_run(report: ReportedRun, names: NameCheck, cpu_seconds: float, *, schema_only: bool) -> CopiedRun:
    """Return what is known of a run by its report.

    Args:
        report: of the copy.
        names: of the code and of the user's variables.
        cpu_seconds: that the copy took.
        schema_only: whether no value of the user's data may be sent: then no name that code chose is in a sentence.
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
