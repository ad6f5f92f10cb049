"""Results of code without values of the user's data: how it ended, how much it displayed, where it failed."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, cast

from vibe_jupyter.files.code_files import WITHHELD
from vibe_jupyter.kernel.outputs import Output
from vibe_jupyter.notebook.document import Listing
from vibe_jupyter.notebook.told_message import told_class, told_message
from vibe_jupyter.protocol import Cell, ExecutionResult
from vibe_jupyter.protocol.cells import OutputBrief

_WORD: Final = re.compile(r"\w+")
_LINE: Final = re.compile(r"^(?:Cell|Input) In ?\[?[^\]]*\]?,? line (\d+)|^ *-{2,}> (\d+) ", re.MULTILINE)
_PICTURES: Final = ("image/",)


def schema_result(result: ExecutionResult, code: str) -> ExecutionResult:
    """Remove values from a result. Its outputs become one line that counts them.

    Args:
        result: Result of the code.
        code: The code.
    """
    words = set(_WORD.findall(code))
    error = result.error
    if error is not None:
        place = _failed_line(error.traceback, code)
        message = " ".join(filter(None, (told_message(error.message, words), place)))
        error = error.model_copy(update={"name": told_class(error.name, words), "message": message, "traceback": ""})
    said = outputs_words(cast("Sequence[Output]", result.outputs))
    outputs = ({"output_type": "stream", "name": "stdout", "text": said},) if said else ()
    return result.model_copy(
        update={
            "outputs": outputs,
            "error": error,
            "names_created": tuple(name for name in result.names_created if name in words),
            "names_changed": tuple(name for name in result.names_changed if name in words),
        }
    )


def schema_cell(cell: Cell) -> Cell:
    """Reduce a cell's outputs to kind and size, and errors to their class."""
    return cell.model_copy(update={"outputs": tuple(map(_schema_brief, cell.outputs))}) if cell.outputs else cell


def schema_listing(listing: Listing) -> Listing:
    """Reduce the outputs of all cells."""
    return replace(listing, cells=tuple(map(schema_cell, listing.cells)))


def outputs_words(outputs: Iterable[Output]) -> str:
    """Describe how much was displayed, or return ""."""
    counts: Counter[str] = Counter()
    for output in outputs:
        if output["output_type"] == "stream":
            counts["line"] += len(str(output["text"]).splitlines())
        elif output["output_type"] != "error":
            data = cast("dict[str, Any]", output.get("data") or {})
            counts["figure" if any(mime.startswith(_PICTURES) for mime in data) else "output"] += 1
    shown = [f"{count:,} {word}{'s' * (count != 1)}" for word, count in counts.items() if count]
    return f"[{', '.join(shown)} shown to the user; {WITHHELD}]" if shown else ""


def _failed_line(traceback: str, code: str) -> str:
    """Return which line of the code failed, or "" if unknown."""
    lines = [int(found[1] or found[2]) for found in _LINE.finditer(traceback)]
    known = [line for line in lines if 0 < line <= code.count("\n") + 1]
    return f"(line {known[0]})" if known else ""


def _schema_brief(output: OutputBrief) -> OutputBrief:
    text = told_class(output.text.partition(":")[0]) if output.type == "error" else ""
    return output.model_copy(update={"text": text})
