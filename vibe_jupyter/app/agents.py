"""Selection of the session's agent, discovery of agent profiles, and the prompt section for plan mode."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from vibe_jupyter import config
from vibe_jupyter.agent.middleware import Middleware, StopRun, TurnState
from vibe_jupyter.app.models import model_table
from vibe_jupyter.config.agents import AGENT_FILES, AGENTS_FOLDER
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.files.file_stamps import FileStamp, ReadCache, stamp_files
from vibe_jupyter.files.plain_file import read_plain_file
from vibe_jupyter.files.truncation import section
from vibe_jupyter.permissions.folder_trust import PROJECT_FOLDER
from vibe_jupyter.protocol import Choice

if TYPE_CHECKING:
    from vibe_jupyter.app.project import CurrentSettings, FolderLook

_PLANNING: Final = (
    "The agent {name} is active: you may only read. Change no cell, file or variable; run_code, if offered, computes "
    "in a copy and keeps nothing. When you have read enough, call exit_plan_mode with the plan."
)
_HAS_PLANNED: Final = "You no longer only plan. The agent {name} is active: change and run what the user asks for."


class AgentChoice:
    """Selected agent and cached profiles.

    Rereads the profiles at each prompt so that edits take effect. Main thread only.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.chosen = ""  # name of the selected agent; "" for the default in the settings
        self._profiles = ReadCache[config.Profiles]()
        self.stamps: Sequence[FileStamp] = ()  # stamps of all files and folders searched last

    def find(self, look: "FolderLook", reading: config.SettingsReading) -> config.Profiles:
        """Return all agents available now.

        Args:
            look: Scan of the project folder. Its files count only once the folder is trusted.
            reading: The settings before any agent's overrides.
        """
        named, own, folders = config.own_profile_paths(reading.tree.table.get("agent_paths"), self._environ)
        self.stamps = stamp_files((*named, *own, *folders))
        return self._profiles.get(
            self.stamps, (look, reading), lambda: _read_profiles(named, own, look, reading.settings)
        )

    def name(self, settings: config.Settings) -> str:
        """Return the name of the session's agent: the selected one, else the default in the settings."""
        return self.chosen or settings.default_agent

    def choose(self, profile: config.AgentProfile) -> None:
        """Use an agent from the next prompt on."""
        self.chosen = profile.name


class AcceptedPlan(NamedTuple):
    """A plan that the user accepted."""

    agent: str  # name of the agent that carries out the plan

    @property
    def prompt(self) -> str:
        """Prompt for the agent that carries out the plan."""
        return "The plan is accepted. Carry it out. Where it is a list of steps in a cell, tick off what is done."


class PlanAcceptance(Middleware):
    """The user's decision on the plan of a run. As middleware, it ends the run once the plan is accepted."""

    def __init__(self) -> None:
        self._profiles: config.Profiles | None = None
        self._accepted: AcceptedPlan | None = None

    def begin(self, profiles: config.Profiles) -> None:
        """Reset for a new run that can choose among `profiles`."""
        self._profiles, self._accepted = profiles, None

    def choices(self) -> Sequence[Choice]:
        """Return the agents that may carry out the plan.

        Read-only agents can't, and agents that skip approvals must be chosen deliberately rather than here.
        """
        agents = self._profiles.main_agents() if self._profiles is not None else ()
        able = [one for one in agents if one.safety in ("neutral", "destructive")]
        return [Choice(label=one.name, description=one.description) for one in able]

    def accept(self, agent: str) -> None:
        """Record the agent that the user chose. Engine loop only."""
        self._accepted = AcceptedPlan(agent)

    def take(self) -> AcceptedPlan | None:
        """Return the accepted plan and clear it."""
        accepted, self._accepted = self._accepted, None
        return accepted

    def before_turn(self, state: TurnState) -> StopRun | None:
        if self._accepted is None:
            return None
        return StopRun("stop", f"The plan is accepted; the agent {self._accepted.agent} goes on.", "info")


def plan_section(current: "CurrentSettings") -> str:
    """Describe plan mode to the model: in each prompt while a planning agent is active, and once after it ends."""
    return section("agent", (_PLANNING if current.plans else _HAS_PLANNED).format(name=current.profile.name))


def list_agents(profiles: config.Profiles, active: str) -> str:
    """List all agents with the active one marked, followed by problems in agent files."""
    rows = [
        ["●" if one.name == active else " ", one.name, one.safety, _words_of(one)]
        for one in (*profiles.main_agents(), *profiles.subagents())
    ]
    return "\n".join([model_table(rows), *(f"! {problem}" for problem in profiles.problems)])


def describe_agent(profile: config.AgentProfile) -> str:
    """Describe an agent in one line."""
    words = _words_of(profile)
    return f"Agent: {profile.title}{f': {words}' if words else ''}"


def _words_of(profile: config.AgentProfile) -> str:
    called = profile.display_name if profile.display_name not in ("", profile.name) else ""
    kind = "sub-agent" if profile.is_subagent else ""
    where = str(profile.path) if profile.path is not None else ""
    return " · ".join(filter(None, (called, kind, profile.description, where)))


def profile_files(look: "FolderLook", files: Mapping[str, bytes]) -> list[config.ProfileFile]:
    """Select the agent profiles among a folder's files: those in `.vibe/agents` or in its `agent_paths`."""
    named = [] if look.settings is None else config.named_paths(look.settings, "agent_paths")
    places = {look.folder / PROJECT_FOLDER / AGENTS_FOLDER, *(look.folder / path for path in named)}
    found = [(look.folder / path, content) for path, content in files.items() if path.endswith(AGENT_FILES)]
    return [
        config.ProfileFile(path, content.decode("utf-8-sig", "replace"), of_project=True)
        for path, content in found
        if places & {path, path.parent}
    ]


def _read_profiles(
    named: Iterable[Path], own: Iterable[Path], look: "FolderLook", settings: config.Settings
) -> config.Profiles:
    found: list[config.AgentProfile] = []
    problems: list[str] = []
    # Order matters: the first profile of a name wins.
    for file in (*named, *profile_files(look, look.files), *own):
        try:
            found.append(config.read_profile(file if isinstance(file, config.ProfileFile) else _read_file(file)))
        except ConfigError as error:
            problems.append(f"An agent was left out. {error}")
    return config.Profiles([*found, *config.BUILT_IN_AGENTS], settings, problems)


def _read_file(path: Path) -> config.ProfileFile:
    try:
        return config.ProfileFile(path, read_plain_file(path).decode("utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read {path}: {error}.") from error
