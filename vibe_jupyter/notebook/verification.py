"""Verdicts on cells after running the whole notebook in a fresh kernel, in a subprocess.

The subprocess writes a line of JSON per cell. The live kernel isn't involved.
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

LONGEST: Final = 3_600.0  # seconds for all cells together
_KEPT_OUTPUT: Final = 4_000_000  # bytes of the subprocess's output
_PROGRAM: Final = "import sys; from vibe_jupyter.cli import main; sys.exit(main())"
_OWN_ENVIRONMENT: Final = Path("/proc/self/environ")
_MISSING: Final = re.compile(r"^NameError: name '(\w+)' is not defined")
_DATA: Final[tuple[tuple[str, Any], ...]] = (("data", {}), ("metadata", {}))
# Required nbformat fields of each kind of output, with defaults for pages that don't send them.
_FIELDS: Final[Mapping[str, tuple[tuple[str, Any], ...]]] = {
    "stream": (("name", "stdout"), ("text", "")),
    "error": (("ename", ""), ("evalue", ""), ("traceback", [])),
    "execute_result": (*_DATA, ("execution_count", None)),
}

CellVerdictKind = Literal["same", "differs", "error", "not compared", "prompt", "skipped"]


class CellVerdict(Value):
    """Verdict on one cell in a fresh kernel."""

    cell: str
    number: int  # position among all cells, from 1
    # ``not compared``: it ran, but had not run before. ``prompt`` (a prompt to the agent) and ``skipped`` (by its tag)
    # weren't run.
    kind: CellVerdictKind
    words: str = ""  # the difference or the error


class VerifiedCells(NamedTuple):
    """The latest run of a notebook from the top."""

    time: datetime
    verdicts: Sequence[CellVerdict]
    hashes: Mapping[str, str]  # source hashes of its cells, by id


VerdictHeard = Callable[[CellVerdict], None]


def unheard_verdict(_verdict: CellVerdict) -> None:
    """Ignore the verdict."""


class ShownCell(NamedTuple):
    cell: Cell
    outputs: Sequence[Output]

    def as_json(self) -> dict[str, Any]:
        """Serialize to a cell of a notebook file."""
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
        cells: The cells, in order.
        folder: Working directory.
        seconds: Time limit per cell; None for none.
        heard: Called after each cell.

    Raises:
        ToolError: The cells couldn't be run.
        asyncio.CancelledError: Interrupted; the fresh kernel was ended.
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
        # -P keeps the working directory off sys.path, so that user files can't shadow modules.
        argv = (sys.executable, "-P", "-c", _PROGRAM, "verify", *arguments)
        done = await run_command(
            ShellCommand(argv, folder, python_environment(_environment(), str(folder)), LONGEST, _KEPT_OUTPUT), take
        )
    take("\n")
    _must_have_run(done, verdicts)
    return verdicts


def missing_name(error: str, cells: Sequence[tuple[int, str]], number: int) -> str:
    """Explain why a name is missing in a fresh kernel, or return "" for other errors.

    Args:
        error: The error message of the fresh kernel.
        cells: Numbers and sources of the code cells.
        number: Number of the cell that failed.
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
    """Return exactly the fields that nbformat requires for the kind of output."""
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
    """Return this process's initial environment if the system provides it, since cells may have changed it."""
    try:
        pairs = _OWN_ENVIRONMENT.read_bytes().decode("utf-8", "surrogateescape").split("\0")
    except OSError:
        return dict(os.environ)
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)
