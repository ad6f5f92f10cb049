"""Locate a git repository and inspect it without running git: the programs its settings name, and its submodules.

Its root may be above the project, as for a notebook in ``repo/notebooks/``. It may be a linked work tree or a
submodule, in which case the folder that contains its data must refer back to it. Anything but plain files and folders
is refused.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.git_config import (
    Setting,
    Trait,
    bounded,
    check_settings,
    expand_path,
    last_value,
    read_settings,
    text_of,
)

PARTS_LIMIT: Final = 3_000  # entries of .git to check, without the objects
SUBMODULES_LIMIT: Final = 20  # submodules checked per decision
_NESTED_LIMIT: Final = 1  # nesting depth of submodules
# Folders of .git in which git may read any entry.
_READ_FOLDERS: Final = (
    *("refs", "logs", "info", "rebase-merge", "rebase-apply", "sequencer", "branches", "remotes", "reftable"),
    *("objects/info", "objects/pack"),
)
_FOREIGN_PARTS: Final = ("objects/info/alternates", "objects/info/http-alternates", "info/grafts", "refs/replace")
# Sockets created by git itself, and used only if a file system monitor is set.
_SOCKETS: Final = ("fsmonitor--daemon.ipc",)
_HOOK: Final = "post-index-change"  # the only hook that a read-only command may start
# Files of a work tree that git reads on its own.
_BESIDE: Final = (".gitattributes", ".gitignore", ".gitmodules", ".mailmap")

REFS_LIMIT: Final = 1024 * 1024  # bytes of packed-refs
INDEX_LIMIT: Final = 16 * 1024 * 1024  # bytes of the index
_SUBMODULE: Final = b"\0\0\xe0\0"  # mode of a submodule in the index
_COMPRESSED: Final = b"\0\0\0\4"  # version with prefix-compressed names
_FROM_MODE: Final = 36  # bytes from the mode of an entry to its flags, which the name follows
_EXTENDED: Final = 0x40  # flag of an entry with two more bytes of flags


class Repository:
    """A git repository with a work tree."""

    def __init__(self, root: Path, git: Path, common: Path, settings: tuple[Setting, ...]) -> None:
        """
        Args:
            root: The top of its work tree, with links resolved.
            git: Its folder with HEAD.
            common: Its folder with objects and settings, which differs from `git` in a linked work tree.
            settings: All settings that apply in it.
        """
        self.root = root
        self.git = git
        self.common = common
        self.settings = settings

    def check(self, traits: frozenset[Trait], depth: int = 0) -> None:
        """Raise if a command with these traits might run a program named by the repository.

        Args:
            traits: What the command does.
            depth: The number of enclosing repositories.

        Raises:
            UnknownCommand: It might, or that is unknown.
        """
        check_settings(self.settings, traits)
        if "worktree" in traits:
            for number, name in enumerate(_submodules(self.git)):
                if number + depth == SUBMODULES_LIMIT:
                    raise UnknownCommand("repository", f"this repository has more than {SUBMODULES_LIMIT} submodules")
                _check_submodule(self.root / name, traits, depth)


def find_repository(start: Path, home: str) -> Repository | None:
    """Find the repository of a folder as git does, or return None.

    Raises:
        UnknownCommand: The repository can't be judged, or belongs to the home folder or above.
    """
    for folder in (start, *start.parents):
        if _looks_bare(folder):
            raise UnknownCommand("repository", "reads a repository without a work tree")
        if os.path.lexists(folder / ".git"):
            if folder != start and Path(home).is_relative_to(folder):
                raise UnknownCommand("repository", f"reads the repository of {folder}, which is far above the project")
            return _repository(folder, home)
    return None


def _looks_bare(folder: Path) -> bool:
    return all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs"))


def _repository(root: Path, home: str) -> Repository:
    git = common = root / ".git"
    linked = not stat.S_ISDIR(os.lstat(git).st_mode)
    if linked:
        git, common = _elsewhere(root)
    elif os.path.lexists(git / "commondir"):
        raise UnknownCommand("repository", "would follow what .git/commondir of this repository says")
    seen = _check_parts(git, 0)
    if common != git:
        _check_parts(common, seen)
    if not _is_whole(git, common):
        raise UnknownCommand("repository", "reads no repository here: .git is not whole, so git looks above it")
    settings = read_settings(common / "config", home)
    if (last_value(settings, "extensions.worktreeconfig") or "false").lower() != "false":
        settings += read_settings(git / "config.worktree", home)
    found = Repository(root, git, common, settings)
    _check_work_tree(found, linked=linked)
    _check_hook(found, home)
    for name in _BESIDE:
        _check_plain(root / name)
    return found


def _elsewhere(root: Path) -> tuple[Path, Path]:
    """Resolve a ``.git`` file. Returns the folder with HEAD and the folder with the objects."""
    text = text_of(root / ".git").strip()
    if not text.startswith("gitdir: "):
        raise UnknownCommand("repository", "reads a repository that lies elsewhere (.git is not a folder)")
    git = Path(os.path.realpath(root / text.removeprefix("gitdir: ")))
    if not git.is_dir():
        raise UnknownCommand("repository", "reads a repository that lies elsewhere and is not there")
    if not os.path.lexists(git / "commondir"):
        return git, git
    common = Path(os.path.realpath(git / text_of(git / "commondir").strip()))
    back = Path(os.path.realpath(git / text_of(git / "gitdir").strip()))
    if back != root / ".git" or git.parent != common / "worktrees":
        raise UnknownCommand("repository", "reads a repository that lies elsewhere and does not know this folder")
    return git, common


def _check_work_tree(repository: Repository, *, linked: bool) -> None:
    """Refuse a work tree set elsewhere. A submodule's settings must name this one."""
    place = last_value(repository.settings, "core.worktree")
    if place is None and (not linked or repository.git != repository.common):
        return
    if place is None or Path(os.path.realpath(repository.common / place)) != repository.root:
        raise UnknownCommand("repository", "reads a repository whose work tree is elsewhere")


