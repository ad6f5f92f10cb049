"""The tools of all servers as one set: offered, filtered, found by any of their names, looked up where many."""

import json
import re
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path
from typing import Literal

import pytest
import pytest_asyncio

from tests.mcp.conftest import HERE, NewServers, connection, declared, forked
from vibe_jupyter.config.tool_servers import ToolServer
from vibe_jupyter.errors import ToolError
from vibe_jupyter.mcp.connection import ServerPool
from vibe_jupyter.mcp.hooks import OpenCalls
from vibe_jupyter.mcp.tool import ToolWays
from vibe_jupyter.mcp.tool_names import RemoteTool
from vibe_jupyter.mcp.toolset import McpToolset
from vibe_jupyter.protocol import Resource, TextPart
from vibe_jupyter.tools.contract import JoinedToolsets, StaticToolset, ToolContext
from vibe_jupyter.tools.todo import TodoTool

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONTENTS = HERE / "contents_server.py"
HINT = "Use it for weather, and for nothing else."


class Pins:
    """What was accepted: everything but what a test names."""

    def __init__(self, changed: Collection[str] = ()) -> None:
        self.changed = changed

    def state(self, server: str, tool: RemoteTool) -> Literal["accepted", "new", "changed"]:
        return "changed" if tool.name in self.changed else "accepted"


class Few:
    """Some of the servers, as a project that declares only these."""

    def __init__(self, servers: ServerPool, *names: str) -> None:
        self.names = list(names)
        self._servers = servers

    def all(self) -> Sequence[object]:
        return [connection(self._servers, name) for name in self.names]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def all_servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerPool]:
    servers = ServerPool(tmp_path_factory.mktemp("project"), {"PATH": "/usr/bin:/bin"})
    few = declared("weather_now", forked(CONTENTS), prompt=HINT)
    many = declared("units", forked(CONTENTS, "70"))
    servers.declare([few, many])
    assert await servers.start(["weather_now", "units"]) == []
    yield servers
    await servers.close()


def tools(servers: ServerPool, *names: str, changed: Collection[str] = (), taken: Collection[str] = ()) -> McpToolset:
    ways = ToolWays(OpenCalls(), lambda: False)
    return McpToolset(Few(servers, *names), Pins(changed), ways, taken=lambda: taken)  # type: ignore[arg-type]


def context() -> ToolContext:
    return ToolContext("c1", lambda text: None, lambda: False)


async def test_what_a_server_asks_is_for_the_innermost_of_its_own_open_calls() -> None:
    calls = OpenCalls()
    outer, inner, other = context(), context(), context()

    async def asked(found: ToolContext) -> ToolContext:
        return found

    async with calls.of("a", outer):
        async with calls.of("a", inner), calls.of("b", other):
            assert await calls.ask_for("a", asked) is inner
            assert await calls.ask_for("b", asked) is other
        assert await calls.ask_for("a", asked) is outer
        assert await calls.ask_for("b", asked) is None
    assert not calls.has("a")


def names(tools: McpToolset) -> list[str]:
    return [spec.name for spec in tools.specs()]


@pytest.mark.requirement("mcp.schema.convert")
async def test_name_description_and_schema_of_a_servers_tool_are_those_of_the_function(all_servers: ServerPool) -> None:
    spec = tools(all_servers, "weather_now").specs()[0]
    assert spec.name == "mcp__weather_now__forecast"
    assert spec.description.startswith("[MCP server weather_now] Weather of a city.")
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer", "default": 1},
            "unit": {"enum": ["celsius", "kelvin"], "type": "string", "default": "celsius"},
        },
        "required": ["city"],
    }


