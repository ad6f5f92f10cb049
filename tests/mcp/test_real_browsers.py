"""Servers that others wrote and that drive a browser or a database: too slow to start for each run of the tests."""

import os
import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.mcp import real_servers
from tests.mcp.conftest import call, connection, declared
from vibe_jupyter.config.tool_servers import ServerProgram, ToolServer
from vibe_jupyter.mcp.connection import ServerPool
from vibe_jupyter.mcp.tool import arguments_model

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("real mcp servers with a browser"),
]

PAGE = "data:text/html,<h1>Milk</h1>"
ONE_OF_EACH: Mapping[str, Any] = {"string": "x", "number": 1, "integer": 1, "boolean": True, "array": [], "null": None}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ServerPool]:
    """All three, started beside each other; the browser itself starts with the first call."""
    folder = tmp_path_factory.mktemp("project").resolve()
    found = ServerPool(folder, os.environ)
    found.declare([_playwright(), _devtools(), _duckdb(folder)])
    assert await found.start([one.server.name for one in found.all()]) == []
    yield found
    await found.close()


def _playwright() -> ToolServer:
    script, _ = real_servers.browsers()
    how = ("--headless", "--isolated", "--no-sandbox", "--executable-path", _chromium())
    return declared("playwright", ServerProgram((real_servers.node(), script, *how)))


def _devtools() -> ToolServer:
    _, script = real_servers.browsers()
    quiet = ("--no-usage-statistics", "--no-performance-crux")
    how = ("--headless", "--isolated", *quiet, "--chrome-arg=--no-sandbox", "--executablePath", _chromium())
    return declared("devtools", ServerProgram((real_servers.node(), script, *how)))


def _duckdb(folder: Path) -> ToolServer:
    # DuckDB would fetch an extension for what it does not know; nothing here is unknown to it.
    memory = ("--db-path", ":memory:", "--read-write", "--home-dir", str(folder))
    return declared("duckdb", ServerProgram((real_servers.database(), *memory)))


def _chromium() -> str:
    found = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    assert found is not None, "Chromium is missing; `make setup` installs one"
    return found


async def test_all_their_tools_are_offered(servers: ServerPool) -> None:
    offered = {one.server.name: (len(one.tools), one.left_out) for one in servers.all()}

    assert offered["playwright"] == (25, ())
    assert offered["devtools"] == (32, ())
    assert "execute_query" in {tool.name for tool in connection(servers, "duckdb").tools}
    assert connection(servers, "duckdb").left_out == ()


@pytest.mark.parametrize("name", ["playwright", "devtools", "duckdb"])
async def test_every_tool_takes_a_call_without_what_has_a_default(servers: ServerPool, name: str) -> None:
    for tool in connection(servers, name).tools:
        arguments_model(tool).model_validate(_least(tool.input_schema))


async def test_playwright_opens_a_page_and_shows_it(servers: ServerPool) -> None:
    one = connection(servers, "playwright")

    assert "Page URL: data:text/html" in await call(one, "browser_navigate", url=PAGE)
    assert 'heading "Milk"' in await call(one, "browser_snapshot")
    assert "Errors: 0" in await call(one, "browser_console_messages")
    result = await one.request(lambda client: client.call_tool("browser_take_screenshot", {}), timeout=60)
    assert not result.is_error
    assert "image" in {part.type for part in result.content}


async def test_chromes_developer_tools_open_a_page_and_read_it(servers: ServerPool) -> None:
    one = connection(servers, "devtools")

    assert PAGE in await call(one, "new_page", url=PAGE)
    assert "Milk" in await call(one, "take_snapshot", pageId=2)


async def test_duckdb_answers_a_query_and_says_what_is_wrong_with_another(servers: ServerPool) -> None:
    one = connection(servers, "duckdb")

    assert "42" in await call(one, "execute_query", sql="SELECT 6 * 7 AS answer")
    assert "syntax error" in await call(one, "execute_query", sql="SELEC 1")


def _least(schema: Mapping[str, Any]) -> Any:
    """A value that holds just what a schema demands and has no default."""
    if "enum" in schema or "const" in schema:
        return schema["const"] if "const" in schema else schema["enum"][0]
    if choices := schema.get("anyOf", schema.get("oneOf")):
        return _least(choices[0])
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind != "object":
        return [_least(schema["items"])] * schema.get("minItems", 0) if kind == "array" else ONE_OF_EACH[kind]
    fields = schema.get("properties", {})
    return {name: _least(fields[name]) for name in schema.get("required", ()) if "default" not in fields[name]}
