"""Check a repository's git settings for keys that make git run a program, hang or leave the repository.

Which commands a key affects is described in docs/permissions.md. The parser is stricter than git's: a line that it
doesn't know is refused.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.permissions.shell import UnknownCommand

# What a git command does: compares files with the work tree, shows changes, lets external programs show them, lists
# commits, searches with patterns, shows the authors of lines, addresses of remotes, or stashed changes.
Trait = Literal["worktree", "patch", "external", "log", "search", "blame", "remote", "stash"]

FILE_LIMIT: Final = 256 * 1024  # bytes of a configuration file
INCLUDES_LIMIT: Final = 5  # nesting depth of included files
_SECTION: Final = lazy_pattern(r'\[([A-Za-z][\w.-]*)(?: "((?:[^"\\]|\\["\\])*)")?\][ \t]*', re.ASCII)
_ENTRY: Final = lazy_pattern(r"([A-Za-z][A-Za-z0-9-]*)(?:\s*=\s*(.*))?")
_ESCAPES: Final = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}
_FALSE: Final = frozenset({"false", "no", "off", "0", ""})
_BOOLEAN: Final = _FALSE | {"true", "yes", "on", "1"}
# Commands that git-lfs configures for itself.
_LFS: Final = frozenset(
    {
        *("git-lfs clean -- %f", "git-lfs filter-process", "git-lfs clean %f", "git lfs clean %f"),
        *("git lfs clean -- %f", "git lfs filter-process", "git-lfs filter-process --skip"),
    }
)
# Keys that affect commands with these traits, unless switched off.
_RUNS: Final[dict[str, frozenset[Trait]]] = {
    "filter.clean": frozenset({"worktree"}),
    "filter.process": frozenset({"worktree"}),
    "diff.external": frozenset({"external"}),
    "diff.command": frozenset({"external"}),
    "diff.textconv": frozenset({"patch", "blame", "search"}),
    "diff.cachetextconv": frozenset({"patch", "blame", "search"}),
    "diff.orderfile": frozenset({"patch", "log", "worktree"}),
    "diff.submodule": frozenset({"patch", "log", "worktree"}),
    "status.submodulesummary": frozenset({"worktree"}),
    "log.showsignature": frozenset({"log"}),
    "log.follow": frozenset({"patch"}),
    "mailmap.file": frozenset({"log", "blame"}),
    "mailmap.blob": frozenset({"log", "blame"}),
    "blame.ignorerevsfile": frozenset({"blame"}),
    "submodule.recurse": frozenset({"search"}),
    "grep.patterntype": frozenset({"search", "log"}),
    "stash.showpatch": frozenset({"stash"}),
    "stash.showincludeuntracked": frozenset({"stash"}),
}
# Keys that affect every command, unless switched off.
_ALWAYS: Final = frozenset(
    {
        *("core.fsmonitor", "core.usebuiltinfsmonitor", "core.pager", "core.alternaterefscommand", "core.gvfs"),
        *("core.virtualfilesystem", "core.splitindex", "core.attributesfile", "core.excludesfile", "core.gitproxy"),
        *("remote.promisor", "remote.partialclonefilter", "extensions.partialclone", "extensions.refstorage"),
        *("extensions.compatobjectformat", "core.refstorage", "index.sparse"),
    }
)
# Sections in which every key affects every command, unless its value is a boolean.
_SECTIONS: Final = ("pager", "trace2")
_FILTERS: Final = ("filter.clean", "filter.process")


class Setting(NamedTuple):
    """A line of a configuration file."""

    section: str  # lower case
    part: str  # subsection, which is in quotes
    name: str  # lower case
    value: str

    @property
    def key(self) -> str:
        """Key without the subsection."""
        return f"{self.section}.{self.name}"

    @property
    def is_off(self) -> bool:
        """True if the value is a false boolean."""
        return self.value.lower() in _FALSE

    @property
    def shown(self) -> str:
        """Full name for display."""
        return f"{self.section}.{self.part}.{self.name}" if self.part else self.key


def check_settings(settings: Iterable[Setting], traits: frozenset[Trait]) -> None:
    """Raise if a setting would make a command with these traits run a program, hang or read elsewhere."""
    for setting in settings:
        if _matters(setting, traits):
            raise UnknownCommand(
                "repository", f"this repository sets {setting.shown}, which may make git run a program"
            )


def _matters(setting: Setting, traits: frozenset[Trait]) -> bool:
    key = setting.key
    if setting.section in _SECTIONS:
        return setting.value.lower() not in _BOOLEAN
    if key in _ALWAYS:
        return not setting.is_off
    if key in _FILTERS and setting.part == "lfs" and setting.value in _LFS:
        return False
    if key in _RUNS:
        return not traits.isdisjoint(_RUNS[key]) and not setting.is_off
    return _is_unsafe_value(setting, traits)


def _is_unsafe_value(setting: Setting, traits: frozenset[Trait]) -> bool:
    match setting.key:
        case "core.bare":
            return not setting.is_off
        case "core.repositoryformatversion":
            return setting.value not in ("0", "1")
        case "extensions.objectformat":
            return setting.value != "sha1"
        case "branch.sort" | "tag.sort" | "log.diffmerges":
            return _is_unsafe_form(setting, traits)
        case "format.pretty" | "log.date" | "blame.date" | "diff.xfuncname" | "diff.funcname" | "diff.wordregex":
            return _is_unsafe_form(setting, traits)
        case _:
            return False


def _is_unsafe_form(setting: Setting, traits: frozenset[Trait]) -> bool:
    from vibe_jupyter.permissions.shell import options  # noqa: PLC0415 - few repositories set a form

    match setting.key:
        case "format.pretty":
            return "log" in traits and not options.is_safe_format(setting.value)
        case "branch.sort" | "tag.sort":
            return not options.KINDS["order"](setting.value)
        case "log.diffmerges":
            return "log" in traits and not options.KINDS["merges"](setting.value)
        case "log.date" | "blame.date":
            return not options.is_safe_date(setting.value)
        case _:
            return "patch" in traits and not options.is_safe_pattern(setting.value)


def read_settings(path: Path, home: str) -> tuple[Setting, ...]:
    """Read the settings of a file and of the files it includes, whatever the condition of an ``includeIf``.

    Raises:
        UnknownCommand: A file can't be read or parsed.
    """
    return tuple(_settings(path, home, 0))


def _settings(path: Path, home: str, depth: int) -> Iterator[Setting]:
    for setting in _lines(text_of(path), path.name):
        if setting.section in ("include", "includeif") and setting.name == "path":
            if depth == INCLUDES_LIMIT:
                raise UnknownCommand("repository", f"{path.name} includes very many files")
            included = os.path.join(path.parent, expand_path(setting.value, home))
            yield from _settings(Path(included), home, depth + 1)
        else:
            yield setting


def _lines(text: str, shown: str) -> Iterator[Setting]:
    section, part = "", ""
    for line in (raw.strip(" \t\r") for raw in text.replace("\\\n", "\x00").split("\n")):
        if not line or line[0] in "#;":
            continue
        if header := _SECTION.match(line):
            section, part = _named(header)
            line = line[header.end() :]
            if not line or line[0] in "#;":
                continue
        entry = _ENTRY.fullmatch(line)
        if entry is None or not section or not line.replace("\t", " ").isprintable():
            raise UnknownCommand("repository", f"a line of {shown} of this repository cannot be judged: {line[:60]!r}")
        yield Setting(section, part, entry[1].lower(), "true" if entry[2] is None else _value(entry[2], shown))


def _named(header: re.Match[str]) -> tuple[str, str]:
    section, dot, part = header[1].partition(".")
    return section.lower(), re.sub(r"\\(.)", r"\1", header[2]) if header[2] is not None else part if dot else ""


def _value(text: str, shown: str) -> str:
    """Parse a value as git does: quotes, escapes, a comment, and blanks, which are kept in quotes and between words.

    Older versions of git turn a tab between words into a space, so such a value is refused.
    """
    out, quoted, whole = "", False, 0  # `whole`: length of the value without blanks at its end
    chars = iter(text)
    for char in chars:
        if char in " \t" and not quoted:
            out += char if out else ""
            continue
        if char in "#;" and not quoted:
            break
        escaped = _ESCAPES.get(next(chars, "")) if char == "\\" else None
        if (char == "\\" and escaped is None) or "\t" in out[whole:]:
            raise UnknownCommand("repository", f"a line of {shown} of this repository cannot be judged: {text[:60]!r}")
        if char == '"':
            quoted = not quoted
        else:
            out += escaped or char
        whole = len(out)
    return out[:whole]


def expand_path(value: str, home: str) -> str:
    """Expand a setting that is a path, as git does for `~/`.

    Raises:
        UnknownCommand: It is in a form that depends on git's installation or version, or on other users.
    """
    if value.startswith(("%(", ":(")) or (value.startswith("~") and not value.startswith("~/")):
        raise UnknownCommand("repository", f"this repository sets a path that cannot be judged: {value[:60]!r}")
    return f"{home}{value[1:]}" if value.startswith("~/") else value


def text_of(path: Path) -> str:
    """Read a file that git reads. '' if it doesn't exist.

    Raises:
        UnknownCommand: It isn't a regular file, is too large, or isn't valid UTF-8.
    """
    try:
        if not os.path.lexists(path):
            return ""
        if path.is_symlink() or not path.is_file():
            raise UnknownCommand("repository", f"{path.name} of this repository is not a regular file")
        with open(path, "rb") as file:
            raw = file.read(FILE_LIMIT + 1)
        if len(raw) > FILE_LIMIT:
            raise UnknownCommand("repository", f"{path.name} of this repository is very large")
        return raw.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UnknownCommand("repository", f"{path.name} of this repository cannot be read") from error


def last_value(settings: Sequence[Setting], key: str) -> str | None:
    """Return the effective value of a key, or None if it isn't set."""
    return next((setting.value for setting in reversed(settings) if setting.key == key), None)


def bounded(path: Path, limit: int, *, cut: bool = False) -> bytes:
    """Read a regular file, or return b'' if it doesn't exist. A longer one is refused, or cut off."""
    try:
        # A link may lead out of the repository, and opening a pipe would block until something writes to it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError as error:
        raise UnknownCommand(
            "repository", f"{path.name} of this repository cannot be read: {error.strerror}"
        ) from error
    try:
        if not stat.S_ISREG(mode := os.fstat(descriptor).st_mode) and not stat.S_ISDIR(mode):
            raise UnknownCommand("repository", f"{path.name} of this repository is not a regular file")
        raw = b""
        while len(raw) <= limit and (piece := os.read(descriptor, limit + 1 - len(raw))):
            raw += piece
    except IsADirectoryError:
        return b""
    finally:
        os.close(descriptor)
    if len(raw) > limit and not cut:
        raise UnknownCommand("repository", f"{path.name} of this repository is very large")
    return raw[:limit]
