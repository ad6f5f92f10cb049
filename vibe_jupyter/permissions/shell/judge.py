"""Judge a command line, each simple command by its own rule.

Also excludes protected files from searches at run time, see `search_guard`.
"""

import contextlib
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from tree_sitter import Node

from vibe_jupyter.errors import ToolError
from vibe_jupyter.files.protected import is_secret_name, protected_names
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.places import place_reason
from vibe_jupyter.permissions.shell import HIGH_RISK, ONCE, ShellVerdict, UnknownCommand
from vibe_jupyter.permissions.shell.command_line import Command, Lines, Loop, command_line, parts_of
from vibe_jupyter.permissions.shell.effects import explain_command
from vibe_jupyter.permissions.shell.evaluation import Simple, simple_commands
from vibe_jupyter.permissions.shell.git import check_git, guarded_git
from vibe_jupyter.permissions.shell.git_guard import GuardedGit, git_function
from vibe_jupyter.permissions.shell.operands import Operands, walk_tree
from vibe_jupyter.permissions.shell.patterns import (
    CHANGES_THE_SHELL,
    DEFAULT_DENYLIST,
    DEFAULT_DENYLIST_STANDALONE,
    ShellLists,
    grant_pattern,
    is_keepable,
)
from vibe_jupyter.permissions.shell.read_only_commands import CommandCall, Rule, Source, mostly_reading, readers
from vibe_jupyter.permissions.shell.search_commands import LINE_FILTERS, check_diff, check_find, check_grep, rg, xargs
from vibe_jupyter.permissions.shell.syntax_tree import is_too_much, node_text, parse_command, walk_nodes

NAMES_LIMIT: Final = 300  # file names that are excluded individually
_PROGRAMS: Final = ("grep", "egrep", "fgrep")
_SPECIAL: Final = re.compile(r"([*?\[\]\\{}!])")

# Programs that need more than a row of the table
_CHECKS: Final[Mapping[str, Rule]] = {
    "diff": check_diff,
    "egrep": check_grep,
    "fgrep": check_grep,
    "find": check_find,
    "git": check_git,
    "grep": check_grep,
    "rg": rg,
    "xargs": xargs,
}
_BUILT_IN: Final = frozenset({"echo", "pwd", "true", "false", ":", "printf", "test", "[", "command", "type", "exit"})
_STREAMS: Final = ("/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr")  # outside the project, but harmless
_IMPORTING: Final = frozenset({"pip", "pip3"})  # programs in Python that import modules before anything else
# Programs that start others, take longer with each start, or read operands in a special way: as another repository, or
# the other side of a comparison.
_NOT_STARTED: Final = frozenset({"xargs", "find", "command", "time", "sleep", "git", "diff"})
NAMED_LIMIT: Final = 500  # words checked for places in a command that asks anyway
# Rules whose verdict is final, whatever the effects.
_DECIDED: Final = frozenset({"read-only", "allowlist", "denylist", "cannot-run"})
SLEEP_LIMIT: Final = 10  # total seconds that a command line may sleep
_STRICTNESS: Final = {"allow": 0, "ask": 1, "deny": 2}
_UNIVERSAL_LOCALES: Final = re.compile(r"|C|POSIX|.*utf-?8.*", re.IGNORECASE)


def search_guard(command: str, workspace: Workspace) -> Mapping[str, str]:
    """Return variables with shell functions that make ``grep``, ``rg`` and ``git`` leave out protected files.

    Empty if the command mentions none of these programs, or if the user was asked whether it may read such a file.
    """
    return {**_git_guard(command, workspace), **_grep_guard(command, workspace)}


def _git_guard(command: str, workspace: Workspace) -> Mapping[str, str]:
    if "git" not in command:
        return {}
    operands = Operands(workspace)
    try:
        commands = simple_commands(command_line(command), operands)
    except UnknownCommand:
        return {}  # the user was asked about the whole line
    calls = [_guarded(simple, operands) for simple in commands if simple.name == "git"]
    return {"BASH_FUNC_git%%": git_function(command, calls)} if any(call.run for call in calls) else {}


