"""Sampling: MCP servers use the model, with approval of each request and within the run's budget (docs/mcp.md)."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from vibe_jupyter.agent.agent import HookContext
from vibe_jupyter.agent.approval import NOBODY, PendingApproval, card_without_tool
from vibe_jupyter.agent.call_context import StepOutcome, ToolStep
from vibe_jupyter.errors import ModelError, ToolError
from vibe_jupyter.llm.request import ModelReply, ModelRequestTerms
from vibe_jupyter.protocol import (
    AssistantMessage,
    Headline,
    ImagePart,
    Message,
    Notice,
    Preview,
    Reject,
    Resource,
    SystemMessage,
    TextPart,
    ToolCall,
    UserMessage,
)

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams

SAMPLES: Final = 10  # sampling requests in one run
SAMPLE_TOKENS: Final = 4_096  # tokens of one response, whatever a server asks for
PROMPT_LIMIT: Final = 60_000  # characters of one request; a user could not review more
NAME: Final = "sampling"  # used in place of a tool name
_TEMPERATURE: Final = 2.0  # highest value that model servers accept


class Sampling:
    """Sampling requests of one run. Engine loop only."""

    def __init__(self, hook_context: HookContext) -> None:
        self._hook_context = hook_context
        self._count = 0

    async def answer(self, server: str, params: "CreateMessageRequestParams") -> AssistantMessage:
        """Ask the user for approval, then the model.

        Raises:
            ToolError: the request was refused by the user or by a limit. The server receives the reason.
            ModelError: the model server failed.
            JournalError: the request could not be recorded.
        """
        messages = _sampling_messages(params, sees_images=self._hook_context.model.sees_images)
        await self._check_allowed(server)
        self._count += 1
        tokens = max(1, min(params.max_tokens, SAMPLE_TOKENS))
        headline = Headline(
            verb="Asked the model",
            doing="Asking the model",
            asking="Ask the model",
            target="",
            note=f"for the server {server}",
        )
        preview = Preview(kind="code", text=_shown_request(messages))
        step = ToolStep(NAME, headline, preview, host=server)
        given = {"server": server, "max_tokens": tokens, "temperature": params.temperature}
        call = ToolCall(id=step.id, name=NAME, arguments=json.dumps(given))
        await self._permit_request(server, call, headline, preview)
        await self._hook_context.call_context.emit(step.started())
        model = self._hook_context.model._replace(max_tokens=tokens)
        if params.temperature is not None:
            model = model._replace(temperature=max(0.0, min(params.temperature, _TEMPERATURE)))
        return await self._run_request(ModelRequestTerms(model=model, messages=messages, tool_choice="none"), step)

    async def _check_allowed(self, server: str) -> None:
        """Refuse requests that don't need the user's decision."""
        if self._hook_context.call_context.schema_only:
            raise ToolError("The user's privacy mode sends no text of servers to the model.")
        if not await self._hook_context.call_context.attended():
            raise ToolError(NOBODY)
        if self._count >= SAMPLES:
            await self._note_refusal(
                f"The server {server} asked the model more than {SAMPLES} times in this run; refused."
            )
            raise ToolError(f"This run answers at most {SAMPLES} such requests.")
        if (stop := self._hook_context.budget.stop_aside()) is not None:
            await self._note_refusal(f"The server {server} asked the model for text; refused. {stop.notice}")
            raise ToolError("The budget of this run is used up.")

    async def _note_refusal(self, text: str) -> None:
        await self._hook_context.call_context.emit(Notice(level="warning", text=text))

    async def _permit_request(self, server: str, call: ToolCall, headline: Headline, preview: Preview) -> None:
        call_context, model = self._hook_context.call_context, self._hook_context.model
        card = card_without_tool(
            call,
            headline,
            preview,
            f"{server} gets the answer of {model.alias} at {model.server.host}; this run pays for it",
            (Resource(kind="mcp", value=f"{server}/{NAME}", access="execute"),),
        )
        command = await PendingApproval(card, call_context.approvals, call_context.emit).ask(
            cancelled_by=lambda: "interrupt" if call_context.cancelled() else "server"
        )
        if isinstance(command, Reject):
            raise ToolError("The user declined this request.")

    async def _run_request(self, request: ModelRequestTerms, step: ToolStep) -> AssistantMessage:
        answer: AssistantMessage | None = None
        outcome: StepOutcome = "error"
        failure = ""
        try:
            async with aclosing(self._hook_context.client.answer(request)) as items:
                async for item in items:
                    if isinstance(item, ModelReply):
                        answer = item.message
        except ModelError as error:
            failure = str(error)
            raise
        except asyncio.CancelledError:
            outcome = "interrupted"
            raise
        finally:
            usage = None if answer is None else answer.usage
            self._hook_context.budget.add(usage)
            await self._hook_context.call_context.emit(
                step.finished(
                    outcome if answer is None else "ok",
                    failure or ("" if usage is None else f"{usage.completion_tokens:,} tokens"),
                    display={} if answer is None else {"text/markdown": answer.text},
                    details={} if usage is None else {"usage": usage.model_dump()},
                )
            )
        if answer is None or not answer.text:
            raise ToolError("The model returned no text.")
        return answer


def _sampling_messages(params: "CreateMessageRequestParams", *, sees_images: bool) -> tuple[Message, ...]:
    """Convert the request's messages. Nothing of this conversation is added.

    Raises:
        ToolError: the request uses features that are not offered.
    """
    if params.tools:
        raise ToolError("Tools are not offered in sampling.")
    out: list[Message] = [SystemMessage(text=params.system_prompt)] if params.system_prompt else []
    for message in params.messages:
        parts = [_message_part(block, sees_images=sees_images) for block in message.content_as_list]
        if message.role == "user":
            out.append(UserMessage(parts=tuple(parts)))
        else:
            texts = tuple(part for part in parts if isinstance(part, TextPart))
            out.append(AssistantMessage(parts=texts, stop_reason="stop"))
    if not any(isinstance(message, UserMessage) for message in out):
        raise ToolError("The request has no user message.")
    size = len(_shown_request(out))
    if size > PROMPT_LIMIT:
        raise ToolError(f"The request has {size:,} characters; at most {PROMPT_LIMIT:,} are passed on.")
    return tuple(out)


def _message_part(block: object, *, sees_images: bool) -> TextPart | ImagePart:
    from mcp_types import ImageContent, TextContent  # noqa: PLC0415 - already loaded: one of our servers is running

    if isinstance(block, TextContent):
        return TextPart(text=block.text)
    if isinstance(block, ImageContent) and sees_images:
        return ImagePart(media_type=block.mime_type, data=block.data)
    raise ToolError("The model of this run reads text" + (" and images" if sees_images else "") + " only.")


def _shown_request(messages: Sequence[Message]) -> str:
    """Return the whole request as shown on the card."""
    lines: list[str] = []
    for message in messages:
        match message:
            case SystemMessage():
                lines += ["System:", message.text, ""]
            case UserMessage() | AssistantMessage():
                lines.append("User:" if isinstance(message, UserMessage) else "Model:")
                lines += [_part_text(part) for part in message.parts]
                lines.append("")
            case _:
                pass
    return "\n".join(lines).rstrip()


def _part_text(part: object) -> str:
    match part:
        case TextPart():
            return part.text
        case ImagePart():
            return f"(a picture, {part.media_type}, {len(part.data) * 3 // 4:,} bytes)"
        case _:
            return ""
