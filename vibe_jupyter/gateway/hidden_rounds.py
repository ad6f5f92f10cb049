"""Rounds of a conversation that its client can't know: answers with calls of the gateway's tools, and their results.

They are stored under the IDs of the client's calls returned in the same answer. When the client sends the results of
its calls, the rounds are inserted once where they belong, and calls and results get back the model server's IDs.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.gateway.chat_parts import call_ids
from vibe_jupyter.gateway.responses_items import MCP_ID
from vibe_jupyter.gateway.rounds import Object
from vibe_jupyter.gateway.store import Store
from vibe_jupyter.llm.json_text import repair_surrogates

KIND: Final = "mixed-calls"
KEPT: Final = 24 * 3600.0  # seconds for a client to send its results


class _Hidden(NamedTuple):
    messages: list[Object]
    ids: Mapping[str, str]  # maps IDs of the client's calls to the model server's


async def keep_hidden(store: Store, owner: str, hidden: Sequence[JsonValue], ids: Mapping[str, str]) -> None:
    """Store the messages hidden from a client until it answers its own calls.

    Args:
        store: the gateway's store.
        owner: prefix of the token's keys (`owner_mark`).
        hidden: the messages.
        ids: maps IDs of the client's calls to the model server's.
    """
    value = json.dumps({"messages": list(hidden), "ids": dict(ids)}).encode()
    for own in ids:
        await store.put(KIND, f"{owner}:{own}", value, seconds=KEPT)


async def join_hidden(store: Store, owner: str, messages: Sequence[JsonValue]) -> Sequence[JsonValue]:
    """Insert the hidden messages into a conversation. Returns the same object if there are none."""
    joined: list[JsonValue] = []
    found = False
    # Results of the gateway's calls in the latest answer, and of the client's as they follow
    waiting: list[Object] = []
    order: list[str] = []
    ids: dict[str, str] = {}
    begin = 0  # index in `joined` before which nothing belongs to the latest answer
    for message in messages:
        if waiting and not _is_result(message):
            joined += _in_order(waiting, order)
            waiting, order, begin = [], [], len(joined)
        if isinstance(message, dict) and isinstance(call_id := message.get("tool_call_id"), str):
            message = {**message, "tool_call_id": ids.get(call_id, call_id)}
        if waiting and isinstance(message, dict):
            waiting.append(message)
            continue
        hidden = await _hidden_of(store, owner, message)
        if hidden is None:
            joined.append(message)
            continue
        found = True
        ids.update(hidden.ids)
        _drop_resent(joined, begin, hidden.messages)
        answers = [place for place, one in enumerate(hidden.messages) if one.get("role") == "assistant"]
        latest = answers[-1]
        joined += hidden.messages[: latest + 1]
        waiting = list(hidden.messages[latest + 1 :])
        order = call_ids(hidden.messages[latest])
        if not waiting:
            order = []
    joined += _in_order(waiting, order)
    return joined if found else messages


async def _hidden_of(store: Store, owner: str, message: JsonValue) -> _Hidden | None:
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return None
    ids = call_ids(message)
    kept = await store.get(KIND, f"{owner}:{repair_surrogates(ids[0])}") if ids else None
    return None if kept is None else _Hidden(**json.loads(kept))


def _drop_resent(joined: list[JsonValue], begin: int, hidden: Sequence[Object]) -> None:
    """Remove the items of an answer that a Responses client sends back, since the hidden messages contain them.

    Calls are matched by ID and name, as some servers number the calls of each answer from 0. The scan runs backward and
    stops at an answer with another call, or at the result of one; everything before that stays.
    """
    ours = _answered_calls(hidden)
    results: set[str] = set()
    for place in range(len(joined) - 1, begin - 1, -1):
        message = joined[place]
        if not isinstance(message, dict):
            return
        if message.get("role") == "tool":
            results.add(str(message.get("tool_call_id")))
            continue
        calls = _named_calls(message)
        is_ours = all(call_id.startswith(MCP_ID) or (call_id, name) in ours for call_id, name in calls.items())
        if message.get("role") != "assistant" or not is_ours or not results <= calls.keys():
            return
        del joined[place:]
        results.clear()


def _answered_calls(hidden: Sequence[Object]) -> set[tuple[str, str]]:
    """Return ID and name of each call that has a result among the hidden messages."""
    answered: set[tuple[str, str]] = set()
    calls: Mapping[str, str] = {}
    for message in hidden:
        if message.get("role") == "assistant":
            calls = _named_calls(message)
        elif (call_id := str(message.get("tool_call_id"))) in calls:
            answered.add((call_id, calls[call_id]))
    return answered


def _named_calls(message: Object) -> dict[str, str]:
    """Map the IDs of a message's calls to their names."""
    calls = message.get("tool_calls")
    named: dict[str, str] = {}
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(function, dict):
            named[str(call.get("id"))] = str(function.get("name"))
    return named


def _is_result(message: JsonValue) -> bool:
    return isinstance(message, dict) and message.get("role") == "tool"


def _in_order(results: Sequence[Object], order: Sequence[str]) -> list[Object]:
    """Sort results in the order of their calls. Other messages, such as images of results, come last."""
    places = {call_id: place for place, call_id in enumerate(order)}
    return sorted(results, key=lambda one: places.get(str(one.get("tool_call_id")), len(places)))
