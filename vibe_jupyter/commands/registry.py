"""Which `%vibe` sub-command runs what."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from vibe_jupyter import config
from vibe_jupyter.app.models import ModelChoice
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.commands.model_check import check_model
from vibe_jupyter.safe_imports import without_working_folder

if TYPE_CHECKING:
    from vibe_jupyter.app.app import App


def settings_command(line: str, app: "App", *, say: Callable[[str], None]) -> str | None:
    """Do one of these commands and say what to print, which may be nothing; None when the words are none.

    Args:
        line: the magic's line.
        app: what the commands are about.
        say: told what takes a while, line by line.

    Raises:
        ConfigError: a setting is wrong.
        NotebookError: the user interrupted the question.
    """
    words, setup = line.split(), app.setup
    match words:
        case ["config"]:
            reading = setup.read()
            return f"{config.list_settings(reading, setup.environ)}\n\n{setup.redaction(reading.settings)}"
        case ["config", "path"]:
            return config.list_places(setup.environ, str(setup.project.folder))
        case ["trust"]:
            return app.trusting.command()
        case ["trust", "forget"]:
            known = setup.project.forget()
            return "Forgotten: it is asked again." if known else f"Nothing was decided on {setup.project.folder}."
        case ["mcp", *_]:
            servers = app.mcp.present
            from vibe_jupyter.commands.mcp import mcp_command

            return mcp_command(line.strip().removeprefix("mcp"), servers, setup, say=say)
        case _:
            return _model_command(words, setup, app.models, say)


def _model_command(
    words: list[str], setup: KernelSettings, models: ModelChoice, say: Callable[[str], None]
) -> str | None:
    match words:
        case ["model"]:
            return models.listing()
        case ["model", "check", *names] if len(names) < 2:
            check_model(models.current(*names), say)
            return ""
        case ["model", name]:
            return models.choose(name)
        case ["setup"]:
            with without_working_folder():
                from vibe_jupyter.commands.setup import GuidedSetup

            return GuidedSetup(setup, models, say).work()
        case _:
            return None
