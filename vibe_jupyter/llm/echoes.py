"""Echoed fields: vendor fields of a message or call, sent back unchanged to the server and model they came from.

DeepSeek rejects a history without the reasoning of its answers, Gemini one without the signatures of its calls. Other
servers reject these very fields. So when a refusal names a field, the request is repeated once with or without it, and
what worked is used for that server for the rest of the run.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.lazy_patterns import lazy_pattern
from vibe_jupyter.llm import json_text
from vibe_jupyter.llm.failures import HttpRefusal
from vibe_jupyter.llm.request import IN_CONTENT, EchoTerms, Model
from vibe_jupyter.protocol import AssistantMessage, Message, ReasoningPart

Object = dict[str, JsonValue]

CONTENT_NAMES: Final = frozenset({"thinking", "signature"})  # names of reasoning content parts in refusals
# Fields of the dialects themselves, which an echo must not override.
_STANDARD: Final = frozenset({"role", "content", "tool_calls", "id", "type", "function", "name", "arguments", "index"})
_REFUSING: Final = frozenset({400, 422})
_MISSING: Final = lazy_pattern(
    r"missing|required|must (be|have|include|contain|provide)|pass(ed)? back|is expected|not (set|given|provided)",
    re.IGNORECASE,
)
# Members of an error in which servers repeat the request.
_REPEATS: Final = frozenset({"input", "ctx", "url", "body", "request"})
_LONGEST_REASON: Final = 8_000  # characters of a refusal to search
_COMPOUND: Final = lazy_pattern(r"[A-Za-z]+_\w+")
# A name that is also an ordinary word, such as `reasoning`, counts only if it is quoted or part of a path.
_MARKED: Final = lazy_pattern(r"""(?<=[`'".])[A-Za-z]\w*(?=[`'"\]:,])""")

# Placeholders for a field that a server requires in every answer, for answers of other models.
FILLERS: Final[Mapping[str, Object]] = {
    "reasoning_content": {"reasoning_content": " "},  # DeepSeek V4 rejects an empty string
    "reasoning": {"reasoning": " "},
    "reasoning_details": {"reasoning_details": []},
}
# Likewise, for the first call of an answer.
CALL_FILLERS: Final[Mapping[str, Object]] = {
    # the value documented by Google for calls that its model didn't make
    "thought_signature": {"extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}},
}


EchoedFields = tuple[Object, list[Object]]  # fields of an answer, and of each of its calls


class Echo(NamedTuple):
    """Echoed fields of one answer."""

    origin: str  # see `vibe_jupyter.protocol.AssistantMessage.origin`
    fields: Object  # beside the message, including its reasoning
    calls: tuple[Object, ...] = ()  # beside each call, in order


def echo_of(message: AssistantMessage, reasoning_field: str = "") -> Echo:
    """Return the fields of an answer under their original names.

    Args:
        message: The answer.
        reasoning_field: Name for its reasoning field, or '' for the original name.
    """
    texts = [part.text for part in message.parts if isinstance(part, ReasoningPart)]
    if not reasoning_field:
        reasoning_field, texts = message.reasoning_field, texts[:1]  # further reasoning was extracted from the text
    thoughts: Object = {reasoning_field: "".join(texts)} if texts and reasoning_field not in ("", IN_CONTENT) else {}
    beside = {name: value for name, value in message.beside.items() if name not in _STANDARD}
    return Echo(message.origin, {**thoughts, **beside}, tuple(call.beside for call in message.calls))


def may_think(message: AssistantMessage, model: Model) -> bool:
    """Return whether a model may receive the reasoning of an answer, that is, whether it is its own.

    Sessions of earlier versions don't record the origin. Their reasoning is sent if a setting or the dialect names the
    field.
    """
    return message.origin in ("", model.origin)


def echoed_message(message: AssistantMessage, model: Model, *, field: str = "") -> EchoedFields:
    """Return the fields to send with an answer and with each of its calls.

    Args:
        message: The answer.
        model: The model to send it to.
        field: The dialect's own reasoning field, or '' if it has none.
    """
    named = model.server.reasoning_field or (field if not message.reasoning_field else "")
    echo = echo_of(message, named)
    if message.origin != model.origin:
        own = {named: echo.fields[named]} if not message.origin and named in echo.fields else {}
        echo = Echo("", own, ({},) * len(echo.calls))
    if model.thinking == "off":
        thoughts = {message.reasoning_field, named} - model.echoes.wanted
        echo = echo._replace(fields={name: value for name, value in echo.fields.items() if name not in thoughts})
    return fitted(echo, model.echoes)


def fitted(echo: Echo, terms: EchoTerms) -> EchoedFields:
    """Adapt fields to a server's rules: drop those it refuses, and add placeholders for those it requires."""
    fields = {name: value for name, value in echo.fields.items() if not _holds(name, value, terms.refused)}
    calls = [{n: v for n, v in one.items() if not _holds(n, v, terms.refused)} for one in echo.calls]
    for name in terms.wanted & FILLERS.keys():
        fields = {**FILLERS[name], **fields}
    for name in terms.wanted & CALL_FILLERS.keys():
        if calls and not any(_holds(n, v, {name}) for one in calls for n, v in one.items()):
            calls[0] = joined(calls[0], CALL_FILLERS[name])
    return fields, calls


def joined(value: Mapping[str, JsonValue], fields: Mapping[str, JsonValue]) -> Object:
    """Merge further fields into a message or call. Existing values take precedence."""
    made: Object = dict(value)
    for name, new in fields.items():
        had = made.get(name)
        if isinstance(had, dict) and isinstance(new, dict):
            made[name] = joined(had, new)
        elif name not in made:
            made[name] = new
    return made


def _holds(name: str, value: JsonValue, names: Iterable[str]) -> bool:
    """Return whether a field has one of the names itself or contains a field that does."""
    found = set(names)
    return bool(found) and not found.isdisjoint({name, *_inner_names(value)})


def _inner_names(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield name
            yield from _inner_names(one)
    elif isinstance(value, list):
        for one in value:
            yield from _inner_names(one)


# ---- Refusals ----


def echoed_fields(messages: Iterable[Message], model: Model) -> list[EchoedFields]:
    """Return the echoed fields of each answer in a request, including reasoning sent as content parts."""
    found: list[EchoedFields] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            fields, calls = echoed_message(message, model)
            if message.reasoning_field == IN_CONTENT:
                fields = {**fields, **dict.fromkeys(CONTENT_NAMES)}
            found.append((fields, calls))
    return found


def terms_after(refusal: HttpRefusal, sent: Sequence[EchoedFields], terms: EchoTerms) -> EchoTerms:
    """Return the echo rules for a retry after a refusal. They are unchanged if it names no echoed field.

    Args:
        refusal: The response to the request.
        sent: The echoed fields of each answer in the request.
        terms: The rules used for the request.
    """
    if refusal.status not in _REFUSING or not sent:
        return terms
    words = _reason(refusal.body)
    is_missed = _MISSING.search(words) is not None
    fields = [one for beside, calls in sent for one in (beside, *calls)]
    went = {name for one in fields for item in one.items() for name in _names(*item)}
    known = went | FILLERS.keys() | CALL_FILLERS.keys() | terms.refused
    found = known.intersection(_COMPOUND.findall(words)) or known.intersection(_MARKED.findall(words))
    wanted, refused = terms.wanted, terms.refused
    for name in found:
        if name in refused or (_is_lacking(name, sent) and (is_missed or name not in went)):
            wanted, refused = wanted | {name}, refused - {name}
        elif name in went:
            wanted, refused = wanted - {name}, refused | {name}
    return EchoTerms(refused, wanted)


def _is_lacking(name: str, sent: Sequence[EchoedFields]) -> bool:
    """Return whether an answer was sent without a field for which there is a placeholder."""
    if name in CALL_FILLERS:
        return any(name not in _inner_names(list(calls)) for _, calls in sent if calls)
    return name in FILLERS and any(name not in beside for beside, _ in sent)


def _names(name: str, value: JsonValue) -> Iterator[str]:
    yield name
    yield from (one for one in _inner_names(value) if "_" in one or one == "signature")


def _reason(body: str) -> str:
    try:
        parsed = json_text.parse_json(body)
    except ValueError:
        return body[:_LONGEST_REASON]
    return " ".join(_texts(parsed))[:_LONGEST_REASON]


def _texts(value: JsonValue) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for one in value:
                yield from _texts(one)
        case dict():
            for name, one in value.items():
                if name not in _REPEATS:
                    yield from _texts(one)
        case _:
            pass
