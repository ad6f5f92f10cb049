"""The mistral.rs dialect over real HTTP: what is sent, what is read, and what is passed over."""

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.llm.agentic_server import (
    END,
    AgenticServer,
    Await,
    Chunk,
    Hold,
    Line,
    Named,
    Raw,
    Whole,
    approval,
    produced,
    progress,
    serving,
)
from tests.patience import patient
from vibe_jupyter import config
from vibe_jupyter.app.model_check import check_model
from vibe_jupyter.app.models import ModelChoice
from vibe_jupyter.errors import ModelError
from vibe_jupyter.llm.client import Item, LLMClient
from vibe_jupyter.llm.connections import FetchRequest, id_in_path
from vibe_jupyter.llm.dialects import DIALECTS
from vibe_jupyter.llm.growing_answer import reader_for
from vibe_jupyter.llm.request import AnswerLimits, Model, ModelReply, ModelRequestTerms, Server
from vibe_jupyter.protocol import TextDelta, TextPart, UserMessage

WAIT = patient(30.0)
"""Seconds any of these may take."""


def model_at(server: AgenticServer, *, name: str = "default", key: str | None = None) -> Model:
    return Model(Server("rs", server.url, api_key=key, dialect="mistralrs"), name, "rs")


async def answered(model: Model, *, stream: bool = True, limits: AnswerLimits | None = None) -> list[Item]:
    """Everything of one answer."""
    client = LLMClient(user_agent="vibe-jupyter/test", limits=limits)
    asked = ModelRequestTerms(model, (UserMessage(parts=(TextPart(text="go"),)),), stream=stream)
    try:
        async with asyncio.timeout(WAIT):
            return [item async for item in client.answer(asked)]
    finally:
        await client.close()


def text_of(items: Sequence[Item]) -> str:
    return "".join(item.text for item in items if isinstance(item, TextDelta))


@pytest.mark.requirement("mistralrs.backend.name")
async def test_the_backend_of_a_provider_chooses_it(tmp_path: Path) -> None:
    with serving([progress("calling", tool_type="custom"), Chunk("Hello."), *END]) as server:
        (tmp_path / "config.toml").write_text(
            f'active_model = "there"\n[[providers]]\nname = "rs"\napi_base = "{server.url}"\nbackend = "mistralrs"\n'
            '[[models]]\nname = "default"\nprovider = "rs"\nalias = "there"\n',
            encoding="utf-8",
        )
        environ = {"VIBE_HOME": str(tmp_path)}
        items = await answered(config.choose_model(config.load_settings(environ), "there", environ))
        assert server.requests[0]["messages"] == [{"role": "user", "content": "go"}]
    assert [type(item).__name__ for item in items] == ["HostedCall", "TextDelta", "ModelReply"]


@pytest.mark.parametrize("key", [None, "x", "any non-empty one".replace(" ", "-")])
@pytest.mark.requirement("mistralrs.auth.any-key")
async def test_it_works_without_a_key_and_with_any(key: str | None) -> None:
    with serving([Chunk("Hello."), *END]) as server:
        assert text_of(await answered(model_at(server, key=key))) == "Hello."
        assert server.keys == [None if key is None else f"Bearer {key}"]


@pytest.mark.parametrize("name", ["default", ""])
@pytest.mark.requirement("mistralrs.model.default")
async def test_no_name_of_a_model_is_the_servers_own_choice(name: str) -> None:
    with serving([Chunk("Hello."), *END]) as server:
        await answered(model_at(server, name=name))
        assert server.requests[0]["model"] == "default"


@pytest.mark.requirement("mistralrs.stream.unnamed")
async def test_only_unnamed_lines_are_chunks_and_done_ends_the_stream() -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "Not said."}}]}
    script: list[Line] = [Chunk("Said."), Named("agentic_tool_call_progress", chunk), Named("other", chunk), *END]
    with serving([*script, Chunk("Too late.")]) as server:
        items = await answered(model_at(server))
    assert text_of(items) == "Said."
    assert isinstance(items[-1], ModelReply)
    assert items[-1].message.text == "Said."


@pytest.mark.requirement("mistralrs.stream.keep-alive")
async def test_keep_alive_signs_disturb_nothing_and_hide_no_stall() -> None:
    comment = Raw(b": keep-alive\n\n")
    with serving([comment, Chunk("He"), comment, comment, Chunk("llo."), comment, *END]) as server:
        assert text_of(await answered(model_at(server))) == "Hello."
    with serving([Chunk("He"), Hold(threading.Event())]) as server:
        with pytest.raises(ModelError, match="keep-alive") as caught:
            await answered(model_at(server), limits=AnswerLimits(answer=0.4, gap=5.0))
        assert caught.value.kind == "limit"


