"""A few small questions to a model: whether it answers, streams, calls tools and sees images."""

import asyncio
import queue
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final, Literal

from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.client import LLMClient, RetryPolicy
from vibe_jupyter.llm.connections import FetchRequest, id_in_path
from vibe_jupyter.llm.hosted_events import HostedCallRequest
from vibe_jupyter.llm.request import Model, ModelRequestTerms
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
class CheckStep:
    """What came of one question."""

    name: str
    state: Literal["passed", "failed", "skipped"]
    detail: str = ""
    seconds: float | None = None
    """None where nothing was asked."""

    @property
    def line(self) -> str:
        """The same for a console."""
        mark = {"passed": "✓", "failed": "✗", "skipped": "–"}[self.state]
        seconds = " " * 7 if self.seconds is None else f"{self.seconds:5.1f} s"
        return f"{mark} {self.name:<13} {seconds}  {self.detail}".rstrip()


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
        say(f"{model.alias} at {model.server.host}")
        future = engine.submit(run_check(model, lambda step: lines.put(step.line)))
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


async def run_check(model: Model, report: Callable[[CheckStep], None]) -> bool:
    """The same on an engine's loop.

    Args:
        model: whom to ask.
        report: takes what came of each question as it is known.
    """
    return await _Check(model, report).work()


class _Check:
    """On the engine's thread."""

    def __init__(self, model: Model, report: Callable[[CheckStep], None]) -> None:
        most = MOST_TOKENS if model.max_tokens is None else min(model.max_tokens, MOST_TOKENS)
        self._model = model._replace(max_tokens=most)
        self._report = report
        self._client = LLMClient(user_agent=f"vibe-jupyter/{__version__}", retry=RetryPolicy(retries=0))

    async def work(self) -> bool:
        """Everything; what follows a question without an answer is not asked."""
        try:
            return await self._check_answers() and await self._check_calls() and await self._check_sees()
        finally:
            await self._client.close()

    async def _check_answers(self) -> bool:
        heard = await self._ask_model("answers", "Say hello in a few words.")
        if heard is None:
            return False
        self._report(CheckStep("answers", "passed", f"the first word after {heard.first:.1f} s", heard.seconds))
        if heard.pieces > 1:
            self._report(CheckStep("streams", "passed", f"{heard.pieces} pieces", heard.seconds))
        else:
            detail = "the answer came in one piece: you will see it only when it is complete"
            self._report(CheckStep("streams", "skipped", detail, heard.seconds))
        return True

    async def _check_calls(self) -> bool:
        heard = await self._ask_model("calls a tool", 'Call the tool echo with the word "hello".', tools=(_TOOL,))
        if heard is None:
            return False
        problem = _problem_of(heard.message)
        self._report(CheckStep("calls a tool", "failed" if problem else "passed", problem, heard.seconds))
        return not problem

    async def _check_sees(self) -> bool:
        if not self._model.sees_images:
            step = "none are sent; supports_images = true in its [[models]] sends them"
            self._report(CheckStep("sees images", "skipped", step))
            return True
        image = ImagePart(media_type="image/png", data=_RED)
        heard = await self._ask_model("sees an image", "Which colour is this image?", image=image)
        if heard is None:
            return False
        said = f"it says: {_short_text(heard.message.text)}"
        self._report(CheckStep("sees an image", "passed", said, heard.seconds))
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
        if image is not None:
            said += " If it does not accept images, set supports_images = false in its [[models]]."
        self._report(CheckStep(name, "failed", said, time.monotonic() - began))
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
        self._report(CheckStep("asked", "skipped", f"the server wanted to run {what} by itself; it was denied"))
        with suppress(ModelError, ValueError):  # the answer then waits no longer than the question may take
            path = f"/agent/approvals/{id_in_path(approval.id)}"
            await self._client.fetch(self._model, FetchRequest("POST", path, {"decision": "deny"}))


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
