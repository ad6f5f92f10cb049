"""The tools a server lists: over all pages, and where some of them are badly defined, the others."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.conftest import BROKEN, HERE, NewServers, call, connection, declared, forked, served
from vibe_jupyter.config.tool_servers import ServerAddress, ServerProgram
from vibe_jupyter.mcp.toolset import ToolDirectory


@pytest.mark.parametrize("over", ["pipes", "http"])
async def test_badly_defined_tools_are_mended_or_left_out_and_the_others_are_there(
    new_servers: NewServers, over: str
) -> None:
    with served(BROKEN, "bad tools", "http") as url:
        at = ServerAddress(url) if over == "http" else forked(BROKEN, "bad tools")
        servers = await new_servers(declared("broken", at))
        one = connection(servers, "broken")

        assert await servers.start(["broken"]) == []

        assert [tool.name for tool in one.tools] == ["echo", "late", "free output", "no type", "odd hints"]
        schemas = {tool.name: dict(tool.input_schema) for tool in one.tools}
        assert schemas["no type"] == {"type": "object", "properties": {"text": {"type": "string"}}}
        assert [sentence.partition(" of ")[0] for sentence in one.left_out] == [
            "The tool 'no schema'",
            "The tool 'a list'",
            "A tool without a name",
        ]
        assert "inputSchema: Field required" in one.left_out[0]
        assert await call(one, "echo", text="fine") == "fine"
        assert ToolDirectory(servers, frozenset).news() == list(one.left_out)


@pytest.mark.parametrize("depth", [110, 200, 400])
@pytest.mark.parametrize("over", ["pipes", "json", "events"])
async def test_a_schema_nested_without_bounds_costs_its_own_tool_alone(
    new_servers: NewServers, tmp_path: Path, over: str, depth: int
) -> None:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    tools = [{"name": "deep", "inputSchema": schema}, {"name": "flat", "inputSchema": {"type": "object"}}]
    with written(tmp_path, {"tools": tools, "results": {}}, over) as at:
        servers = await new_servers(declared("written", at))

        assert await servers.start(["written"]) == []

        one = connection(servers, "written")
        assert [tool.name for tool in one.tools] == ["flat"]
        assert one.left_out == (
            "The tool 'deep' of the MCP server written is left out: its definition is not valid "
            "(it is nested more than 150 deep).",
        )


@pytest.mark.parametrize("over", ["pipes", "json", "events"])
async def test_a_result_nested_without_bounds_is_named_and_the_call_is_known_to_be_done(
    new_servers: NewServers, tmp_path: Path, over: str
) -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [deep]
    result = {"content": [{"type": "text", "text": "fine"}], "structuredContent": {"deep": deep}}
    tools = [{"name": "dig", "inputSchema": {"type": "object"}}]
    with written(tmp_path, {"tools": tools, "results": {"dig": result}}, over) as at:
        servers = await new_servers(declared("written", at))
        assert await servers.start(["written"]) == []

        assert (await call(connection(servers, "written"), "dig")).startswith("fine")


@pytest.mark.parametrize("over", ["pipes", "json", "events"])
async def test_a_result_that_is_no_object_is_told_as_text(new_servers: NewServers, tmp_path: Path, over: str) -> None:
    tools = [{"name": "say", "inputSchema": {"type": "object"}}]
    with written(tmp_path, {"tools": tools, "results": {"say": "fine"}}, over) as at:
        servers = await new_servers(declared("written", at))

        assert await call(connection(servers, "written"), "say") == "fine"


@contextmanager
def written(folder: Path, words: dict[str, Any], over: str) -> Iterator[ServerProgram | ServerAddress]:
    """A server that says these words, as a program or behind an address."""
    place = folder / "written.json"
    place.write_text(json.dumps(words), encoding="utf-8")
    if over == "pipes":
        yield forked(HERE / "written_server.py", str(place))
        return
    with served(HERE / "written_server.py", place, over) as url:
        yield ServerAddress(url)


@pytest.mark.parametrize("answer", ["refuses the question", "names later versions", "agrees on another"])
async def test_a_version_of_the_protocol_that_nobody_knows_is_named(new_servers: NewServers, answer: str) -> None:
    servers = await new_servers(declared("later", forked(HERE / "later_server.py", answer)))

    (problem,) = await servers.start(["later"])

    assert "did not start: it speaks version 2031-01-01 of the protocol" in problem
    assert "Method not found" not in problem


async def test_all_pages_of_a_list_are_read(new_servers: NewServers) -> None:
    servers = await new_servers(declared("broken", forked(BROKEN, "many pages")))

    assert await servers.start(["broken"]) == []

    assert [tool.name for tool in connection(servers, "broken").tools] == [f"tool {number}" for number in range(25)]


async def test_a_list_without_an_end_is_read_to_a_bound(new_servers: NewServers) -> None:
    servers = await new_servers(declared("broken", forked(BROKEN, "endless pages")))

    assert await servers.start(["broken"]) == []

    assert len(connection(servers, "broken").tools) == 1_000


@pytest.mark.parametrize("size", [1, 2, 5])
async def test_of_tools_with_one_name_the_first_counts_whatever_page_the_others_are_on(
    new_servers: NewServers, tmp_path: Path, size: int
) -> None:
    named = [("echo", "first"), ("other", "first"), ("echo", "second"), ("last", "first"), ("other", "second")]
    tools = [{"name": name, "description": said, "inputSchema": {"type": "object"}} for name, said in named]
    with written(tmp_path, {"tools": tools, "results": {}, "page": size}, "pipes") as at:
        servers = await new_servers(declared("written", at))

        assert await servers.start(["written"]) == []

        listed = [(tool.name, tool.description) for tool in connection(servers, "written").tools]
        assert listed == [("echo", "first"), ("other", "first"), ("last", "first")]
