"""Locate a git repository and inspect it without running git: the programs its settings name, and its index.

Its root may be above the project, as for a notebook in ``repo/notebooks/``. It may be a linked work tree or a
submodule, in which case the folder that contains its data must refer back to it. Anything but plain files and folders
is refused.
"""

import os
import stat
import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.git_config import (
    Setting,
    Trait,
    check_settings,
    expand_path,
    last_value,
    read_settings,
    text_of,
)
from vibe_jupyter.permissions.shell.git_objects import REFS_LIMIT, ObjectStore, bounded

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

SIZE_LIMIT: Final = 1024 * 1024  # bytes of the index, enough for about 10,000 files
_GITLINK: Final = 0o160000  # mode of a submodule
_GITLINK_BYTES: Final = _GITLINK.to_bytes(4, "big")
_FOLDER_BYTES: Final = 0o040000.to_bytes(4, "big")  # mode of a folder that a sparse index collapses
_MODE_AT: Final = 24  # offset of the mode in an entry
_HEADER: Final = 12  # bytes before the first entry
_CHECKSUM: Final = 20  # minimum number of bytes after the last entry
# An entry before its name: four words of times, device, inode, mode, uid, gid, size; object id, flags. SHA-1 only.
_FIXED: Final = struct.Struct(">10I20sH")
_VERSIONS: Final = (2, 3, 4)
_COMPRESSED: Final = 4  # version with prefix-compressed names
_EXTENDED: Final = 0x4000  # flag of an entry with two more bytes of flags
_STAGE: Final = 0x3000  # flags of an entry of an unfinished merge
_INTENT_TO_ADD: Final = 0x2000  # extended flag of an entry without content
_LONGEST_NUMBER: Final = 8  # bytes of the number before a compressed name
# A step of a path that leads elsewhere. git refuses to add such names, but not to read them.
_ODD_STEP: Final = lazy_pattern(r"(?:^|[/\0])\.{0,2}(?:[/\0]|$)")
_PADDING: Final = 8  # entries are padded to a multiple of this many bytes


class TrackedFile(NamedTuple):
    """An index entry, with the file metadata recorded in it."""

    name: str
    mode: int
    oid: str
    plain: bool  # False if the entry belongs to an unfinished merge or was added with `--intent-to-add`
    times: tuple[int, int, int, int]  # ctime and mtime as seconds and nanoseconds, each truncated to 32 bits
    inode: int
    size: int

    def is_as_listed(self, root: Path, written: int) -> bool:
        """Return whether the file is unchanged since it was staged, so that git shows no difference.

        Args:
            root: The work tree.
            written: The index's mtime in nanoseconds. Files changed later may have the same metadata ("racy git").
        """
        try:
            found = os.lstat(root / self.name)
        except OSError:
            return False
        if found.st_mtime_ns >= written or found.st_ctime_ns >= written:
            return False
        times = (*divmod(found.st_ctime_ns, 10**9), *divmod(found.st_mtime_ns, 10**9))
        return (
            self.plain
            and self.size == found.st_size & 0xFFFFFFFF
            and self.inode == found.st_ino & 0xFFFFFFFF
            and self.times == tuple(number & 0xFFFFFFFF for number in times)
        )


class Index(NamedTuple):
    """A parsed index."""

    raw: bytes = b""
    # Offset of each name's entry, the last one in case of an unfinished merge.
    places: Mapping[str, int] = MappingProxyType({})
    written: int = 0  # mtime in nanoseconds
    trees: Mapping[str, str] = MappingProxyType({})  # cached tree ids of unchanged folders, with "" for the root

    def tracked(self, name: str) -> TrackedFile | None:
        """Return the entry of a file, or None if it isn't tracked."""
        if (place := self.places.get(name)) is None:
            return None
        fields = _FIXED.unpack_from(self.raw, place)
        extended = self.raw[place + _FIXED.size] << 8 if fields[11] & _EXTENDED else 0
        plain = not (fields[11] & _STAGE or extended & _INTENT_TO_ADD)
        return TrackedFile(name, fields[6], fields[10].hex(), plain, fields[:4], fields[5], fields[9])

    def submodules(self) -> list[str]:
        """Return the paths of submodules."""
        if _GITLINK_BYTES not in self.raw:
            return []
        at = _MODE_AT
        return [name for name, place in self.places.items() if self.raw[place + at : place + at + 4] == _GITLINK_BYTES]


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

    @cached_property
    def index(self) -> Index:
        """The parsed index.

        Raises:
            UnknownCommand: It can't be parsed.
        """
        if any(name.startswith("sharedindex") for name in os.listdir(self.git)):
            raise UnknownCommand("repository", "the index of this repository is in several files")
        return read_index(self.git)

    @cached_property
    def objects(self) -> ObjectStore:
        return ObjectStore(self.git, self.common)

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
            for number, name in enumerate(self.index.submodules()):
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


