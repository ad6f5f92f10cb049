"""Rules for grep, ripgrep, find, xargs and diff, which also read what is below the folders they are given."""

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal

from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.git_config import bounded
from vibe_jupyter.permissions.shell.operands import Found, Glob, Operands, plain_glob
from vibe_jupyter.permissions.shell.options import CommandArgument, GivenOptions, is_narrow, is_safe_pattern
from vibe_jupyter.permissions.shell.read_only_commands import CommandCall, check_input, readers, reading_table

_FOLLOWING: Final = ("-R", "--dereference-recursive")
_RECURSIVE: Final = ("-r", "--recursive", *_FOLLOWING)
# The beginning of a definition or an import, which never matches a line with passwords or keys.
_CODE: Final = re.compile(
    r"\^? *(?:(?:async )?def [A-Za-z_]\w*|class [A-Z]\w+|import [A-Za-z_][\w.]+|from [A-Za-z_][\w.]* import(?: \w+)?)"
    r"(?:\\?\(|:)?",
    re.ASCII,
)
_ALTERNATIVE: Final = re.compile(r"\\?\|")
# A name that xargs reads as a single one.
_PLAIN_NAME: Final = re.compile(r"(?!-)[\w./+:@%,=~^#!$()\[\]{}&;<>|*?-]+")
_LISTED_LIMIT: Final = 500
_IGNORES: Final = (".gitignore", ".ignore", ".rgignore")  # files that tell ripgrep what to ignore and what not to
_IGNORES_LIMIT: Final = 64 * 1024  # bytes of an ignore file
# Commands that pass some lines through unchanged, with the arguments for which they do, each behind a line end.
# A number without a dash is a file to be read instead.
LINE_FILTERS: Final[Mapping[str, str]] = {
    "head": r"(?:\n-\d+|\n-n\n?-?\d+)?",
    "tail": r"(?:\n[-+]\d+|\n-n\n?[-+]?\d+)?",
    "sort": r"(?:\n-[unrf]+)*",
    "uniq": r"",
    "grep": r"(?:\n-[viEFwx]+)*\n[^-\n][^\n]*",
}
_NOT_ONLY_MATCHES: Final = (
    *("-v", "--invert-match", "-L", "--files-without-match", "-c", "--count", "-i", "--ignore-case", "-S", "-y"),
)
_FIND_NOT: Final = ("!", "-not")
_FIND_JOINTS: Final = frozenset({"-o", "-or", ",", "(", ")"})


@cache
def _find_tests(kind: Literal["plain", "valued", "paths"]) -> frozenset[str]:
    return frozenset(reading_table()["find"][kind].split())


def check_grep(call: CommandCall) -> None:
    """Check grep. A recursive search must not reach files with secrets, unless its patterns can't match them."""
    given = readers()["grep"].parse(call.arguments, call.name)
    patterns = given.values("-e", "--regexp")
    operands = list(given.operands)
    if not patterns:
        if not operands:
            raise UnknownCommand("operand", "grep has no pattern")
        pattern = operands.pop(0)
        if pattern.from_glob:
            raise UnknownCommand("expansion", "the shell would choose what is searched for")
        patterns = [pattern.text]
    if not given.has("-F", "--fixed-strings") and not all(map(is_safe_pattern, patterns)):
        raise UnknownCommand("operand", "its pattern may take very long")
    recursive = given.has(*_RECURSIVE)
    if not operands and not recursive:
        check_input(call)
    for operand in operands or [CommandArgument(".")]:
        if operand.text == "-":
            check_input(call)
            continue
        located = call.operands.path(operand.text)
        if recursive and located.kind == "directory":
            _check_below(located.path, given, patterns, call.operands)
            if given.has(*_FOLLOWING):
                _check_links(located.path, call.operands)


def _check_below(top: Path, given: GivenOptions, patterns: Sequence[str], operands: Operands) -> None:
    """Refuse a recursive search that may reach files with secrets, except for patterns of code.

    `search_guard` then excludes these files when the command runs.
    """
    pruned = [name for name in given.values("--exclude-dir") if re.fullmatch(r"[\w.-]+", name)]
    included = given.has("--include")
    for found in operands.tree(top, pruned):
        if not found.is_secret or not found.entry.is_file(follow_symlinks=False):
            continue
        name = found.entry.name
        if not _is_searched(name, given):
            continue
        if included or not name.islower() or not searches_for_code(given, patterns):
            raise UnknownCommand("place", f"may find lines of {found.inner}, which usually holds passwords or keys")


def _check_links(top: Path, operands: Operands) -> None:
    """Check the targets of links, which ``grep -R`` follows."""
    for found in operands.tree(top):
        plain = found.entry.is_file(follow_symlinks=False) or found.entry.is_dir(follow_symlinks=False)
        if not plain and operands.path(found.entry.path).kind == "directory":
            raise UnknownCommand("place", f"may loop through {found.inner}, which is a link to a folder")


