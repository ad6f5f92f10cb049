"""Sub-commands about settings: `%vibe config`, `trust`, `model` and `setup`."""

from collections.abc import Callable

from vibe_jupyter import config
from vibe_jupyter.app.check import check
from vibe_jupyter.app.models import Models
from vibe_jupyter.app.setup import Setup
from vibe_jupyter.app.trusting import Trusting
from vibe_jupyter.own_imports import without_working_folder


def settings_command(
    words: list[str], setup: Setup, trusting: Trusting, *, models: Models, say: Callable[[str], None]
) -> str | None:
    """Do one of these commands and say what to print, which may be nothing; None when the words are none.

    Args:
        words: the magic's line.
        setup: the settings.
        trusting: asks about the folder.
        models: the models and the choice among them.
        say: told what takes a while, line by line.

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
            return _model_command(words, setup, models, say)


def _model_command(words: list[str], setup: Setup, models: Models, say: Callable[[str], None]) -> str | None:
    match words:
        case ["model"]:
            return models.listing()
        case ["model", "check", *names] if len(names) < 2:
            check(models.current(*names), say)
            return ""
        case ["model", name]:
            return models.choose(name)
        case ["setup"]:
            with without_working_folder():
                from vibe_jupyter.app.guided_setup import GuidedSetup

            return GuidedSetup(setup, models, say).work()
        case _:
            return None
