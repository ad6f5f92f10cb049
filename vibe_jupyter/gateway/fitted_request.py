"""Adaptation of a translated request to its model server: its fields, and the order of its messages.

Clients of Responses and Messages send several system texts, some in the middle of the conversation, and vendor fields.
Such a request fails as a whole on servers that reject unknown fields or whose chat template requires a single system
message at the start.
"""

import hashlib
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

from pydantic import JsonValue

from vibe_jupyter.gateway.chat_fields import FIELDS, LONGEST_USER, WITH_TOOLS
from vibe_jupyter.gateway.chat_parts import call_ids
from vibe_jupyter.gateway.chat_request import Object, message_text
from vibe_jupyter.llm.dialects.mistral import MistralDialect
from vibe_jupyter.llm.dialects.openai import REASONING_FIELDS, OpenAIDialect
from vibe_jupyter.llm.dialects.wire_parts import call_arguments_text, wire_name
from vibe_jupyter.llm.request import DialectName, Server

# User text that replaces a system message in the middle
LATER_SYSTEM: Final = "[system message]\n{text}\n[end of system message]"
LOST_RESULT: Final = "(no result)"  # result of an interrupted call; servers reject a call without one
EMPTY_RESULT: Final = "(no output)"
# Answer between a result and a user message, for servers that require alternating roles
NO_ANSWER: Final = "(no answer)"
_MISTRAL: Final = MistralDialect()
_OTHERS: Final = OpenAIDialect()  # the gateway asks every other server for Chat Completions
_GAP: Final = "\n\n"
_SYSTEM: Final = frozenset({"system", "developer"})
_MERGED: Final = frozenset({"user", "assistant"})


def fit_request(
    body: Mapping[str, JsonValue],
    server: Server,
    *,
    fields: DialectName | None = None,
    rules: DialectName | None = None,
    without: Collection[str] = (),
) -> Object:
    """Return the request in the form that the server accepts.

    Args:
        body: a complete request in the form of Chat Completions.
        server: the recipient.
        fields: the API whose fields the server accepts; None for that of its dialect.
        rules: the API whose rules for roles and IDs it follows; None for that of its dialect.
        without: fields that it has rejected before.
    """
    taken = FIELDS[fields or server.dialect].difference(without)
    if not body.get("tools"):
        taken -= WITH_TOOLS
    fitted: Object = {name: value for name, value in body.items() if name in taken and value is not None}
    user = fitted.get("user")
    if isinstance(user, str) and len(user) > LONGEST_USER:
        fitted["user"] = hashlib.sha256(user.encode("utf-8", "replace")).hexdigest()
    messages = cast("list[Object]", [one for one in cast("list[JsonValue]", body["messages"]) if isinstance(one, dict)])
    fitted["messages"] = cast("list[JsonValue]", arrange(messages, server, rules))
    return fitted


def arrange(messages: Sequence[Object], server: Server, rules: DialectName | None = None) -> list[Object]:
    """Return the conversation in an order that the server accepts. See `fit_request`."""
    thoughts = frozenset({*REASONING_FIELDS, server.reasoning_field})
    arranged = _with_results(messages, thoughts)
    if not server.system_anywhere:
        arranged = _one_system(arranged)
    arranged = list(_merged(map(_plain, arranged), thoughts))
    dialect = _MISTRAL if (rules or server.dialect) == "mistral" else _OTHERS
    if dialect.alternates:
        arranged = list(_alternating(arranged))
    return [_sound_calls(message, dialect.call_id) for message in arranged]


def _with_results(messages: Sequence[Object], thoughts: Collection[str]) -> list[Object]:
    """Move the results of an answer's calls right behind it, each once and in the order of the calls.

    Results without a call, left over when a client truncates its history, become user messages.
    """
    ordered: list[Object] = []
    waiting: list[str] = []
    groups = [(is_answer, [*group]) for is_answer, group in itertools.groupby(messages, _is_answer)]
    for (is_answer, group), (_, behind) in itertools.pairwise([*groups, (False, list[Object]())]):
        if not is_answer:
            ordered += _results_first(waiting, group)
            waiting = []
            continue
        answered = {str(one.get("tool_call_id")) for one in behind if one.get("role") == "tool"}
        for message in group:
            if answered.intersection(waiting).difference(call_ids(message)):  # the items of one answer
                ordered[-1] = _joined_messages(ordered[-1], message, thoughts)
                waiting = call_ids(ordered[-1])
            else:
                ordered += [*_results_first(waiting, ()), message]
                waiting = call_ids(message)
    return [*ordered, *_results_first(waiting, ())]


def _is_answer(message: Object) -> bool:
    return message.get("role") == "assistant"


