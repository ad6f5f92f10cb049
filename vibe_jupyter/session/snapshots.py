"""Snapshots of cells and files before the agent changed them, stored with the conversation so that a run can be undone.

Each run that changed something has a directory: `changes.jsonl` records the state before and after, and backups of
files lie next to it, unredacted, since they are restored as they were. A record is on disk before the change it
describes, so that a crash never prevents an undo; if the change wasn't made after all, another record revokes it. When
the runs of a conversation exceed `TOTAL_LIMIT` bytes, the oldest are deleted.
"""

import asyncio
import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from pydantic import ValidationError

from vibe_jupyter.errors import JournalError
from vibe_jupyter.protocol import (
    Cell,
    CellEdit,
    Change,
    DeleteCells,
    InsertCell,
    MoveCells,
    SetSource,
)
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.session.journal import encode_body, journal_time

if TYPE_CHECKING:
    from vibe_jupyter.session.change_lines import CellContent, ChangeLine, FileLeft

FOLDER: Final = "undo"  # in the conversation's directory
CHANGES: Final = "changes.jsonl"
FILE_LIMIT: Final = 50_000_000  # bytes; larger files aren't backed up and can't be restored
TOTAL_LIMIT: Final = 200_000_000  # bytes of all runs of a conversation

_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_TOO_LARGE: Final = f"it is larger than {FILE_LIMIT // 1_000_000} MB"
_NO_FILE: Final = "it is no regular file"


class ChangedCell(NamedTuple):
    """A cell's change over a whole run."""

    cell: str
    name: str
    before: "CellContent | None"
    after: str | None
    had_outputs: bool
    between: bool = False  # True if someone else changed it between two changes of the agent; that version isn't stored

    def then(self, later: "ChangedCell") -> "ChangedCell":
        """Combine with a later change."""
        found = later.before.source if later.before is not None else None
        return self._replace(after=later.after, between=self.between or later.between or found != self.after)


class ChangedFile(NamedTuple):
    """A file's change over a whole run."""

    path: Path
    name: str
    digest: str  # of the original content; "" if there was no file
    kept: Path | None  # path of the backup
    problem: str
    left: str | None  # digest of the agent's version; "" for no file, None if unknown
    between: bool = False  # True if someone else changed it between two changes of the agent; that version isn't stored

    def then(self, later: "ChangedFile") -> "ChangedFile":
        """Combine with a later change."""
        return self._replace(left=later.left, between=self.between or later.between or later.digest != self.left)

    def content(self) -> bytes | None:
        """Return the original content, or None if there was no file.

        Raises:
            OSError: The backup is missing or damaged.
        """
        if not self.digest:
            return None
        if self.kept is None or file_digest(self.kept) != self.digest:
            raise OSError("what was kept of it is damaged")
        return self.kept.read_bytes()


class RunChanges(NamedTuple):
    """Changes of one run, with the state before."""

    number: int  # from 1, in run order; never reused
    time: str = ""
    prompt: str = ""
    cells: Mapping[str, ChangedCell] = MappingProxyType({})  # by id, in order of the first change
    order: tuple[str, ...] = ()  # all cells before the first deletion or move; empty if there was none
    moved: Mapping[str, str] = MappingProxyType({})  # name by id
    files: Mapping[str, ChangedFile] = MappingProxyType({})  # by path
    variables: tuple[str, ...] = ()
    undone: bool = False
    told: bool = False

    @property
    def changes(self) -> tuple[Change, ...]:
        """The resulting differences: cells first, then files."""
        cells = [change for one in self.cells.values() if (change := _cell_change(one)) is not None]
        told = {change.name for change in cells} | {one.cell for one in self.cells.values() if one.before is None}
        moved = [Change(kind="cell", name=one, what="moved") for one in self.moved if one not in told]
        files = [
            Change(kind="file", name=one.name, what="edited" if one.digest else "new")
            for one in self.files.values()
            if one.left != one.digest
        ]
        return (*cells, *moved, *files)


