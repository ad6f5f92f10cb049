"""Connecting a model: provider presets, server model lists, and the settings written for a choice.

Shared by the form in a cell (`vibe_jupyter.app.shown_form`) and the console questions of `%vibe setup`.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import JsonValue

from vibe_jupyter import config
from vibe_jupyter.app.models import ModelChoice, price_words
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.config import model_choice
from vibe_jupyter.config.providers import ModelEntry
from vibe_jupyter.config.toml_file import use_model
from vibe_jupyter.errors import ConfigError, ModelError
from vibe_jupyter.llm.catalogue import complete_model
from vibe_jupyter.llm.client import LLMClient, RetryPolicy
from vibe_jupyter.llm.hosted_events import Object
from vibe_jupyter.llm.request import Endpoint, Model, Server
from vibe_jupyter.options import TOUR
from vibe_jupyter.version import __version__

MODELS_LIMIT: Final = 500  # models listed per server
# Fields for the context window in model lists of Mistral, OpenRouter, vLLM and Groq.
_WINDOWS: Final = ("max_context_length", "context_length", "max_model_len", "context_window")
_VARIABLE_PART: Final = re.compile(r"\W+")
_THIS_COMPUTER: Final = ("localhost", "127.0.0.1", "::1")

KeyPlace = Literal["keyring", "file", "session"]  # storage of an API key


@dataclass(frozen=True)
class ProviderOffer:
    """A provider that the user can choose."""

    name: str  # the provider's name in the settings; "" to derive it from the address
    label: str
    hint: str = ""  # short description shown beside the label
    api_base: str = ""  # preset address; "" if the user must enter one
    backend: str = "generic"
    variable: str = ""  # environment variable of the key; "" without a key or to derive it from the address
    model: str = ""  # model preselected unless the server lists a better one
    key_page: str = ""  # web page to create a key

    @property
    def id(self) -> str:
        """Identifier of the choice."""
        return self.name or "other"

    @property
    def port(self) -> int | None:
        """Default port on this computer, or None for a remote provider."""
        parts = urlsplit(self.api_base)
        return parts.port if parts.hostname == "127.0.0.1" else None

    @property
    def may_need_key(self) -> bool:
        """True if the user is asked for a key."""
        return bool(self.variable) or not self.name


OFFERS: Final = (
    ProviderOffer(
        "mistral",
        "Mistral",
        "with an API key of console.mistral.ai",
        api_base="https://api.mistral.ai/v1",
        backend="mistral",
        variable="MISTRAL_API_KEY",
        model="devstral-2",
        key_page="https://console.mistral.ai/api-keys",
    ),
    ProviderOffer(
        "openai",
        "OpenAI",
        "with an API key",
        api_base="https://api.openai.com/v1",
        variable="OPENAI_API_KEY",
        model="gpt-5-mini",
        key_page="https://platform.openai.com/api-keys",
    ),
    ProviderOffer(
        "openrouter",
        "OpenRouter",
        "with an API key; models of many makers",
        api_base="https://openrouter.ai/api/v1",
        variable="OPENROUTER_API_KEY",
        key_page="https://openrouter.ai/keys",
    ),
    ProviderOffer(
        "groq",
        "Groq",
        "with an API key",
        api_base="https://api.groq.com/openai/v1",
        variable="GROQ_API_KEY",
        key_page="https://console.groq.com/keys",
    ),
    ProviderOffer("ollama", "Ollama", api_base="http://127.0.0.1:11434", backend="ollama", model="qwen3"),
    ProviderOffer("llamacpp", "llama.cpp", "llama-server", api_base="http://127.0.0.1:8080/v1", model="default"),
    ProviderOffer("mistralrs", "mistral.rs", api_base="http://127.0.0.1:1234/v1", backend="mistralrs", model="default"),
    ProviderOffer("vllm", "vLLM", api_base="http://127.0.0.1:8000/v1"),
    ProviderOffer("", "Other server", "any OpenAI-compatible API: LiteLLM, LM Studio, your company's"),
)


def find_offer(chosen: str) -> ProviderOffer:
    """Return the offer with this id.

    Raises:
        ConfigError: No offer has this id.
    """
    for offer in OFFERS:
        if offer.id == chosen:
            return offer
    raise ConfigError(f"There is no provider {chosen!r}. Choose one of: {', '.join(offer.id for offer in OFFERS)}.")


class ServerModel(NamedTuple):
    """A model listed by a server."""

    name: str
    about: str  # context window and price, as far as they are known


@dataclass(frozen=True)
class ModelConnection:
    """The choices made so far."""

    offer: ProviderOffer
    api_base: str
    key: str = field(default="", repr=False)  # the key as entered; "" to use a stored key or none
    model: str = ""
    place: KeyPlace = "file"

    @property
    def provider(self) -> str:
        """The provider's name in the settings."""
        if self.offer.name:
            return self.offer.name
        parts = urlsplit(self.api_base)
        host = parts.hostname or ""
        host = "local" if host in _THIS_COMPUTER else host.replace(".", "-")
        with suppress(ValueError):
            return f"{host}-{parts.port}" if parts.port else host
        return host

    @property
    def variable(self) -> str:
        """Environment variable of the key, or "" without a key."""
        if self.offer.variable or not self.key:
            return self.offer.variable
        return f"{_VARIABLE_PART.sub('_', self.provider).upper()}_API_KEY"