@pytest.mark.requirement("mcp.discovery.list")
@pytest.mark.asyncio(loop_scope="function")
async def test_tools_of_all_pages_are_offered_beside_the_built_in_ones(new_servers: NewServers, tmp_path: Path) -> None:
    listed = [{"name": f"tool_{place}", "inputSchema": {"type": "object"}} for place in range(5)]
    results = {"tool_4": {"content": [{"type": "text", "text": "of the last page"}]}}
    (tmp_path / "written.json").write_text(json.dumps({"tools": listed, "results": results, "page": 2}))
    written = forked(HERE / "written_server.py", str(tmp_path / "written.json"))
    servers = await new_servers(declared("paged", written))
    assert await servers.start(["paged"]) == []
    joined = JoinedToolsets(StaticToolset([TodoTool()]), tools(servers, "paged"))
    assert [spec.name for spec in joined.specs()] == ["todo", *(f"mcp__paged__tool_{place}" for place in range(5))]
    last = joined.find("mcp__paged__tool_4")
    assert last is not None
    assert (await last.run(last.arguments.model_validate({}), context())).details["text"] == "of the last page"


async def test_the_persons_hint_on_a_server_reaches_the_model_with_its_tools_once(all_servers: ServerPool) -> None:
    said = [spec.description for spec in tools(all_servers, "weather_now").specs()]
    assert said[0].endswith(f"\nOn all tools of weather_now: {HINT}")
    assert sum(HINT in one for one in said) == 1


@pytest.mark.requirement("mcp.name.input", "mcp.name.routing")
@pytest.mark.parametrize("name", ["mcp__weather_now__nothing", "weather_now_nothing"])
async def test_both_forms_of_a_name_reach_the_same_tool_of_the_same_server(all_servers: ServerPool, name: str) -> None:
    mcp = tools(all_servers, "weather_now", "units")
    tool = mcp.find(name)
    assert tool is not None
    assert tool.name == "mcp__weather_now__nothing"
    args = tool.arguments.model_validate({})
    assert tool.touches(args) == (Resource(kind="mcp", value="weather_now/nothing", access="execute"),)
    assert (await tool.run(args, context())).details["server"] == "weather_now"
    assert mcp.directory.resolve(name) == "mcp__weather_now__nothing"


@pytest.mark.parametrize(
    "name", ["nothing", "mcp__weather_now", "weather", "mcp__units__no", "mcp__weather__now_nothing"]
)
async def test_a_name_that_leads_nowhere_is_no_tool(all_servers: ServerPool, name: str) -> None:
    mcp = tools(all_servers, "weather_now", "units")
    assert mcp.find(name) is None
    assert mcp.directory.resolve(name) == ""


async def test_a_built_in_tool_stays_what_it_is_beside_a_server_that_calls_its_own_so(all_servers: ServerPool) -> None:
    todo = TodoTool()
    joined = JoinedToolsets(StaticToolset([todo]), tools(all_servers, "units", taken=("todo", "units_nothing")))
    assert joined.find("todo") is todo
    assert joined.find("units_nothing") is None
    assert joined.find("mcp__units__nothing") is not None


async def test_what_the_settings_leave_out_is_neither_offered_nor_called_by_any_name(all_servers: ServerPool) -> None:
    mcp = tools(all_servers, "weather_now")

    def wanted(server: ToolServer, tool: RemoteTool, names: Sequence[str]) -> bool:
        return "weather_now_words" not in names

    assert "mcp__weather_now__words" in names(mcp)
    mcp.wanted = wanted
    assert "mcp__weather_now__words" not in names(mcp)
    assert mcp.find("mcp__weather_now__words") is None
    assert mcp.find("weather_now_words") is None


async def test_a_tool_that_changed_is_not_offered_and_a_call_of_it_says_why_before_anybody_is_asked(
    all_servers: ServerPool,
) -> None:
    mcp = tools(all_servers, "weather_now", changed=["words"])
    assert "mcp__weather_now__words" not in names(mcp)
    tool = mcp.find("mcp__weather_now__words")
    assert tool is not None
    args = tool.arguments.model_validate({"text": "x"})
    for attempt in (tool.precheck(args), tool.run(args, context())):  # type: ignore[attr-defined]
        with pytest.raises(
            ToolError, match=r"changed its definition of mcp__weather_now__words since.*%vibe mcp accept weather_now"
        ):
            await attempt


