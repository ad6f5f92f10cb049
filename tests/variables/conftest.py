"""The tool `inspect` on a namespace of the test's own, with work done at once as on the main thread."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from vibe_jupyter.protocol import TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext
from vibe_jupyter.variables.tools import InspectArgs, InspectTool

T = TypeVar("T")


@pytest.fixture
def context() -> ToolContext:
    return ToolContext(call_id="call-1", progress=lambda text: None, cancelled=lambda: False)


@pytest.fixture
def namespace() -> dict[str, object]:
    return {}


async def at_once(work: Callable[[], T], /) -> T:
    return work()


@pytest.fixture
def inspect(namespace: dict[str, object], context: ToolContext) -> Callable[..., Awaitable[ToolResult]]:
    tool = InspectTool(lambda: namespace, at_once)

    async def call(*paths: str, **args: object) -> ToolResult:
        return await tool.run(InspectArgs.model_validate({"names": list(paths), **args}), context)

    return call


@pytest.fixture
def text_of() -> Callable[[ToolResult], str]:
    def text(result: ToolResult) -> str:
        (part,) = result.parts
        assert isinstance(part, TextPart)
        return part.text

    return text
