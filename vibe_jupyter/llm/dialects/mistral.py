"""Mistral's API: Chat Completions with rules of its own (docs/models.md)."""

import hashlib
import string

from pydantic import JsonValue

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm.dialects.openai import OpenAIDialect, reasoning_text
from vibe_jupyter.llm.request import HeadTerms, Model, ModelRequestTerms
from vibe_jupyter.protocol import AssistantMessage, ReasoningPart

_ID = lazy_pattern(r"[A-Za-z0-9]{9}")
_LETTERS = string.digits + string.ascii_letters
_THINKS = frozenset({"medium", "high", "max"})
_KNOW_CACHE_KEY = ("api.mistral.ai",)
THINKING_TEMPERATURE = 1.0
"""The only one at which these models think well."""


class MistralDialect(OpenAIDialect):
    """See `vibe_jupyter.llm.request.Dialect`."""

    alternates = True

    def options(self, request: ModelRequestTerms, terms: HeadTerms) -> dict[str, JsonValue]:
        """Counts come without being asked for; calls in pieces do not."""
        options: dict[str, JsonValue] = {}
        if request.stream:
            options["stream_options"] = {"stream_tool_calls": True}
        if request.model.thinking is not None:
            options["reasoning_effort"] = "high" if request.model.thinking in _THINKS else "none"
        if request.model.thinking in _THINKS:
            options["temperature"] = THINKING_TEMPERATURE
        if request.model.server.host in _KNOW_CACHE_KEY and terms.session:
            options["prompt_cache_key"] = terms.session
        return options

    def tool_choice(self, choice: str) -> JsonValue:
        """Mistral says "any" for what others call "required"."""
        return "any" if choice == "required" else super().tool_choice(choice)

    def assistant(self, message: AssistantMessage, model: Model) -> dict[str, JsonValue]:
        """What the model thought comes first, as a part; never beside an empty text, which would spoil the cache."""
        encoded = super().assistant(message, model)
        if model.thinking in _THINKS and (reasoning := reasoning_text(message)):
            thought: dict[str, JsonValue] = {"type": "thinking", "thinking": [{"type": "text", "text": reasoning}]}
            if seal := next((part.signature for part in message.parts if isinstance(part, ReasoningPart)), None):
                thought["signature"] = seal
            content: list[JsonValue] = [thought]
            if message.text:
                content.append({"type": "text", "text": message.text})
            encoded["content"] = content
        return encoded

    def call_id(self, call_id: str) -> str:
        """Nine letters and digits; any other id is replaced by one that is made of it."""
        if _ID.fullmatch(call_id):
            return call_id
        number = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "replace")).digest())
        letters: list[str] = []
        for _ in range(9):
            number, place = divmod(number, len(_LETTERS))
            letters.append(_LETTERS[place])
        return "".join(letters)
