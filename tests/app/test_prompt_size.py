"""What every first request costs."""

import json
from importlib.util import find_spec
from pathlib import Path

from tests.app.conftest import Session
from vibe_jupyter.testing import say

_SPEC = find_spec("vibe_jupyter")
PACKAGE = str(Path(str(_SPEC.origin)).parent) if _SPEC is not None else ""

CHARACTERS_PER_TOKEN = 4
TOKENS = 3_000
"""System prompt and tool schemas together."""


def test_system_prompt_and_tool_schemas_stay_under_three_thousand_tokens(session: Session) -> None:
    session.model.will_reply(say("Hello."))
    session.run("%vibe hello")
    body = session.model.requests[0].body
    # Where this package and this test's files are installed is not the prompt's doing.
    prompt = body["messages"][0]["content"]
    for folder, instead in ((PACKAGE, "/lib/vibe_jupyter"), (str(session.folder), "/home/user")):
        prompt = prompt.replace(folder, instead)
    as_sent = json.dumps(body["tools"], separators=(",", ":"))
    size = len(prompt) + len(as_sent)
    assert size <= TOKENS * CHARACTERS_PER_TOKEN
