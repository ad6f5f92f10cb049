"""Answers stored in cell outputs, shown again without a model request while the prompt is unchanged.

Front ends clear a cell's output before running it. A page with our extension remembers the cleared output; without such
a page, the notebook's file has the output as last saved. Programs that name neither the file nor the cell, such as
nbconvert, run in the notebook's folder: there exactly one cell with this prompt and one answer must exist.
"""

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from IPython.display import display  # pyright: ignore[reportUnknownVariableType] (untyped)

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.run_view import Reply, RunView
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.kernel.outputs import join_lines
from vibe_jupyter.options import parse_line, whole_prompt
from vibe_jupyter.protocol import Usage
from vibe_jupyter.ui.run_output import HTML, PLAIN, KeptOutput, kept_outputs, output_metadata

if TYPE_CHECKING:
    from vibe_jupyter.app.notebook_access import NotebookAccess

FILE_LIMIT: Final = 50_000_000  # bytes; larger notebooks aren't searched
FOLDER_LIMIT: Final = 100  # notebooks searched in a folder
SAID: Final = (
    "Kept answer: no model was asked and no code ran. For a new one change the prompt, clear the output, or use "
    "--no-keep."
)
_MAGIC: Final = "%%vibe"
Answer = tuple[KeptOutput, ...]  # the outputs of one cell; empty without an answer


class KeptAnswers:
    """Look-up of stored answers for one kernel. Main thread only."""

    def __init__(self, engine: Engine, run_view: RunView, notebook: "NotebookAccess") -> None:
        self._engine = engine
        self._run_view = run_view
        self._notebook = notebook

    def shown(self, key: str) -> Reply | None:
        """Display the stored answer of the prompt with this key. Returns None if the cell has none.

        Raises:
            NotebookError: A run is active, or this isn't the main thread.
        """
        self._run_view.check_free()
        answer = self._find(self._notebook, key)
        if not answer or not _is_ours(answer):
            return None
        for output in answer:
            said = output_metadata("stop", key, author=output.author)
            display({HTML: output.html, PLAIN: output.plain}, metadata=said, raw=True)
        display({PLAIN: SAID}, raw=True)
        return Reply(text=answer[-1].plain, reason="stop", usage=Usage(), turns=0, seconds=0.0, cost=0.0)

    def _find(self, notebook: "NotebookAccess", key: str) -> Answer:
        notebook.begin()
        outputs = self._engine.submit(notebook.held_outputs()).result()
        if outputs is not None:
            return kept_outputs(outputs, key)
        file = notebook.path()
        if file is not None:
            cells = [cell for cell in _prompt_cells(file, key) if cell.get("id") == notebook.prompt_cell]
            if cells:
                return kept_outputs(cells[0].get("outputs", ()), key)
        return _one_answer(_cells_around(file, key), key)


def _is_ours(answer: Answer) -> bool:
    from vibe_jupyter.ui.kept_html import is_kept_form

    return all(is_kept_form(output.html) for output in answer)


def _one_answer(cells: Iterable[Mapping[str, Any]], key: str) -> Answer:
    """Return the answer that all cells with this prompt agree on, else ().

    Copies of one cell in different files, which share its id, agree even if some of them lack the answer.
    """
    by_cell: dict[str, set[Answer]] = {}
    for cell in cells:
        found = by_cell.setdefault(str(cell.get("id")), set())
        found.update(filter(None, [kept_outputs(cell.get("outputs", ()), key)]))
    answers = {answer for found in by_cell.values() for answer in found or {()}}
    return answers.pop() if len(answers) == 1 else ()


def _cells_around(file: Path | None, key: str) -> Iterator[Mapping[str, Any]]:
    """Yield the cells with this prompt in the notebook, or else in all notebooks of the working folder."""
    found = list(_prompt_cells(file, key)) if file is not None else []
    if found:
        yield from found
        return
    with contextlib.suppress(OSError):
        for path in sorted(Path.cwd().glob("*.ipynb"))[:FOLDER_LIMIT]:
            yield from _prompt_cells(path, key)


def _prompt_cells(path: Path, key: str) -> Iterator[Mapping[str, Any]]:
    """Yield the cells of a file whose prompt has this key, or nothing if the file isn't a notebook."""
    with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError, TypeError):
        if path.stat().st_size > FILE_LIMIT:
            return
        for cell in json.loads(path.read_bytes()).get("cells", ()):
            source = join_lines(cell.get("source"))
            if cell.get("cell_type") == "code" and _key_of(source) == key:
                yield cell


def _key_of(source: str) -> str:
    """Return the key of the prompt in a cell, or "" without one."""
    line, _, rest = source.lstrip().partition("\n")
    words = line.removeprefix(_MAGIC)
    if words == line or words[:1].strip():
        return ""
    try:
        options, begun = parse_line(words)
    except ConfigError:
        return ""
    return options.key(whole_prompt(begun, rest))