async def test_what_was_offered_keeps_its_place_when_more_servers_come(all_servers: ServerPool) -> None:
    few = Few(all_servers, "weather_now")
    mcp = McpToolset(few, Pins(), ToolWays(OpenCalls(), lambda: False))  # type: ignore[arg-type]
    before = list(mcp.specs())
    mcp.wanted = lambda server, tool, names: server.name == "weather_now" or tool.name == "words"
    few.names.insert(0, "units")
    assert list(mcp.specs())[: len(before)] == before
    assert names(mcp)[len(before) :] == ["mcp__units__words"]


async def test_where_tools_are_many_only_their_names_are_offered_and_definitions_are_looked_up(
    all_servers: ServerPool,
) -> None:
    mcp = tools(all_servers, "weather_now", "units")
    assert names(mcp) == ["find_tools"]
    description = mcp.specs()[0].description
    assert f"weather_now ({HINT}): mcp__weather_now__forecast, " in description
    assert "mcp__units__convert_69" in description
    assert len(description) < 7_000
    find_tools = mcp.find("find_tools")
    assert find_tools is not None
    result = await find_tools.run(find_tools.arguments(query="miles from parsecs"), context())
    (part,) = result.parts
    assert isinstance(part, TextPart)
    assert '"name": "mcp__units__convert_37"' in part.text
    assert '"parameters": {"type": "object", "properties": {"amount"' in part.text
    assert names(mcp) == ["find_tools", "mcp__units__convert_37"]
    assert mcp.specs()[0].description == description


async def test_a_tool_that_was_not_looked_up_can_be_called_and_is_offered_from_then_on(all_servers: ServerPool) -> None:
    mcp = tools(all_servers, "weather_now", "units")
    assert names(mcp) == ["find_tools"]
    tool = mcp.find("units_convert_3")
    assert tool is not None
    assert not (await tool.run(tool.arguments.model_validate({"amount": "1"}), context())).is_error
    assert names(mcp) == ["find_tools", "mcp__units__convert_3"]
    mcp.forget()
    assert names(mcp) == ["find_tools"]


async def test_when_the_large_server_is_gone_definitions_are_offered_again(all_servers: ServerPool) -> None:
    few = Few(all_servers, "weather_now", "units")
    mcp = McpToolset(few, Pins(), ToolWays(OpenCalls(), lambda: False))  # type: ignore[arg-type]
    assert names(mcp) == ["find_tools"]
    few.names.remove("units")
    assert "find_tools" not in names(mcp)
    assert "mcp__weather_now__forecast" in names(mcp)
    assert mcp.find("find_tools") is None


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("convert_5", "mcp__units__convert_5"),
        ("units_convert_6", "mcp__units__convert_6"),
        ("weather", "mcp__weather_now__forecast"),
        ("forecast for a city", "mcp__weather_now__forecast"),
    ],
)
async def test_a_look_up_finds_names_first_then_words(all_servers: ServerPool, query: str, first: str) -> None:
    mcp = tools(all_servers, "weather_now", "units")
    mcp.specs()
    find_tools = mcp.find("find_tools")
    assert find_tools is not None
    result = await find_tools.run(find_tools.arguments(query=query), context())
    assert str(result.display["text/plain"]).split("\n")[0] == first


async def test_a_look_up_in_vain_names_what_there_is(all_servers: ServerPool) -> None:
    mcp = tools(all_servers, "units")
    mcp.specs()
    find_tools = mcp.find("find_tools")
    assert find_tools is not None
    result = await find_tools.run(find_tools.arguments(query="zzz"), context())
    assert result.summary == "none"
    assert "mcp__units__words" in str(result.parts[0])


@pytest.mark.requirement("mcp.discovery.tool-failure")
async def test_one_tool_that_cannot_be_offered_is_told_once_and_the_others_are_there(all_servers: ServerPool) -> None:
    mcp = tools(all_servers, "weather_now")
    assert "mcp__weather_now__enormous" not in names(mcp)
    assert "mcp__weather_now__forecast" in names(mcp)
    (news,) = mcp.directory.news()
    assert re.fullmatch(
        "The tool 'enormous' of the MCP server weather_now is left out: "
        r"its definition has 40,\d{3} characters, more than 30,000\.",
        news,
    )
    assert mcp.directory.news() == []