def searches_for_code(given: GivenOptions, patterns: Sequence[str]) -> bool:
    """Return whether the patterns match only definitions and imports, which files with secrets don't contain.

    This holds in any shell, since the patterns alone decide. In addition, the shell tool excludes such files when it
    runs the search.
    """
    return not given.has(*_NOT_ONLY_MATCHES) and all(
        _CODE.fullmatch(pattern) for whole in patterns for pattern in _ALTERNATIVE.split(whole)
    )


def _is_searched(name: str, given: GivenOptions) -> bool:
    """Return whether grep searches a file of this name. True if in doubt."""
    order = [option for option, _ in given.options if option in ("--include", "--exclude")]
    included = [plain_glob(glob) for glob in given.values("--include")]
    excluded = [plain_glob(glob) for glob in given.values("--exclude")]
    if any(glob is not None and glob.exact and glob.matches(name) for glob in excluded) and not included:
        return False
    if order and order[0] == "--include":
        return any(glob is None or glob.matches(name) for glob in included)
    return True


def check_find(call: CommandCall) -> None:
    """Check find: starting points inside the project, and only tests, output actions, and readers in ``-exec``."""
    waiting = list(reversed(call.arguments))
    while waiting and waiting[-1].text in ("-P",) and not waiting[-1].from_glob:
        waiting.pop()
    tops: list[str] = []
    while waiting and not _begins_expression(waiting[-1].text):
        tops.append(waiting.pop().text)
        call.operands.path(tops[-1])
    tests: list[tuple[str, str]] = []
    while waiting:
        argument = waiting.pop()
        if argument.text == "-exec" and not argument.from_glob:
            words = _started_words(waiting)
            _check_found(tops, tests, call.operands, separated=True)
            _start(call, words[:-1], "{}", several=words[-1].text == "+")
        else:
            tests.append(_check_test(argument, waiting, call.operands))


def _begins_expression(text: str) -> bool:
    return text.startswith("-") or text in ("(", ")", "!", ",")


def _check_test(argument: CommandArgument, waiting: list[CommandArgument], operands: Operands) -> tuple[str, str]:
    name = argument.text
    takes_value = name in _find_tests("valued") or name in _find_tests("paths")
    if argument.from_glob or not (takes_value or name in _find_tests("plain")):
        raise UnknownCommand("option", f"find {name} is not known to be read-only")
    if not takes_value:
        return name, ""
    if not waiting:
        raise UnknownCommand("option", f"find {name} requires a value")
    value = waiting.pop()
    if name in _find_tests("paths"):
        operands.path(value.text)
    elif "regex" in name and not is_safe_pattern(value.text):
        raise UnknownCommand("operand", "its pattern may take very long")
    elif name == "-printf" and not is_narrow(value.text):
        raise UnknownCommand("operand", "it pads its output very much")
    return name, value.text


def _started_words(waiting: list[CommandArgument]) -> list[CommandArgument]:
    """Consume ``COMMAND {} ;`` after ``-exec``. Returns the words with the last one."""
    words: list[CommandArgument] = []
    while waiting and (not words or words[-1].text not in (";", "+")):
        words.append(waiting.pop())
    if len(words) < 2 or words[-1].text not in (";", "+"):
        raise UnknownCommand("option", "find -exec has no end")
    return words


def _start(call: CommandCall, words: Sequence[CommandArgument], mark: str, *, several: bool) -> None:
    """Check a command that receives names in place of a mark. The names themselves are checked elsewhere."""
    unclear = any(word.from_glob or (mark in word.text and word.text != mark) for word in words)
    if call.inner is None or unclear or words[0].text == mark:
        raise UnknownCommand("operand", f"it is unclear what {call.name} starts")
    # The name may be any folder of the project but never a script. With several names, some programs write to the
    # second.
    name = CommandArgument(str(call.operands.workspace.root), from_glob=True)
    names = [name] * (2 if several else 1)
    rest = [argument for word in words[1:] for argument in (names if word.text == mark else [word])]
    call.inner(CommandCall(words[0].text, rest, False, call.operands))


