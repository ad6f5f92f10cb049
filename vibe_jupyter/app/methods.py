"""`%vibe report`: collects facts about the notebook and writes the methods text to a Markdown cell."""

import asyncio
import contextlib
import hashlib
import importlib.metadata
import platform
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from vibe_jupyter.context.executions import RowLedger, RowStep
from vibe_jupyter.context.methods_section import DataFile, MethodsFacts, imported_modules, methods_section
from vibe_jupyter.errors import ToolError
from vibe_jupyter.notebook.access import CellAccess
from vibe_jupyter.notebook.frame_operations import read_files
from vibe_jupyter.protocol import Cell, CellEdit, CellMark, InsertCell, SetSource
from vibe_jupyter.version import __version__

HASHED: Final = 100_000_000  # bytes; larger files aren't hashed
_MARK: Final[CellMark] = {"report": "methods"}  # metadata of the report's cell, so that the next report replaces it


class MethodsReport:
    """A single report on the current notebook. Engine loop only."""

    def __init__(self, access: CellAccess, ledger: RowLedger, folder: Path, *, schema_only: bool) -> None:
        """Copy the recorded row steps, so that later ones don't affect the report.

        Args:
            access: Access to the notebook's cells.
            ledger: Recorded row counts of the cells.
            folder: Working folder of the cells.
            schema_only: Whether no value of the data may be sent; files aren't hashed then.
        """
        self._access = access
        self._steps = list(ledger.steps)
        self._folder = folder
        self._schema_only = schema_only

    async def write(self) -> str:
        """Insert the report below the calling cell, or update an earlier one. Returns the text if no page can take it.

        Raises:
            ToolError: The notebook doesn't respond.
        """
        cells = (await self._access.reads.listing()).cells
        earlier = next((cell for cell in cells if cell.vibe == _MARK), None)
        source = methods_section(await self._facts([cell for cell in cells if cell.vibe != _MARK]))
        if earlier is not None:
            edit: CellEdit = SetSource(cell=earlier.id, expected=earlier.hash, source=source, vibe=_MARK)
        else:
            below = self._access.prompt_cell
            edit = InsertCell(id=await self._access.new_id(), after=below, kind="markdown", source=source, vibe=_MARK)
        with contextlib.suppress(ToolError):  # no page shows the notebook
            if (await self._access.edit(edit, undoes=True)).outcome == "done":
                return ""
        return source

    async def _facts(self, cells: Sequence[Cell]) -> MethodsFacts:
        steps = {step.cell: step for step in self._steps if step.cell is not None}
        code = [cell for cell in cells if cell.kind == "code"]
        return MethodsFacts(
            now=datetime.now(UTC),
            cells=cells,
            steps=steps,
            files={
                name: await self._file(name, steps.get(cell.id)) for cell in code for name in read_files(cell.source)
            },
            versions=library_versions(imported_modules(code)),
            verified=self._access.reads.verified,
            others=sum(step.number is None for step in self._steps),
        )

    async def _file(self, name: str, step: RowStep | None) -> DataFile:
        path = self._folder / name
        with contextlib.suppress(OSError, ValueError):
            about = path.stat()
            if path.is_file():
                is_hashed = about.st_size <= HASHED and not self._schema_only
                written = datetime.fromtimestamp(int(about.st_mtime), UTC)
                is_later = step is not None and written > step.time
                digest = await asyncio.to_thread(_digest, path) if is_hashed else ""
                return DataFile(name, about.st_size, digest, f"{written:%Y-%m-%d %H:%M} UTC" if is_later else "")
        return DataFile(name)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def library_versions(modules: Sequence[str]) -> list[tuple[str, str]]:
    """Return the versions of Python, of the imported modules that declare one, and of vibe-jupyter."""
    versions = [("Python", platform.python_version())]
    for name in modules:
        said = getattr(sys.modules.get(name), "__version__", None)
        if not isinstance(said, str):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError, ValueError):
                said = importlib.metadata.version(name)
        if isinstance(said, str) and name not in sys.stdlib_module_names:
            versions.append((name, said))
    return [*versions, ("vibe-jupyter", __version__)]
