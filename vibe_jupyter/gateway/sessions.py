"""Stored rounds of sessions that their client can't know: answers with calls of the gateway's tools, and their results.

They are stored with a hash of the messages that the client had sent before them. When it sends these again, followed by
the answer it received, the rounds replace that answer. If it has changed them, nothing is inserted.
"""

import asyncio
import hashlib
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from vibe_jupyter.gateway.approvals import SessionGrants
from vibe_jupyter.gateway.chat_request import Object, message_text
from vibe_jupyter.gateway.store import Store

KEPT: Final = 24 * 3600.0  # seconds to keep a session after its latest answer, and each answer's rounds
ROUNDS_LIMIT: Final = 1_000  # answers with rounds in an imported session
MESSAGES_LIMIT: Final = 1_000  # messages in the rounds of one answer
NESTING_LIMIT: Final = 64  # levels of lists and objects in a message

_SESSIONS: Final = "sessions"
_ROUNDS: Final = "rounds"


class SessionMessage(BaseModel):
    """Message of a tool round: an answer, a result, or a result's images."""

    model_config = ConfigDict(frozen=True, extra="allow")

    role: Literal["assistant", "tool", "user"]

    @model_validator(mode="before")
    @classmethod
    def _is_flat(cls, value: object) -> object:
        """Reject values nested so deeply that they can be parsed but not serialized again."""
        level = [value]
        for _ in range(NESTING_LIMIT):
            level = [one for container in level for one in _inside(container)]
            if not level:
                return value
        raise ValueError(f"nested more than {NESTING_LIMIT} levels deep")


class SessionRounds(BaseModel):
    """Tool rounds of one answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]  # hash of the client's messages before it
    messages: Annotated[tuple[SessionMessage, ...], Field(min_length=1, max_length=MESSAGES_LIMIT)]


class SerializedSession(BaseModel):
    """Exported session: its messages and tool rounds, without permissions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    object: Literal["session"] = "session"
    id: str = ""  # ignored by an import, which uses the ID in its path
    created_at: Annotated[int, Field(ge=0)]  # Unix seconds
    rounds: Annotated[tuple[SessionRounds, ...], Field(max_length=ROUNDS_LIMIT)] = ()


class KeptSessions:
    """Sessions of one token."""

    def __init__(self, store: Store, owner: str, grants: SessionGrants) -> None:
        self._store = store
        self._owner = owner
        self._grants = grants

    async def join(self, session_id: str, messages: Sequence[JsonValue]) -> Sequence[JsonValue]:
        """Insert the rounds that the client doesn't see. Returns the same object if there are none."""
        if not await self._store.keys(_ROUNDS, self._key(session_id)):
            return messages
        joined: list[JsonValue] = []
        for mark, message in _marked(messages):
            rounds = await self._rounds(session_id, mark) if _role(message) == "assistant" else []
            joined += rounds if rounds and _ends_alike(message, rounds) else [message]
        return messages if len(joined) == len(messages) else joined

    async def note(self, session_id: str, messages: Sequence[JsonValue], rounds: Sequence[JsonValue]) -> None:
        """Record an answer to the client's messages, and its rounds if the client doesn't see all of them."""
        made = json.dumps({"created_at": int(time.time())}).encode()
        made = await self._store.get(_SESSIONS, self._key(session_id)) or made
        await self._store.put(_SESSIONS, self._key(session_id), made, seconds=KEPT)
        if rounds:
            key = self._rounds_key(session_id, await asyncio.to_thread(_mark, messages))
            await self._store.put(_ROUNDS, key, json.dumps(list(rounds)).encode(), seconds=KEPT)

    async def export(self, session_id: str) -> SerializedSession | None:
        """Return a session, or None if there is none with that ID."""
        made = await self._store.get(_SESSIONS, self._key(session_id))
        if made is None:
            return None
        marks = [key.rpartition(":")[2] for key in await self._store.keys(_ROUNDS, self._key(session_id))]
        rounds = [{"after": mark, "messages": await self._rounds(session_id, mark)} for mark in marks]
        kept = [one for one in rounds if one["messages"]]
        return SerializedSession.model_validate({"id": session_id, "rounds": kept, **json.loads(made)})

    async def replace(self, session_id: str, session: SerializedSession) -> None:
        """Store a session in place of any with that ID, whose grants are revoked."""
        await self.delete(session_id)
        for one in session.rounds:
            value = json.dumps([message.model_dump() for message in one.messages]).encode()
            await self._store.put(_ROUNDS, self._rounds_key(session_id, one.after), value, seconds=KEPT)
        made = json.dumps({"created_at": session.created_at}).encode()
        await self._store.put(_SESSIONS, self._key(session_id), made, seconds=KEPT)

    async def delete(self, session_id: str) -> None:
        """Delete a session and its grants."""
        await self._grants.forget(session_id)
        await self._store.take(_SESSIONS, self._key(session_id))
        for key in await self._store.keys(_ROUNDS, self._key(session_id)):
            await self._store.take(_ROUNDS, key)

    async def _rounds(self, session_id: str, mark: str) -> list[Object]:
        kept = await self._store.get(_ROUNDS, self._rounds_key(session_id, mark))
        return [] if kept is None else cast("list[Object]", json.loads(kept))

    def _key(self, session_id: str) -> str:
        return f"{self._owner}:{session_id}"

    def _rounds_key(self, session_id: str, mark: str) -> str:
        """Key prefixed with the session ID, which never contains a colon."""
        return f"{self._key(session_id)}:{mark}"


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _marked(messages: Sequence[JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Yield each message with a hash of those before it."""
    before = hashlib.sha256()
    for message in messages:
        yield before.hexdigest(), message
        before.update(json.dumps(message, sort_keys=True).encode() + b"\n")


def _mark(messages: Sequence[JsonValue]) -> str:
    """Return the hash of all messages."""
    *_, (mark, _) = _marked([*messages, None])
    return mark


def _role(message: JsonValue) -> JsonValue:
    return message.get("role") if isinstance(message, Mapping) else None


def _ends_alike(message: JsonValue, rounds: Sequence[Object]) -> bool:
    """Return whether the message is still the answer that the client received.

    The client may have the text of the last round only, or of all rounds concatenated.
    """
    texts = [message_text(one.get("content")) for one in rounds if one.get("role") == "assistant"]
    said = message_text(cast("Object", message).get("content")).strip()
    return said.endswith(texts[-1].strip() if texts else "")