def _cell_change(one: ChangedCell) -> Change | None:
    if one.before is None:
        return None if one.after is None else Change(kind="cell", name=one.cell, what="new")
    if one.after is None:
        return Change(kind="cell", name=one.cell, what="deleted", was=one.name)
    if one.before.source == one.after:
        return None
    return Change(kind="cell", name=one.cell, what="edited")


class Snapshots:
    """Snapshots of one conversation."""

    def __init__(self, folder: Path, *, limit: int = TOTAL_LIMIT) -> None:
        """
        Args:
            folder: The conversation's directory.
            limit: Bytes of all snapshots.
        """
        self._folder = folder / FOLDER
        self._limit = limit

    def runs(self) -> list[RunChanges]:
        """Return all runs that changed something, oldest first."""
        runs = [found for number in self._numbers() if (found := self.run(number)) is not None]
        return [run for run in runs if run.changes or run.variables]

    def run(self, number: int) -> RunChanges | None:
        """Return a run's changes, or None if it has none or they were deleted."""
        folder = self._folder / f"{number:04d}"
        try:
            raw = (folder / CHANGES).read_bytes()
        except OSError:
            return None
        lines: list[ChangeLine] = []
        for line in raw.split(b"\n"):
            with contextlib.suppress(ValidationError):  # truncated by a crash, so the change was never made
                lines.append(_kinds().LINE.validate_json(line))
        return _fold(number, lines, folder)

    def begin(self, prompt: str) -> "RunSnapshots":
        """Start recording a run. Nothing is written before its first change."""
        return RunSnapshots(self._folder, (self._numbers() or [0])[-1] + 1, prompt, self._limit)

    def mark(self, number: int, what: Literal["undone", "told"]) -> None:
        """Record that a run was undone, or that the model was informed.

        Raises:
            JournalError: It can't be written.
        """
        _append(self._folder / f"{number:04d}", [_kinds().RunMark(what=what, time=journal_time())])

    def note_variables(self, number: int, prompt: str, names: Sequence[str]) -> None:
        """Record variables that the code of a finished run changed.

        Raises:
            JournalError: It can't be written.
        """
        folder = self._folder / f"{number:04d}"
        begun = [] if folder.is_dir() else [_kinds().RunMark(what="begun", time=journal_time(), prompt=prompt)]
        _make_folder(self._folder, folder)
        _append(folder, [*begun, _kinds().VariablesChanged(names=tuple(names))])

    def _numbers(self) -> list[int]:
        try:
            return sorted(int(one.name) for one in self._folder.iterdir() if one.name.isdecimal())
        except OSError:
            return []


