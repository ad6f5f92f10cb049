"""How tools change files: only in the state that the person was shown (security C14), and never the kernel's notebook.

What a file holds is looked at before the person is asked only where it may be read without asking.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, PrivateAttr

from vibe_jupyter.errors import ToolError
from vibe_jupyter.tools.atomic_write import NewFile, write
from vibe_jupyter.tools.fingerprint import of_content, of_file, of_status
from vibe_jupyter.tools.read_memory import ReadMemory
from vibe_jupyter.tools.workspace import Located, Workspace

OwnsNotebook = Callable[[Path], Awaitable[bool]]
"""Whether a file is the notebook of this kernel."""
_NO_FILE: Final = "none"
"""Fingerprint of a place where no file is."""
_USE_CELL_TOOLS: Final = (
    "is the notebook of this kernel, open on the person's screen; nothing was written. Change its cells with "
    "edit_cell, insert_cell, delete_cells or move_cells."
)


class FileChangeArgs(BaseModel):
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

    async def refuse_notebook(self, path: str) -> None:
        """Refuse the kernel's own notebook.

        Raises:
            ToolError: it is; names the tools to use.
        """
        if self._owns_notebook is not None and await self._owns_notebook(self._workspace.resolve(path).path):
            raise ToolError(f"{path!r} {_USE_CELL_TOOLS}")

    def is_open(self, path: str) -> bool:
        """Whether what is at the path may be looked at before the person is asked.

        Raises:
            ToolError: the path cannot lead anywhere.
        """
        return self._workspace.resolve(path).is_open

    def before(self, path: str, limit: int) -> Target:
        """The file before the call is allowed; see `now`.

        Raises:
            ToolError: no file can be there, or it cannot be read.
        """
        return self.now(path, limit) if self.is_open(path) else self._from_outside(path)

    def now(self, path: str, limit: int) -> Target:
        """The file, and what it holds if that is at most `limit` bytes.

        Raises:
            ToolError: no file can be there, or it cannot be read.
        """
        located = self._workspace.resolve(path)
        self._workspace.require(located, "regular", "missing")
        if located.kind == "missing":
            if path.endswith(("/", "/.")):
                raise ToolError(f"{path!r} names a folder. Name the file.")
            return Target(located, _NO_FILE, _NO_FILE)
        with self._workspace.open_read(located) as file:
            status = of_status(located.path.lstat())
            content = file.read(limit + 1)
            if len(content) <= limit:
                return Target(located, status, of_content(content), content, len(content))
            return Target(located, status, of_file(file), None, file.seek(0, 2))

    def write(self, target: Target, content: bytes, *, makes_folders: bool = True, backup: str = "") -> tuple[str, ...]:
        """Put this into the file, if it is still as it was looked at; gives what a person should know besides.

        Raises:
            ToolError: it is not, or cannot be written; nothing was written then.
        """
        seen = target.fingerprint if target.exists else None
        notes = write(target.located, NewFile(content, seen, makes_folders, backup))
        with suppress(OSError):
            self._memory.saw(target.located.path, target.located.path.lstat())
        return notes

    def is_stale(self, target: Target) -> bool:
        """Whether the agent read the file in another state than it is in now."""
        return target.exists and self._memory.is_stale(target.located.path, target.status)

    def _from_outside(self, path: str) -> Target:
        """The place alone, nothing opened."""
        located = self._workspace.resolve(path)
        if located.kind != "regular":
            return Target(located, _NO_FILE, _NO_FILE)
        status = located.path.lstat()
        return Target(located, of_status(status), of_status(status), None, status.st_size)


def shown_notes(notes: tuple[str, ...]) -> list[str]:
    """Notes as lines of a result."""
    return [f"warning: {note}" for note in notes]
