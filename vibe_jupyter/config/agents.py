"""Agents as profiles: the built-in ones, those in files, and which of them the settings leave.

A profile is a name, a few words on it, and settings that hold while its agent is active.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field, JsonValue, ValidationError

from vibe_jupyter.config.project import USERS_TABLES, setting_line
from vibe_jupyter.config.settings import Settings
from vibe_jupyter.config.tables import Entry, Patterns, is_chosen
from vibe_jupyter.config.toml_file import SettingNode, SettingOrigin, make_node, parse_toml, vibe_home
from vibe_jupyter.config.validation import config_error, key_text, move_renamed_keys, validate_settings
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.protocol import Level

Safety = Literal["safe", "neutral", "destructive", "yolo"]
"""Reads only; asks before effects; changes files or cells unasked; asks for nothing."""
AgentType = Literal["agent", "subagent"]

AGENTS_FOLDER: Final = "agents"
"""In the user's folder and in a project's."""
AGENT_FILES: Final = ".toml"
PLAN_TOOL: Final = "exit_plan_mode"
"""The tool of agents that plan; offered only where a profile's `enabled_tools` names it."""

RUN_CODE: Final = "run_code"
_READING: Final[list[JsonValue]] = ["read_file", "grep", "read_notebook", "inspect", "run_code"]
_IN_SANDBOX: Final[dict[str, JsonValue]] = {"run_code": {"permission": "sandbox"}}
"""Code of agents that change nothing."""
_EDITING: Final = ("write_file", "search_replace", "edit_cell", "insert_cell", "delete_cells", "move_cells")
_FROM_WIDEST: Final[tuple[Level, ...]] = ("always", "ask", "sandbox", "never")
_BUILT_IN: Final = SettingOrigin("agent", name="the built-in agent")
_NOTHING: Final = SettingNode({}, _BUILT_IN)


class AgentHeader(Entry):
    """What a profile says of itself; every other key of its file is a setting."""

    name: Annotated[str, Field(pattern=r"^([A-Za-z0-9_-][A-Za-z0-9_.-]*)?$")] = ""
    """Empty for the stem of the file."""
    display_name: str = ""
    description: str = ""
    safety: Safety = "neutral"
    agent_type: AgentType = "agent"


class AgentProfile(NamedTuple):
    """One agent that can be chosen, or a sub-agent."""

    name: str
    description: str = ""
    safety: Safety = "neutral"
    agent_type: AgentType = "agent"
    display_name: str = ""
    """For the user; empty for the name."""
    overrides: SettingNode = _NOTHING
    """Settings that hold while it is active."""
    path: Path | None = None
    """Its file; None for a built-in one."""

    @property
    def is_subagent(self) -> bool:
        """Whether it only works for another agent."""
        return self.agent_type == "subagent"

    @property
    def instructions(self) -> str:
        """What it adds to the base prompt; empty for nothing."""
        said = self.overrides.table.get("instructions")
        return said.value if said is not None and isinstance(said.value, str) else ""

    @property
    def title(self) -> str:
        """The name with its safety."""
        return f"{self.name} ({self.safety})"


class ProfileRules(NamedTuple):
    """What the active profile says of tools. It narrows what all other layers leave, and is widened by none."""

    levels: Mapping[str, Level] = {}
    enabled: tuple[Patterns, ...] = ()
    """Lists of tools, each of which must leave a tool; none for all tools."""
    only_reads: bool = False
    """Whether nothing with effects may run: ``safety = "safe"``."""

    def offers_tool(self, names: Sequence[str]) -> bool:
        """Whether the profile leaves a tool that goes by these names."""
        return all(is_chosen(names, enabled=patterns, disabled=()) for patterns in self.enabled)

    def within(self, caller: "ProfileRules") -> "ProfileRules":
        """These rules for an agent that works for another, which can only be narrowed by them."""
        levels: dict[str, Level] = {
            name: level for name, level in self.levels.items() if level != "always" or name in caller.levels
        }
        for name, level in caller.levels.items():
            own = levels.get(name, level)
            levels[name] = level if _FROM_WIDEST.index(level) >= _FROM_WIDEST.index(own) else own
        return ProfileRules(levels, (*caller.enabled, *self.enabled), self.only_reads or caller.only_reads)

    @property
    def plans(self) -> bool:
        """Whether the agent writes a plan for the user to accept."""
        return bool(self.enabled) and self.offers_tool((PLAN_TOOL,))


