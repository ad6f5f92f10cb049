"""The Python search, run as a separate process because a runaway regular expression can only be killed.

Reads a JSON query from stdin and prints ``path NUL line:column:offset:text`` lines like ripgrep (with offset 0). Exits
with 0 if everything was searched, and with 2 and a message on stderr if the pattern is invalid.

It inherits the descriptor of the approved folder or file and opens everything below it without following links. Paths
in its query serve as names only.
"""

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from vibe_jupyter.files.protected import protect_also
from vibe_jupyter.files.real_path import OpenFolder
from vibe_jupyter.files.search_rules import WIDE_MARKS, Exclusions, IgnoreRules, SearchQuery, read_rules, rules_above

_READ: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_PIECE: Final = 8 * 2**20  # bytes of a line searched at a time, since a single line may exceed memory
_SNIFFED: Final = 65_536  # first bytes; a NUL byte among them means that a file isn't text

# Letters that don't count for smart case: escapes, group names and flags.
_NOT_LITERAL: Final = re.compile(r"\\[pPN]\{[^}]*\}|\\x\{?[0-9A-Fa-f]+\}?|\\.|\(\?P?<\w+>|\(\?[a-zA-Z-]*[:)]")


def main() -> int:
    """Search, print the matches and return the exit code."""
    given = json.load(sys.stdin)
    descriptor: int | None = given.pop("descriptor")
    protect_also(tuple(given.pop("protected", ())))
    query = SearchQuery(**given)
    try:
        pattern = compile_pattern(query.pattern)
    except (re.error, OverflowError, RecursionError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    out = sys.stdout.buffer
    for path, line, column, text in search_lines(query, pattern, descriptor):
        out.write(b"%s\0%d:%d:0:%s\n" % (os.fsencode(path), line, column, text.encode("utf-8", "surrogateescape")))
    out.flush()
    return 0


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile with smart case: case-insensitive unless the pattern contains a capital letter."""
    has_capital = any(letter.isupper() for letter in _NOT_LITERAL.sub("", pattern))
    return re.compile(pattern, 0 if has_capital else re.IGNORECASE)


def search_lines(
    query: SearchQuery, pattern: re.Pattern[str], descriptor: int | None = None
) -> Iterator[tuple[str, int, int, str]]:
    """Yield path, line and column (from 1) and text of matching lines in path order, up to the limit per file."""
    for path, file in _searched_files(query, descriptor):
        with os.fdopen(file, "rb") as opened, suppress(OSError):  # an unreadable file must not stop the search
            for number, column, line in islice(_matching_lines(opened, pattern), query.most):
                yield path, number, column, line


def _matching_lines(file: BinaryIO, pattern: re.Pattern[str]) -> Iterator[tuple[int, int, str]]:
    for number, line in _numbered_lines(file):
        if match := pattern.search(line):
            yield number, len(line[: match.start()].encode("utf-8", "surrogateescape")) + 1, line


def _searched_files(query: SearchQuery, descriptor: int | None) -> Iterator[tuple[str, int]]:
    """Yield the path and a descriptor of each file to search. The caller closes it."""
    target = query.target
    is_folder = os.path.isdir(target) if descriptor is None else stat.S_ISDIR(os.fstat(descriptor).st_mode)
    if not is_folder:
        yield target, os.open(target, _READ) if descriptor is None else descriptor
        return
    rules = rules_above(target) if query.use_default_ignore else None
    with OpenFolder(Path(target), descriptor) as folder:
        yield from _walk_folder(folder, rules, Exclusions(query), query.use_default_ignore)


def _walk_folder(
    folder: OpenFolder, above: IgnoreRules | None, exclusions: Exclusions, heeds: bool
) -> Iterator[tuple[str, int]]:
    rules = read_rules(str(folder.path), above) if heeds else None
    for name, is_folder in _folder_entries(folder):
        path = os.path.join(folder.path, name)
        if exclusions.excludes(path, rules, is_folder=is_folder):
            continue
        try:
            inner = folder.inner(name) if is_folder else folder.open(name, os.O_RDONLY)
        except OSError:
            continue
        if isinstance(inner, int):
            yield path, inner
        else:
            with inner:
                yield from _walk_folder(inner, rules, exclusions, heeds)


def _folder_entries(folder: OpenFolder) -> list[tuple[str, bool]]:
    """Return the sorted names of files and folders, and whether each is a folder. Links are skipped."""
    try:
        with folder.entries() as entries:
            kinds = [(entry.name, _is_folder(entry)) for entry in entries]
    except OSError:
        return []
    return sorted(((name, kind) for name, kind in kinds if kind is not None), key=lambda one: os.fsencode(one[0]))


def _is_folder(entry: "os.DirEntry[str]") -> bool | None:
    if entry.is_dir(follow_symlinks=False):
        return True
    return False if entry.is_file(follow_symlinks=False) else None


def _numbered_lines(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """Yield numbered lines of a text file, and nothing for binary files."""
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        yield from _decoded_lines(file)


def _decoded_lines(file: BinaryIO) -> Iterator[tuple[int, str]]:
    head = file.read(_SNIFFED)
    file.seek(0)
    encoding = next((name for mark, name in WIDE_MARKS if head.startswith(mark)), None)
    if encoding is not None:
        text = file.read().decode(encoding, "replace").removeprefix("\ufeff")
        yield from enumerate((line.removesuffix("\r") for line in _split_lines(text)), start=1)
        return
    if b"\0" in head:
        return
    number, is_first = 1, True
    while raw := file.readline(_PIECE):
        if b"\0" in raw:
            return
        line = raw.removeprefix(b"\xef\xbb\xbf") if is_first else raw
        yield number, line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")
        number, is_first = number + raw.endswith(b"\n"), False


def _split_lines(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


if __name__ == "__main__":
    sys.exit(main())
