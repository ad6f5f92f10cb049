"""Whether git's own reading commands would run programs that a repository names (security C5).

Read by a parser of our own, stricter than git's: what it does not know for harmless, asks.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibe_jupyter.policy.shell.git_index import Tracked, has_submodule, read_index, tracked_secrets
from vibe_jupyter.policy.shell.verdict import Refused

FILE_LIMIT: Final = 256 * 1024
"""Bytes of a config or attributes file."""
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
_FOREIGN_PARTS: Final = (
    "commondir",
    "modules",
    "config.worktree",
    "objects/info/alternates",
    "hooks/post-index-change",
)
_REAL_PARTS: Final = ("config", "HEAD", "index", "objects", "objects/info", "objects/pack", "refs", "info", "hooks")


@dataclass(frozen=True)
class Repository:
    """A repository that names nothing to run."""

    index: bytes

    @property
    def secrets(self) -> tuple[Tracked, ...]:
        """Files it keeps that usually hold passwords or keys.

        Raises:
            Refused: that cannot be told.
        """
        return tracked_secrets(self.index)


def harmless_repository(root: Path) -> Repository | None:
    """The repository that begins in the project folder itself; None if git finds none here.

    Raises:
        Refused: one begins above it, or this one names programs, places outside, or cannot be judged.
    """
    git = root / ".git"
    if _looks_bare(root):
        raise Refused("repository", "reads a repository without a work tree")
    if not os.path.lexists(git):
        _check_above(root)
        return None
    if git.is_symlink() or not git.is_dir():
        raise Refused("repository", "reads a repository that lies elsewhere (.git is no folder)")
    _check_parts(git)
    if not _is_whole(git):
        raise Refused("repository", "reads no repository here: .git is not whole, so git looks above the project")
    _check_config(git / "config")
    index = read_index(git)
    _check_index(git, index)
    for attributes in (root / ".gitattributes", git / "info" / "attributes"):
        _check_attributes(attributes)
    return Repository(index)


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


def _check_index(git: Path, index: bytes) -> None:
    if any(name.startswith("sharedindex") for name in os.listdir(git)):
        raise Refused("repository", "the index of this repository is in several files")
    if has_submodule(index):
        raise Refused("repository", "looks into submodules, which have settings of their own")
    if b"/.gitattributes\0" in index:
        raise Refused("repository", "folders of this repository have attributes of their own, which may name filters")


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
