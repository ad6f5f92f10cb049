"""`%vibe setup`: a few questions lead a newcomer to a model that answers.

Questions are plain text prompts, which every front end has. A key is asked for without showing it, so it stands neither
in the notebook nor in the history.
"""

import asyncio
import builtins
import getpass
import os
import queue
import re
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import urlsplit

from IPython.core.error import StdinNotImplementedError
from pydantic import JsonValue

from vibe_jupyter import config
from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.models import ModelChoice
from vibe_jupyter.app.project import KernelSettings
from vibe_jupyter.config import model_choice
from vibe_jupyter.config.toml_file import use_model
from vibe_jupyter.errors import ConfigError, ModelError
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.client import LLMClient, RetryPolicy
from vibe_jupyter.llm.connections import FetchRequest, id_in_path
from vibe_jupyter.llm.hosted_events import HostedCallRequest
from vibe_jupyter.llm.request import Endpoint, Model, ModelRequestTerms, Server
from vibe_jupyter.options import TOUR
from vibe_jupyter.protocol import (
    AssistantMessage,
    ImagePart,
    ReasoningDelta,
    SystemMessage,
    TextDelta,
    TextPart,
    ToolSpec,
    UserMessage,
)
from vibe_jupyter.version import __version__


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
        "Mistral, with your API key (console.mistral.ai)",
        name="mistral",
        api_base="https://api.mistral.ai/v1",
        asks_address=False,
        backend="mistral",
        variable="MISTRAL_API_KEY",
        model="devstral-2",
    ),
    ProviderOffer(
        "OpenAI, with your API key",
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
    ProviderOffer("another server with an OpenAI-compatible API (vLLM, litellm, your company's …)", variable="?"),
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
            raise ConfigError(f"That is not the name of a variable. The key itself is asked for next. {_NOTHING}")
        return variable

    def _ask_model(self, offer: ProviderOffer, server: dict[str, JsonValue]) -> tuple[str, dict[str, JsonValue] | None]:
        """What the model is known by, and its entry; None where the settings have it."""
        said = f" [{offer.model}]" if offer.model else ""
        name = builtins.input(f"Name of the model{said}: ").strip() or offer.model
        if not name:
            raise ConfigError(f"Give the name of a model, as its server knows it. {_NOTHING}")
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
        key = getpass.getpass(f"The key for {server['name']}, which stays hidden: ").strip()
        if not key.isascii() or not key.isprintable() or not key or " " in key:
            raise ConfigError(f"That is not a key: it is empty, or has characters that no header can carry. {_NOTHING}")
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


PrintLine = Callable[[str], None]

STEP_WAIT: Final = 60.0
"""Seconds one question may take."""
MOST_TOKENS: Final = 2_000
"""Of one answer; a model that thinks needs some before it says a word."""
_LOOK: Final = 0.1
"""Seconds between two looks at whether the user wants no more."""
_SYSTEM: Final = SystemMessage(text="You are being tested. Do exactly what is asked, and nothing more.")
_TOOL: Final = ToolSpec(
    name="echo",
    description="Says a word.",
    parameters={"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)
_RED: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAT0lEQVR42u3PQQkAAAgEsIty/VMZxQi+hcEKLNO+FgEBAQEBAQEB"
    "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQGBywKkKwEPXi+AaQAAAABJRU5ErkJggg=="
)
"""A PNG of 64 by 64 red pixels."""


@dataclass(frozen=True)
class CheckAnswer:
    """One answer, and how it came."""

    message: AssistantMessage
    pieces: int
    """Of text and thought."""
    first: float
    """Seconds to the first of them, or to the whole."""
    seconds: float


def check_model(model: Model, say: PrintLine) -> bool:
    """Ask a few small questions; True when all went well. Main thread; an interrupt ends it.

    Args:
        model: whom to ask.
        say: told each line as it is known.
    """
    if model.server.name == TOUR:
        say("tour is a script on this machine: there is nothing to check.")
        return True
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    engine = Engine()
    try:
        future = engine.submit(_Check(model, lines.put).work())
        while not (future.done() and lines.empty()):
            try:
                say(lines.get(timeout=_LOOK))
            except queue.Empty:
                continue
        return future.result()
    except KeyboardInterrupt:
        say("Interrupted.")
        return False
    finally:
        engine.close()


class _Check:
    """On the engine's thread."""

    def __init__(self, model: Model, say: PrintLine) -> None:
        most = MOST_TOKENS if model.max_tokens is None else min(model.max_tokens, MOST_TOKENS)
        self._model = replace(model, max_tokens=most)
        self._say = say
        self._client = LLMClient(user_agent=f"vibe-jupyter/{__version__}", retry=RetryPolicy(retries=0))

    async def work(self) -> bool:
        """Everything; what follows a question without an answer is not asked."""
        self._say(f"{self._model.alias} at {self._model.server.host}")
        try:
            return await self._check_answers() and await self._check_calls() and await self._check_sees()
        finally:
            await self._client.close()

    async def _check_answers(self) -> bool:
        heard = await self._ask_model("answers", "Say hello in a few words.")
        if heard is None:
            return False
        self._print_result("✓", "answers", heard.seconds, f"the first word after {heard.first:.1f} s")
        if heard.pieces > 1:
            self._print_result("✓", "streams", heard.seconds, f"{heard.pieces} pieces")
        else:
            self._print_result(
                "–", "streams", heard.seconds, "the answer came in one piece: you will see it only when it is complete"
            )
        return True

    async def _check_calls(self) -> bool:
        heard = await self._ask_model("calls a tool", 'Call the tool echo with the word "hello".', tools=(_TOOL,))
        if heard is None:
            return False
        problem = _problem_of(heard.message)
        self._print_result("✗" if problem else "✓", "calls a tool", heard.seconds, problem)
        return not problem

    async def _check_sees(self) -> bool:
        if not self._model.sees_images:
            step = "none are sent; supports_images = true in its [[models]] sends them"
            self._say(f"– {'sees images':<13}          {step}")
            return True
        image = ImagePart(media_type="image/png", data=_RED)
        heard = await self._ask_model("sees an image", "Which colour is this image?", image=image)
        if heard is None:
            self._say("  If it does not accept images, set supports_images = false in its [[models]].")
            return False
        self._print_result("✓", "sees an image", heard.seconds, f"it says: {_short_text(heard.message.text)}")
        return True

    async def _ask_model(
        self, name: str, prompt: str, *, tools: tuple[ToolSpec, ...] = (), image: ImagePart | None = None
    ) -> CheckAnswer | None:
        """One question; None when it got no answer, which is reported."""
        parts = (TextPart(text=prompt),) if image is None else (TextPart(text=prompt), image)
        request = ModelRequestTerms(self._model, (_SYSTEM, UserMessage(parts=parts)), tools)
        began = time.monotonic()
        await self._client.close()  # the server may have ended a connection that was idle; nothing is asked twice here
        try:
            async with asyncio.timeout(STEP_WAIT):
                return await self._hear_answer(request, began)
        except ModelError as error:
            said = str(error)
        except TimeoutError:
            said = f"no answer within {STEP_WAIT:.0f} s. Try again, or choose a smaller model."
        self._print_result("✗", name, time.monotonic() - began, said)
        return None

    async def _hear_answer(self, request: ModelRequestTerms, began: float) -> CheckAnswer:
        pieces, first = 0, 0.0
        async with aclosing(self._client.answer(request)) as items:
            async for item in items:
                now = time.monotonic() - began
                match item:
                    case TextDelta() | ReasoningDelta():
                        pieces, first = pieces + 1, first or now
                    case AssistantMessage():
                        return CheckAnswer(item, pieces, first or now, now)
                    case HostedCallRequest():
                        await self._refuse_approval(item)
                    case _:
                        first = first or now
        raise ModelError("The server sent no answer.", kind="empty")

    async def _refuse_approval(self, approval: HostedCallRequest) -> None:
        """What the server wants to run by itself is no part of the check, and its answer waits for ours."""
        what = _short_text(approval.label or approval.kind or "a tool")
        self._say(f"– {'asked':<13}          the server wanted to run {what} by itself; it was denied")
        with suppress(ModelError, ValueError):  # the answer then waits no longer than the question may take
            path = f"/agent/approvals/{id_in_path(approval.id)}"
            await self._client.fetch(self._model, FetchRequest("POST", path, {"decision": "deny"}))

    def _print_result(self, mark: str, name: str, seconds: float, rest: str) -> None:
        self._say(f"{mark} {name:<13} {seconds:5.1f} s  {rest}".rstrip())


def _problem_of(message: AssistantMessage) -> str:
    """What is wrong with the answer to a request for a call; empty for nothing."""
    if not message.calls:
        return (
            "it answered with text instead. Choose a model made for calling tools; a llama-server requires --jinja and "
            "a chat template that knows tools."
        )
    call = message.calls[0]
    if call.name != _TOOL.name:
        return f"it called {_short_text(call.name)!r}, which it was not offered. Choose a model made for calling tools."
    try:
        json_text.parse_json_object(call.arguments)
    except ValueError:
        return "its arguments are not JSON. Choose a model made for calling tools."
    return ""


def _short_text(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 60 else f"{words[:59]}…"
