"""The settings of a repository, key by key: which of them make git run a program, hang or leave the repository, and
which commands they concern (docs/permissions.md).

Read by a parser of our own, stricter than git's: a line it does not know, asks.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.permissions.shell import UnknownCommand

Trait = Literal["worktree", "patch", "external", "log", "search", "blame", "remote", "stash"]
"""What a command of git does: compares files, shows changes, lets other programs show them, lists commits, searches
with patterns, and shows who wrote lines, addresses of other repositories, or what was put aside."""

FILE_LIMIT: Final = 256 * 1024
"""Bytes of a file of settings."""
INCLUDES_LIMIT: Final = 5
"""Files that one file of settings may include, one within another."""
_SECTION: Final = lazy_pattern(r'\[([A-Za-z][\w.-]*)(?: "((?:[^"\\]|\\["\\])*)")?\][ \t]*', re.ASCII)
_ENTRY: Final = lazy_pattern(r"([A-Za-z][A-Za-z0-9-]*)(?:\s*=\s*(.*))?")
_FALSE: Final = frozenset({"false", "no", "off", "0", ""})
_BOOLEAN: Final = _FALSE | {"true", "yes", "on", "1"}
_LFS: Final = frozenset(
    {
        *("git-lfs clean -- %f", "git-lfs filter-process", "git-lfs clean %f", "git lfs clean %f"),
        *("git lfs clean -- %f", "git lfs filter-process", "git-lfs filter-process --skip"),
    }
)
"""What git-lfs sets for itself."""
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
"""What matters to some commands only, unless it is switched off."""
_ALWAYS: Final = frozenset(
    {
        *("core.fsmonitor", "core.usebuiltinfsmonitor", "core.pager", "core.alternaterefscommand", "core.gvfs"),
        *("core.virtualfilesystem", "core.splitindex", "core.attributesfile", "core.excludesfile", "core.gitproxy"),
        *("remote.promisor", "remote.partialclonefilter", "extensions.partialclone", "extensions.refstorage"),
        *("extensions.compatobjectformat", "core.refstorage", "index.sparse"),
    }
)
"""What matters to every command, unless it is switched off."""
_SECTIONS: Final = ("pager", "trace2")
"""Sections of which every key matters to every command, unless it is a plain yes or no."""
_FILTERS: Final = ("filter.clean", "filter.process")


class Setting(NamedTuple):
    """One line of the settings."""

    section: str
    """In lower case."""
    part: str
    """What stands in quotes behind the section."""
    name: str
    """In lower case."""
    value: str

    @property
    def key(self) -> str:
        """Without the part in quotes."""
        return f"{self.section}.{self.name}"

    @property
    def is_off(self) -> bool:
        """Whether it switches something off."""
        return self.value.lower() in _FALSE

    @property
    def shown(self) -> str:
        """How it is named."""
        return f"{self.section}.{self.part}.{self.name}" if self.part else self.key


def check_settings(settings: Iterable[Setting], traits: frozenset[Trait]) -> None:
    """Refuse what would make a command with these traits run a program, hang, or look elsewhere."""
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
        case "format.pretty" | "log.date" | "blame.date" | "diff.xfuncname" | "diff.funcname" | "diff.wordregex":
            return _is_unsafe_form(setting, traits)
        case _:
            return False


def _is_unsafe_form(setting: Setting, traits: frozenset[Trait]) -> bool:
    from vibe_jupyter.permissions.shell import options  # noqa: PLC0415 - few repositories set a form

    match setting.key:
        case "format.pretty":
            return "log" in traits and not options.is_safe_format(setting.value)
        case "log.date" | "blame.date":
            return not options.is_safe_date(setting.value)
        case _:
            return "patch" in traits and not options.is_safe_pattern(setting.value)


def read_settings(path: Path, home: str) -> tuple[Setting, ...]:
    """The settings of a file and of those it includes, whatever the condition.

    Raises:
        Refused: a file cannot be read or judged.
    """
    return tuple(_settings(path, home, 0))


def _settings(path: Path, home: str, depth: int) -> Iterator[Setting]:
    for setting in _lines(text_of(path), path.name):
        if setting.section in ("include", "includeif") and setting.name == "path":
            if depth == INCLUDES_LIMIT:
                raise UnknownCommand("repository", f"{path.name} includes very many files")
            included = os.path.join(path.parent, re.sub(r"^~(?=/)", lambda _: home, setting.value))
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
    """Without quotes and comment."""
    out, quoted, position = "", False, 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == '"':
            quoted = not quoted
        elif char in "#;" and not quoted:
            break
        elif char == "\\":
            if text[position : position + 1] not in ('"', "\\", "n", "t", "b"):
                raise UnknownCommand(
                    "repository", f"a line of {shown} of this repository cannot be judged: {text[:60]!r}"
                )
            out += text[position]
            position += 1
        else:
            out += char
    return out if quoted else out.rstrip(" \t")


def text_of(path: Path) -> str:
    """The text of a file that git reads; empty if there is none.

    Raises:
        Refused: it is no regular file, is very large, or is no text.
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
    """The value that counts; None where it is not set."""
    return next((setting.value for setting in reversed(settings) if setting.key == key), None)
