"""Where operands lead, and which names the shell would put in place of a glob."""

import os
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from vibe_jupyter.errors import ToolError
from vibe_jupyter.policy.places import place_reason
from vibe_jupyter.policy.shell.options import Argument
from vibe_jupyter.policy.shell.verdict import Refused
from vibe_jupyter.policy.shell.words import Word
from vibe_jupyter.tools.workspace import Located, Workspace

MATCHES_LIMIT: Final = 500
"""Names the globs of one command line may stand for."""
GLOBS_LIMIT: Final = 50
"""Words with a glob in one command."""
ENTRIES_LIMIT: Final = 10_000
"""Entries of folders that are looked at for the globs of one command line, or in one tree."""
_BRACKET: Final = re.compile(r"\[[!^]?[A-Za-z0-9_.,-]+\]")


class Operands:
    """Judges what the commands of one line name. Lists folders inside the project; opens no file."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._judged: dict[str, Located] = {}
        self._matches = 0
        self._entries_seen = 0

    def path(self, text: str) -> Located:
        """A file or folder that may be read without asking, or that is missing.

        Raises:
            Refused: it is outside, protected, no regular file, or leads nowhere.
        """
        if text not in self._judged:
            # The shell leaves a quoted ~ as it is.
            self._judged[text] = self._judge(f"./{text}" if text.startswith("~") else text)
        return self._judged[text]

    def _judge(self, text: str) -> Located:
        try:
            located = self._workspace.resolve(text)
        except ToolError as error:
            raise Refused("place", f"reads a place that cannot be judged: {error}") from error
        if reason := place_reason(located, "read"):
            raise Refused("place", reason.reason)
        return located

    def arguments(self, words: Sequence[Word]) -> list[Argument]:
        """What the program would get: the words, with names in place of globs.

        A glob may stand here for more names than the shell would find, never for fewer.

        Raises:
            Refused: a glob looks outside, finds too much, or cannot be foretold.
        """
        if sum(bool(word.wild) for word in words) > GLOBS_LIMIT:
            raise Refused("expansion", f"it holds more than {GLOBS_LIMIT} globs")
        out: list[Argument] = []
        for word in words:
            found = self._glob(word) if word.wild else []
            out += [Argument(name, from_glob=True) for name in found] or [Argument(word.text)]
        return out

    def _glob(self, word: Word) -> list[str]:
        names = [""]
        position = 0
        for part in word.text.split("/"):
            wild = frozenset(at - position for at in word.wild if position <= at < position + len(part))
            last = position + len(part) == len(word.text)
            names = self._step(names, part, wild, last=last)
            position += len(part) + 1
        self._matches += len(names)
        if self._matches > MATCHES_LIMIT:
            raise Refused("expansion", f"the shell would find more than {MATCHES_LIMIT:,} names")
        for name in names:
            self.path(name)
        return names

    def _step(self, names: list[str], part: str, wild: frozenset[int], *, last: bool) -> list[str]:
        if wild:
            pattern = _pattern(part, wild)
            found = [f"{name}{entry}" for name in names for entry in self._entries(name, part) if pattern(entry)]
        else:
            found = [f"{name}{part}" for name in names]
        if len(found) > MATCHES_LIMIT:
            raise Refused("expansion", f"the shell would find more than {MATCHES_LIMIT:,} names")
        if last:
            return [name for name in found if os.path.lexists(self._workspace.root / name)]
        return [f"{name}/" for name in found if name == "" or os.path.isdir(self._workspace.root / name)]

    def _entries(self, folder: str, part: str) -> list[str]:
        located = self.path(folder or ".")
        try:
            with os.scandir(located.path) as entries:
                names = [entry.name for entry in islice(entries, ENTRIES_LIMIT + 1)]
        except OSError:
            return []
        self._entries_seen += len(names)
        if self._entries_seen > ENTRIES_LIMIT:
            raise Refused("expansion", f"the shell would look through more than {ENTRIES_LIMIT:,} names")
        if part.startswith("."):
            return [".", "..", *names]
        # A leading * never stands for a dot. A leading ? or [ does in no shell we know, but nobody misses it here.
        return [name for name in names if not (part.startswith("*") and name.startswith("."))]


def tree(top: Path, pruned: Sequence[str] = ()) -> Iterator[os.DirEntry[str]]:
    """Everything below a folder; folders of these names, and links, are not entered.

    Raises:
        Refused: it holds more than can be looked at in a moment, or a part of it cannot be listed.
    """
    waiting: list[str] = [str(top)]
    seen = 0
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    seen += 1
                    if seen > ENTRIES_LIMIT:
                        raise Refused("operand", f"{top} holds more than {ENTRIES_LIMIT:,} files")
                    yield entry
                    if entry.is_dir(follow_symlinks=False) and entry.name not in pruned:
                        waiting.append(entry.path)
        except OSError:
            continue  # who may not list it here may not read it there either


def _pattern(part: str, wild: frozenset[int]):
    """A test that is true for every name the shell would take, in any locale, and for some more."""
    out = ""
    position = 0
    while position < len(part):
        char = part[position]
        if position not in wild:
            out += re.escape(char)
        elif char == "*":
            out += ".*"
        elif char == "?":
            out += ".?"
        elif bracket := _BRACKET.match(part, position):
            out += ".?"
            position = bracket.end()
            continue
        else:
            raise Refused("expansion", f"it cannot be told what {part!r} stands for")
        position += 1
    return re.compile(re.sub(r"(\.\*)+", ".*", out), re.DOTALL).fullmatch
