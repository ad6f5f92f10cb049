"""Parser for a small subset of bash. Turns a command line into simple commands and their words.

Whatever it accepts, bash reads the same way. Everything else is refused.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from vibe_jupyter.permissions.shell import UnknownCommand

LENGTH_LIMIT: Final = 20_000  # characters; longer commands ask
COMMANDS_LIMIT: Final = 50  # simple commands per command line
WORDS_LIMIT: Final = 2_000  # words per command line
DEPTH_LIMIT: Final = 5  # nesting depth of loops and branches
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*(\[.*\])?\+?=", re.ASCII)
_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SEPARATORS: Final = (";", "\n")
_CONNECTORS: Final = ("&&", "||")
# Words with a special meaning at the beginning of a command.
_RESERVED: Final = frozenset(
    {
        *("then", "elif", "else", "fi", "do", "done", "esac", "in", "}", "case", "while", "until", "select"),
        *("function", "coproc", "[[", "]]"),
    }
)

TokenKind = Literal["word", "operator", "input", "from", "quiet"]
AtomKind = Literal["plain", "quoted", "variable", "quoted variable", "{", "}"]
ALTERNATIVES_LIMIT: Final = 50  # words that the braces of one word may expand to

_END: Final = r"(?=[ \t\n;|&]|$)"
_TOKEN: Final = re.compile(
    rf"""
    (?P<blank>[ \t]+ | (?<=[ \t])\\\n | (?<![^\n])\\\n)
  | (?P<comment>\#[^\n]*)
  | (?P<quiet>(?:2>&1|1?>&2){_END} | (?:[12]?>>?|&>>?)[ \t]*/dev/null{_END})
  | (?P<input>0?<[ \t]*/dev/null{_END})
  | (?P<here><<-?[ \t]*(?:'[\w.-]+'|"[\w.-]+"|\\\w[\w.-]*){_END})
  | (?P<from>0?<(?![<>(&])[ \t]*)
  | (?P<operator>&&|\|\||\|(?!&)|;(?!;)|\n)
    """,
    re.VERBOSE | re.ASCII,
)
_PIECE: Final = re.compile(
    r"""
    (?P<braced>(?<=[@^])\{[A-Za-z0-9_:+/-]*\})
  | (?P<plain>[A-Za-z0-9_@%+=:,./\-^!\#*?\[\]~]+)
  | (?P<foreign>[^\x00-\x7f]+)
  | (?P<single>'[^']*')
  | (?P<double>"(?:[^"\\$`]|\\[^\n]|\$(?=["\ |)])|\$(?:[A-Za-z_]|\{[A-Za-z_]\w*\}|\?))*")
  | (?P<escaped>\\[\x21-\x7e\ \t])
  | (?P<end>\$(?=[ \t\n]|$))
  | (?P<variable>\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\}|\?))
  | (?P<open>\{)
  | (?P<close>\})
    """,
    re.VERBOSE | re.ASCII,
)
_VARIABLE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\}|(\?))", re.ASCII)
_RANGE: Final = re.compile(r"(-?\d{1,4})\.\.(-?\d{1,4})", re.ASCII)
# Values that the shell substitutes unchanged even without quotes.
_UNSPLIT: Final = re.compile(r"[\w./+:@%,=-]+", re.ASCII)
_UNQUOTED: Final = re.compile(r'\\([$`"\\])')
_TILDE: Final = re.compile(r"(?:^|[=:])~")
_WILD: Final = "*?["
_UNKNOWN: Final[dict[str, UnknownCommand]] = {
    "$": UnknownCommand("expansion", "the shell would substitute a value for $…"),
    "`": UnknownCommand("expansion", "the shell would run what is in backticks"),
    ">": UnknownCommand("redirection", "its output is redirected"),
    "<": UnknownCommand("redirection", "its input is redirected"),
    "&": UnknownCommand("syntax", "a part of it runs in the background"),
    "(": UnknownCommand("syntax", "a part of it runs in a subshell"),
    "|": UnknownCommand("redirection", "its error output is redirected"),
    "'": UnknownCommand("syntax", "a quote is not closed"),
    '"': UnknownCommand("expansion", "the shell would put a value inside double quotes, or a quote is not closed"),
}


@dataclass(frozen=True, slots=True)
class ShellWord:
    """A word after expansion."""

    raw: str  # as written
    text: str  # without quotes
    wild: frozenset[int] = frozenset()  # offsets in `text` of unquoted `*`, `?` and `[`; empty for a literal word


@dataclass(frozen=True, slots=True)
class Atom:
    """Part of a word as written."""

    kind: AtomKind
    text: str  # without quotes; for a variable, its name


@dataclass(frozen=True, slots=True)
class Written:
    """A word before expansion."""

    raw: str
    atoms: tuple[Atom, ...]

    @property
    def is_literal(self) -> bool:
        """True if the word contains no variables or braces. It may contain globs."""
        return all(atom.kind in ("plain", "quoted") for atom in self.atoms)

    @property
    def variables(self) -> frozenset[str]:
        """Names of the variables in the word."""
        return frozenset(atom.text for atom in self.atoms if atom.kind in ("variable", "quoted variable"))

    def words(self, values: Mapping[str, str]) -> list[ShellWord]:
        """Expand variables and braces, but not globs.

        Raises:
            UnknownCommand: The word contains a variable without a value, or can't be parsed with certainty.
        """
        return [_joined(self.raw, atoms, values) for atoms in _alternatives(self.atoms)]


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command as written."""

    words: tuple[Written, ...]
    fed: bool  # True if standard input is a here-document, /dev/null or a file
    files: tuple[Written, ...] = ()  # files redirected to standard input
    timed: bool = False  # True if prefixed with `time`
    mixed: bool = False  # True if standard error is redirected to standard output


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop ``for NAME in WORDS; do BODY; done``."""

    name: str
    words: tuple[Written, ...]
    body: "Lines"


@dataclass(frozen=True, slots=True)
class Branches:
    """Lists of commands that each may run or not, from an ``if`` or a ``{ … }`` group."""

    bodies: "tuple[Lines, ...]"


Part = Command | Loop | Branches
Pipeline = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """Pipelines joined by ``&&`` and ``||``."""

    pipelines: tuple[Pipeline, ...]
    connectors: tuple[str, ...]


Lines = tuple[Chain, ...]


def command_line(command: str) -> Lines:
    """Parse a command line.

    Raises:
        UnknownCommand: It exceeds the supported grammar or the limits, or can't be parsed with certainty.
    """
    if not command.strip(" \t\n"):
        raise UnknownCommand("syntax", "it is empty")
    if len(command) > LENGTH_LIMIT:
        raise UnknownCommand("length", f"it has more than {LENGTH_LIMIT:,} characters")
    if not command.translate({9: None, 10: None}).isprintable():
        raise UnknownCommand("characters", "it holds control characters or invisible ones")
    read: list[ShellToken] = []
    for token in read_tokens(command):
        read.append(token)
        if len(read) > WORDS_LIMIT:
            raise UnknownCommand("length", f"it holds more than {WORDS_LIMIT:,} words")
    lines = _Reading(read).whole()
    if not lines:
        raise UnknownCommand("syntax", "it is empty")
    if sum(isinstance(part, Command) for part in parts_of(lines)) > COMMANDS_LIMIT:
        raise UnknownCommand("length", f"it holds more than {COMMANDS_LIMIT} commands")
    return lines


def parts_of(lines: Iterable[Chain]) -> Iterator[Part]:
    """Yield all commands, loops and branches in the order written, a loop before its body."""
    for chain in lines:
        for pipeline in chain.pipelines:
            for part in pipeline:
                yield part
                if isinstance(part, Loop):
                    yield from parts_of(part.body)
                elif isinstance(part, Branches):
                    for body in part.bodies:
                        yield from parts_of(body)


@dataclass(frozen=True, slots=True)
class ShellToken:
    """A word, an operator or a redirection that writes nothing. ``input`` and ``from`` redirect standard input."""

    kind: TokenKind
    word: Written


@dataclass
class _Reading:
    """Recursive-descent parser of tokens, at most `DEPTH_LIMIT` levels deep."""

    waiting: list[ShellToken]
    _at: int = 0
    _depth: int = field(default=0)
    # Variables of the enclosing loops. A nested loop over the same variable is refused: it would change the value
    # afterward.
    _names: list[str] = field(default_factory=list[str])

    def whole(self) -> Lines:
        lines = self._lines(())
        if self._at < len(self.waiting):
            raise UnknownCommand("syntax", f"{self.waiting[self._at].word.raw[:20]!r} is in an unexpected place")
        return lines

    def _next_word(self) -> str:
        """Return the next word as written, or '' if the next token isn't a word."""
        token = self._peek()
        return token.word.raw if token is not None and token.kind == "word" else ""

    def _next_operator(self) -> str:
        token = self._peek()
        return token.word.raw if token is not None and token.kind == "operator" else ""

    def _peek(self) -> ShellToken | None:
        return self.waiting[self._at] if self._at < len(self.waiting) else None

    def _expect(self, *words: str) -> str:
        word = self._next_word()
        if word not in words:
            raise UnknownCommand("syntax", f"{' or '.join(words)!r} is missing")
        self._at += 1
        return word

    def _skip(self, *operators: str) -> None:
        while self._next_operator() in operators:
            self._at += 1

    def _lines(self, ends: tuple[str, ...]) -> Lines:
        chains: list[Chain] = []
        self._skip("\n")
        while self._peek() is not None and self._next_word() not in ends:
            chains.append(self._chain())
            if self._next_operator() not in _SEPARATORS:
                break
            self._at += 1
            self._skip("\n")
        return tuple(chains)

    def _body(self, *ends: str) -> Lines:
        """Parse lines up to one of the words `ends`, which isn't consumed."""
        lines = self._lines(ends)
        if not lines or self._next_word() not in ends:
            raise UnknownCommand("syntax", f"{' or '.join(ends)!r} is missing")
        return lines

    def _chain(self) -> Chain:
        pipelines = [self._pipeline()]
        connectors: list[str] = []
        while (operator := self._next_operator()) in _CONNECTORS:
            self._at += 1
            self._skip("\n")
            connectors.append(operator)
            pipelines.append(self._pipeline())
        return Chain(tuple(pipelines), tuple(connectors))

    def _pipeline(self) -> Pipeline:
        negated = self._next_word() == "!"
        if negated:
            self._at += 1
        parts = [self._part()]
        while self._next_operator() == "|":
            self._at += 1
            self._skip("\n")
            parts.append(self._part())
        if negated and any(isinstance(part, Command) and part.words[0].raw == "cd" for part in parts):
            raise UnknownCommand("name", "it changes the folder in a way that is not followed")
        return tuple(parts)

    def _part(self) -> Part:
        word = self._next_word()
        if word in _RESERVED:
            raise UnknownCommand("syntax", f"{word!r} is not known here")
        if word not in ("for", "if", "{"):
            return self._command()
        self._depth += 1
        if self._depth > DEPTH_LIMIT:
            raise UnknownCommand("syntax", f"more than {DEPTH_LIMIT} loops and branches are nested")
        self._at += 1
        part = self._loop() if word == "for" else self._branches() if word == "if" else self._group()
        self._depth -= 1
        while (token := self._peek()) is not None and token.kind == "quiet":
            self._at += 1
        if (token := self._peek()) is not None and token.kind != "operator" and token.word.raw not in _RESERVED:
            raise UnknownCommand("syntax", f"it is unclear what {token.word.raw[:20]!r} stands for")
        return part

    def _loop(self) -> Loop:
        name = self._next_word()
        if not _NAME.fullmatch(name) or name.isupper() or name == "_" or name in self._names:
            raise UnknownCommand("expansion", f"it sets {name[:40]}")
        self._at += 1
        self._expect("in")
        words: list[Written] = []
        while (token := self._peek()) is not None and token.kind == "word":
            words.append(token.word)
            self._at += 1
        if self._next_operator() not in _SEPARATORS:
            raise UnknownCommand("syntax", "'do' is missing")
        self._at += 1
        self._skip("\n")
        self._expect("do")
        self._names.append(name)
        body = self._body("done")
        self._names.pop()
        self._at += 1
        return Loop(name, tuple(words), body)

    def _branches(self) -> Branches:
        bodies = [self._body("then")]
        self._at += 1
        bodies.append(self._body("elif", "else", "fi"))
        while (word := self._expect("elif", "else", "fi")) != "fi":
            if word == "elif":
                bodies.append(self._body("then"))
                self._at += 1
                bodies.append(self._body("elif", "else", "fi"))
            else:
                bodies.append(self._body("fi"))
        return Branches(tuple(bodies))

    def _group(self) -> Branches:
        body = self._body("}")
        self._at += 1
        return Branches((body,))

    def _command(self) -> Command:
        words: list[Written] = []
        files: list[Written] = []
        fed = redirected = mixed = False
        while (token := self._peek()) is not None and token.kind != "operator":
            self._at += 1
            if token.kind == "word":
                words.append(token.word)
                continue
            redirected = True
            fed = fed or token.kind in ("input", "from")
            mixed = mixed or token.word.raw == "2>&1"
            if token.kind == "from":
                files.append(token.word)
        if not words:
            about = "a redirection has no command" if redirected else f"nothing is next to {self._next_operator()!r}"
            raise UnknownCommand("syntax", about)
        timed = len(words) > 1 and words[0].raw == "time"
        words = words[1:] if timed else words
        if _ASSIGNMENT.match(words[0].raw):
            raise UnknownCommand("expansion", f"it sets {words[0].raw.partition('=')[0]}")
        return Command(tuple(words), fed, tuple(files), timed, mixed)


def read_tokens(command: str) -> Iterator[ShellToken]:
    """Yield words, operators and harmless redirections in order, without the bodies of here-documents.

    Raises:
        UnknownCommand: It contains anything outside the supported grammar.
    """
    position = 0
    pending = ""
    while position < len(command):
        match = _TOKEN.match(command, position)
        kind = str(match.lastgroup) if match is not None else "word"
        if match is None or kind == "from":
            start = position if match is None else match.end()
            word = _read_word(command, start)
            position = start + len(word.raw)
            _check_place(command, position, word, inside_here=bool(pending))
            yield ShellToken("word" if match is None else "from", word)
            continue
        position = match.end()
        text = match.group()
        if kind == "here":
            pending = _only_redirection(pending, text)
            yield ShellToken("input", Written(text, ()))
        elif kind == "operator":
            yield ShellToken("operator", Written(text, ()))
        elif kind in ("quiet", "input"):
            yield ShellToken("quiet" if kind == "quiet" else "input", Written(text, ()))
        if pending and text == "\n":
            position, pending = _after_body(command, position, pending), ""
    if pending:
        raise UnknownCommand("syntax", "a here-document has no end")


def _check_place(command: str, end: int, word: Written, *, inside_here: bool) -> None:
    if word.raw.isdigit() and command[end : end + 1] in ("<", ">"):
        raise UnknownCommand("redirection", f"descriptor {word.raw} is redirected")
    if word.raw.startswith("{") and word.raw.endswith("}") and command[end : end + 1] in ("<", ">"):
        raise UnknownCommand("expansion", f"its redirection may set {word.raw.strip('{}')[:40]}")
    if inside_here and "\n" in word.raw:
        raise UnknownCommand("syntax", "a quoted line end comes before a here-document")


def _only_redirection(pending: str, redirection: str) -> str:
    if pending:
        raise UnknownCommand("syntax", "it has several here-documents in one line")
    return redirection


def _after_body(command: str, position: int, redirection: str) -> int:
    tabs = redirection.startswith("<<-")
    delimiter = redirection.lstrip("<-").strip(" \t\\'\"") if tabs else redirection[2:].strip(" \t\\'\"")
    while position < len(command):
        end = command.find("\n", position)
        end = len(command) if end < 0 else end
        line = command[position:end]
        position = end + 1
        if (line.lstrip("\t") if tabs else line) == delimiter:
            return min(position, len(command))
    raise UnknownCommand("syntax", "a here-document has no end")


def _read_word(command: str, start: int) -> Written:
    position = start
    atoms: list[Atom] = []
    while match := _PIECE.match(command, position):
        atoms += _atoms(match)
        position = match.end()
    if position < len(command) and not _TOKEN.match(command, position):
        raise _unreadable_word(command, position)
    if position == start:
        raise _unreadable_word(command, position)
    return Written(command[start:position], tuple(atoms))


def _atoms(match: re.Match[str]) -> list[Atom]:
    text = match.group()
    match match.lastgroup:
        case "plain":
            return [Atom("plain", text)]
        case "single":
            return [Atom("quoted", text[1:-1])]
        case "double":
            return _in_quotes(text[1:-1])
        case "escaped":
            return [Atom("quoted", text[1:])]
        case "variable":
            return [Atom("variable", text.strip("${}"))]
        case "open":
            return [Atom("{", text)]
        case "close":
            return [Atom("}", text)]
        case _:
            return [Atom("quoted", text)]


def _in_quotes(text: str) -> list[Atom]:
    atoms: list[Atom] = []
    position = 0
    for match in _VARIABLE.finditer(text):
        before = text[position : match.start()] + match[1]
        atoms += [
            Atom("quoted", _UNQUOTED.sub(r"\1", before)),
            Atom("quoted variable", match[2] or match[3] or match[4]),
        ]
        position = match.end()
    return [*atoms, Atom("quoted", _UNQUOTED.sub(r"\1", text[position:]))]


def _alternatives(atoms: tuple[Atom, ...]) -> list[tuple[Atom, ...]]:
    """Expand the braces of a word."""
    start = next((at for at, atom in enumerate(atoms) if atom.kind == "{"), None)
    if start is None:
        if any(atom.kind == "}" for atom in atoms):
            raise UnknownCommand("syntax", "a brace is closed that was not opened")
        return [atoms]
    end = next((at for at, atom in enumerate(atoms[start:], start) if atom.kind == "}"), None)
    inner = atoms[start + 1 : end]
    if end is None or any(atom.kind == "{" for atom in inner):
        raise UnknownCommand("expansion", "the shell would expand braces within braces, or a brace is not closed")
    choices = _choices(inner)
    rest = _alternatives(atoms[end + 1 :])
    if len(choices) * len(rest) > ALTERNATIVES_LIMIT:
        raise UnknownCommand("expansion", f"its braces stand for more than {ALTERNATIVES_LIMIT} words")
    return [(*atoms[:start], *choice, *after) for choice in choices for after in rest]


def _choices(inner: tuple[Atom, ...]) -> list[tuple[Atom, ...]]:
    only = inner[0].text if len(inner) == 1 and inner[0].kind == "plain" else ""
    if numbers := _RANGE.fullmatch(only):
        first, last = int(numbers[1]), int(numbers[2])
        if abs(last - first) >= ALTERNATIVES_LIMIT or any(
            len(text.lstrip("-0") or "0") != len(text) for text in (numbers[1], numbers[2])
        ):
            raise UnknownCommand(
                "expansion", f"its braces stand for more than {ALTERNATIVES_LIMIT} words, or for odd ones"
            )
        step = 1 if last >= first else -1
        return [(Atom("quoted", str(number)),) for number in range(first, last + step, step)]
    if ".." in only:
        raise UnknownCommand("expansion", "it is unclear what its braces stand for")
    choices: list[list[Atom]] = [[]]
    for atom in inner:
        pieces = atom.text.split(",") if atom.kind == "plain" else [atom.text]
        for number, piece in enumerate(pieces):
            if number:
                choices.append([])
            choices[-1].append(Atom(atom.kind, piece))
    if len(choices) == 1:
        return [(Atom("quoted", "{"), *inner, Atom("quoted", "}"))]
    return [tuple(choice) for choice in choices]


def _joined(raw: str, atoms: tuple[Atom, ...], values: Mapping[str, str]) -> ShellWord:
    text = ""
    wild: set[int] = set()
    unquoted = ""  # the word with a placeholder for each quoted piece, to locate unquoted ~ and =
    for atom in atoms:
        value = atom.text
        if atom.kind in ("variable", "quoted variable"):
            if value not in values:
                raise UnknownCommand("expansion", f"the shell would substitute a value for ${value}")
            value = values[value]
            if atom.kind == "variable" and not _UNSPLIT.fullmatch(value):
                raise UnknownCommand("expansion", f"the shell would take the value of ${atom.text} apart")
        if atom.kind == "plain":
            wild.update(len(text) + at for at, char in enumerate(value) if char in _WILD)
        unquoted += value if atom.kind == "plain" else "\0"
        text += value
    if _TILDE.search(unquoted):
        raise UnknownCommand("expansion", "the shell would substitute a home folder for ~")
    return ShellWord(raw, text, frozenset(wild))


def _unreadable_word(command: str, position: int) -> UnknownCommand:
    known = _UNKNOWN.get(command[position : position + 1])
    return known or UnknownCommand(
        "syntax", f"it cannot be parsed with certainty at {command[position : position + 10]!r}"
    )
