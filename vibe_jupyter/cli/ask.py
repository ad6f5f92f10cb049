"""`vibe-jupyter ask`: one prompt without a notebook, for a shell or a script."""

import argparse
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TextIO

from IPython.core.history import HistoryManager
from IPython.core.interactiveshell import InteractiveShell

from vibe_jupyter.app import App
from vibe_jupyter.cli.ends import interrupt_when_asked_to_end
from vibe_jupyter.cli.exit_codes import EXIT_CODES, INTERRUPTED, exit_code
from vibe_jupyter.cli.run_options import add_run_options
from vibe_jupyter.errors import ConfigError, MissingModel
from vibe_jupyter.headless.program import OUTPUTS, ProgramFrontEnd, RunWriter
from vibe_jupyter.kernel.interrupts import Presses
from vibe_jupyter.options import Options, parse_price

_STDIN: Final = 0
_STDOUT: Final = 1
_STDERR: Final = 2
_MODEL_OPTION: Final = """\
The %vibe commands are for a cell of a notebook. For this prompt alone: --model NAME@http://127.0.0.1:8080/v1"""
"""How to name a model where no cell can be run."""


class _PlainShell(InteractiveShell):
    """Keeps no history: the agent's code is not what the user typed."""

    def init_history(self) -> None:
        self.history_manager = HistoryManager(shell=self, parent=self, enabled=False)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words after ``vibe-jupyter ask``."""
    parser.epilog = EXIT_CODES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("prompt", nargs="?", metavar="PROMPT", help="the prompt; - or nothing reads it from stdin")
    prompt.add_argument("-p", "--prompt", dest="prompt_option", metavar="PROMPT", help="the same, as an option")
    add_run_options(parser, tools="run_code,bash")
    parser.add_argument(
        "--output",
        choices=OUTPUTS,
        default="text",
        help="text: the answer alone; json: one document with all messages; streaming: a line of JSON for each event",
    )
    parser.set_defaults(command=_ask_chosen)


def _ask_chosen(chosen: argparse.Namespace) -> int:
    interrupt_when_asked_to_end()
    options = Options(
        model=chosen.model,
        agent=chosen.agent,
        max_turns=chosen.max_turns,
        max_price=parse_price(chosen.max_price),
        allowed=frozenset(one for one in chosen.yes.split(",") if one),
    )
    prompt = _read_prompt(chosen.prompt if chosen.prompt_option is None else chosen.prompt_option)
    with _own_stdout() as out:
        return _answer(prompt, options, RunWriter(chosen.output, out))


def _read_prompt(given: str | None) -> str:
    prompt = given or ""
    if given == "-" or (given is None and not sys.stdin.isatty()):
        prompt = sys.stdin.read()
    if not prompt.strip():
        raise ConfigError('The prompt is empty. Pass one: vibe-jupyter ask "look at the CSV files here".')
    return prompt.strip("\n")


def _answer(prompt: str, options: Options, writer: RunWriter) -> int:
    if "" not in sys.path:
        sys.path.insert(0, "")  # the agent's code imports from the working folder, as in ipython
    presses = Presses()
    app = App(_PlainShell.instance(colors="nocolor"), None, presses, front_end=lambda: ProgramFrontEnd(writer))
    try:
        with presses.owned():
            return exit_code(app.prompt(prompt, options).reason)
    except MissingModel as error:
        raise ConfigError(f"{error}\n{_MODEL_OPTION}") from None
    except KeyboardInterrupt:
        print("vibe-jupyter: interrupted before the first request.", file=sys.stderr)
        return INTERRUPTED
    finally:
        app.close()


@contextmanager
def _own_stdout() -> Generator[TextIO]:
    """Stdout for what was asked for alone: whatever the agent's code prints goes to stderr, and it reads nothing."""
    sys.stdout.flush()
    with os.fdopen(os.dup(_STDOUT), "w", encoding="utf-8") as out, open(os.devnull, "rb") as nothing:
        os.dup2(_STDERR, _STDOUT)
        os.dup2(nothing.fileno(), _STDIN)
        try:
            yield out
        finally:
            sys.stdout.flush()
            out.flush()
            os.dup2(out.fileno(), _STDOUT)
