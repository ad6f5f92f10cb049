"""A request in parts: every byte belongs to one of them, whatever the API."""

import json

import pytest

from vibe_jupyter.commands.sent import PARTS, split_request
from vibe_jupyter.llm.client import BodyEncoder
from vibe_jupyter.llm.dialects import DIALECTS
from vibe_jupyter.llm.request import DialectName, Model, ModelRequestTerms, Server
from vibe_jupyter.protocol import (
    AssistantMessage,
    ImagePart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolSpec,
    UserMessage,
)

REPORT = '<notebook>\na.ipynb: 2 cells "é"\n</notebook>'
PIXEL = "iVBORw0KGgo="


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_every_byte_of_a_request_belongs_to_one_part(dialect: DialectName) -> None:
    model = Model(Server("s", "http://127.0.0.1:9/v1", dialect=dialect), "m", "m", sees_images=True)
    request = ModelRequestTerms(
        model=model,
        messages=(
            SystemMessage(text='You are "there" {[, é\n'),
            UserMessage(parts=(TextPart(text=f"{REPORT}\nPlot it."),)),
            AssistantMessage(
                parts=(ToolCall(id="c1", name="look", arguments='{"x": [1, {"y": "}]"}]}'),), stop_reason="tool_calls"
            ),
            ToolMessage(
                call_id="c1", name="look", parts=(TextPart(text="seen"), ImagePart(media_type="image/png", data=PIXEL))
            ),
        ),
        tools=(ToolSpec(name="look", description="Looks.", parameters={"type": "object", "properties": {}}),),
    )
    body = BodyEncoder(DIALECTS[dialect]).encode(request)
    parts = split_request(body.decode())
    assert tuple(parts) == PARTS
    assert sum(part.size for part in parts.values()) == len(body)
    assert all(line.encode() in body for name in ("system", "tools", "report", "images") for line in [parts[name].text])
    assert "You are" in parts["system"].text
    assert "Looks." in parts["tools"].text
    assert json.loads(f'"{parts["report"].text}"') == REPORT
    assert PIXEL in parts["images"].text
    assert PIXEL not in parts["messages"].text
    assert "Plot it." in parts["messages"].text
    assert '"model": "m"' in parts["settings"].text
