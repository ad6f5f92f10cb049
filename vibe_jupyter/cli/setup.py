"""`vibe-jupyter setup`: the questions of `%vibe setup`, in a terminal."""

import argparse
import os

from vibe_jupyter import config
from vibe_jupyter.cli.exit_codes import DONE, INTERRUPTED
from vibe_jupyter.cli.shell_app import is_terminal
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.shell_advice import in_shell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Register `vibe-jupyter setup`, which takes no arguments."""
    parser.set_defaults(command=_set_up)


def _set_up(_chosen: argparse.Namespace) -> int:
    if not is_terminal():
        raise ConfigError(
            "setup asks questions, and this is no terminal. Set MISTRAL_API_KEY in the environment or in "
            f"{config.env_path(os.environ)}, or describe another server in {config.config_path(os.environ)}: "
            "active_model, [[providers]] with name, api_base and api_key_env_var, [[models]] with name and provider. "
            "VIBE_ACTIVE_MODEL chooses one of several models. For one prompt alone: "
            "vibe-jupyter ask --model NAME@http://127.0.0.1:8080/v1 PROMPT"
        )
    from vibe_jupyter.app.model_setup import ModelSetup
    from vibe_jupyter.cli.shell_app import open_app
    from vibe_jupyter.commands.setup import GuidedSetup
    from vibe_jupyter.kernel.interrupts import Presses

    def say(text: str) -> None:
        print(in_shell(text))

    presses = Presses()
    with open_app(presses) as app:
        setup = GuidedSetup(app.setup, ModelSetup(app.setup, app.models), say, has_session=False)
        say(setup.work())
    return INTERRUPTED if setup.is_stopped else DONE
