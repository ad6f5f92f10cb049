"""Both variable tools on a namespace of the test's own, with work done at once as on the main thread."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from vibe_jupyter.protocol import TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext
from vibe_jupyter.variables.tools import InspectVariableArgs, InspectVariableTool, ListVariablesArgs, ListVariablesTool

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
    tool = InspectVariableTool(lambda: namespace, at_once)

    async def call(name: str, **args: object) -> ToolResult:
        return await tool.run(InspectVariableArgs.model_validate({"name": name, **args}), context)

    return call


@pytest.fixture
def list_all(namespace: dict[str, object], context: ToolContext) -> Callable[..., Awaitable[ToolResult]]:
    tool = ListVariablesTool(lambda: namespace, at_once)

    async def call(**args: object) -> ToolResult:
        return await tool.run(ListVariablesArgs.model_validate(args), context)

    return call


@pytest.fixture
def text_of() -> Callable[[ToolResult], str]:
    def text(result: ToolResult) -> str:
        (part,) = result.parts
        assert isinstance(part, TextPart)
        return part.text

    return text
