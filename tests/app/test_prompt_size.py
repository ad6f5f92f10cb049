"""What every first request costs."""

import json

from tests.app.conftest import Session
from vibe_jupyter.testing import say

CHARACTERS_PER_TOKEN = 4
TOKENS = 3_000
"""System prompt and tool schemas together."""


def test_system_prompt_and_tool_schemas_stay_under_three_thousand_tokens(session: Session) -> None:
    session.model.will_reply(say("Hello."))
    session.run("%vibe hello")
    body = session.model.requests[0].body
    size = len(body["messages"][0]["content"]) + len(json.dumps(body["tools"]))
    assert size <= TOKENS * CHARACTERS_PER_TOKEN
