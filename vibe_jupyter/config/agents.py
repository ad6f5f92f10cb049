"""Agent profiles: built-in ones, those in files, and the selection enabled in the settings.

A profile is a name, a description, and settings that apply while its agent is active.
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

# In this order: reads only; asks before effects; changes files or cells without approval; needs no approval at all.
Safety = Literal["safe", "neutral", "destructive", "yolo"]
AgentType = Literal["agent", "subagent"]

AGENTS_FOLDER: Final = "agents"  # in the user's folder and in a project's
AGENT_FILES: Final = ".toml"
PLAN_TOOL: Final = "exit_plan_mode"  # the tool of planning agents; offered only if a profile's `enabled_tools` names it

RUN_CODE: Final = "run_code"
_READING: Final[list[JsonValue]] = ["read_file", "grep", "read_notebook", "inspect", "run_code"]
# For code of agents that change nothing.
_IN_SANDBOX: Final[dict[str, JsonValue]] = {"run_code": {"permission": "sandbox"}}
_EDITING: Final = ("write_file", "search_replace", "edit_cell", "insert_cell", "delete_cells", "move_cells")
_FROM_WIDEST: Final[tuple[Level, ...]] = ("always", "ask", "sandbox", "never")
_BUILT_IN: Final = SettingOrigin("agent", name="the built-in agent")
_NOTHING: Final = SettingNode({}, _BUILT_IN)


class AgentHeader(Entry):
    """Metadata of a profile. All other keys of its file are settings."""

    name: Annotated[str, Field(pattern=r"^([A-Za-z0-9_-][A-Za-z0-9_.-]*)?$")] = ""
    """Name of the agent, or "" for the file's stem."""
    display_name: str = ""
    description: str = ""
    safety: Safety = "neutral"
    agent_type: AgentType = "agent"


class AgentProfile(NamedTuple):
    """An agent that can be chosen, or a sub-agent."""

    name: str
    description: str = ""
    safety: Safety = "neutral"
    agent_type: AgentType = "agent"
    display_name: str = ""  # name shown to the user; "" for `name`
    overrides: SettingNode = _NOTHING  # settings that apply while it is active
    path: Path | None = None  # None for a built-in profile

    @property
    def is_subagent(self) -> bool:
        """True if it only works for another agent."""
        return self.agent_type == "subagent"

    @property
    def instructions(self) -> str:
        """Text that it adds to the base prompt, or ""."""
        said = self.overrides.table.get("instructions")
        return said.value if said is not None and isinstance(said.value, str) else ""

    @property
    def title(self) -> str:
        """The name with its safety."""
        return f"{self.name} ({self.safety})"


class ProfileRules(NamedTuple):
    """Tool rules of the active profile. They only narrow what the other layers allow, and no layer can widen them."""

    levels: Mapping[str, Level] = {}
    enabled: tuple[Patterns, ...] = ()  # allowlists of tools, all of which must allow a tool; empty for all tools
    only_reads: bool = False  # True if nothing with effects may run: `safety = "safe"`

    def offers_tool(self, names: Sequence[str]) -> bool:
        """Return whether the profile offers a tool with these names."""
        return all(is_chosen(names, enabled=patterns, disabled=()) for patterns in self.enabled)

    def within(self, caller: "ProfileRules") -> "ProfileRules":
        """Combine these rules with those of a calling agent, which can't be widened."""
        levels: dict[str, Level] = {
            name: level for name, level in self.levels.items() if level != "always" or name in caller.levels
        }
        for name, level in caller.levels.items():
            own = levels.get(name, level)
            levels[name] = level if _FROM_WIDEST.index(level) >= _FROM_WIDEST.index(own) else own
        return ProfileRules(levels, (*caller.enabled, *self.enabled), self.only_reads or caller.only_reads)

    @property
    def plans(self) -> bool:
        """True if the agent writes a plan for the user to accept."""
        return bool(self.enabled) and self.offers_tool((PLAN_TOOL,))