def _guarded(simple: Simple, operands: Operands) -> GuardedGit:
    here = operands.at(simple.here or operands.workspace.root)
    try:
        guarded = guarded_git(CommandCall("git", here.arguments(simple.words[1:]), simple.fed, here))
    except (UnknownCommand, OSError):
        guarded = GuardedGit(tuple(_command_texts(simple)))  # the user was asked about it
    return guarded._replace(here=str(here.here))


def _grep_guard(command: str, workspace: Workspace) -> Mapping[str, str]:
    if not any(name in command for name in (*_PROGRAMS, "rg")):
        return {}
    if judge_command(command, workspace, ShellState.of(os.environ)).rule == "place":
        return {}
    protected, found = protected_names(), _found(workspace)
    names = [*protected.files, *found.files]
    folders = [*protected.folders, *found.folders]
    excluded = [f"--exclude={name}" for name in names]
    excluded += [f"--include={name}" for name in protected.plain]  # for grep, the last matching option decides
    excluded += [f"--exclude-dir={name}" for name in folders]
    hidden = [word for name in (*names, *folders) for word in ("-g", f"!{name}")]
    functions = {f"BASH_FUNC_{name}%%": _function(name, excluded) for name in _PROGRAMS}
    return {**functions, "BASH_FUNC_rg%%": _function("rg", hidden)}


class _Names(NamedTuple):
    files: list[str]
    folders: list[str]


def _found(workspace: Workspace) -> _Names:
    """Return the names of existing protected files and their copies, as globs.

    grep can exclude names or folders but not paths, so a file whose name is protected only in one folder excludes that
    folder.
    """
    names: set[str] = set()
    folders: set[str] = set()
    with contextlib.suppress(UnknownCommand):  # If the project is too large to walk, searches of it ask anyway.
        for found in walk_tree(workspace.root):
            if found.is_secret and len(names) + len(folders) < NAMES_LIMIT:
                name, folder = found.entry.name, os.path.basename(os.path.dirname(found.entry.path))
                by_folder = is_secret_name(name, folder) and not is_secret_name(name)
                (folders if by_folder else names).add(_SPECIAL.sub(r"\\\1", folder if by_folder else name))
    return _Names(sorted(names), sorted(folders))


def _function(name: str, options: Sequence[str]) -> str:
    """Return a shell function that adds options to a command.

    With ``--include``, it adds none: only such names are searched, and a protected one among them would have asked.
    """
    words = " ".join(map(shlex.quote, options))
    return f'() {{ case " $* " in *" --include"*) command {name} "$@" ;; *) command {name} {words} "$@" ;; esac; }}'


@dataclass(frozen=True)
class ShellState:
    """The parts of the shell's environment that affect a decision."""

    path: str = ""  # PATH
    locale: str = ""  # locale of the character encoding
    lists: ShellLists = field(default_factory=ShellLists)
    python_path: str = ""  # PYTHONPATH, which Python searches first

    @classmethod
    def of(cls, environ: Mapping[str, str], lists: ShellLists | None = None) -> "ShellState":
        """Return the state from the environment of the commands."""
        locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or ""
        return cls(environ.get("PATH", os.defpath), locale, lists or ShellLists(), environ.get("PYTHONPATH", ""))


def judge_command(command: str, workspace: Workspace, shell: ShellState | None = None) -> ShellVerdict:
    """Judge exactly this string, as run by bash in the project folder. Runs nothing."""
    verdict = _judge_parts(command, workspace, shell or ShellState.of(os.environ))
    if verdict.rule in _DECIDED or verdict.rule in ONCE:
        return verdict
    effects = explain_command(command, workspace, measure=False)
    weighty = next((effect for effect in effects if effect.risk == "high"), None)
    if weighty is None:
        return verdict
    reason = weighty.text.replace("`", "")
    return ShellVerdict("ask", HIGH_RISK, f"{reason[:1].lower()}{reason[1:]}")


