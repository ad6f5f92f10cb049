"""Test requests to a model: a quick check while it is being connected, and the full one of `%vibe model check`."""

import asyncio
import queue
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Final, Literal

from vibe_jupyter.agent.context_size import count_messages
from vibe_jupyter.agent.engine import Engine
from vibe_jupyter.app.model_questions import (
    ALL_TOKENS,
    ANY_PARSER,
    CALL,
    CALL_ANSWER,
    COUNT,
    HELLO,
    LEAST_ANSWER,
    MANY_LINES,
    PARSERS,
    SHORT,
    SYSTEM,
    TEXT_ANSWER,
    TOOL,
    TWO_CALLS,
    Judgement,
    TimedAnswer,
    estimate_prompt,
    failed,
    judge_call,
    judge_counts,
    judge_limit,
    judge_lines,
    judge_result,
    judge_stream,
    judge_thoughts,
    judge_two,
    passed,
    result_of,
    short_text,
    skipped,
    user,
)
from vibe_jupyter.errors import ModelError, ModelErrorKind
from vibe_jupyter.llm.client import LLMClient, RetryPolicy
from vibe_jupyter.llm.connections import FetchRequest, id_in_path
from vibe_jupyter.llm.failures import MIN_REDACTED_KEY
from vibe_jupyter.llm.hosted_events import HeldBack, HostedCallRequest
from vibe_jupyter.llm.request import Model, ModelReply, ModelRequestTerms
from vibe_jupyter.options import TOUR
from vibe_jupyter.protocol import (
    AssistantMessage,
    ImagePart,
    Message,
    ReasoningDelta,
    TextDelta,
    TextPart,
    ToolSpec,
    Usage,
    UserMessage,
)
from vibe_jupyter.version import __version__

PrintLine = Callable[[str], None]

STEP_WAIT: Final = 60.0  # seconds one question may take
MOST_TOKENS: Final = 2_000  # token limit of one answer; a reasoning model needs some before its first word
LIST_WAIT: Final = 5.0  # seconds to wait for the list of models
# Errors that the next question would run into as well.
_FINAL: Final[frozenset[ModelErrorKind]] = frozenset({"auth", "connection", "limit", "not_found", "rate_limit"})
_LIMIT_REACHED: Final = "the token limit was reached"
_LOOK: Final = 0.1  # seconds between checks for an interrupt
# A PNG of 64 by 64 red pixels.
_RED: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAEAAAABACAIAAAAlC+aJAAAAT0lEQVR42u3PQQkAAAgEsIty/VMZxQi+hcEKLNO+FgEBAQEBAQEB"
    "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQGBywKkKwEPXi+AaQAAAABJRU5ErkJggg=="
)


@dataclass(frozen=True)
class CheckStep:
    """Result of one question."""

    name: str
    state: Literal["passed", "failed", "skipped"]
    detail: str = ""
    seconds: float | None = None  # None if no request was sent

    @property
    def line(self) -> str:
        """The result as a line for a console."""
        mark = {"passed": "✓", "failed": "✗", "skipped": "–"}[self.state]
        seconds = " " * 7 if self.seconds is None else f"{self.seconds:5.1f} s"
        return f"{mark} {self.name:<13} {seconds}  {self.detail}".rstrip()


def check_model(model: Model, say: PrintLine, *, whole: bool = False) -> bool:
    """Ask a few short questions. Returns whether none of them failed. An interrupt ends the check. Main thread only.

    Args:
        model: The model to check.
        say: Called with each line as soon as it is available.
        whole: Whether to run the full check of `%vibe model check`.
    """
    try:
        return ask_questions(model, say, whole=whole)
    except KeyboardInterrupt:
        say("Interrupted.")
        return False


def ask_questions(model: Model, say: PrintLine, *, whole: bool) -> bool:
    """Ask the questions like `check_model`, but propagate interrupts.

    Raises:
        KeyboardInterrupt: The user ended the check.
    """
    if model.server.name == TOUR:
        say("tour is a script on this machine: there is nothing to check.")
        return True
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    engine = Engine()
    try:
        say(f"{model.alias} at {model.server.host}")
        check = _WholeCheck if whole else _Check
        future = engine.submit(check(model, lambda step: lines.put(step.line)).work())
        while not (future.done() and lines.empty()):
            try:
                say(lines.get(timeout=_LOOK))
            except queue.Empty:
                continue
        return future.result()
    finally:
        engine.close()


async def run_check(model: Model, report: Callable[[CheckStep], None]) -> bool:
    """Run the quick check on a model that is being connected. Engine loop only.

    Args:
        model: The model to check.
        report: Called with each result as soon as it is available.
    """
    return await _Check(model, report).work()


