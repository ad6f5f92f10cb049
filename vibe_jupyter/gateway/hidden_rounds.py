"""What a client cannot know of its own conversation: answers with calls of ours, and their results.

It is kept under the ids of the client's calls that were returned with it. When the client comes back with their
results, it is put where it belongs, once, and calls and results have the ids of the model server again.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pydantic import JsonValue

from vibe_jupyter.gateway.rounds import Object
from vibe_jupyter.gateway.store import Store
from vibe_jupyter.llm.json_text import repair_surrogates

KIND: Final = "mixed-calls"
KEPT: Final = 24 * 3600.0
"""Seconds that a client has to come back with its results."""


class _Hidden(NamedTuple):
    messages: list[Object]
    ids: Mapping[str, str]
    """Of the client's calls, to those of the model server."""


async def keep_hidden(store: Store, owner: str, hidden: Sequence[JsonValue], ids: Mapping[str, str]) -> None:
    """Keep the messages that a client does not see, for when it answers its own calls.

    Args:
        store: where.
        owner: mark of the token.
        hidden: the messages.
        ids: of the client's calls, to those of the model server.
    """
    value = json.dumps({"messages": list(hidden), "ids": dict(ids)}).encode()
    for own in ids:
        await store.put(KIND, f"{owner}:{own}", value, seconds=KEPT)


async def join_hidden(store: Store, owner: str, messages: Sequence[JsonValue]) -> Sequence[JsonValue]:
    """The client's messages with those in their places; the very same where there are none."""
    joined: list[JsonValue] = []
    found = False
    waiting: list[Object] = []
    """Results of ours that belong to the latest answer, in the order of its calls with those of the client."""
    order: list[str] = []
    ids: dict[str, str] = {}
    for message in messages:
        if waiting and not _is_result(message):
            joined += _in_order(waiting, order)
            waiting, order = [], []
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
        answers = [place for place, one in enumerate(hidden.messages) if one.get("role") == "assistant"]
        latest = answers[-1]
        joined += hidden.messages[: latest + 1]
        waiting = list(hidden.messages[latest + 1 :])
        order = _call_ids(hidden.messages[latest])
        if not waiting:
            order = []
    joined += _in_order(waiting, order)
    return joined if found else messages


async def _hidden_of(store: Store, owner: str, message: JsonValue) -> _Hidden | None:
    if not isinstance(message, dict) or message.get("role") != "assistant":
        return None
    ids = _call_ids(message)
    kept = await store.get(KIND, f"{owner}:{repair_surrogates(ids[0])}") if ids else None
    return None if kept is None else _Hidden(**json.loads(kept))


def _call_ids(message: Object) -> list[str]:
    calls = message.get("tool_calls")
    return [str(call.get("id")) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _is_result(message: JsonValue) -> bool:
    return isinstance(message, dict) and message.get("role") == "tool"


def _in_order(results: Sequence[Object], order: Sequence[str]) -> list[Object]:
    """Results as their calls stand; what belongs to none stays last, such as pictures of results."""
    places = {call_id: place for place, call_id in enumerate(order)}
    return sorted(results, key=lambda one: places.get(str(one.get("tool_call_id")), len(places)))
