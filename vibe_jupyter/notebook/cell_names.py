"""Static analysis of a cell: the names its code reads, binds and changes, in execution order.

Nothing is executed or imported. Names that a function reads count where the function is used, not where it is defined.
Lines that aren't Python (magics, shell commands) are removed first, after noting the names they read and bind.
"""

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.notebook.name_steps import BUILTINS, Act, CellNames, NameStep
from vibe_jupyter.notebook.name_walk import StatementWalk

CACHED: Final = 5_000  # sources to cache


@lru_cache(maxsize=CACHED)
def cell_names(source: str) -> CellNames:
    """Return the names of a code cell."""
    code, found = python_of(source)
    if found.is_prompt or (found.unknown and not code):
        return found
    try:
        tree = parse_quietly(code)
    except NOT_PARSED:
        return CellNames(unknown=found.unknown or "it is no Python that can be parsed")
    walk = StatementWalk(lines=code.split("\n"))
    try:
        walk.body(tree.body)
    except RecursionError:
        return CellNames(unknown="its code is nested too deep")
    steps = (*found.steps, *walk.steps)
    return CellNames(
        steps,
        frozenset(_mentioned(steps)),
        found.unknown or walk.unknown,
    )


def read_names(source: str) -> list[str]:
    """Return the names that a cell reads before binding them, in order of first use."""
    own = set[str]()
    found: dict[str, None] = {}
    for step in cell_names(source).steps:
        match step.act:
            case Act.READ | Act.CHANGE | Act.CALL:
                found |= {step.name: None} if step.name not in own else {}
            case Act.BIND | Act.ALIAS | Act.SURE:
                own.add(step.name)
            case _:
                own.discard(step.name)
    return [name for name in found if name not in BUILTINS]


def gives_prompt(source: str) -> bool:
    """Return whether a cell sends a prompt to the agent. Checks the text first, to avoid parsing most cells."""
    return "vibe" in source and cell_names(source).is_prompt


@lru_cache(maxsize=CACHED)
def code_shape(source: str) -> str:
    """Return a key that is equal for sources differing only in comments and white space."""
    code, _ = python_of(source)
    try:
        return ast.dump(parse_quietly(code))
    except NOT_PARSED:
        return source


def _mentioned(steps: Iterable[NameStep]) -> Iterator[str]:
    for step in steps:
        if step.name:
            yield step.name
        yield from (name for name in step.others if name)
        if step.later is not None:
            yield from step.later.reads
            yield from step.later.binds


# Exceptions of `ast.parse`. SystemError occurs on Python 3.11 while other threads parse (CPython issue 106905).
NOT_PARSED: Final = (SyntaxError, ValueError, RecursionError, MemoryError, SystemError)
# Magics whose argument or cell body is Python in the notebook's namespace.
_CODE_MAGICS: Final = frozenset(
    {"time", "timeit", "capture", "prun", "memit", "mprun", "lprun", "scalene", "snakeviz", "heat", "pyinstrument"}
)
_QUIET_CELL_MAGICS: Final = frozenset(
    [
        *("bash", "sh", "script", "cmd", "system", "sx", "perl", "ruby", "html", "HTML", "javascript", "js", "latex"),
        *("markdown", "svg", "SVG", "writefile", "file", "vibe", "mermaid", "css"),
    ]
)
_RUNNING_MAGICS: Final = frozenset(
    [*("run", "load", "loadpy", "recall", "rerun", "rep", "macro", "reset", "reset_selective", "xdel", "pylab"), "R"]
)
_TARGET: Final = r"(?P<target>[^\n=%!?'\"#()]+?)[ \t]*=[ \t]*"
_LINE_MAGIC: Final = lazy_pattern(rf"^(?P<lead>[ \t]*(?:{_TARGET})?)%(?P<name>\w+)(?P<rest>.*)$")
_COMMAND: Final = lazy_pattern(rf"^(?P<lead>[ \t]*)(?:{_TARGET})?!{{1,2}}(?P<rest>.*)$")
_HELP: Final = lazy_pattern(r"^[ \t]*\?|^[^#'\"\n]*\?{1,2}[ \t]*$")
_OPTIONS: Final = lazy_pattern(r"^(?:[ \t]*-(?:[nrtp][ \t]*\d+|\w+|-[\w-]+(?:=\S+)?))*[ \t]*")
_EXPANDED: Final = lazy_pattern(r"\{([^{}\n]+)\}|\$([A-Za-z_]\w*)")
_STORED: Final = lazy_pattern(r"-r[ \t]+([\w \t]+)")
_CAPTURED: Final = lazy_pattern(r"(?:^|--(?:out|err)[ \t]+)([A-Za-z_]\w*)")

