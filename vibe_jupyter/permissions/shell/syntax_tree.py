"""A command line as the second reader, tree-sitter's grammar of bash, sees it."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

NESTED_LIMIT: Final = 2_000
"""Characters of a command that nests which are parsed: error recovery takes time that grows with the square."""
OPENERS_LIMIT: Final = 60
"""Opening marks in such a command."""
_OPENERS: Final = "({[`<"
_FOREIGN: Final = re.compile(r"[^\t\n\x20-\x7e]")


def is_too_much(command: str) -> bool:
    """Whether parsing it could take long, where it is not known to be of a plain form."""
    return len(command) > NESTED_LIMIT or sum(map(command.count, _OPENERS)) > OPENERS_LIMIT


def parse_command(command: str) -> Node:
    """What the second reader sees, with one ASCII letter for each other character.

    The grammar's scanner reads past its tables at a letter above 255, which can end the process (tree-sitter-bash
    0.25.1). All of them are letters to bash, too.
    """
    return _bash_parser().parse(_FOREIGN.sub("x", command).encode()).root_node


def node_text(node: Node, command: str) -> str:
    """The part of the command itself: what was parsed has one byte for each of its characters."""
    return command[node.start_byte : node.end_byte]


def walk_nodes(root: Node) -> Iterator[Node]:
    """It and everything in it, in the order in which it is written."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


@cache
def _bash_parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))
