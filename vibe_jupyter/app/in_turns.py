"""Tools that borrow the main thread for as long as they work: they reach the notebook in a turn, and never else."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from vibe_jupyter.errors import NotebookError, ToolError
from vibe_jupyter.protocol import Headline, Level, Preview, Resource, ToolResult
from vibe_jupyter.tools.base import Prechecked, Tool, ToolContext

Turn = Callable[[], AbstractAsyncContextManager[None]]


class InTurn:
    """A tool whose work is done in a turn; what it says of a call needs none."""

    def __init__(self, tool: Tool[Any], turn: Turn) -> None:
        self._tool = tool
        self._turn = turn

    @property
    def name(self) -> str:
        return self._tool.name

    @property
    def description(self) -> str:
        return self._tool.description

    @property
    def level(self) -> Level:
        return self._tool.level

    @property
    def arguments(self) -> type[Any]:
        return self._tool.arguments

    def headline(self, args: Any) -> Headline:
        return self._tool.headline(args)

    def preview(self, args: Any) -> Preview:
        return self._tool.preview(args)

    def touches(self, args: Any) -> Sequence[Resource]:
        return self._tool.touches(args)

    async def run(self, args: Any, context: ToolContext) -> ToolResult:
        try:
            async with self._turn():
                return await self._tool.run(args, context)
        except NotebookError as error:
            raise ToolError(str(error)) from error


class PrecheckedInTurn(InTurn):
    """The same of a tool that looks beforehand."""

    async def precheck(self, args: Any) -> None:
        assert isinstance(self._tool, Prechecked)
        try:
            async with self._turn():
                await self._tool.precheck(args)
        except NotebookError as error:
            raise ToolError(str(error)) from error


def in_turn(tool: Tool[Any], turn: Turn) -> Tool[Any]:
    """The tool, working in turns."""
    return PrecheckedInTurn(tool, turn) if isinstance(tool, Prechecked) else InTurn(tool, turn)
