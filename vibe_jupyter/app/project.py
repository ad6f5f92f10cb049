"""The project of a prompt: its settings, what an untrusted folder would bring, and the card that asks about it."""

import os
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from vibe_jupyter import config
from vibe_jupyter.app.agents import (
    AcceptedPlan,
    AgentChoice,
    PlanAcceptance,
    describe_agent,
    list_agents,
    profile_files,
)
from vibe_jupyter.app.hooks import (
    CLAUDE_FILES,
    PROJECT_FILES,
    LoadedHooks,
    has_hooks,
    hook_lines,
    load_hooks,
    user_files,
)
from vibe_jupyter.app.run_view import BegunRun, RunView
from vibe_jupyter.app.shell_host import ShellHost
from vibe_jupyter.config.agents import AGENT_FILES
from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.files.file_stamps import FileStamp, ReadCache, stamp_files
from vibe_jupyter.permissions.folder_trust import (
    PROJECT_FOLDER,
    FolderContents,
    State,
    TrustedFolders,
    TrustQuestion,
    scan_folder,
    stamp_folder,
)
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.permissions.secret_sources import Memory, NoVariables, SecretsOfVariables
from vibe_jupyter.protocol import Headline, Preview
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.ui.front_end import EVERYTHING

if TYPE_CHECKING:
    from vibe_jupyter.agent.approval import StandaloneApprovalRun

TOOLS: Final = "tools"
"""The folder of custom tools below the user's own."""
MIDDLEWARE: Final = "middleware"
"""The folder of the user's own middleware."""
SKILLS: Final = "skills"
"""The folder of skills there."""
_CONFIG: Final = f"{PROJECT_FOLDER}/config.toml"
_SERVERS: Final = ".mcp.json"
_STATES: Final[Mapping[State, str]] = {
    "trusted": "is trusted, as it is now",
    "untrusted": "is not trusted: its settings and tools are not used",
    "changed": "has changed since you decided: its settings and tools are not used",
    "unknown": "has not been decided on: its settings and tools are not used",
}


