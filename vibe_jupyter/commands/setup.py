"""Console variant of `%vibe setup`, used if no form can be shown: questions that lead to a working model.

Questions are plain text prompts, which every front end supports. The key is read without echo, so it appears neither in
the notebook nor in the history.
"""

import builtins
import concurrent.futures
import getpass
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from IPython.core.error import StdinNotImplementedError

from vibe_jupyter import config
from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.model_check import check_model
from vibe_jupyter.app.model_setup import (
    OFFERS,
    KeyPlace,
    ModelConnection,
    ModelSetup,
    ProviderOffer,
    ServerModel,
    completed_address,
    list_server_models,
)
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.app.shown_form import is_listening
from vibe_jupyter.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from vibe_jupyter.app import App

Line = TypeVar("Line", bound=str)

SHOWN_MODELS: Final = 20  # models listed of a server; others can be typed
LISTING_WAIT: Final = 30.0  # seconds that a server may take to list its models
_NOTHING: Final = "Nothing was changed."
_TRY_DEMO: Final = f"{_NOTHING} To see the demo model: %vibe look around"
_DEMO: Final = "the demo model: a script on this machine; no AI, no key, no network"


def setup_command(app: "App", say: Callable[[str], None]) -> str:
    """Run `%vibe setup`: show the form if a page draws it, else ask questions.

    Raises:
        ConfigError: A file or the keyring can't be written.
    """
    if app.connect_form.show() is not None:
        return ""  # the form leaves its own text in the output
    return GuidedSetup(app.setup, ModelSetup(app.setup, app.models), say).work()


class GuidedSetup:
    """Setup by questions: asks, tests the answers, and saves them. Main thread only."""

    def __init__(
        self, setup: KernelSettings, models: ModelSetup, say: Callable[[str], None], *, has_session: bool = True
    ) -> None:
        """Prepare the questions without asking any.

        Args:
            setup: The settings.
            models: Conversion of the answers to a model and to settings.
            say: Prints a line.
            has_session: Whether this process will use the model, so that it may hold the key in memory.
        """
        self._setup = setup
        self._has_session = has_session
        self._models = models
        self._say = say
        self.is_stopped = False  # True once the user ended the questions

    def work(self) -> str:
        """Ask all questions and save the answers. Returns the message to print.

        Raises:
            ConfigError: A file or the keyring can't be written.
        """
        try:
            return self._ask_until_it_works()
        except StdinNotImplementedError:
            place = config.config_path(self._setup.environ)
            return f"This session is non-interactive. Run %vibe setup in a notebook, or write {place} yourself."
        except (KeyboardInterrupt, EOFError):
            self.is_stopped = True
            return f"Stopped. {_NOTHING} %vibe setup asks again."

    def _ask_until_it_works(self) -> str:
        while True:
            offer = self._ask_offer()
            if offer is None:
                return self._models.use_tour() if self._has_session else _TRY_DEMO
            connection = self._ask_connection(offer)
            if check_model(self._models.model(connection), self._say):
                break
            self._say(f"It does not work yet. {_NOTHING}")
            if builtins.input("Enter asks again, `save` keeps these settings all the same: ").strip() == "save":
                break
        self._say(self._models.save(connection))
        return f"Written: {config.config_path(self._setup.environ)}. Start a cell with %%vibe and type a prompt."

    def _ask_offer(self) -> ProviderOffer | None:
        """Ask for a provider. Returns None for the demo model."""
        found = dict(zip(OFFERS, self._found_servers(), strict=True))
        offers = sorted(OFFERS, key=lambda offer: not found[offer])
        lines = {
            offer.id: " ".join(
                filter(None, (offer.label, offer.hint and f"({offer.hint})", "- found" if found[offer] else ""))
            )
            for offer in offers
        }
        chosen = self._ask_line("Choose a model provider, by its number or name:", {**lines, "demo": _DEMO})
        return next((offer for offer in offers if offer.id == chosen), None)

    def _found_servers(self) -> list[bool]:
        engine = Engine()
        try:
            futures = [engine.submit(is_listening(offer.port)) for offer in OFFERS]
            return [future.result() for future in futures]
        finally:
            engine.close()

    def _ask_connection(self, offer: ProviderOffer) -> ModelConnection:
        """Ask for everything but the provider, repeating questions after unusable answers."""
        while True:
            base = offer.api_base
            if not offer.variable:
                said = f" [{base}]" if base else ", such as https://llm.example.org/v1"
                base = completed_address(builtins.input(f"Its address{said}: ")) or base
            try:
                self._models.model(ModelConnection(offer, base))
                connection = ModelConnection(offer, base, self._ask_key(offer, base))
                self._models.model(connection)
                break
            except ConfigError as error:
                self._say(str(error))
        name = self._ask_model(connection)
        place = self._ask_place() if connection.key else "file"
        return ModelConnection(offer, base, connection.key, name, place)

    def _ask_key(self, offer: ProviderOffer, base: str) -> str:
        if not offer.may_need_key:
            return ""
        if place := self._models.key_location(ModelConnection(offer, base)):
            self._say(f"The key in {place} is used.")
            return ""
        optional = "" if offer.variable else "; leave empty for no key"
        key = getpass.getpass(f"Its API key, which stays hidden{optional}: ").strip()
        if not key and offer.variable:
            raise ConfigError(f"{offer.label} requires a key.")
        return key

    def _ask_model(self, connection: ModelConnection) -> str:
        """Ask for a model, by its number in the server's list or by name."""
        listed = self._models.models_first(connection, self._list_models(connection))
        width = max((len(one.name) for one in listed[:SHOWN_MODELS]), default=0)
        for number, one in enumerate(listed[:SHOWN_MODELS], 1):
            self._say(f"  {number:>2}  {one.name:<{width}}  {one.about}".rstrip())
        if len(listed) > SHOWN_MODELS:
            self._say(f"  and {len(listed) - SHOWN_MODELS:,} more; type the name of any")
        first = listed[0].name if listed else connection.offer.model
        said = f" [{first}]" if first else ""
        asked = "Number or name of the model" if listed else "Name of the model"
        while True:
            answer = builtins.input(f"{asked}{said}: ").strip() or first
            if answer.isdecimal() and 1 <= int(answer) <= min(len(listed), SHOWN_MODELS):
                return listed[int(answer) - 1].name
            if answer:
                return answer

    def _list_models(self, connection: ModelConnection) -> Sequence[ServerModel]:
        engine = Engine()
        try:
            return engine.submit(list_server_models(self._models.model(connection))).result(LISTING_WAIT)
        except ModelError as error:
            self._say(str(error))
        except concurrent.futures.TimeoutError:
            self._say("The server does not list its models.")
        finally:
            engine.close()
        return ()

    def _ask_place(self) -> KeyPlace:
        lines: dict[KeyPlace, str] = dict(self._models.places())
        if not self._has_session:
            del lines["session"]
        lines["file"] += ", a file that only you may read"
        return self._ask_line("Where should the key be stored?", lines)

    def _ask_line(self, title: str, lines: Mapping[Line, str]) -> Line:
        """Ask for one of the lines. Returns its key."""
        self._say(title)
        for number, line in enumerate(lines.values(), 1):
            self._say(f"  {number}  {line}")
        names = list(lines)
        while True:
            answer = builtins.input(f"1-{len(lines)}: ").strip().lower()
            if answer.isdecimal() and 1 <= int(answer) <= len(names):
                return names[int(answer) - 1]
            if answer in names:
                return next(name for name in names if name == answer)
            self._say("That is none of the lines.")  # the answer isn't repeated in the message, because it may be a key
