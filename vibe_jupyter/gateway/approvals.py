"""Approvals over HTTP: what waits, who answers, and what happens where nobody does.

An approval is announced in the store before its client hears of it. An answer goes into the store too, unless there is
one, and the run's worker takes it out: so it is answered once, whichever worker the answer reaches. One that the run's
worker does not take, because it was killed, is taken back.
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

APPROVAL_PREFIX: Final = "appr_"
"""Before the run's own id of an approval."""
APPROVAL_WAIT: Final = 300.0
"""Seconds after which an approval that nobody answered is denied."""
MESSAGE_LIMIT: Final = 4_000
"""Characters of what a denial says to the model."""
EXPIRED: Final = "Nobody answered in time."
GRANTS_KEPT: Final = 24 * 3600.0
"""Seconds for which a session's grants are remembered after the last."""
PATTERNS_LIMIT: Final = 64 * 1024
"""Bytes of one session's grants."""

_ANNOUNCED: Final = "approvals"
_ANSWERS: Final = "answers"
_GRANTS: Final = "grants"
_LOOK: Final = 0.25
"""Seconds between two looks for an answer that reached another worker, and whether it was taken."""
_RECEIPT: Final = 5.0
"""Seconds after which a worker that has not taken an answer is held for dead."""

Status = Literal["resolved", "queued", "not_found"]


class ApprovalAnswer(BaseModel):
    """What a user says to an approval."""

    model_config = ConfigDict(frozen=True)

    decision: Literal["approve", "deny"]
    message: Annotated[str, Field(max_length=MESSAGE_LIMIT)] = ""
    """Of a denial: the model gets it as the call's result."""
    remember_for_session: bool = False
    """Of an approval: later actions of that kind in the same session run unasked."""


class PendingApprovals:
    """Those of this worker's runs. On the gateway's loop."""

    def __init__(self, store: Store, owner: str, *, wait: float = APPROVAL_WAIT) -> None:
        self._store = store
        self._owner = owner
        self._wait = wait
        self._runs: dict[str, Run] = {}
        """By the run's own id of the approval."""
        self._waits: dict[str, asyncio.Task[None]] = {}
        self._delivering = asyncio.Lock()

    async def announce(self, approval_id: str, run: Run) -> None:
        """A run asks. From now on it can be answered."""
        self._runs[approval_id] = run
        await self._store.put(_ANNOUNCED, self._key(approval_id), b"{}", seconds=self._wait)
        self._waits[approval_id] = asyncio.create_task(self._wait_elsewhere(approval_id, run))

    async def close(self, approval_id: str) -> None:
        """It is decided, or nobody wants to know any more."""
        self._runs.pop(approval_id, None)
        if (waiting := self._waits.pop(approval_id, None)) is not None:
            waiting.cancel()
        await self._store.take(_ANNOUNCED, self._key(approval_id))

    async def answer(self, name: str, said: ApprovalAnswer) -> Status:
        """Take an answer to an approval, by the name that its client was given."""
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
        """Give a run of this worker the answer that is there for it; whether it got one now."""
        async with self._delivering:
            run = self._runs.get(approval_id)
            raw = None if run is None else await self._store.take(_ANSWERS, self._key(approval_id))
            if run is None or raw is None:
                return False
            self._runs.pop(approval_id, None)
            run.send(_command(approval_id, ApprovalAnswer.model_validate_json(raw)))
            return True

    async def _is_taken(self, key: str) -> bool:
        """Whether the run's worker takes an answer; else it is there no more."""
        loop = asyncio.get_running_loop()
        until = loop.time() + _RECEIPT
        while loop.time() < until and await self._store.get(_ANNOUNCED, key) is not None:
            if await self._store.get(_ANSWERS, key) is None:
                return True
            await asyncio.sleep(_LOOK)
        return await self._store.take(_ANSWERS, key) is None

    async def _wait_elsewhere(self, approval_id: str, run: Run) -> None:
        """Look for an answer that reached another worker, until the time is over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + self._wait
        while approval_id in self._runs and loop.time() < until:
            await asyncio.sleep(min(_LOOK, self._wait))
            with suppress(StoreDown):  # it may come back in time
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
    """What was allowed in a session, for its later requests."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._owner = owner

    async def load(self, session_id: str, grants: Grants) -> Callable[[], Awaitable[None]]:
        """Have what was granted before; gives what keeps what is granted from now on."""
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
        """Allow nothing more in a session."""
        await self._store.take(_GRANTS, f"{self._owner}:{session_id}")


class _Patterns(BaseModel):
    patterns: tuple[str, ...] = ()
