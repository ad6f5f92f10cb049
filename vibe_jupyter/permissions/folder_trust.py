"""Folders that the user trusts, and the content they were trusted with.

Trust applies to the current content of everything in a folder that would be loaded or run. When that changes, the user
is asked again.
"""

import hashlib
import os
import stat
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pydantic import ValidationError

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.file_stamps import FileStamp, stamp_file, stamp_files
from vibe_jupyter.files.plain_file import read_plain_file
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.permissions.kept_files import TrustFile

# In the user's folder. `trusted` and `untrusted` are Mistral Vibe's own lists.
FILE_NAME: Final = "trusted_folders.toml"

State = Literal["trusted", "untrusted", "changed", "unknown"]  # "changed": the decision was made for other content

PROJECT_FOLDER: Final = ".vibe"
CLAUDE_FOLDER: Final = ".claude"  # Claude Code's folder, whose hooks are run
SHARED_FOLDER: Final = ".agents"  # folder shared by agents of different vendors
LOADED_FILES: Final = (".py", ".md")  # suffixes in folders of tools and skills
AGENT_FILES: Final = (".toml",)  # suffixes in folders of agents
PROMPT_FILES: Final = (".md",)  # suffixes in folders of prompts
# Files and folders of a project that are loaded or run, with the suffixes that count.
LOADED: Final[Mapping[str, tuple[str, ...]]] = {
    f"{PROJECT_FOLDER}/config.toml": (),
    f"{PROJECT_FOLDER}/hooks.toml": (),
    f"{PROJECT_FOLDER}/hooks.json": (),
    f"{CLAUDE_FOLDER}/settings.json": (),
    f"{CLAUDE_FOLDER}/settings.local.json": (),
    f"{PROJECT_FOLDER}/tools": LOADED_FILES,
    f"{PROJECT_FOLDER}/agents": AGENT_FILES,
    f"{PROJECT_FOLDER}/middleware": (".py",),
    f"{PROJECT_FOLDER}/skills": LOADED_FILES,
    f"{SHARED_FOLDER}/skills": LOADED_FILES,
    f"{PROJECT_FOLDER}/prompts": PROMPT_FILES,
}
BESIDE: Final = (".mcp.json", "AGENTS.md")  # other files in the project folder that are run or sent to the model
MOST_FILES: Final = 500
# Bytes of all files together; a folder with more can't be checked, and so can't be trusted
MOST_BYTES: Final = 8 * 1024 * 1024
MOST_ENTRIES: Final = 5_000  # directory entries in all these folders
MOST_NAMED: Final = 100  # paths named by the project's settings
DEEPEST: Final = 50  # levels of nested folders
# Suffixes of files that are parsed before they are trusted, which takes longer than reading them
PARSED: Final[Sequence[str]] = (".toml", ".json")
_KB: Final = 64
MOST_PARSED_BYTES: Final = _KB * 1024  # bytes of settings and agents together; likewise of the list of servers


class TrustQuestion(NamedTuple):
    """The question whether to trust a folder, asked before anything in it is loaded."""

    folder: Path
    brings: tuple[str, ...]  # one line for each thing that would be loaded
    digest: str
    changed: bool  # True if there is a decision for other content


