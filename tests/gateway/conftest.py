"""A real gateway on a thread of its own, before a scripted model and with a real MCP server. One for each module."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.kernel.fork_server import script_command
from tests.patience import patient
from vibe_jupyter.gateway.approvals import APPROVAL_WAIT
from vibe_jupyter.gateway.server import GRACE, GatewayServer, ServerWaits
from vibe_jupyter.gateway.server import TOKEN as TOKEN_VARIABLE
from vibe_jupyter.llm.connections import tls_context
from vibe_jupyter.testing import ScriptedModel, Strictness

TOKEN = "0f" * 32
SAMPLE = Path(__file__).parents[1] / "mcp" / "sample_server.py"
PATIENCE = patient(30.0)
"""Seconds for what takes a moment, on a machine that is busy."""

_MODELS = """
active_model = "scripted"
[[providers]]
name = "here"
api_base = "{url}"
[[models]]
name = "scripted"
alias = "scripted"
provider = "here"
[[models]]
name = "scripted"
alias = "other-name"
provider = "here"
"""
_SERVERS = """
[[mcp_servers]]
name = "sample"
transport = "stdio"
command = {command}
startup_timeout_sec = 60
"""
ALLOWED = """
[gateway]
allow = ["mcp__*"]
"""

_STRICT = """
[[providers]]
name = "strict"
api_base = "{url}"
backend = "{backend}"
[[models]]
name = "scripted"
alias = "strict"
provider = "strict"
"""


class Sent(NamedTuple):
    """An event of a stream."""

    name: str
    data: Any


class Gateway:
    """One that serves, and the model behind it."""

    def __init__(self, server: GatewayServer, model: ScriptedModel, folder: Path, variables: Mapping[str, str]) -> None:
        self.server = server
        self.folder = folder
        self.variables = variables
        self.model = model
        self.client = httpx.Client(
            base_url=server.url.removesuffix("/v1"),
            headers={"authorization": f"Bearer {TOKEN}"},
            timeout=PATIENCE,
            verify=tls_context(tls=False),
        )

    def chat(self, content: str = "hello", **fields: Any) -> httpx.Response:
        """Ask without a stream."""
        return self.client.post("/v1/chat/completions", json=chat_body(content, **fields))

    def stream(self, content: str = "hello", **fields: Any) -> list[Sent]:
        """Ask with one; all its events."""
        return self.stream_at("/v1/chat/completions", chat_body(content, **fields))

    def stream_at(self, path: str, body: Mapping[str, Any]) -> list[Sent]:
        """All events of any route that streams."""
        with self.client.stream("POST", path, json={**body, "stream": True}) as response:
            assert response.status_code == 200, response.read()
            return read_events(response.read())

    def will(self, *replies: Any) -> int:
        """What the model says next; the number of the first request that gets it."""
        first = len(self.model.requests) + 1
        self.model.will_reply(*replies)
        return first

    def close(self) -> None:
        self.client.close()


def until(is_so: Callable[[], bool], *, within: float = PATIENCE) -> None:
    """Wait for something that happens elsewhere, so many seconds."""
    end = time.monotonic() + within
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.02)


def chat_body(content: str, **fields: Any) -> dict[str, Any]:
    return {"model": "default", "messages": [{"role": "user", "content": content}], **fields}


def read_events(raw: bytes) -> list[Sent]:
    """The events of a whole stream, comments left out."""
    events: list[Sent] = []
    for block in raw.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines:
            fields = dict(line.split(": ", 1) for line in lines)
            data = fields["data"]
            events.append(Sent(fields.get("event", ""), data if data == "[DONE]" else json.loads(data)))
    return events


def chunks_of(events: Sequence[Sent]) -> list[dict[str, Any]]:
    """The chunks of Chat Completions among them."""
    return [event.data for event in events if not event.name and event.data != "[DONE]"]


def text_of(chunks: Sequence[Mapping[str, Any]]) -> str:
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


def settings_text(model: ScriptedModel) -> str:
    """What all of them have: the model, and an MCP server."""
    return model_settings(model.url) + _SERVERS.format(command=json.dumps(script_command(SAMPLE)))


def model_settings(url: str) -> str:
    """The model alone, at a server's address."""
    return _MODELS.format(url=url)


@contextmanager
def gateway_at(
    folder: Path,
    model: ScriptedModel,
    settings: str = ALLOWED,
    *,
    environ: Mapping[str, str] | None = None,
    approval_wait: float = APPROVAL_WAIT,
    grace: float = GRACE,
) -> Iterator[Gateway]:
    """One with settings of its own, whose MCP server is accepted."""
    home = folder / "home"
    home.mkdir(parents=True)
    (home / "config.toml").write_text(settings_text(model) + settings, encoding="utf-8")
    variables = {**os.environ, "VIBE_HOME": str(home), TOKEN_VARIABLE: TOKEN, **(environ or {})}
    server = GatewayServer(folder, variables, port=0, waits=ServerWaits(approval_wait, grace))
    server.agents.accepted.remember(
        [one.identity for one in server.agents.declared_servers() if one.identity is not None], accepted=True
    )
    server.start()
    gateway = Gateway(server, model, folder, variables)
    try:
        yield gateway
    finally:
        gateway.close()
        server.stop()


@contextmanager
def strict_gateway(folder: Path, strictness: Strictness) -> Iterator[Gateway]:
    """One whose model ``strict`` has a server of this strictness."""
    backend = "mistral" if strictness == "mistral-fields" else "generic"
    with ScriptedModel(strict=False, strictness=strictness) as model:
        settings = _STRICT.format(url=model.url, backend=backend) + ALLOWED
        with gateway_at(folder, model, settings) as gateway:
            yield gateway


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, own_home: Path) -> Iterator[Gateway]:
    """One for all tests of a module."""
    with ScriptedModel(strict=False) as model, gateway_at(tmp_path_factory.mktemp("gateway"), model) as gateway:
        yield gateway
