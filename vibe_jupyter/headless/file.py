"""Notebook files, read and written atomically."""

import codecs
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

Notebook = dict[str, Any]  # nbformat 4.5 as plain JSON


class NotebookFile:
    """A notebook file, with its state when it was read.

    Raises:
        ConfigError: It can't be read, or isn't a notebook.
    """

    def __init__(self, path: Path) -> None:
        self.path = _real(path)
        try:
            raw = self.path.read_bytes()
            found = parse_notebook(raw, oldest=1)
            self._style = FileStyle.of(raw, found)
            repaired, self.repairs = repair(found)
            if raw.startswith(codecs.BOM_UTF8):
                self.repairs.append("removed the byte order mark, with which Jupyter does not open a notebook")
            self.notebook = cast(Notebook, to_notebook(repaired))
        except OSError as error:
            raise ConfigError(f"Cannot read {path}: {error.strerror or error}. Name an existing notebook.") from error
        except NotNotebook as error:
            raise ConfigError(f"{path} {error}") from error
        # Digests of possible target files; None if there was none.
        self._seen: dict[Path, bytes | None] = {self.path: _content_digest(raw)}

    @property
    def kernel_name(self) -> str:
        """Kernel name in the metadata, or "python3"."""
        spec: object = self.notebook["metadata"].get("kernelspec")
        name = cast("dict[str, object]", spec).get("name") if isinstance(spec, dict) else None
        return name if isinstance(name, str) and name else "python3"

    def check_writable(self, target: Path) -> None:
        """Check in advance that the result can be saved.

        Raises:
            ConfigError: It couldn't be written there.
        """
        place = _real(target)
        folder = place.parent
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
        """Write the notebook atomically, preserving the file's mode.

        Raises:
            NotebookError: The file was changed by someone else, or can't be written. The message says where the
                notebook was
                saved instead.
        """
        place = _real(target)  # replace a symlink's target rather than the link
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
        """Save the work elsewhere, if necessary without outputs, and return a sentence saying so."""
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
    """Replace lone surrogates in all texts of a JSON value, as pages do before sending it."""
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


def _real(path: Path) -> Path:
    """Resolve a path. `Path.resolve` would raise for a link to itself, which opening it reports."""
    return Path(os.path.realpath(path))


def _content_digest(raw: bytes) -> bytes:
    return hashlib.sha256(raw).digest()


def _file_digest(place: Path) -> bytes | None:
    """Return a file's digest, or None if it doesn't exist or can't be read."""
    try:
        return _content_digest(place.read_bytes())
    except (FileNotFoundError, PermissionError):
        return None


def _replace_file(target: Path, text: str) -> None:
    # In the same directory, since a rename is only atomic within one file system.
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
    mask = os.umask(0)  # the umask can only be read by setting it
    os.umask(mask)
    return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not supported on all systems
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
