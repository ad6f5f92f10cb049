"""Settings: the person's `~/.vibe/config.toml` and the environment, as plain values.

The file is Mistral Vibe's own (seed 001, Configuration), so that its users move in as they are. Nothing below the
roof sees a `Settings`; `vibe_jupyter.app` turns it into models, levels and limits.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vibe_jupyter.agent.middleware.turn_limit import DEFAULT_TURNS
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.llm.request import DEFAULT_TEMPERATURE, Model, Server
from vibe_jupyter.protocol import Level
from vibe_jupyter.ui.keep import Form, Keep

NAME_AT_URL = re.compile(r"(?P<name>\S+)@(?P<base>https?://\S+)")
"""A model given in one word, such as ``qwen3:8b@http://127.0.0.1:11434/v1``."""


class Entry(BaseModel):
    """One table of the file. Keys we do not use yet are left to those who do."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class ProviderEntry(Entry):
    """``[[providers]]`` (seed 000, Configuration)."""

    name: str
    api_base: str
    api_key_env_var: str = ""
    """Name of the environment variable that holds the key; empty where the server wants none."""
    backend: Literal["mistral", "generic"] = "generic"


class ModelEntry(Entry):
    """``[[models]]`` (seed 000, Configuration)."""

    name: str
    provider: str
    alias: str = ""
    temperature: float = Field(default=DEFAULT_TEMPERATURE, ge=0, le=2)
    max_tokens: int | None = Field(default=None, ge=1)
    """Completion limit; None sends none."""
    input_price: float | None = Field(default=None, ge=0)
    """US dollars per million tokens; None where not known."""
    output_price: float | None = Field(default=None, ge=0)


class ToolEntry(Entry):
    """``[tools.NAME]``."""

    permission: Level | None = None
    """None leaves the tool's own level."""


DEFAULT_PROVIDERS = (
    ProviderEntry(
        name="mistral", api_base="https://api.mistral.ai/v1", api_key_env_var="MISTRAL_API_KEY", backend="mistral"
    ),
    ProviderEntry(name="llamacpp", api_base="http://127.0.0.1:8080/v1"),
)
DEFAULT_MODELS = (
    ModelEntry(
        name="mistral-vibe-cli-latest", provider="mistral", alias="devstral-2", input_price=0.4, output_price=2.0
    ),
    ModelEntry(
        name="devstral-small-latest", provider="mistral", alias="devstral-small", input_price=0.1, output_price=0.3
    ),
    ModelEntry(name="devstral", provider="llamacpp", alias="local", input_price=0, output_price=0),
)
DEFAULT_ACTIVE_MODEL = "devstral-2"
FROM_ENVIRONMENT = ("active_model", "max_turns", "transcript", "transcript_times")
"""Keys that a variable may set as well: ``VIBE_`` and the key in capitals."""


class Settings(Entry):
    """Everything that can be set."""

    active_model: str = ""
    """Alias or name; empty until someone chose."""
    max_turns: int = DEFAULT_TURNS
    transcript: Form = "full"
    """What stays of a run in the notebook."""
    transcript_times: bool = True
    """Whether seconds, tokens and price stay in it."""
    providers: tuple[ProviderEntry, ...] = ()
    models: tuple[ModelEntry, ...] = ()
    tools: dict[str, ToolEntry] = {}

    @property
    def chosen(self) -> bool:
        """Whether the person chose a model at all."""
        return bool(self.active_model)

    def levels(self) -> Mapping[str, Level]:
        """Tool name to level, where one is set."""
        return {name: entry.permission for name, entry in self.tools.items() if entry.permission is not None}

    def keep(self) -> Keep:
        """What stays of a run in the notebook."""
        return Keep(form=self.transcript, times=self.transcript_times)

    def model_names(self) -> tuple[str, ...]:
        """The aliases one may choose from, own ones first."""
        return tuple(dict.fromkeys(entry.alias or entry.name for entry in (*self.models, *DEFAULT_MODELS)))

    def model(self, name: str, environ: Mapping[str, str]) -> Model:
        """The model of an alias or name, or one given as ``NAME@URL``, with its key.

        Raises:
            ConfigError: no such model or provider, or its key is not set.
        """
        if match := NAME_AT_URL.fullmatch(name):
            server = Server(name="", api_base=match["base"])
            return Model(server=server, name=match["name"], alias=match["name"])
        models = (*self.models, *DEFAULT_MODELS)
        entry = next((entry for entry in models if name in (entry.alias, entry.name)), None)
        if entry is None:
            known = ", ".join(self.model_names())
            raise ConfigError(
                f"There is no model {name!r} in {config_path(environ)}. Known: {known}. "
                "A server elsewhere can be given as NAME@URL."
            )
        providers = (*self.providers, *DEFAULT_PROVIDERS)
        provider = next((one for one in providers if one.name == entry.provider), None)
        if provider is None:
            raise ConfigError(
                f"The model {name!r} names the provider {entry.provider!r}, which has no [[providers]] entry in "
                f"{config_path(environ)}. Add one with name and api_base."
            )
        return Model(
            server=Server(name=provider.name, api_base=provider.api_base, api_key=_key(provider, environ)),
            name=entry.name,
            alias=entry.alias or entry.name,
            temperature=entry.temperature,
            max_tokens=entry.max_tokens,
            input_price=entry.input_price,
            output_price=entry.output_price,
        )


def _key(provider: ProviderEntry, environ: Mapping[str, str]) -> str | None:
    variable = provider.api_key_env_var
    if not variable:
        return None
    if key := environ.get(variable, "").strip():
        return key
    raise ConfigError(
        f"No key for the provider {provider.name!r}: the variable {variable} is not set. Set it before Jupyter starts, "
        f'or in a cell: import getpass, os; os.environ["{variable}"] = getpass.getpass()'
    )


def vibe_home(environ: Mapping[str, str]) -> Path:
    """The person's folder: ``VIBE_HOME``, or ``~/.vibe``.

    Raises:
        ConfigError: there is no home folder, as for a user without an account in a container.
    """
    path = environ.get("VIBE_HOME") or "~/.vibe"
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"Cannot tell where {path} is. Set VIBE_HOME to a folder you can write.") from error


def config_path(environ: Mapping[str, str]) -> Path:
    """Where the person's settings are."""
    return vibe_home(environ) / "config.toml"


def load(environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the file, then let ``VIBE_ACTIVE_MODEL`` and its like win; a missing file means defaults.

    Raises:
        ConfigError: no TOML, or a value of the wrong kind; names file, line or key.
    """
    path = config_path(environ)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        values = {}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"Cannot read {path}: {error}. Mend or move the file, then run the cell again.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not TOML: {error}. Mend that line, then run the cell again.") from error
    for key in FROM_ENVIRONMENT:
        if value := environ.get(f"VIBE_{key.upper()}"):
            values[key] = value
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = ".".join(str(step) for step in problem["loc"])
        raise ConfigError(f"{path}: {key}: {problem['msg']}. Mend it, then run the cell again.") from error
