"""The tools a server lists: over all pages, and where some of them are badly defined, the others."""

import sys

import pytest

from tests.mcp.conftest import BROKEN, NewServers, call, connection, declared, served
from vibe_jupyter.tools.mcp.directory import Directory
from vibe_jupyter.tools.mcp.server import Address, Program


@pytest.mark.parametrize("over", ["pipes", "http"])
async def test_badly_defined_tools_are_mended_or_left_out_and_the_others_are_there(
    new_servers: NewServers, over: str
) -> None:
    with served(BROKEN, "bad tools", "http") as url:
        at = Address(url) if over == "http" else Program((sys.executable, str(BROKEN), "bad tools"))
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
        assert Directory(servers, frozenset).news() == list(one.left_out)


async def test_all_pages_of_a_list_are_read(new_servers: NewServers) -> None:
    servers = await new_servers(declared("broken", Program((sys.executable, str(BROKEN), "many pages"))))

    assert await servers.start(["broken"]) == []

    assert [tool.name for tool in connection(servers, "broken").tools] == [f"tool {number}" for number in range(25)]


async def test_a_list_without_an_end_is_read_to_a_bound(new_servers: NewServers) -> None:
    servers = await new_servers(declared("broken", Program((sys.executable, str(BROKEN), "endless pages"))))

    assert await servers.start(["broken"]) == []

    assert len(connection(servers, "broken").tools) == 1_000
