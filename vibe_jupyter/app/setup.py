"""The settings of one kernel, with those of its folder as far as the person trusts it."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibe_jupyter import config
from vibe_jupyter.policy.secrets import Redactor
from vibe_jupyter.policy.survey import PROJECT_FOLDER, Brought, survey
from vibe_jupyter.policy.trust import State, TrustedFolders, TrustQuestion

_CONFIG: Final = f"{PROJECT_FOLDER}/config.toml"


@dataclass(frozen=True)
class _Look:
    """What one look at the folder found."""

    brought: Brought
    brings: tuple[str, ...]
    state: State

    @property
    def trusted(self) -> bool:
        return self.state == "trusted"


class Setup:
    """Reads everything anew each time, so that an edit counts at the next prompt. Main thread only."""

    def __init__(self, folder: Path, environ: Mapping[str, str] = os.environ) -> None:
        self.folder = folder.resolve()
        self._environ = environ
        self._told: set[str] = set()

    @property
    def environ(self) -> Mapping[str, str]:
        """The process's environment."""
        return self._environ

    def question(self) -> TrustQuestion | None:
        """What is to be asked of the person; None where the folder brings nothing, or it was decided.

        Raises:
            ConfigError: the decisions cannot be read.
        """
        look = self._look()
        if not look.brings or look.state in ("trusted", "untrusted"):
            return None
        return self._question(look)

    def demand(self) -> TrustQuestion | None:
        """The same whatever was decided; None where the folder brings nothing."""
        look = self._look()
        return self._question(look) if look.brings else None

    def answer(self, question: TrustQuestion, *, trusted: bool) -> None:
        """Keep what the person said."""
        self._trusted_folders().remember(question.folder, question.digest, trusted=trusted)

    def forget(self) -> bool:
        """Take the decision on the folder back; whether there was one."""
        return self._trusted_folders().forget(self.folder)

    @property
    def is_trusted(self) -> bool:
        """Whether what the folder brings now is used."""
        return self._look().trusted

    def trust(self) -> str:
        """How the folder stands, in words."""
        look = self._look()
        if not look.brings:
            return f"{self.folder} brings no settings and no tools."
        words = {
            "trusted": "is trusted, as it is now",
            "untrusted": "is not trusted: what it brings is not used",
            "changed": "has changed since you decided: what it brings is not used",
            "unknown": "was not decided on: what it brings is not used",
        }
        return "\n".join([f"{self.folder} {words[look.state]}.", *(f"  {line}" for line in look.brings)])

    def read(self) -> config.Reading:
        """All settings.

        Raises:
            ConfigError: one is wrong; says where.
        """
        look = self._look()
        text = look.brought.files.get(_CONFIG)
        file = None if text is None else self._file(text, trusted=look.trusted)
        return config.read(self._environ, project=file)

    def settings(self) -> config.Settings:
        """The values alone."""
        return self.read().settings

    def trusted_files(self) -> Mapping[str, bytes]:
        """What the folder brings, by path below it; nothing unless it is trusted."""
        look = self._look()
        return look.brought.files if look.trusted else {}

    def news(self, warnings: Sequence[str]) -> list[str]:
        """What to tell the person of the settings, the tools and the folder, each thing once."""
        look = self._look()
        told = [*look.brought.problems, *warnings]
        if look.brings and not look.trusted and _CONFIG not in look.brought.files:
            told.append(f"{self.folder} is not trusted; its tools are not used. %vibe trust shows them and asks.")
        new = [text for text in told if text not in self._told]
        self._told.update(new)
        return new

    def redactor(self, settings: config.Settings) -> Redactor:
        """Strikes out what is known to be a key."""
        return Redactor.of(config.effective(self._environ), config.key_variables(settings))

    def _look(self) -> _Look:
        if (self.folder / PROJECT_FOLDER) == config.vibe_home(self._environ).resolve():
            return _Look(Brought(), (), "trusted")  # the person's own folder
        brought = survey(self.folder)
        text = brought.files.get(_CONFIG)
        demanded: list[str] = []
        if text is not None:
            file = self._file(text, trusted=False)
            brought = survey(self.folder, config.tool_paths(file))
            demanded = config.demands(file)
        tools = [
            f"{'runs' if path.endswith('.py') else 'tells the model'} {path} ({len(content):,} bytes)"
            for path, content in brought.files.items()
            if path != _CONFIG
        ]
        state = self._trusted_folders().state(self.folder, brought.digest) if brought.files else "unknown"
        return _Look(brought, (*demanded, *tools), state)

    def _file(self, text: bytes, *, trusted: bool) -> config.ProjectFile:
        return config.ProjectFile(self.folder / _CONFIG, text.decode("utf-8", "replace"), trusted)

    def _question(self, look: _Look) -> TrustQuestion:
        return TrustQuestion(self.folder, look.brings, look.brought.digest, changed=look.state == "changed")

    def _trusted_folders(self) -> TrustedFolders:
        return TrustedFolders(config.vibe_home(self._environ))
