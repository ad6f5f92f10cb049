"""`%vibe setup`: a few questions lead a newcomer to a model that answers.

Questions are plain text prompts, which every front end has. A key is asked for without showing it, so it stands neither
in the notebook nor in the history.
"""

import builtins
import getpass
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from IPython.core.error import StdinNotImplementedError
from pydantic import JsonValue

from vibe_jupyter import config
from vibe_jupyter.app.models import ModelChoice
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.commands.model_check import check_model
from vibe_jupyter.config import model_choice
from vibe_jupyter.config.toml_file import use_model
from vibe_jupyter.errors import ConfigError, ModelError
from vibe_jupyter.llm.endpoint import Endpoint
from vibe_jupyter.llm.request import Model, Server
from vibe_jupyter.options import TOUR


@dataclass(frozen=True)
class ProviderOffer:
    """One line of the menu."""

    words: str
    name: str = ""
    """The provider's; empty to make one from the address."""
    api_base: str = ""
    """Offered as the answer; empty where it must be given."""
    asks_address: bool = True
    backend: str = "generic"
    variable: str = ""
    """Of the key; empty for none."""
    model: str = ""
    """Offered as the answer."""


OFFERS: Final = (
    ProviderOffer(
        "Mistral, with a key of yours (console.mistral.ai)",
        name="mistral",
        api_base="https://api.mistral.ai/v1",
        asks_address=False,
        backend="mistral",
        variable="MISTRAL_API_KEY",
        model="devstral-2",
    ),
    ProviderOffer(
        "OpenAI, with a key of yours",
        name="openai",
        api_base="https://api.openai.com/v1",
        asks_address=False,
        variable="OPENAI_API_KEY",
        model="gpt-5-mini",
    ),
    ProviderOffer("Ollama", name="ollama", api_base="http://127.0.0.1:11434", backend="ollama", model="qwen3"),
    ProviderOffer("llama.cpp's llama-server", name="llamacpp", api_base="http://127.0.0.1:8080/v1", model="default"),
    ProviderOffer(
        "mistral.rs", name="mistralrs", api_base="http://127.0.0.1:1234/v1", backend="mistralrs", model="default"
    ),
    ProviderOffer("another server that speaks as OpenAI's does (vLLM, litellm, a company's own …)", variable="?"),
    ProviderOffer("the tour: a script on this machine; no AI, no key, no network", name=TOUR),
)
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*")
_NOTHING: Final = "Nothing was changed."