def profile_rules(overrides: SettingNode, safety: Safety) -> ProfileRules:
    """Return the rules in a layer that was validated, its tools under their present names.

    An agent that is safe may compute, but only in a copy of the kernel, where nothing stays.
    """
    settings = validate_settings(overrides)
    levels = dict(settings.levels())
    if safety == "safe" and levels.get(RUN_CODE) != "never":
        levels[RUN_CODE] = "sandbox"
    return ProfileRules(levels, (settings.enabled_tools,) if settings.enabled_tools else (), safety == "safe")


def _built_in(name: str, description: str, safety: Safety, settings: dict[str, JsonValue]) -> AgentProfile:
    return AgentProfile(name, description, safety, overrides=make_node(settings, _BUILT_IN))


BUILT_IN_AGENTS: Final = (
    AgentProfile("default", "asks before anything with effects"),
    _built_in(
        "plan",
        "only reads, and writes a plan for you to accept",
        "safe",
        {
            "enabled_tools": [*_READING, "todo", "ask_user_question", "skill", "task", PLAN_TOOL],
            "tools": _IN_SANDBOX,
        },
    ),
    _built_in(
        "accept-edits",
        "edits files and cells unasked; asks before it runs anything",
        "destructive",
        {"tools": {name: {"permission": "always"} for name in _EDITING}},
    ),
    _built_in(
        "auto-approve",
        "asks for nothing but protected files and places outside the project",
        "yolo",
        {"bypass_tool_permissions": True},
    ),
    AgentProfile(
        "explore",
        "reads and searches",
        "safe",
        "subagent",
        overrides=make_node({"enabled_tools": _READING, "tools": _IN_SANDBOX}, _BUILT_IN),
    ),
)
OTHER_NAMES: Final[Mapping[str, str]] = {"ask": "default", "smart-approve": "default"}
"""What Mistral Vibe 3 calls agents that are, or are nearest to, one of ours; a profile of such a name comes first."""
_BUILT_IN_NAMES: Final = tuple(one.name for one in BUILT_IN_AGENTS)


def _built_in_first(entry: tuple[str, AgentProfile]) -> tuple[int, str]:
    """The place of an agent in lists: built-in ones in their order, then by name."""
    name, _ = entry
    return (_BUILT_IN_NAMES.index(name) if name in _BUILT_IN_NAMES else len(_BUILT_IN_NAMES), name)


class ProfileFile(NamedTuple):
    """A file that defines an agent."""

    path: Path
    text: str
    of_project: bool = False


def read_profile(file: ProfileFile) -> AgentProfile:
    """The agent in a file.

    Raises:
        ConfigError: it is no TOML, a value is wrong, or a project takes the name of a built-in agent; names the file.
    """
    layer = parse_toml(file.text, file.path, "project" if file.of_project else "agent")
    written = SettingNode(
        {key: layer.table[key] for key in AgentHeader.model_fields if key in layer.table}, layer.origin
    )
    try:
        header = AgentHeader.model_validate_json(json.dumps(written.plain()), strict=True)
        name = header.name or AgentHeader(name=file.path.stem).name
    except ValidationError as error:
        raise config_error(error, written) from None
    if file.of_project and name in _BUILT_IN_NAMES:
        raise ConfigError(
            f"{file.path}: a folder cannot replace the built-in agent {name}. Give its agent another name."
        )
    left_out = {*AgentHeader.model_fields, *(USERS_TABLES if file.of_project else ())}
    rest = {key: node for key, node in layer.table.items() if key not in left_out}
    validate_settings(move_renamed_keys(SettingNode(rest, layer.origin))[0])
    return AgentProfile(
        name=name,
        description=header.description,
        safety=header.safety,
        agent_type=header.agent_type,
        display_name=header.display_name,
        overrides=SettingNode(rest, layer.origin),
        path=file.path,
    )