def _judge_parts(command: str, workspace: Workspace, shell: ShellState) -> ShellVerdict:
    if problem := _cannot_run(command):
        return ShellVerdict("deny", "cannot-run", problem)
    judgement = _Judgement(workspace, shell, Operands(workspace))
    try:
        lines = command_line(command)
        if not command.isascii() and not _UNIVERSAL_LOCALES.fullmatch(shell.locale):
            raise UnknownCommand("characters", "it holds letters that this machine's locale may read in another way")
        if not same_commands(command, lines):
            raise UnknownCommand("syntax", "it cannot be parsed with certainty")
        commands = simple_commands(lines, judgement.operands)
    except UnknownCommand as refused:
        if denied := _denied_inside(command, shell.lists):
            return denied
        worse = None if refused.rule in ONCE else judgement.worse(named_words(command))
        return ShellVerdict("ask", (worse or refused).rule, (worse or refused).reason)
    return judgement.verdict(commands)


def judge_all(commands: Sequence[str], workspace: Workspace, lists: ShellLists) -> ShellVerdict:
    """Return the strictest verdict on several commands, in this process's environment."""
    shell = ShellState.of(os.environ, lists)
    verdicts = [judge_command(command, workspace, shell) for command in commands]
    strictest = max(verdicts, key=lambda verdict: (_STRICTNESS[verdict.verdict], verdict.rule in ONCE))
    return strictest if len(commands) == 1 else strictest._replace(remember_as=None, keepable=False)


def outside_path(commands: Sequence[str], workspace: Workspace) -> str | None:
    """Return a path outside the project that a command names, or None. Variables aren't expanded."""
    operands = Operands(workspace)
    for command in commands:
        for word in islice(named_words(command), NAMED_LIMIT):
            attached = (word[2:],) if word.startswith("-") else ()
            for text in (word, word.partition("=")[2], *attached):
                if _leads_outside(text, operands):
                    return text
    return None


def _leads_outside(text: str, operands: Operands) -> bool:
    if (
        "://" in text
        or text in _STREAMS
        or not ("/" in text or text in ("..", "~") or (text and operands.exists(text)))
    ):
        return False
    try:
        return not operands.workspace.resolve(operands.from_root(text) if text[:1] != "~" else text).inside
    except ToolError:
        return False


def _cannot_run(command: str) -> str:
    if "\0" in command:
        return "it holds a NUL byte, which no command can"
    try:
        command.encode()
    except UnicodeEncodeError:
        return "it holds characters that no command can hold"
    return ""


def _denied_inside(command: str, lists: ShellLists) -> ShellVerdict | None:
    for words in nested_commands(command):
        # Its input is unknown here, so a bare interpreter isn't denied but asked about.
        if pattern := lists.denied(words, fed=True):
            return _denied_verdict(pattern)
    return None


def _denied_verdict(pattern: str) -> ShellVerdict:
    is_ours = pattern in DEFAULT_DENYLIST or pattern in DEFAULT_DENYLIST_STANDALONE
    reason = "is on the denylist: it would wait for input" if is_ours else "is on the denylist of the user's settings"
    return ShellVerdict("deny", "denylist", f"{pattern} {reason}")


def _slept(commands: Sequence[Simple]) -> float:
    """Return the total seconds of all ``sleep`` commands, which have already been checked."""
    return sum(float(simple.words[1].text) for simple in commands if simple.name == "sleep")


def _command_texts(simple: Simple) -> list[str]:
    return [word.text for word in simple.words[1:]]


