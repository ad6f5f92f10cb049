"""Fallback text for blocks and items that no Chat Completions server knows.

A conversation started at a vendor's own API contains calls and results of that vendor's tools. Rejecting them would end
the conversation, because the client sends them with every later request.
"""

from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from vibe_jupyter.gateway.chat_request import Object

LONGEST: Final = 2_000  # characters of a line
# Fields whose text is useful to a model, unlike IDs, signatures, and encrypted or encoded data.
_TELLING: Final = frozenset(
    {
        "arguments",
        "code",
        "command",
        "content",
        "error_code",
        "filename",
        "input",
        "message",
        "name",
        "output",
        "queries",
        "query",
        "source",
        "stderr",
        "stdout",
        "summary",
        "text",
        "title",
        "tool_name",
        "url",
    }
)
_DATA_URL: Final = "data:"


def history_line(block: Object) -> str:
    """Return a line with the type of a block and the text of its fields."""
    kind = str(block.get("type")).replace("_", " ")
    said = "; ".join(_texts({name: value for name, value in block.items() if name != "type"}, ""))
    return f"[{kind}: {said if len(said) <= LONGEST else said[: LONGEST - 1] + '…'}]" if said else f"[{kind}]"


def _texts(value: JsonValue, name: str) -> Iterator[str]:
    if isinstance(value, str):
        if name in _TELLING and value and not value.startswith(_DATA_URL):
            yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one, name)
    elif isinstance(value, dict):
        for inner, one in value.items():
            yield from _texts(one, inner)
