"""grep, find and diff, which look through folders: what lies below counts as much as what is named."""

import fnmatch
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from vibe_jupyter.policy.shell.operands import Operands, tree
from vibe_jupyter.policy.shell.options import Argument, Given, is_safe_pattern, table
from vibe_jupyter.policy.shell.readers import Call, Reader, check_input
from vibe_jupyter.policy.shell.runs import cannot_match, mandatory_runs
from vibe_jupyter.policy.shell.verdict import Refused
from vibe_jupyter.tools.protected import is_secret_name

_GREP: Final = table(
    "-EFGHILTUZabchilnoqrsvwxyz -e:pattern -m:number -A:number -B:number -C:number -# --extended-regexp "
    "--fixed-strings --basic-regexp --regexp:pattern --ignore-case --no-ignore-case --invert-match --word-regexp "
    "--line-regexp --count --color?word --colour?word --files-without-match --files-with-matches --max-count:number "
    "--only-matching --quiet --silent --no-messages --byte-offset --with-filename --no-filename --line-number "
    "--initial-tab --null --null-data --after-context:number --before-context:number --context:number --text "
    "--binary-files:word --recursive --include:text --exclude:text --exclude-dir:text --line-buffered"
)
_RECURSIVE: Final = ("-r", "--recursive")
_NOT_ONLY_MATCHES: Final = ("-v", "--invert-match", "-L", "--files-without-match", "-c", "--count")
SECRET_FILE_LIMIT: Final = 64 * 1024
"""Bytes of a file with secrets that are compared with a search pattern."""
SECRET_FILES_LIMIT: Final = 20

_DIFF: Final = Reader(
    table(
        "-abBcdeEinNpqrstTuwy -# -U:number -C:number -W:number -x:text -I:pattern --brief --report-identical-files "
        "--unified?number --context?number --side-by-side --width:number --suppress-common-lines --recursive "
        "--new-file --ignore-case --ignore-all-space --ignore-space-change --ignore-blank-lines "
        "--ignore-trailing-space --ignore-tab-expansion --text --strip-trailing-cr --minimal --normal --ed --rcs "
        "--color?word --exclude:text --label:text --no-dereference --expand-tabs --initial-tab --show-c-function"
    ),
    reads_input=True,
    most=2,
)

_FIND_PLAIN: Final = frozenset(
    {
        *("-print", "-print0", "-ls", "-prune", "-quit", "-empty", "-readable", "-writable", "-executable"),
        *("-nouser", "-nogroup", "-true", "-false", "-depth", "-daystart", "-mount", "-xdev", "-noleaf"),
        *(
            "-not",
            "-a",
            "-and",
            "-o",
            "-or",
            "!",
            "(",
            ")",
            ",",
            "-ignore_readdir_race",
            "-nowarn",
            "--help",
            "--version",
        ),
    }
)
_FIND_VALUED: Final = frozenset(
    {
        *("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-lname", "-ilname", "-type"),
        *("-regex", "-iregex", "-regextype"),
        *("-size", "-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-maxdepth", "-mindepth", "-perm"),
        *("-user", "-group", "-uid", "-gid", "-links", "-inum", "-used", "-fstype", "-printf", "-newermt"),
    }
)
_FIND_PATHS: Final = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})


def grep(call: Call) -> None:
    """Searching files; below a folder, not where secrets are, unless they cannot be found by it."""
    given = _GREP.parse(call.arguments, call.name)
    patterns = given.values("-e", "--regexp")
    operands = list(given.operands)
    if not patterns:
        if not operands:
            raise Refused("operand", "grep has no pattern")
        pattern = operands.pop(0)
        if pattern.from_glob:
            raise Refused("expansion", "the shell would choose what is searched for")
        patterns = [pattern.text]
    if not given.has("-F", "--fixed-strings") and not all(map(is_safe_pattern, patterns)):
        raise Refused("operand", "its pattern may take very long")
    recursive = given.has(*_RECURSIVE)
    if not operands and not recursive:
        check_input(call)
    for operand in operands or [Argument(".")]:
        if operand.text == "-":
            check_input(call)
            continue
        located = call.operands.path(operand.text)
        if recursive and located.kind == "directory":
            _check_below(located.path, given, patterns)


def _check_below(top: Path, given: Given, patterns: Sequence[str]) -> None:
    pruned = [name for name in given.values("--exclude-dir") if re.fullmatch(r"[\w.-]+", name)]
    secrets = [path for path in _secret_files(top, pruned) if _is_searched(os.path.basename(path), given)]
    if not secrets:
        return
    shown = os.path.relpath(secrets[0], top)
    if (
        given.has(*_NOT_ONLY_MATCHES)
        or len(secrets) > SECRET_FILES_LIMIT
        or not _finds_nothing(given, patterns, secrets)
    ):
        raise Refused("place", f"may find lines of {shown}, which usually holds passwords or keys")