@dataclass
class _Judgement:
    workspace: Workspace
    shell: ShellState
    operands: Operands

    def verdict(self, commands: Sequence[Simple]) -> ShellVerdict:
        """Combine the verdicts on the commands."""
        for simple in commands:
            if pattern := self.shell.lists.denied([word.text for word in simple.words], fed=simple.fed):
                return _denied_verdict(pattern)
        refusals = [(simple, refused) for simple in commands if (refused := self._refusal_of(simple)) is not None]
        steady = not any(simple.name in CHANGES_THE_SHELL for simple, _ in refusals)
        asked = [(simple, refused) for simple, refused in refusals if not (steady and self._on_list(simple, refused))]
        if not refusals and _slept(commands) > SLEEP_LIMIT:
            return ShellVerdict("ask", "length", f"it waits for more than {SLEEP_LIMIT} seconds")
        if not refusals:
            return ShellVerdict("allow", "read-only", "it only reads, inside the project")
        if not asked:
            return ShellVerdict("allow", "allowlist", "it is on the allowlist")
        worst = next((refused for _, refused in asked if refused.rule in ONCE), asked[0][1])
        simples = [simple for simple, _ in asked]
        exact = steady and worst.rule not in ONCE and all(simple.exact for simple in simples)
        pattern = grant_pattern(simples, self.workspace.root) if exact else None
        keepable = pattern is not None and is_keepable(simples)
        return ShellVerdict("ask", worst.rule, worst.reason, pattern, keepable)

    def worse(self, words: Iterable[str], here: Path | None = None) -> UnknownCommand | None:
        """Return a stricter refusal if a word names a place outside the project or a protected one, else None.

        Such a place must be asked about each time, even if the command asks anyway.
        """
        operands = self.operands.at(here or self.workspace.root)
        try:
            for word in islice(words, NAMED_LIMIT):
                _check_word(word, operands)
        except UnknownCommand as refused:
            return refused
        except OSError as error:
            return UnknownCommand("place", f"names a place that cannot be judged: {error.strerror}")
        return None

    def _on_list(self, simple: Simple, refused: UnknownCommand) -> bool:
        if refused.rule in ONCE:
            return False
        row = readers().get(simple.name)
        known = simple.name in mostly_reading() and not (row is not None and row.runs)
        return self.shell.lists.allowed(simple, known=known)

    def _refusal_of(self, simple: Simple) -> UnknownCommand | None:
        """Return why a command must ask, or None if it only reads."""
        try:
            self._check_command(simple)
        except UnknownCommand as refused:
            return refused if refused.rule in ONCE else self.worse(_command_texts(simple), simple.here) or refused
        except OSError as error:
            return UnknownCommand("place", f"names a place that cannot be judged: {error.strerror}")
        return None

    def _check_command(self, simple: Simple) -> None:
        name = simple.words[0].raw
        if name not in mostly_reading():
            raise _unknown_program(simple.name)
        operands = self.operands.at(simple.here or self.workspace.root)
        arguments = operands.arguments(simple.words[1:])
        for file in simple.files:
            if operands.path(file.text).kind == "directory":
                raise UnknownCommand("redirection", f"its input is the folder {file.text}")
        rule = _CHECKS.get(name) or readers().get(name)
        if rule is None:
            for argument in arguments:
                operands.path(argument.text)
            raise _unknown_program(name)
        if name not in _BUILT_IN:
            self._check_program(name, operands.here)
        rule(CommandCall(name, arguments, simple.fed, operands, self._source(simple), self._inner))

    def _inner(self, call: CommandCall) -> None:
        """Check a command started by another one."""
        rule = _CHECKS.get(call.name) or readers().get(call.name)
        if rule is None or call.name in _NOT_STARTED:
            raise UnknownCommand("name", f"{call.name[:60]} is not known to only read what others name")
        self._check_program(call.name, call.operands.here)
        rule(call)

    def _source(self, simple: Simple) -> Source | None:
        """Return the command whose lines arrive on standard input, skipping filters that only drop lines."""
        before = simple.before
        while before is not None and before.name in LINE_FILTERS and before.before is not None:
            if not re.fullmatch(LINE_FILTERS[before.name], "".join(f"\n{text}" for text in _command_texts(before))):
                return None
            before = before.before
        if before is None:
            return None
        operands = self.operands.at(before.here or self.workspace.root)
        return Source(before.name, operands.arguments(before.words[1:]))

    def _check_program(self, name: str, here: Path) -> None:
        """Refuse a program that would be found inside the project."""
        if name in _IMPORTING and any(map(self._is_inside, self._folders(self.shell.python_path, here))):
            raise UnknownCommand("name", f"{name} would import modules of the project itself (PYTHONPATH)")
        for folder in self._folders(self.shell.path, here):
            if os.access(os.path.join(folder, name), os.X_OK):
                if self._is_inside(folder):
                    raise UnknownCommand("name", f"{name} is a program of the project itself")
                return

    def _is_inside(self, folder: str) -> bool:
        root = self.workspace.root
        return folder == str(root) or folder.startswith(f"{root}{os.sep}")

    def _folders(self, path: str, here: Path) -> list[str]:
        return [os.path.realpath(here / entry) for entry in path.split(os.pathsep)] if path else []


