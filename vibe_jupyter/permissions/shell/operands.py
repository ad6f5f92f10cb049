"""Resolve operands of a command to places, including globs, without a shell.

Python's regular expressions aren't used for globs: several stars take exponential time on adversarial names. ``?`` and
``[…]`` are treated like ``*``, so a glob may match more names here than in the shell, never fewer.
"""

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.protected import is_secret_name
from vibe_jupyter.files.workspace import Located, Workspace
from vibe_jupyter.permissions.places import place_reason
from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.command_line import ShellWord
from vibe_jupyter.permissions.shell.git_repository import Repository, find_repository
from vibe_jupyter.permissions.shell.options import CommandArgument

GAPS_LIMIT: Final = 20  # stars, question marks and brackets of one glob
_BRACKET: Final = re.compile(r"\[[!^]?[A-Za-z0-9_.,-]+\]")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)

MATCHES_LIMIT: Final = 500  # names expanded from the globs of one command line
GLOBS_LIMIT: Final = 50  # words with a glob per command
STEPS_LIMIT: Final = 4_000  # folders traversed by the paths of one command line
ENTRIES_LIMIT: Final = 8_000  # folder entries examined per command line


@dataclass(frozen=True, slots=True)
class Glob:
    """A glob as the literal texts between its wildcards: ``a*b`` is ``a`` and ``b``."""

    texts: tuple[str, ...]
    exact: bool = True  # True if all wildcards are stars, so that it matches no more than in the shell

    def matches(self, name: str) -> bool:
        """Return whether the whole name matches."""
        first, *others = self.texts
        if not others:
            return name == first
        *middle, last = others
        position = len(first)
        end = len(name) - len(last)
        if not (name.startswith(first) and name.endswith(last)) or end < position:
            return False
        for text in middle:
            position = name.find(text, position, end)
            if position < 0:
                return False
            position += len(text)
        return True


def shell_glob(text: str, wild: frozenset[int]) -> Glob | None:
    """Parse a glob as bash does, or return None if it is ambiguous or has too many wildcards.

    Args:
        text: The word without quotes.
        wild: Offsets of unquoted ``*``, ``?`` and ``[``.
    """
    texts, position, exact = [""], 0, True
    while position < len(text):
        if position not in wild:
            texts[-1] += text[position]
        elif text[position] == "[":
            bracket = _BRACKET.match(text, position)
            if bracket is None:
                return None
            position = bracket.end() - 1
            texts.append("")
            exact = False
        else:
            exact = exact and text[position] == "*"
            texts.append("")
        position += 1
    return _checked(texts, exact=exact)


def plain_glob(text: str) -> Glob | None:
    """Parse a glob as git and grep do, with backslash escapes. None if it is ambiguous or has too many wildcards."""
    hidden: list[int] = []
    plain = ""
    position = 0
    while position < len(text):
        escaped = _ESCAPED.match(text, position)
        if escaped is None and text[position] in "*?[":
            hidden.append(len(plain))
        plain += escaped[1] if escaped else text[position]
        position = escaped.end() if escaped else position + 1
    return shell_glob(plain, frozenset(hidden))


def _checked(texts: Sequence[str], *, exact: bool) -> Glob | None:
    merged = [texts[0], *(text for text in texts[1:-1] if text), *texts[-1:]] if len(texts) > 1 else list(texts)
    return Glob(tuple(merged), exact) if len(merged) <= GAPS_LIMIT + 1 else None


@dataclass
class _Work:
    """Cache and counters shared by the commands of one line."""

    judged: dict[tuple[Path, str], Located] = field(default_factory=dict[tuple[Path, str], Located])
    steps: int = 0
    matches: int = 0
    entries: int = 0
    repositories: dict[Path, Repository | UnknownCommand | None] = field(
        default_factory=dict[Path, Repository | UnknownCommand | None]
    )


@dataclass(frozen=True, slots=True)
class Found:
    """An entry found below a folder."""

    entry: os.DirEntry[str]
    inner: str  # path relative to that folder
    is_secret: bool  # True if its name or that of a parent folder suggests passwords or keys


