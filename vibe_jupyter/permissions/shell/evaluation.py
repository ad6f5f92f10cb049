"""Evaluate a parsed command line to simple commands: unroll loops, expand variables and braces, track ``cd``."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vibe_jupyter.permissions.shell import UnknownCommand
from vibe_jupyter.permissions.shell.command_line import Branches, Chain, Command, Lines, Loop, Part, Pipeline, ShellWord
from vibe_jupyter.permissions.shell.operands import Operands

SIMPLE_LIMIT: Final = 200  # simple commands that a command line may evaluate to
FOLDERS_LIMIT: Final = 4  # possible working directories of a command
_STATUS: Final = "?"
# Commands that may receive the exit status of the previous one.
_PRINTERS: Final = frozenset({"echo", "printf", "exit", "test", "["})


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple command after evaluation."""

    words: tuple[ShellWord, ...]
    fed: bool = False  # True if standard input is a pipe, a here-document, a file or /dev/null
    here: Path | None = None  # working directory if it isn't the project folder
    files: tuple[ShellWord, ...] = ()  # files redirected to standard input
    before: "Simple | None" = None  # the command piped into this one
    exact: bool = True  # True if the words are as written, so that they describe what a grant would cover

    @property
    def name(self) -> str:
        """First word without quotes."""
        return self.words[0].text


@dataclass
class _State:
    folders: tuple[Path, ...]
    values: dict[str, str] = field(default_factory=dict[str, str])
    depth: int = 0  # nesting depth of loops and branches


def simple_commands(lines: Lines, operands: Operands) -> tuple[Simple, ...]:
    """Evaluate a command line. A command that may run in several folders is returned once for each.

    Raises:
        UnknownCommand: The line changes to a folder that can't be determined, uses an unknown value, or exceeds a
            limit.
    """
    evaluation = _Evaluation(operands)
    evaluation.lines(lines, _State((operands.workspace.root,)))
    return tuple(evaluation.done)


@dataclass
class _Evaluation:
    operands: Operands
    done: list[Simple] = field(default_factory=list[Simple])

    def lines(self, lines: Iterable[Chain], state: _State) -> None:
        for chain in lines:
            self._chain(chain, state)

    def _chain(self, chain: Chain, state: _State) -> None:
        start = after = state.folders
        certain = True
        for number, pipeline in enumerate(chain.pipelines):
            if number and chain.connectors[number - 1] == "||":
                after = state.folders = tuple(dict.fromkeys((*start, *after, *state.folders)))
                certain = False
            target = self._target(pipeline, state)
            if target is None:
                self._pipeline(pipeline, state)
                certain = False
            else:
                entered = tuple(dict.fromkeys(self._entered(folder, target) for folder in state.folders))
                after = entered if certain else tuple(dict.fromkeys((*after, *entered)))
                state.folders = entered
        state.folders = after
        if len(after) > FOLDERS_LIMIT:
            raise UnknownCommand("name", "it is unclear in which folder it runs")

    def _target(self, pipeline: Pipeline, state: _State) -> ShellWord | None:
        """Return the argument of a pipeline that is a ``cd``, or None for any other pipeline."""
        names = [part.words[0].raw for part in pipeline if isinstance(part, Command)]
        if "cd" not in names:
            return None
        words = [word for part in pipeline if isinstance(part, Command) for word in self._words(part, state)]
        words = [word for word in words if word.text != "--"]
        # If an input file can't be opened, the shell doesn't run `cd`.
        from_file = any(part.files for part in pipeline if isinstance(part, Command))
        if len(pipeline) > 1 or state.depth or len(words) != 2 or words[1].wild or from_file:
            raise UnknownCommand("name", "it changes the folder in a way that is not followed")
        return words[1]

    def _entered(self, folder: Path, target: ShellWord) -> Path:
        """Return the folder entered by ``cd``. It must be the same with links resolved and without."""
        if target.text.startswith("-") or not target.text:
            raise UnknownCommand("place", f"changes to an unknown folder: {target.text}")
        located = self.operands.at(folder).path(target.text)
        logical = Path(_normal(folder / target.text))
        if located.kind != "directory" or located.path != logical:
            raise UnknownCommand("operand", f"changes to {target.text}, which is not a plain folder")
        return located.path

    def _pipeline(self, pipeline: Pipeline, state: _State) -> None:
        for folder in state.folders:
            inner = _State((folder,), dict(state.values), state.depth)
            before: Simple | None = None
            for number, part in enumerate(pipeline):
                before = self._part(part, inner, fed=number > 0, before=before)

    def _part(self, part: Part, state: _State, *, fed: bool, before: Simple | None) -> Simple | None:
        match part:
            case Command():
                simple = self._command(part, state, fed=fed, before=before)
                return None if part.mixed else simple
            case Loop():
                self._loop(part, state)
            case Branches():
                for body in part.bodies:
                    self._inside(body, state, state.values)
        return None

    def _inside(self, body: Lines, state: _State, values: dict[str, str]) -> None:
        self.lines(body, _State(state.folders, dict(values), state.depth + 1))

    def _loop(self, loop: Loop, state: _State) -> None:
        words = [word for written in loop.words for word in written.words(self._values(state))]
        for argument in self.operands.at(state.folders[0]).arguments(words):
            self._inside(loop.body, state, {**state.values, loop.name: argument.text})

    def _command(self, command: Command, state: _State, *, fed: bool, before: Simple | None) -> Simple:
        if len(self.done) >= SIMPLE_LIMIT:
            raise UnknownCommand("length", f"it comes to more than {SIMPLE_LIMIT} commands")
        words = self._words(command, state)
        variables = frozenset(name for word in command.words for name in word.variables)
        if not command.words[0].is_literal or (_STATUS in variables and words[0].text not in _PRINTERS):
            raise UnknownCommand("expansion", "the shell would choose what is run")
        files = tuple(word for written in command.files for word in written.words(self._values(state)))
        if len(files) > len(command.files) or any(word.wild for word in files):
            raise UnknownCommand("redirection", "it is unclear where its input comes from")
        root = self.operands.workspace.root
        simple = Simple(
            words=tuple(words),
            fed=fed or command.fed,
            here=state.folders[0] if state.folders[0] != root else None,
            files=files,
            before=None if command.fed else before,
            exact=not state.depth and all(word.is_literal for word in command.words),
        )
        self.done.append(simple)
        return simple

    def _words(self, command: Command, state: _State) -> Sequence[ShellWord]:
        return [word for written in command.words for word in written.words(self._values(state))]

    def _values(self, state: _State) -> dict[str, str]:
        known = {"PWD": str(state.folders[0])} if len(state.folders) == 1 else {}
        return {_STATUS: "0", **known, **state.values}


def _normal(path: Path) -> str:
    """Collapse ``.`` and ``..`` without resolving links."""
    out: list[str] = []
    for part in path.parts[1:]:
        if part == "..":
            out = out[:-1]
        elif part != ".":
            out.append(part)
    return "/" + "/".join(out)
