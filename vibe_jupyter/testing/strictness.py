"""Strict model servers, which reject unknown fields or missing data, each with its own error messages.

The tables contain every field of the vendors' request types, which a test checks against `openai` and `mistralai`.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Final, Literal

from vibe_jupyter.testing.requests import Object, find_history_faults, find_mistral_faults, json_object, json_objects
from vibe_jupyter.testing.wire import ScriptedAnswer, Status

Strictness = Literal["mistral-fields", "openai-fields", "one-system-message", "deepseek-thoughts", "gemini-signatures"]
"""Kind of a strict server.

- ``mistral-fields``: accepts only fields, ids and role orders of Mistral's API (422).
- ``openai-fields``: accepts only fields of OpenAI's API (400).
- ``one-system-message``: has a chat template that requires the only system message to be the first message (400).
- ``deepseek-thoughts``: reasons before each answer, and requires `reasoning_content` in every answer sent back (400).
- ``gemini-signatures``: signs the first call of each answer, and requires the signature with every call since the
  latest user message; accepts only OpenAI's fields and its own ``extra_content`` (400).
"""

# Fields of an object, each with the shape of the objects in it, or None if anything is accepted in it
Shape = Mapping[str, "Shape | None"]


def _any(*names: str) -> dict[str, "Shape | None"]:
    return dict.fromkeys(names)


_FUNCTION: Final[Shape] = _any("name", "description", "parameters", "strict")
_CALLED: Final[Shape] = _any("name", "arguments")
_FORMAT: Final[Shape] = {"type": None, "json_schema": _any("name", "description", "schema", "strict")}

OPENAI_FIELDS: Final[Shape] = {
    **_any(
        "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs", "messages", "metadata"
    ),
    **_any("max_completion_tokens", "max_tokens", "modalities", "model", "moderation", "n", "parallel_tool_calls"),
    **_any("prediction", "presence_penalty", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
    **_any("reasoning_effort", "safety_identifier", "seed", "service_tier", "stop", "store", "stream", "temperature"),
    **_any("tool_choice", "top_logprobs", "top_p", "user", "verbosity", "web_search_options"),
    "response_format": _FORMAT,
    "stream_options": _any("include_usage", "include_obfuscation"),
    "tools": {"type": None, "function": _FUNCTION, "custom": None},
}
OPENAI_MESSAGES: Final[Mapping[str, Shape]] = {
    "system": _any("role", "content", "name"),
    "developer": _any("role", "content", "name"),
    "user": _any("role", "content", "name"),
    "assistant": {
        **_any("role", "content", "name", "audio", "refusal", "function_call"),
        "tool_calls": {"id": None, "type": None, "function": _CALLED, "custom": None},
    },
    "tool": _any("role", "content", "tool_call_id", "name"),  # `name` isn't in the types, but it is accepted
    "function": _any("role", "content", "name"),
}
MISTRAL_FIELDS: Final[Shape] = {
    **_any("frequency_penalty", "guardrails", "logprobs", "max_tokens", "messages", "metadata", "min_tokens", "model"),
    **_any("n", "parallel_tool_calls", "prediction", "presence_penalty", "prompt_cache_key", "prompt_logprobs"),
    **_any("prompt_mode", "random_seed", "reasoning_effort", "repetition_penalty", "safe_prompt", "service_tier"),
    **_any("stop", "stream", "temperature", "tool_choice", "top_k", "top_logprobs", "top_p", "top_prompt_logprobs"),
    "response_format": _FORMAT,
    "tools": {"type": None, "function": _FUNCTION},
}
MISTRAL_MESSAGES: Final[Mapping[str, Shape]] = {
    "system": _any("role", "content"),
    "user": _any("role", "content"),
    "assistant": {
        **_any("role", "content", "prefix"),
        "tool_calls": {"id": None, "type": None, "index": None, "function": _CALLED},
    },
    "tool": _any("role", "content", "tool_call_id", "name"),
}
GEMINI_MESSAGES: Final[Mapping[str, Shape]] = {
    **OPENAI_MESSAGES,
    "assistant": {
        **OPENAI_MESSAGES["assistant"],
        "extra_content": None,
        "tool_calls": {"id": None, "type": None, "function": _CALLED, "extra_content": None},
    },
}
THOUGHTS: Final = "reasoning_content"
SKIP_SIGNATURE: Final = "skip_thought_signature_validator"  # documented by Google for calls of other models
LONGEST_USER: Final = 64  # characters
_WITH_TOOLS: Final = ("tool_choice", "parallel_tool_calls")
_SYSTEM: Final = frozenset({"system", "developer"})


def find_refusal(body: Object, strictness: Strictness, signatures: Collection[str] = ()) -> Status | None:
    """Return the rejection of a request, or None if the server accepts it.

    Args:
        body: body of the request.
        strictness: kind of the server.
        signatures: signatures that the server has issued.
    """
    match strictness:
        case "deepseek-thoughts":
            return _deepseek_refusal(body)
        case "gemini-signatures":
            return _gemini_refusal(body, signatures)
        case "mistral-fields":
            return _mistral_refusal(body)
        case "openai-fields":
            return _openai_refusal(body)
        case "one-system-message":
            return _template_refusal(body)


def with_thoughts(answer: ScriptedAnswer, strictness: Strictness | None, number: int) -> ScriptedAnswer:
    """Return an answer with the reasoning or signature that such a server adds to it.

    Args:
        answer: the scripted answer, whose own values take precedence.
        strictness: kind of the server.
        number: number of the request.
    """
    if strictness == "deepseek-thoughts" and not answer.reasoning:
        return replace(answer, reasoning=f"These are the thoughts of answer {number}.")
    if strictness == "gemini-signatures" and answer.calls and not answer.calls[0].beside:
        first, *others = answer.calls
        seal = hashlib.sha256(f"{number} {first}".encode()).hexdigest()
        return replace(answer, calls=(replace(first, beside=_signed(seal)), *others))
    return answer


def signatures_of(answer: ScriptedAnswer) -> Iterator[str]:
    """Yield the signatures of an answer's calls."""
    yield from (seal for call in answer.calls if (seal := _signature({**call.beside})))