@pytest.mark.requirement("mistralrs.usage.superset")
async def test_timing_fields_beside_the_counts_are_taken() -> None:
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 3,
        "total_tokens": 10,
        "avg_tok_per_sec": 51.2,
        "avg_prompt_tok_per_sec": 800.0,
        "avg_compl_tok_per_sec": 40.5,
        "total_time_sec": 0.2,
    }
    whole = Whole({"choices": [{"message": {"content": "A"}, "finish_reason": "stop"}], "usage": usage})
    with serving([Chunk("A", finish="stop", more={"usage": usage}), Raw(b"data: [DONE]\n\n")], whole) as server:
        answers = [(await answered(model_at(server), stream=stream))[-1] for stream in (True, False)]
    for reply in answers:
        assert isinstance(reply, ModelReply)
        assert reply.message.usage is not None
        assert (reply.message.usage.prompt_tokens, reply.message.usage.completion_tokens) == (7, 3)


def test_the_events_are_the_same_in_whatever_pieces_they_come() -> None:
    bodies = [progress("calling", tool_type="shell", commands=["ls"]), approval(), produced()]
    stream = b"".join(f"event: {one.name}\ndata: {json.dumps(one.body)}\n\n".encode() for one in bodies)
    stream += b'data: {"session_id": "s", "choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}\n\n'

    def read(size: int) -> list[Any]:
        decoder = DIALECTS["mistralrs"].decoder(Model(Server("", "http://127.0.0.1:1/v1"), "m", "m"), AnswerLimits())
        reader = reader_for("text/event-stream", decoder, AnswerLimits(), streamed=True)
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        return [item for piece in pieces for item in reader.feed(piece)]

    whole = read(len(stream))
    kinds = [type(item).__name__ for item in whole]
    assert kinds == ["HostedCall", "HostedSession", "HostedCallRequest", "HostedFile", "HostedSession", "TextDelta"]
    assert all(read(size) == whole for size in (1, 2, 7, 64))


async def test_an_id_of_a_server_leads_nowhere_else_and_bounds_hold() -> None:
    assert id_in_path("../../v1/x?y#z") == "..%2F..%2Fv1%2Fx%3Fy%23z"
    for nothing in ("", ".", ".."):
        with pytest.raises(ValueError, match="no id"):
            id_in_path(nothing)
    with serving() as server:
        server.files = {"big": (200, b"x" * 5_000)}
        client = LLMClient(user_agent="vibe-jupyter/test")
        try:
            with pytest.raises(ModelError, match="1,000 bytes"):
                await client.fetch(model_at(server), FetchRequest("GET", "/files/big/content", most=1_000))
        finally:
            await client.close()


@pytest.mark.requirement("mistralrs.model.list")
def test_the_list_of_models_says_what_the_server_says_of_each(tmp_path: Path) -> None:
    with serving() as server:
        server.models = [
            {
                "id": "org/big",
                "status": "loaded",
                "tools_available": True,
                "mcp_tools_count": 3,
                "mcp_servers_connected": 1,
            },
            {"id": "org/small", "status": "unloaded"},
            {"id": "bare"},
        ]
        (tmp_path / "config.toml").write_text(
            f'active_model = "there"\n[[providers]]\nname = "rs"\napi_base = "{server.url}"\nbackend = "mistralrs"\n'
            '[[models]]\nname = "default"\nprovider = "rs"\nalias = "there"\n',
            encoding="utf-8",
        )
        models = ModelChoice({"VIBE_HOME": str(tmp_path)})
        lines = [line.strip() for line in models.listing().splitlines()]
        assert lines[-4:] == [
            f"{server.host} has:",
            "org/big: loaded, tools of its own, 3 MCP tools, 1 MCP server connected",
            "org/small: unloaded",
            "bare",
        ]
        server.models = []
        assert f"{server.host} does not list its models." in models.listing()
    assert f"{server.host} is not responding right now." in models.listing()


def test_the_check_says_no_to_what_the_server_wants_to_run_and_goes_on() -> None:
    call = {"index": 0, "id": "c1", "function": {"name": "echo", "arguments": '{"word": "hello"}'}}
    calls = Raw(b"data: " + json.dumps({"choices": [{"delta": {"tool_calls": [call]}}]}).encode() + b"\n\n")
    lines: list[str] = []
    with serving((Chunk("Hel"), approval(), Await("appr_1"), Chunk("lo."), *END), (calls, *END)) as server:
        assert check_model(model_at(server), lines.append)
        assert server.decisions == [("appr_1", {"decision": "deny"})]
    assert [line[0] for line in lines[1:]] == ["–", "✓", "✓", "✓", "–"]
    assert "the server wanted to run Python code by itself; it was denied" in lines[1]
