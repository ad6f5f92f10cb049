"""The parts of a command line, for explaining it: each command, its redirections, what joins it to the one before.

It takes far more than `command_line` does, since nothing is allowed because of it: what it cannot read stays a part
without words.
"""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from tree_sitter import Node

from vibe_jupyter.permissions.shell.syntax_tree import is_too_much, node_text, parse_command

Join = Literal["", ";", "&&", "||", "|", "&", "$("]
"""What stands between a part and the one before it; ``$(`` for a part whose output another part uses."""

PARTS_LIMIT: Final = 60
"""Parts that are explained one by one."""
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
    """One word of a command, as far as it can be told what the shell makes of it."""

    raw: str
    """As written."""
    text: str
    """Without quotes."""
    literal: bool
    """False where the shell puts a value in that is not known here."""
    wild: bool = False
    """Whether it is a glob."""


class Redirection(NamedTuple):
    """Where output of a command goes."""

    operator: str
    target: WordOfPart


@dataclass
class CommandPart:
    """One command of a command line."""

    raw: str
    """As written, without its redirections."""
    words: list[WordOfPart]
    """Its name first; empty where it is no command of words."""
    join: Join = ""
    repeated: bool = False
    """Whether it stands in a loop."""
    conditional: bool = False
    """Whether it stands in a branch."""
    redirections: list[Redirection] = field(default_factory=list[Redirection])
    fed: bool = False
    """Whether its input is a pipe, a file or a here-document."""
    assigns: tuple[str, ...] = ()
    """Variables that are set for it, or by it."""


class _TooManyPartsError(Exception):
    pass


def command_parts(command: str, *, plain: bool) -> tuple[CommandPart, ...] | None:
    """The parts in the order in which they are written; None where they cannot be told apart.

    Args:
        command: the whole line.
        plain: whether it is known to be of a form that is parsed quickly.
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
        """Add what a node runs, which follows `join`."""
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
        """A form that has no words here."""
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
        """What follows ``<<END`` in its line stands in the tree below it."""
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
        """What the words of a command run to be made."""
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
            part.join = ""  # what stands before it runs nothing: ``for name in a b;``
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
    """None for a piece whose value is not known."""
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
            # What lies between the pieces of a string, such as blanks, belongs to it too.
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
    """The words as they are written."""
    return " ".join(word.raw for word in words)
