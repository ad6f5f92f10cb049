"""File access for tools that write: only to the state that was shown, and never to the kernel's notebook.

Before approval, a file's content is read only if it may be read without asking.
"""

import asyncio
import difflib
import os
import stat
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import ConfigDict, PrivateAttr

from vibe_jupyter.errors import NothingDone, ToolError
from vibe_jupyter.files.atomic_write import (
    UNCHANGED,
    NewFile,
    content_fingerprint,
    file_fingerprint,
    status_fingerprint,
    write_file,
)
from vibe_jupyter.files.path_arguments import PathArguments
from vibe_jupyter.files.real_path import FileId, OpenFolder
from vibe_jupyter.files.workspace import ChangedPlace, Located, Workspace

CONTEXT: Final = 3  # unchanged lines shown around a change
# Lines, old and new, between the first and last change. A longer range is shown as replaced completely.
_COMPARED: Final = 10_000
_NO_END: Final = "\n\\ No newline at end of file"

# An opcode of `difflib`: equal, replace, delete or insert, with the line ranges on both sides.
_Step = tuple[str, int, int, int, int]

OwnsNotebook = Callable[[Path], Awaitable[bool]]  # returns whether a file is this kernel's notebook
_NO_FILE: Final = "none"  # fingerprint of a missing file
_USE_CELL_TOOLS: Final = (
    "is the notebook of this kernel, open on the user's screen; nothing was written. Change its cells with "
    "edit_cell, insert_cell, delete_cells or move_cells."
)

WATCHED_EVERY: Final = 1.0  # seconds between checks of a file while a card shows a change of it

REMEMBERED: Final = 1_000  # files; the least recently read is dropped first


def unified_diff(old: str, new: str, context: int = CONTEXT) -> str:
    """Return all changes with hunk headers. CRs are shown only if the text mixes line endings."""
    if _all_end_in_crlf(old) and _all_end_in_crlf(new):
        old, new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    before, after = _text_lines(old), _text_lines(new)
    shorter = min(len(before), len(after))
    head = _common_length(before, after)
    tail = min(_common_length(reversed(before), reversed(after)), shorter - head)
    start = max(0, head - context)
    ends = len(before) - max(0, tail - context), len(after) - max(0, tail - context)
    middle = before[start : ends[0]], after[start : ends[1]]
    return "\n".join(line for group in _change_groups(*middle, context) for line in _hunk_lines(group, *middle, start))


def diff_size(change: str) -> str:
    """Return a change's size as two numbers, such as ``+3 −1``."""
    lines = change.split("\n")
    return f"+{sum(line.startswith('+') for line in lines)} −{sum(line.startswith('-') for line in lines)}"


def _change_groups(before: Sequence[str], after: Sequence[str], context: int) -> Iterable[Sequence[_Step]]:
    if len(before) + len(after) > _COMPARED:
        return [[("replace", 0, len(before), 0, len(after))]]
    return difflib.SequenceMatcher(None, before, after).get_grouped_opcodes(context)


def _hunk_lines(group: Sequence[_Step], before: Sequence[str], after: Sequence[str], start: int) -> Iterator[str]:
    old_first, old_end, new_first, new_end = group[0][1], group[-1][2], group[0][3], group[-1][4]
    yield f"@@ -{_range(start + old_first, old_end - old_first)} +{_range(start + new_first, new_end - new_first)} @@"
    for kind, old_from, old_to, new_from, new_to in group:
        if kind == "equal":
            yield from (f" {line}" for line in before[old_from:old_to])
            continue
        yield from (f"-{line}" for line in before[old_from:old_to])
        yield from (f"+{line}" for line in after[new_from:new_to])


def _range(start: int, count: int) -> str:
    """Format a hunk's range: an empty range names the line before it, and a range of one line omits the length."""
    first = start + 1 if count else start
    return f"{first}" if count == 1 else f"{first},{count}"


def _text_lines(text: str) -> list[str]:
    lines = text.split("\n")
    last = lines.pop()
    return [*lines, last + _NO_END] if last else lines


