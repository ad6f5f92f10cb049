"""How tools change files: only in the state that was shown, and never the kernel's notebook.

What a file holds is looked at before the user is asked only where it may be read without asking.
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

CONTEXT: Final = 3
"""Unchanged lines shown around a change."""
_COMPARED: Final = 10_000
"""Lines, old and new, between the first change and the last; a longer stretch is shown as replaced whole."""
_NO_END: Final = "\n\\ No newline at end of file"

_Step = tuple[str, int, int, int, int]
"""What `difflib` calls an opcode: equal, replace, delete or insert, and the lines on both sides."""

OwnsNotebook = Callable[[Path], Awaitable[bool]]
"""Whether a file is the notebook of this kernel."""
_NO_FILE: Final = "none"
"""Fingerprint of a place where no file is."""
_USE_CELL_TOOLS: Final = (
    "is the notebook of this kernel, open on the user's screen; nothing was written. Change its cells with "
    "edit_cell, insert_cell, delete_cells or move_cells."
)

WATCHED_EVERY: Final = 1.0
"""Seconds between two looks at a file while a card waits that shows a change of it."""

REMEMBERED: Final = 1_000
"""Files; the longest unread is forgotten first."""


def unified_diff(old: str, new: str, context: int = CONTEXT) -> str:
    """All changes, each under a line with its place; CR before LF is shown only where the text mixes line ends."""
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
    """A change in two figures, such as ``+3 −1``."""
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
    """As in all unified diffs: an empty range names the line before it, a range of one line no length."""
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

    _shown: str | None = PrivateAttr(default=None)
    """Fingerprint of the file when the call was last shown; None when it never was."""

    def show(self, target: "Target") -> str:
        """Remember what is shown, and give the fingerprint that goes with it."""
        self._shown = target.fingerprint
        return target.fingerprint

    def fits(self, target: "Target") -> bool:
        """Whether the file is as it was shown."""
        return self._shown is None or self._shown in (target.fingerprint, target.status)


@dataclass(frozen=True)
class Target:
    """The file a call wants to write, looked at once."""

    located: Located
    status: str
    """Fingerprint by size and time, which needs nothing opened."""
    fingerprint: str
    """By content where it was opened."""
    content: bytes | None = None
    """None where there is no file, or it was not read: too large, or not yet allowed."""
    size: int = 0
    """Bytes."""

    @property
    def exists(self) -> bool:
        """Whether a file is there."""
        return self.fingerprint != _NO_FILE


RECENT: Final = 10
"""Reads that are remembered to tell a repeated one."""


class ReadMemory:
    """One for all file tools of a kernel."""

    def __init__(self) -> None:
        self._states: dict[Path, str] = {}
        self._recent: deque[tuple[Path, str, object]] = deque(maxlen=RECENT)

    def reads_again(self, path: Path, status: os.stat_result, part: object) -> bool:
        """Note that a part of a file is read; whether the same was among the last reads, and has not changed since."""
        read = (path, status_fingerprint(status), part)
        was_read = read in self._recent
        if was_read:
            self._recent.remove(read)
        self._recent.append(read)
        return was_read

    def saw(self, path: Path, status: os.stat_result) -> None:
        """The agent read the file, or wrote it, in this state."""
        self._states.pop(path, None)
        self._states[path] = status_fingerprint(status)
        if len(self._states) > REMEMBERED:
            del self._states[next(iter(self._states))]

    def is_stale(self, path: Path, state: str) -> bool:
        """Whether the file was read and is in another state now."""
        return self._states.get(path, state) != state


class FileAccess:
    """One for all tools of a kernel that write files."""

    def __init__(
        self,
        workspace: Workspace,
        owns_notebook: OwnsNotebook | None = None,
        memory: ReadMemory | None = None,
    ) -> None:
        self._workspace = workspace
        self._memory = memory or ReadMemory()
        self._owns_notebook = owns_notebook
        """None where no kernel has a notebook."""

    def place(self, args: FileChangeArgs, *paths: str) -> Located:
        """Where the first of the paths that a call names leads, as it was judged.

        Raises:
            ToolError: it cannot lead anywhere.
        """
        return args.settle(self._workspace, paths)[paths[0]]

    def near_paths(self, located: Located) -> str:
        """What else may be meant by a path where nothing is."""
        return self._workspace.near_paths(located)

    async def refuse_notebook(self, located: Located) -> None:
        """Refuse the kernel's own notebook.

        Raises:
            ToolError: it is; names the tools to use.
        """
        if self._owns_notebook is not None and await self._owns_notebook(located.path):
            raise ToolError(f"{located.given!r} {_USE_CELL_TOOLS}")

    def before(self, located: Located, limit: int) -> Target:
        """The file before the call is allowed; see `now`.

        Raises:
            ToolError: no file can be there, or it cannot be read.
        """
        return self.now(located, limit) if located.is_open else self._from_outside(located)

    def now(self, located: Located, limit: int) -> Target:
        """The file, and what it holds if that is at most `limit` bytes.

        Raises:
            ToolError: no file can be there, or it cannot be read.
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
        """Whether a backup of that name beside the file is where the call was allowed to put it."""
        if judged.path == target.located.path.with_name(name):
            return True
        with suppress(OSError), OpenFolder.holding(target.located.real) as folder:
            status = folder.look(name)
            return status is not None and stat.S_ISLNK(status.st_mode)  # replaced, never followed
        return False

    def write(self, target: Target, content: bytes, *, makes_folders: bool = True, backup: str = "") -> tuple[str, ...]:
        """Put this into the file, if it is still as it was looked at; gives what a user should know besides.

        Raises:
            ToolError: it is not, or cannot be written; nothing was written then.
        """
        seen = target.fingerprint if target.exists else None
        notes = write_file(target.located, NewFile(content, seen, makes_folders, backup))
        path = target.located.path
        with suppress(OSError), OpenFolder.at(path.parent) as folder:
            if (status := folder.look(path.name)) is not None:
                self._memory.saw(path, status)
        return notes

    def restore(self, path: Path, content: bytes | None) -> None:
        """Put back what a file held, whatever it holds now; None removes it.

        Raises:
            ToolError: it is a link by now, or cannot be written.
            OSError: it cannot be removed.
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
        """Return when the file has another size or time than now, or when it comes or goes."""
        before = self._status_now(located)
        while self._status_now(located) == before:  # noqa: ASYNC110 - other programs set no event
            await asyncio.sleep(WATCHED_EVERY)

    def is_stale(self, target: Target) -> bool:
        """Whether the agent read the file in another state than it is in now."""
        return target.exists and self._memory.is_stale(target.located.path, target.status)

    def _status_now(self, located: Located) -> str:
        with suppress(OSError), OpenFolder.at(located.path.parent) as folder:
            if (status := folder.look(located.path.name)) is not None:
                return status_fingerprint(status)
        return _NO_FILE

    def _from_outside(self, located: Located) -> Target:
        """The place alone, nothing opened."""
        status = self._file_status(located) if located.kind == "regular" else None
        if status is None:
            return Target(located, _NO_FILE, _NO_FILE)
        return Target(located, status_fingerprint(status), status_fingerprint(status), None, status.st_size)

    def _has_appeared(self, located: Located) -> bool:
        """Whether something is by now where nothing was."""
        first = located.path.relative_to(located.real.folder).parts[0]
        with suppress(OSError), OpenFolder.holding(located.real) as folder:
            return folder.look(first) is not None
        return True

    def _file_status(self, located: Located) -> os.stat_result | None:
        """Of the file that was judged; None where it is gone."""
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
    """Notes as lines of a result."""
    return [f"warning: {note}" for note in notes]
