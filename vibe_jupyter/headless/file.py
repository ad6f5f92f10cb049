"""A notebook file: read whole, and written whole or not at all."""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Any, cast

from nbformat.v4.nbjson import to_notebook  # pyright: ignore[reportUnknownVariableType] (untyped)

from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.headless.file_style import HALVES, FileStyle
from vibe_jupyter.headless.repairs import repair
from vibe_jupyter.notebook.document import NotNotebook, parse_notebook

Notebook = dict[str, Any]
"""nbformat 4.5 as plain JSON."""


class NotebookFile:
    """One file, and what it held when it was read.

    Raises:
        ConfigError: it cannot be read, or is no notebook.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        try:
            raw = self.path.read_bytes()
            found = parse_notebook(raw, oldest=1)
            self._style = FileStyle.of(raw, found)
            repaired, self.repairs = repair(found)
            self.notebook = cast(Notebook, to_notebook(repaired))
        except OSError as error:
            raise ConfigError(f"Cannot read {path}: {error.strerror or error}. Name an existing notebook.") from error
        except NotNotebook as error:
            raise ConfigError(f"{path} {error}") from error
        self._seen: dict[Path, bytes | None] = {self.path: _content_digest(raw)}
        """What stood in the places the notebook may go to; None for nothing."""

    @property
    def kernel_name(self) -> str:
        """Kernel that the metadata names; "python3" if it names none."""
        spec: object = self.notebook["metadata"].get("kernelspec")
        name = cast("dict[str, object]", spec).get("name") if isinstance(spec, dict) else None
        return name if isinstance(name, str) and name else "python3"

    def check_writable(self, target: Path) -> None:
        """Find out before the work, not after it.

        Raises:
            ConfigError: the result could not be written there.
        """
        place, folder = target.resolve(), target.resolve().parent
        why = ""
        if not folder.is_dir():
            why = f"There is no folder {folder}"
        elif place.is_dir():
            why = f"{target} is a folder"
        elif place.exists() and not os.access(place, os.W_OK):
            why = f"{target} is read-only"
        elif not os.access(folder, os.W_OK | os.X_OK):
            why = f"You may not write in {folder}"
        if why:
            raise ConfigError(f"{why}, so the result could not be saved. Choose another place with --save-as.")
        self._seen.setdefault(place, _file_digest(place))

    def save(self, target: Path) -> None:
        """Write the notebook in one step; the place keeps its mode.

        Raises:
            NotebookError: the place was changed by someone else meanwhile, or it cannot be written. Says where the
                notebook was put instead.
        """
        place = target.resolve()  # what a link points to is replaced, not the link
        text = self._style.text(self.notebook)
        try:
            if place in self._seen and _file_digest(place) != self._seen[place]:
                why = "was changed by someone else meanwhile and was not overwritten"
                raise NotebookError(f"{target} {why}.{self._rescue_copy(target, text)}")
            _replace_file(place, text)
        except OSError as error:
            why = error.strerror or error
            raise NotebookError(f"Cannot write {target}: {why}.{self._rescue_copy(target, text)}") from error
        self._seen[place] = _content_digest(text.encode("utf-8"))

    def _rescue_copy(self, target: Path, text: str) -> str:
        """Put the work somewhere else rather than lose it, if need be without its outputs; the words to say so."""
        try:
            folder = Path(tempfile.mkdtemp(prefix="vibe-jupyter-"))
            place = folder / target.name
            try:
                _replace_file(place, text)
            except OSError:
                _replace_file(place, self._style.text(_without_outputs(self.notebook)))
                return f" The result, for want of room without its outputs, is in {place}."
        except OSError as error:
            return f" It could not be kept in {tempfile.gettempdir()} either: {error.strerror or error}."
        return f" The result is in {place}."


def without_halves(value: Any) -> Any:
    """Replace half characters in all texts of a JSON value, as pages do before they send it."""
    match value:
        case str():
            return HALVES.sub("\N{REPLACEMENT CHARACTER}", value)
        case list():
            return [without_halves(one) for one in cast("list[Any]", value)]
        case dict():
            return {key: without_halves(one) for key, one in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _without_outputs(notebook: Notebook) -> Notebook:
    cells: list[dict[str, Any]] = notebook["cells"]
    bare: list[dict[str, Any]] = [{**cell, "outputs": []} if "outputs" in cell else cell for cell in cells]
    return cast(Notebook, to_notebook({**notebook, "cells": bare}))


def _content_digest(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


def _file_digest(place: Path) -> bytes | None:
    """What stands there, as a digest; None for nothing that can be read."""
    try:
        return _content_digest(place.read_bytes())
    except (FileNotFoundError, PermissionError):
        return None


def _replace_file(target: Path, text: str) -> None:
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    temporary = Path(name)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(_mode_of(target))
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _mode_of(target: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return target.stat().st_mode & 0o7777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some systems know no such thing
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
