"""A notebook file's bytes as JSON, or in plain words what is wrong with them."""

import json
from typing import Any, Final, cast

MAJOR: Final = 4
"""Of nbformat; Jupyter has written no other since 2015."""

NotebookJson = dict[str, Any]


class NotNotebook(ValueError):
    """What the bytes are instead, and what to do; to be read after the name of the file."""


def parse(raw: bytes) -> NotebookJson:
    """The notebook, in nbformat 4, with a list of cells that are objects; no more of it is looked at.

    Raises:
        NotNotebook: it is none.
    """
    found = _json(raw)
    if not isinstance(found, dict):
        raise NotNotebook("is JSON, but no notebook. Name another file, or open it in Jupyter to see what it holds.")
    notebook = cast(NotebookJson, found)
    _check_version(notebook)
    cells = notebook.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cast("list[object]", cells)):
        raise NotNotebook("is no notebook: it has no list of cells. Open it in Jupyter and repair it.")
    return notebook


def _json(raw: bytes) -> object:
    if not raw.strip():
        raise NotNotebook("is empty. Make a notebook in Jupyter and save it there.")
    try:
        return json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise NotNotebook(f"is no notebook: byte {error.start} is no UTF-8 text.") from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise NotNotebook(
            f"is no notebook: it is no valid JSON ({where}). Repair it, or take an older copy."
        ) from error
    except RecursionError as error:
        raise NotNotebook("is no notebook: its JSON is nested too deeply.") from error


def _check_version(notebook: NotebookJson) -> None:
    version = notebook.get("nbformat")
    if not isinstance(version, int):
        raise NotNotebook("is JSON, but no notebook: it names no nbformat.")
    if version < MAJOR:
        raise NotNotebook(
            f"is in nbformat {version}, which Jupyter no longer writes. Open it in Jupyter and save it, or run "
            "`jupyter nbconvert --to notebook --inplace` on it."
        )
    if version > MAJOR:
        raise NotNotebook(
            f"is in nbformat {version}, which is newer than this version of vibe-jupyter knows. "
            "Run `pip install -U vibe-jupyter`."
        )
