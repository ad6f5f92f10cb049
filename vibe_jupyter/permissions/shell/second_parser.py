"""A second reader, tree-sitter's grammar of bash: it must see the same commands, and it sees into what nests."""

import re
from collections.abc import Iterator
from functools import cache
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from vibe_jupyter.permissions.shell.command_line import Command, Lines, Loop, parts_of

NESTED_LIMIT: Final = 2_000
"""Characters of a command that nests which are parsed: error recovery takes time that grows with the square."""
_OPENERS: Final = "({[`<"
_QUOTES: Final = re.compile(r"""['"\\]""")
_FOREIGN: Final = re.compile(r"[^\t\n\x20-\x7e]")
OPENERS_LIMIT: Final = 60
"""Opening marks in such a command."""
_FORM: Final = frozenset(
    {
        *("program", "list", "pipeline", "command", "command_name", "redirected_statement", "comment"),
        *("word", "number", "string", "string_content", "raw_string", "concatenation", "file_descriptor"),
        *("file_redirect", "heredoc_redirect", "heredoc_start", "heredoc_body", "heredoc_end"),
        *("for_statement", "for", "in", "variable_name", "do_group", "do", "done", "if_statement", "if", "then", "fi"),
        *("elif_clause", "elif", "else_clause", "else", "negated_command", "!", "compound_statement", "{", "}"),
        *("simple_expansion", "expansion", "${", "special_variable_name", "brace_expression", ".."),
        *("test_command", "[", "]", "unary_expression", "binary_expression", "test_operator", "=", "!=", "=="),
        *(";", "\n", "&&", "||", "|", ">", ">>", "<", ">&", "&>", "&>>", "<<", "<<-", '"', "$"),
    }
)
"""Kinds of nodes a line of simple commands is made of."""
_WORDS: Final = frozenset(
    {
        *("command_name", "word", "number", "string", "raw_string", "concatenation"),
        *("simple_expansion", "expansion", "brace_expression"),
    }
)
_BLANKS: Final = re.compile(r"[ \t\n]+")


def same_commands(command: str, lines: Lines) -> bool:
    """Whether the second reader sees nothing but these commands and loops, word for word."""
    root = _parse_command(command)
    if root.has_error:
        return False
    nodes = list(_walk_nodes(root))
    if any(node.type not in _FORM for node in nodes if not _is_in_test(node)):
        return False
    found = sorted((word for node in nodes for word in _words_in(node)), key=lambda word: word[0])
    return [word[1:] for word in found] == [(kind, _replace_foreign(text)) for kind, text in _expected(lines)]


def _expected(lines: Lines) -> Iterator[tuple[bool, str]]:
    for part in parts_of(lines):
        if isinstance(part, Loop):
            yield True, part.name
            yield from ((False, word.raw) for word in part.words)
        elif isinstance(part, Command):
            words = [word.raw for word in part.words]
            if words[0] == "[":
                yield True, _BLANKS.sub(" ", " ".join(words))
                continue
            yield from ((at == 0, word) for at, word in enumerate(["time", *words] if part.timed else words))


def _is_in_test(node: Node) -> bool:
    above = node.parent
    while above is not None and above.type != "test_command":
        above = above.parent
    return above is not None


def nested_commands(command: str) -> list[list[str]]:
    """The words of every command in it, those in loops, functions and substitutions too; none if it is too much."""
    if _is_too_much(command):
        return []
    return [_node_words(node) for node in _walk_nodes(_parse_command(command)) if node.type == "command"]


def named_words(command: str) -> list[str]:
    """The arguments and the files of redirections, those in loops, functions and substitutions too.

    None if it is too much, and no variable is filled in: what it does not name may be reached all the same.
    """
    if _is_too_much(command):
        return []
    nodes = _walk_nodes(_parse_command(command))
    texts = [(node.text or b"").decode(errors="replace") for node in nodes if _is_argument(node)]
    return list(dict.fromkeys(_QUOTES.sub("", text) for text in texts))


def _is_argument(node: Node) -> bool:
    above = node.parent.type if node.parent is not None else ""
    return node.type in _WORDS and node.type != "command_name" and above not in ("command_name", "concatenation")


def _is_too_much(command: str) -> bool:
    return len(command) > NESTED_LIMIT or sum(map(command.count, _OPENERS)) > OPENERS_LIMIT


def _parse_command(command: str) -> Node:
    return _bash_parser().parse(_replace_foreign(command).encode()).root_node


def _replace_foreign(text: str) -> str:
    """With a letter for each other character: the grammar's scanner reads past its tables at one above 255.

    That ends the process (tree-sitter-bash 0.25.1). All of them are letters to bash, too.
    """
    return _FOREIGN.sub("x", text)


@cache
def _bash_parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def _walk_nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def _words_in(node: Node) -> Iterator[tuple[int, bool, str]]:
    """Where each word of a command begins, whether it is the command's name, and the word.

    What follows a redirection stands in the tree below the redirection.
    """
    if node.type == "test_command":
        yield node.start_byte, True, _BLANKS.sub(" ", (node.text or b"").decode(errors="replace"))
    if node.type == "for_statement":
        for child in node.children:
            if child.type in _WORDS or child.type == "variable_name":
                yield child.start_byte, child.type == "variable_name", (child.text or b"").decode(errors="replace")
    if node.type not in ("command", "file_redirect", "heredoc_redirect"):
        return
    words = [child for child in node.children if child.type in _WORDS]
    for child in words[1:] if node.type == "file_redirect" else words:
        yield child.start_byte, child.type == "command_name", (child.text or b"").decode(errors="replace")


def _node_words(node: Node) -> list[str]:
    out: list[str] = []
    for child in node.children:
        if child.type not in ("file_redirect", "heredoc_redirect", "variable_assignment"):
            out.append((child.text or b"").decode(errors="replace"))
    return out
