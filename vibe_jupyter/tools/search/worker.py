"""The search in Python, as a process of its own: a regular expression that takes for ever can only be killed.

Reads a query as JSON from its input and writes ``path NUL line:column:text`` lines, as ripgrep does. Exit code 2 with
a message on standard error means that the pattern is wrong.
"""

import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from typing import BinaryIO, Final

from vibe_jupyter.tools.search.ignores import Exclusions, Rules, rules_above, rules_of
from vibe_jupyter.tools.search.query import Query

_SNIFFED: Final = 65_536
"""First bytes of a file in which a NUL byte tells that it is not text."""
_MARKS: Final = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
# What smart case does not count as a letter somebody wrote: escapes, names of groups, flags.
_NOT_LITERAL: Final = re.compile(r"\\[pPN]\{[^}]*\}|\\x\{?[0-9A-Fa-f]+\}?|\\.|\(\?P?<\w+>|\(\?[a-zA-Z-]*[:)]")


def main() -> int:
    """Search and print; the exit code as grep's."""
    query = Query(**json.load(sys.stdin))
    try:
        pattern = compile_pattern(query.pattern)
    except (re.error, OverflowError, RecursionError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    out = sys.stdout.buffer
    found = False
    for path, line, column, text in search(query, pattern):
        found = True
        out.write(b"%s\0%d:%d:%s\n" % (os.fsencode(path), line, column, text.encode("utf-8", "surrogateescape")))
    out.flush()
    return 0 if found else 1


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern with smart case: letters of any case match unless a capital letter was written."""
    has_capital = any(letter.isupper() for letter in _NOT_LITERAL.sub("", pattern))
    return re.compile(pattern, 0 if has_capital else re.IGNORECASE)


def search(query: Query, pattern: re.Pattern[str]) -> Iterator[tuple[str, int, int, str]]:
    """Path, line and column from 1, and text of every matching line, in path order."""
    for path in _files(query):
        for number, line in _lines(path):
            if match := pattern.search(line):
                column = len(line[: match.start()].encode("utf-8", "surrogateescape")) + 1
                yield path, number, column, line


def _files(query: Query) -> Iterator[str]:
    target = query.target
    if not os.path.isdir(target):
        yield target
        return
    rules = rules_above(target) if query.use_default_ignore else None
    yield from _walk(target, rules, Exclusions(query), query.use_default_ignore)


def _walk(folder: str, above: Rules | None, exclusions: Exclusions, heeds: bool) -> Iterator[str]:
    rules = rules_of(folder, above) if heeds else None
    for entry in _entries(folder):
        is_folder = entry.is_dir(follow_symlinks=False)
        if not is_folder and not entry.is_file(follow_symlinks=False):
            continue
        if exclusions.excludes(entry.path, rules, is_folder=is_folder):
            continue
        if is_folder:
            yield from _walk(entry.path, rules, exclusions, heeds)
        else:
            yield entry.path


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: os.fsencode(entry.name))
    except OSError:
        return []


def _lines(path: str) -> Iterator[tuple[int, str]]:
    """Numbered lines of a text file; nothing of a binary one."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as file:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            yield from _decoded(file)


def _decoded(file: BinaryIO) -> Iterator[tuple[int, str]]:
    head = file.read(_SNIFFED)
    file.seek(0)
    encoding = next((name for mark, name in _MARKS if head.startswith(mark)), None)
    if encoding is not None:
        text = file.read().decode(encoding, "replace").removeprefix("\ufeff")
        yield from enumerate((line.removesuffix("\r") for line in _split(text)), start=1)
        return
    if b"\0" in head:
        return
    for number, raw in enumerate(file, start=1):
        if b"\0" in raw:
            return
        raw = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        yield number, raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "surrogateescape")


def _split(text: str) -> list[str]:
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


if __name__ == "__main__":
    sys.exit(main())
