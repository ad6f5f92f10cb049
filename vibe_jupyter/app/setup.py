"""The settings of one kernel, with those of its folder as far as the person trusts it."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from vibe_jupyter import config
from vibe_jupyter.app.project import Project
from vibe_jupyter.llm.request import Model
from vibe_jupyter.policy.secrets import Redactor

_MODEL_KEY = "key of the model"
"""Stands in the place of a variable's name."""


class Setup:
    """Reads everything anew each time, so that an edit counts at the next prompt. Main thread only."""

    def __init__(self, folder: Path, environ: Mapping[str, str] = os.environ) -> None:
        self.project = Project(folder, environ)
        self.environ = environ
        """The process's environment."""
        self._told: set[str] = set()

    def read(self) -> config.Reading:
        """All settings.

        Raises:
            ConfigError: one is wrong; says where.
        """
        look = self.project.look()
        return config.read(self.environ, project=look.settings, servers=look.servers)

    def settings(self) -> config.Settings:
        """The values alone."""
        return self.read().settings

    def news(self, warnings: Sequence[str]) -> list[str]:
        """What to tell the person of the settings, the tools and the folder, each thing once."""
        look = self.project.look()
        told = [*look.brought.problems, *warnings]
        if look.brings and not look.trusted and look.settings is None and look.servers is None:
            told.append(f"{look.folder} is not trusted; what it brings is not used. %vibe trust shows it and asks.")
        new = [text for text in dict.fromkeys(told) if text not in self._told]
        self._told.update(new)
        return new

    def strike(self) -> Redactor:
        """Strikes out the keys of the environment."""
        return Redactor.of(config.effective(self.environ))

    def redactor(self, settings: config.Settings, model: Model, others: Mapping[str, str]) -> Redactor:
        """Strikes out what is known to be a key; the model's may come from the keyring, where no variable holds it.

        Args:
            settings: name the variables that hold keys.
            model: whose key it is.
            others: what MCP servers get, by what it is called.
        """
        known = {_MODEL_KEY: model.server.api_key or "", **config.effective(self.environ), **others}
        return Redactor.of(known, (_MODEL_KEY, *config.key_variables(settings), *others))