class RunSnapshots:
    """Recorder of one run's changes before they are made.

    On the engine's loop; writes on worker threads, sequentially.
    """

    def __init__(self, folder: Path, number: int, prompt: str, limit: int) -> None:
        self.number = number
        self._limit = limit
        self._root = folder
        self._folder = folder / f"{number:04d}"
        self._prompt = prompt
        self._entries = 0
        self._kept = 0
        self._lines: list[ChangeLine] = []
        self._lock = asyncio.Lock()

    @property
    def changes(self) -> tuple[Change, ...]:
        """The run's changes so far."""
        return _fold(self.number, self._lines, self._folder).changes

    async def before_edits(self, edits: Sequence[CellEdit], cells: Sequence[Cell]) -> int:
        """Record cells that are about to be edited. Returns the entry id for `not_made`.

        Raises:
            JournalError: They can't be recorded, so nothing may be changed.
        """
        async with self._lock:
            self._entries += 1
            lines = _cell_lines(self._entries, edits, cells)
            await asyncio.to_thread(self._write, lines)
            return self._entries

    async def not_made(self, entry: int) -> None:
        """Record that the edits of this entry were refused."""
        async with self._lock:
            await asyncio.to_thread(self._write, [_kinds().NotMade(entry=entry)])

    async def before_writes(self, files: Mapping[Path, str]) -> None:
        """Back up files that are about to be written, given with their display names.

        Raises:
            JournalError: They can't be recorded, so nothing may be written.
        """
        async with self._lock:
            kinds = _kinds()
            known = {line.path: line for line in self._lines if isinstance(line, kinds.FileSnapshot | kinds.FileLeft)}
            for path, name in files.items():
                last = known.get(str(path))
                if last is None:
                    self._entries += 1
                    await asyncio.to_thread(self._keep_file, self._entries, path, name)
                elif isinstance(last, kinds.FileLeft):
                    await asyncio.to_thread(self._note_foreign, last, path, name)

    async def after_writes(self, files: Iterable[Path]) -> None:
        """Record the files after a write, whether or not it succeeded."""
        async with self._lock:
            left = [
                _kinds().FileLeft(path=str(path), digest=await asyncio.to_thread(file_digest, path)) for path in files
            ]
            await asyncio.to_thread(self._write, left)

    def _keep_file(self, entry: int, path: Path, name: str) -> None:
        kept = problem = ""
        try:
            content = _content(path)
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            problem = str(error.strerror if isinstance(error, OSError) else error)
        else:
            self._kept += 1
            kept = f"{self._kept:04d}"
            self._make_room(len(content))
            _make_folder(self._root, self._folder)
            _write_synced(self._folder / kept, content)
        digest = file_digest(path)
        self._write(
            [_kinds().FileSnapshot(entry=entry, path=str(path), name=name, digest=digest, kept=kept, problem=problem)]
        )

    def _note_foreign(self, left: "FileLeft", path: Path, name: str) -> None:
        """Record a change by someone else to a file that the run changed before."""
        if (digest := file_digest(path)) != left.digest:
            self._entries += 1
            self._write([_kinds().FileSnapshot(entry=self._entries, path=str(path), name=name, digest=digest)])

    def _make_room(self, size: int) -> None:
        """Delete the oldest runs until `size` more bytes fit. The current run is kept."""
        others = sorted(one for one in self._root.glob("[0-9]*") if one != self._folder)
        taken = {one: _size(one) for one in (*others, self._folder)}
        while others and sum(taken.values()) + size > self._limit:
            taken.pop(others[0])
            shutil.rmtree(others.pop(0), ignore_errors=True)

    def _write(self, lines: "Sequence[ChangeLine]") -> None:
        if not self._lines:
            lines = [_kinds().RunMark(what="begun", time=journal_time(), prompt=self._prompt), *lines]
        _make_folder(self._root, self._folder)
        _append(self._folder, lines)
        self._lines += lines


def _kinds():
    """Import the record types with the first change, since no first request needs them."""
    with without_working_folder():
        from vibe_jupyter.session import change_lines  # noqa: PLC0415 - most runs begin without one

    return change_lines


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file, or "" if there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def shown_name(cell: Cell) -> str:
    """Return the cell's label for the user: ``[6]`` if it ran, else its position."""
    return f"[{cell.execution_count}]" if cell.execution_count is not None else f"cell {cell.number}"


def _cell_lines(entry: int, edits: Sequence[CellEdit], cells: Sequence[Cell]) -> "list[ChangeLine]":
    kinds = _kinds()
    known = {cell.id: cell for cell in cells}
    order = tuple(known)
    lines: list[ChangeLine] = []

    def add(cell_id: str, after: str | None) -> None:
        cell = known.get(cell_id)
        content = kinds.CellContent(kind=cell.kind, source=cell.source, vibe=cell.vibe) if cell is not None else None
        name = shown_name(cell) if cell is not None else ""
        had_outputs = cell is not None and bool(cell.outputs)
        lines.append(
            kinds.CellSnapshot(
                entry=entry, cell=cell_id, name=name, before=content, after=after, had_outputs=had_outputs
            )
        )

    for edit in edits:
        match edit:
            case SetSource():
                add(edit.cell, edit.source)
            case InsertCell():
                add(edit.id, edit.source)
            case DeleteCells():
                lines.append(kinds.OrderSnapshot(entry=entry, order=order))
                for one in edit.cells:
                    add(one.id, None)
            case MoveCells():
                names = tuple(shown_name(known[one]) if one in known else one for one in edit.cells)
                lines.append(kinds.OrderSnapshot(entry=entry, order=order, moved=edit.cells, names=names))
    return lines


