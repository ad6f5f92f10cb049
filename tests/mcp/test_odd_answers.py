"""Answers that are not as the protocol has them: what can be read is, and a call that was done is said to be done."""

import json
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.mcp.conftest import HERE, declared, forked
from tests.mcp.test_hostile_server import AllAccepted
from vibe_jupyter.mcp.connection import ServerPool
from vibe_jupyter.mcp.hooks import OpenCalls
from vibe_jupyter.mcp.tool import McpTool, ToolWays
from vibe_jupyter.mcp.toolset import McpToolset
from vibe_jupyter.protocol import DOWNLOAD_MIME, ImagePart, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext

pytestmark = pytest.mark.asyncio(loop_scope="module")

FINE = {"type": "text", "text": "fine"}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
VIDEO = {"type": "video", "url": "https://example.org/film.mp4"}
RESULTS: dict[str, Any] = {
    "unknown_part": {"content": [FINE, VIDEO]},
    "only_unknown": {"content": [VIDEO]},
    "no_content": {},
    "null_content": {"content": None},
    "null_error": {"content": [FINE], "isError": None},
    "word_error": {"content": [FINE], "isError": "yes, quite"},
    "a_text": {"content": "fine"},
    "texts": {"content": ["fine", 7]},
    "one_part": {"content": FINE},
    "odd_notes": {"content": [{**FINE, "annotations": {"audience": "all"}}]},
    "odd_picture": {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png", "_meta": 3}]},
    "wrapped_picture": {"content": [{"type": "image", "data": textwrap.fill(PIXEL, 40), "mimeType": "image/png"}]},
    "no_base64": {"content": [{"type": "audio", "data": "<wave>", "mimeType": "audio/wav"}, FINE]},
    "half_picture": {"content": [{"type": "image", "mimeType": "image/png"}, FINE]},
    "rich_text": {"content": [{"type": "markdown", "text": "fine"}]},
    "listed": {"content": [FINE], "structuredContent": [1, 2]},
    "odd_meta": {"content": [FINE], "_meta": "none"},
    "null": None,
    "a_string": "fine",
    "parts": [FINE],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mcp(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[McpToolset]:
    folder: Path = tmp_path_factory.mktemp("project")
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in RESULTS]
    (folder / "written.json").write_text(json.dumps({"tools": tools, "results": RESULTS}), encoding="utf-8")
    at = forked(HERE / "written_server.py", str(folder / "written.json"))
    servers = ServerPool(folder, {"PATH": "/usr/bin:/bin"})
    servers.declare([declared("odd", at)])
    assert await servers.start(["odd"]) == []
    yield McpToolset(servers, AllAccepted(), ToolWays(OpenCalls(), lambda: True))
    await servers.close()


async def call(mcp: McpToolset, name: str) -> ToolResult:
    one = mcp.find(f"mcp__odd__{name}")
    assert isinstance(one, McpTool)
    return await one.run(one.arguments.model_validate({}), ToolContext("c1", lambda text: None, lambda: False))


def told(result: ToolResult) -> str:
    return "\n".join(part.text for part in result.parts if isinstance(part, TextPart))


@pytest.mark.attack("MCP servers", always=True)
@pytest.mark.parametrize("name", sorted(RESULTS))
async def test_no_answer_of_a_call_is_withheld_whole(mcp: McpToolset, name: str) -> None:
    result = await call(mcp, name)
    assert result.is_error == (name == "word_error")
    said = json.dumps(RESULTS[name])
    assert ("fine" in said) <= ("fine" in told(result))
    assert "cannot be used" not in told(result)


@pytest.mark.parametrize("name", ["unknown_part", "only_unknown"])
async def test_a_part_of_an_unknown_kind_is_named_and_the_call_is_said_to_be_done(mcp: McpToolset, name: str) -> None:
    text = told(await call(mcp, name))
    assert "The call completed." in text
    assert "'video'" in text
    assert "https://example.org/film.mp4" in text


@pytest.mark.parametrize("name", ["no_content", "null_content", "null"])
async def test_an_answer_that_says_nothing_is_no_failure(mcp: McpToolset, name: str) -> None:
    result = await call(mcp, name)
    assert "The call completed." in told(result)
    assert not result.is_error


async def test_a_picture_with_odd_notes_is_still_a_picture(mcp: McpToolset) -> None:
    parts = (await call(mcp, "odd_picture")).parts
    assert [part.data for part in parts if isinstance(part, ImagePart)] == [PIXEL]


async def test_base64_in_lines_is_read_and_what_is_none_is_not_said_to_be_given(mcp: McpToolset) -> None:
    parts = (await call(mcp, "wrapped_picture")).parts
    assert [part.data for part in parts if isinstance(part, ImagePart)] == [PIXEL]
    result = await call(mcp, "no_base64")
    assert "file 1.wav: audio/wav, not sent as base64, so nothing of it could be kept" in told(result)
    assert DOWNLOAD_MIME not in result.display


async def test_structured_content_of_another_form_is_told_as_text(mcp: McpToolset) -> None:
    assert "[1, 2]" in told(await call(mcp, "listed"))
