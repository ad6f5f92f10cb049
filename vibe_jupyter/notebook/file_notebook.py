"""Notebook read from its file, for when no page with the extension shows it. One new cell can be offered."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, cast

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.installation import pip_install
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.kernel.nested_cells import NestedCells
from vibe_jupyter.kernel.outputs import Output
from vibe_jupyter.notebook.addresses import PROMPT
from vibe_jupyter.notebook.document import (
    CellRun,
    EditDone,
    Listing,
    NotNotebook,
    bound_output,
    brief_output,
    cell_mark,
    cell_tags,
    join_lines,
    may_raise,
    parse_notebook,
)
from vibe_jupyter.protocol import Cell, CellEdit, CellState, InsertCell, OutputBrief
from vibe_jupyter.tools.contract import OnAsking, unheard

FROM_DISK: Final = "read from disk, may be older than the screen"
_NO_EXTENSION: Final = (
    "No page with the vibe-jupyter extension answers, so cells cannot be changed from here. The user can install it "
    "where JupyterLab runs (`{command}`, then reload the page); `vibe-jupyter doctor` says what is "
    "missing. Meanwhile use run_code, or show the user the code."
)
_MAX_FILE: Final = 100_000_000  # bytes; larger files aren't read


class _Payloads(Protocol):
    def set_next_input(self, text: str, replace: bool = False) -> None: ...


class FileNotebook:
    """Notebook that is read from its file. The only possible change is to offer one new cell."""

    def __init__(
        self,
        path: Path,
        *,
        shell: object,
        main_thread: MainThread,
        in_place: NestedCells,
        prompt_cell: str | None,
    ) -> None:
        self._path = path
        self._shell = cast(_Payloads, shell)
        self._main_thread = main_thread
        self._in_place = in_place
        self._prompt_cell = prompt_cell
        self._offered = False
        # Modification time (ns), size (bytes) and cells of the file as last read, or None.
        self._loaded: tuple[tuple[int, int], list[dict[str, Any]]] | None = None

    async def cells(self) -> Listing:
        raw = await asyncio.to_thread(self._load_cells)
        cells = tuple(_as_cell(number, cell) for number, cell in enumerate(raw, start=1))
        offers = self._prompt_cell is not None and not self._offered
        return Listing(self._path.name, cells, FROM_DISK, _NO_EXTENSION.format(command=pip_install()), offers)

    async def outputs(self, cell: str, *, index: int | None, limit: int) -> Sequence[Output]:
        raw = await asyncio.to_thread(self._load_cells)
        found = [one for number, one in enumerate(raw, start=1) if _cell_id(number, one) == cell]
        if not found:
            raise NotebookError(f"The file {self._path.name} has no cell {cell} any more.")
        outputs = _raw_outputs(found[0])
        chosen = outputs if index is None else outputs[index : index + 1]
        return [bound_output(_join_output_lines(output), limit) for output in chosen]

    async def picture(self, cell: str, index: int, *, count: int) -> str | None:
        return None

    async def edit(self, edits: Sequence[CellEdit]) -> EditDone:
        match edits:
            case [InsertCell(kind="code", after=after, source=source)] if after in (PROMPT, self._prompt_cell):
                return await self._offer_cell(source)
            case [InsertCell()]:
                return EditDone("shown")
            case _:
                raise NotebookError(_NO_EXTENSION.format(command=pip_install()))

    async def run(
        self,
        cell: Cell,
        *,
        seconds: float | None,
        on_output: Callable[[str], None],
        on_asking: OnAsking = unheard,
    ) -> CellRun:
        result = await self._main_thread.call(
            lambda: self._in_place.run_here(cell.source, timeout=seconds, on_output=on_output, on_asking=on_asking)
        )
        return CellRun(result, in_place=False)

    async def queue(self, cell: Cell) -> str:
        raise NotebookError(
            f"Nothing was queued: no page shows the notebook of cell {cell.number}. Run it without background."
        )

    async def _offer_cell(self, source: str) -> EditDone:
        """Offer a new cell. Notebook front ends insert one below the running cell when it ends (`set_next_input`)."""
        if self._prompt_cell is None or self._offered:
            return EditDone("shown")
        await self._main_thread.call(lambda: self._shell.set_next_input(source, replace=False))
        self._offered = True
        return EditDone("queued")

    def _load_cells(self) -> list[dict[str, Any]]:
        """Return the cells, reading the file again if it has changed."""
        try:
            about = self._path.stat()
            if about.st_size > _MAX_FILE:
                raise NotebookError(
                    f"{self._path.name} is larger than {_MAX_FILE // 1_000_000} MB and is not read. "
                    "Clear outputs you do not need, or read it with code."
                )
            if self._loaded is None or self._loaded[0] != (about.st_mtime_ns, about.st_size):
                cells = parse_notebook(self._path.read_bytes())["cells"]
                self._loaded = (about.st_mtime_ns, about.st_size), cells
            return self._loaded[1]
        except OSError as error:
            why = error.strerror or error
            raise NotebookError(f"The notebook file {self._path} cannot be read: {why}.") from error
        except NotNotebook as error:
            raise NotebookError(f"The notebook file {self._path} cannot be read: it {error}") from error


def _as_cell(number: int, raw: Mapping[str, Any]) -> Cell:
    kind = raw.get("cell_type")
    outputs = tuple(map(_output_brief, _raw_outputs(raw)))
    count = raw.get("execution_count")
    return Cell(
        id=_cell_id(number, raw),
        number=number,
        kind=kind if kind in ("code", "markdown") else "raw",
        source=join_lines(raw.get("source")),
        execution_count=count if isinstance(count, int) else None,
        state=_cell_state(count, outputs),
        may_raise=may_raise(raw),
        tags=cell_tags(raw),
        outputs=outputs,
        vibe=cell_mark(raw),
    )


def _cell_id(number: int, raw: Mapping[str, Any]) -> str:
    """Return the cell's id, or a substitute for files older than nbformat 4.5."""
    return str(raw.get("id") or f"cell-{number}")


def _cell_state(count: object, outputs: tuple[OutputBrief, ...]) -> CellState:
    if not isinstance(count, int):
        return "never"
    return "failed" if any(output.type == "error" for output in outputs) else "fresh"


def _raw_outputs(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    outputs = raw.get("outputs")
    return [one for one in cast("list[Any]", outputs) if isinstance(one, dict)] if isinstance(outputs, list) else []


def _output_brief(output: Mapping[str, Any]) -> OutputBrief:
    return OutputBrief.model_validate(brief_output(output))


def _join_output_lines(output: Mapping[str, Any]) -> Output:
    """Join texts that files store as lists of lines, and add fields that a malformed file lacks."""
    whole = {"output_type": "", **output}
    match whole["output_type"]:
        case "stream":
            whole["text"] = join_lines(whole.get("text"))
        case "error":
            whole.setdefault("traceback", [])
        case _:
            pass
    data = whole.get("data")
    if isinstance(data, dict):
        items = cast("dict[str, Any]", data).items()
        whole["data"] = {mime: value if mime.endswith("json") else join_lines(value) for mime, value in items}
    return whole
