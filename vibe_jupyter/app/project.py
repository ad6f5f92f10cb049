"""Settings of a prompt, the contents of the project folder, and the approval card for an untrusted folder."""

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
from vibe_jupyter.permissions.known_secrets import KnownSecrets
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.permissions.secret_sources import Memory, NoVariables, SecretsOfVariables
from vibe_jupyter.protocol import Headline, Preview
from vibe_jupyter.safe_imports import without_working_folder
from vibe_jupyter.ui.front_end import EVERYTHING

if TYPE_CHECKING:
    from vibe_jupyter.agent.approval import StandaloneApprovalRun
    from vibe_jupyter.permissions.own_rules import OwnRules

TOOLS: Final = "tools"  # custom tools, below the user's vibe folder
MIDDLEWARE: Final = "middleware"  # the user's own middleware, below the same folder
SKILLS: Final = "skills"  # skills, below the same folder
_CONFIG: Final = f"{PROJECT_FOLDER}/config.toml"
_SERVERS: Final = ".mcp.json"
_STATES: Final[Mapping[State, str]] = {
    "trusted": "is trusted, as it is now",
    "untrusted": "is not trusted: its settings and tools are not used",
    "changed": "has changed since you decided: its settings and tools are not used",
    "unknown": "has not been decided on: its settings and tools are not used",
}


