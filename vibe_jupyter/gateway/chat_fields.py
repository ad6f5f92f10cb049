"""Request fields of Chat Completions that each kind of model server accepts.

A request translated from Responses or Messages is reduced to these, since strict servers reject any other field with
400 or 422. Tests compare the tables with the vendors' request types (tests/gateway/test_fields.py).
"""

from collections.abc import Mapping
from typing import Final

from vibe_jupyter.llm.request import DialectName

_COMMON: Final = frozenset(
    {
        "frequency_penalty",
        "logprobs",
        "max_tokens",
        "messages",
        "model",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "prediction",
        "reasoning_effort",
        "response_format",
        "stop",
        "stream",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
        "top_p",
    }
)
_OPENAI: Final = _COMMON | {
    "audio",
    "logit_bias",
    "max_completion_tokens",
    "modalities",
    "seed",
    "stream_options",
    "user",
    "verbosity",
    "web_search_options",
}
_MISTRAL: Final = _COMMON | {"guardrails", "min_tokens", "prompt_mode", "random_seed", "safe_prompt", "top_k"}
_MISTRALRS: Final = (_OPENAI - {"audio", "modalities", "prediction", "user", "verbosity"}) | {
    "grammar",
    "min_p",
    "repetition_penalty",
    "top_k",
}

FIELDS: Final[Mapping[DialectName, frozenset[str]]] = {
    "openai": _OPENAI,
    "ollama": _OPENAI,  # by its Chat Completions endpoint, which follows OpenAI's
    "mistral": _MISTRAL,
    "mistralrs": _MISTRALRS,
}
WITH_TOOLS: Final = frozenset({"tool_choice", "parallel_tool_calls"})  # fields that servers reject without `tools`
LONGEST_USER: Final = 64  # characters; OpenAI's limit for `user`