def _check_hook(repository: Repository, home: str) -> None:
    folder = last_value(repository.settings, "core.hookspath")
    place = repository.common / "hooks"
    if folder is not None:
        place = repository.root / expand_path(folder, home)
    if os.path.lexists(place / _HOOK):
        raise UnknownCommand("repository", f"this repository has the hook {_HOOK}, which git may run")


def _check_parts(git: Path, seen: int) -> int:
    """Check that git reads only plain files and folders: a link leads elsewhere, and reading a pipe blocks."""
    for name in _FOREIGN_PARTS:
        if os.path.lexists(git / name):
            raise UnknownCommand("repository", f"would follow what .git/{name} of this repository says")
    for entry in _config_entries(git):
        seen += 1
        _check_entry(entry)
    if b" refs/replace/" in bounded(git / "packed-refs", REFS_LIMIT):
        raise UnknownCommand("repository", "this repository has objects that stand for others")
    for folder in _READ_FOLDERS:
        for entry in _below(git / folder):
            seen += 1
            if seen > PARTS_LIMIT:
                raise UnknownCommand("repository", "this repository has very many references")
            _check_entry(entry)
    for entry in _config_entries(git / "objects"):
        _check_entry(entry)
    return seen


def _check_entry(entry: os.DirEntry[str]) -> None:
    plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
    if not plain and entry.name not in _SOCKETS:
        raise UnknownCommand("repository", f"{entry.name} in .git of this repository is a link, a device or a pipe")


def _check_plain(path: Path) -> None:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise UnknownCommand("repository", f"{path.name} of this repository is not a regular file")


def _below(top: Path) -> Iterator[os.DirEntry[str]]:
    waiting = [str(top)]
    while waiting:
        for entry in _config_entries(waiting.pop()):
            yield entry
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)


def _config_entries(folder: "Path | str") -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except FileNotFoundError:
        return
    except OSError as error:
        raise UnknownCommand("repository", f"a folder of this repository cannot be listed: {error.strerror}") from error


def _is_whole(git: Path, common: Path) -> bool:
    head = text_of(git / "HEAD").removesuffix("\n")
    named = head.startswith("ref: refs/") and head.isprintable() and " " not in head[5:]
    detached = len(head) in (40, 64) and set(head) <= set("0123456789abcdef")
    return (common / "objects").is_dir() and (common / "refs").is_dir() and (named or detached)


def _check_submodule(place: Path, traits: frozenset[Trait], depth: int) -> None:
    """Check an initialized submodule: it has its own settings, and git descends into it."""
    if not os.path.lexists(place / ".git"):
        return
    if depth == _NESTED_LIMIT or Path(os.path.realpath(place)) != place:
        raise UnknownCommand("repository", f"{place.name} is a submodule behind a link, or deep in others")
    _repository(place, os.path.expanduser("~")).check(traits, depth + 1)


def _submodules(git: Path) -> list[str]:
    """Return the paths that the index lists as submodules. Other bytes may look like one, which does no harm.

    Raises:
        UnknownCommand: The index can't be read, or its names can't be found this simply.
    """
    raw = bounded(git / "index", INDEX_LIMIT)
    places = [match.start() for match in re.finditer(re.escape(_SUBMODULE), raw)]
    if any(name.startswith("sharedindex") for name in os.listdir(git)) or (places and raw[4:8] == _COMPRESSED):
        raise UnknownCommand("repository", "the index of this repository is of a form in which submodules are hidden")
    names: list[str] = []
    for place in places:
        flags = place + _FROM_MODE
        start = flags + (4 if raw[flags : flags + 1] and raw[flags] & _EXTENDED else 2)
        names.append(raw[start : max(start, raw.find(b"\0", start))].decode(errors="replace"))
    return names
