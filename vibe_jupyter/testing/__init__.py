"""A model server that says what you tell it to, for tests of tools and notebooks, without a key or a network.

    from vibe_jupyter.testing import ScriptedModel, call

    with ScriptedModel([call("run_code", code="1 + 1"), "It is 2."]) as model:
        ...  # point a provider's api_base at model.url, run the agent
        assert model.requests[1].tool_results == ["2"]

It is a real HTTP server that speaks Chat Completions, streamed and not. Start reading at `scripted`.
`RecordingModel` stands before a real server instead, and keeps what it was sent.
"""

from vibe_jupyter.testing.recording import RecordingModel
from vibe_jupyter.testing.requests import ModelRequest
from vibe_jupyter.testing.scripted import ScriptedModel
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
    "Tokens",
    "answer",
    "call",
    "hold",
    "raw",
    "say",
    "status",
]
