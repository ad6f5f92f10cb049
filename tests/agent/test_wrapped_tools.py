"""Cards for tools that need the main thread, as those of external clients do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.agent.conftest import Bench, Echo, EchoArguments
from vibe_jupyter.app.serving_session import MainThreadTool
from vibe_jupyter.errors import NotebookError
from vibe_jupyter.kernel.main_thread import BUSY, KernelBusy
from vibe_jupyter.protocol import ApprovalRequested, Approve
from vibe_jupyter.testing import call, say
from vibe_jupyter.tools.contract import StaticToolset


class Watched(Echo):
    """A tool whose preview depends on the page."""

    async def look(self, args: EchoArguments) -> None:
        """Find nothing changed."""


@pytest.mark.parametrize(("error", "cards"), [(KernelBusy(BUSY), 1), (NotebookError("The page is gone."), 2)])
async def test_a_busy_kernel_is_no_reason_to_ask_twice(bench: Bench, error: NotebookError, cards: int) -> None:
    failures = [error]  # of the first turn, for the look after the click

    @asynccontextmanager
    async def turn() -> AsyncIterator[None]:
        if failures:
            raise failures.pop()
        yield

    tool = Watched("risky", "ask")
    bench.tools = StaticToolset([MainThreadTool(tool, turn)])
    bench.model.will_reply(call("risky", text="hello"), say("done"))
    asked: list[str] = []

    def allow(card: ApprovalRequested) -> Approve:
        asked.append(card.reason)
        return Approve(approval_id=card.approval_id)

    await bench.ask("go", decide=allow)
    assert tool.ran == ["hello"]
    assert len(asked) == cards
