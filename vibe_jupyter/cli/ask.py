"""`vibe-jupyter ask`: a single prompt without a notebook, for a shell or a script."""

import argparse
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TextIO

from vibe_jupyter.app.sessions import saved_id
from vibe_jupyter.cli.ends import interrupt_when_asked_to_end
from vibe_jupyter.cli.exit_codes import AGENT_FAILED, DONE, EXIT_CODES, INTERRUPTED, exit_code
from vibe_jupyter.cli.run_options import add_run_options, chosen_options, read_prompt
from vibe_jupyter.cli.shell_app import add_folder_option, enter_folder, open_app
from vibe_jupyter.headless.program import OUTPUTS, ProgramFrontEnd, RunWriter
from vibe_jupyter.kernel.interrupts import Presses
from vibe_jupyter.options import Options
from vibe_jupyter.shell_advice import in_shell

_STDIN: Final = 0
_STDOUT: Final = 1
_STDERR: Final = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vibe-jupyter ask`."""
    parser.epilog = EXIT_CODES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("prompt", nargs="?", metavar="PROMPT", help="the prompt; - or nothing reads it from stdin")
    prompt.add_argument("-p", "--prompt", dest="prompt_option", metavar="PROMPT", help="the same, as an option")
    going_on = parser.add_mutually_exclusive_group()
    going_on.add_argument(
        "-c", "--continue", dest="latest", action="store_true", help="go on with the latest conversation of the folder"
    )
    going_on.add_argument(
        "--resume", type=_parse_id, metavar="ID", help="go on with this conversation; `sessions` lists the ids"
    )
    add_folder_option(parser)
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
    options = chosen_options(chosen)
    given = chosen.prompt if chosen.prompt_option is None else chosen.prompt_option
    if given is None:
        given = "" if sys.stdin.isatty() else "-"
    prompt = read_prompt(given, 'vibe-jupyter ask "look at the CSV files here"')
    enter_folder(chosen.folder)
    resumed = "" if chosen.latest else chosen.resume
    with _own_stdout() as out:
        return _answer(prompt, options, RunWriter(chosen.output, out, folder=chosen.folder), resumed)


def _parse_id(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("the id is empty; vibe-jupyter sessions lists them")
    return text


def _answer(prompt: str, options: Options, writer: RunWriter, resumed: str | None) -> int:
    """Answer the prompt. Returns the exit code.

    Args:
        prompt: The user's prompt.
        options: Options from the command line.
        writer: Displays the run.
        resumed: Conversation to continue, "" for the latest, None for a new one.
    """
    if "" not in sys.path:
        sys.path.insert(0, "")  # the agent's code can import from the working folder, as in ipython
    presses = Presses()
    with open_app(presses, front_end=lambda: ProgramFrontEnd(writer)) as app:
        writer.session_id = lambda: saved_id(app.sessions)
        try:
            with presses.owned():
                if resumed is not None:
                    print(in_shell(app.sessions.resume(resumed)), file=sys.stderr)
                code = exit_code(app.prompt(prompt, options).reason)
        except KeyboardInterrupt:
            print("vibe-jupyter: interrupted before the first request.", file=sys.stderr)
            return INTERRUPTED
    return AGENT_FAILED if code == DONE and writer.is_cut else code


@contextmanager
def _own_stdout() -> Generator[TextIO]:
    """Reserve stdout for the answer: the output of the agent's code goes to stderr, and its stdin is empty."""
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
