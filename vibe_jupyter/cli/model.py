"""`vibe-jupyter model check`: the questions of `%vibe model check`, for a terminal or a script."""

import argparse

from vibe_jupyter.cli.exit_codes import CELL_FAILED, DONE
from vibe_jupyter.cli.shell_app import open_app
from vibe_jupyter.kernel.interrupts import Presses
from vibe_jupyter.shell_advice import in_shell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vibe-jupyter model`."""
    actions = parser.add_subparsers(required=True, metavar="ACTION")
    check = actions.add_parser(
        "check",
        help="ask a model small questions, and say what it lacks",
        description="Ask a model small questions (at most 3,000 tokens), and say what it lacks and what fixes it.",
        epilog="exit codes: 0 all went well, 1 something failed, 2 wrong usage or settings, 130 interrupted",
    )
    check.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help="a model of the settings, NAME@PROVIDER, or NAME@URL such as qwen3@http://127.0.0.1:8080/v1 "
        "(default: the model of the settings)",
    )
    check.set_defaults(command=_check)


def _check(chosen: argparse.Namespace) -> int:
    from vibe_jupyter.app.model_check import ask_questions

    def say(text: str) -> None:
        print(in_shell(text), flush=True)

    with open_app(Presses()) as app:
        is_well = ask_questions(app.models.current(chosen.name), say, whole=True)
    return DONE if is_well else CELL_FAILED
