"""What the vendors' own clients say against a request: `python vendor_types.py`, in their environment.

A line of input is a JSON list of a dialect and the body of a request, a line of output the list of what is wrong; for
null in place of a body the names of the fields that a request has.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args, get_type_hints

from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest as Conversation
from mistral_common.protocol.instruct.validator import ValidationMode, get_validator
from mistral_common.tokens.tokenizers.base import TokenizerVersion
from mistralai.client.models import ChatCompletionRequest, ChatCompletionStreamRequest
from ollama import Image, Message
from ollama._types import ChatRequest
from openai.types.chat.completion_create_params import CompletionCreateParams
from pydantic import TypeAdapter, ValidationError

OPENAI = TypeAdapter[Any](CompletionCreateParams)
OLDER, NEWEST = (get_validator(one, ValidationMode.serving) for one in (TokenizerVersion.v7, TokenizerVersion.v15))
"""The rules of Mistral's models: up to v11 ids of calls have nine letters and digits, from v15 on models think."""
OF_THE_WIRE = frozenset({"stream", "stream_options", "prompt_cache_key"})
"""What Mistral's API reads itself, before the conversation reaches the rules of a model."""


def of_openai(body: dict[str, Any]) -> None:
    """The types that `openai` declares for a request."""
    _read(OPENAI.validate_python(body))


def of_mistral(body: dict[str, Any]) -> None:
    """The types of `mistralai`, then what `mistral-common` demands of a conversation that it makes a prompt of."""
    kind = ChatCompletionStreamRequest if body["stream"] else ChatCompletionRequest
    kind.model_validate(body)
    OLDER.validate_request(Conversation.model_validate(_conversation(body, thinks=False)))
    NEWEST.validate_request(Conversation.model_validate(_conversation(body, thinks=True)))


def of_ollama(body: dict[str, Any]) -> None:
    """The types of `ollama`, with no field beside them."""
    ChatRequest.model_validate(body, extra="forbid")
    for message in body["messages"]:
        images = [Image(value=image) for image in message.get("images", ())]
        Message.model_validate({**message, "images": images or None}, extra="forbid")


CHECKS: Mapping[str, Callable[[dict[str, Any]], None]] = {
    "openai": of_openai,
    "mistralrs": of_openai,
    "mistral": of_mistral,
    "ollama": of_ollama,
}


def fields_of_openai() -> set[str]:
    """Names of all fields of a request in the types of `openai`."""
    return {name for kind in get_args(CompletionCreateParams) for name in get_type_hints(kind)}


def fields_of_mistral() -> set[str]:
    """Names of all fields of a request in the types of `mistralai`, as they are sent."""
    fields = ChatCompletionStreamRequest.model_fields
    return {field.alias or name for name, field in fields.items()}


FIELDS: Mapping[str, Callable[[], set[str]]] = {"openai": fields_of_openai, "mistral": fields_of_mistral}


def _conversation(body: dict[str, Any], *, thinks: bool) -> dict[str, Any]:
    """A request as mistral-common takes it: without what is the API's, a thought as plain text."""
    left_out = OF_THE_WIRE if thinks else OF_THE_WIRE | {"reasoning_effort"}
    messages = [{**message, "content": _content(message.get("content"), thinks=thinks)} for message in body["messages"]]
    return {**{key: value for key, value in body.items() if key not in left_out}, "messages": messages}


def _content(content: Any, *, thinks: bool) -> Any:
    if not isinstance(content, list):
        return content
    parts = [part for part in content if thinks or part["type"] != "thinking"]
    return [
        {"type": "thinking", "thinking": "".join(one["text"] for one in part["thinking"])}
        if part["type"] == "thinking"
        else part
        for part in parts
    ] or None


def _read(value: Any) -> None:
    """Walk through everything: pydantic looks at the entries of an Iterable only when they are read."""
    if isinstance(value, Mapping):
        for inner in value.values():
            _read(inner)
    elif not isinstance(value, str | bytes) and hasattr(value, "__iter__"):
        for inner in value:
            _read(inner)


def _wrong(dialect: str, body: dict[str, Any]) -> Iterator[str]:
    try:
        CHECKS[dialect](body)
    except ValidationError as problem:
        yield from (f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in problem.errors())
    except MistralCommonException as problem:
        yield f"{type(problem).__name__}: {problem}"


def main() -> None:
    """Judge until the input ends."""
    for line in sys.stdin:
        dialect, body = json.loads(line)
        print(json.dumps(sorted(FIELDS[dialect]()) if body is None else list(_wrong(dialect, body))), flush=True)


if __name__ == "__main__":
    main()
