"""What a run of the whole notebook in a fresh kernel shows of each cell, and the process in which it happens.

The process writes a line of JSON for each cell; the live kernel is neither asked nor changed.
"""

import asyncio
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import ValidationError

from vibe_jupyter.errors import ToolError
from vibe_jupyter.import_guard import python_environment
from vibe_jupyter.kernel.outputs import Output
from vibe_jupyter.notebook.cell_names import cell_names
from vibe_jupyter.notebook.document import MAY_RAISE
from vibe_jupyter.notebook.name_steps import Act
from vibe_jupyter.protocol import Cell
from vibe_jupyter.protocol.messages import Value
from vibe_jupyter.tools.process import FinishedCommand, ShellCommand, run_command

LONGEST: Final = 3_600.0
"""Seconds that all cells together may take."""
_KEPT_OUTPUT: Final = 4_000_000
"""Bytes of what the process says."""
_PROGRAM: Final = "import sys; from vibe_jupyter.cli import main; sys.exit(main())"
_OWN_ENVIRONMENT: Final = Path("/proc/self/environ")
_MISSING: Final = re.compile(r"^NameError: name '(\w+)' is not defined")
_DATA: Final[tuple[tuple[str, Any], ...]] = (("data", {}), ("metadata", {}))
_FIELDS: Final[Mapping[str, tuple[tuple[str, Any], ...]]] = {
    "stream": (("name", "stdout"), ("text", "")),
    "error": (("ename", ""), ("evalue", ""), ("traceback", [])),
    "execute_result": (*_DATA, ("execution_count", None)),
}
"""What nbformat wants of each kind of output, and what stands there where a page does not tell it."""

CellVerdictKind = Literal["same", "differs", "error", "not compared", "prompt", "skipped"]


class CellVerdict(Value):
    """What came of one cell in a fresh kernel."""

    cell: str
    number: int
    """Its place among all cells, from 1."""
    kind: CellVerdictKind
    """``not compared``: it ran, and had not run before. ``prompt``: it asks the agent, and was not run.
    ``skipped``: its tag says so, and it was not run."""
    words: str = ""
    """What differs, or how it failed."""


class VerifiedCells(NamedTuple):
    """The latest run of a notebook from the top."""

    time: datetime
    verdicts: Sequence[CellVerdict]
    hashes: Mapping[str, str]
    """Of the cells that it was about, by their ids."""


VerdictHeard = Callable[[CellVerdict], None]


def unheard_verdict(_verdict: CellVerdict) -> None:
    """Where nobody looks."""


class ShownCell(NamedTuple):
    """A cell with what it shows now."""

    cell: Cell
    outputs: Sequence[Output]

    def as_json(self) -> dict[str, Any]:
        """As a notebook file has it."""
        cell = self.cell
        tags = dict.fromkeys([*cell.tags, *([MAY_RAISE] if cell.may_raise else [])])
        metadata = {"tags": [*tags]} if tags else {}
        raw: dict[str, Any] = {"cell_type": cell.kind, "id": cell.id, "metadata": metadata, "source": cell.source}
        if cell.kind == "code":
            raw |= {"execution_count": cell.execution_count, "outputs": [*map(_output_json, self.outputs)]}
        return raw


async def verify_in_process(
    cells: Sequence[ShownCell],
    folder: Path,
    *,
    seconds: float | None,
    heard: VerdictHeard = unheard_verdict,
) -> list[CellVerdict]:
    """Run cells from the top in a fresh kernel of this Python, up to the first error.

    Args:
        cells: in their order.
        folder: where they run.
        seconds: that one cell may take; None for no limit of its own.
        heard: told of each cell when it has run.

    Raises:
        ToolError: they could not be run.
        asyncio.CancelledError: interrupted; the fresh kernel was ended.
    """
    verdicts: list[CellVerdict] = []
    rest = ""

    def take(text: str) -> None:
        nonlocal rest
        *lines, rest = (rest + text).split("\n")
        for line in lines:
            if (verdict := _verdict(line)) is not None:
                verdicts.append(verdict)
                heard(verdict)

    with tempfile.TemporaryDirectory(prefix="vibe-verify-", ignore_cleanup_errors=True) as made:
        path = Path(made, "notebook.ipynb")
        notebook: dict[str, Any] = {
            "cells": [cell.as_json() for cell in cells],
            "metadata": {},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        await asyncio.to_thread(path.write_text, json.dumps(notebook), encoding="utf-8")
        arguments = [str(path), "--json", "--this-python", "--folder", str(folder)]
        arguments += ["--timeout", str(seconds)] if seconds is not None else []
        argv = (sys.executable, "-P", "-c", _PROGRAM, "verify", *arguments)
        done = await run_command(
            ShellCommand(argv, folder, python_environment(_environment(), str(folder)), LONGEST, _KEPT_OUTPUT), take
        )
    take("\n")
    _must_have_run(done, verdicts)
    return verdicts


def missing_name(error: str, cells: Sequence[tuple[int, str]], number: int) -> str:
    """Why a name is missing in a fresh kernel, in words; empty where it is another error.

    Args:
        error: as the fresh kernel said it.
        cells: numbers and sources of the code cells.
        number: of the cell that failed.
    """
    found = _MISSING.match(error)
    if found is None:
        return ""
    name = found[1]
    below = [place for place, source in cells if place > number and _binds(source, name)]
    if below:
        return f"{name} is bound below it only, by cell #{below[0]}"
    return f"no cell binds {name}: it was left by code that is no longer in the notebook"


def _binds(source: str, name: str) -> bool:
    return any(step.name == name and step.act in (Act.BIND, Act.ALIAS) for step in cell_names(source).steps)


def _output_json(output: Output) -> dict[str, Any]:
    """With what nbformat wants of each kind, and nothing else."""
    wanted = _FIELDS.get(str(output["output_type"]), _DATA)
    return {name: output.get(name, empty) for name, empty in (("output_type", ""), *wanted)}


def _verdict(line: str) -> CellVerdict | None:
    try:
        return CellVerdict.model_validate_json(line)
    except ValidationError:  # a line of stderr
        return None


def _must_have_run(done: FinishedCommand, verdicts: Sequence[CellVerdict]) -> None:
    if done.ended == "timeout":
        raise ToolError(f"Not verified: the cells took longer than {LONGEST:,.0f} s together and were ended.")
    if not verdicts and done.returncode:
        last = (done.stderr.strip() or "it said nothing").split("\n")[-1]
        raise ToolError(f"Not verified: the fresh kernel did not run. {last}")


def _environment() -> Mapping[str, str]:
    """What this process began with, where the system tells it: cells may have changed it since."""
    try:
        pairs = _OWN_ENVIRONMENT.read_bytes().decode("utf-8", "surrogateescape").split("\0")
    except OSError:
        return dict(os.environ)
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)