def _common_length(one: Iterable[str], other: Iterable[str]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _all_end_in_crlf(text: str) -> bool:
    return text.count("\r\n") == text.count("\n")


class FileChangeArgs(PathArguments):
    """The base of the arguments of a call that writes a file."""

    model_config = ConfigDict(extra="forbid")

    _shown: str | None = PrivateAttr(default=None)  # fingerprint of the file when the call was last shown, or None

    def show(self, target: "Target") -> str:
        """Record the shown state and return its fingerprint."""
        self._shown = target.fingerprint
        return target.fingerprint

    def fits(self, target: "Target") -> bool:
        """Return whether the file is unchanged since it was shown."""
        return self._shown is None or self._shown in (target.fingerprint, target.status)


@dataclass(frozen=True)
class Target:
    """The file that a call is about to write, as read once."""

    located: Located
    status: str  # fingerprint by size and time, without opening the file
    fingerprint: str  # by content if the file was opened
    # None if the file doesn't exist or wasn't read because it is too large or not allowed yet.
    content: bytes | None = None
    size: int = 0  # bytes

    @property
    def exists(self) -> bool:
        return self.fingerprint != _NO_FILE


RECENT: Final = 10  # reads remembered to detect repeated ones


class ReadMemory:
    """Record of files that the agent has read, shared by all file tools of a kernel."""

    def __init__(self) -> None:
        self._states: dict[Path, str] = {}
        self._recent: deque[tuple[Path, str, object]] = deque(maxlen=RECENT)

    def reads_again(self, path: Path, status: os.stat_result, part: object) -> bool:
        """Record that a part of a file is read, and return whether it was read recently and is unchanged since."""
        read = (path, status_fingerprint(status), part)
        was_read = read in self._recent
        if was_read:
            self._recent.remove(read)
        self._recent.append(read)
        return was_read

    def saw(self, path: Path, status: os.stat_result) -> None:
        """Record the state in which the agent read or wrote the file."""
        self._states.pop(path, None)
        self._states[path] = status_fingerprint(status)
        if len(self._states) > REMEMBERED:
            del self._states[next(iter(self._states))]

    def is_stale(self, path: Path, state: str) -> bool:
        """Return whether the file was read before, in a different state."""
        return self._states.get(path, state) != state


class FileAccess:
    """File access shared by all tools of a kernel that write files."""

    def __init__(
        self,
        workspace: Workspace,
        owns_notebook: OwnsNotebook | None = None,
        memory: ReadMemory | None = None,
    ) -> None:
        self._workspace = workspace
        self._memory = memory or ReadMemory()
        self._owns_notebook = owns_notebook  # None without a notebook

    def place(self, args: FileChangeArgs, *paths: str) -> Located:
        """Return the location that the first of a call's paths leads to, as judged by the policy.

        Raises:
            ToolError: The path can't lead anywhere.
        """
        return args.settle(self._workspace, paths)[paths[0]]

    def near_paths(self, located: Located) -> str:
        """Suggest similar paths for one that doesn't exist."""
        return self._workspace.near_paths(located)

    async def refuse_notebook(self, located: Located) -> None:
        """Refuse to write the kernel's own notebook.

        Raises:
            ToolError: It is that notebook. The message names the tools to use instead.
        """
        if self._owns_notebook is not None and await self._owns_notebook(located.path):
            raise ToolError(f"{located.given!r} {_USE_CELL_TOOLS}")

    def before(self, located: Located, limit: int) -> Target:
        """Return the file before the call is approved; see `now`.

        Raises:
            ToolError: No file can be there, or it can't be read.
        """
        return self.now(located, limit) if located.is_open else self._from_outside(located)

    def now(self, located: Located, limit: int) -> Target:
        """Return the file, with its content if that is at most `limit` bytes.

        Raises:
            ToolError: No file can be there, or it can't be read.
        """
        self._workspace.require(located, "regular", "missing")
        if located.kind == "missing":
            if located.given.endswith(("/", "/.")):
                raise ToolError(f"{located.given!r} names a folder. Name the file.")
            if self._has_appeared(located):
                raise _changed(located)
            return Target(located, _NO_FILE, _NO_FILE)
        try:
            with self._workspace.open_read(located) as file:
                status = status_fingerprint(os.fstat(file.fileno()))
                content = file.read(limit + 1)
                if len(content) <= limit:
                    return Target(located, status, content_fingerprint(content), content, len(content))
                return Target(located, status, file_fingerprint(file), None, file.seek(0, 2))
        except ChangedPlace as error:
            raise _changed(located) from error

    def keeps_backup(self, target: Target, judged: Located, name: str) -> bool:
        """Return whether a backup with this name next to the file is where the call was allowed to put it."""
        if judged.path == target.located.path.with_name(name):
            return True
        with suppress(OSError), OpenFolder.holding(target.located.real) as folder:
            status = folder.look(name)
            return status is not None and stat.S_ISLNK(status.st_mode)  # it is replaced, never followed
        return False

    def write(self, target: Target, content: bytes, *, makes_folders: bool = True, backup: str = "") -> tuple[str, ...]:
        """Write the file if it is unchanged since it was read. Returns warnings for the user.

        Raises:
            ToolError: It was changed or can't be written. Nothing was written then.
        """
        seen = target.fingerprint if target.exists else None
        notes = write_file(target.located, NewFile(content, seen, makes_folders, backup))
        path = target.located.path
        with suppress(OSError), OpenFolder.at(path.parent) as folder:
            if (status := folder.look(path.name)) is not None:
                self._memory.saw(path, status)
        return notes

    def restore(self, path: Path, content: bytes | None) -> None:
        """Restore a file's previous content, whatever it contains now. None removes the file.

        Raises:
            ToolError: It is a symbolic link now, or can't be written.
            OSError: It can't be removed.
        """
        located = self._workspace.resolve(str(path))
        if located.path != path:
            raise ToolError("it is a link now")
        if content is not None:
            self.write(self.now(located, len(content)), content)
            return
        with suppress(FileNotFoundError), OpenFolder.at(path.parent) as folder:
            folder.remove(path.name)

    async def wait_for_change(self, located: Located) -> None:
        """Wait until the file's size or time changes, or until it is created or deleted."""
        before = self._status_now(located)
        while self._status_now(located) == before:  # noqa: ASYNC110 - other programs set no event
            await asyncio.sleep(WATCHED_EVERY)

    def is_stale(self, target: Target) -> bool:
        """Return whether the file changed since the agent last read it."""
        return target.exists and self._memory.is_stale(target.located.path, target.status)

    def _status_now(self, located: Located) -> str:
        with suppress(OSError), OpenFolder.at(located.path.parent) as folder:
            if (status := folder.look(located.path.name)) is not None:
                return status_fingerprint(status)
        return _NO_FILE

    def _from_outside(self, located: Located) -> Target:
        """Return the location with its status only, without opening anything."""
        status = self._file_status(located) if located.kind == "regular" else None
        if status is None:
            return Target(located, _NO_FILE, _NO_FILE)
        return Target(located, status_fingerprint(status), status_fingerprint(status), None, status.st_size)

    def _has_appeared(self, located: Located) -> bool:
        """Return whether something exists by now where nothing did before."""
        first = located.path.relative_to(located.real.folder).parts[0]
        with suppress(OSError), OpenFolder.holding(located.real) as folder:
            return folder.look(first) is not None
        return True

    def _file_status(self, located: Located) -> os.stat_result | None:
        """Return the status of the file that was judged, or None if it is gone."""
        try:
            with OpenFolder.holding(located.real) as folder:
                status = folder.look(located.path.name)
        except OSError:
            return None
        return status if status is not None and FileId.of(status) == located.real.file else None


def _changed(located: Located) -> NothingDone:
    what = f"{located.given!r} was changed since it was shown"
    return NothingDone(
        f"{what}: what the call was allowed for is no longer at {located.path}. {UNCHANGED} Read it again."
    )


def shown_notes(notes: tuple[str, ...]) -> list[str]:
    """Format notes as lines of a result."""
    return [f"warning: {note}" for note in notes]
