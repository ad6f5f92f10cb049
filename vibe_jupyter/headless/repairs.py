"""Repair notebooks that violate nbformat but run in Jupyter.

Only unambiguous problems are repaired, as nbformat and JupyterLab do. Keys unknown to nbformat are preserved.
"""

import re
import uuid
from collections import Counter, defaultdict
from typing import Any, Final, cast

import nbformat

from vibe_jupyter.notebook.document import MAJOR, NotebookJson, NotNotebook

_WITH_IDS: Final = 5  # minor version of nbformat 4 from which cells have ids
_CELL_ID: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # nbformat 4.5
_SHOWN: Final = 8  # cells named in one message

_Json = dict[str, Any]


def repair(notebook: NotebookJson) -> tuple[_Json, list[str]]:
    """Return the notebook in nbformat 4.5 or newer, and a sentence for each kind of repair.

    Raises:
        NotNotebook: A cell can't be understood.
    """
    notes = _Notes()
    sound = _in_current_format(notebook, notes)
    if not isinstance(sound.get("metadata"), dict):
        sound["metadata"] = {}
        notes.add("replaced missing or odd metadata of the notebook")
    cells: list[_Json] = sound["cells"]
    for number, cell in enumerate(cells, start=1):
        _repair_cell(number, cell, notes)
    _give_ids(sound, cells, notes)
    return sound, notes.sentences()


class _Notes:
    """Repairs by kind, each with the numbers of the affected cells."""

    def __init__(self) -> None:
        self._cells: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, what: str, number: int | None = None) -> None:
        numbers = self._cells[what]
        if number is not None and number not in numbers:
            numbers.append(number)

    def sentences(self) -> list[str]:
        return [f"{what}{_named(numbers)}" for what, numbers in self._cells.items()]


def _named(numbers: list[int]) -> str:
    if not numbers:
        return ""
    shown = ", ".join(map(str, numbers[:_SHOWN])) + (", …" if len(numbers) > _SHOWN else "")
    return f" ({'cell' if len(numbers) == 1 else 'cells'} {shown})"


def _in_current_format(notebook: NotebookJson, notes: _Notes) -> _Json:
    major = notebook["nbformat"]
    if major < MAJOR:
        notebook.setdefault("metadata", {})
        try:
            older = cast(Any, nbformat.from_dict(notebook))  # pyright: ignore
            sound = cast(_Json, nbformat.convert(older, MAJOR))  # pyright: ignore[reportUnknownMemberType]
        except (nbformat.ValidationError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise NotNotebook(
                f"is in nbformat {major} and can't be converted ({error}). Open it in Jupyter and save it."
            ) from error
        notes.add(f"converted it from nbformat {major}, which Jupyter no longer writes")
        return sound
    if type(notebook.get("nbformat_minor")) is not int:
        notebook["nbformat_minor"] = _WITH_IDS
        notes.add("corrected a missing or odd nbformat_minor")
    return notebook


def _repair_cell(number: int, cell: _Json, notes: _Notes) -> None:
    if not isinstance(cell.get("cell_type"), str):
        raise NotNotebook(f"is not a valid notebook: cell {number} has no cell_type. Open it in Jupyter and save it.")
    source = _joined(cell.get("source"))
    if source is None:
        if "source" in cell:
            raise NotNotebook(f"is not a valid notebook: the source of cell {number} is no text. Repair it there.")
        source = ""
        notes.add("added a missing source", number)
    cell["source"] = source
    if not isinstance(cell.get("metadata"), dict):
        cell["metadata"] = {}
        notes.add("replaced missing or odd metadata", number)
    if "attachments" in cell and not isinstance(cell["attachments"], dict):
        del cell["attachments"]
        notes.add("removed attachments that are no object", number)
    if cell["cell_type"] == "code":
        _repair_code_cell(number, cell, notes)
    else:
        for key in ("outputs", "execution_count"):
            if key in cell and not cell[key]:
                del cell[key]
                notes.add(f"removed an empty {key} of a {cell['cell_type']} cell", number)


def _repair_code_cell(number: int, cell: _Json, notes: _Notes) -> None:
    count = cell.get("execution_count")
    if "execution_count" not in cell or (count is not None and type(count) is not int):
        is_number = isinstance(count, str | float) and str(count).removesuffix(".0").isdecimal()
        cell["execution_count"] = int(float(count)) if is_number else None  # pyright: ignore[reportArgumentType]
        notes.add("corrected a missing or odd execution_count", number)
    outputs = cell.get("outputs")
    if not isinstance(outputs, list):
        cell["outputs"] = outputs = []
        notes.add("replaced missing or odd outputs", number)
    for output in cast("list[object]", outputs):
        if not isinstance(output, dict) or not isinstance(cast(_Json, output).get("output_type"), str):
            raise NotNotebook(
                f"is not a valid notebook: an output of cell {number} is no object with an output_type. "
                "Clear the outputs of that cell."
            )
        if _repair_output(cast(_Json, output)):
            notes.add("completed an output", number)


def _repair_output(output: _Json) -> bool:
    """Complete an output, and return whether anything was missing."""
    kind = output.get("output_type")
    defaults: _Json = {}
    match kind:
        case "stream":
            defaults = {"name": "stdout", "text": ""}
            if (text := _joined(output.get("text"))) is not None:
                output["text"] = text
        case "display_data" | "execute_result":
            defaults = {"data": {}, "metadata": {}}
            if kind == "execute_result" and "execution_count" not in output:
                output["execution_count"] = None
            data = output.get("data")
            if isinstance(data, dict):
                _join_texts(cast(_Json, data))
        case "error":
            defaults = {"ename": "Error", "evalue": str(output.get("evalue", "")), "traceback": []}
        case _:
            pass
    missing = [key for key, default in defaults.items() if not isinstance(output.get(key), type(default))]
    output |= {key: defaults[key] for key in missing}
    return bool(missing)


def _join_texts(data: _Json) -> None:
    """Join lists of lines, as nbformat does for all types except JSON."""
    for mime, value in data.items():
        joined = None if mime == "application/json" or mime.endswith("+json") else _joined(value)
        if joined is not None:
            data[mime] = joined


def _joined(text: object) -> str | None:
    """Return a text, or join a list of lines; None for anything else."""
    if isinstance(text, str):
        return text
    lines = cast("list[object]", text) if isinstance(text, list) else [None]
    return "".join(cast("list[str]", lines)) if all(isinstance(line, str) for line in lines) else None


def _give_ids(notebook: _Json, cells: list[_Json], notes: _Notes) -> None:
    had_none = notebook["nbformat_minor"] < _WITH_IDS
    if had_none:
        notebook["nbformat_minor"] = _WITH_IDS
    seen: Counter[str] = Counter()
    for number, cell in enumerate(cells, start=1):
        known = cell.get("id")
        is_sound = isinstance(known, str) and _CELL_ID.fullmatch(known) is not None and seen[known] == 0
        if not is_sound:
            cell["id"] = uuid.uuid4().hex[:8]
            if not had_none or known is not None:  # versions before 4.5 have no ids
                notes.add("gave a new id where it was missing, odd or used twice", number)
        seen[cell["id"]] += 1