class TrustedFolders:
    """The user's decisions, stored in a file shared with other kernels."""

    def __init__(self, home: Path) -> None:
        self._path = home / FILE_NAME

    def stamp(self) -> FileStamp:
        """Return the current stamp of the file."""
        return stamp_file(self._path)

    def state(self, folder: Path, digest: str) -> State:
        """Return the decision about a folder with this content.

        Raises:
            ConfigError: the file cannot be read.
        """
        kept, name = self._read_file(), str(folder)
        if kept.content.get(name, digest) != digest or not kept.knows(name):
            return "changed" if kept.knows(name) else "unknown"
        if name in kept.untrusted:
            return "untrusted"
        # A decision made in another program doesn't cover the folder's current content.
        return "trusted" if name in kept.content else "changed"

    def remember(self, folder: Path, digest: str, *, trusted: bool) -> None:
        """Store a decision.

        Raises:
            ConfigError: it cannot be written.
        """
        with self._change_file() as kept:
            kept.forget(str(folder))
            (kept.trusted if trusted else kept.untrusted).append(str(folder))
            kept.content[str(folder)] = digest

    def forget(self, folder: Path) -> bool:
        """Delete a decision, so that the user is asked again. Returns whether there was one.

        Raises:
            ConfigError: it cannot be written.
        """
        with self._change_file() as kept:
            known = kept.knows(str(folder))
            kept.forget(str(folder))
        return known

    def _read_file(self) -> "TrustFile":
        with without_working_folder():
            from vibe_jupyter.permissions.kept_files import TrustFile  # noqa: PLC0415 - many folders contain nothing to trust

        try:
            text = read_plain_file(self._path).decode("utf-8")
        except FileNotFoundError:
            return TrustFile()
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error
        with without_working_folder():
            import tomllib  # noqa: PLC0415 - usually there is no such file at the first prompt

        try:
            return TrustFile.model_validate(tomllib.loads(text))
        except (tomllib.TOMLDecodeError, ValidationError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, problem: Exception) -> ConfigError:
        return ConfigError(f"Cannot read {self._path}: {problem}. Fix or remove it, then run again.")

    @contextmanager
    def _change_file(self) -> "Generator[TrustFile]":
        with without_working_folder():
            from vibe_jupyter.files.atomic_write import locked_file, replace_text  # noqa: PLC0415 - decisions are rare

        try:
            with locked_file(self._path):
                kept = self._read_file()
                yield kept
                replace_text(self._path, kept.text())
        except OSError as error:
            raise ConfigError(f"The decision cannot be kept in {self._path}: {error}.") from error


class FolderContents(NamedTuple):
    """Everything in a folder that would be loaded."""

    files: Mapping[str, bytes] = MappingProxyType({})  # content by path relative to the folder
    problems: tuple[str, ...] = ()  # sentences about what was skipped

    @property
    def digest(self) -> str:
        """Hash of all paths and contents."""
        whole = hashlib.sha256()
        for path, content in sorted(self.files.items()):
            name = path.encode("utf-8", "surrogateescape")
            whole.update(f"{len(name)} {len(content)} ".encode() + name + content)
        return whole.hexdigest()


def scan_folder(folder: Path, also: Sequence[str] = ()) -> FolderContents:
    """Read everything in a folder that would be loaded. Doesn't follow symlinks or block on pipes.

    Args:
        folder: the project.
        also: further files and folders in it that its settings name.
    """
    files: dict[str, bytes] = {}
    problems: list[str] = []
    left: dict[str, int] = dict.fromkeys(PARSED, MOST_PARSED_BYTES)
    size = 0
    try:
        for path in _candidate_files(folder, also, problems):
            most = left.get(path.suffix, MOST_BYTES)
            content = _file_content(path, min(most, MOST_BYTES - size), problems)
            if content is None:
                continue
            if path.suffix in left and len(content) > most:
                if left[path.suffix]:
                    problems.append(f"{path}: settings and agents, or servers, of more than {_KB} KB; not loaded")
                left[path.suffix] = 0
                continue
            if path.suffix in left:
                left[path.suffix] -= len(content)
            files[path.relative_to(folder).as_posix()] = content
            size += len(content)
            if len(files) > MOST_FILES or size >= MOST_BYTES:
                raise _TooMuch
    except _TooMuch:
        return FolderContents(
            problems=(f"{folder / PROJECT_FOLDER} holds too much to look through; nothing is loaded",)
        )
    return FolderContents(files, tuple(problems))