class KernelSettings:
    """Settings of one kernel. Rereads changed files, so that edits apply at the next prompt. Main thread only."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str] = os.environ, *, unsandboxed: Collection[str] = ()
    ) -> None:
        """Set up caches without reading anything.

        Args:
            folder: The project folder.
            environ: The process's environment.
            unsandboxed: Tools that never run in the sandbox in this process.
        """
        self.project = ProjectFolder(folder, environ)
        self._unsandboxed = frozenset(unsandboxed)
        self.environ = environ  # the process's environment
        self.memory = Memory()  # values redacted so far
        self.secrets: SecretsOfVariables = NoVariables()  # finds secrets in the user's variables
        self._told: set[str] = set()
        self._agents = AgentChoice(environ)
        self.plan = PlanAcceptance()  # the user's decision on the plan of the current run
        self._plans = False  # True if the agent of the latest run writes a plan
        self._current = ReadCache[CurrentSettings]()
        self._readings = ReadCache[config.SettingsReading]()  # settings without an agent's profile
        self._with_profile = ReadCache[config.SettingsReading]()
        self._redactor: tuple[object, Redactor] | None = None  # the latest redactor with its cache key

    def begin_plan(self, current: "CurrentSettings") -> None:
        """Reset the plan decision for a run whose agent may write a plan."""
        self._plans = current.plans
        if self._plans:
            self.plan.begin(current.profiles)

    def accepted_plan(self) -> AcceptedPlan | None:
        """Return the plan accepted in the run that has just ended, and clear it."""
        return self.plan.take() if self._plans else None

    def current(self, agent: str | None = None) -> "CurrentSettings":
        """Return all settings, an agent's profile, and the folder scan they were read with.

        Returns the same object until a file or the environment changes.

        Args:
            agent: The agent's name, or None for the session's agent.

        Raises:
            ConfigError: A setting is invalid, or no agent has this name; the message says where, or lists the agents.
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
        """Read the settings of a prompt under another profile, such as a sub-agent's.

        Raises:
            ConfigError: A setting is invalid; the message says where.
        """
        files = self._stamps()
        return self._read_above(current.look, files, self._read_below(current.look, files), profile)

    def read(self) -> config.SettingsReading:
        """Return all settings, including the profile of the session's agent.

        Raises:
            ConfigError: A setting is invalid; the message says where.
        """
        return self.current().reading

    def settings(self) -> config.Settings:
        """Return the values of all settings."""
        return self.read().settings

    def without_profile(self) -> config.Settings:
        """Return the settings for callers that are not our agents, such as external clients.

        Raises:
            ConfigError: A setting is invalid; the message says where.
        """
        return self._read_below(self.project.look(), self._stamps()).settings

    def choose_agent(self, name: str) -> str:
        """Use an agent from the next prompt on. Returns the message to print.

        Raises:
            ConfigError: No agent has this name, or its settings are invalid; the choice is unchanged.
        """
        profile = self.current(name).profile
        self._agents.choose(profile)
        return f"{describe_agent(profile)}."

    def list_agents(self) -> str:
        """List all agents with the session's agent marked.

        Raises:
            ConfigError: A setting is invalid; the message says where.
        """
        below = self._read_below(look := self.project.look(), self._stamps())
        return list_agents(self._agents.find(look, below), self._agents.name(below.settings))

    def agent_line(self) -> str:
        """Describe the session's agent, or the error in its settings, in one line."""
        try:
            return describe_agent(self.current().profile)
        except ConfigError as error:
            return f"Agent: none. {error}"

    def agent_names(self) -> list[str]:
        """Return the names of the agents that can be chosen.

        Raises:
            ConfigError: A setting is invalid; the message says where.
        """
        below = self._read_below(look := self.project.look(), self._stamps())
        return [one.name for one in self._agents.find(look, below).main_agents()]

    def _stamps(self) -> list[FileStamp]:
        own = user_files(self.environ)
        return stamp_files((config.config_path(self.environ), config.env_path(self.environ), *own))

    def _read_below(self, look: "FolderLook", files: Sequence[FileStamp]) -> config.SettingsReading:
        """Read the settings below the agent's profile."""
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
        """Read the settings with the agent's profile as one of their layers."""
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
        self.memory.own = _own_rules(reading.settings)
        return reading._replace(unsandboxed=self._unsandboxed)

    def news(self, look: "FolderLook", warnings: Sequence[str]) -> list[str]:
        """Return new messages for the user about settings, tools and folder. Repeats none of them."""
        told = [*look.brought.problems, *warnings]
        if look.brings and not look.trusted and look.settings is None and look.servers is None:
            told.append(f"{look.folder} is not trusted; its settings and tools are not used. %vibe trust shows them.")
        new = [text for text in dict.fromkeys(told) if text not in self._told]
        self._told.update(new)
        return new

    def strike(self) -> Redactor:
        """Return a redactor of secrets in the environment and the user's variables, and of key-like strings."""
        return Redactor.of(
            config.effective_environment(self.environ),
            found=self.secrets,
            partly=self.secrets.partly_known,
            memory=self.memory,
        )

    def redactor(self, settings: config.Settings, others: Mapping[str, str], always: Iterable[str]) -> Redactor:
        """Return the redactor for everything a run sends, records or shows.

        Args:
            settings: Settings that name further variables with keys, and exceptions.
            others: Further secrets by label, such as environment variables of MCP servers.
            always: Labels among them whose values are secret whatever the label.
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
        """Describe what is redacted, and what has been so far, for `%vibe config`."""
        caught = ", ".join(f"{kind} ({times:,} times)" for kind, times in self.memory.caught.most_common())
        allowed = ", ".join(settings.privacy.allow)
        found = len(self.secrets())
        self.memory.partly.note(self.secrets.partly_known())
        partly = self.memory.partly.lines(settings.privacy.allows)
        own = ", ".join(rule.id for rule in settings.privacy.rules)
        return "\n".join(
            [
                "Redacted in what is sent, kept and shown:",
                "  by name: values that a variable, key, column, header or argument calls a password, token or key",
                "  by shape: addresses with a password, JWTs, private keys, webhooks, and keys with a known prefix",
                f"  by value: the secrets of your environment, .env and variables ({found:,} in variables)",
                f"  by your own rules: {own or 'none ([[privacy.rules]] in your config.toml)'}",
                f"  known in part only: {'; '.join(partly) or 'nothing'}",
                f"  exceptions: {allowed or 'none ([privacy] allow = [...] in your config.toml)'}",
                f"  caught so far: {caught or 'nothing'}",
            ]
        )


def _own_rules(settings: config.Settings) -> "KnownSecrets | OwnRules":
    if not settings.privacy.rules:
        return KnownSecrets()
    with without_working_folder():  # imported on demand, because few users have rules of their own
        from vibe_jupyter.permissions.own_rules import OwnRules

    return OwnRules(settings.privacy.rules)


class FolderLook(NamedTuple):
    """Snapshot of the project folder.

    Files are loaded from it rather than from disk, which may change after the trust check.
    """

    folder: Path
    brought: FolderContents
    brings: tuple[str, ...]  # a line for each thing that requires trust
    state: State
    # Files that are read but not loaded: settings of another program, of which only restrictions are reported.
    others: Mapping[str, bytes] = {}

    @property
    def trusted(self) -> bool:
        """True if the folder's settings and tools are used."""
        return self.state == "trusted"

    @property
    def settings(self) -> config.ProjectFile | None:
        """The folder's settings file, or None without one."""
        return _project_file(self, _CONFIG)

    @property
    def servers(self) -> config.ProjectFile | None:
        """The folder's list of MCP servers, or None without one."""
        return _project_file(self, _SERVERS)

    @property
    def files(self) -> Mapping[str, bytes]:
        """Loadable files by path relative to the folder; empty unless the folder is trusted."""
        return self.brought.files if self.trusted else {}

    @property
    def question(self) -> TrustQuestion | None:
        """Question for the trust card, or None if nothing in the folder requires trust."""
        if not self.brings:
            return None
        return TrustQuestion(self.folder, self.brings, self.brought.digest, changed=self.state == "changed")

    @property
    def words(self) -> str:
        """Description of the folder's trust state."""
        if not self.brings:
            return f"{self.folder} has no settings or tools."
        return "\n".join([f"{self.folder} {_STATES[self.state]}.", *(f"  {line}" for line in self.brings)])