def _joined_messages(first: Object, second: Object, thoughts: Collection[str]) -> Object:
    """Merge two messages of the same role, including their reasoning and calls."""
    second = {name: value for name, value in second.items() if value is not None}
    joined = {**first, **second, "content": _joined(first.get("content"), second.get("content"))}
    for name in (first.keys() & second.keys()) - {"role", "content"}:
        had, more = first[name], second[name]
        if isinstance(had, list) and isinstance(more, list):
            joined[name] = [*had, *more]
        elif name in thoughts:
            joined[name] = _joined(had, more)
    return joined


def _results_first(waiting: Sequence[str], following: Sequence[Object]) -> list[Object]:
    """Return the messages after an answer with the results of its `waiting` calls moved to the front."""
    results = {str(one.get("tool_call_id")): one for one in following if one.get("role") == "tool"}
    found = [
        results.pop(call_id, None) or {"role": "tool", "tool_call_id": call_id, "content": LOST_RESULT}
        for call_id in waiting
    ]
    others = (
        one if one.get("role") != "tool" else results.pop(str(one.get("tool_call_id")), None) for one in following
    )
    return [*found, *(_orphan(one) if one.get("role") == "tool" else one for one in others if one is not None)]


def _orphan(result: Object) -> Object:
    return {"role": "user", "content": f"[result of an earlier tool call]\n{message_text(result.get('content'))}"}


def _one_system(messages: Sequence[Object]) -> list[Object]:
    """Merge the leading system messages into one, and turn later ones into marked user messages."""
    first = next((at for at, one in enumerate(messages) if one.get("role") not in _SYSTEM), len(messages))
    texts = [text for one in messages[:first] if (text := message_text(one.get("content")))]
    arranged: list[Object] = [{"role": "system", "content": _GAP.join(texts)}] if texts else []
    for message in messages[first:]:
        if message.get("role") in _SYSTEM:
            if text := message_text(message.get("content")):
                arranged.append({"role": "user", "content": LATER_SYSTEM.format(text=text)})
        else:
            arranged.append(message)
    return arranged


def _plain(message: Object) -> Object:
    """Convert content of text parts to a string, and replace an empty result with `EMPTY_RESULT`."""
    content = message.get("content")
    if isinstance(content, list) and all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        message = {**message, "content": message_text(content)}
    if message.get("role") == "tool" and not message.get("content"):
        message = {**message, "content": EMPTY_RESULT}
    return message


def _merged(messages: Iterable[Object], thoughts: Collection[str]) -> Iterator[Object]:
    """Merge neighbors of the same role, which many chat templates require, and drop empty answers."""
    latest: Object | None = None
    for message in messages:
        if message.get("role") == "assistant" and not (message.get("content") or message.get("tool_calls")):
            continue
        if latest is None:
            latest = message
        elif latest.get("role") == message.get("role") in _MERGED and not latest.get("tool_calls"):
            latest = _joined_messages(latest, message, thoughts)
        else:
            yield latest
            latest = message
    if latest is not None:
        yield latest


def _joined(first: JsonValue, second: JsonValue) -> JsonValue:
    if isinstance(first, list) or isinstance(second, list):
        return [*_parts(first), *_parts(second)]
    return _GAP.join(text for text in (first, second) if isinstance(text, str) and text)


def _parts(content: JsonValue) -> list[JsonValue]:
    if isinstance(content, list):
        return content
    return [{"type": "text", "text": content}] if content else []


def _alternating(messages: Sequence[Object]) -> Iterator[Object]:
    """Insert an answer between a result and a user message. A final answer is marked as a prefix to continue."""
    role: JsonValue = None
    for place, message in enumerate(messages):
        if (role, message.get("role")) == ("tool", "user"):
            yield {"role": "assistant", "content": NO_ANSWER}
        role = message.get("role")
        yield {**message, "prefix": True} if role == "assistant" and place == len(messages) - 1 else message


def _sound_calls(message: Object, call_id: Callable[[str], str]) -> Object:
    """Return the message with call IDs that the server accepts and arguments that are JSON objects."""
    if isinstance(given := message.get("tool_call_id"), str):
        return {**message, "tool_call_id": call_id(given)}
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return {**message, "tool_calls": [_sound_call(one, call_id) for one in calls if isinstance(one, dict)]}


def _sound_call(call: Object, call_id: Callable[[str], str]) -> Object:
    function = call.get("function")
    if not isinstance(function, dict):
        return call
    arguments = call_arguments_text(str(function.get("arguments") or ""))
    sound = {**function, "name": wire_name(str(function.get("name"))), "arguments": arguments}
    return {**call, "id": call_id(str(call.get("id"))), "function": sound}
