"""Search the project in a child process, with ripgrep or in Python, and end it once enough was read.

ripgrep opens files by path, and a path may lead elsewhere a moment later. So its output only locates matches: one
counts if the same text is found there in the open folder, reached without following links.
"""

import asyncio
import dataclasses
import json
import os
import re
import shutil
import stat
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.protected import is_secret_name, own_patterns, protected_names
from vibe_jupyter.files.real_path import OpenFolder
from vibe_jupyter.files.search_rules import (
    DEFAULT_FILES,
    DEFAULT_FOLDERS,
    OWN_IGNORE_FILE,
    WIDE_MARKS,
    SearchLimits,
    SearchMatch,
    SearchQuery,
    SearchResult,
    read_ignore_file,
)
from vibe_jupyter.files.workspace import Located, Workspace

# Matches that are divided fairly among files. Up to this number, ripgrep searches fast and unordered, and the result is
# sorted here.
SHARED_HERE: Final = 1_000
_SHARED_BYTES: Final = 1_000_000  # likewise in bytes
TEXT_LIMIT: Final = 500  # bytes shown of a matching line, around the match
_BEFORE_MATCH: Final = 100  # bytes shown before a match far into a long line
_CHUNK: Final = 65_536  # bytes read from the child at a time
_LINE_LIMIT: Final = 1_048_576  # bytes kept of one line; the rest is dropped
_STDERR_LIMIT: Final = 2_000  # characters of an engine's error message
_PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL", "SYSTEMROOT", "TMPDIR", "TEMP")
_WRONG_PATTERN: Final = 2
_BROKEN: Final = 1  # exit code of the Python search after an error; for ripgrep it means no match

_UTF8_MARK: Final = b"\xef\xbb\xbf"
_NO_FILE: Final = -1

_FORM = ("--color=never", "--no-heading", "--with-filename", "--line-number", "--column", "--byte-offset", "--null")

# A file that shrinks while it is memory-mapped crashes the program.
_SAFETY = ("--no-mmap",)
_ORDER = ("--sort=path",)
_MATCHING = ("--smart-case", "--crlf")
_IGNORE_FILES = ("--no-require-git", "--no-ignore-global", "--no-ignore-exclude")


class SearchTarget:
    """An open folder or file to search. At most one more file is open at a time."""

    def __init__(self, path: Path, descriptor: int | None, folder: OpenFolder | None) -> None:
        self.path = path
        self.descriptor = descriptor  # for the worker; None where the system can't open folders
        self._folder = folder  # None if a single file is searched
        self._name = ""
        self._file = _NO_FILE
        self._decoded: bytes | None = None  # content of the open file as UTF-8, or None if it is compared as is
        self._start = 0

    def __enter__(self) -> "SearchTarget":
        return self

    def __exit__(self, *_: object) -> None:
        self._close_file()

    def holds(self, path: str, offset: int, text: bytes) -> bool:
        """Return whether a file below the target contains this text at ripgrep's byte offset."""
        if path != self._name or self._file == _NO_FILE:
            self._close_file()
            try:
                self._open_path(path)
            except (OSError, ValueError):
                return False
        if self._decoded is not None:
            return self._decoded[offset : offset + len(text)] == text
        return self._read_bytes(len(text), self._start + offset) == text

    def _open_path(self, path: str) -> None:
        self._file = self._descriptor_of(path)
        self._name = path
        if not stat.S_ISREG(os.fstat(self._file).st_mode):
            raise OSError("no longer a regular file")
        head = self._read_bytes(len(_UTF8_MARK), 0)
        self._start = len(_UTF8_MARK) if head == _UTF8_MARK else 0
        encoding = next((name for mark, name in WIDE_MARKS if head.startswith(mark)), None)
        if encoding is not None:
            raw = self._read_bytes(os.fstat(self._file).st_size, 0)
            self._decoded = raw.decode(encoding, "replace").removeprefix("\ufeff").encode()

    def _descriptor_of(self, path: str) -> int:
        if self._folder is None:
            assert self.descriptor is not None
            return os.dup(self.descriptor)
        *folders, name = Path(path).relative_to(self.path).parts
        if self._folder.descriptor is None:
            return os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        folder = OpenFolder(self.path, os.dup(self._folder.descriptor))
        for one in folders:
            with folder as outer:
                folder = outer.inner(one)
        with folder:
            return folder.open(name, os.O_RDONLY)

    def _read_bytes(self, count: int, offset: int) -> bytes:
        if not hasattr(os, "pread"):  # Windows
            os.lseek(self._file, offset, os.SEEK_SET)
            return os.read(self._file, count)
        read = b""
        while len(read) < count and (chunk := os.pread(self._file, count - len(read), offset + len(read))):
            read += chunk
        return read

    def _close_file(self) -> None:
        if self._file != _NO_FILE:
            with suppress(OSError):
                os.close(self._file)
        self._file, self._decoded, self._start = _NO_FILE, None, 0


