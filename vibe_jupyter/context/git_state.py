"""Git state of the folder at the start of a conversation, as text for the prompt.

Branches are read from files. Git itself runs only to compare files or read objects, and only if nothing in the
repository could make it execute a program (`vibe_jupyter.permissions.shell.git_config`).
"""

import asyncio
import contextlib
import os
import shutil
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.git_config import Trait, bounded, check_settings
from vibe_jupyter.permissions.shell.git_environment import git_environment
from vibe_jupyter.permissions.shell.git_repository import REFS_LIMIT, Repository, find_repository
from vibe_jupyter.tools.child_environment import child_environment

T = TypeVar("T")

NOT_ASKED: Final = "not asked, because git could run a program that this repository names"
SUBJECT_LIMIT: Final = 100  # characters of a commit's subject
_MAIN: Final = ("main", "master")
_SETTINGS: Final = ("-c", f"core.hooksPath={os.devnull}", "-c", "log.showSignature=false")
_STATUS: Final = ("status", "--porcelain", "--ignore-submodules=all")
_LOG: Final = ("log", "--no-color", "--no-decorate", "--no-notes", "--no-patch", "--format=%h %s")
_CHUNK: Final = 65_536  # bytes read from a pipe at a time
_LOG_LIMIT: Final = 262_144  # bytes of log output that are read
_HEAD_LIMIT: Final = 4_096  # bytes of a file that names a branch


class _UnansweredError(Exception):
    """Git wasn't run, failed or timed out. The message says which."""


class GitState(NamedTuple):
    """Branches, status and latest commits of a repository."""

    branch: str
    main_branch: str  # "" if no branch has one of the usual names
    status: str  # "clean", the number of changed and new files, or why it is unknown
    commits: Sequence[str]  # abbreviated hash and subject of each

    @property
    def text(self) -> str:
        """The state as lines of text."""
        lines = [f"Current branch: {self.branch}"]
        if self.main_branch:
            lines.append(f"Main branch: {self.main_branch}")
        lines.append(f"Status: {self.status}")
        if self.commits:
            lines.append("Recent commits:")
        return "\n".join([*lines, *self.commits])


async def read_git_state(folder: Path, commits: int, seconds: float) -> str:
    """Return the prompt's text about the folder's repository, or "" without one.

    Args:
        folder: The folder, with all links resolved.
        commits: Number of latest commits to list.
        seconds: Time limit of each git command.
    """
    try:
        repository = await asyncio.to_thread(_find_repository, folder)
    except (UnknownCommand, OSError):
        return f"Status: {NOT_ASKED}"
    if repository is None:
        return ""
    asking = _Asking(folder, repository, seconds)
    status, latest = await asyncio.gather(asking.status(), asking.commits(commits))
    branch, main_branch = _branches(repository)
    return GitState(branch, main_branch, status, latest).text


def _find_repository(folder: Path) -> Repository | None:
    return find_repository(folder, os.path.expanduser("~"))


def _branches(repository: Repository) -> tuple[str, str]:
    """Return the current and the main branch: the remote's default branch, else one with a usual name."""
    try:
        head = _one_line(repository.git / "HEAD")
        named = head.removeprefix("ref: refs/heads/")
        branch = f"none, detached at {head[:7]}" if named == head else named
        remote = "refs/remotes/origin"
        main = _one_line(repository.common / remote / "HEAD").removeprefix(f"ref: {remote}/")
        present = (name for name in _MAIN if _has_branch(repository, name))
        return branch, main or next(present, "")
    except UnknownCommand:
        return "unknown", ""


def _has_branch(repository: Repository, name: str) -> bool:
    packed = bounded(repository.common / "packed-refs", REFS_LIMIT)
    return (repository.common / "refs/heads" / name).is_file() or f" refs/heads/{name}\n".encode() in packed


def _one_line(path: Path) -> str:
    return _printable(bounded(path, _HEAD_LIMIT).decode("utf-8", "replace").strip())


class _Asking:
    """Runner of git commands in one repository."""

    def __init__(self, folder: Path, repository: Repository, seconds: float) -> None:
        self._folder = folder
        self._repository = repository
        self._seconds = seconds

    async def status(self) -> str:
        """Return the number of changes in words, or why it is unknown."""
        try:
            count = await self._ask(_STATUS, "worktree", _count_lines)
        except _UnansweredError as error:
            return str(error)
        return f"{count:,} change{'s' * (count != 1)}" if count else "clean"

    async def commits(self, most: int) -> Sequence[str]:
        """Return the latest commits, newest first, or nothing if git failed."""
        if not most:
            return ()
        try:
            said = await self._ask((*_LOG, f"--max-count={most}"), "log", _read_text)
        except _UnansweredError:
            return ()
        return [_printable(line)[:SUBJECT_LIMIT] for line in said.split("\n") if line]

    async def _ask(self, words: Sequence[str], trait: Trait, read: Callable[[Process], Awaitable[T]]) -> T:
        process = await self._start(words, trait)
        try:
            async with asyncio.timeout(self._seconds):
                answer = await read(process)
                if await process.wait():
                    raise _UnansweredError("unknown, git failed")
                return answer
        except TimeoutError:
            raise _UnansweredError(f"unknown, git took longer than {self._seconds:g} s") from None
        finally:
            await _end_process(process)

    async def _start(self, words: Sequence[str], trait: Trait) -> Process:
        try:
            check_settings(self._repository.settings, frozenset([trait]))
        except UnknownCommand:
            raise _UnansweredError(NOT_ASKED) from None
        git = shutil.which("git")
        if git is None or not os.path.isabs(git) or Path(git).is_relative_to(self._repository.root):
            raise _UnansweredError("unknown, there is no git")
        environment = {**child_environment(os.environ), **git_environment()}
        try:
            return await asyncio.create_subprocess_exec(
                *(git, *_SETTINGS, *words),
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=DEVNULL,
                cwd=self._folder,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise _UnansweredError(f"unknown, git did not start: {error.strerror}") from error


async def _count_lines(process: Process) -> int:
    assert process.stdout is not None
    count = 0
    while chunk := await process.stdout.read(_CHUNK):
        count += chunk.count(b"\n")
    return count


async def _read_text(process: Process) -> str:
    assert process.stdout is not None
    raw = b""
    while chunk := await process.stdout.read(_CHUNK):
        raw += chunk[: _LOG_LIMIT - len(raw)]
    return raw.decode("utf-8", "replace")


async def _end_process(process: Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)  # it was started in its own process group
        else:
            process.kill()
    await process.wait()


def _printable(text: str) -> str:
    """Replace unprintable characters, such as newlines and terminal escapes."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
