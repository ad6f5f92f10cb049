"""Whether git's own reading commands would run programs that a repository names (security C5).

Read by a parser of our own, stricter than git's: what it does not know for harmless, asks.
"""

import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vibe_jupyter.policy.shell.verdict import Refused

FILE_LIMIT: Final = 256 * 1024
"""Bytes of a config or attributes file."""
INDEX_LIMIT: Final = 64 * 1024 * 1024
"""Bytes of an index."""
_SECTION: Final = re.compile(r'\[([A-Za-z][\w-]*)(?: "[^"\\]*")?\]', re.ASCII)
_ENTRY: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*)(?:\s*=\s*(.*))?")
_HARMLESS: Final[dict[str, frozenset[str] | None]] = {
    "core": frozenset(
        {
            *("repositoryformatversion", "filemode", "logallrefupdates", "ignorecase", "precomposeunicode"),
            *("symlinks", "autocrlf", "eol", "safecrlf", "abbrev", "quotepath", "bare", "longpaths", "protectntfs"),
            *("protecthfs", "compression", "bigfilethreshold", "preloadindex", "trustctime", "checkstat"),
        }
    ),
    "remote": frozenset({"url", "fetch", "pushurl", "push", "tagopt", "prune", "gh-resolved"}),
    "branch": frozenset({"remote", "merge", "rebase", "description", "pushremote", "vscode-merge-base"}),
    "user": frozenset({"name", "email"}),
    "color": None,
    "init": frozenset({"defaultbranch"}),
    "pull": frozenset({"rebase", "ff"}),
    "push": frozenset({"default", "autosetupremote", "followtags"}),
    "fetch": frozenset({"prune", "prunetags"}),
    "rebase": frozenset({"autostash", "autosquash"}),
    "merge": frozenset({"conflictstyle", "ff"}),
    "gc": frozenset({"auto", "autodetach"}),
    "status": frozenset({"short", "branch", "showuntrackedfiles"}),
    "advice": None,
}
"""Section to its keys that name neither a program nor a place; None for all of them."""
_BUILT_IN_DRIVERS: Final = frozenset(
    {
        *("ada", "bash", "bibtex", "cpp", "csharp", "css", "dts", "elixir", "fortran", "fountain", "golang", "html"),
        *("java", "kotlin", "markdown", "matlab", "objc", "pascal", "perl", "php", "python", "ruby", "rust", "scheme"),
        *("tex", "union", "binary", "text"),
    }
)
"""Drivers that are a part of git."""
_HEAD: Final = re.compile(r"(?:ref: refs/\S+|[0-9a-f]{40}|[0-9a-f]{64})\n?")
_ATTRIBUTE: Final = re.compile(r"(?:^|\s)(filter|diff|merge)=(\S+)")
_GITLINK: Final = b"\x00\x00\xe0\x00"
"""The mode of a submodule in an index, where each mode takes four bytes."""
_HEADER: Final = 12
"""Bytes before the first entry of an index."""
_ENTRY_FIXED: Final = 62
"""Bytes of an entry before its name: times, mode and the like, its object, flags. SHA-1 only."""
_MODE_AT: Final = 24
"""Bytes of an entry before its mode."""
_EXTENDED: Final = 0x4000
"""The flag of an entry that has two more bytes."""
_FOREIGN_PARTS: Final = (
    "commondir",
    "modules",
    "config.worktree",
    "objects/info/alternates",
    "hooks/post-index-change",
)
_REAL_PARTS: Final = ("config", "HEAD", "index", "objects", "objects/info", "objects/pack", "refs", "info", "hooks")


def has_repository(root: Path) -> bool:
    """Whether a repository begins in the project folder itself, and git would run nothing of its own choice in it.

    Raises:
        Refused: one begins above it, or this one names programs, places outside, or cannot be judged.
    """
    git = root / ".git"
    if _looks_bare(root):
        raise Refused("repository", "reads a repository without a work tree")
    if not os.path.lexists(git):
        _check_above(root)
        return False
    if git.is_symlink() or not git.is_dir():
        raise Refused("repository", "reads a repository that lies elsewhere (.git is no folder)")
    _check_parts(git)
    if not _is_whole(git):
        raise Refused("repository", "reads no repository here: .git is not whole, so git looks above the project")
    _check_config(git / "config")
    _check_index(git)
    for attributes in (root / ".gitattributes", git / "info" / "attributes"):
        _check_attributes(attributes)
    return True


