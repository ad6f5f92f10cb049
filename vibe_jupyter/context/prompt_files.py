"""Prompts that are files: the project's if it is trusted, then the user's, then those that come with this package.

A base prompt is named by ``system_prompt_id``. The utility prompts have names of their own, and are replaced by a file
of that name. Variables in braces are filled in; all else stays as it is written, the environment's variables too.
"""

import getpass
import sys
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Final, NamedTuple

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.lazy_patterns import lazy_pattern

PROMPTS: Final = "prompts"
"""The folder, below the user's own and below ``.vibe``."""
ENDING: Final = ".md"
CLI_PROMPT: Final = "cli"
"""The base prompt where the settings name no other."""
SUBAGENT_PROMPT: Final = "subagent"
"""What a sub-agent has in its place: it names no tools, since a sub-agent may have any of them or none."""
WITHOUT_NOTEBOOK: Final = MappingProxyType({CLI_PROMPT: "shell", SUBAGENT_PROMPT: "shell_subagent"})
"""What takes the place of ours where there are no cells."""
UTILITY_PROMPTS: Final = ("compact", "project_context", "dangerous_directory")
_BUILT_IN: Final = Path(__file__).parents[1] / "agent" / PROMPTS
_VARIABLE: Final = lazy_pattern(r"\{(?P<name>[a-z_]+(?:\.[a-z_]+)?)\}")
_PLATFORMS: Final = {"win32": "Windows", "darwin": "macOS", "linux": "Linux"}


class PromptText(NamedTuple):
    """What a file says."""

    text: str
    is_built_in: bool
    """Whether it came with this package."""


class PromptFiles(NamedTuple):
    """Where prompts are looked for, the strongest first."""

    project: Mapping[str, bytes]
    """What may be loaded of the project, by path below it; nothing unless it is trusted."""
    home: Path
    """The user's own folder."""

    def base_prompt(self, name: str, *, has_notebook: bool = True) -> str:
        """The base prompt of that name.

        Args:
            name: as the settings have it.
            has_notebook: whether there can be cells; else one of ours gives way to that for a shell.

        Raises:
            ConfigError: there is none; says which there are.
        """
        found = None if name in UTILITY_PROMPTS else self._find(name)
        if found is None:
            raise ConfigError(
                f"There is no prompt {name!r} for system_prompt_id. The prompts are: {', '.join(self.names())}. "
                f"Another one is a file {self.home / PROMPTS / name}{ENDING}."
            )
        if found.is_built_in and not has_notebook and name in WITHOUT_NOTEBOOK:
            return self.base_prompt(WITHOUT_NOTEBOOK[name])
        return found.text

    def utility_prompt(self, name: str) -> PromptText:
        """The prompt for one purpose, such as ``compact``.

        Raises:
            ConfigError: there is none of that name.
        """
        found = self._find(name)
        if found is None:
            raise ConfigError(f"There is no prompt {name!r}: no file {self.home / PROMPTS / name}{ENDING}.")
        return found

    def names(self) -> list[str]:
        """Every base prompt there is."""
        below = (self.home / PROMPTS).glob(f"*{ENDING}")
        found = {path.stem for path in (*_BUILT_IN.iterdir(), *below) if path.name.endswith(ENDING)}
        found |= {path.stem for path in map(PurePosixPath, self.project) if path == _project_path(path.stem)}
        return sorted(found.difference(UTILITY_PROMPTS))

    def own_path(self, name: str) -> Path:
        """Where the user's own prompt of that name would be."""
        return self.home / PROMPTS / f"{name}{ENDING}"

    def _find(self, name: str) -> PromptText | None:
        if (content := self.project.get(str(_project_path(name)))) is not None:
            return PromptText(_decoded(content), is_built_in=False)
        own = self.own_path(name)
        try:
            if own.is_file():
                return PromptText(_decoded(own.read_bytes()), is_built_in=False)
        except OSError as error:
            raise ConfigError(f"Cannot read {own}: {error.strerror}. Fix or move the file, then run again.") from error
        built_in = _BUILT_IN / f"{name}{ENDING}"
        return PromptText(_decoded(built_in.read_bytes()), is_built_in=True) if built_in.is_file() else None


def prompt_variables(*, model: str, theme: str, shell: str, now: datetime) -> Mapping[str, str]:
    """What stands for each variable of a prompt file."""
    return {
        "config.active_model": model,
        "config.textual_theme": theme,
        "platform": platform_name(),
        "shell": shell,
        "timestamp": f"{now:%Y-%m-%d %H:%M %Z}".strip(),
        "username": _user_name(),
    }


def fill_variables(text: str, values: Mapping[str, str]) -> str:
    """The text with the variables that are known; a line that holds empty ones alone is left out."""

    def filled(line: str) -> str | None:
        out = _VARIABLE.sub(lambda found: values.get(found["name"], found[0]), line)
        return out if out.strip() or out == line else None

    return "\n".join(line for line in map(filled, text.split("\n")) if line is not None)


def platform_name() -> str:
    """What users call the operating system."""
    return _PLATFORMS.get(sys.platform, sys.platform)


def _project_path(name: str) -> PurePosixPath:
    return PurePosixPath(".vibe", PROMPTS, f"{name}{ENDING}")


def _decoded(content: bytes) -> str:
    return content.decode("utf-8-sig", "replace").strip()


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # a user id without a name, as in some containers
        return ""