def read_index(git: Path) -> Index:
    """Read the index of a repository. Empty if there is none yet.

    Raises:
        UnknownCommand: The index can't be read, has an unknown format, or is too large.
    """
    try:
        with open(git / "index", "rb") as file:
            written = os.fstat(file.fileno()).st_mtime_ns
            raw = file.read(SIZE_LIMIT + 1)
    except FileNotFoundError:
        return Index()
    except OSError as error:
        raise UnknownCommand("repository", f"the index of this repository cannot be read: {error.strerror}") from error
    if len(raw) > SIZE_LIMIT:
        raise UnknownCommand("repository", "the index of this repository is too large to be looked through in a moment")
    try:
        return _parsed(raw, written)
    except (struct.error, IndexError, ValueError) as error:
        raise UnknownCommand("repository", "the index of this repository is of a form that cannot be read") from error


def _parsed(raw: bytes, written: int) -> Index:
    magic, version, count = struct.unpack_from(">4sII", raw, 0)
    if magic != b"DIRC" or version not in _VERSIONS or len(raw) < _HEADER + _CHECKSUM:
        raise ValueError("no index")
    places: dict[str, int] = {}
    position, before = _HEADER, b""
    for _ in range(count):
        start = position + _FIXED.size
        mode, flags = raw[position + _MODE_AT : position + _MODE_AT + 4], raw[start - 2]
        if mode == _FOLDER_BYTES:
            raise ValueError("a sparse index")
        start += 2 if flags & _EXTENDED >> 8 else 0
        start, kept = _kept_prefix(raw, start, before) if version == _COMPRESSED else (start, b"")
        end = raw.index(b"\0", start)
        before = kept + raw[start:end]
        places[before.decode(errors="replace")] = position
        position = end + 1 if version == _COMPRESSED else position + (end - position) // _PADDING * _PADDING + _PADDING
    if places and _ODD_STEP.search("\0".join(places)):
        raise ValueError("a name that leads elsewhere")
    return Index(raw, places, written, dict(_cached_trees(raw, position)))


def _kept_prefix(raw: bytes, start: int, before: bytes) -> tuple[int, bytes]:
    """Decompress a name's prefix. Returns the offset of its suffix, and the prefix shared with the previous name."""
    last = start + _LONGEST_NUMBER - 1
    dropped = raw[start] & 0x7F
    while raw[start] & 0x80 and start < last:
        start += 1
        dropped = ((dropped + 1) << 7) | (raw[start] & 0x7F)
    if dropped > len(before):
        raise ValueError("no such name")
    return start + 1, before[: len(before) - dropped]


def _cached_trees(raw: bytes, position: int) -> Iterator[tuple[str, str]]:
    """Yield the cached trees of folders without staged changes."""
    while position + 8 <= len(raw) - _CHECKSUM:
        signature, size = struct.unpack_from(">4sI", raw, position)
        if signature == b"link":
            raise ValueError("an index in several files")
        if signature == b"TREE":
            yield from _trees(raw[position + 8 : position + 8 + size])
        elif signature[:1].islower():
            raise ValueError("an extension that must be known")
        position += 8 + size


def _trees(raw: bytes) -> Iterator[tuple[str, str]]:
    position = 0
    above: list[tuple[str, int]] = []  # unfinished parent folders, with the number of subfolders still to come
    while position < len(raw):
        nul = raw.index(b"\0", position)
        line = raw.index(b"\n", nul)
        count, folders = (int(number) for number in raw[nul + 1 : line].split(b" "))
        while above and not above[-1][1]:
            above.pop()
        own = raw[position:nul].decode(errors="replace")
        name = f"{above[-1][0]}{own}/" if above and own else ""
        if above:
            above[-1] = (above[-1][0], above[-1][1] - 1)
        above.append((name, folders))
        position = line + 1
        if count >= 0:
            yield name, raw[position : position + 20].hex()
            position += 20