def _check_above(root: Path) -> None:
    for folder in root.parents:
        if os.path.lexists(folder / ".git") or _looks_bare(folder):
            raise Refused("repository", f"reads the repository of {folder}, which is outside the project")


def _is_whole(git: Path) -> bool:
    return (git / "objects").is_dir() and (git / "refs").is_dir() and bool(_HEAD.fullmatch(_text(git / "HEAD")))


def _looks_bare(folder: Path) -> bool:
    return all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs"))


def _check_parts(git: Path) -> None:
    for name in _FOREIGN_PARTS:
        if os.path.lexists(git / name):
            raise Refused("repository", f"would follow what .git/{name} of this repository says")
    for name in _REAL_PARTS:
        if (git / name).is_symlink():
            raise Refused("repository", f"reads a repository that lies elsewhere (.git/{name} is a link)")
    if os.path.lexists(git.parent / ".gitmodules"):
        raise Refused("repository", "looks into submodules, which have settings of their own")


def _check_config(path: Path) -> None:
    for section, key in _entries(_text(path)):
        keys = _HARMLESS.get(section, frozenset[str]())
        if keys is not None and key not in keys:
            raise Refused("repository", f"this repository sets {section}.{key}, which may make git run a program")


def _entries(text: str) -> Iterator[tuple[str, str]]:
    """Section and key, in lower case, of each line."""
    section = ""
    for line in (raw.strip(" \t\r") for raw in text.split("\n")):
        if not line or line[0] in "#;":
            continue
        if header := _SECTION.fullmatch(line):
            section = header[1].lower()
            continue
        entry = _ENTRY.fullmatch(line)
        value = (entry[2] or "") if entry else ""
        if entry is None or not section or value.endswith("\\") or not line.isprintable():
            raise Refused("repository", f"a line of .git/config cannot be judged: {line[:60]!r}")
        if (section, entry[1].lower()) == ("core", "bare") and value.lower() != "false":
            raise Refused("repository", "reads a repository without a work tree")
        yield section, entry[1].lower()


def _check_index(git: Path) -> None:
    if any(name.startswith("sharedindex") for name in os.listdir(git)):
        raise Refused("repository", "the index of this repository is in several files")
    try:
        with open(git / "index", "rb") as file:
            index = file.read(INDEX_LIMIT + 1)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Refused("repository", f"the index of this repository cannot be read: {error.strerror}") from error
    if len(index) > INDEX_LIMIT:
        raise Refused("repository", "the index of this repository is very large")
    if _GITLINK in index and _has_submodule(index):
        raise Refused("repository", "looks into submodules, which have settings of their own")
    if b"/.gitattributes\0" in index:
        raise Refused("repository", "folders of this repository have attributes of their own, which may name filters")


def _has_submodule(index: bytes) -> bool:
    """Whether an entry has that mode; True also where the entries cannot be told apart."""
    version, count = struct.unpack_from(">II", index, 4) if len(index) > _HEADER else (0, 0)
    position = _HEADER
    while version in (2, 3) and count and position + _ENTRY_FIXED < len(index):
        if index[position + _MODE_AT : position + _MODE_AT + 4] == _GITLINK:
            return True
        (flags,) = struct.unpack_from(">H", index, position + _ENTRY_FIXED - 2)
        end = index.find(b"\0", position + _ENTRY_FIXED + (2 if flags & _EXTENDED else 0))
        if end < 0:
            return True
        position += (end - position) // 8 * 8 + 8
        count -= 1
    return count > 0


def _check_attributes(path: Path) -> None:
    for kind, driver in _ATTRIBUTE.findall(_text(path)):
        if kind == "filter" or driver not in _BUILT_IN_DRIVERS:
            raise Refused("repository", f"{path.name} has {kind}={driver}, which may make git run a program")


def _text(path: Path) -> str:
    """The text of a file that git reads; empty if there is none."""
    try:
        if not path.is_symlink() and not path.exists():
            return ""
        if path.is_symlink() or not path.is_file():
            raise Refused("repository", f"{path.name} of this repository is no regular file")
        with open(path, "rb") as file:
            raw = file.read(FILE_LIMIT + 1)
        if len(raw) > FILE_LIMIT:
            raise Refused("repository", f"{path.name} of this repository is very large")
        return raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused("repository", f"{path.name} of this repository cannot be read") from error
