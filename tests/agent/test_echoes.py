"""What a model server puts beside its answers goes back to it unchanged, and to no other, over real HTTP."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from tests.agent.conftest import Bench
from tests.tiers import further
from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.commands.sent import sent_command
from vibe_jupyter.llm.request import DialectName, Model, Server, Thinking
from vibe_jupyter.permissions.redaction import Redactor
from vibe_jupyter.protocol import Event, RunFinished
from vibe_jupyter.session.conversation import Conversation
from vibe_jupyter.session.journal import Journal
from vibe_jupyter.testing import Call, ScriptedModel, Strictness, answer, raw, status

ONE = Call("quiet", '{"text": "one"}')
TWO = Call("quiet", '{"text": "two"}')
SIGNED = Call("quiet", '{"text": "one"}', beside={"extra_content": {"google": {"thought_signature": "c2lnbmVk"}}})
DETAILS = [{"type": "reasoning.text", "index": 0, "text": "Let me see.", "signature": "c2VhbA=="}]
SECRET = "hunter2-hunter2-hunter2"
UNKNOWN: Final = "Unknown parameter: 'messages[2].{}'."


class Asked(Bench):
    """A bench whose model can be changed between prompts."""

    def __init__(self, bench: Bench) -> None:
        self.__dict__ = bench.__dict__
        self.address, self.name = self.model.url, "scripted"
        self.dialect: DialectName = "openai"
        self.thinking: Thinking | None = None
        self.reasoning_field = ""
        self.redactor = Redactor()

    def agent(self) -> Agent:
        server = Server("scripted", self.address, dialect=self.dialect, reasoning_field=self.reasoning_field)
        model = Model(server, self.name, "scripted", thinking=self.thinking)
        return super().agent()._replace(model=model, redactor=self.redactor)


@pytest.fixture
def asked(bench: Bench) -> Asked:
    return Asked(bench)


def reason(events: Sequence[Event]) -> str:
    (finished,) = [event for event in events if isinstance(event, RunFinished)]
    return finished.error or finished.reason


def answers(model: ScriptedModel) -> list[dict[str, Any]]:
    """The answers among the messages of the latest request."""
    return [one for one in model.requests[-1].messages if one["role"] == "assistant"]


def chunks(*deltas: Mapping[str, Any], finish: str = "tool_calls") -> Any:
    """A stream of these deltas."""
    lines: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    lines.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    return raw([*(f"data: {json.dumps(line)}\n\n".encode() for line in lines), b"data: [DONE]\n\n"])


@pytest.mark.requirement("echoes.returned", "testing.strict.thoughts")
@pytest.mark.parametrize("strictness", ["deepseek-thoughts", "gemini-signatures"])
@pytest.mark.parametrize("stream", [True, False])
async def test_two_rounds_of_tools_end_on_servers_that_want_thoughts_or_signatures_back(
    asked: Asked, strictness: Strictness, *, stream: bool
) -> None:
    with ScriptedModel([ONE, answer(calls=[TWO, ONE]), "done", ONE, "again"], strictness=strictness) as model:
        asked.address, asked.stream = model.url, stream

        ends = [reason(await asked.ask("go")), reason(await asked.ask("on"))]

        assert ends == ["stop", "stop"]
        assert len(model.requests) == 5  # none was refused
        assert asked.quiet.ran == ["one", "two", "one", "one"]


@pytest.mark.requirement("echoes.returned")
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (answer(calls=[ONE], reasoning="I think."), {"reasoning_content": "I think."}),
        (answer(calls=[SIGNED]), {"signed": True}),
        (answer(calls=[ONE], beside={"reasoning": "I think.", "reasoning_details": DETAILS}), {"details": DETAILS}),
        (answer(calls=[ONE], beside={"vendor_state": {"a": [1, {"b": "c"}]}}), {"vendor": {"a": [1, {"b": "c"}]}}),
    ],
)
async def test_fields_beside_messages_and_calls_go_back_under_their_names(
    asked: Asked, reply: Any, expected: dict[str, Any], *, stream: bool
) -> None:
    asked.stream = stream
    asked.model.will_reply(reply, "done")

    assert reason(await asked.ask("go")) == "stop"

    (sent,) = answers(asked.model)
    kept = {
        "reasoning_content": sent.get("reasoning_content"),
        "signed": sent["tool_calls"][0].get("extra_content") == SIGNED.beside["extra_content"] or None,
        "details": sent.get("reasoning_details"),
        "vendor": sent.get("vendor_state"),
    }
    assert {name: value for name, value in kept.items() if value is not None} == expected
    shown = sent_command(asked.client.sent, "messages") or ""
    assert all(name in shown for name in sent)


@pytest.mark.requirement("echoes.streamed")
async def test_fields_in_pieces_are_joined_by_their_form(asked: Asked) -> None:
    head = {"index": 0, "id": "c1", "type": "function", "function": {"name": "quiet", "arguments": '{"text":'}}
    tail = {"index": 0, "function": {"arguments": '"one"}'}, "extra_content": {"google": {"thought_signature": "Zg=="}}}
    asked.model.will_reply(
        chunks(
            {"role": "assistant", "content": None, "reasoning_details": [], "vendor_note": None},
            {"reasoning": "Let ", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "Let "}]},
            {"reasoning": "me.", "reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "me."}]},
            {"reasoning_details": [{"type": "reasoning.text", "index": 0, "text": "", "signature": "c2VhbA=="}]},
            {"reasoning_details": [{"type": "reasoning.encrypted", "index": 0, "id": "r1", "data": "AAAA"}]},
            {
                "vendor_note": "ab",
                "vendor_state": {"step": 1, "text": "x"},
                "thinking_blocks": [{"type": "t", "t": "1"}],
            },
            {
                "vendor_note": "ab",
                "vendor_state": {"step": 2, "text": "y"},
                "thinking_blocks": [{"type": "t", "t": "2"}],
            },
            {"tool_calls": [head]},
            {"tool_calls": [tail]},
        ),
        "done",
    )

    assert reason(await asked.ask("go")) == "stop"

    (sent,) = answers(asked.model)
    (made,) = sent.pop("tool_calls")
    assert made["extra_content"] == {"google": {"thought_signature": "Zg=="}}
    assert sent == {
        "role": "assistant",
        "content": "",
        "reasoning": "Let me.",
        "reasoning_details": [
            {"type": "reasoning.text", "index": 0, "text": "Let me.", "signature": "c2VhbA=="},
            {"type": "reasoning.encrypted", "index": 0, "id": "r1", "data": "AAAA"},
        ],
        "vendor_note": "abab",
        "vendor_state": {"step": 2, "text": "xy"},
        "thinking_blocks": [{"type": "t", "t": "12"}],
    }


@pytest.mark.requirement("echoes.returned")
@pytest.mark.parametrize("stream", [True, False])
async def test_mistrals_thoughts_go_back_as_parts_and_ollamas_as_thinking(asked: Asked, *, stream: bool) -> None:
    asked.stream = stream
    with ScriptedModel([answer(calls=[ONE], reasoning="I think."), "done"], dialect="mistral") as model:
        asked.address, asked.dialect = model.url, "mistral"
        assert reason(await asked.ask("go")) == "stop"
        assert answers(model)[0]["content"] == [
            {"type": "thinking", "thinking": [{"type": "text", "text": "I think."}]}
        ]
    asked.address, asked.dialect = asked.model.url, "ollama"
    asked.model.will_reply(answer(calls=[SIGNED], reasoning="I think."), "done")
    assert reason(await asked.ask("go")) == "stop"
    *_, sent = answers(asked.model)
    assert (sent["thinking"], sent["tool_calls"][0]["extra_content"]) == ("I think.", SIGNED.beside["extra_content"])


@pytest.mark.requirement("echoes.own-server")
@pytest.mark.parametrize("dialect", ["openai", further("ollama"), further("mistral")])
async def test_another_server_gets_nothing_of_it_and_the_first_one_gets_it_again(
    asked: Asked, dialect: DialectName
) -> None:
    said = answer(calls=[SIGNED], reasoning="Only for you.", beside={"vendor_state": {"a": "mine"}})
    asked.model.will_reply(said, "done", "more")
    await asked.ask("go")
    with ScriptedModel(["hello"], dialect="mistral" if dialect == "mistral" else "openai") as other:
        asked.address, asked.dialect, asked.thinking = other.url, dialect, "high"

        assert reason(await asked.ask("and you?")) == "stop"

        sent = other.requests[-1].raw.decode().replace("reasoning_effort", "")
        assert not [one for one in ("Only for you", "vendor_state", "thought_signature", "reasoning") if one in sent]
    asked.address, asked.dialect, asked.thinking = asked.model.url, "openai", None
    await asked.ask("back")
    assert answers(asked.model)[0]["reasoning_content"] == "Only for you."


@pytest.mark.requirement("echoes.own-server", "testing.strict.thoughts")
@pytest.mark.parametrize("strictness", ["deepseek-thoughts", "gemini-signatures"])
async def test_a_conversation_moves_to_a_server_that_wants_with_each_answer_what_the_first_did_not_give(
    asked: Asked, strictness: Strictness
) -> None:
    asked.model.will_reply(answer("I call.", calls=[ONE]), "done")
    await asked.ask("go")
    with ScriptedModel([ONE, "two", "three"], strictness=strictness) as model:
        asked.address = model.url

        ends = [reason(await asked.ask("and you?")), reason(await asked.ask("more"))]

        assert ends == ["stop", "stop"]
        refused = 1 if strictness == "deepseek-thoughts" else 0
        assert len(model.requests) == 3 + refused  # what it wants is remembered


@pytest.mark.requirement("echoes.own-server")
async def test_the_same_server_with_another_model_gets_none_of_it(asked: Asked) -> None:
    asked.model.will_reply(answer(calls=[SIGNED], reasoning="Only for you."), "done", "hello")
    await asked.ask("go")

    asked.name = "another"
    await asked.ask("and you?")

    assert asked.model.requests[-1].body["model"] == "another"
    assert "Only for you" not in asked.model.requests[-1].raw.decode()


@pytest.mark.requirement("echoes.resumed")
@pytest.mark.parametrize("strictness", ["deepseek-thoughts", "gemini-signatures"])
async def test_a_resumed_conversation_gives_back_what_came_before(asked: Asked, strictness: Strictness) -> None:
    with ScriptedModel([ONE, TWO, "done", "again"], strictness=strictness) as model:
        asked.address = model.url
        await asked.ask("go")
        before = answers(model)
        asked.journal.close()
        asked.journal, contents = Journal.reopen(asked.journal.path)
        asked.conversation = Conversation.resumed(asked.journal, contents)

        assert reason(await asked.ask("on")) == "stop"

        assert answers(model)[:2] == before
        assert len(model.requests) == 4


@pytest.mark.requirement("echoes.refused")
async def test_a_field_that_is_refused_is_left_out_once_and_for_the_rest_of_the_run(asked: Asked) -> None:
    said = answer(calls=[ONE], reasoning="I think.", beside={"vendor_state": {"a": "b"}})
    asked.model.will_reply(said, status(400, {"error": {"message": UNKNOWN.format("vendor_state")}}), said, "done")

    assert reason(await asked.ask("go")) == "stop"

    assert len(asked.model.requests) == 4
    first, *_ = [one for one in asked.model.requests[1].messages if one["role"] == "assistant"]
    assert "vendor_state" in first
    assert [sorted(one) for one in answers(asked.model)] == [["content", "reasoning_content", "role", "tool_calls"]] * 2


@pytest.mark.requirement("echoes.refused")
@pytest.mark.parametrize(
    ("words", "count"),
    [
        ({"error": {"message": UNKNOWN.format("reasoning_content")}}, 3),
        (
            {
                "detail": [
                    {"loc": ["body", "messages", 2, "reasoning_content"], "msg": "Extra inputs are not permitted"}
                ]
            },
            3,
        ),
        ([{"error": {"message": "Unknown name \"reasoning_content\" at 'messages[2]': Cannot find field."}}], 3),
        ({"error": {"message": "property 'messages.2.reasoning_content' is unsupported"}}, 3),
        ({"error": {"message": "Bad.", "input": {"reasoning_content": "I think."}}}, 2),
        ("The reasoning is too long.", 2),
    ],
)
async def test_a_refusal_is_answered_with_another_attempt_only_if_it_names_the_field(
    asked: Asked, words: Any, count: int
) -> None:
    asked.model.will_reply(
        answer(calls=[ONE], reasoning="I think."), status(400, words if isinstance(words, str) else None or words), "ok"
    )

    ended = reason(await asked.ask("go"))

    assert len(asked.model.requests) == count
    assert (ended == "stop") == (count == 3)


@pytest.mark.requirement("echoes.refused")
async def test_a_field_that_was_left_out_is_sent_once_it_is_missed(asked: Asked) -> None:
    asked.thinking = "off"
    missed = status(400, {"error": {"message": "Missing `reasoning_content` field in the assistant message."}})
    asked.model.will_reply(answer(calls=[ONE], reasoning="I think."), missed, ONE, "done")

    assert reason(await asked.ask("go")) == "stop"

    assert [one.get("reasoning_content") for one in answers(asked.model)] == ["I think.", " "]
    assert len(asked.model.requests) == 4


@pytest.mark.requirement("echoes.refused")
async def test_a_server_that_refuses_with_and_without_is_asked_no_third_time(asked: Asked) -> None:
    refused = status(400, {"error": {"message": UNKNOWN.format("reasoning_content")}})
    missed = status(400, {"error": {"message": "reasoning_content is required"}})
    asked.model.will_reply(answer(calls=[ONE], reasoning="I think."), refused, missed, "never")

    assert "reasoning_content is required" in reason(await asked.ask("go"))
    assert len(asked.model.requests) == 3


@pytest.mark.requirement("echoes.redacted")
async def test_secrets_are_redacted_in_fields_and_signatures_stay_whole(asked: Asked) -> None:
    asked.redactor = Redactor({SECRET: "PASSWORD"})
    opaque = "AKIAIOSFODNN7EXAMPLE" * 3
    asked.model.will_reply(
        answer(
            calls=[Call("quiet", '{"text": "one"}', beside={"thought_signature": opaque, "note": f"is {SECRET}"})],
            reasoning=f"The password is {SECRET}.",
            beside={
                "vendor_note": f"it is {SECRET}",
                "reasoning_details": [{"type": "reasoning.text", "text": SECRET, "signature": opaque}],
                "other_details": [{"type": "reasoning.encrypted", "data": opaque}],
            },
        ),
        "done",
    )

    assert reason(await asked.ask("go")) == "stop"

    (sent,) = answers(asked.model)
    written = asked.journal.path.read_text(encoding="utf-8")
    assert SECRET not in asked.model.requests[-1].raw.decode()
    assert SECRET not in written
    assert opaque in written
    assert sent["vendor_note"].startswith("it is [redacted: ")
    assert sent["reasoning_content"].startswith("The password is [redacted: ")
    assert "reasoning_details" not in sent  # its signature holds for the text that had the secret
    assert sent["other_details"] == [{"type": "reasoning.encrypted", "data": opaque}]
    assert sent["tool_calls"][0]["thought_signature"] == opaque


async def test_a_named_field_is_where_thoughts_go_back(asked: Asked) -> None:
    asked.reasoning_field = "thoughts"
    asked.model.will_reply(answer(calls=[ONE], reasoning="I think."), "done")

    await asked.ask("go")

    (sent,) = answers(asked.model)
    assert (sent["thoughts"], "reasoning_content" in sent) == ("I think.", False)
