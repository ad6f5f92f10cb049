"""Prompt files: the project's if trusted, then the user's, then those shipped with this package.

The base prompt is selected by ``system_prompt_id``. Utility prompts have fixed names and are overridden by files with
those names. Variables in braces are substituted; everything else, including environment variables, is left unchanged.
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

PROMPTS: Final = "prompts"  # name of the folder in the user's own folder and in ``.vibe``
ENDING: Final = ".md"
CLI_PROMPT: Final = "cli"  # default base prompt
# Base prompt of sub-agents. It names no tools, since a sub-agent may have any of them or none.
SUBAGENT_PROMPT: Final = "subagent"
# Replacements for built-in prompts where there are no cells.
WITHOUT_NOTEBOOK: Final = MappingProxyType({CLI_PROMPT: "shell", SUBAGENT_PROMPT: "shell_subagent"})
UTILITY_PROMPTS: Final = ("compact", "project_context", "dangerous_directory")
_BUILT_IN: Final = Path(__file__).parents[1] / "agent" / PROMPTS
_VARIABLE: Final = lazy_pattern(r"\{(?P<name>[a-z_]+(?:\.[a-z_]+)?)\}")
_PLATFORMS: Final = {"win32": "Windows", "darwin": "macOS", "linux": "Linux"}


class PromptText(NamedTuple):
    """Content and origin of a prompt file."""

    text: str
    is_built_in: bool  # whether it is shipped with this package


class PromptFiles(NamedTuple):
    """Locations of prompt files, in order of precedence."""

    project: Mapping[str, bytes]  # loadable files by path in the project; empty unless it is trusted
    home: Path  # the user's own folder

    def base_prompt(self, name: str, *, has_notebook: bool = True) -> str:
        """Return a base prompt.

        Args:
            name: Name of the prompt, as in the settings.
            has_notebook: Whether there can be cells. If not, a built-in prompt is replaced by its variant for shells.

        Raises:
            ConfigError: There is no such prompt. The message lists the existing ones.
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
        """Return the prompt for a specific purpose, such as ``compact``.

        Raises:
            ConfigError: There is no such prompt.
        """
        found = self._find(name)
        if found is None:
            raise ConfigError(f"There is no prompt {name!r}: no file {self.home / PROMPTS / name}{ENDING}.")
        return found

    def names(self) -> list[str]:
        """Return the names of all base prompts."""
        below = (self.home / PROMPTS).glob(f"*{ENDING}")
        found = {path.stem for path in (*_BUILT_IN.iterdir(), *below) if path.name.endswith(ENDING)}
        found |= {path.stem for path in map(PurePosixPath, self.project) if path == _project_path(path.stem)}
        return sorted(found.difference(UTILITY_PROMPTS))

    def own_path(self, name: str) -> Path:
        """Return the path of the user's prompt with this name, which may not exist."""
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
    """Return the values of the variables in prompt files."""
    return {
        "config.active_model": model,
        "config.textual_theme": theme,
        "platform": platform_name(),
        "shell": shell,
        "timestamp": f"{now:%Y-%m-%d %H:%M %Z}".strip(),
        "username": _user_name(),
    }


def fill_variables(text: str, values: Mapping[str, str]) -> str:
    """Substitute known variables. Lines that become blank are removed."""

    def filled(line: str) -> str | None:
        out = _VARIABLE.sub(lambda found: values.get(found["name"], found[0]), line)
        return out if out.strip() or out == line else None

    return "\n".join(line for line in map(filled, text.split("\n")) if line is not None)


def platform_name() -> str:
    """Return the common name of the operating system."""
    return _PLATFORMS.get(sys.platform, sys.platform)


def _project_path(name: str) -> PurePosixPath:
    return PurePosixPath(".vibe", PROMPTS, f"{name}{ENDING}")


def _decoded(content: bytes) -> str:
    return content.decode("utf-8-sig", "replace").strip()


def _user_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # user ids without a name, as in some containers
        return ""