def _unknown_program(name: str) -> UnknownCommand:
    return UnknownCommand("name", f"{name[:60]} is not known to be read-only")


def _check_word(word: str, operands: Operands) -> None:
    attached = (word[2:],) if word.startswith("-") else ()
    for text in {word, word.partition("=")[2], *attached}:
        if "/" in text or text == ".." or (text and operands.exists(text)):
            _check_place(text, operands)


def _check_place(text: str, operands: Operands) -> None:
    if "://" in text or text in _STREAMS:
        return
    try:
        located = operands.workspace.resolve(operands.from_root(text) if not text.startswith("~") else text)
    except ToolError:
        return
    if reason := place_reason(located, "write"):
        raise UnknownCommand("place", reason.reason.replace("writes", "names", 1))


_QUOTES: Final = re.compile(r"""['"\\]""")
# Node types in a line of simple commands.
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
_WORDS: Final = frozenset(
    {
        *("command_name", "word", "number", "string", "raw_string", "concatenation"),
        *("simple_expansion", "expansion", "brace_expression"),
    }
)
_BLANKS: Final = re.compile(r"[ \t\n]+")


def same_commands(command: str, lines: Lines) -> bool:
    """Return whether tree-sitter finds exactly the same commands and loops, word for word."""
    root = parse_command(command)
    if root.has_error:
        return False
    nodes = list(walk_nodes(root))
    if any(node.type not in _FORM for node in nodes if not _is_in_test(node)):
        return False
    found = sorted((word for node in nodes for word in _words_in(node, command)), key=lambda word: word[0])
    return [word[1:] for word in found] == list(_expected(lines))


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
    """Return the words of every command, including those in loops, functions and substitutions.

    Empty if the command is too complex to parse.
    """
    if is_too_much(command):
        return []
    return [_node_words(node, command) for node in walk_nodes(parse_command(command)) if node.type == "command"]


def named_words(command: str) -> list[str]:
    """Return arguments and redirected files, including those in loops, functions and substitutions.

    Empty if the command is too complex to parse. Variables aren't expanded, so it may reach places not listed here.
    """
    if is_too_much(command):
        return []
    nodes = walk_nodes(parse_command(command))
    texts = [node_text(node, command) for node in nodes if _is_argument(node)]
    return list(dict.fromkeys(_QUOTES.sub("", text) for text in texts))


def _is_argument(node: Node) -> bool:
    above = node.parent.type if node.parent is not None else ""
    return node.type in _WORDS and node.type != "command_name" and above not in ("command_name", "concatenation")


def _words_in(node: Node, command: str) -> Iterator[tuple[int, bool, str]]:
    """Yield the offset of each word, whether it is the command's name, and the word.

    Words after a redirection are nested below the redirection.
    """
    if node.type == "test_command":
        yield node.start_byte, True, _BLANKS.sub(" ", node_text(node, command))
    if node.type == "for_statement":
        for child in node.children:
            if child.type in _WORDS or child.type == "variable_name":
                yield child.start_byte, child.type == "variable_name", node_text(child, command)
    if node.type not in ("command", "file_redirect", "heredoc_redirect"):
        return
    words = [child for child in node.children if child.type in _WORDS]
    for child in words[1:] if node.type == "file_redirect" else words:
        yield child.start_byte, child.type == "command_name", node_text(child, command)


def _node_words(node: Node, command: str) -> list[str]:
    left_out = ("file_redirect", "heredoc_redirect", "variable_assignment")
    return [node_text(child, command) for child in node.children if child.type not in left_out]