_PROMPT: Final = lazy_pattern(r"\s*%%vibe(?![\w.-])")


def is_prompt(source: str) -> bool:
    """Return whether code begins with ``%%vibe``, a prompt of the user whose output records its run."""
    return _PROMPT.match(source) is not None


def is_of_other_language(source: str) -> bool:
    """Return whether a cell magic takes the body as something other than Python, as ``%%bash`` and ``%%sql`` do."""
    head = source.lstrip()
    words = head[2:].split(maxsplit=1) if head.startswith("%%") else []
    return bool(words) and words[0] not in _CODE_MAGICS


def parse_quietly(code: str) -> ast.Module:
    """Parse code without repeating warnings that Python gave when it ran.

    Raises:
        SyntaxError: Or another exception in `NOT_PARSED`.
    """
    if "\\" not in code:  # invalid escape sequences are all that the parser warns about
        return ast.parse(code)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(code)


def python_of(source: str) -> tuple[str, CellNames]:
    """Return the Python code of a cell, and the names used by its magics."""
    head = source.lstrip()
    if head.startswith("%%"):
        return _cell_magic(head)
    if "%" not in source and "!" not in source and "?" not in source:
        return source, CellNames()
    try:
        parse_quietly(source)
    except NOT_PARSED:
        return _without_line_magics(source)
    return source, CellNames()


def _cell_magic(source: str) -> tuple[str, CellNames]:
    first, _, body = source.partition("\n")
    name, _, rest = first[2:].strip().partition(" ")
    if name == "vibe":
        return "", CellNames(is_prompt=True)
    if name in _CODE_MAGICS:
        code, found = python_of(body)
        steps = found.steps
        if name == "capture":
            steps = (*steps, *(NameStep(Act.BIND, one) for one in _CAPTURED.findall(rest.split("--")[0])[:1]))
        one_line = _OPTIONS.sub("", rest) if name == "time" and not body.strip() else ""
        return one_line or code, CellNames(steps, unknown=found.unknown, is_prompt=found.is_prompt)
    if name in _QUIET_CELL_MAGICS:
        bound = re.findall(r"--(?:out|err)[ \t]+(\w+)", rest)
        return "", CellNames(tuple(NameStep(Act.BIND, one) for one in bound), frozenset(bound))
    return "", CellNames(unknown=f"what the cell magic %%{name} does with names is not known")


def _without_line_magics(source: str) -> tuple[str, CellNames]:
    lines: list[str] = []
    unknown = ""
    is_prompt = False
    for line in re.sub(r"^([ \t]*(?:\w+[ \t]*=[ \t]*)?[!%].*)\\\n", r"\1 ", source, flags=re.MULTILINE).split("\n"):
        if found := _LINE_MAGIC.match(line):
            name = found["name"]
            if name == "vibe":
                is_prompt = True
            elif name in _RUNNING_MAGICS:
                unknown = unknown or f"what the magic %{name} does with names is not known"
            lines.append(_line_of_magic(found))
        elif found := _COMMAND.match(line):
            lines.append(_assigned(found["lead"], found["target"], _expanded(found["rest"])))
        elif _HELP.match(line):
            lines.append(f"{line[: len(line) - len(line.lstrip())]}pass")
        else:
            lines.append(line)
    return "\n".join(lines), CellNames(unknown=unknown, is_prompt=is_prompt)


def _line_of_magic(found: "re.Match[str]") -> str:
    name, rest, target = found["name"], found["rest"], found["target"]
    lead = found["lead"]
    if name in _CODE_MAGICS:
        return f"{lead}{_OPTIONS.sub('', rest) or 'None'}"
    indent = lead[: len(lead) - len(lead.lstrip())]
    if name == "store" and (stored := _STORED.search(rest)):
        return indent + "; ".join(f"{one} = object()" for one in stored[1].split())
    return _assigned(indent, target, _expanded(rest))


def _assigned(indent: str, target: str | None, used: str) -> str:
    return f"{indent}{target.strip()} = {used}" if target else f"{indent}{used}"


def _expanded(command: str) -> str:
    """Return the expressions that IPython expands in a command, as one expression."""
    used: list[str] = []
    for braced, plain in _EXPANDED.findall(command):
        try:
            ast.parse(code := braced or plain, mode="eval")
        except NOT_PARSED:
            continue
        used.append(code)
    return f"str(({', '.join(used)},))" if used else "str()"