class KernelSettings:
    """Reads everything again that has changed, so that an edit counts at the next prompt. Main thread only."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str] = os.environ, *, unsandboxed: Collection[str] = ()
    ) -> None:
        """
        Args:
            folder: of the project.
            environ: the process's environment.
            unsandboxed: tools that never run in the sandbox in this process.
        """
        self.project = ProjectFolder(folder, environ)
        self._unsandboxed = frozenset(unsandboxed)
        self.environ = environ
        """The process's environment."""
        self.memory = Memory()
        """What was redacted so far."""
        self.secrets: SecretsOfVariables = NoVariables()
        """Looks for secrets in the user's variables."""
        self._told: set[str] = set()
        self._agents = AgentChoice(environ)
        self.plan = PlanAcceptance()
        """What the user says to the plan of the current run."""
        self._plans = False
        """Whether the agent of the latest run writes one."""
        self._current = ReadCache[CurrentSettings]()
        self._readings = ReadCache[config.SettingsReading]()
        """Without an agent's profile."""
        self._with_profile = ReadCache[config.SettingsReading]()
        self._redactor: tuple[object, Redactor] | None = None
        """The latest, and what it was made of."""

    def begin_plan(self, current: "CurrentSettings") -> None:
        """A run begins, whose agent may write a plan."""
        self._plans = current.plans
        if self._plans:
            self.plan.begin(current.profiles)

    def accepted_plan(self) -> AcceptedPlan | None:
        """What the user accepted in the run that has just ended, once."""
        return self.plan.take() if self._plans else None

    def current(self, agent: str | None = None) -> "CurrentSettings":
        """All settings with an agent's profile, and the folder that they were read with; the same object as long as
        nothing has changed that they are made of, the environment included.

        Args:
            agent: its name; None for the session's.

        Raises:
            ConfigError: one is wrong, or there is no such agent; says where, or which there are.
        """
        look = self.project.look()
        beside = (look, agent, self._agents.chosen, dict(self.environ))
        kept = self._current.standing(beside)
        if kept is not None:
            return kept
        began, files = time.time_ns(), self._stamps()
        below = self._read_below(look, files)
        profiles = self._agents.find(look, below)
        profile = profiles.main_agent(agent or self._agents.name(below.settings))
        reading = self._read_above(look, files, below, profile)
        home, plans = config.vibe_home(self.environ), reading.rules.plans
        hooks = load_hooks(look.folder, {**look.brought.files, **look.others}, self.environ, trusted=look.trusted)
        current = CurrentSettings(look, reading, profile, profiles, look.files, home, plans, hooks)
        return self._current.get((*files, *self._agents.stamps), beside, lambda: current, began)

    def under(self, current: "CurrentSettings", profile: config.AgentProfile) -> config.SettingsReading:
        """The settings of one prompt under another profile, such as a sub-agent's.

        Raises:
            ConfigError: one is wrong; says where.
        """
        files = self._stamps()
        return self._read_above(current.look, files, self._read_below(current.look, files), profile)

    def read(self) -> config.SettingsReading:
        """All settings, with the profile of the session's agent.

        Raises:
            ConfigError: one is wrong; says where.
        """
        return self.current().reading

    def settings(self) -> config.Settings:
        """The values alone."""
        return self.read().settings

    def without_profile(self) -> config.Settings:
        """The values for those who are no agent of ours, such as external clients.

        Raises:
            ConfigError: one is wrong; says where.
        """
        return self._read_below(self.project.look(), self._stamps()).settings

    def choose_agent(self, name: str) -> str:
        """Use an agent from the next prompt on; what to print.

        Raises:
            ConfigError: there is no such agent, or its settings are wrong; the choice stays as it was.
        """
        profile = self.current(name).profile
        self._agents.choose(profile)
        return f"{describe_agent(profile)}."

    def list_agents(self) -> str:
        """All agents, the session's marked.

        Raises:
            ConfigError: a setting is wrong; says where.
        """
        below = self._read_below(look := self.project.look(), self._stamps())
        return list_agents(self._agents.find(look, below), self._agents.name(below.settings))

    def agent_line(self) -> str:
        """The session's agent in a line, or what is wrong."""
        try:
            return describe_agent(self.current().profile)
        except ConfigError as error:
            return f"Agent: none. {error}"

    def agent_names(self) -> list[str]:
        """What may be chosen.

        Raises:
            ConfigError: a setting is wrong; says where.
        """
        below = self._read_below(look := self.project.look(), self._stamps())
        return [one.name for one in self._agents.find(look, below).main_agents()]

    def _stamps(self) -> list[FileStamp]:
        own = user_files(self.environ)
        return stamp_files((config.config_path(self.environ), config.env_path(self.environ), *own))

    def _read_below(self, look: "FolderLook", files: Sequence[FileStamp]) -> config.SettingsReading:
        """The settings without any agent's."""
        return self._readings.get(
            files,
            (look, config.settings_variables(self.environ)),
            lambda: self._read(look),
        )

    def _read_above(
        self,
        look: "FolderLook",
        files: Sequence[FileStamp],
        below: config.SettingsReading,
        profile: config.AgentProfile,
    ) -> config.SettingsReading:
        """The settings with a profile between their layers."""
        if not profile.overrides.table and profile.safety != "safe":
            return below
        return self._with_profile.get(
            files,
            (look, config.settings_variables(self.environ), profile),
            lambda: self._read(look, profile),
        )

    def _read(self, look: "FolderLook", profile: config.AgentProfile | None = None) -> config.SettingsReading:
        reading = config.read_settings(
            self.environ,
            project=look.settings,
            servers=look.servers,
            profile=profile.overrides if profile is not None else None,
            safety=profile.safety if profile is not None else "neutral",
        )
        return reading._replace(unsandboxed=self._unsandboxed)

    def news(self, look: "FolderLook", warnings: Sequence[str]) -> list[str]:
        """What to tell the user of the settings, the tools and the folder, each thing once."""
        told = [*look.brought.problems, *warnings]
        if look.brings and not look.trusted and look.settings is None and look.servers is None:
            told.append(f"{look.folder} is not trusted; its settings and tools are not used. %vibe trust shows them.")
        new = [text for text in dict.fromkeys(told) if text not in self._told]
        self._told.update(new)
        return new

    def strike(self) -> Redactor:
        """Redacts the keys of the environment and of the user's variables, and what looks like one."""
        return Redactor.of(
            config.effective_environment(self.environ),
            found=self.secrets,
            partly=self.secrets.partly_known,
            memory=self.memory,
        )

    def redactor(self, settings: config.Settings, others: Mapping[str, str], always: Iterable[str]) -> Redactor:
        """Redacts everything that is sent, kept or shown in a run.

        Args:
            settings: name the variables that hold keys, and the exceptions.
            others: further secrets by what they are called, such as what MCP servers get.
            always: names among them that hold a secret whatever they are called.
        """
        known = {**config.effective_environment(self.environ), **others}
        named = (*config.key_variables(settings), *always)
        made_of = (known, named, settings.privacy)
        if self._redactor is None or self._redactor[0] != made_of:
            allows = settings.privacy.allows
            redactor = Redactor.of(
                known, named, found=self.secrets, partly=self.secrets.partly_known, allows=allows, memory=self.memory
            )
            self._redactor = (made_of, redactor)
        return self._redactor[1]

    def redaction(self, settings: config.Settings) -> str:
        """What is redacted and what it caught, for `%vibe config`."""
        caught = ", ".join(f"{kind} ({times:,} times)" for kind, times in self.memory.caught.most_common())
        allowed = ", ".join(settings.privacy.allow)
        found = len(self.secrets())
        self.memory.partly.note(self.secrets.partly_known())
        partly = self.memory.partly.lines(settings.privacy.allows)
        return "\n".join(
            [
                "Redacted in what is sent, kept and shown:",
                "  by name: values that a variable, key, column, header or argument calls a password, token or key",
                "  by shape: addresses with a password, JWTs, private keys, webhooks, and keys with a known prefix",
                f"  by value: the secrets of your environment, .env and variables ({found:,} in variables)",
                f"  known in part only: {'; '.join(partly) or 'nothing'}",
                f"  exceptions: {allowed or 'none ([privacy] allow = [...] in your config.toml)'}",
                f"  caught so far: {caught or 'nothing'}",
            ]
        )


