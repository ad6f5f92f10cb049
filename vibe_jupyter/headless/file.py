"""A notebook file: read whole, and written whole or not at all."""

import contextlib
import os
import tempfile
import uuid
from pathlib import Path
from typing import Any, cast

import nbformat
from nbformat.v4.nbjson import to_notebook  # pyright: ignore[reportUnknownVariableType] (untyped)
from nbformat.validator import normalize  # pyright: ignore[reportUnknownVariableType] (untyped)

from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.notebook.notebook_json import NotebookJson, NotNotebook, parse

Notebook = dict[str, Any]
"""nbformat 4.5 as plain JSON."""
_OLDEST_IDS = 5
"""Minor version of nbformat 4 from which cells have ids."""


class NotebookFile:
    """One file, and what it held when it was read.

    Raises:
        ConfigError: it cannot be read, or is no notebook.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        try:
            self._held = self.path.read_bytes()
            self.notebook = _sound(parse(self._held))
        except OSError as error:
            raise ConfigError(f"Cannot read {path}: {error.strerror or error}. Name an existing notebook.") from error
        except NotNotebook as error:
            raise ConfigError(f"{path} {error}") from error

    def check_writable(self, target: Path) -> None:
        """Find out before the work, not after it.

        Raises:
            ConfigError: the result could not be written there.
        """
        folder = target.parent
        writable = os.access(target, os.W_OK) if target.exists() else folder.is_dir() and os.access(folder, os.W_OK)
        if not writable or target.is_dir() or not os.access(folder, os.W_OK):
            raise ConfigError(f"Cannot write {target}. Choose another place with --save-as, or make it writable.")

    def save(self, target: Path) -> None:
        """Write the notebook in one step; the place keeps its mode.

        Raises:
            NotebookError: the file was changed by someone else meanwhile, or it cannot be written. Says where the
                notebook was put instead.
        """
        text: str = nbformat.writes(self.notebook)  # pyright: ignore
        try:
            if target.resolve() == self.path and self.path.read_bytes() != self._held:
                raise NotebookError(f"{target} was changed by someone else meanwhile and was not overwritten")
            _replace(target, text)
        except OSError as error:
            raise NotebookError(f"Cannot write {target}: {error.strerror or error}.{_rescue(target, text)}") from error
        except NotebookError as error:
            raise NotebookError(f"{error}.{_rescue(target, text)}") from None
        if target.resolve() == self.path:
            self._held = text.encode("utf-8")


def _sound(notebook: NotebookJson) -> Notebook:
    """The notebook with what nbformat 4.5 wants: an id for each cell."""
    try:
        sound = cast(Notebook, to_notebook(notebook))
        if sound["nbformat_minor"] < _OLDEST_IDS:
            sound["nbformat_minor"] = _OLDEST_IDS
            for cell in sound["cells"]:
                cell["id"] = uuid.uuid4().hex[:8]
        sound = cast(Any, normalize(sound))[1]
        nbformat.validate(sound)
    except (nbformat.ValidationError, KeyError, TypeError, AttributeError) as error:
        raise NotNotebook(f"is no sound notebook: {_first_line(error)}. Open it in Jupyter and save it.") from error
    return sound


def _replace(target: Path, text: str) -> None:
    target = target.resolve()  # what a link points to is replaced, not the link
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


def _rescue(target: Path, text: str) -> str:
    """Put the work somewhere else rather than lose it; the words to say so."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="vibe-jupyter-"))
        _replace(folder / target.name, text)
    except OSError as error:
        return f" It could not be kept in {tempfile.gettempdir()} either: {error.strerror or error}."
    return f" The result is in {folder / target.name}."


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
