"""What a client cannot know of a conversation that it calls by a session id: rounds with calls of ours.

They are kept with the mark of the messages that the client had sent before them. When it sends these again, with the
answer that it got, the rounds take the place of that answer; where it has changed them, nothing is put in.
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

KEPT: Final = 24 * 3600.0
"""Seconds that a session is kept after its latest answer; each of its rounds after its own."""
ROUNDS_LIMIT: Final = 1_000
"""Answers of one session whose rounds can be imported."""
MESSAGES_LIMIT: Final = 1_000
"""Messages of one of them."""
NESTING_LIMIT: Final = 64
"""Levels of lists and objects in a message."""

_SESSIONS: Final = "sessions"
_ROUNDS: Final = "rounds"


class SessionMessage(BaseModel):
    """A message of a round: an answer, a result, or the pictures of one."""

    model_config = ConfigDict(frozen=True, extra="allow")

    role: Literal["assistant", "tool", "user"]

    @model_validator(mode="before")
    @classmethod
    def _is_flat(cls, value: object) -> object:
        """What is nested without end could be read, and not written again."""
        level = [value]
        for _ in range(NESTING_LIMIT):
            level = [one for container in level for one in _inside(container)]
            if not level:
                return value
        raise ValueError(f"nested more than {NESTING_LIMIT} levels deep")


class SessionRounds(BaseModel):
    """Those of one answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    after: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """The mark of the client's messages before it."""
    messages: Annotated[tuple[SessionMessage, ...], Field(min_length=1, max_length=MESSAGES_LIMIT)]


class SerializedSession(BaseModel):
    """A session as it is exported and imported. It says what was said and done, and allows nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    object: Literal["session"] = "session"
    id: str = ""
    """Of an import the path's holds."""
    created_at: Annotated[int, Field(ge=0)]
    """Unix seconds."""
    rounds: Annotated[tuple[SessionRounds, ...], Field(max_length=ROUNDS_LIMIT)] = ()


class KeptSessions:
    """Those of one token."""

    def __init__(self, store: Store, owner: str, grants: SessionGrants) -> None:
        self._store = store
        self._owner = owner
        self._grants = grants

    async def join(self, session_id: str, messages: Sequence[JsonValue]) -> Sequence[JsonValue]:
        """The client's messages with the rounds that it does not see; the very same where there are none."""
        if not await self._store.keys(_ROUNDS, self._key(session_id)):
            return messages
        joined: list[JsonValue] = []
        for mark, message in _marked(messages):
            rounds = await self._rounds(session_id, mark) if _role(message) == "assistant" else []
            joined += rounds if rounds and _ends_alike(message, rounds) else [message]
        return messages if len(joined) == len(messages) else joined

    async def note(self, session_id: str, messages: Sequence[JsonValue], rounds: Sequence[JsonValue]) -> None:
        """Keep that there was an answer to the client's messages, and its rounds where it does not see them all."""
        made = json.dumps({"created_at": int(time.time())}).encode()
        made = await self._store.get(_SESSIONS, self._key(session_id)) or made
        await self._store.put(_SESSIONS, self._key(session_id), made, seconds=KEPT)
        if rounds:
            key = self._rounds_key(session_id, await asyncio.to_thread(_mark, messages))
            await self._store.put(_ROUNDS, key, json.dumps(list(rounds)).encode(), seconds=KEPT)

    async def export(self, session_id: str) -> SerializedSession | None:
        """A session; None where there is none of that id."""
        made = await self._store.get(_SESSIONS, self._key(session_id))
        if made is None:
            return None
        marks = [key.rpartition(":")[2] for key in await self._store.keys(_ROUNDS, self._key(session_id))]
        rounds = [{"after": mark, "messages": await self._rounds(session_id, mark)} for mark in marks]
        kept = [one for one in rounds if one["messages"]]
        return SerializedSession.model_validate({"id": session_id, "rounds": kept, **json.loads(made)})

    async def replace(self, session_id: str, session: SerializedSession) -> None:
        """Put a session in the place of whatever has that id. What was granted in that does not pass over."""
        await self.delete(session_id)
        for one in session.rounds:
            value = json.dumps([message.model_dump() for message in one.messages]).encode()
            await self._store.put(_ROUNDS, self._rounds_key(session_id, one.after), value, seconds=KEPT)
        made = json.dumps({"created_at": session.created_at}).encode()
        await self._store.put(_SESSIONS, self._key(session_id), made, seconds=KEPT)

    async def delete(self, session_id: str) -> None:
        """Forget a session, and what was granted in it."""
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
        """In the group of its session: session ids hold no colon."""
        return f"{self._key(session_id)}:{mark}"


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def _marked(messages: Sequence[JsonValue]) -> Iterator[tuple[str, JsonValue]]:
    """Each message, with the mark of those before it."""
    before = hashlib.sha256()
    for message in messages:
        yield before.hexdigest(), message
        before.update(json.dumps(message, sort_keys=True).encode() + b"\n")


def _mark(messages: Sequence[JsonValue]) -> str:
    """That of all of them."""
    *_, (mark, _) = _marked([*messages, None])
    return mark


def _role(message: JsonValue) -> JsonValue:
    return message.get("role") if isinstance(message, Mapping) else None


def _ends_alike(message: JsonValue, rounds: Sequence[Object]) -> bool:
    """Whether the client's message is still the answer that it got: the last round's text, or that of all rounds."""
    texts = [message_text(one.get("content")) for one in rounds if one.get("role") == "assistant"]
    said = message_text(cast("Object", message).get("content")).strip()
    return said.endswith(texts[-1].strip() if texts else "")