def _secret_files(top: Path, pruned: Sequence[str]) -> list[str]:
    """Files with secrets in their names, or below folders of such names."""
    found: list[str] = []
    for entry in tree(top, pruned):
        inner = os.path.relpath(entry.path, top).split(os.sep)
        if entry.is_file(follow_symlinks=False) and any(map(is_secret_name, inner)):
            found.append(entry.path)
    return found


def _is_searched(name: str, given: Given) -> bool:
    included, excluded = given.values("--include"), given.values("--exclude")
    if included and not excluded:
        return any("/" in glob or "[" in glob or fnmatch.fnmatchcase(name, glob) for glob in included)
    if excluded and not included:
        return not any(re.fullmatch(r"[\w.*?-]+", glob) and fnmatch.fnmatchcase(name, glob) for glob in excluded)
    return True


def _finds_nothing(given: Given, patterns: Sequence[str], secrets: Sequence[str]) -> bool:
    """Whether no pattern can match in these files.

    A pattern that holds three letters in a row of such a file counts as one that may. A search for more of a secret
    than was found already would hold some, so what is allowed tells nothing about it.
    """
    fixed, extended = given.has("-F", "--fixed-strings"), given.has("-E", "--extended-regexp")
    if fixed + extended + given.has("-G", "--basic-regexp") > 1:
        return False
    alternatives = [mandatory_runs(pattern, fixed=fixed, extended=extended) for pattern in patterns]
    if any(each is None for each in alternatives):
        return False
    held = [_held(path) for path in secrets]
    return all(text is not None and cannot_match(each or (), text) for each in alternatives for text in held)


def _held(path: str) -> bytes | None:
    """The text of a file in lower case; None if it is too long to compare."""
    try:
        with open(path, "rb") as file:
            held = file.read(SECRET_FILE_LIMIT + 1)
    except OSError:
        return b""  # grep cannot read it either
    return held.lower() if len(held) <= SECRET_FILE_LIMIT else None


def find(call: Call) -> None:
    """Looking for names: starting points inside, and only tests and ways to print."""
    waiting = list(reversed(call.arguments))
    while waiting and waiting[-1].text in ("-P",) and not waiting[-1].from_glob:
        waiting.pop()
    while waiting and not _begins_expression(waiting[-1].text):
        call.operands.path(waiting.pop().text)
    while waiting:
        _check_test(waiting.pop(), waiting, call.operands)


def _begins_expression(text: str) -> bool:
    return text.startswith("-") or text in ("(", ")", "!", ",")


def _check_test(argument: Argument, waiting: list[Argument], operands: Operands) -> None:
    name = argument.text
    if argument.from_glob or not (name in _FIND_PLAIN or name in _FIND_VALUED or name in _FIND_PATHS):
        raise Refused("option", f"find {name} is not known to only read")
    if name in _FIND_PLAIN:
        return
    if not waiting:
        raise Refused("option", f"find {name} wants a value")
    value = waiting.pop()
    if name in _FIND_PATHS:
        operands.path(value.text)
    elif "regex" in name and not is_safe_pattern(value.text):
        raise Refused("operand", "its pattern may take very long")


def diff(call: Call) -> None:
    """Comparing files, or folders where no link or secret stands on both sides."""
    given = _DIFF.given(call)
    if len(given.operands) != 2:
        raise Refused("operand", "diff compares two files")
    places = [call.operands.path(operand.text) for operand in given.operands if operand.text != "-"]
    if len(places) < 2:
        return
    first, second = places
    folders = [place.kind == "directory" for place in places]
    if all(folders):
        _check_common(first.path, second.path, given)
        _check_common(second.path, first.path, given)
    elif any(folders):
        folder, other = (first, given.operands[1]) if folders[0] else (second, given.operands[0])
        call.operands.path(f"{folder.path}/{os.path.basename(other.text.rstrip('/'))}")


def _check_common(top: Path, other: Path, given: Given) -> None:
    """Folders are compared by following links, and only what is on both sides is opened."""
    alone = given.has("-N", "--new-file")
    for entry in tree(top):
        inner = os.path.relpath(entry.path, top)
        plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
        if plain and not any(map(is_secret_name, inner.split(os.sep))):
            continue
        if alone or os.path.lexists(other / inner):
            raise Refused("place", f"compares {inner}, which is a link, a device or usually holds passwords or keys")
