"""A git repository, read without git: whether it names programs to run, and what its index lists.

It may begin above the project, as for a notebook in ``repo/notebooks/``; it may be a linked work tree or a submodule,
where the folder that holds it names this one in return. Nothing of it is believed that is no plain file or folder.
"""

import os
import stat
import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.git_config import Setting, Trait, check_settings, last_value, read_settings, text_of
from vibe_jupyter.permissions.shell.git_objects import REFS_LIMIT, ObjectStore, bounded

PARTS_LIMIT: Final = 3_000
"""Entries of ``.git`` that are looked at, without its objects."""
SUBMODULES_LIMIT: Final = 20
"""Submodules that are looked at for one decision."""
_NESTED_LIMIT: Final = 1
"""Submodules that may lie in one another."""
_READ_FOLDERS: Final = (
    *("refs", "logs", "info", "rebase-merge", "rebase-apply", "sequencer", "branches", "remotes", "reftable"),
    *("objects/info", "objects/pack"),
)
"""Folders of ``.git`` whose every entry git may read."""
_FOREIGN_PARTS: Final = ("objects/info/alternates", "objects/info/http-alternates", "info/grafts", "refs/replace")
_SOCKETS: Final = ("fsmonitor--daemon.ipc",)
"""Pipes that git makes itself, and uses only where a watcher is set."""
_HOOK: Final = "post-index-change"
"""The one hook that a reading command may start."""
_BESIDE: Final = (".gitattributes", ".gitignore", ".gitmodules", ".mailmap")
"""Files of a work tree that git reads by itself."""

SIZE_LIMIT: Final = 1024 * 1024
"""Bytes of an index that is looked through: about 10,000 files."""
_GITLINK: Final = 0o160000
"""The mode of a submodule."""
_GITLINK_BYTES: Final = _GITLINK.to_bytes(4, "big")
_FOLDER_BYTES: Final = 0o040000.to_bytes(4, "big")
"""The mode of a folder that a sparse index holds as a whole."""
_MODE_AT: Final = 24
"""Bytes of an entry before its mode."""
_HEADER: Final = 12
"""Bytes before the first entry."""
_CHECKSUM: Final = 20
"""Bytes behind the last entry, at least."""
_FIXED: Final = struct.Struct(">10I20sH")
"""An entry before its name: four of times, device, inode, mode, two of owners, size; its object, flags. SHA-1 only."""
_VERSIONS: Final = (2, 3, 4)
_COMPRESSED: Final = 4
"""The version in which a name says how much it shares with the one before it."""
_EXTENDED: Final = 0x4000
"""The flag of an entry that has two more bytes."""
_STAGE: Final = 0x3000
"""The flags of an entry of a merge that is not done."""
_INTENT_TO_ADD: Final = 0x2000
"""The extended flag of an entry without content."""
_LONGEST_NUMBER: Final = 8
"""Bytes of the number before a compressed name."""
_PADDING: Final = 8
"""Entries are filled up to a multiple of so many bytes."""


