"""The agent of the session: which one was chosen, where the agents come from, and what its model is hears of it."""

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
    """Finds the agents again at each prompt, so that an edit of a file counts. Main thread only."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self.chosen = ""
        """By name; empty for that of the settings."""
        self._profiles = ReadCache[config.Profiles]()
        self.stamps: Sequence[FileStamp] = ()
        """Of all files and folders that agents were looked for in last."""

    def find(self, look: "FolderLook", reading: config.SettingsReading) -> config.Profiles:
        """Every agent there is now.

        Args:
            look: the folder, of which files count once it is trusted.
            reading: the settings without any agent's.
        """
        named, own, folders = config.own_profile_paths(reading.tree.table.get("agent_paths"), self._environ)
        self.stamps = stamp_files((*named, *own, *folders))
        return self._profiles.get(
            self.stamps, (look, reading), lambda: _read_profiles(named, own, look, reading.settings)
        )

    def name(self, settings: config.Settings) -> str:
        """The session's agent: the chosen one, else that of the settings."""
        return self.chosen or settings.default_agent

    def choose(self, profile: config.AgentProfile) -> None:
        """Use an agent from the next prompt on."""
        self.chosen = profile.name


class AcceptedPlan(NamedTuple):
    """The user wants it carried out."""

    agent: str
    """Who does."""

    @property
    def prompt(self) -> str:
        """What that agent is asked."""
        return "The plan is accepted. Carry it out. Where it is a list of steps in a cell, tick off what is done."


class PlanAcceptance(Middleware):
    """What the user says to the plan of a run; the middleware that ends that run once it was accepted."""

    def __init__(self) -> None:
        self._profiles: config.Profiles | None = None
        self._accepted: AcceptedPlan | None = None

    def begin(self, profiles: config.Profiles) -> None:
        """A run begins, with these agents."""
        self._profiles, self._accepted = profiles, None

    def choices(self) -> Sequence[Choice]:
        """The agents that may carry it out: who only reads cannot, who asks for nothing is not chosen in passing."""
        agents = self._profiles.main_agents() if self._profiles is not None else ()
        able = [one for one in agents if one.safety in ("neutral", "destructive")]
        return [Choice(label=one.name, description=one.description) for one in able]

    def accept(self, agent: str) -> None:
        """The user chose this one. Engine loop only."""
        self._accepted = AcceptedPlan(agent)

    def take(self) -> AcceptedPlan | None:
        """The accepted plan, once."""
        accepted, self._accepted = self._accepted, None
        return accepted

    def before_turn(self, state: TurnState) -> StopRun | None:
        if self._accepted is None:
            return None
        return StopRun("stop", f"The plan is accepted; the agent {self._accepted.agent} goes on.", "info")


def plan_section(current: "CurrentSettings") -> str:
    """What the model is reported of the agent that plans: in each prompt while it is active, and once when it no longer
    is."""
    return section("agent", (_PLANNING if current.plans else _HAS_PLANNED).format(name=current.profile.name))


def list_agents(profiles: config.Profiles, active: str) -> str:
    """All agents, the active one marked, and what is wrong with files of others."""
    rows = [
        ["●" if one.name == active else " ", one.name, one.safety, _words_of(one)]
        for one in (*profiles.main_agents(), *profiles.subagents())
    ]
    return "\n".join([model_table(rows), *(f"! {problem}" for problem in profiles.problems)])


def describe_agent(profile: config.AgentProfile) -> str:
    """One agent in one line."""
    words = _words_of(profile)
    return f"Agent: {profile.title}{f': {words}' if words else ''}"


def _words_of(profile: config.AgentProfile) -> str:
    called = profile.display_name if profile.display_name not in ("", profile.name) else ""
    kind = "sub-agent" if profile.is_subagent else ""
    where = str(profile.path) if profile.path is not None else ""
    return " · ".join(filter(None, (called, kind, profile.description, where)))


def profile_files(look: "FolderLook", files: Mapping[str, bytes]) -> list[config.ProfileFile]:
    """The agents among the files of a folder: those in its ``.vibe/agents``, and where its ``agent_paths`` lead."""
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
    # The first of a name counts.
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
