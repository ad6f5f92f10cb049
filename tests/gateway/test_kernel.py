"""`%vibe serve` in a kernel's process, and the end of a gateway that has answers under way."""

import os
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import PATIENCE, chat_body, chunks_of, gateway_at, read_events, text_of, until
from vibe_jupyter.commands.registry import run_command
from vibe_jupyter.commands.serve import KernelGateway
from vibe_jupyter.errors import ConfigError, NotebookError
from vibe_jupyter.gateway.server import TOKEN as TOKEN_VARIABLE
from vibe_jupyter.protocol import RunFinished
from vibe_jupyter.session.journal import read_journal
from vibe_jupyter.testing import ScriptedModel, call, hold


def test_a_kernel_serves_until_it_is_told_to_stop(
    tmp_path: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScriptedModel(["hi"]) as model:
        (tmp_path / "config.toml").write_text(
            f'active_model = "scripted"\n[[providers]]\nname = "here"\napi_base = "{model.url}"\n'
            '[[models]]\nname = "scripted"\nalias = "scripted"\nprovider = "here"\n',
            encoding="utf-8",
        )
        monkeypatch.setenv("VIBE_HOME", str(tmp_path))
        monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
        kernel = KernelGateway()
        assert "does not run" in kernel.status()
        said = kernel.start(tmp_path)
        try:
            url = said.split(" is at ")[1].split(",")[0]
            token = os.environ[TOKEN_VARIABLE]
            assert len(bytes.fromhex(token)) == 32
            assert token not in said
            headers = {"authorization": f"Bearer {token}"}
            found = httpx.post(f"{url}/chat/completions", json=chat_body("hello"), headers=headers, timeout=PATIENCE)
            assert found.json()["choices"][0]["message"]["content"] == "hi"
            assert url in kernel.status()
            with pytest.raises(NotebookError, match="runs already"):
                kernel.start(tmp_path)
        finally:
            assert kernel.stop() == "The gateway is stopped."
        assert TOKEN_VARIABLE not in os.environ
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/models")


def test_the_command_says_what_there_is() -> None:
    assert "does not run" in (run_command("serve status", _no_app, None) or "")
    with pytest.raises(ConfigError, match="%vibe serve start"):
        run_command("serve sometimes", _no_app, None)


def _no_app() -> Any:
    raise AssertionError


@pytest.mark.parametrize("mode", ["execute", "off"])
def test_a_gateway_that_is_stopped_tells_the_streams_that_do_not_end(tmp_path: Path, own_home: Path, mode: str) -> None:
    never = threading.Event()
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, grace=0.2) as gateway:
        gateway.will(hold(never, "Wait"))
        body = chat_body("hello", stream=True, mcp_mode=mode)
        with gateway.client.stream("POST", "/v1/chat/completions", json=body) as response:
            pieces = response.iter_bytes()
            read = next(pieces)
            gateway.server.stop()
            read += b"".join(pieces)
        events = read_events(read)
        assert events[-1].data == "[DONE]"
        assert "error" in events[-2].data
        assert model.requests[-1].gone.wait(PATIENCE)


def test_a_gateway_that_is_stopped_ends_tools_too(tmp_path: Path, own_home: Path) -> None:
    mark = tmp_path / "mark"
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model, grace=0.2) as gateway:
        gateway.will(call("mcp__sample__wait", period=60, mark=str(mark)))
        body = chat_body("hello", stream=True)
        with gateway.client.stream("POST", "/v1/chat/completions", json=body) as response:
            pieces = response.iter_bytes()
            read = next(pieces)
            until(mark.exists)
            gateway.server.stop()
            read += b"".join(pieces)
        events = read_events(read)
        assert "error" in events[-2].data
        assert mark.read_text() == "cancelled"

    (journal,) = (tmp_path / "home/logs/session/gateway").glob("*/journal.jsonl")
    contents = read_journal(journal)
    assert contents.dropped == ()
    ended = contents.events[-1]
    assert isinstance(ended, RunFinished)
    assert ended.reason == "interrupted"


def test_a_gateway_that_is_stopped_lets_short_answers_end(tmp_path: Path, own_home: Path) -> None:
    go_on = threading.Event()
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path, model) as gateway:
        gateway.will(hold(go_on, "Wait", " done."))
        body = chat_body("hello", stream=True)
        with gateway.client.stream("POST", "/v1/chat/completions", json=body) as response:
            pieces = response.iter_bytes()
            read = next(pieces)
            ending = threading.Thread(target=gateway.server.stop)
            ending.start()
            go_on.set()
            read += b"".join(pieces)
        ending.join(PATIENCE)
        assert text_of(chunks_of(read_events(read))) == "Wait done."
