"""One question before the first prompt in a folder: may what it brings be used? Asked like a call, on a card."""

import asyncio
import hashlib
import time

from vibe_jupyter.agent.run import Run
from vibe_jupyter.agent.waiting import Waiting
from vibe_jupyter.policy.trust import TrustQuestion
from vibe_jupyter.protocol import (
    ApprovalRequested,
    ApprovalResolved,
    Approve,
    Headline,
    Preview,
    Reject,
    RunFinished,
    ToolCall,
    ToolFinished,
    Usage,
)

TRUST = "trust_folder"
"""Stands where the name of a tool stands."""
ALLOW = "Trust this folder"


class TrustRun:
    """A run of one card and no model. It is kept in no journal: the decision is kept where trust is."""

    def __init__(self, question: TrustQuestion) -> None:
        self.trusted: bool | None = None
        """What the person said; None when they said nothing."""
        self.run = Run(self._work)
        self._question = question

    async def _work(self, run: Run) -> None:
        began = time.monotonic()
        waiting = run.approvals.open()
        run.emit(_request(self._question, waiting))
        decided: asyncio.Future[Approve | Reject] = waiting.answer
        ended = not await run.guard(_until(decided))
        run.approvals.close(waiting)
        if not ended:
            self.trusted = isinstance(decided.result(), Approve)
        run.emit(
            ApprovalResolved(
                approval_id=waiting.id, call_id=TRUST, allowed=bool(self.trusted), by="interrupt" if ended else "person"
            )
        )
        words = {True: "trusted as it is now", False: "not trusted; nothing of it is used", None: "not decided"}
        outcome = "ok" if self.trusted else "interrupted" if ended else "denied"
        headline = _headline(self._question)
        summary = words[self.trusted]
        run.emit(ToolFinished(call_id=TRUST, name=TRUST, headline=headline, outcome=outcome, summary=summary))
        seconds = round(time.monotonic() - began, 3)
        run.emit(RunFinished(reason="interrupted" if ended else "stop", turns=0, seconds=seconds, usage=Usage()))


async def _until(decided: "asyncio.Future[Approve | Reject]") -> None:
    await decided


def _request(question: TrustQuestion, waiting: "Waiting[Approve | Reject]") -> ApprovalRequested:
    text = "\n".join(question.brings)
    preview = Preview(kind="text", text=text)
    return ApprovalRequested(
        approval_id=waiting.id,
        call=ToolCall(id=TRUST, name=TRUST, arguments="{}"),
        headline=_headline(question),
        preview=preview,
        reason="what it brings has changed" if question.changed else "it brings settings or tools of its own",
        resources=(),
        remember_as=None,
        digest=hashlib.sha256(f"{question.folder}\0{question.digest}\0{text}".encode("utf-8", "replace")).hexdigest(),
        allow=ALLOW,
    )


def _headline(question: TrustQuestion) -> Headline:
    return Headline(verb="Asked to trust", doing="Asking to trust", asking="Trust", target=str(question.folder))
