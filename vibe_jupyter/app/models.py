"""Model selection by name, settings or demo mode, and the table of all models."""

import concurrent.futures
import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from vibe_jupyter import config
from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.config.toml_file import env_path
from vibe_jupyter.errors import ConfigError, MissingModel, ModelError
from vibe_jupyter.llm.client import LLMClient
from vibe_jupyter.llm.connections import FetchRequest
from vibe_jupyter.llm.hosted_events import Object
from vibe_jupyter.llm.request import Model, Server
from vibe_jupyter.options import TOUR
from vibe_jupyter.ui.text import one_line, readable_text
from vibe_jupyter.version import __version__

if TYPE_CHECKING:
    from vibe_jupyter.testing import ScriptedModel

LOOPBACK_SERVERS = {11434: "Ollama", 8080: "llama.cpp"}  # default ports of local model servers
LOOPBACK_WAIT = 0.1  # seconds to wait for one of them to accept a connection

WAIT: Final = 2.0  # seconds for all servers together to respond

MODELS_LIMIT = 100  # models listed per server


class ModelChoice:
    """Model selection of the session. Reloads the settings at each use, so that edits apply at the next prompt."""

    def __init__(
        self, environ: Mapping[str, str] = os.environ, *, load: Callable[[], config.Settings] | None = None
    ) -> None:
        self._environ = environ
        self._load = load or (lambda: config.load_settings(environ))  # without `load`, only the user's own settings
        self.chosen = ""  # name of the session's model; "" for the model in the settings
        self._answering: Model | None = None  # model of the latest run
        self._tour: ScriptedModel | None = None

    def current(self, name: str | None = None, *, settings: config.Settings | None = None) -> Model:
        """Resolve a model: by `name`, else the session's choice, else the settings (loaded if not given).

        Raises:
            ConfigError: No model is configured, or its settings are invalid; the message says what to do.
        """
        settings = settings or self._load()
        wanted = name or self.chosen or settings.active_model
        if wanted == TOUR:
            config.check_allowed(settings, TOUR, TOUR)
            return self._tour_model()
        if wanted:
            return config.choose_model(settings, wanted, self._environ)
        try:
            return config.choose_model(settings, config.DEFAULT_ACTIVE_MODEL, self._environ)
        except MissingModel:
            raise MissingModel(self._choice_advice()) from None

    def for_run(self, name: str | None, settings: config.Settings) -> Model:
        """Resolve a model like `current`, and remember it as that of the runs from now on.

        Raises:
            ConfigError: As for `current`.
        """
        self._answering = self.current(name, settings=settings)
        return self._answering

    def sees_images(self) -> bool:
        """Return whether the model of the latest run accepts images."""
        return self._answering is not None and self._answering.sees_images

    def choose(self, name: str) -> str:
        """Use a model from the next prompt on. Returns the message for the user.

        Raises:
            ConfigError: The model is unusable; the choice is unchanged.
        """
        model = self.current(name)
        self.chosen = name
        if name == TOUR:
            return "Demo model: scripted, runs on this computer. See a run: %vibe look around"
        return f"Model: {model.alias} at {model.server.host}."

    def listing(self) -> str:
        """Return the table of available models, with the current one marked."""
        settings = self._load()
        current, advice = "", list[str]()
        try:
            current = self.chosen_name()
        except ConfigError as error:
            advice = ["", str(error)]
        names = dict.fromkeys(filter(None, (*settings.model_names(), TOUR, current)))
        table = model_table([self._table_row(settings, name, is_current=name == current) for name in names])
        return "\n".join([table, *remote_model_lines(self._usable_models(settings, names)), *advice])

    def chosen_name(self) -> str:
        """Return the name of the next prompt's model, whether it is usable or not.

        Raises:
            ConfigError: No model is configured.
        """
        return self.chosen or self._load().active_model or self.current().alias

    def choices(self) -> list[tuple[str, str]]:
        """Return the name of each available model with its problem, or "" if it is usable."""
        settings = self._load()
        names = dict.fromkeys(filter(None, (*settings.model_names(), self.chosen or settings.active_model, TOUR)))
        return [(name, "" if name == TOUR else self._model_problem(settings, name)) for name in names]

    def _table_row(self, settings: config.Settings, name: str, *, is_current: bool) -> list[str]:
        mark = "●" if is_current else " "
        if name == TOUR:
            return [mark, name, "a script on this machine, not an AI"]
        try:
            model = config.choose_model(settings, name, self._environ, keyed=False)
        except ConfigError as error:
            return [mark, name, str(error)]
        return [mark, name, *model_facts(model), self._model_problem(settings, name)]

    def _usable_models(self, settings: config.Settings, names: Iterable[str]) -> list[Model]:
        usable: list[Model] = []
        for name in names:
            with suppress(ConfigError):
                usable.append(config.choose_model(settings, name, self._environ))
        return usable

    def _model_problem(self, settings: config.Settings, name: str) -> str:
        try:
            config.choose_model(settings, name, self._environ)
        except ConfigError as error:
            return str(error).partition(". ")[0].partition(": ")[2] or str(error)
        return ""

    def close(self) -> None:
        """Stop the demo model's server."""
        if self._tour is not None:
            self._tour.stop()
            self._tour = None

    def _tour_model(self) -> Model:
        if self._tour is None:
            from vibe_jupyter.testing import ScriptedModel
            from vibe_jupyter.tour import next_reply

            self._tour = ScriptedModel(next_reply)
            self._tour.start()
        return Model(server=Server(name=TOUR, api_base=self._tour.url), name=TOUR, alias=TOUR)

    def _choice_advice(self) -> str:
        lines = [
            "No model is connected yet. Nothing was sent.",
            "One of these, then try again:",
            "  %vibe setup                                a form, or questions: provider, key, and a test",
            f"  MISTRAL_API_KEY=… in {env_path(self._environ)}   a key of Mistral",
            "  %vibe model NAME@http://127.0.0.1:8080/v1  a server of your own",
            "  %vibe model tour                           a script on this machine; no key, no network",
        ]
        for port, name in LOOPBACK_SERVERS.items():
            if _is_listening(port):
                lines.append(
                    f"Something is listening on 127.0.0.1:{port}, as {name} usually does; if it is yours: %vibe setup"
                )
        return "\n".join(lines)


