"""What a folder would have us load or run (security C12). What was looked at is what is loaded: read once, and kept."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PROJECT_FOLDER: Final = ".vibe"
LOADED: Final = ("config.toml", "tools")
"""Files and folders in `PROJECT_FOLDER` of which something is loaded or run."""
BESIDE: Final = (".mcp.json",)
"""Files beside that folder of which something is run."""
LOADED_FILES: Final = (".py", ".md")
"""Ends of names in such folders: tools, and what is told of them."""
MOST_FILES: Final = 500
MOST_BYTES: Final = 8 * 1024 * 1024
"""Of all files together; a folder with more cannot be looked through, and so not be trusted."""


@dataclass(frozen=True)
class Brought:
    """What a folder would have us load."""

    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Content by path below the folder."""
    problems: tuple[str, ...] = ()
    """What was passed over, in words."""

    @property
    def digest(self) -> str:
        """Of every path and content."""
        whole = hashlib.sha256()
        for path, content in sorted(self.files.items()):
            name = path.encode("utf-8", "surrogateescape")
            whole.update(f"{len(name)} {len(content)} ".encode() + name + content)
        return whole.hexdigest()


def survey(folder: Path, also: Sequence[str] = ()) -> Brought:
    """Read everything of a folder that would be loaded. Follows no links and waits for no pipes.

    Args:
        folder: the project.
        also: further files and folders in it, as its own settings name them.
    """
    files: dict[str, bytes] = {}
    problems: list[str] = []
    size = 0
    for path in _candidates(folder, also, problems):
        content = _content(path, MOST_BYTES - size, problems)
        if content is None:
            continue
        files[path.relative_to(folder).as_posix()] = content
        size += len(content)
        if len(files) > MOST_FILES or size >= MOST_BYTES:
            return Brought(problems=(f"{folder / PROJECT_FOLDER} holds too much to look through; nothing is loaded",))
    return Brought(files, tuple(problems))


def _candidates(folder: Path, also: Sequence[str], problems: list[str]) -> Iterator[Path]:
    own = folder / PROJECT_FOLDER
    if own.is_symlink():
        problems.append(f"{own} is a link; nothing is loaded through it")
    elif own.is_dir():
        for name in LOADED:
            yield from _below(own / name, problems)
    for name in BESIDE:
        yield from _below(folder / name, problems)
    for name in also:
        path = Path(os.path.normpath(folder / name))
        if path == folder or not path.is_relative_to(folder) or any(step.is_symlink() for step in _steps(path, folder)):
            problems.append(f"{name} is not a path inside {folder}; not loaded")
        elif not path.is_relative_to(own / "tools"):
            yield from _below(path, problems)


def _below(path: Path, problems: list[str]) -> Iterator[Path]:
    if path.is_symlink():
        problems.append(f"{path} is a link; not loaded")
    elif path.is_dir():
        for root, folders, files in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
            yield from (Path(root, name) for name in sorted(files) if name.endswith(LOADED_FILES))
    elif os.path.lexists(path):
        yield path


def _steps(path: Path, folder: Path) -> Iterator[Path]:
    while path != folder:
        yield path
        path = path.parent


def _content(path: Path, most: int, problems: list[str]) -> bytes | None:
    """What a regular file holds, a little more than `most` bytes at the most; None for anything else."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(most + 1)
    except OSError as error:
        problems.append(f"{path} cannot be read ({error.strerror}); not loaded")
        return None
    problems.append(f"{path} is no regular file; not loaded")
    return None