class FolderLook(NamedTuple):
    """What one look at the folder found; what is used later is what was seen then."""

    folder: Path
    brought: FolderContents
    brings: tuple[str, ...]
    """A line for each thing that needs trust."""
    state: State
    others: Mapping[str, bytes] = {}
    """Files that are read and bring nothing: settings of another program, of which only restrictions are named."""

    @property
    def trusted(self) -> bool:
        """Whether what it brings is used."""
        return self.state == "trusted"

    @property
    def settings(self) -> config.ProjectFile | None:
        """Its settings; None where it has none."""
        return _project_file(self, _CONFIG)

    @property
    def servers(self) -> config.ProjectFile | None:
        """Its list of MCP servers; None where it has none."""
        return _project_file(self, _SERVERS)

    @property
    def files(self) -> Mapping[str, bytes]:
        """What may be loaded, by path below the folder; nothing unless it is trusted."""
        return self.brought.files if self.trusted else {}

    @property
    def question(self) -> TrustQuestion | None:
        """What is asked of the user; None where the folder brings nothing."""
        if not self.brings:
            return None
        return TrustQuestion(self.folder, self.brings, self.brought.digest, changed=self.state == "changed")

    @property
    def words(self) -> str:
        """How the folder stands."""
        if not self.brings:
            return f"{self.folder} has no settings or tools."
        return "\n".join([f"{self.folder} {_STATES[self.state]}.", *(f"  {line}" for line in self.brings)])


class CurrentSettings(NamedTuple):
    """The settings of one prompt."""

    look: FolderLook
    reading: config.SettingsReading
    """With the agent's profile."""
    profile: config.AgentProfile
    """The agent that takes the prompt."""
    profiles: config.Profiles
    """All that could, and all sub-agents."""
    files: Mapping[str, bytes]
    """Of the folder, as `FolderLook.files` has them."""
    home: Path
    """The user's own folder."""
    plans: bool
    """Whether the agent writes a plan for the user to accept."""
    hooks: LoadedHooks = LoadedHooks()


