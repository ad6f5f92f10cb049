"""Split a command line into parts to explain: each command, its redirections, and how it is joined to the previous one.

It accepts far more than `command_line`, since nothing is allowed on its basis. A part that it can't parse has no words.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from tree_sitter import Node

from vibe_jupyter.permissions.shell.syntax_tree import is_too_much, node_text, parse_command

# Operator before a part; `$(` for a part whose output is used by another.
Join = Literal["", ";", "&&", "||", "|", "&", "$("]

PARTS_LIMIT: Final = 60  # parts that are explained individually
_SEPARATORS: Final[dict[str, Join]] = {
    **{";": ";", "\n": ";", ";;": ";", "&&": "&&", "||": "||", "&": "&"},
    **{"|": "|", "|&": "|"},
}
_SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})
_REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_BLOCKS: Final = frozenset({"for_statement", "c_style_for_statement", "while_statement"})
_BRANCHES: Final = frozenset(
    {"if_statement", "case_statement", "elif_clause", "else_clause", "case_item", "function_definition"}
)
_GROUPS: Final = frozenset(
    {"program", "do_group", "compound_statement", "subshell", "negated_command", "list", "pipeline"}
)
_PLAIN: Final = frozenset({"word", "number", "string_content", "raw_string"})


class WordOfPart(NamedTuple):
    """A word of a command, with its expansion as far as it is known."""

    raw: str  # as written
    text: str  # without quotes
    literal: bool  # False if the shell substitutes a value unknown here
    wild: bool = False  # True for a glob


class Redirection(NamedTuple):
    """An output redirection."""

    operator: str
    target: WordOfPart


@dataclass
class CommandPart:
    raw: str  # as written, without redirections
    words: list[WordOfPart]  # command name and arguments, empty if the part isn't a simple command
    join: Join = ""
    repeated: bool = False  # True inside a loop
    conditional: bool = False  # True inside a branch
    redirections: list[Redirection] = field(default_factory=list[Redirection])
    fed: bool = False  # True if standard input is a pipe, a file or a here-document
    assigns: tuple[str, ...] = ()  # variables assigned before the command or by it


class _TooManyPartsError(Exception):
    pass


def command_parts(command: str, *, plain: bool) -> tuple[CommandPart, ...] | None:
    """Return the parts in the order written, or None if they can't be determined.

    Args:
        command: The command line.
        plain: Whether it is known to parse quickly.
    """
    if not plain and is_too_much(command):
        return None
    root = parse_command(command)
    if root.has_error:
        return None
    reading = _PartReading(command)
    try:
        reading.read(root, "")
    except _TooManyPartsError:
        return None
    return tuple(reading.parts) or None


@dataclass
class _PartReading:
    command: str
    parts: list[CommandPart] = field(default_factory=list[CommandPart])
    _loops: int = 0
    _branches: int = 0

    def read(self, node: Node, join: Join) -> None:
        """Add the commands of a node that follows the operator `join`."""
        if node.type in _GROUPS:
            self._read_group(node, join)
        elif node.type == "redirected_statement":
            self._read_redirected(node, join)
        elif node.type == "command":
            self._read_command(node, join)
        elif node.type in _BLOCKS:
            self._loops += 1
            self._read_group(node, join)
            self._loops -= 1
        elif node.type in _BRANCHES:
            self._branches += 1
            self._read_group(node, join)
            self._branches -= 1
        elif node.type in ("variable_assignment", "variable_assignments", "declaration_command", "unset_command"):
            self._read_inner(node)
            names = tuple(node_text(one, self.command) for one in _descendants(node) if one.type == "variable_name")
            self._add(CommandPart(node_text(node, self.command), [], join, assigns=names))
        elif node.type == "test_command":
            self._read_inner(node)
            self._add(CommandPart(node_text(node, self.command), [WordOfPart("test", "test", literal=True)], join))
        elif node.is_named and node.type not in ("comment", "variable_name", *_PLAIN):
            self._read_other(node, join)

    def _read_other(self, node: Node, join: Join) -> None:
        """Add a node that isn't a command with words."""
        if node.type in ("string", "concatenation", "simple_expansion", "expansion", *_SUBSTITUTIONS):
            self._read_inner(node)  # a word of a loop, say
        else:
            self._add(CommandPart(node_text(node, self.command), [], join))

    def _read_group(self, node: Node, join: Join) -> None:
        for child in node.children:
            if child.type in _SEPARATORS and not child.is_named:
                join = _SEPARATORS[child.type]
                continue
            before = len(self.parts)
            self.read(child, join)
            if len(self.parts) > before:
                join = ";"

    def _read_redirected(self, node: Node, join: Join) -> None:
        for child in node.children:
            if child.type not in _REDIRECTS:
                self.read(child, join)
        if not self.parts or not any(child.type not in _REDIRECTS for child in node.children):
            self._add(CommandPart(node_text(node, self.command), [], join))
        last = self.parts[-1]
        for child in node.children:
            if child.type == "file_redirect":
                self._redirect(last, child)
            elif child.type in _REDIRECTS:
                last.fed = True
                self._read_inner(child)
            if child.type == "heredoc_redirect":
                self._read_after_heredoc(last, child)

    def _read_after_heredoc(self, part: CommandPart, node: Node) -> None:
        """Add the rest of the line after ``<<END``, which tree-sitter nests below the here-document."""
        join: Join = ";"
        for child in node.children:
            if child.type == "file_redirect":
                self._redirect(part, child)
            elif child.type in _SEPARATORS and not child.is_named:
                join = _SEPARATORS[child.type]
            elif child.type in ("pipeline", "list", "command", "redirected_statement"):
                self.read(child, join)

    def _redirect(self, part: CommandPart, node: Node) -> None:
        words = [self._word(child) for child in node.children if child.is_named and child.type != "file_descriptor"]
        operator = next((child.type for child in node.children if not child.is_named), ">")
        self._read_inner(node)
        if operator in ("<", "<&"):
            part.fed = True
        elif words and not (operator == ">&" and words[0].text.isdecimal()):
            part.redirections.append(Redirection(operator, words[0]))
        part.words += words[1:]

    def _read_command(self, node: Node, join: Join) -> None:
        self._read_inner(node)
        words: list[WordOfPart] = []
        assigns: list[str] = []
        part = CommandPart(node_text(node, self.command), words, join, fed=join == "|")
        for child in node.children:
            if child.type == "variable_assignment":
                assigns.append(node_text(child.children[0], self.command))
            elif child.type == "command_name":
                words.append(self._word(child.children[0] if child.children else child))
            elif child.type == "file_redirect":
                self._redirect(part, child)
            elif child.type in _REDIRECTS:
                part.fed = True
            else:
                words.append(self._word(child))
        part.assigns = tuple(assigns)
        self._add(part)

    def _read_inner(self, node: Node) -> None:
        """Add the commands substituted into a command's words."""
        for child in node.children:
            if child.type in _SUBSTITUTIONS:
                for inner in child.children:
                    self.read(inner, "$(")
            elif child.type not in ("command", "pipeline", "list"):
                self._read_inner(child)

    def _add(self, part: CommandPart) -> None:
        if len(self.parts) >= PARTS_LIMIT:
            raise _TooManyPartsError
        if not self.parts and part.join != "$(":
            part.join = ""  # the node before it runs nothing, as in ``for name in a b;``
        part.repeated, part.conditional = self._loops > 0, self._branches > 0
        self.parts.append(part)

    def _word(self, node: Node) -> WordOfPart:
        raw = node_text(node, self.command)
        pieces = list(_word_pieces(node, self.command))
        if any(piece is None for piece in pieces):
            return WordOfPart(raw, raw, literal=False)
        text = "".join(piece.text for piece in pieces if piece)
        wild = any(piece.wild for piece in pieces if piece)
        braces = any(piece and not piece.quoted and "{" in piece.text and raw != "{}" for piece in pieces)
        if raw.startswith("~"):
            text = os.path.expanduser(text)
        return WordOfPart(raw, text, literal=not braces, wild=wild)