class GuidedSetup:
    """Asks, writes what was answered, and checks it. Main thread."""

    def __init__(self, setup: KernelSettings, models: ModelChoice, say: Callable[[str], None]) -> None:
        self._setup = setup
        self._models = models
        self._say = say

    def work(self) -> str:
        """The whole conversation; what to print at its end.

        Raises:
            ConfigError: an answer cannot be used, or something cannot be written.
        """
        try:
            return self._ask_everything()
        except StdinNotImplementedError:
            place = config.config_path(self._setup.environ)
            return f"This session is non-interactive. Run %vibe setup in a notebook, or write {place} yourself."
        except (KeyboardInterrupt, EOFError):
            return f"Stopped. {_NOTHING} %vibe setup asks again."

    def _ask_everything(self) -> str:
        self._say("Choose a model provider:")
        for number, offer in enumerate(OFFERS, 1):
            self._say(f"  {number}  {offer.words}")
        offer = OFFERS[self._ask_number(len(OFFERS)) - 1]
        if offer.name == TOUR:
            return self._models.choose(TOUR)
        server = self._ask_server(offer)
        alias, model = self._ask_model(offer, server)
        keep_key = self._ask_key(server)
        # Everything is asked by now: who stops before has changed nothing.
        keep_key()
        path = use_model(alias, self._setup.environ, provider=self._changed_fields(server), model=model)
        self._say(f"Written: {path}")
        self._say(self._models.choose(alias))
        if not check_model(self._models.current(), self._say):
            return "Saved, but it does not work yet. Fix the ✗ item above, then run %vibe model check again."
        return "Ready. Start a cell with %%vibe and type a prompt."

    def _ask_number(self, most: int) -> int:
        answer = builtins.input(f"1-{most}: ").strip()
        if not (answer.isdecimal() and 1 <= int(answer) <= most):
            raise ConfigError(f"There is no {answer!r} in the list. {_NOTHING} %vibe setup asks again.")
        return int(answer)

    def _ask_server(self, offer: ProviderOffer) -> dict[str, JsonValue]:
        """The entry of the server."""
        base = offer.api_base
        if offer.asks_address:
            said = f" [{base}]" if base else ", such as https://llm.example.org/v1"
            base = builtins.input(f"Its address{said}: ").strip() or base
        name = offer.name or (urlsplit(base).hostname or "").replace(".", "-")
        _check_address(name, base)
        entry: dict[str, JsonValue] = {"name": name, "api_base": base, "backend": offer.backend}
        variable = self._ask_variable(name) if offer.variable == "?" else offer.variable
        if variable:
            entry["api_key_env_var"] = variable
        return entry

    def _ask_variable(self, name: str) -> str:
        offered = ("" if name[:1].isdigit() else re.sub(r"\W", "_", name).upper() + "_") + "API_KEY"
        self._say(
            f"Does it need an API key? If so, name the variable for it, such as {offered}; leave empty for no key."
        )
        variable = builtins.input("Variable: ").strip()
        if variable and not _VARIABLE.fullmatch(variable):
            # Not repeated: it may be the key itself.
            raise ConfigError(f"That is no name of a variable. The key itself is asked for next. {_NOTHING}")
        return variable

    def _ask_model(self, offer: ProviderOffer, server: dict[str, JsonValue]) -> tuple[str, dict[str, JsonValue] | None]:
        """What the model is known by, and its entry; None where the settings have it."""
        said = f" [{offer.model}]" if offer.model else ""
        name = builtins.input(f"Name of the model{said}: ").strip() or offer.model
        if not name:
            raise ConfigError(f"A model must be named, as its server knows it. {_NOTHING}")
        known = self._setup.settings().models
        theirs = (one for one in known if one.provider == server["name"])
        there = next((one for one in theirs if name in (one.known_as, one.name)), None)
        if there is not None:
            return there.known_as, None
        entry: dict[str, JsonValue] = {"name": name, "provider": server["name"]}
        if any(one.known_as == name for one in known):
            entry["alias"] = f"{server['name']}-{name}"
        return str(entry.get("alias", name)), entry

    def _ask_key(self, server: dict[str, JsonValue]) -> Callable[[], None]:
        """Ask for the key where there is none; gives what keeps it."""
        variable = str(server.get("api_key_env_var", ""))
        if not variable:
            return lambda: None
        if model_choice.find_api_key(variable, self._setup.environ):
            self._say(f"The key in {variable} is used.")
            return lambda: None
        key = getpass.getpass(f"The key for {server['name']}, which is not shown: ").strip()
        if not key.isascii() or not key.isprintable() or not key or " " in key:
            raise ConfigError(f"That is no key: it is empty, or holds what no header can carry. {_NOTHING}")
        return self._ask_place(variable, key)

    def _ask_place(self, variable: str, key: str) -> Callable[[], None]:
        places: dict[str, Callable[[], None]] = {
            f"{config.env_path(self._setup.environ)}, a file that only you may read": lambda: (
                model_choice.save_in_env_file(variable, key, self._setup.environ)
            ),
            "don't save it: this session only": lambda: os.environ.update({variable: key}),
        }
        if model_choice.has_keyring():
            places = {"this system's keyring": lambda: model_choice.save_in_keyring(variable, key), **places}
        self._say("Where should the key be stored?")
        for number, words in enumerate(places, 1):
            self._say(f"  {number}  {words}")
        return list(places.values())[self._ask_number(len(places)) - 1]

    def _changed_fields(self, server: dict[str, JsonValue]) -> dict[str, JsonValue] | None:
        """The entry, unless the settings have the same; then what else stands in theirs stays."""
        known = {one.name: one for one in self._setup.settings().providers}
        there = known.get(str(server["name"]))
        same = there is not None and all(getattr(there, name) == value for name, value in server.items())
        return None if same else server


def _check_address(name: str, base: str) -> None:
    """Say of an unusable address that it is one before it is written anywhere."""
    try:
        Endpoint.of(Model(server=Server(name=name, api_base=base), name="", alias=""), "")
    except ModelError as error:
        raise ConfigError(f"{error} {_NOTHING}") from None