def _signed(signature: str) -> Object:
    return {"extra_content": {"google": {"thought_signature": signature}}}


def _signature(call: Object) -> str:
    google = json_object(json_object(call.get("extra_content")).get("google"))
    return str(google.get("thought_signature") or "")


def _deepseek_refusal(body: Object) -> Status | None:
    for message in json_objects(body.get("messages")):
        if message.get("role") == "assistant" and not message.get(THOUGHTS):
            words = f"The `{THOUGHTS}` in the thinking mode must be passed back to the API."
            error = {"message": words, "type": "invalid_request_error", "param": None, "code": "invalid_request_error"}
            return _status(400, {"error": error})
    return None


def _gemini_refusal(body: Object, signatures: Collection[str]) -> Status | None:
    for *place, name in _unknown(body, OPENAI_FIELDS, GEMINI_MESSAGES):
        words = (
            f"Invalid JSON payload received. Unknown name \"{name}\" at '{_dotted(tuple(place))}': Cannot find field."
        )
        return _gemini_status(words)
    messages = json_objects(body.get("messages"))
    asked = max((place for place, one in enumerate(messages) if one.get("role") == "user"), default=0)
    for place, message in enumerate(messages):
        calls = json_objects(message.get("tool_calls"))
        for call in calls:
            if (seal := _signature(call)) and seal not in signatures and seal != SKIP_SIGNATURE:
                return _gemini_status("Corrupted thought signature.")
        if calls and place > asked and not _signature(calls[0]):
            name = json_object(calls[0].get("function")).get("name")
            return _gemini_status(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to "
                "work correctly, and missing thought_signature may lead to degraded model performance. Additional "
                f"data, function call `default_api:{name}` , position {place + 1}."
            )
    return None


def _gemini_status(words: str) -> Status:
    return Status(400, json.dumps([{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}]))


def _mistral_refusal(body: Object) -> Status | None:
    messages = json_objects(body.get("messages"))
    extra = list(_unknown(body, MISTRAL_FIELDS, MISTRAL_MESSAGES))
    if extra:
        detail = [
            {"type": "extra_forbidden", "loc": ["body", *place], "msg": "Extra inputs are not permitted"}
            for place in extra
        ]
        return _status(422, {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error"})
    ends_open = bool(messages) and messages[-1].get("prefix") is True
    faults = [*find_mistral_faults(body, messages), *find_history_faults(messages[:-1] if ends_open else messages)]
    if faults:
        return _status(400, {"object": "error", "message": "; ".join(faults), "type": "invalid_request_message_order"})
    return None


def _openai_refusal(body: Object) -> Status | None:
    messages = json_objects(body.get("messages"))
    for place in _unknown(body, OPENAI_FIELDS, OPENAI_MESSAGES):
        return _openai_status(f"Unknown parameter: '{_dotted(place)}'.", _dotted(place))
    user = body.get("user")
    if isinstance(user, str) and len(user) > LONGEST_USER:
        words = f"Invalid 'user': string too long. Expected at most {LONGEST_USER} characters, but got {len(user)}."
        return _openai_status(words, "user")
    for name in _WITH_TOOLS:
        if name in body and not body.get("tools"):
            return _openai_status(f"'{name}' is only allowed when 'tools' are specified.", name)
    plain = [{**one, "role": "user"} if one.get("role") in _SYSTEM else one for one in messages]
    ends_open = bool(plain) and plain[-1].get("role") == "assistant"
    if faults := list(find_history_faults(plain[:-1] if ends_open else plain)):
        return _openai_status("; ".join(faults), "messages")
    return None


def _template_refusal(body: Object) -> Status | None:
    for number, message in enumerate(json_objects(body.get("messages"))):
        role = message.get("role")
        if role == "system" and number:
            return _template_status("System message must be at the beginning.")
        if role not in ("system", "user", "assistant", "tool"):
            return _template_status("Unexpected message role.")
    return None


def _unknown(body: Object, fields: Shape, roles: Mapping[str, Shape]) -> Iterator[tuple[str | int, ...]]:
    """Yield the locations of fields that are not in the tables."""
    yield from _unknown_in(body, fields, ())
    for number, message in enumerate(json_objects(body.get("messages"))):
        role = str(message.get("role"))
        if role not in roles:
            yield ("messages", number, "role")
        else:
            yield from _unknown_in(message, roles[role], ("messages", number))


def _unknown_in(value: Object, shape: Shape, place: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    for name, inner in value.items():
        if name not in shape:
            yield (*place, name)
        elif (wanted := shape[name]) is not None:
            for number, one in enumerate(json_objects(inner)):
                yield from _unknown_in(one, wanted, (*place, name, number))
            yield from _unknown_in(json_object(inner), wanted, (*place, name))


def _dotted(place: tuple[str | int, ...]) -> str:
    text = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in place)
    return text.removeprefix(".")


def _openai_status(words: str, param: str) -> Status:
    error = {"message": words, "type": "invalid_request_error", "param": param, "code": "unknown_parameter"}
    return _status(400, {"error": error})


def _template_status(words: str) -> Status:
    return _status(400, {"object": "error", "message": words, "type": "BadRequestError", "code": 400})


def _status(status: int, body: Object) -> Status:
    return Status(status, body, {"x-should-retry": "false"})
