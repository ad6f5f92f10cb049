"""Parse a command line with tree-sitter's bash grammar, as an independent second opinion."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

NESTED_LIMIT: Final = 2_000  # characters of a complex command: tree-sitter's error recovery takes quadratic time
OPENERS_LIMIT: Final = 60  # opening brackets in such a command
_OPENERS: Final = "({[`<"
_FOREIGN: Final = re.compile(r"[^\t\n\x20-\x7e]")


def is_too_much(command: str) -> bool:
    """Return whether parsing could take long. Only relevant to commands outside the supported grammar."""
    return len(command) > NESTED_LIMIT or sum(map(command.count, _OPENERS)) > OPENERS_LIMIT


def parse_command(command: str) -> Node:
    """Parse a command, with each non-ASCII character replaced by a letter.

    The grammar's scanner reads past its tables at a character above 255, which can crash the process (tree-sitter-bash
    0.25.1). bash treats all of them as letters, too.
    """
    return _bash_parser().parse(_FOREIGN.sub("x", command).encode()).root_node


def node_text(node: Node, command: str) -> str:
    """Return a node's part of the original command. Byte offsets are valid because the parsed text is ASCII."""
    return command[node.start_byte : node.end_byte]


def walk_nodes(root: Node) -> Iterator[Node]:
    """Yield a node and its descendants in source order."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


@cache
def _bash_parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))