def _check_found(tops: Sequence[str], tests: Sequence[tuple[str, str]], operands: Operands, *, separated: bool) -> None:
    """Check that everything find may output can be read, and that each name is passed as one argument."""
    simple = all(name not in _FIND_JOINTS for name, _ in tests)
    wanted = [test for before, test in zip([("", ""), *tests], tests, strict=False) if before[0] not in _FIND_NOT]
    names = [plain_glob(value.lower()) for name, value in wanted if simple and name in ("-name", "-iname")]
    only_files = simple and ("-type", "f") in wanted
    for top in tops or ["."]:
        for found in operands.tree(operands.path(top).path, _pruned(top, tests)):
            if any(name is not None and not name.matches(found.entry.name.lower()) for name in names):
                continue
            entry = found.entry
            if found.is_secret and not entry.is_dir(follow_symlinks=False):
                raise UnknownCommand("place", f"may read {found.inner}, which usually holds passwords or keys")
            if not separated and not _PLAIN_NAME.fullmatch(found.inner):
                raise UnknownCommand("operand", f"the name {found.inner[:60]!r} would not be read as one file")
            plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
            if not plain and not only_files:
                operands.path(entry.path)


def _pruned(top: str, tests: Sequence[tuple[str, str]]) -> list[str]:
    """Return pruned folders: by name anywhere, or as ``./name`` directly below the top."""
    out: list[str] = []
    for earlier, before, test in zip([("", ""), *tests], tests, tests[1:], strict=False):
        match = re.fullmatch(r"(\./|\*/)([\w.-]+)/\*", test[1])
        if test[0] == "-path" and match and before[0] in _FIND_NOT and earlier[0] not in _FIND_NOT:
            out += [match[2]] if match[1] == "*/" else [f"./{match[2]}"] if top in (".", "./") else []
    return out if all(name not in _FIND_JOINTS for name, _ in tests) else []


def xargs(call: CommandCall) -> None:
    """Check xargs: a reader that receives names listed by another command."""
    waiting = list(reversed(call.arguments))
    separated, counted, mark = False, False, ""
    while waiting and waiting[-1].text.startswith("-") and not waiting[-1].from_glob:
        option = waiting.pop().text
        if option in ("-0", "--null"):
            separated = True
        elif option in ("-I", "-n", "-P", "-L") and waiting:
            value = waiting.pop().text
            mark = value if option == "-I" else mark
            if option != "-I" and not re.fullmatch(r"\d{1,4}", value):
                raise UnknownCommand("option", f"xargs {option} with {value!r} is not known to be read-only")
        elif option.startswith("-I") and len(option) > 2:
            mark = option[2:]
        elif not re.fullmatch(r"-[nPL]\d{1,4}|-r|--no-run-if-empty|-t|-0r|-r0", option):
            raise UnknownCommand("option", f"xargs {option} is not known to be read-only")
        separated = separated or option in ("-0r", "-r0")
        counted = counted or option[:2] in ("-n", "-L")
    if mark and counted:
        raise UnknownCommand("option", "xargs follows the last of -I, -n and -L alone")
    words = list(reversed(waiting)) or [CommandArgument("echo")]
    _check_listed(call, separated=separated)
    if words[0].text != "echo":
        _start(call, words if mark else [*words, CommandArgument("{}")], mark or "{}", several=not mark)


def _check_listed(call: CommandCall, *, separated: bool) -> None:
    source = call.source
    if source is None:
        raise UnknownCommand("operand", "it is unclear which names xargs gets")
    texts = [argument.text for argument in source.arguments]
    if source.name == "find":
        if separated != ("-print0" in texts) or {"-printf", "-ls", "-exec"}.intersection(texts):
            raise _unclear_names()
        tops = list(itertools.takewhile(lambda text: not _begins_expression(text), texts))
        _check_found(tops, _passed(_paired(texts[len(tops) :])), call.operands, separated=separated)
    elif source.name == "grep" and not separated:
        _check_listed_by_grep(call.operands, source.arguments)
    elif source.name == "ls" and not separated and not any(text.startswith("-") and text != "-1" for text in texts):
        _check_names(_names_of(call.operands, [text for text in texts if text != "-1"] or ["."]), call.operands)
    else:
        raise _unclear_names()


def _unclear_names() -> UnknownCommand:
    return UnknownCommand("operand", "it is unclear which names xargs gets")


def _check_listed_by_grep(operands: Operands, arguments: Sequence[CommandArgument]) -> None:
    given = readers()["grep"].parse(arguments, "grep")
    tops = [operand.text for operand in given.operands[0 if given.has("-e", "--regexp") else 1 :]]
    # The name for standard input is printed as "(standard input)".
    if not given.has("-l", "--files-with-matches") or given.has("-c", "--count") or "-" in tops:
        raise _unclear_names()
    tests = [("-iname", glob) for glob in given.values("--include")[:1]] if len(given.values("--include")) == 1 else []
    _check_found(tops, tests, operands, separated=False)


def _names_of(operands: Operands, texts: Sequence[str]) -> list[str]:
    names: list[str] = []
    for text in texts:
        located = operands.path(text)
        if located.kind != "directory":
            names.append(text)
            continue
        if len(texts) > 1:
            names.append(f"{text}:")  # the heading of a folder's listing
        with os.scandir(located.path) as entries:
            names += [entry.name for entry in itertools.islice(entries, _LISTED_LIMIT + 1) if entry.name[:1] != "."]
    return names


