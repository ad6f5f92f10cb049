"""Which model answers: chosen by name, configured, or the scripted tour."""

import os
import socket
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from vibe_jupyter import config
from vibe_jupyter.app.model_table import facts_of, model_table
from vibe_jupyter.app.served import served
from vibe_jupyter.config.places import env_path
from vibe_jupyter.errors import ConfigError
from vibe_jupyter.llm.request import Model, Server
from vibe_jupyter.options import TOUR

if TYPE_CHECKING:
    from vibe_jupyter.testing import ScriptedModel

LOOPBACK_SERVERS = {11434: "Ollama", 8080: "llama.cpp"}
"""Usual ports of local model servers."""
LOOPBACK_WAIT = 0.1
"""Seconds to wait for one of them to accept a connection."""


class Models:
    """Holds the choice of the session. Settings are read anew each time, so that an edit counts at the next prompt."""

    def __init__(
        self, environ: Mapping[str, str] = os.environ, *, load: Callable[[], config.Settings] | None = None
    ) -> None:
        self._environ = environ
        self._load = load or (lambda: config.load(environ))
        """None for the person's own settings."""
        self._chosen = ""
        self._answering: Model | None = None
        """Of the latest run."""
        self._tour: ScriptedModel | None = None

    def current(self, name: str | None = None) -> Model:
        """The model of a name, else of the session's choice, else of the settings.

        Raises:
            ConfigError: nothing is configured, or what is configured is wrong; says what to do.
        """
        settings = self._load()
        wanted = name or self._chosen or settings.active_model
        if wanted == TOUR:
            return self._tour_model()
        if wanted:
            return config.model_of(settings, wanted, self._environ)
        try:
            return config.model_of(settings, config.DEFAULT_ACTIVE_MODEL, self._environ)
        except ConfigError:
            raise ConfigError(self._advice()) from None

    def for_run(self, name: str | None = None) -> Model:
        """The same, for a run that begins now.

        Raises:
            ConfigError: as above.
        """
        self._answering = self.current(name)
        return self._answering

    def sees_images(self) -> bool:
        """Whether images go to the model of the latest run."""
        return self._answering is not None and self._answering.sees_images

    def choose(self, name: str) -> str:
        """Use a model from the next prompt on; returns what to tell the person.

        Raises:
            ConfigError: it cannot be used, and the choice stays as it was.
        """
        model = self.current(name)
        self._chosen = name
        if name == TOUR:
            return "Model: tour. It is a script on this machine, no AI; it shows how a run looks: %vibe look around"
        return f"Model: {model.alias} at {model.server.host}."

    def listing(self) -> str:
        """The models one may choose, the current one marked."""
        settings = self._load()
        current, advice = self._chosen or settings.active_model, list[str]()
        if not current:
            try:
                current = self.current().alias
            except ConfigError as error:
                advice = ["", str(error)]
        names = dict.fromkeys(filter(None, (*settings.model_names(), TOUR, current)))
        table = model_table([self._row(settings, name, is_current=name == current) for name in names])
        return "\n".join([table, *served(self._usable(settings, names)), *advice])

    def _row(self, settings: config.Settings, name: str, *, is_current: bool) -> list[str]:
        mark = "●" if is_current else " "
        if name == TOUR:
            return [mark, name, "a script on this machine, no AI"]
        try:
            model = config.model_of(settings, name, self._environ, keyed=False)
        except ConfigError as error:
            return [mark, name, str(error)]
        return [mark, name, *facts_of(model), self._problem(settings, name)]

    def _usable(self, settings: config.Settings, names: Iterable[str]) -> list[Model]:
        usable: list[Model] = []
        for name in names:
            with suppress(ConfigError):
                usable.append(config.model_of(settings, name, self._environ))
        return usable

    def _problem(self, settings: config.Settings, name: str) -> str:
        try:
            config.model_of(settings, name, self._environ)
        except ConfigError as error:
            return str(error).partition(". ")[0].partition(": ")[2] or str(error)
        return ""

    def close(self) -> None:
        """End the tour's server."""
        if self._tour is not None:
            self._tour.stop()
            self._tour = None

    def _tour_model(self) -> Model:
        if self._tour is None:
            from vibe_jupyter.testing import ScriptedModel
            from vibe_jupyter.tour import guide

            self._tour = ScriptedModel(guide)
            self._tour.start()
        return Model(server=Server(name=TOUR, api_base=self._tour.url), name=TOUR, alias=TOUR)

    def _advice(self) -> str:
        advice = (
            "No model is configured. One of these, then run the cell again:\n"
            "  with questions     %vibe setup\n"
            f"  a key of Mistral   write MISTRAL_API_KEY=… into {env_path(self._environ)}\n"
            "  your own server    %vibe model NAME@http://127.0.0.1:8080/v1\n"
            "  neither            %vibe model tour (a script on this machine; no key, no network)"
        )
        for port, name in LOOPBACK_SERVERS.items():
            if _listens(port):
                advice += (
                    f"\nSomething listens on 127.0.0.1:{port}, where {name} usually does; if it is yours: "
                    f"%vibe model NAME@http://127.0.0.1:{port}/v1"
                )
        return advice


def _listens(port: int) -> bool:
    """Whether a connection is accepted; sends nothing, since on a shared host it may be someone else's."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=LOOPBACK_WAIT):
            return True
    except OSError:
        return False
