"""The system prompt of a conversation, assembled from layers at the first prompt.

Every request begins with it, so it is rewritten (which invalidates the server's prompt cache) only when its statements
on permissions, capabilities or the user's choices would become wrong. The project state stays as of the conversation's
start.
"""

import asyncio
import concurrent.futures
import os
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.config import AgentProfile, Settings
from vibe_jupyter.config.toml_file import SettingNode
from vibe_jupyter.context.project_context import (
    AGENTS_FILE,
    ProjectQuery,
    ProjectState,
    ReadGit,
    agents_text,
    project_text,
    read_project,
)
from vibe_jupyter.context.prompt_files import CLI_PROMPT, SUBAGENT_PROMPT, PromptFiles, fill_variables, prompt_variables
from vibe_jupyter.context.prompt_layers import (
    EVERYTHING,
    LayerSources,
    PromptLayer,
    prompt_layers,
    tools_text,
    unasked_names,
)
from vibe_jupyter.files.plain_file import read_plain_file
from vibe_jupyter.llm.request import Model
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.tools.shell_path import find_shell

NO_SHELL: Final = "none"
_SKILL: Final = "skill"
_BASE: Final = "system_prompt_id"
# Settings that select the layers of the prompt.
_PROMPT_KEYS: Final = (
    _BASE,
    "include_commit_signature",
    "include_model_info",
    "include_prompt_detail",
    "include_project_context",
)
_THEME: Final = "terminal"


class InstructionSources(NamedTuple):
    """Inputs of the system prompt."""

    layers: LayerSources
    files: Mapping[str, bytes]  # project files that may be loaded, by path relative to the project
    model_alias: str  # the user's name for the model
    theme: str  # theme in the settings; only a variable in prompt files here
    redact: Callable[[str], str] = str

    @property
    def terms(self) -> tuple[object, ...]:
        """Values that force a rewrite of the prompt when they change."""
        layers = self.layers
        chosen = (layers.instructions, *(getattr(layers.settings, key) for key in _PROMPT_KEYS))
        here = (layers.around.attended, layers.sees_images, *layers.unasked)
        offered = (tools_text(layers.tools), tuple(layers.servers), layers.skills, layers.subagents)
        return chosen, here, offered, self.model_alias, layers.model

    def for_subagent(self, subagent: "SubagentTerms") -> "InstructionSources":
        """Return the sources for a sub-agent of this agent.

        The base prompt and the layers follow the sub-agent's settings, the statements on tools follow its tools.
        """
        own = {key: getattr(subagent.settings, key) for key in _PROMPT_KEYS}
        if own[_BASE] == CLI_PROMPT and _BASE not in subagent.profile.overrides.table:
            own[_BASE] = SUBAGENT_PROMPT
        layers = self.layers._replace(
            settings=self.layers.settings.model_copy(update=own),
            model=subagent.model.name,
            instructions=subagent.profile.instructions,
            tools=subagent.tools,
            unasked=subagent.still_unasked(self.layers),
            servers=[one for one in self.layers.servers if subagent.has_tool_of(one)],
            skills=self.layers.skills if _SKILL in subagent.tools else "",
            subagents="",
        )
        return self._replace(layers=layers, model_alias=subagent.model.alias)


class SubagentTerms(NamedTuple):
    """Inputs of a sub-agent's prompt."""

    profile: AgentProfile
    settings: Settings  # settings of the caller, overridden by the sub-agent's profile
    model: Model
    tools: frozenset[str]  # names of all tools it is offered

    def still_unasked(self, caller: LayerSources) -> list[str]:
        """Return the tools that run without approval both for its caller and for the sub-agent."""
        if self.profile.safety == "safe":
            return []
        if self.settings.approves_all:
            return list(caller.unasked)
        own = unasked_names(self.settings, caller.around.allowed)
        named = own if EVERYTHING in caller.unasked else set(own).intersection(caller.unasked)
        return sorted(self.tools.intersection(named))

    def has_tool_of(self, server: str) -> bool:
        """Return whether it is offered a tool of this MCP server."""
        with without_working_folder():
            from vibe_jupyter.mcp.tool_names import name_prefix

        return any(name.startswith(name_prefix(server)) for name in self.tools)