def _check_names(names: Sequence[str], operands: Operands) -> None:
    if len(names) > _LISTED_LIMIT:
        raise UnknownCommand("length", f"xargs would get more than {_LISTED_LIMIT} names")
    for name in names:
        if not _PLAIN_NAME.fullmatch(name):
            raise UnknownCommand("operand", f"the name {name[:60]!r} would not be read as one file")
        operands.path(name)


def _paired(texts: Sequence[str]) -> list[tuple[str, str]]:
    tests: list[tuple[str, str]] = []
    waiting = list(reversed(texts))
    while waiting:
        name = waiting.pop()
        tests.append((name, waiting.pop() if name in _find_tests("valued") | _find_tests("paths") and waiting else ""))
    return tests


def _passed(tests: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Return the tests that a printed name must have passed, which are those before ``-print``."""
    if any(name in _FIND_JOINTS for name, _ in tests):
        return ()
    return list(itertools.takewhile(lambda test: test[0] not in ("-print", "-print0"), tests))


def rg(call: CommandCall) -> None:
    """Check ripgrep, which searches folders recursively."""
    given = readers()["rg"].parse(call.arguments, call.name)
    operands = list(given.operands)
    patterns = given.values("-e", "--regexp")
    if not patterns and not given.has("--files"):
        if not operands or operands[0].from_glob:
            raise UnknownCommand("operand", "rg has no pattern")
        patterns = [operands.pop(0).text]
    if not all(map(is_safe_pattern, patterns)):
        raise UnknownCommand("operand", "its pattern may take very long")
    for operand in operands or [CommandArgument(".")]:
        located = call.operands.path(operand.text)
        if located.kind == "directory" and not given.has("--files"):
            _check_ripgrep_below(located.path, given, patterns, call.operands)


def _check_ripgrep_below(top: Path, given: GivenOptions, patterns: Sequence[str], operands: Operands) -> None:
    """Refuse a recursive search that may reach files with secrets, except for patterns of code.

    ripgrep skips hidden files unless an option or an ignore file includes them.
    """
    wanted = [glob for glob in given.values("-g", "--glob") if not glob.startswith("!")]
    globs = [None if "{" in glob else plain_glob(glob.rpartition("/")[2]) for glob in wanted]
    hidden = given.has("--hidden", "-.", "-t", "--type")  # a type includes hidden files as well
    found_below = list(operands.tree(top))
    brought_back = _unignored(top, found_below) if any(found.is_secret for found in found_below) else []
    for found in found_below:
        name = found.entry.name
        if not found.is_secret or not found.entry.is_file(follow_symlinks=False):
            continue
        if globs and not any(glob is None or glob.matches(name) for glob in globs):
            continue
        steps = found.inner.split("/")
        if not (globs or hidden or any(glob is None or any(map(glob.matches, steps)) for glob in brought_back)) and any(
            step.startswith(".") for step in steps
        ):
            continue
        if globs or not name.islower() or not searches_for_code(given, patterns):
            raise UnknownCommand("place", f"may find lines of {found.inner}, which usually holds passwords or keys")


def _unignored(top: Path, found: Sequence[Found]) -> list[Glob | None]:
    """Return the globs re-included by ignore files, here and in parent folders.

    None represents a glob that can't be parsed.
    """
    files = [Path(each.entry.path) for each in found if each.entry.name in _IGNORES]
    files += [folder / name for folder in top.parents for name in _IGNORES]
    files += [folder / ".git/info/exclude" for folder in (top, *top.parents)]
    lines = (
        line.strip() for file in files for line in bounded(file, _IGNORES_LIMIT).decode(errors="replace").split("\n")
    )
    names = [line[1:].rstrip("/").rpartition("/")[2] for line in lines if line.startswith("!")]
    return [None if "{" in name else plain_glob(name) for name in names]


def check_diff(call: CommandCall) -> None:
    """Check diff: files, or folders in which no link or secret exists on both sides, since it follows links."""
    given = readers()["diff"].given(call)
    if len(given.operands) != 2:
        raise UnknownCommand("operand", "diff compares two files")
    places = [call.operands.path(operand.text) for operand in given.operands if operand.text != "-"]
    for top, other in itertools.permutations(places, 2):
        opens_all = given.has("-N", "--new-file") or other.kind != "directory"
        for found in call.operands.tree(top.path) if top.kind == "directory" else ():
            entry = found.entry
            plain = entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)
            if (found.is_secret or not plain) and (opens_all or os.path.lexists(other.path / found.inner)):
                what = "a link, a device or usually holds passwords or keys"
                raise UnknownCommand("place", f"compares {found.inner}, which is {what}")