class ProjectFolder:
    """Looks again at what has changed, so that it counts at the next prompt."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder.resolve()
        self._environ = environ
        self._looks = ReadCache[FolderLook]()
        self._named_paths: list[str] = []
        """Where else its tools, agents and skills are, as its settings said when they were read last."""

    def look(self) -> FolderLook:
        """Read everything that would be loaded; load nothing.

        Raises:
            ConfigError: the decisions cannot be read, or the folder cannot be looked into.
        """
        environ = dict(self._environ)
        kept = self._looks.standing(environ)
        if kept is not None:
            return kept
        named = self._named_paths
        try:
            stamps, _ = stamp_folder(self.folder, named)
        except PermissionError as error:
            raise ConfigError(
                f"The working folder {self.folder} cannot be looked into: {error.strerror}. Change to another, or have "
                "its rights changed, then try again."
            ) from error
        look = self._looks.get([*stamps, self._trusted_folders().stamp()], environ, self._look_again)
        if self._named_paths != named:  # of which there is no stamp
            self._looks = ReadCache[FolderLook]()
        return look

    def _look_again(self) -> FolderLook:
        if (self.folder / PROJECT_FOLDER) == config.vibe_home(self._environ).resolve():
            return FolderLook(self.folder, FolderContents(), (), "unknown")  # the user's own folder
        brought = scan_folder(self.folder)
        first = FolderLook(self.folder, brought, (), "unknown")
        demanded: list[str] = []
        self._named_paths = []
        if first.settings is not None:
            self._named_paths = config.named_paths(first.settings, "tool_paths", "agent_paths", "skill_paths")
            brought = scan_folder(self.folder, self._named_paths)
            demanded = config.list_demands(first.settings)
        if first.servers is not None:
            demanded += config.list_demanded_servers(first.servers)
        others = {name: brought.files[name] for name in CLAUDE_FILES if name in brought.files}
        others = {name: content for name, content in others.items() if not has_hooks(name, content)}
        brought = brought._replace(files={name: brought.files[name] for name in brought.files if name not in others})
        demanded += hook_lines(self.folder, brought.files)
        for agent in profile_files(first, brought.files):
            demanded += config.list_profile_demands(agent)
        files = [
            _file_line(path, content)
            for path, content in brought.files.items()
            if path not in (_CONFIG, _SERVERS, *PROJECT_FILES) and not path.endswith(AGENT_FILES)
        ]
        state = self._trusted_folders().state(self.folder, brought.digest) if brought.files else "unknown"
        return FolderLook(self.folder, brought, (*demanded, *files), state, others)

    def answer(self, question: TrustQuestion, *, trusted: bool) -> None:
        """Keep what the user said."""
        self._trusted_folders().remember(question.folder, question.digest, trusted=trusted)

    def forget(self) -> bool:
        """Take the decision back; whether there was one."""
        return self._trusted_folders().forget(self.folder)

    def _trusted_folders(self) -> TrustedFolders:
        return TrustedFolders(config.vibe_home(self._environ))


def _project_file(look: FolderLook, name: str) -> config.ProjectFile | None:
    text = look.brought.files.get(name)
    if text is None:
        return None
    return config.ProjectFile(look.folder / name, text.decode("utf-8-sig", "replace"), look.trusted)


def _file_line(path: str, content: bytes) -> str:
    name = path if path.isprintable() else repr(path)  # a name of two lines would look like two things
    return f"{'runs' if path.endswith('.py') else 'tells the model'} {name} ({len(content):,} bytes)"


class TrustApproval:
    """Asks on a card, and keeps the answer. Main thread."""

    def __init__(self, project: ProjectFolder, run_view: RunView, host: ShellHost) -> None:
        self._project = project
        self._run_view = run_view
        self._host = host

    def before_prompt(self) -> None:
        """Ask, if the folder brings something that has not been decided on, and somebody is here.

        Raises:
            ConfigError: the decisions cannot be read or kept.
            NotebookError: the user interrupted instead.
        """
        look = self._project.look()
        if not look.brings or look.state not in ("unknown", "changed"):
            return
        if self._host.attended and look.question is not None:
            self._ask_trust(look.question)

    def command(self) -> str:
        """`%vibe trust`: ask, unless it is trusted or nobody can answer; what to print.

        Raises:
            ConfigError, NotebookError: as above.
        """
        look = self._project.look()
        if look.question is None or look.trusted or not self._host.attended:
            return look.words
        self._ask_trust(look.question)
        return ""

    def _ask_trust(self, question: TrustQuestion) -> None:
        self._run_view.check_free()
        asked = _trust_approval(question)
        self._run_view.show(BegunRun(asked.run, "nothing was decided."), EVERYTHING)
        if asked.allowed is None:
            raise NotebookError("Interrupted before you decided on the folder. Nothing was sent; try again.")
        self._project.answer(question, trusted=asked.allowed)


def _trust_approval(question: TrustQuestion) -> "StandaloneApprovalRun":
    with without_working_folder():  # few folders ask for trust
        from vibe_jupyter.agent.approval import StandaloneApproval, StandaloneApprovalRun

    approval = StandaloneApproval(
        name="trust_folder",
        headline=Headline(verb="Asked to trust", doing="Asking to trust", asking="Trust", target=str(question.folder)),
        preview=Preview(kind="text", text="\n".join(question.brings)),
        reason="its settings or tools have changed" if question.changed else "it has its own settings or tools",
        allow="Trust this folder",
        bound_to=question.digest,
        yes="trusted as it is now",
        no="not trusted; its settings and tools are not used",
    )
    return StandaloneApprovalRun(approval)
