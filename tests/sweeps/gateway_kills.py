"""SIGKILL of one or both workers of a gateway while sessions wait for approvals: no session is lost, every approval is
answered once, and nothing runs that was not approved."""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Final

import httpx

from tests.gateway.conftest import TOKEN, chat_body, model_settings, read_events, until
from tests.gateway.worker_processes import START, Stream, Workers, serving
from vibe_jupyter.gateway.workers import EARLY
from vibe_jupyter.testing import ModelRequest, Reply, ScriptedModel, call, say

COUNT = 100
SESSIONS = 4
"""At the same time. Every second is answered after the kill."""
ANSWERS = 2
"""To each approval, at the same time."""
LATEST = 0.3
"""Seconds after so many sessions wait in which workers are killed."""
BOTH = 0.25
"""How often both are."""
SETTINGS: Final = """
[gateway]
tools = ["bash"]
"""
REQUIRED: Final = "agentic_tool_approval_required"
LOST: Final = "lost"
"""The answer of a worker that was killed before it came."""
TAKEN: Final = frozenset({"resolved", "queued"})
AGAIN: Final = "again"


def sweep(count: int, seed: int) -> Iterator[str]:
    chosen = random.Random(seed)
    how: Counter[str] = Counter()
    kept: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="vibe-workers-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with (
            ScriptedModel(lambda request: _reply(request, folder), strict=False) as model,
            serving(folder, model_settings(model.url) + SETTINGS) as workers,
        ):
            for number in range(count):
                sessions = [Session(workers, folder, f"s{number}-{n}", is_late=n % 2 == 1) for n in range(SESSIONS)]
                for wrong in _try(workers, sessions, chosen, kept):
                    yield f"try {number}: {wrong}"
                how.update(session.how for session in sessions)
            yield from (f"session {one} has changed" for one in kept if _exported(workers, one) != kept[one])
    print(f"gateway_kills: {', '.join(f'{times} {what}' for what, times in sorted(how.items()))}", flush=True)


def _reply(request: ModelRequest, folder: Path) -> Reply:
    asked = request.last_user_text
    if asked == AGAIN or request.tool_results:
        return say("Done.")
    return call("bash", command=f"echo ran >> {folder / asked}")


class Session:
    """One question under a session id of its own, whose call is answered by several clients at once."""

    def __init__(self, workers: Workers, folder: Path, name: str, *, is_late: bool) -> None:
        self.name = name
        self.asked = Event()
        """It waits for an answer, or will never."""
        self.killed = Event()
        self.statuses: Sequence[str] = ()
        self._workers = workers
        self._mark = folder / name
        self._is_late = is_late
        self._client = new_client(workers)
        self._stream = Stream(self._client, name, session_id=name, agent_permission="ask")
        self._pool = ThreadPoolExecutor(ANSWERS + 1)
        self._done = self._pool.submit(self._answer)

    def end(self) -> None:
        """Wait until its stream is over and its answers are there."""
        self._done.result(START)
        self._stream.end()
        self._pool.shutdown()
        self._client.close()

    @property
    def is_whole(self) -> bool:
        return b"[DONE]" in self._stream.raw

    @property
    def how(self) -> str:
        """What became of it, in a word or two."""
        asked = "answered" if self.statuses else "not asked"
        return "whole" if self.is_whole else f"broken off, {asked}{' late' if self._is_late else ''}"

    @property
    def wrong(self) -> Iterator[str]:
        """What must not be."""
        ran = len(self._mark.read_text().splitlines()) if self._mark.exists() else 0
        taken = sum(status in TAKEN for status in self.statuses)
        lost = self.statuses.count(LOST)
        said = f"{self.name}, {self.how}: answered {', '.join(self.statuses)}; ran {ran} times"
        if taken > 1 or ran > min(1, taken + lost):
            yield f"more than was approved: {said}"
        if self.is_whole and not (ran == 1 and taken + lost):
            yield f"not run: {said}"
        if self._is_late and not self.is_whole and taken:
            yield f"an answer was taken for a run that there is no more: {said}"

    def _answer(self) -> None:
        until(lambda: REQUIRED.encode() in self._stream.raw or self._stream.is_over)
        self.asked.set()
        events = [one.data for one in read_events(_blocks(self._stream.raw)) if one.name == REQUIRED]
        if not events:
            return
        if self._is_late:
            assert self.killed.wait(START)
        path = f"/v1/agent/approvals/{events[0]['approval_id']}"
        self.statuses = list(self._pool.map(self._post, [path] * ANSWERS))

    def _post(self, path: str) -> str:
        with new_client(self._workers) as client:
            try:
                return client.post(path, json={"decision": "approve"}).json()["status"]
            except httpx.TransportError:
                return LOST


def _try(workers: Workers, sessions: Sequence[Session], chosen: random.Random, kept: dict[str, str]) -> Iterator[str]:
    for session in chosen.sample(sessions, chosen.randint(0, SESSIONS)):
        assert session.asked.wait(START)
    time.sleep(chosen.uniform(0, LATEST))
    living = workers.all()
    for victim in living if chosen.random() < BOTH else [chosen.choice(living)]:
        victim.kill()
    for session in sessions:
        session.killed.set()
    for session in sessions:
        session.end()
        yield from session.wrong
        if session.is_whole:
            kept[session.name] = _exported(workers, session.name)
            if "ran" not in kept[session.name]:
                yield f"{session.name} is lost: {kept[session.name]}"
        else:
            with new_client(workers) as client:
                answer = client.post("/v1/chat/completions", json=chat_body(AGAIN, session_id=session.name))
            if answer.status_code != 200:
                yield f"{session.name} does not go on: {answer.status_code} {answer.text}"
    # A worker that is killed as it starts counts as one that cannot, after which the gateway ends.
    until(lambda: len(workers.all()) == 2 and all(time.time() - one.create_time() > EARLY for one in workers.all()))


def new_client(workers: Workers) -> httpx.Client:
    """One whose connection either of them may take."""
    return httpx.Client(base_url=workers.url, headers={"x-api-key": TOKEN}, timeout=START)


def _exported(workers: Workers, session_id: str) -> str:
    with new_client(workers) as client:
        return client.get(f"/v1/sessions/{session_id}").text


def _blocks(raw: bytes) -> bytes:
    """The events that have come whole."""
    return raw[: raw.rfind(b"\n\n") + 2]
