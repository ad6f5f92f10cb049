"""``/server:prompt name=value …``: a prompt that a server has ready."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from vibe_jupyter.errors import ConfigError
from vibe_jupyter.protocol import ImagePart, TextPart
from vibe_jupyter.tools.mcp.contents import Named, prompt_parts
from vibe_jupyter.tools.mcp.offerings import OfferedPrompt, Offerings, Requests

PROMPT_TIMEOUT: Final = 60.0
"""Seconds that a server may take to write it."""
MESSAGES: Final = 50
"""Messages of one prompt."""
_CALL: Final = re.compile(r"/(?P<server>[A-Za-z0-9_-]{1,64}):(?P<name>[^\s=]+)")
_ARGUMENT: Final = re.compile(
    r"""[ \t]+(?P<name>[A-Za-z_][\w.-]*)="""
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)'|(?P<plain>[^\s"']\S*|(?=\s|$)))"""
)
_ESCAPED: Final = re.compile(r"\\(.)")


@dataclass(frozen=True)
class PromptCall:
    """What the person wrote."""

    server: str
    name: str
    arguments: dict[str, str] = field(default_factory=dict[str, str])
    words: str = ""
    """Their own words after it."""


def prompt_call(text: str) -> PromptCall | None:
    """The call that a prompt begins with; None where it begins with none."""
    found = _CALL.match(text)
    if found is None:
        return None
    arguments: dict[str, str] = {}
    end = found.end()
    while (argument := _ARGUMENT.match(text, end)) is not None:
        double = argument["double"]
        value = _ESCAPED.sub(r"\1", double) if double is not None else argument["single"] or argument["plain"] or ""
        arguments[argument["name"]] = value
        end = argument.end()
    return PromptCall(found["server"], found["name"], arguments, text[end:].strip())


async def fetch(
    call: PromptCall, connection: Requests, offerings: Offerings, *, sees_images: bool
) -> list[TextPart | ImagePart]:
    """The messages of the prompt, as the server writes them for these arguments.

    Raises:
        ConfigError: there is no such prompt, or its arguments are not right; says what there is.
        ServerError: the server did not answer.
    """
    _check(call, await offerings.prompts())
    result = await connection.request(
        lambda client: client.get_prompt(call.name, call.arguments or None), timeout=PROMPT_TIMEOUT
    )
    source = Named(call.server, call.name, kind="prompt")
    messages = result.messages[:MESSAGES]
    several = any(message.role != "user" for message in messages)
    parts: list[TextPart | ImagePart] = []
    for message in messages:
        if several:
            parts.append(TextPart(text="User:" if message.role == "user" else "Assistant:"))
        parts += prompt_parts(message.content, source, sees_images=sees_images)
    if not parts:
        raise ConfigError(f"The prompt /{call.server}:{call.name} is empty. Nothing was sent.")
    return [*parts, *([TextPart(text=call.words)] if call.words else ())]


def _check(call: PromptCall, prompts: Sequence[OfferedPrompt]) -> None:
    prompt = next((one for one in prompts if one.name == call.name), None)
    if prompt is None:
        names = [one.name for one in prompts]
        near = difflib.get_close_matches(call.name, names, 5) or names[:10]
        has = f"It has: {', '.join(near)}." if near else "It has none."
        raise ConfigError(f"The MCP server {call.server} has no prompt {call.name!r}. {has} Nothing was sent.")
    known = [argument.name for argument in prompt.arguments]
    usage = " ".join(f"{one.name}=…" if one.required else f"[{one.name}=…]" for one in prompt.arguments)
    usage = f"/{call.server}:{call.name} {usage}".strip()
    unknown = [name for name in call.arguments if name not in known]
    missing = [one.name for one in prompt.arguments if one.required and not call.arguments.get(one.name)]
    if unknown:
        raise ConfigError(f"The prompt has no argument {', '.join(unknown)}. Write: {usage}. Nothing was sent.")
    if missing:
        raise ConfigError(f"The prompt needs {', '.join(missing)}. Write: {usage}. Nothing was sent.")