def _fold(number: int, lines: "Sequence[ChangeLine]", folder: Path) -> RunChanges:
    """Combine records: the first state before, and the last state after."""
    kinds = _kinds()
    dropped = {line.entry for line in lines if isinstance(line, kinds.NotMade)}
    run = RunChanges(number)
    cells, files, moved = dict[str, ChangedCell](), dict[str, ChangedFile](), dict[str, str]()
    for line in lines:
        match line:
            case kinds.RunMark(what="begun"):
                run = run._replace(time=line.time, prompt=line.prompt)
            case kinds.RunMark(what="undone"):
                run = run._replace(undone=True)
            case kinds.RunMark():
                run = run._replace(told=True)
            case kinds.CellSnapshot() if line.entry not in dropped:
                first = cells.get(line.cell)
                one = ChangedCell(line.cell, line.name, line.before, line.after, line.had_outputs)
                cells[line.cell] = one if first is None else first.then(one)
            case kinds.OrderSnapshot() if line.entry not in dropped:
                run = run if run.order else run._replace(order=line.order)
                moved |= {cell: name for cell, name in zip(line.moved, line.names, strict=False) if cell not in moved}
            case kinds.FileSnapshot():
                kept = folder / line.kept if line.kept else None
                file = ChangedFile(Path(line.path), line.name, line.digest, kept, line.problem, None)
                earlier = files.get(line.path)
                files[line.path] = file if earlier is None else earlier.then(file)
            case kinds.FileLeft():
                if (file := files.get(line.path)) is not None:
                    files[line.path] = file._replace(left=line.digest)
            case _:
                pass
    variables = tuple(name for line in lines if isinstance(line, kinds.VariablesChanged) for name in line.names)
    return run._replace(cells=cells, files=files, moved=moved, variables=variables)


def _content(path: Path) -> bytes:
    """Read a file for backup. Raises OSError, or ValueError if it can't be backed up."""
    # O_NOFOLLOW: refuse symlinks. O_NONBLOCK: opening a FIFO must not block.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(_NO_FILE)
        content = file.read(FILE_LIMIT + 1)
    if len(content) > FILE_LIMIT:
        raise ValueError(_TOO_LARGE)
    return content


def _size(folder: Path) -> int:
    with contextlib.suppress(OSError):
        return sum(one.stat().st_size for one in folder.iterdir())
    return 0


def _make_folder(root: Path, folder: Path) -> None:
    if folder.is_dir():
        return
    try:
        root.mkdir(mode=_FOLDER_MODE, exist_ok=True)
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    except OSError as error:
        raise _unrecorded(folder, error) from error


def _write_synced(path: Path, content: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _FILE_MODE)
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unrecorded(path, error) from error


def _append(folder: Path, lines: "Sequence[ChangeLine]") -> None:
    """Append records. Each starts with a newline, so that a truncated record doesn't corrupt the next."""
    path = folder / CHANGES
    text = b"".join(b"\n" + encode_body(line) for line in lines)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _FILE_MODE)
        with open(descriptor, "ab") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unrecorded(path, error) from error


def _unrecorded(path: Path, error: OSError) -> JournalError:
    return JournalError(f"Cannot record what is about to change in {path}: {error.strerror}. Nothing was changed.")
