"""What the code of a cell reads, binds and changes, by its syntax tree and in the order in which it happens.

Nothing is run or imported. What a function reads is read where its name is used, and not where it is defined.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from vibe_jupyter.notebook.cell_magics import NOT_PARSED, parse_quietly, python_of
from vibe_jupyter.notebook.name_steps import BUILTINS, Act, CellNames, NameStep
from vibe_jupyter.notebook.name_walk import StatementWalk

CACHED: Final = 5_000
"""Sources whose names are kept."""


@lru_cache(maxsize=CACHED)
def cell_names(source: str) -> CellNames:
    """The names of one cell of code."""
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
    """The names that a cell reads before it binds them itself, in the order of the first look."""
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
    """Whether a cell gives a prompt to the agent. Most cells are not parsed for it."""
    return "vibe" in source and cell_names(source).is_prompt


@lru_cache(maxsize=CACHED)
def code_shape(source: str) -> str:
    """Equal for sources that differ in comments and blank space alone."""
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
