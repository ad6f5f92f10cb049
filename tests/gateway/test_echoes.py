"""Thoughts and signatures through the gateway: what a client sends back reaches the model server that it came from.

Whole conversations of two rounds, with a tool of the client's and an MCP tool of the gateway's, as clients of Messages,
Responses and Chat Completions hold them: all that they got goes back with the next request.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.gateway import sdks
from tests.gateway.conftest import ALLOWED, TOKEN, Gateway, Sent, gateway_at
from tests.tiers import further
from vibe_jupyter.testing import Call, Raw, ScriptedModel, Strictness, answer, call, status

ADD = "mcp__sample__add"
ADDED = call(ADD, a=1, b=2)
LOOK = call("look", path="a.txt")
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
FUNCTION = {"name": "look", "parameters": SCHEMA}
OTHER = """
[[providers]]
name = "elsewhere"
api_base = "{url}"
[[models]]
name = "another"
alias = "another"
provider = "elsewhere"
"""


class Strict(NamedTuple):
    """A gateway before a model server of one strictness."""

    gateway: Gateway
    strictness: Strictness | None


class Client:
    """Holds a conversation as the clients of one API do."""

    path = ""

    def __init__(self, gateway: Gateway, *, stream: bool, model: str = "default") -> None:
        self.gateway = gateway
        self.stream = stream
        self.model = model
        self.said: list[Any] = []

    def body(self) -> dict[str, Any]:
        raise NotImplementedError

    def ask(self, text: str) -> str:
        """Ask, and answer the calls of the client's own tool until there are none; the answer's text."""
        self.said.append({"role": "user", "content": text})
        while True:
            body = {"model": self.model, **self.body()}
            if self.stream:
                made = self.whole(self.gateway.stream_at(self.path, body))
            else:
                found = self.gateway.client.post(self.path, json=body)
                assert found.status_code == 200, found.text
                made = found.json()
            said, calls = self.take(made)
            if not calls:
                return said
            for one in calls:
                self.result(one)

    def whole(self, events: Sequence[Sent]) -> dict[str, Any]:
        raise NotImplementedError

    def take(self, made: dict[str, Any]) -> tuple[str, list[str]]:
        raise NotImplementedError

    def result(self, call_id: str) -> None:
        raise NotImplementedError


class MessagesClient(Client):
    path = "/v1/messages"

    def body(self) -> dict[str, Any]:
        tool = {"name": "look", "input_schema": SCHEMA}
        return {"max_tokens": 100, "messages": self.said, "tools": [tool]}

    def whole(self, events: Sequence[Sent]) -> dict[str, Any]:
        blocks: list[dict[str, Any]] = []
        for event in events:
            assert event.name != "error", event.data
            if event.name == "content_block_start":
                blocks.append(dict(event.data["content_block"]))
            elif event.name == "content_block_delta":
                delta, block = event.data["delta"], blocks[event.data["index"]]
                for name in ("text", "thinking", "signature"):
                    if name in delta:
                        block[name] = block.get(name, "") + delta[name]
                if "partial_json" in delta:
                    block["input"] = json.loads(delta["partial_json"])
        return {"content": blocks}

    def take(self, made: dict[str, Any]) -> tuple[str, list[str]]:
        self.said.append({"role": "assistant", "content": made["content"]})
        calls = [block["id"] for block in made["content"] if block["type"] == "tool_use"]
        return "".join(block["text"] for block in made["content"] if block["type"] == "text"), calls

    def result(self, call_id: str) -> None:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": "seen"}
        self.said.append({"role": "user", "content": [block]})


class ResponsesClient(Client):
    """Sends back what Codex does: items without the text of their thoughts."""

    path = "/v1/responses"

    def body(self) -> dict[str, Any]:
        return {"input": self.said, "tools": [{"type": "function", **FUNCTION}], "store": False}

    def whole(self, events: Sequence[Sent]) -> dict[str, Any]:
        (ended,) = [event.data["response"] for event in events if event.name == "response.completed"]
        done = [event.data["item"] for event in events if event.name == "response.output_item.done"]
        assert done == ended["output"]
        return ended

    def take(self, made: dict[str, Any]) -> tuple[str, list[str]]:
        for item in made["output"]:
            if item["type"] == "reasoning":
                item = {name: value for name, value in item.items() if name != "content"}
            if item["type"] != "mcp_call":
                self.said.append(item)
        calls = [item["call_id"] for item in made["output"] if item["type"] == "function_call"]
        texts = [part["text"] for item in made["output"] if item["type"] == "message" for part in item["content"]]
        return "".join(texts), calls

    def result(self, call_id: str) -> None:
        self.said.append({"type": "function_call_output", "call_id": call_id, "output": "seen"})


class WholeItemsClient(ResponsesClient):
    """Sends back every item as it came, those of calls that were run here too."""

    def take(self, made: dict[str, Any]) -> tuple[str, list[str]]:
        before = len(self.said)
        taken = super().take(made)
        self.said[before:] = made["output"]
        return taken


class ContinuingClient(ResponsesClient):
    """Goes on by `previous_response_id`."""

    def body(self) -> dict[str, Any]:
        return {**super().body(), "store": True, **self._previous}

    _previous: dict[str, Any] = {}

    def take(self, made: dict[str, Any]) -> tuple[str, list[str]]:
        taken = super().take(made)
        self.said, self._previous = [], {"previous_response_id": made["id"]}
        return taken


class ChatClient(Client):
    path = "/v1/chat/completions"

    def body(self) -> dict[str, Any]:
        return {"messages": self.said, "tools": [{"type": "function", "function": FUNCTION}]}

    def whole(self, events: Sequence[Sent]) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        for event in events:
            if event.data == "[DONE]" or event.name:
                continue
            for choice in event.data["choices"]:
                for name, value in choice["delta"].items():
                    if isinstance(value, str) and name != "role":
                        message[name] = message.get(name, "") + value
                self._grow(message, choice["delta"].get("tool_calls") or [])
        return {"choices": [{"message": message}]}

    def _grow(self, message: dict[str, Any], pieces: list[Any]) -> None:
        for piece in pieces:
            calls: list[Any] = message.setdefault("tool_calls", [])
            index = piece.pop("index")
            if index == len(calls):
                calls.append(piece)
            else:
                calls[index]["function"]["arguments"] += piece["function"]["arguments"]

    def take(self, made: dict[str, Any]) -> tuple[str, list[str]]:
        message = made["choices"][0]["message"]
        self.said.append(message)
        return message["content"], [one["id"] for one in message.get("tool_calls") or ()]

    def result(self, call_id: str) -> None:
        self.said.append({"role": "tool", "tool_call_id": call_id, "content": "seen"})


CLIENTS = [MessagesClient, ResponsesClient, further(ContinuingClient), ChatClient]


@pytest.fixture(scope="module", params=["deepseek-thoughts", "gemini-signatures"])
def strict(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, own_home: Path
) -> Iterator[Strict]:
    with (
        ScriptedModel(strict=False, strictness=request.param) as model,
        gateway_at(tmp_path_factory.mktemp("gateway"), model) as gateway,
    ):
        yield Strict(gateway, request.param)


@pytest.fixture(scope="module")
def lenient(tmp_path_factory: pytest.TempPathFactory, own_home: Path) -> Iterator[tuple[Gateway, ScriptedModel]]:
    """A gateway with two model servers that take everything."""
    with (
        ScriptedModel(strict=False) as model,
        ScriptedModel(strict=False) as other,
        gateway_at(tmp_path_factory.mktemp("gateway"), model, ALLOWED + OTHER.format(url=other.url)) as gateway,
    ):
        yield gateway, other


def answers(model: ScriptedModel) -> list[dict[str, Any]]:
    return [one for one in model.requests[-1].messages if one["role"] == "assistant"]


@pytest.mark.requirement("gateway.translated.thoughts", "testing.strict.thoughts")
@pytest.mark.parametrize("kind", CLIENTS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_tool_loop_through_the_gateway_keeps_thoughts_and_signatures(
    strict: Strict, kind: type[Client], *, stream: bool
) -> None:
    client = kind(strict.gateway, stream=stream)
    first = strict.gateway.will(ADDED, LOOK, answer("I look again.", calls=[LOOK]), "It is 3.", LOOK, "Bye.")

    assert client.ask("go").endswith("It is 3.")
    assert client.ask("and?").endswith("Bye.")

    assert len(strict.gateway.model.requests) == first + 5  # none was refused
    sent = answers(strict.gateway.model)
    if strict.strictness == "deepseek-thoughts":
        assert all(one["reasoning_content"].startswith("These are the thoughts of answer ") for one in sent)
    assert sent[-1]["tool_calls"]


@pytest.mark.requirement("gateway.translated.thoughts")
@pytest.mark.parametrize("steps", ["anthropic_loop", "openai_responses_loop", "openai_chat_loop"])
def test_vendors_sdks_lead_a_tool_loop_on_servers_that_want_thoughts_back(strict: Strict, steps: str) -> None:
    first = strict.gateway.will(LOOK, ADDED, answer("Again.", calls=[LOOK]), "It is 3.")

    assert sdks.use(steps, strict.gateway.server.url, TOKEN).endswith("It is 3.")
    assert len(strict.gateway.model.requests) == first + 3  # none was refused


@pytest.mark.requirement("gateway.translated.thoughts")
@pytest.mark.parametrize("kind", [MessagesClient, ResponsesClient])
@pytest.mark.parametrize("stream", [True, False])
def test_every_field_beside_an_answer_goes_back_to_its_server_and_to_no_other(
    lenient: tuple[Gateway, ScriptedModel], kind: type[Client], *, stream: bool
) -> None:
    gateway, other = lenient
    details = [{"type": "reasoning.text", "text": "Hm.", "signature": "c2VhbA=="}]
    signed = Call("look", "{}", beside={"extra_content": {"google": {"thought_signature": "Zg=="}}})
    client = kind(gateway, stream=stream)
    gateway.will(answer("I look.", calls=[signed], reasoning="Hm.", beside={"reasoning_details": details}), "done")

    client.ask("go")

    (sent,) = answers(gateway.model)
    assert (sent["content"], sent["reasoning_content"], sent["reasoning_details"]) == ("I look.", "Hm.", details)
    assert sent["tool_calls"][0]["extra_content"] == signed.beside["extra_content"]
    client.model = "another"
    other.will_reply("hello")
    client.ask("and you?")
    raw = other.requests[-1].raw.decode()
    assert [name for name in ("Hm.", "reasoning", "extra_content", "x_vibe") if name in raw] == []


def thinking(text: str, seal: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}], "signature": seal}


def mistral_answer(parts: Sequence[dict[str, Any]], *, stream: bool, ends: str = "stop", **fields: Any) -> Raw:
    """Return an answer whose content is parts, each signature in a chunk behind its text."""
    if not stream:
        message = {"role": "assistant", "content": list(parts), **fields}
        return Raw(
            (json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": ends}]}).encode(),),
            content_type="application/json",
        )
    deltas: list[dict[str, Any]] = []
    for part in parts:
        seal = part.get("signature")
        deltas.append({"content": [{name: value for name, value in part.items() if name != "signature"}]})
        deltas += [{"content": [{"type": "thinking", "thinking": [], "signature": seal}]}] if seal else []
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": one}]} for one in [*deltas, fields] if one]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": ends}]})
    return Raw(("".join(f"data: {json.dumps(one)}\n\n" for one in chunks).encode(), b"data: [DONE]\n\n"))


@pytest.mark.requirement("gateway.translated.thoughts")
@pytest.mark.parametrize("kind", [MessagesClient, ResponsesClient])
@pytest.mark.parametrize("stream", [True, False])
def test_signatures_of_thinking_parts_go_back_each_with_its_own(
    lenient: tuple[Gateway, ScriptedModel], kind: type[Client], *, stream: bool
) -> None:
    gateway, _ = lenient
    client = kind(gateway, stream=stream)
    look = {"index": 0, "id": "call00001", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    text = {"type": "text", "text": "I look."}
    first = mistral_answer([thinking("Hm.", "s1"), text], stream=stream, ends="tool_calls", tool_calls=[look])
    plain = {"type": "thinking", "thinking": [{"type": "text", "text": "So."}]}
    gateway.will(first, mistral_answer([plain, {"type": "text", "text": "Done."}], stream=stream), "Bye.")

    client.ask("go")
    client.ask("and?")

    sent = [one["content"] for one in answers(gateway.model)]
    assert sent == [[thinking("Hm.", "s1"), text], [plain, {"type": "text", "text": "Done."}]]


@pytest.mark.requirement("gateway.translated.resent")
@pytest.mark.parametrize("stream", [True, False])
def test_a_call_of_ours_that_a_client_sends_back_reaches_the_model_once(
    lenient: tuple[Gateway, ScriptedModel], *, stream: bool
) -> None:
    gateway, _ = lenient
    client = WholeItemsClient(gateway, stream=stream)
    both = answer("Both.", calls=[Call("look", '{"path": "b"}'), Call(ADD, '{"a": 2, "b": 2}')])
    gateway.will(answer("First.", calls=[ADDED]), answer("I look.", calls=[LOOK]), both, "Done.", ADDED, "Bye.")

    client.ask("go")
    client.ask("and?")

    sent = gateway.model.requests[-1].messages
    said = [
        (one["content"], [call["function"]["name"] for call in one.get("tool_calls", ())])
        for one in answers(gateway.model)
    ]
    assert said == [("First.", [ADD]), ("I look.", ["look"]), ("Both.", ["look", ADD]), ("Done.", []), ("", [ADD])]
    ids = [call["id"] for one in sent for call in one.get("tool_calls") or ()]
    assert [one["tool_call_id"] for one in sent if one["role"] == "tool"] == ids
    assert len(set(ids)) == len(ids) == 5


@pytest.mark.requirement("gateway.translated.joined")
@pytest.mark.parametrize("kind", [MessagesClient, ResponsesClient])
def test_neighbouring_answers_become_one_with_the_thoughts_of_both(
    lenient: tuple[Gateway, ScriptedModel], kind: type[Client]
) -> None:
    gateway, _ = lenient
    client = kind(gateway, stream=False)
    details = [[{"type": "reasoning.text", "text": text}] for text in ("Hm.", "So.")]
    for text, detail in zip(("Hm.", "So."), details, strict=True):
        gateway.will(answer(f"{text}!", reasoning=text, beside={"reasoning_details": detail}))
        client.ask("go")
    client.said = [one for one in client.said if one.get("role") != "user"]
    gateway.will("Bye.")

    client.ask("and?")

    (sent,) = answers(gateway.model)
    assert (sent["content"], sent["reasoning_content"].split()) in (
        ("Hm.!\n\nSo.!", ["Hm.", "So."]),
        ("Hm.!\n\nSo.!", ["Hm.So."]),  # items of reasoning follow each other
    )
    assert sent["reasoning_details"] == [*details[0], *details[1]]


@pytest.mark.requirement("gateway.translated.thoughts")
def test_thoughts_of_another_vendor_reach_no_model_server(lenient: tuple[Gateway, ScriptedModel]) -> None:
    gateway, _ = lenient
    client = MessagesClient(gateway, stream=False)
    blocks = [
        {"type": "thinking", "thinking": "Secret thoughts.", "signature": "EqQBCkYIAxgCKkC"},
        {"type": "redacted_thinking", "data": "vibe1.bm90IGpzb24="},
        {"type": "text", "text": "Hi."},
    ]
    client.said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": blocks}]
    gateway.will("ok")

    client.ask("more")

    assert answers(gateway.model) == [{"role": "assistant", "content": "Hi."}]


@pytest.mark.requirement("gateway.translated.thoughts")
@pytest.mark.parametrize("kind", [MessagesClient, ResponsesClient])
def test_a_conversation_that_began_elsewhere_goes_on_with_fillers(strict: Strict, kind: type[Client]) -> None:
    client = kind(strict.gateway, stream=False)
    client.said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hi."}]
    strict.gateway.will(LOOK, "done")

    assert client.ask("go") == "done"


@pytest.mark.requirement("gateway.translated.thoughts")
def test_a_field_that_is_refused_is_left_out_from_then_on(
    lenient: tuple[Gateway, ScriptedModel],
) -> None:
    gateway, other = lenient
    refused = status(400, {"error": {"message": "Unknown parameter: 'messages[1].reasoning_content'."}})
    said = answer(calls=[LOOK], reasoning="Hm.")
    client = MessagesClient(gateway, stream=True, model="another")
    first = len(other.requests)
    other.will_reply(said, refused, said, "done")

    assert client.ask("go") == "done"

    assert len(other.requests) == first + 4
    assert ["reasoning_content" in one for one in answers(other)] == [False, False]