class _Check:
    """The quick check. Engine thread only."""

    def __init__(self, model: Model, report: Callable[[CheckStep], None]) -> None:
        most = MOST_TOKENS if model.max_tokens is None else min(model.max_tokens, MOST_TOKENS)
        self._model = model._replace(max_tokens=most)
        self._report = report
        self._client = LLMClient(user_agent=f"vibe-jupyter/{__version__}", retry=RetryPolicy(retries=0))
        self._secrets = tuple(filter(None, (model.server.api_key, *model.server.headers.values())))
        self._error: ModelError | None = None  # error of the latest question, if it failed
        self._all_well = True
        self._parser = ANY_PARSER  # advice for a server that doesn't return tool calls as such

    async def work(self) -> bool:
        """Ask all questions, stopping at the first without an answer."""
        try:
            await self._ask_all()
        finally:
            await self._client.close()
        return self._all_well

    async def _ask_all(self) -> None:
        heard = await self._ask("answers", (user(HELLO),))
        if heard is None:
            return
        self._tell("answers", passed(f"the first word after {heard.first:.1f} s"), heard.seconds)
        self._tell("streams", judge_stream(heard), heard.seconds)
        if (heard := await self._ask("calls a tool", (user(CALL),), tools=(TOOL,))) is None:
            return
        self._tell("calls a tool", judge_call(heard.message, self._parser), heard.seconds)
        if self._all_well:
            await self._check_sees()

    async def _check_sees(self) -> None:
        if not self._model.sees_images:
            self._tell("sees images", skipped("none are sent; supports_images = true in its [[models]] sends them"))
            return
        image = ImagePart(media_type="image/png", data=_RED)
        asked = UserMessage(parts=(TextPart(text="Which colour is this image?"), image))
        if (heard := await self._ask("sees images", (asked,))) is not None:
            self._tell("sees images", passed(f"it says: {short_text(heard.message.text)}"), heard.seconds)

    def _tell(self, name: str, judgement: Judgement, seconds: float | None = None) -> None:
        detail = judgement.detail
        for secret in self._secrets:
            detail = detail.replace(secret, "[redacted]") if len(secret) >= MIN_REDACTED_KEY else detail
        self._all_well = self._all_well and judgement.state != "failed"
        self._report(CheckStep(name, judgement.state, detail, seconds))

    async def _ask(
        self, name: str, messages: tuple[Message, ...], *, tools: tuple[ToolSpec, ...] = (), most: int = MOST_TOKENS
    ) -> TimedAnswer | None:
        """Ask one question. Reports the failure and returns None if there is no answer."""
        limit = min(most, self._model.max_tokens or most)
        model = self._model._replace(max_tokens=limit)
        request = ModelRequestTerms(model, (SYSTEM, *messages), tools)
        began = time.monotonic()
        await self._client.close()  # avoid a stale keep-alive connection, because these requests aren't retried
        try:
            async with asyncio.timeout(STEP_WAIT):
                return await self._hear_answer(request, began)
        except ModelError as error:
            self._error = error
        except TimeoutError:
            said = f"no answer within {STEP_WAIT:.0f} s. Try again, or choose a smaller model."
            self._error = ModelError(said, kind="limit")
        said = str(self._error)
        if self._error.kind == "empty" and _LIMIT_REACHED in said:
            words = f"it spent all {limit} tokens of this answer on thinking"
            self._tell(name, skipped(words), time.monotonic() - began)
            return None
        if tools and self._error.status is not None and self._error.kind == "http":
            said += f" It refuses a request with tools: {self._parser}"
        if any(isinstance(part, ImagePart) for part in getattr(messages[-1], "parts", ())):
            said += " If it does not accept images, set supports_images = false in its [[models]]."
        self._tell(name, failed(said), time.monotonic() - began)
        return None

    async def _hear_answer(self, request: ModelRequestTerms, began: float) -> TimedAnswer:
        pieces, first, last = 0, 0.0, 0.0
        async with aclosing(self._client.answer(request)) as items:
            async for item in items:
                now = time.monotonic() - began
                match item:
                    case TextDelta() | ReasoningDelta() | HeldBack():
                        pieces, first, last = pieces + 1, first or now, now
                    case ModelReply():
                        return TimedAnswer(item.message, pieces, first or now, max(0.0, last - first), now)
                    case HostedCallRequest():
                        await self._refuse_approval(item)
                    case _:
                        first = first or now
        raise ModelError("The server sent no answer.", kind="empty")

    async def _refuse_approval(self, approval: HostedCallRequest) -> None:
        """Deny a hosted tool that the server asks approval for.

        It isn't part of the check, and the response waits for it.
        """
        what = short_text(approval.label or approval.kind or "a tool")
        self._tell("asked", skipped(f"the server wanted to run {what} by itself; it was denied"))
        with suppress(ModelError, ValueError):  # if this fails, the question's own timeout ends the wait
            path = f"/agent/approvals/{id_in_path(approval.id)}"
            await self._client.fetch(self._model, FetchRequest("POST", path, {"decision": "deny"}))


