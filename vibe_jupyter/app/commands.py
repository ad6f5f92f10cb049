"""`%vibe config` and `%vibe trust`: what is set, where it came from, and whether the folder's part of it counts."""

from vibe_jupyter import config
from vibe_jupyter.app.setup import Setup
from vibe_jupyter.app.trusting import Trusting


def settings_command(words: list[str], setup: Setup, trusting: Trusting) -> str | None:
    """Do one of these commands and say what to print, which may be nothing; None when the words are none.

    Raises:
        ConfigError: a setting is wrong.
        NotebookError: the person interrupted the question.
    """
    match words:
        case ["config"]:
            return config.listing(setup.read(), setup.environ)
        case ["config", "path"]:
            return config.places(setup.environ, str(setup.project.folder))
        case ["trust"]:
            return trusting.command()
        case ["trust", "forget"]:
            known = setup.project.forget()
            return "Forgotten: it is asked again." if known else f"Nothing was decided on {setup.project.folder}."
        case _:
            return None
