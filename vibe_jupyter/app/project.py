"""The folder the kernel works in: what it would bring, and whether the person trusts it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibe_jupyter import config
from vibe_jupyter.policy.survey import PROJECT_FOLDER, Brought, survey
from vibe_jupyter.policy.trust import State, TrustedFolders, TrustQuestion

_CONFIG: Final = f"{PROJECT_FOLDER}/config.toml"
_SERVERS: Final = ".mcp.json"
_STATES: Final[Mapping[State, str]] = {
    "trusted": "is trusted, as it is now",
    "untrusted": "is not trusted: what it brings is not used",
    "changed": "has changed since you decided: what it brings is not used",
    "unknown": "was not decided on: what it brings is not used",
}


@dataclass(frozen=True)
class Look:
    """What one look at the folder found; what is used later is what was seen then."""

    folder: Path
    brought: Brought
    brings: tuple[str, ...]
    """A line for each thing that needs trust."""
    state: State

    @property
    def trusted(self) -> bool:
        """Whether what it brings is used."""
        return self.state == "trusted"

    @property
    def settings(self) -> config.ProjectFile | None:
        """Its settings; None where it has none."""
        return _file(self, _CONFIG)

    @property
    def servers(self) -> config.ProjectFile | None:
        """Its list of MCP servers; None where it has none."""
        return _file(self, _SERVERS)

    @property
    def files(self) -> Mapping[str, bytes]:
        """What may be loaded, by path below the folder; nothing unless it is trusted."""
        return self.brought.files if self.trusted else {}

    @property
    def question(self) -> TrustQuestion | None:
        """What is asked of the person; None where the folder brings nothing."""
        if not self.brings:
            return None
        return TrustQuestion(self.folder, self.brings, self.brought.digest, changed=self.state == "changed")

    @property
    def words(self) -> str:
        """How the folder stands."""
        if not self.brings:
            return f"{self.folder} brings no settings and no tools."
        return "\n".join([f"{self.folder} {_STATES[self.state]}.", *(f"  {line}" for line in self.brings)])


class Project:
    """Looks anew each time, so that a change is seen at the next prompt."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.folder = folder.resolve()
        self._environ = environ

    def look(self) -> Look:
        """Read everything that would be loaded; load nothing.

        Raises:
            ConfigError: the decisions cannot be read.
        """
        if (self.folder / PROJECT_FOLDER) == config.vibe_home(self._environ).resolve():
            return Look(self.folder, Brought(), (), "unknown")  # the person's own folder
        brought = survey(self.folder)
        first = Look(self.folder, brought, (), "unknown")
        demanded: list[str] = []
        if first.settings is not None:
            brought = survey(self.folder, config.tool_paths(first.settings))
            demanded = config.demands(first.settings)
        if first.servers is not None:
            demanded += config.demanded_servers(first.servers)
        files = [_line(path, content) for path, content in brought.files.items() if path not in (_CONFIG, _SERVERS)]
        state = self._trusted_folders().state(self.folder, brought.digest) if brought.files else "unknown"
        return Look(self.folder, brought, (*demanded, *files), state)

    def answer(self, question: TrustQuestion, *, trusted: bool) -> None:
        """Keep what the person said."""
        self._trusted_folders().remember(question.folder, question.digest, trusted=trusted)

    def forget(self) -> bool:
        """Take the decision back; whether there was one."""
        return self._trusted_folders().forget(self.folder)

    def _trusted_folders(self) -> TrustedFolders:
        return TrustedFolders(config.vibe_home(self._environ))


def _file(look: Look, name: str) -> config.ProjectFile | None:
    text = look.brought.files.get(name)
    if text is None:
        return None
    return config.ProjectFile(look.folder / name, text.decode("utf-8-sig", "replace"), look.trusted)


def _line(path: str, content: bytes) -> str:
    name = path if path.isprintable() else repr(path)  # a name of two lines would look like two things
    return f"{'runs' if path.endswith('.py') else 'tells the model'} {name} ({len(content):,} bytes)"