def completed_address(typed: str) -> str:
    """Add the scheme to an address without one: `http` for this computer, else `https`."""
    address = typed.strip()
    if not address or "://" in address:
        return address
    with suppress(ValueError):
        is_here = urlsplit(f"//{address}").hostname in _THIS_COMPUTER
        return f"{'http' if is_here else 'https'}://{address}"
    return address


async def list_server_models(model: Model) -> list[ServerModel]:
    """Return the models that a server lists. Engine loop only.

    Raises:
        ModelError: The server can't be reached, or refuses the request.
    """
    client = LLMClient(user_agent=f"vibe-jupyter/{__version__}", retry=RetryPolicy(retries=0))
    try:
        entries = await client.list_models(model)
    finally:
        await client.close()
    return [_listed_model(model.server, entry) for entry in entries if _answers_chat(entry)]


class ModelSetup:
    """Conversion of a connection to a model and to settings. Main thread only."""

    def __init__(self, setup: KernelSettings, models: ModelChoice) -> None:
        self._setup = setup
        self._models = models

    def key_location(self, connection: ModelConnection) -> str:
        """Describe where a key of this provider is already stored, or return "" without one."""
        variable = connection.variable
        if not variable or not model_choice.find_api_key(variable, self._setup.environ):
            return ""
        return model_choice.key_location(variable, self._setup.environ)

    def places(self) -> Mapping[KeyPlace, str]:
        """Return the available storage places of a key with their labels, preferred first."""
        keyring: dict[KeyPlace, str] = {"keyring": "System keychain"} if model_choice.has_keyring() else {}
        return {**keyring, "file": _short_path(config.env_path(self._setup.environ)), "session": "This session only"}

    def model(self, connection: ModelConnection) -> Model:
        """Return the model that this connection describes.

        Raises:
            ConfigError: The address or the key is unusable.
        """
        variable = connection.variable
        key = connection.key or (model_choice.find_api_key(variable, self._setup.environ) if variable else "")
        if key and (not key.isascii() or not key.isprintable() or " " in key):
            raise ConfigError("That is not a key: it has characters that no header can carry.")
        offer = connection.offer
        server = Server(
            name=connection.provider,
            api_base=connection.api_base,
            api_key=key or None,
            dialect="openai" if offer.backend == "generic" else offer.backend,  # pyright: ignore[reportArgumentType]
        )
        entry = self._known_entry(connection)
        name = entry.name if entry is not None else connection.model
        model = Model(server=server, name=name, alias=connection.model)
        try:
            Endpoint.of(model, "")
        except ModelError as error:
            raise ConfigError(str(error)) from None
        return complete_model(model, sees_images=entry.supports_images if entry is not None else None)

    def models_first(self, connection: ModelConnection, listed: Sequence[ServerModel]) -> list[ServerModel]:
        """Sort a server's models: those named in the settings first, then the preset, then the rest."""
        there, offered = {one.name for one in listed}, connection.offer.model
        own = [
            one
            for one in self._setup.settings().models
            if one.provider == connection.provider and (one.name in there or one.known_as == offered)
        ]
        named = [ServerModel(one.known_as, _about(self.model(replace(connection, model=one.known_as)))) for one in own]
        others = [one for one in listed if one.name not in {entry.name for entry in own}]
        return [*named, *sorted(others, key=lambda one: one.name != offered)][:MODELS_LIMIT]

    def save(self, connection: ModelConnection) -> str:
        """Save the key and the settings, and select the model. Returns the message for the user.

        Raises:
            ConfigError: A file or the keyring can't be written.
        """
        keepers: Mapping[KeyPlace, Callable[[str, str], None]] = {
            "keyring": model_choice.save_in_keyring,
            "file": lambda variable, key: model_choice.save_in_env_file(variable, key, self._setup.environ),
            "session": lambda variable, key: os.environ.update({variable: key}),
        }
        if connection.key:
            keepers[connection.place](connection.variable, connection.key)
        alias, entry = self._model_entry(connection)
        use_model(alias, self._setup.environ, provider=self._changed_provider(connection), model=entry)
        return self._models.choose(alias)

    def use_tour(self) -> str:
        """Use the demo model from the next prompt on. Returns the message for the user."""
        return self._models.choose(TOUR)

    def _known_entry(self, connection: ModelConnection) -> ModelEntry | None:
        models = self._setup.settings().models
        theirs = (one for one in models if one.provider == connection.provider)
        return next((one for one in theirs if connection.model in (one.known_as, one.name)), None)

    def _model_entry(self, connection: ModelConnection) -> tuple[str, dict[str, JsonValue] | None]:
        """Return the model's alias, and its new settings entry or None if one exists."""
        if (known := self._known_entry(connection)) is not None:
            return known.known_as, None
        name, provider = connection.model, connection.provider
        entry: dict[str, JsonValue] = {"name": name, "provider": provider}
        if any(one.known_as == name for one in self._setup.settings().models):
            entry["alias"] = f"{provider}-{name}"
        return str(entry.get("alias", name)), entry

    def _changed_provider(self, connection: ModelConnection) -> dict[str, JsonValue] | None:
        """Return the provider's new settings entry, or None to leave an equal entry, and its other keys, untouched."""
        entry: dict[str, JsonValue] = {
            "name": connection.provider,
            "api_base": connection.api_base,
            "backend": connection.offer.backend,
        }
        if connection.variable:
            entry["api_key_env_var"] = connection.variable
        there = next((one for one in self._setup.settings().providers if one.name == connection.provider), None)
        same = there is not None and all(getattr(there, name) == value for name, value in entry.items())
        return None if same else entry


def _short_path(path: Path) -> str:
    with suppress(ValueError, RuntimeError):
        return f"~/{path.relative_to(Path.home())}"
    return str(path)


def _answers_chat(entry: Object) -> bool:
    """Return whether a listed model accepts chat requests, as far as the server tells."""
    abilities = entry.get("capabilities")
    says_no = isinstance(abilities, dict) and abilities.get("completion_chat") is False
    return isinstance(entry.get("id"), str) and bool(entry["id"]) and not says_no


def _listed_model(server: Server, entry: Object) -> ServerModel:
    name = str(entry["id"])
    numbers = (entry.get(key) for key in _WINDOWS)
    window = next((number for number in numbers if isinstance(number, int) and number > 0), None)
    return ServerModel(name, _about(complete_model(Model(server, name, name, context_window=window), sees_images=None)))


def _about(model: Model) -> str:
    window = "" if model.context_window is None else f"{model.context_window:,} tokens"
    price = "" if model.input_price is None else price_words(model)
    return " · ".join(filter(None, (window, price)))