class TrackedFile(NamedTuple):
    """A file the index lists, with what it knows of it."""

    name: str
    mode: int
    oid: str
    plain: bool
    """Whether it is neither part of a merge nor only announced."""
    times: tuple[int, int, int, int]
    """When its inode and when its content was changed: seconds and nanoseconds, cut to 32 bits."""
    inode: int
    size: int

    def is_as_listed(self, root: Path, written: int) -> bool:
        """Whether the file is untouched, so that a comparison with the index shows nothing of it.

        Args:
            root: the work tree.
            written: when the index was written, in nanoseconds: what was changed later may look the same.
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
    """What is staged."""

    raw: bytes = b""
    places: Mapping[str, int] = MappingProxyType({})
    """Where the entry of each name begins; the last one where a merge that is not done left several."""
    written: int = 0
    """Nanoseconds."""
    trees: Mapping[str, str] = MappingProxyType({})
    """Folders of which the index says that they are as in this tree; the whole is called ``""``."""

    def tracked(self, name: str) -> TrackedFile | None:
        """What it knows of a file; None if it does not list it."""
        if (place := self.places.get(name)) is None:
            return None
        fields = _FIXED.unpack_from(self.raw, place)
        extended = self.raw[place + _FIXED.size] << 8 if fields[11] & _EXTENDED else 0
        plain = not (fields[11] & _STAGE or extended & _INTENT_TO_ADD)
        return TrackedFile(name, fields[6], fields[10].hex(), plain, fields[:4], fields[5], fields[9])

    def submodules(self) -> list[str]:
        """The names of other repositories it lists."""
        if _GITLINK_BYTES not in self.raw:
            return []
        at = _MODE_AT
        return [name for name, place in self.places.items() if self.raw[place + at : place + at + 4] == _GITLINK_BYTES]


class Repository:
    """A repository in which git finds itself."""

    def __init__(self, root: Path, git: Path, common: Path, settings: tuple[Setting, ...]) -> None:
        """
        Args:
            root: the top of its work tree, every link followed.
            git: its folder with HEAD.
            common: its folder with the objects and settings: another one in a linked work tree.
            settings: all that hold in it.
        """
        self.root = root
        self.git = git
        self.common = common
        self.settings = settings

    @cached_property
    def index(self) -> Index:
        """What is staged.

        Raises:
            Refused: that cannot be told.
        """
        if any(name.startswith("sharedindex") for name in os.listdir(self.git)):
            raise UnknownCommand("repository", "the index of this repository is in several files")
        return read_index(self.git)

    @cached_property
    def objects(self) -> ObjectStore:
        """Its commits and trees."""
        return ObjectStore(self.git, self.common)

    def check(self, traits: frozenset[Trait], depth: int = 0) -> None:
        """Refuse what would make a command with these traits run a program that is named here.

        Args:
            traits: what the command does.
            depth: how many repositories it lies in.

        Raises:
            Refused: it would, or that cannot be told.
        """
        check_settings(self.settings, traits)
        if "worktree" in traits:
            for number, name in enumerate(self.index.submodules()):
                if number + depth == SUBMODULES_LIMIT:
                    raise UnknownCommand("repository", f"this repository has more than {SUBMODULES_LIMIT} submodules")
                _check_submodule(self.root / name, traits, depth)


def find_repository(start: Path, home: str) -> Repository | None:
    """The repository that git finds from a folder; None if there is none.

    Raises:
        Refused: it is none that can be judged, or is that of the whole home folder.
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
    """Where a linked work tree or a submodule has its folder, and where the objects are."""
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
    """Its settings may name another work tree; a submodule must name this one."""
    place = last_value(repository.settings, "core.worktree")
    if place is None and (not linked or repository.git != repository.common):
        return
    if place is None or Path(os.path.realpath(repository.common / place)) != repository.root:
        raise UnknownCommand("repository", "reads a repository whose work tree is elsewhere")


def _check_hook(repository: Repository, home: str) -> None:
    folder = last_value(repository.settings, "core.hookspath")
    place = repository.common / "hooks"
    if folder is not None:
        place = repository.root / (f"{home}{folder[1:]}" if folder.startswith("~/") else folder)
    if os.path.lexists(place / _HOOK):
        raise UnknownCommand("repository", f"this repository has the hook {_HOOK}, which git may run")


def _check_parts(git: Path, seen: int) -> int:
    """Everything git may read must be a plain file or folder: a link leads elsewhere, a pipe never ends."""
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
    """A submodule that is there has settings of its own, and git looks into it."""
    if not os.path.lexists(place / ".git"):
        return
    if depth == _NESTED_LIMIT or Path(os.path.realpath(place)) != place:
        raise UnknownCommand("repository", f"{place.name} is a submodule behind a link, or deep in others")
    _repository(place, os.path.expanduser("~")).check(traits, depth + 1)


def read_index(git: Path) -> Index:
    """The index of a repository; an empty one if there is none yet.

    Raises:
        Refused: it cannot be read, is of an unknown form, or is too large to be looked through in a moment.
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
    return Index(raw, places, written, dict(_cached_trees(raw, position)))


def _kept_prefix(raw: bytes, start: int, before: bytes) -> tuple[int, bytes]:
    """Where the rest of a compressed name begins, and what it shares with the name before it."""
    last = start + _LONGEST_NUMBER - 1
    dropped = raw[start] & 0x7F
    while raw[start] & 0x80 and start < last:
        start += 1
        dropped = ((dropped + 1) << 7) | (raw[start] & 0x7F)
    if dropped > len(before):
        raise ValueError("no such name")
    return start + 1, before[: len(before) - dropped]


def _cached_trees(raw: bytes, position: int) -> Iterator[tuple[str, str]]:
    """The trees of which the index says that nothing in them was changed."""
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
    above: list[tuple[str, int]] = []
    """The folders that are not done, and how many folders each still holds."""
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