class OwnIgnores:
    """Filter for matches that the project's own ignore file excludes."""

    def __init__(self, root: Path, query: SearchQuery) -> None:
        target = Path(query.target)
        self._file = read_ignore_file(root / OWN_IGNORE_FILE)
        # A folder named explicitly is searched even if ignored, so rules are applied only below it.
        self._depth = len(target.relative_to(root).parts) if target.is_relative_to(root) else None
        self._known: dict[str, bool] = {}

    def leaves_out(self, path: str) -> bool:
        """Return whether `path`, relative to the project folder, or one of its parents is ignored."""
        if self._file is None or self._depth is None:
            return False
        if path not in self._known:
            self._known[path] = self._is_ignored(path.split("/"), self._depth)
        return self._known[path]

    def _is_ignored(self, names: list[str], depth: int) -> bool:
        assert self._file is not None
        ends = range(depth + 1, len(names) + 1)
        return any(self._file.ignores("/".join(names[:end]), is_folder=end < len(names)) for end in ends)


@dataclass(frozen=True)
class _Bounds:
    """Limits and filters for an engine's matches."""

    folder: Path
    target: SearchTarget
    limits: SearchLimits
    own: OwnIgnores | None  # None if ignore files are disregarded
    by_path: bool = False  # whether the engine opens files by path, so that matches must be verified in the target


async def search_files(query: SearchQuery, folder: Path, target: SearchTarget, limits: SearchLimits) -> SearchResult:
    """Return the matching lines in path order. Uses ripgrep if it is installed and supports the pattern.

    If there are more than the limits allow, they are divided among files: one with thousands leaves room for others.

    Raises:
        ToolError: The pattern is invalid, or the search took too long.
    """
    query = query._replace(most=limits.matches + 1)
    wide = limits._replace(matches=max(limits.matches, SHARED_HERE), bytes=max(limits.bytes, _SHARED_BYTES))
    bounds = _Bounds(folder, target, wide, OwnIgnores(folder, query) if query.use_default_ignore else None)
    program = shutil.which("rg")
    if program is not None:
        found = await _by_ripgrep(program, query, dataclasses.replace(bounds, by_path=True))
        if isinstance(found, SearchResult):
            return _shared(found, limits)
        # Only Python supports look-around and back-references.
        if not _is_python_pattern(query.pattern):
            raise ToolError(f"{query.pattern!r} is not a valid regular expression. {found}")
    given = json.dumps({**query._asdict(), "descriptor": target.descriptor, "protected": own_patterns()}).encode()
    found = await _run_engine(_worker_command(), given, bounds)
    if isinstance(found, SearchResult):
        return _shared(found, limits)
    raise ToolError(f"{query.pattern!r} is not a valid regular expression. {found}")


