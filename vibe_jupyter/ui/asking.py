"""Approvals of a front end that has no card: put to the text prompt while events keep coming."""

import asyncio
import contextlib

from vibe_jupyter.errors import NotebookError
from vibe_jupyter.protocol import ApprovalRequested, Reject
from vibe_jupyter.ui.front_end import Send
from vibe_jupyter.ui.stdin import TextPrompt

NOBODY_CAN_ANSWER = "nobody can answer here"


class Asking:
    """One task for each open question."""

    def __init__(self, prompt: TextPrompt | None) -> None:
        self._prompt = prompt
        """None where there is no text prompt: everything is rejected."""
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, request: ApprovalRequested, send: Send) -> None:
        """Put the question; its answer goes to `send`. On the loop."""
        task = asyncio.create_task(self._ask(request, send))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, request: ApprovalRequested, send: Send) -> None:
        if self._prompt is None:
            send(Reject(approval_id=request.approval_id, message=NOBODY_CAN_ANSWER))
            return
        with contextlib.suppress(NotebookError):  # interrupted, or the cell is over: the run is told by whoever did it
            send(await self._prompt.ask(request))
