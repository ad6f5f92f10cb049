"""A scripted model server for tests of tools and notebooks. It needs no API key and no network.

    from vibe_jupyter.testing import ScriptedModel, call

    with ScriptedModel([call("run_code", code="1 + 1"), "It is 2."]) as model:
        ...  # point a provider's api_base at model.url, run the agent
        assert model.requests[1].tool_results == ["2"]

It is a real HTTP server that implements Chat Completions, with and without streaming. With `strictness`, it rejects
the same requests as one kind of strict server. `RecordingModel` is a proxy in front of a real server instead, and
records the requests to it.

Start reading at `scripted`.
"""

from vibe_jupyter.testing.recording import RecordingModel
from vibe_jupyter.testing.requests import ModelRequest
from vibe_jupyter.testing.scripted import ScriptedModel
from vibe_jupyter.testing.strictness import Strictness
from vibe_jupyter.testing.wire import (
    Call,
    Raw,
    Reply,
    ScriptedAnswer,
    Status,
    Tokens,
    answer,
    call,
    hold,
    raw,
    say,
    status,
)

__all__ = [
    "Call",
    "ModelRequest",
    "Raw",
    "RecordingModel",
    "Reply",
    "ScriptedAnswer",
    "ScriptedModel",
    "Status",
    "Strictness",
    "Tokens",
    "answer",
    "call",
    "hold",
    "raw",
    "say",
    "status",
]
