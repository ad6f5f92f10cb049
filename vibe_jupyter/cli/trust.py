"""`vibe-jupyter trust`: show what a folder contains, and decide whether to trust it."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vibe_jupyter.cli.exit_codes import CELL_FAILED, DONE
from vibe_jupyter.cli.shell_app import enter_folder, is_terminal, open_app
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.kernel.interrupts import Presses
from vibe_jupyter.ui.text import readable_text

if TYPE_CHECKING:
    from vibe_jupyter.app import App


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vibe-jupyter trust`."""
    parser.add_argument("folder", type=Path, nargs="?", metavar="FOLDER", help="default: the working folder")
    decided = parser.add_mutually_exclusive_group()
    decided.add_argument("--yes", action="store_true", help="trust it as it is shown, without a question")
    decided.add_argument("--forget", action="store_true", help="take the decision back")
    parser.set_defaults(command=_trust_chosen)


def _trust_chosen(chosen: argparse.Namespace) -> int:
    enter_folder(chosen.folder)
    presses = Presses()
    with open_app(presses) as app, presses.owned():
        if chosen.forget:
            known = app.setup.project.forget()
            folder = app.setup.project.folder
            print(f"Forgotten: {folder} is not trusted." if known else f"No decision is saved for {folder}.")
            return DONE
        return _decide(app, is_agreed=chosen.yes)


def _decide(app: "App", *, is_agreed: bool) -> int:
    """Show the folder and ask for a decision. Returns the exit code, which is 0 if everything in the folder is used."""
    look = app.setup.project.look()
    for problem in look.brought.problems:
        print(f"! {readable_text(problem)}")
    if look.question is None or look.trusted:
        print(look.words)
        return DONE
    if is_agreed:
        app.setup.project.answer(look.question, trusted=True)  # as read above: later changes aren't covered
        print(app.setup.project.look().words)
    elif is_terminal():
        app.trusting.command()
    else:
        print(look.words, flush=True)
        raise ConfigError("Nobody can be asked here. With --yes the folder is trusted as shown.")
    return DONE if app.setup.project.look().trusted else CELL_FAILED
