"""The answers that cells have already: shown again while the prompt is unchanged, without asking a model.

A front end empties the output of a cell before it runs it. A page with our extension remembers what it emptied; where
none answers, the notebook's file has it as it was last saved. What names neither the file nor the cell, such as
nbconvert, runs in the folder of the notebook: there exactly one prompt with one answer must fit.
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

FILE_LIMIT: Final = 50_000_000
"""Bytes of a notebook that is looked through."""
FOLDER_LIMIT: Final = 100
"""Notebooks of a folder that are looked through."""
SAID: Final = (
    "Kept answer: no model was asked and no code ran. For a new one change the prompt, clear the output, or use "
    "--no-keep."
)
_MAGIC: Final = "%%vibe"
Answer = tuple[KeptOutput, ...]
"""The outputs of one cell; empty for none."""


class KeptAnswers:
    """One for a kernel. Main thread only."""

    def __init__(self, engine: Engine, run_view: RunView, notebook: "NotebookAccess") -> None:
        self._engine = engine
        self._run_view = run_view
        self._notebook = notebook

    def shown(self, key: str) -> Reply | None:
        """Show the answer that the cell of the prompt with this key has; None where it has none.

        Raises:
            NotebookError: a run is open, or this is not the main thread.
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
    """What all cells with a prompt agree on. A copy of a cell in another file may be without it."""
    by_cell: dict[str, set[Answer]] = {}
    for cell in cells:
        found = by_cell.setdefault(str(cell.get("id")), set())
        found.update(filter(None, [kept_outputs(cell.get("outputs", ()), key)]))
    answers = {answer for found in by_cell.values() for answer in found or {()}}
    return answers.pop() if len(answers) == 1 else ()


def _cells_around(file: Path | None, key: str) -> Iterator[Mapping[str, Any]]:
    """The cells with this prompt in the notebook, or else in those of the working folder."""
    found = list(_prompt_cells(file, key)) if file is not None else []
    if found:
        yield from found
        return
    with contextlib.suppress(OSError):
        for path in sorted(Path.cwd().glob("*.ipynb"))[:FOLDER_LIMIT]:
            yield from _prompt_cells(path, key)


def _prompt_cells(path: Path, key: str) -> Iterator[Mapping[str, Any]]:
    """The cells of a file that hold the prompt with this key; none of what is no notebook."""
    with contextlib.suppress(OSError, ValueError, RecursionError, AttributeError, TypeError):
        if path.stat().st_size > FILE_LIMIT:
            return
        for cell in json.loads(path.read_bytes()).get("cells", ()):
            source = join_lines(cell.get("source"))
            if cell.get("cell_type") == "code" and _key_of(source) == key:
                yield cell


def _key_of(source: str) -> str:
    """The key of the prompt in a cell; empty where it holds none."""
    line, _, rest = source.lstrip().partition("\n")
    words = line.removeprefix(_MAGIC)
    if words == line or words[:1].strip():
        return ""
    try:
        options, begun = parse_line(words)
    except ConfigError:
        return ""
    return options.key(whole_prompt(begun, rest))