class _WordPiece(NamedTuple):
    text: str
    quoted: bool
    wild: bool = False


def _word_pieces(node: Node, command: str) -> Iterator[_WordPiece | None]:
    """Yield the pieces of a word, with None for a piece of unknown value."""
    text = node_text(node, command)
    match node.type:
        case "word" | "number" | "test_operator":
            plain = text.replace("\\\n", "").replace("\\", "")
            yield _WordPiece(plain, quoted=False, wild="\\" not in text and any(mark in text for mark in "*?["))
        case "raw_string":
            yield _WordPiece(text[1:-1], quoted=True)
        case "string_content":
            yield _WordPiece(text.replace('\\"', '"').replace("\\\\", "\\"), quoted=True)
        case "string" | "concatenation":
            # Text between the named children of a string, such as blanks, belongs to it as well.
            named = [child for child in node.children if child.is_named]
            if node.type == "string" and all(child.type == "string_content" for child in named):
                inner = text[1:-1]
                yield _WordPiece(inner.replace('\\"', '"').replace("\\\\", "\\"), quoted=True)
                return
            for child in named:
                yield from _word_pieces(child, command)
        case _:
            yield None


def _descendants(node: Node) -> Iterator[Node]:
    for child in node.children:
        yield child
        yield from _descendants(child)


def shell_words(words: Sequence[WordOfPart]) -> str:
    return " ".join(word.raw for word in words)
