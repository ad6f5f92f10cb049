"""Approvals over HTTP, answered through any worker of the gateway.

An approval is announced in the store before its client sees it. The answer is written to the store too, by an atomic
add, and the run's own worker takes it out. So each approval is answered once, whichever worker receives the answer. If
the run's worker was killed and doesn't take the answer, it is withdrawn.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from vibe_jupyter.agent.run import Run
from vibe_jupyter.gateway.store import Store, StoreDown
from vibe_jupyter.permissions.grants import Grants
from vibe_jupyter.protocol import Approve, Reject

APPROVAL_PREFIX: Final = "appr_"  # precedes the run's own ID of an approval
APPROVAL_WAIT: Final = 300.0  # seconds until an unanswered approval is denied
MESSAGE_LIMIT: Final = 4_000  # characters of a denial's message to the model
EXPIRED: Final = "Nobody answered in time."
GRANTS_KEPT: Final = 24 * 3600.0  # seconds to keep a session's grants after the latest one
PATTERNS_LIMIT: Final = 64 * 1024  # bytes of one session's grants

_ANNOUNCED: Final = "approvals"
_ANSWERS: Final = "answers"
_GRANTS: Final = "grants"
_LOOK: Final = 0.25  # seconds between polls of the store for an answer, and for its removal
_RECEIPT: Final = 5.0  # seconds until a worker that hasn't taken an answer is presumed dead

Status = Literal["resolved", "queued", "not_found"]


class ApprovalAnswer(BaseModel):
    """Answer to an approval request."""

    model_config = ConfigDict(frozen=True)

    decision: Literal["approve", "deny"]
    message: Annotated[str, Field(max_length=MESSAGE_LIMIT)] = ""  # of a denial: becomes the call's result
    remember_for_session: bool = False  # of an approval: later actions of that kind in the same session need none


class PendingApprovals:
    """Open approvals of this worker's runs. Use it on the gateway's event loop only."""

    def __init__(self, store: Store, owner: str, *, wait: float = APPROVAL_WAIT) -> None:
        self._store = store
        self._owner = owner
        self._wait = wait
        self._runs: dict[str, Run] = {}  # by the run's own ID of the approval
        self._waits: dict[str, asyncio.Task[None]] = {}
        self._delivering = asyncio.Lock()

    async def announce(self, approval_id: str, run: Run) -> None:
        """Open an approval for answers from any worker."""
        self._runs[approval_id] = run
        await self._store.put(_ANNOUNCED, self._key(approval_id), b"{}", seconds=self._wait)
        self._waits[approval_id] = asyncio.create_task(self._wait_elsewhere(approval_id, run))

    async def close(self, approval_id: str) -> None:
        """Close an approval that is decided or no longer needed."""
        self._runs.pop(approval_id, None)
        if (waiting := self._waits.pop(approval_id, None)) is not None:
            waiting.cancel()
        await self._store.take(_ANNOUNCED, self._key(approval_id))

    async def answer(self, name: str, said: ApprovalAnswer) -> Status:
        """Record the answer to an approval, given by the ID its client received.

        Returns "resolved" if this worker has the run, and "queued" if another one does.
        """
        approval_id = name.removeprefix(APPROVAL_PREFIX)
        key, raw = self._key(approval_id), said.model_dump_json().encode()
        is_here = approval_id in self._runs
        if await self._store.get(_ANNOUNCED, key) is None:
            return "not_found"
        if not await self._store.add(_ANSWERS, key, raw, seconds=self._wait):
            return "not_found"
        if not (await self._deliver(approval_id) or await self._is_taken(key)):
            return "not_found"
        return "resolved" if is_here else "queued"

    async def _deliver(self, approval_id: str) -> bool:
        """Send a run of this worker the answer waiting in the store. Returns whether there was one."""
        async with self._delivering:
            run = self._runs.get(approval_id)
            raw = None if run is None else await self._store.take(_ANSWERS, self._key(approval_id))
            if run is None or raw is None:
                return False
            self._runs.pop(approval_id, None)
            run.send(_command(approval_id, ApprovalAnswer.model_validate_json(raw)))
            return True

    async def _is_taken(self, key: str) -> bool:
        """Return whether the run's worker takes the answer in time; otherwise withdraw it."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _RECEIPT
        while loop.time() < until and await self._store.get(_ANNOUNCED, key) is not None:
            if await self._store.get(_ANSWERS, key) is None:
                return True
            await asyncio.sleep(_LOOK)
        return await self._store.take(_ANSWERS, key) is None

    async def _wait_elsewhere(self, approval_id: str, run: Run) -> None:
        """Poll the store for an answer received by another worker, until the approval expires."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._wait
        while approval_id in self._runs and loop.time() < until:
            await asyncio.sleep(min(_LOOK, self._wait))
            with suppress(StoreDown):  # the store may be back before the approval expires
                await self._deliver(approval_id)
        if self._runs.pop(approval_id, None) is not None:
            run.send(Reject(approval_id=approval_id, message=EXPIRED))

    def _key(self, approval_id: str) -> str:
        return f"{self._owner}:{approval_id}"


def _command(approval_id: str, said: ApprovalAnswer) -> Approve | Reject:
    if said.decision == "deny":
        return Reject(approval_id=approval_id, message=said.message)
    return Approve(approval_id=approval_id, remember="session" if said.remember_for_session else "once")


class SessionGrants:
    """Store of the patterns granted in sessions, for their later requests."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._owner = owner

    async def load(self, session_id: str, grants: Grants) -> Callable[[], Awaitable[None]]:
        """Add the session's stored grants to `grants`. Returns a function that stores the grants made since."""
        key = f"{self._owner}:{session_id}"
        kept = _Patterns.model_validate_json(await self._store.get(_GRANTS, key) or b"{}").patterns
        for pattern in kept:
            grants.add(pattern, "session")

        async def keep() -> None:
            if set(grants.session()) - set(kept):
                raw = _Patterns(patterns=grants.session()).model_dump_json().encode()
                if len(raw) <= PATTERNS_LIMIT:
                    await self._store.put(_GRANTS, key, raw, seconds=GRANTS_KEPT)

        return keep

    async def forget(self, session_id: str) -> None:
        """Revoke all grants of a session."""
        await self._store.take(_GRANTS, f"{self._owner}:{session_id}")


class _Patterns(BaseModel):
    patterns: tuple[str, ...] = ()