async def _by_ripgrep(program: str, query: SearchQuery, bounds: _Bounds) -> SearchResult | str:
    """Search with ripgrep. Sorting makes it single-threaded, so it sorts only if there are many matches."""
    found = await _run_engine(ripgrep_command(program, query, ordered=False), b"", bounds)
    if isinstance(found, str):
        return found
    if not found.was_truncated:
        in_order = sorted(found.matches, key=lambda match: (match.path.split(os.sep), match.line))
        return SearchResult(tuple(in_order), was_truncated=False)
    return await _run_engine(ripgrep_command(program, query, ordered=True), b"", bounds)


def _shared(found: SearchResult, limits: SearchLimits) -> SearchResult:
    """Keep as many matches as fit: the first of each file before the second of any."""
    counted: Counter[str] = Counter()
    ranks: list[int] = []
    for match in found.matches:
        ranks.append(counted[match.path])
        counted[match.path] += 1
    kept: set[int] = set()
    room = limits.bytes
    for place in sorted(range(len(ranks)), key=lambda place: (ranks[place], place)):
        room -= found.matches[place].size
        if len(kept) == limits.matches or room < 0:
            return SearchResult(tuple(found.matches[place] for place in sorted(kept)), was_truncated=True)
        kept.add(place)
    return found


def _is_python_pattern(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _worker_command() -> Sequence[str]:
    if not sys.executable:
        raise ToolError("Searching needs ripgrep (rg) here. Ask the user to install it.")
    return (sys.executable, "-P", "-X", "utf8", "-m", "vibe_jupyter.files.search_worker")


def _search_environment() -> Mapping[str, str]:
    """Return an environment without keys, from which this package can be imported."""
    passed = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    home = str(Path(__file__).parents[2])
    return {**passed, "PYTHONPATH": home, "PYTHONDONTWRITEBYTECODE": "1"}


async def _run_engine(command: Sequence[str], given: bytes, bounds: _Bounds) -> SearchResult | str:
    """Return the matches, or the engine's error message about the pattern."""
    descriptor = bounds.target.descriptor
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=bounds.folder,
        env=_search_environment(),
        pass_fds=() if descriptor is None or bounds.by_path else (descriptor,),
    )
    try:
        async with asyncio.timeout(bounds.limits.seconds):
            return await _converse_with_engine(process, given, bounds)
    except TimeoutError:
        limit = f"{bounds.limits.seconds:g} seconds"
        raise ToolError(
            f"The search took longer than {limit} and was ended. Narrow path or simplify pattern."
        ) from None
    finally:
        await asyncio.shield(_end_process(process))


async def _converse_with_engine(process: Process, given: bytes, bounds: _Bounds) -> SearchResult | str:
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(given)
    process.stdin.close()
    found = await _collect_matches(process, bounds)
    if found.was_truncated:
        return found
    # Safe to read after the matches: engines print only a few lines of errors, which fit into the pipe's buffer.
    said = (await process.stderr.read()).decode("utf-8", "replace").strip()
    code = await process.wait()
    if code < 0 or (code == _BROKEN and not bounds.by_path):
        why = said.rpartition("\n")[2] if said else f"the system ended it by signal {-code}"
        raise ToolError(f"The search broke off ({why[:_STDERR_LIMIT]}); not all was searched. Narrow path.")
    return said[:_STDERR_LIMIT] if code == _WRONG_PATTERN and said else found


async def _collect_matches(process: Process, bounds: _Bounds) -> SearchResult:
    matches: list[SearchMatch] = []
    room = bounds.limits.bytes
    protected: dict[bytes, bool] = {}
    async for line in _engine_lines(process):
        path = line.partition(b"\0")[0]
        if path not in protected:
            protected[path] = _is_protected(os.fsdecode(path), bounds.target.path)
        if protected[path]:
            continue
        match = _parse_match(line, bounds)
        if match is None or (bounds.own is not None and bounds.own.leaves_out(match.path)):
            continue
        room -= match.size
        if len(matches) == bounds.limits.matches or room < 0:
            return SearchResult(tuple(matches), was_truncated=True)
        matches.append(match)
    return SearchResult(tuple(matches), was_truncated=False)