class _WholeCheck(_Check):
    """The full check, within a budget of tokens."""

    def __init__(self, model: Model, report: Callable[[CheckStep], None]) -> None:
        super().__init__(model, report)
        self._left = ALL_TOKENS
        self._extra = 0  # the largest excess of the server's prompt token count over the estimate
        self._heard: list[tuple[int, AssistantMessage]] = []  # answers, each with the estimated tokens of its prompt

    async def _ask_all(self) -> None:
        heard = await self._ask("answers", (user(HELLO),), most=TEXT_ANSWER)
        if heard is not None:
            self._tell("answers", passed(f"the first word after {heard.first:.1f} s"), heard.seconds)
            self._tell("streams", judge_stream(heard), heard.seconds)
        elif self._is_over:
            return
        await self._check_calls()
        if not self._is_over:
            await self._check_limit()
        if self._heard:
            self._tell("counts tokens", judge_counts(self._heard, self._model))
        if not self._is_over:
            await self._check_sees()

    @property
    def _is_over(self) -> bool:
        """True if the latest error would recur with the next question."""
        return self._error is not None and self._error.kind in _FINAL

    async def _check_calls(self) -> None:
        await self._find_parser()
        heard = await self._ask("calls a tool", (user(CALL),), tools=(TOOL,), most=CALL_ANSWER)
        if heard is not None:
            self._tell("calls a tool", judge_call(heard.message, self._parser), heard.seconds)
        if self._is_over:
            return
        if heard is None or not heard.message.calls:
            for name in ("uses a result", "keeps thoughts", "two calls", "many lines"):
                self._tell(name, skipped("not asked, since no call came"))
            return
        await self._check_round(heard.message)
        if not self._is_over and (
            heard := await self._ask("two calls", (user(TWO_CALLS),), tools=(TOOL,), most=CALL_ANSWER)
        ):
            self._tell("two calls", judge_two(heard.message, self._parser), heard.seconds)
        if not self._is_over and (
            heard := await self._ask("many lines", (user(MANY_LINES),), tools=(TOOL,), most=CALL_ANSWER)
        ):
            self._tell("many lines", judge_lines(heard.message, self._parser), heard.seconds)

    async def _check_round(self, called: AssistantMessage) -> None:
        """Return the calls' results to the model, along with the reasoning that came with the calls."""
        round_so_far = (user(CALL), called, *map(result_of, called.calls))
        heard = await self._ask("uses a result", round_so_far, tools=(TOOL,), most=TEXT_ANSWER)
        if heard is not None:
            self._tell("uses a result", judge_result(heard.message), heard.seconds)
        error = self._error
        refusal = "" if heard is not None or error is None or error.status is None else error.provider_message
        sent = self._client.sent.body if self._client.sent is not None else b""
        self._tell("keeps thoughts", judge_thoughts(called, sent, was_taken=heard is not None, refusal=refusal))

    async def _check_limit(self) -> None:
        heard = await self._ask("token limit", (user(COUNT),), most=SHORT)
        if heard is not None:
            self._tell("token limit", judge_limit(heard.message), heard.seconds)

    async def _find_parser(self) -> None:
        """Detect the server's software from its model list, which costs no tokens. Some servers have no list."""
        with suppress(ModelError, TimeoutError):
            async with asyncio.timeout(LIST_WAIT):
                owners = {str(one.get("owned_by")) for one in await self._client.list_models(self._model)}
                self._parser = next((PARSERS[one] for one in owners if one in PARSERS), ANY_PARSER)

    async def _ask(
        self, name: str, messages: tuple[Message, ...], *, tools: tuple[ToolSpec, ...] = (), most: int = TEXT_ANSWER
    ) -> TimedAnswer | None:
        self._error = None
        prompt = estimate_prompt((SYSTEM, *messages), tools)
        most = min(most, self._left - prompt - self._extra)
        if most < (SHORT if name == "token limit" else LEAST_ANSWER):
            self._tell(name, skipped(f"not asked: the {ALL_TOKENS:,} tokens of this check are used up"))
            return None
        heard = await super()._ask(name, messages, tools=tools, most=most)
        if heard is None:
            self._left -= prompt + (most if self._error is not None and self._error.kind == "empty" else 0)
            return None
        usage = heard.message.usage or Usage()
        counted = usage.prompt_tokens + usage.completion_tokens
        self._left -= max(counted, prompt + count_messages((heard.message,)))
        self._extra = max(self._extra, usage.prompt_tokens - prompt)
        self._heard.append((prompt, heard.message))
        return heard