class Operands:
    """Judge of the places named by the commands of one line. Lists folders inside the project, but opens no files."""

    def __init__(self, workspace: Workspace, here: Path | None = None, work: _Work | None = None) -> None:
        self.workspace = workspace
        self.here = here or workspace.root  # working directory of the command, with links resolved
        self._work = work or _Work()

    def at(self, folder: Path) -> "Operands":
        """Return an instance for another folder that shares the cache and counters."""
        return Operands(self.workspace, folder, self._work)

    def path(self, text: str) -> Located:
        """Resolve a path that may be read without asking or doesn't exist.

        Raises:
            UnknownCommand: It is outside the project, protected, not a regular file, or unresolvable.
        """
        key = (self.here, text)
        if key not in self._work.judged:
            self._work.steps += 1 + text.count("/")
            if self._work.steps > STEPS_LIMIT:
                raise UnknownCommand("length", f"its paths lead through more than {STEPS_LIMIT:,} folders")
            self._work.judged[key] = self._judge_text(self.from_root(text))
        return self._work.judged[key]

    def from_root(self, text: str) -> str:
        """Return a path as seen from the project folder."""
        if self.here != self.workspace.root:
            return text if text.startswith("/") else f"{self.here}/{text}"
        return f"./{text}" if text.startswith("~") else text  # the shell doesn't expand a quoted ~

    def repository(self, home: str) -> Repository | None:
        """Return the repository that git finds here, cached per folder.

        Raises:
            UnknownCommand: It can't be judged.
        """
        if self.here not in self._work.repositories:
            try:
                self._work.repositories[self.here] = find_repository(self.here, home)
            except UnknownCommand as refused:
                self._work.repositories[self.here] = refused
        found = self._work.repositories[self.here]
        if isinstance(found, UnknownCommand):
            raise found
        return found

    def tree(self, top: Path, pruned: Sequence[str] = ()) -> Iterator[Found]:
        """Walk a folder like `walk_tree`, counting toward the limit of the command line."""
        for found in walk_tree(top, pruned):
            self._work.entries += 1
            if self._work.entries > ENTRIES_LIMIT:
                raise UnknownCommand("operand", f"it would look through more than {ENTRIES_LIMIT:,} files")
            yield found

    def exists(self, text: str) -> bool:
        """Return whether the path exists, even as a broken link."""
        return os.path.lexists(self.here / text)

    def _judge_text(self, text: str) -> Located:
        try:
            located = self.workspace.resolve(text)
        except ToolError as error:
            raise UnknownCommand("place", f"reads a place that cannot be judged: {error}") from error
        if reason := place_reason(located, "read"):
            raise UnknownCommand("place", reason.reason)
        return located

    def arguments(self, words: Sequence[ShellWord]) -> list[CommandArgument]:
        """Return the arguments the program would receive, with globs expanded.

        A glob may expand to more names than in the shell, never to fewer.

        Raises:
            UnknownCommand: A glob leads outside, matches too much, or is ambiguous.
        """
        if sum(bool(word.wild) for word in words) > GLOBS_LIMIT:
            raise UnknownCommand("expansion", f"it holds more than {GLOBS_LIMIT} globs")
        out: list[CommandArgument] = []
        for word in words:
            found = self._expand_glob(word) if word.wild else []
            out += [CommandArgument(name, from_glob=True) for name in found] or [CommandArgument(word.text)]
        return out

    def _expand_glob(self, word: ShellWord) -> list[str]:
        names = [""]
        position = 0
        for part in word.text.split("/"):
            wild = frozenset(at - position for at in word.wild if position <= at < position + len(part))
            last = position + len(part) == len(word.text)
            names = self._expand_step(names, part, wild, last=last)
            position += len(part) + 1
        self._work.matches += len(names)
        if self._work.matches > MATCHES_LIMIT:
            raise UnknownCommand("expansion", f"the shell would find more than {MATCHES_LIMIT:,} names")
        for name in names:
            self.path(name)
        if names and not any(_surely_matches(word, name) for name in names):
            raise UnknownCommand("expansion", f"it is unclear what {word.text[:60]!r} stands for")
        return names

    def _expand_step(self, names: list[str], part: str, wild: frozenset[int], *, last: bool) -> list[str]:
        if wild:
            glob = shell_glob(part, wild)
            if glob is None:
                raise UnknownCommand("expansion", f"it is unclear what {part[:60]!r} stands for")
            found = [
                f"{name}{entry}" for name in names for entry in self._list_entries(name, part) if glob.matches(entry)
            ]
        else:
            found = [f"{name}{part}" for name in names]
        if len(found) > MATCHES_LIMIT:
            raise UnknownCommand("expansion", f"the shell would find more than {MATCHES_LIMIT:,} names")
        if last:
            return [name for name in found if self.exists(name)]
        return [f"{name}/" for name in found if name == "" or os.path.isdir(self.here / name)]

    def _list_entries(self, folder: str, part: str) -> list[str]:
        located = self.path(folder or ".")
        try:
            with os.scandir(located.path) as entries:
                names = [entry.name for entry in islice(entries, ENTRIES_LIMIT + 1)]
        except OSError:
            return []
        self._work.entries += len(names)
        if self._work.entries > ENTRIES_LIMIT:
            raise UnknownCommand("expansion", f"the shell would look through more than {ENTRIES_LIMIT:,} names")
        if part.startswith("."):
            return [".", "..", *names]
        # A leading * never matches a dot. A leading ? or [ doesn't in common shells either, but a superset is safe.
        return [name for name in names if not (part.startswith("*") and name.startswith("."))]


def _surely_matches(word: ShellWord, name: str) -> bool:
    """Return whether every shell expands a glob to a name at least, so that the program never receives the glob."""
    exact = "".join(char if at in word.wild or char not in "*?[" else f"[{char}]" for at, char in enumerate(word.text))
    steps = list(zip(exact.split("/"), name.split("/"), strict=False))
    return all(
        fnmatch.fnmatchcase(found, wanted) and (wanted[:1] not in ("?", "[") or found[:1] != ".")
        for wanted, found in steps
    )


def walk_tree(top: Path, pruned: Sequence[str] = ()) -> Iterator[Found]:
    """Walk everything below a folder, without following links.

    Args:
        top: The folder.
        pruned: Names of folders to skip, or ``./name`` for those directly below `top`.

    Raises:
        UnknownCommand: There are more than `ENTRIES_LIMIT` entries.
    """
    waiting: list[tuple[str, str, bool]] = [(str(top), "", False)]
    seen = 0
    while waiting:
        folder, before, secret = waiting.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > ENTRIES_LIMIT:
                        raise UnknownCommand("operand", f"{top} holds more than {ENTRIES_LIMIT:,} files")
                    found = Found(
                        entry, f"{before}{entry.name}", secret or is_secret_name(entry.name, os.path.basename(folder))
                    )
                    yield found
                    left_out = entry.name in pruned or f"./{found.inner}" in pruned
                    if entry.is_dir(follow_symlinks=False) and not left_out:
                        waiting.append((entry.path, f"{found.inner}/", found.is_secret))
        except OSError:
            continue  # if it can't be listed here, the command can't read it either