def _is_listening(port: int) -> bool:
    """Return whether a local port accepts connections. Sends nothing: on a shared host it may be another user's."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=LOOPBACK_WAIT):
            return True
    except OSError:
        return False


def model_facts(model: Model) -> list[str]:
    """Summarize server, price, context window and abilities, stating what is unknown."""
    abilities = ["tools", "images"] if model.sees_images else ["tools"]
    if model.thinking not in (None, "off"):
        abilities.append(f"thinks ({model.thinking})")
    where = f"{model.server.name} at {model.server.host}" if model.server.name else model.server.host
    return [where, price_words(model), window_words(model), ", ".join(abilities)]


def price_words(model: Model) -> str:
    if model.input_price is None or model.output_price is None:
        return "price unknown"
    if not model.input_price and not model.output_price:
        return "free"
    cached = "" if model.cached_input_price is None else f" (cached ${model.cached_input_price:g})"
    return f"${model.input_price:g}{cached} in, ${model.output_price:g} out per million tokens"


def window_words(model: Model) -> str:
    """Describe the context window of a model."""
    return "context size unknown" if model.context_window is None else f"{model.context_window:,} tokens"


def model_table(rows: Sequence[Sequence[str]]) -> str:
    """Align rows in columns. The last cell of a shorter row may have any length."""
    columns = max(len(row) for row in rows)
    whole = [row for row in rows if len(row) == columns]
    widths = [max((len(row[at]) for row in whole), default=0) for at in range(columns)]
    widths[1] = max(len(row[1]) for row in rows)
    lines = [f"{row[0]} " + "  ".join(cell.ljust(widths[at]) for at, cell in enumerate(row) if at) for row in rows]
    return "\n".join(line.rstrip() for line in lines)


def remote_model_lines(models: Sequence[Model]) -> list[str]:
    """List the models of each mistral.rs server among `models`, noting those that don't respond. Main thread only."""
    by_server = {model.server.api_base: model for model in models if model.server.dialect == "mistralrs"}
    if not by_server:
        return []
    engine = Engine()
    try:
        futures = {host: engine.submit(_server_model_lines(model)) for host, model in by_server.items()}
        concurrent.futures.wait(futures.values(), timeout=WAIT)
        lines: list[str] = []
        for host, future in futures.items():
            name = by_server[host].server.host
            lines += future.result() if future.done() else [f"  {name} is not responding right now."]
        return lines
    finally:
        engine.close()


async def _server_model_lines(model: Model) -> list[str]:
    client = LLMClient(user_agent=f"vibe-jupyter/{__version__}")
    try:
        found = await fetch_model_list(client, model)
    except ModelError:
        return [f"  {model.server.host} is not responding right now."]
    finally:
        await client.close()
    if not found:
        return [f"  {model.server.host} does not list its models."]
    said = [f"{name}: {words}" if words else name for name, words in found]
    return [f"  {model.server.host} has:", *(f"    {readable_text(one_line(line))}" for line in said)]


async def fetch_model_list(client: LLMClient, model: Model) -> list[tuple[str, str]]:
    """Return the id and a description of each model on the given model's server.

    Raises:
        ModelError: The server can't be reached.
    """
    got = await client.fetch(model, FetchRequest("GET", "/models"))
    entries = got.json.get("data")
    listed = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return [(str(entry.get("id")), _model_line(entry)) for entry in listed[:MODELS_LIMIT] if entry.get("id")]


def _model_line(entry: Object) -> str:
    """Describe a listed model by the optional fields that its server sends."""
    status, tools = entry.get("status"), entry.get("tools_available")
    count, servers = _whole_number(entry.get("mcp_tools_count")), _whole_number(entry.get("mcp_servers_connected"))
    words = [status] if isinstance(status, str) and status else []
    if isinstance(tools, bool):
        words.append("tools of its own" if tools else "no tools of its own")
    if count is not None:
        words.append(f"{count} MCP tool{_plural_s(count)}")
    if servers is not None:
        words.append(f"{servers} MCP server{_plural_s(servers)} connected")
    return ", ".join(words)


def _whole_number(value: JsonValue) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _plural_s(count: int) -> str:
    return "" if count == 1 else "s"