class CurrentSettings(NamedTuple):
    """The settings of one prompt."""

    look: FolderLook
    reading: config.SettingsReading  # settings including the agent's profile
    profile: config.AgentProfile  # profile of the agent that gets the prompt
    profiles: config.Profiles  # profiles of all agents and sub-agents
    files: Mapping[str, bytes]  # the folder's files, as in `FolderLook.files`
    home: Path  # the user's vibe folder
    plans: bool  # True if the agent writes a plan for the user to accept
    hooks: LoadedHooks = LoadedHooks()


class ProjectFolder:
    """The project folder. Scanned again after a change, so that the change applies at the next prompt."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder.resolve()
        self._environ = environ
        self._looks = ReadCache[FolderLook]()
        # Further paths of tools, agents and skills, according to the settings as last read.
        self._named_paths: list[str] = []

    def look(self) -> FolderLook:
        """Read everything that may be loaded, without loading it.

        Raises:
            ConfigError: The stored decisions or the folder can't be read.
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
        if self._named_paths != named:  # the stamps don't cover the new paths yet
            self._looks = ReadCache[FolderLook]()
        return look

    def _look_again(self) -> FolderLook:
        if (self.folder / PROJECT_FOLDER) == config.vibe_home(self._environ).resolve():
            return FolderLook(self.folder, FolderContents(), (), "unknown")  # the user's own vibe folder
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
        """Save the user's decision."""
        self._trusted_folders().remember(question.folder, question.digest, trusted=trusted)

    def forget(self) -> bool:
        """Delete the decision. Returns whether there was one."""
        return self._trusted_folders().forget(self.folder)

    def _trusted_folders(self) -> TrustedFolders:
        return TrustedFolders(config.vibe_home(self._environ))


def _project_file(look: FolderLook, name: str) -> config.ProjectFile | None:
    text = look.brought.files.get(name)
    if text is None:
        return None
    return config.ProjectFile(look.folder / name, text.decode("utf-8-sig", "replace"), look.trusted)


def _file_line(path: str, content: bytes) -> str:
    name = path if path.isprintable() else repr(path)  # a file name with a line break would look like two entries
    return f"{'runs' if path.endswith('.py') else 'tells the model'} {name} ({len(content):,} bytes)"


class TrustApproval:
    """Approval card for a folder. Saves the decision. Main thread only."""

    def __init__(self, project: ProjectFolder, run_view: RunView, host: ShellHost) -> None:
        self._project = project
        self._run_view = run_view
        self._host = host

    def before_prompt(self) -> None:
        """Ask the user, if attending, about a folder that requires trust and has no decision.

        Raises:
            ConfigError: The decisions can't be read or saved.
            NotebookError: The user interrupted instead.
        """
        look = self._project.look()
        if not look.brings or look.state not in ("unknown", "changed"):
            return
        if self._host.attended and look.question is not None:
            self._ask_trust(look.question)

    def command(self) -> str:
        """Run `%vibe trust`: ask unless the folder is trusted or no user attends. Returns the message to print.

        Raises:
            ConfigError: The decisions can't be read or saved.
            NotebookError: The user interrupted instead.
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
    with without_working_folder():  # imported on demand, because few folders ask for trust
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
