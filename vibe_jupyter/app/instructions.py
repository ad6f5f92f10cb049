"""The system prompt of a conversation: how to work, where, and what the user's and the folder's AGENTS.md say.

It is put together at the first prompt, and stays as it is while who may allow what and what is seen does: every request
begins with it.
"""

import platform
import re
import sys
from collections.abc import Mapping
from datetime import datetime
from os import scandir
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.agent.agent import system_prompt
from vibe_jupyter.config import Settings
from vibe_jupyter.context.situation import Surroundings
from vibe_jupyter.files.truncation import head_and_tail, section

AGENTS_FILE: Final = "AGENTS.md"
_LIBRARIES: Final = (
    *("numpy", "pandas", "polars", "pyarrow", "duckdb", "scipy", "scikit_learn", "statsmodels", "matplotlib"),
    *("seaborn", "plotly", "altair", "xgboost", "lightgbm", "torch", "tensorflow", "jax"),
)
"""Distributions that code for notebooks depends on, in the form of their folders' names."""
_INSTALLED: Final = re.compile(r"(?P<name>[A-Za-z0-9_.]+)-(?P<version>\d[^-]*)\.(?:dist|egg)-info")


class InstructionSources(NamedTuple):
    """What the prompt is made of, beside its fixed text."""

    around: Surroundings
    settings: Settings
    sees_images: bool
    home: Path
    """The user's own folder."""
    project_text: bytes | None
    """AGENTS.md of the folder; None where there is none that may be used."""
    skills: str = ""
    """What is said of skills; empty where there are none."""

    @property
    def unasked(self) -> list[str]:
        """What runs without asking besides what only reads."""
        if self.settings.bypass_tool_permissions:
            return ["everything"]
        return sorted(
            {name for name, level in self.settings.levels().items() if level == "always"} | self.around.allowed
        )

    @property
    def terms(self) -> tuple[object, ...]:
        """What would be untrue of a later prompt, if it changed."""
        return self.around.attended, self.sees_images, self.skills, *self.unasked


class Instructions:
    """The text of one conversation."""

    def __init__(self) -> None:
        self._terms: tuple[object, ...] | None = None
        self._text = ""

    def text(self, sources: InstructionSources) -> str:
        """As it was written first, or again where it would be untrue."""
        if sources.terms != self._terms:
            self._terms, self._text = sources.terms, _write_instructions(sources)
        return self._text

    @property
    def latest(self) -> str:
        """As it was sent last; empty before the first prompt."""
        return self._text

    def forget(self) -> None:
        """Begin a new conversation."""
        self._terms = None


def _write_instructions(sources: InstructionSources) -> str:
    try:
        own = (sources.home / AGENTS_FILE).read_bytes()
    except OSError:
        own = None
    longest = sources.settings.project_context.max_doc_bytes
    texts = {"the user": own, "this folder": sources.project_text}
    said = [_agents_section(whose, text, longest) for whose, text in texts.items() if text and text.strip()]
    return "\n\n".join(filter(None, [system_prompt(), _frame_text(sources), sources.skills, *said]))


def _agents_section(whose: str, text: bytes, longest: int) -> str:
    body = head_and_tail(text.decode("utf-8-sig", "replace").strip(), longest)
    return f"Instructions of {whose} ({AGENTS_FILE}):\n{section('agents', body)}"


def _frame_text(sources: InstructionSources) -> str:
    around = sources.around
    where = "none, a terminal without cells"
    if around.has_notebook:
        where = "a page shows the notebook" if around.is_live else "no page; the notebook's file alone"
    who = "the user is here and can allow calls" if around.attended else "nobody is here; what needs approval is denied"
    unasked = f" and {', '.join(sources.unasked)}" if sources.unasked else ""
    return "\n".join(
        [
            f"Date: {datetime.now().astimezone():%Y-%m-%d}. Python {platform.python_version()}{_libraries_text()}.",
            f"Front end: {where}. Approval: {who}. Run unasked: what only reads{unasked}.",
            f"Images: you {'see' if sources.sees_images else 'do not see'} figures.",
        ]
    )


def _libraries_text() -> str:
    found = _installed_versions()
    return "".join(f", {name.replace('_', '-')} {found[name]}" for name in _LIBRARIES if name in found)


def _installed_versions() -> Mapping[str, str]:
    """By the names of the folders that say so, which costs a fraction of what reading them does."""
    found: dict[str, str] = {}
    for folder in sys.path:
        try:
            with scandir(folder or ".") as entries:
                matches = [_INSTALLED.fullmatch(entry.name) for entry in entries]
        except OSError:
            continue
        for match in matches:
            if match is not None:
                found.setdefault(match["name"].lower().replace("-", "_").replace(".", "_"), match["version"])
    return found