def stamp_folder(folder: Path, also: Sequence[str] = ()) -> tuple[list[FileStamp], list[str]]:
    """Stamp everything that `scan_folder` would read and list what it would skip, without opening files."""
    problems: list[str] = []
    places: set[Path] = set()
    named: set[Path] = set()
    with suppress(_TooMuch):
        named.update(_candidate_files(folder, also, problems, places))
    return stamp_files(sorted(named | places), follow_links=False), problems


def _candidate_files(
    folder: Path, also: Sequence[str], problems: list[str], places: set[Path] | None = None
) -> Iterator[Path]:
    """Yield the files to read.

    Args:
        folder: the project's folder.
        also: as for `scan_folder`.
        problems: receives what is skipped.
        places: receives every path that was checked. As long as these are unchanged, so is the result.
    """
    places = set() if places is None else places
    left = _Entries(MOST_ENTRIES)
    if len(also) > MOST_NAMED:
        raise _TooMuch
    own_folders = [folder / name for name in (PROJECT_FOLDER, SHARED_FOLDER, CLAUDE_FOLDER)]
    places.update(own_folders)
    linked = [own for own in own_folders if own.is_symlink()]
    problems += [f"{own} is a link; nothing is loaded through it" for own in linked]
    for name, ends in LOADED.items():
        path = folder / name
        if path.parent not in linked and path.parent.is_dir():
            yield from _files_below(path, ends, problems, places, left)
    for name in BESIDE:
        yield from _files_below(folder / name, (), problems, places, left)
    for name in also:
        path = Path(os.path.normpath(folder / name))
        places.update(_path_steps(path, folder) if path.is_relative_to(folder) else ())
        if (
            path == folder
            or not path.is_relative_to(folder)
            or any(step.is_symlink() for step in _path_steps(path, folder))
        ):
            problems.append(f"{name} is not a path inside {folder}; not loaded")
        elif not any(path.is_relative_to(folder / known) for known in LOADED):
            yield from _files_below(path, (*LOADED_FILES, *AGENT_FILES), problems, places, left)


class _TooMuch(Exception):
    """A folder exceeds a limit."""


class _Entries:
    """Remaining number of directory entries that may be visited."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self, count: int) -> None:
        """Count visited entries.

        Raises:
            _TooMuch: the limit is exceeded.
        """
        self._left -= count
        if self._left < 0:
            raise _TooMuch

    @property
    def left(self) -> int:
        return self._left


def _files_below(
    path: Path, ends: tuple[str, ...], problems: list[str], places: set[Path], entries: _Entries
) -> Iterator[Path]:
    places.add(path)
    if path.is_symlink():
        problems.append(f"{path} is a link; not loaded")
    elif path.is_dir():
        yield from _files_in(path, ends, places, entries, DEEPEST)
    elif os.path.lexists(path):
        entries.take(1)
        yield path


def _files_in(folder: Path, ends: tuple[str, ...], places: set[Path], entries: _Entries, deeper: int) -> Iterator[Path]:
    if not deeper:
        raise _TooMuch
    places.add(folder)
    try:
        with os.scandir(folder) as found:
            names = sorted((one.name, one.is_dir(follow_symlinks=False)) for one in islice(found, entries.left + 1))
    except OSError:
        return
    entries.take(len(names))
    yield from (folder / name for name, is_folder in names if not is_folder and name.endswith(ends))
    for name, is_folder in names:
        if is_folder and not name.startswith((".", "__pycache__")):
            yield from _files_in(folder / name, ends, places, entries, deeper - 1)


def _path_steps(path: Path, folder: Path) -> Iterator[Path]:
    while path != folder:
        yield path
        path = path.parent


def _file_content(path: Path, most: int, problems: list[str]) -> bytes | None:
    """Read a regular file, up to one byte more than `most`. Returns None for anything else."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, flags)
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return file.read(most + 1)
    except OSError as error:
        problems.append(f"{path} cannot be read ({error.strerror}); not loaded")
        return None
    problems.append(f"{path} is not a regular file; not loaded")
    return None