def list_profile_demands(file: ProfileFile) -> list[str]:
    """What an agent of a folder would bring if the folder were trusted, a line each."""
    try:
        profile = read_profile(file)
    except ConfigError as error:
        return [f"an agent that cannot be used: {error}"]
    overrides = profile.overrides
    settings = [setting_line(key_text(path, overrides), node) for path, node in overrides.leaves() if path]
    return [f"the agent {profile.title}: {line}" for line in settings or ["no settings of its own"]]


class Profiles:
    """The agents that can be used now."""

    def __init__(self, found: Sequence[AgentProfile], settings: Settings, problems: Sequence[str] = ()) -> None:
        """
        Args:
            found: every profile; of several with one name the first counts.
            settings: which of them to use.
            problems: what was left out, in words.
        """
        by_name: dict[str, AgentProfile] = {}
        told = list(problems)
        for profile in found:
            first = by_name.setdefault(profile.name, profile)
            if first is not profile and profile.path is not None:
                told.append(f"{profile.path} is not used: {first.path} has an agent {profile.name} already.")
        self._all = by_name
        self._usable = {
            name: profile
            for name, profile in sorted(by_name.items(), key=_built_in_first)
            if is_chosen((name,), enabled=settings.enabled_agents, disabled=settings.disabled_agents)
        }
        self.problems = tuple(told)

    def main_agents(self) -> Sequence[AgentProfile]:
        """Those that can take a prompt."""
        return [one for one in self._usable.values() if not one.is_subagent]

    def subagents(self) -> Sequence[AgentProfile]:
        """Those that can work for another."""
        return [one for one in self._usable.values() if one.is_subagent]

    def main_agent(self, name: str) -> AgentProfile:
        """The agent of a name.

        Raises:
            ConfigError: there is none that can take a prompt; names those that can.
        """
        found = self._usable.get(name if name in self._all else OTHER_NAMES.get(name, name))
        if found is not None and not found.is_subagent:
            return found
        raise self._refusal(name, self.main_agents(), "a sub-agent: it works for another agent and takes no prompt")

    def subagent(self, name: str) -> AgentProfile:
        """The sub-agent of a name.

        Raises:
            ConfigError: there is none; names those there are.
        """
        found = self._usable.get(name)
        if found is not None and found.is_subagent:
            return found
        raise self._refusal(
            name, self.subagents(), "not a sub-agent: only those can be called, which prevents recursive spawning"
        )

    def _refusal(self, name: str, there_are: Sequence[AgentProfile], wrong_kind: str) -> ConfigError:
        if name in self._usable:
            why = f"{name!r} is {wrong_kind}."
        elif name in self._all:
            why = f"The settings leave no agent {name!r} (enabled_agents, disabled_agents)."
        else:
            why = f"There is no agent {name!r}."
        known = ", ".join(one.name for one in there_are) or "none"
        return ConfigError("\n".join([f"{why} There are: {known}.", *self.problems]))


class ProfilePaths(NamedTuple):
    """Where the user's own agents are."""

    named: Sequence[Path]
    """Files that ``agent_paths`` lead to."""
    own: Sequence[Path]
    """Those in the user's folder."""
    folders: Sequence[Path]
    """Where they were looked for."""


def own_profile_paths(agent_paths: SettingNode | None, environ: Mapping[str, str]) -> ProfilePaths:
    """Files of agents that the user's ``agent_paths`` name, and those in the user's folder.

    Args:
        agent_paths: as the settings have it. What a project names comes with the project's other files.
        environ: the process's environment.
    """
    home = vibe_home(environ)
    items = agent_paths.items if agent_paths is not None else []
    named = [home / Path(str(item.value)).expanduser() for item in items if item.origin.layer != "project"]
    own = home / AGENTS_FOLDER
    files = [file for path in named for file in _files_at(path)]
    return ProfilePaths(files, _files_at(own, optional=True), [*named, own])


def _files_at(path: Path, *, optional: bool = False) -> list[Path]:
    """The files of a folder; else the path itself, of which reading says what is wrong."""
    return sorted(path.glob(f"*{AGENT_FILES}")) if optional or path.is_dir() else [path]
