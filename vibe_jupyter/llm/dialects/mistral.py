"""Mistral's API: Chat Completions with some rules of its own (docs/models.md)."""

import hashlib
import string

from pydantic import JsonValue

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm.dialects.openai import OpenAIDialect
from vibe_jupyter.llm.request import IN_CONTENT, HeadTerms, Model, ModelRequestTerms
from vibe_jupyter.protocol import AssistantMessage

_ID = lazy_pattern(r"[A-Za-z0-9]{9}")
_LETTERS = string.digits + string.ascii_letters
_THINKS = frozenset({"medium", "high", "max"})
_THINKS_NOT = frozenset({"off", "low"})
_KNOW_CACHE_KEY = ("api.mistral.ai",)
THINKING_TEMPERATURE = 1.0  # the only temperature at which these models reason well


class MistralDialect(OpenAIDialect):
    """Mistral's variant of Chat Completions, see `vibe_jupyter.llm.request.Dialect`."""

    alternates = True

    def options(self, request: ModelRequestTerms, terms: HeadTerms) -> dict[str, JsonValue]:
        """Return the optional fields. Mistral reports usage unasked, but streams calls in pieces only on request."""
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
        """Translate "required" to Mistral's "any"."""
        return "any" if choice == "required" else super().tool_choice(choice)

    def thinks_in_content(self, message: AssistantMessage, model: Model) -> bool:
        """Return whether reasoning is sent as content parts. With thinking on, this includes reasoning that arrived in
        no field."""
        field = message.reasoning_field
        is_meant = field == IN_CONTENT or (model.thinking in _THINKS and not field)
        return is_meant and model.thinking not in _THINKS_NOT

    def call_id(self, call_id: str) -> str:
        """Return the id if it is nine alphanumeric characters, else a hash of it in that form."""
        if _ID.fullmatch(call_id):
            return call_id
        number = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "replace")).digest())
        letters: list[str] = []
        for _ in range(9):
            number, place = divmod(number, len(_LETTERS))
            letters.append(_LETTERS[place])
        return "".join(letters)