class Instructions:
    """The system prompt of one conversation. Main thread only."""

    def __init__(self, engine: Engine, folder: Path, home: Path) -> None:
        self._engine = engine
        self._folder = folder
        self._home = home
        self._terms: tuple[object, ...] | None = None
        # Project state as read for this conversation; None before.
        self.project: concurrent.futures.Future[ProjectState] | None = None
        self._began: datetime | None = None
        # Layers as last sent; empty before the first prompt of the conversation.
        self.layers: tuple[PromptLayer, ...] = ()

    def look(self, settings: Settings, files: Mapping[str, bytes]) -> None:
        """Start reading the project in the background, once per conversation."""
        if settings.include_project_context and self.project is None:
            self.project = self._engine.submit(read_project(self._query(settings, files), _read_git))

    def text(self, sources: InstructionSources) -> str:
        """Return the system prompt, rewritten only if the sources' `terms` have changed.

        Raises:
            ConfigError: The prompt named in the settings doesn't exist.
        """
        if sources.terms != self._terms:
            self.layers, self._terms = self._write_layers(sources), sources.terms
        return self.latest

    def text_for_subagent(self, sources: InstructionSources) -> str:
        """Return the system prompt of a sub-agent.

        Raises:
            ConfigError: The prompt named in the settings doesn't exist.
        """
        return _joined(self._write_layers(sources))

    @property
    def latest(self) -> str:
        """The system prompt as last sent, or "" before the first prompt."""
        return _joined(self.layers)

    def forget(self) -> None:
        """Reset for a new conversation."""
        self._terms = self.project = self._began = None
        self.layers = ()

    def preview(self, sources: InstructionSources) -> tuple[PromptLayer, ...]:
        """Return the layers as a new conversation would get them.

        Raises:
            ConfigError: The prompt named in the settings doesn't exist.
        """
        return Instructions(self._engine, self._folder, self._home)._write_layers(sources)

    def _query(self, settings: Settings, files: Mapping[str, bytes]) -> ProjectQuery:
        return ProjectQuery(self._folder, PromptFiles(files, self._home), settings.project_context)

    def _write_layers(self, sources: InstructionSources) -> tuple[PromptLayer, ...]:
        settings = sources.layers.settings
        query = self._query(settings, sources.files)
        self._began = now = self._began or datetime.now().astimezone()
        values = prompt_variables(model=sources.model_alias, theme=sources.theme, shell=sources.layers.shell, now=now)
        has_notebook = sources.layers.around.has_notebook
        base = fill_variables(query.prompts.base_prompt(settings.system_prompt_id, has_notebook=has_notebook), values)
        project = ""
        self.look(settings, sources.files)
        if settings.include_project_context and self.project is not None:
            told = project_text(query, self.project.result(), values)
            project = "\n\n".join(filter(None, [told, *_agents_texts(query)]))
        written = prompt_layers(sources.layers, base=base, project=project, now=now)
        return tuple(layer._replace(text=sources.redact(layer.text)) for layer in written)


def _joined(layers: Iterable[PromptLayer]) -> str:
    return "\n\n".join(layer.text for layer in layers)


def default_shell() -> str:
    """Return the name of the shell that runs commands, else of the user's shell."""
    path = find_shell() or os.environ.get("SHELL") or os.environ.get("COMSPEC") or NO_SHELL
    return Path(path).name


def written_theme(tree: SettingNode) -> str:
    """Return the theme in a Mistral Vibe config file, or its default."""
    node = tree.table.get("textual_theme")
    return str(node.value) if node is not None else _THEME


def _agents_texts(query: ProjectQuery) -> list[str]:
    try:
        own = read_plain_file(query.prompts.home / AGENTS_FILE)
    except OSError:
        own = None
    said = {"the user": own, "this folder": query.prompts.project.get(AGENTS_FILE)}
    return [agents_text(whose, content, query.settings.max_doc_bytes) for whose, content in said.items()]


async def _read_git(folder: Path, commits: int, seconds: float) -> str:
    read = await asyncio.to_thread(_git_reader, folder)
    return await read(folder, commits, seconds) if read is not None else ""


def _git_reader(folder: Path) -> ReadGit | None:
    """Return a reader of the repository's state, or None outside a repository. Imported only in a repository."""
    if not any(os.path.lexists(place / ".git") for place in (folder, *folder.parents)):
        return None
    with without_working_folder():
        from vibe_jupyter.context.git_state import read_git_state
    return read_git_state