def _is_protected(path: str, target: Path) -> bool:
    """Return whether a file below the target is protected. The target itself was allowed."""
    folder = target.name
    for name in path.removeprefix(str(target)).split(os.sep):
        if name and is_secret_name(name, folder):
            return True
        folder = name or folder
    return False


async def _engine_lines(process: Process) -> AsyncIterator[bytes]:
    assert process.stdout is not None
    rest = b""
    while chunk := await process.stdout.read(_CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[:_LINE_LIMIT]
        for line in lines:
            yield line
    if rest:
        yield rest


def _parse_match(line: bytes, bounds: _Bounds) -> SearchMatch | None:
    """Parse a line of output. Returns None for messages and for matches that aren't in the target."""
    path, mark, place = line.partition(b"\0")
    number, _, after = place.partition(b":")
    column, _, rest = after.partition(b":")
    offset, _, text = rest.partition(b":")
    if not mark or not (number.isdigit() and column.isdigit() and offset.isdigit()):
        return None
    text = text.removesuffix(b"\r")
    if bounds.by_path and not bounds.target.holds(os.fsdecode(path), int(offset), text):
        return None
    shown = path.decode("utf-8", "replace").removeprefix(f"{bounds.folder}{os.sep}")
    return SearchMatch(shown, int(number), _shown_line(text, int(column) - 1))


def _shown_line(text: bytes, column: int) -> str:
    if len(text) <= TEXT_LIMIT:
        return _decode_line(text)
    start = max(0, column - _BEFORE_MATCH) if column > TEXT_LIMIT - _BEFORE_MATCH else 0
    window = text[start : start + TEXT_LIMIT].decode("utf-8", "ignore")
    return f"{'…' if start else ''}{window}{'…' if start + TEXT_LIMIT < len(text) else ''}"


def _decode_line(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


async def _end_process(process: Process) -> None:
    if process.returncode is None:
        process.kill()
    # Drain the pipes, so that they are closed.
    await asyncio.gather(*(pipe.read() for pipe in (process.stdout, process.stderr) if pipe is not None))
    await process.wait()


@contextmanager
def opened(workspace: Workspace, located: Located) -> "Generator[SearchTarget]":
    """Open the target for the duration of a search.

    Raises:
        ToolError: It can't be opened or has been replaced.
    """
    workspace.require(located, "regular", "directory")
    if located.kind == "directory":
        with workspace.open_folder(located) as folder, SearchTarget(located.path, folder.descriptor, folder) as target:
            yield target
    else:
        with workspace.open_read(located) as file, SearchTarget(located.path, file.fileno(), None) as target:
            yield target


def ripgrep_command(program: str, query: SearchQuery, *, ordered: bool) -> list[str]:
    """Return the command line. If `ordered`, results are sorted by path, which is slower."""
    # Other protected names are filtered from the output: hundreds of globs cost ripgrep more than the search itself.
    secrets = [f"--iglob=!{folder}" for folder in protected_names().folders]
    return [
        program,
        "--no-config",
        "--no-messages",
        *_FORM,
        *_SAFETY,
        *(_ORDER if ordered else ()),
        *_MATCHING,
        *secrets,
        *(_heeding_ignores() if query.use_default_ignore else ("--no-ignore", "--hidden")),
        f"--max-count={query.most}",
        "-e",
        query.pattern,
        "--",
        query.target,
    ]


def _heeding_ignores() -> list[str]:
    folders = [f"--glob=!{folder}/" for folder in DEFAULT_FOLDERS]
    files = [f"--glob=!{pattern}" for pattern in DEFAULT_FILES]
    return [*_IGNORE_FILES, *folders, *files]