def profile_rules(overrides: SettingNode, safety: Safety) -> ProfileRules:
    """Return the rules in a validated layer that uses the current names of tools.

    A safe agent may run code, but only in a forked copy of the kernel, whose changes are discarded.
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
# Names of agents in Mistral Vibe 3, and our nearest equivalents; a profile of that name takes precedence.
OTHER_NAMES: Final[Mapping[str, str]] = {"ask": "default", "smart-approve": "default"}
_BUILT_IN_NAMES: Final = tuple(one.name for one in BUILT_IN_AGENTS)


def _built_in_first(entry: tuple[str, AgentProfile]) -> tuple[int, str]:
    """Sort key that puts built-in agents first, in their order, then the others by name."""
    name, _ = entry
    return (_BUILT_IN_NAMES.index(name) if name in _BUILT_IN_NAMES else len(_BUILT_IN_NAMES), name)


class ProfileFile(NamedTuple):
    """A file that defines an agent."""

    path: Path
    text: str
    of_project: bool = False


def read_profile(file: ProfileFile) -> AgentProfile:
    """Read an agent profile.

    Raises:
        ConfigError: Invalid TOML or an invalid value, or a project redefines a built-in agent; the message names the
            file.
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
    """List what an agent of a folder would bring if the folder were trusted."""
    try:
        profile = read_profile(file)
    except ConfigError as error:
        return [f"an agent that cannot be used: {error}"]
    overrides = profile.overrides
    settings = [setting_line(key_text(path, overrides), node) for path, node in overrides.leaves() if path]
    return [f"the agent {profile.title}: {line}" for line in settings or ["no settings of its own"]]


class Profiles:
    """The agents available now."""

    def __init__(self, found: Sequence[AgentProfile], settings: Settings, problems: Sequence[str] = ()) -> None:
        """Select the available profiles.

        Args:
            found: All profiles in order of precedence: the first of a name wins.
            settings: Settings that enable and disable agents.
            problems: Messages about profiles left out so far.
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
        """Return the agents that can take a prompt."""
        return [one for one in self._usable.values() if not one.is_subagent]

    def subagents(self) -> Sequence[AgentProfile]:
        """Return the agents that can work for another."""
        return [one for one in self._usable.values() if one.is_subagent]

    def main_agent(self, name: str) -> AgentProfile:
        """Return the main agent with this name.

        Raises:
            ConfigError: There is none that can take a prompt; the message lists those that can.
        """
        found = self._usable.get(name if name in self._all else OTHER_NAMES.get(name, name))
        if found is not None and not found.is_subagent:
            return found
        raise self._refusal(name, self.main_agents(), "a sub-agent: it works for another agent and takes no prompt")

    def subagent(self, name: str) -> AgentProfile:
        """Return the sub-agent with this name.

        Raises:
            ConfigError: There is none; the message lists the sub-agents.
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
    """Locations of the user's own agents."""

    named: Sequence[Path]  # files in `agent_paths`
    own: Sequence[Path]  # files in the user's folder
    folders: Sequence[Path]  # all places searched


def own_profile_paths(agent_paths: SettingNode | None, environ: Mapping[str, str]) -> ProfilePaths:
    """Find the agent files in the user's `agent_paths` and in the user's folder.

    Args:
        agent_paths: The setting. Paths from a project are skipped, since these files are read with the project's
            others.
        environ: The process's environment.
    """
    home = vibe_home(environ)
    items = agent_paths.items if agent_paths is not None else []
    named = [home / Path(str(item.value)).expanduser() for item in items if item.origin.layer != "project"]
    own = home / AGENTS_FOLDER
    files = [file for path in named for file in _files_at(path)]
    return ProfilePaths(files, _files_at(own, optional=True), [*named, own])


def _files_at(path: Path, *, optional: bool = False) -> list[Path]:
    """Return the agent files in a folder, or the path itself if it is none, so that reading it reports the error."""
    return sorted(path.glob(f"*{AGENT_FILES}")) if optional or path.is_dir() else [path]
