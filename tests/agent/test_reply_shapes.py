"""Answers of imperfect model servers, as data: what of each is run, shown, recorded and sent back.

A shape is a file in `tests/llm/shapes`; `README.md` there says what stands in it. Each is played over HTTP to the real
loop: streamed in the pieces of the file, in one piece and cut at random, and not streamed.
"""

import html
import itertools
import json
import random
import re
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel, ConfigDict, create_model

from tests.agent.conftest import Bench
from tests.llm.support import MODEL
from tests.tiers import further
from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.llm.reply import ReplyReader, judge
from vibe_jupyter.llm.request import ModelReply, ModelRequestTerms
from vibe_jupyter.llm.written_calls import Heard
from vibe_jupyter.protocol import (
    AssistantMessage,
    Event,
    Headline,
    Level,
    Message,
    MessageAdded,
    Preview,
    ReasoningPart,
    Resource,
    RunFinished,
    TextDelta,
    TextPart,
    ToolCall,
    ToolFinished,
    ToolMessage,
    ToolResult,
    ToolSpec,
    UserMessage,
)
from vibe_jupyter.session.conversation import check_history
from vibe_jupyter.testing import Raw, ScriptedModel, say
from vibe_jupyter.tools.contract import StaticToolset, Tool, ToolContext

SHAPES: Final = Path(__file__).parents[1] / "llm" / "shapes"
PROSE: Final = SHAPES.parent / "call_prose.toml"
Shape = Mapping[str, Any]

TOOLS: Final[Mapping[str, Mapping[str, Any]]] = {
    "run_code": {"code": (str, ...)},
    "write_file": {"path": (str, ...), "content": (str, ...)},
    "read_file": {"path": (str, ...), "limit": (int, 0)},
    "bash": {"command": (str, ...)},
    "list_cells": {},
}


class Recorder(Tool[BaseModel]):
    """A tool that keeps what it was called with."""

    level: Level = "always"

    def __init__(self, name: str, fields: Mapping[str, Any], ran: list[list[Any]]) -> None:
        self.name = name
        self.description = f"Does {name}."
        self.arguments = create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
        self._ran = ran

    def headline(self, args: BaseModel) -> Headline:
        return Headline(verb="Did", doing="Doing", asking="Do", target=self.name)

    def preview(self, args: BaseModel) -> Preview:
        return Preview(kind="text", text=self.name)

    def touches(self, args: BaseModel) -> Sequence[Resource]:
        return ()

    async def run(self, args: BaseModel, context: ToolContext) -> ToolResult:
        self._ran.append([self.name, args.model_dump(exclude_unset=True)])
        return ToolResult.text("42")


def shapes() -> dict[str, Shape]:
    """All shapes, by the names of their files."""
    return {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(SHAPES.glob("*.toml"))}


ALL: Final = shapes()
MODES: Final = ("given", "whole", "random", "body")


def played() -> Iterator[Any]:
    """Each shape in one mode, the others in the matrix."""
    for number, name in enumerate(ALL):
        for mode in MODES:
            usual = mode == MODES[number % len(MODES)]
            if mode == "body" and "raw" in ALL[name]:
                continue
            yield pytest.param(name, mode) if usual else further(name, mode)


class ShapeBench(Bench):
    """A bench whose server answers in a dialect."""

    def __init__(self, folder: Path, model: ScriptedModel, shape: Shape) -> None:
        super().__init__(folder, model)
        self.ran: list[list[Any]] = []
        self.tools = StaticToolset([Recorder(name, fields, self.ran) for name, fields in TOOLS.items()])
        self._shape = shape

    def agent(self) -> Agent:
        agent = super().agent()
        server = agent.model.server._replace(dialect=self._shape.get("dialect", "openai"))
        return agent._replace(model=agent.model._replace(server=server, max_tokens=self._shape.get("max_tokens")))


def answer_of(shape: Shape, mode: str) -> Raw:
    """The answer as bytes."""
    if "raw" in shape:
        return Raw(tuple(network_reads(shape["raw"].encode(), mode)))
    texts = cut(shape.get("text", []), mode)
    thoughts = cut(shape.get("reasoning", []), mode)
    if shape.get("dialect") == "ollama":
        return ollama_answer(shape, texts, thoughts, mode)
    usage = {"usage": shape["usage"]} if "usage" in shape else {}
    calls = [call_object(place, one) for place, one in enumerate(shape.get("calls", []))]
    finish = shape.get("finish", "stop")
    if mode == "body":
        message = {"role": "assistant", "content": "".join(texts) or None}
        message |= {"reasoning_content": "".join(thoughts)} if thoughts else {}
        message |= {"tool_calls": calls} if calls else {}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return Raw((json.dumps({"choices": [choice], **usage}).encode(),), content_type="application/json")
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    deltas += [{"reasoning_content": piece} for piece in thoughts] + [{"content": piece} for piece in texts]
    deltas += [{"tool_calls": [one]} for one in calls]
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": one}]} for one in deltas]
    chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}], **usage}]
    body = "".join(f"data: {json.dumps(one, ensure_ascii=False)}\n\n" for one in chunks) + "data: [DONE]\n\n"
    return Raw(tuple(network_reads(body.encode(), mode)))


def call_object(place: int, call: Mapping[str, Any]) -> dict[str, Any]:
    """A call of Chat Completions."""
    function = {"name": call["name"], "arguments": call["arguments"]}
    return {"index": place, "id": call.get("id", f"c{place}"), "type": "function", "function": function}


def ollama_answer(shape: Shape, texts: list[str], thoughts: list[str], mode: str) -> Raw:
    """The same in Ollama's own API."""
    calls = [{"function": {"name": one["name"], "arguments": one["given"]}} for one in shape.get("calls", [])]
    done = {"done": True, "done_reason": shape.get("finish", "stop")}
    if mode == "body":
        message = {"role": "assistant", "content": "".join(texts), "thinking": "".join(thoughts), "tool_calls": calls}
        return Raw((json.dumps({"message": message, **done}).encode(),), content_type="application/json")
    said = [{"thinking": piece, "content": ""} for piece in thoughts] + [{"content": piece} for piece in texts]
    said += [{"content": "", "tool_calls": calls}] if calls else []
    lines = [{"message": {"role": "assistant", **one}, "done": False} for one in said]
    lines.append({"message": {"role": "assistant", "content": ""}, **done})
    body = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in lines)
    return Raw(tuple(network_reads(body.encode(), mode)), content_type="application/x-ndjson")


def cut(pieces: Sequence[str], mode: str) -> list[str]:
    """The deltas of a text."""
    whole = "".join(pieces)
    if mode == "given" or not whole:
        return [piece for piece in pieces if piece]
    if mode != "random":
        return [whole]
    rng = random.Random(len(whole))
    places = sorted({0, len(whole), *(rng.randrange(len(whole) + 1) for _ in range(len(whole) // 3))})
    return [whole[start:end] for start, end in itertools.pairwise(places)]


def network_reads(body: bytes, mode: str) -> list[bytes]:
    """The reads of a body."""
    if mode != "random":
        return [body]
    rng = random.Random(len(body))
    places = sorted({0, len(body), *(rng.randrange(len(body)) for _ in range(12))})
    return [body[start:end] for start, end in itertools.pairwise(places)]


async def play(folder: Path, shape: Shape, mode: str) -> tuple[list[Event], ShapeBench]:
    """Play a shape to the real loop; after it the model says that it is done."""
    replies = [answer_of(shape, mode)] * shape.get("times", 1)
    ends = [say("Done.")] if shape.get("goes_on", True) else []
    with ScriptedModel([*replies, *ends], strict=False) as model:
        bench = ShapeBench(folder, model, shape)
        bench.stream = mode != "body"
        events = await bench.ask(shape.get("prompt", "Compute it."))
        await bench.client.close()
        bench.journal.close()
    return events, bench


def words(text: str) -> str:
    """Return a text without its blanks: they may differ at the edges of what is taken out."""
    return "".join(text.split())


@pytest.mark.requirement("reply.final.rule", "reply.written.calls", "reply.written.doubtful", "reply.cut.calls")
@pytest.mark.requirement("reply.empty", "reply.thoughts", "reply.repairs")
@pytest.mark.parametrize(("name", "mode"), list(played()))
async def test_a_shape_of_a_server_is_handled_as_its_file_says(tmp_path: Path, name: str, mode: str) -> None:
    shape = ALL[name]
    events, bench = await play(tmp_path, shape, mode)
    expected = shape["expect"]
    finished = events[-1]
    assert isinstance(finished, RunFinished)
    assert bench.ran == expected.get("runs", [])
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    live = expected.get("shown_live") if mode != "body" else None
    final = " Done." if finished.reason == "stop" and shape.get("goes_on", True) else ""
    assert words(shown) == words((live or expected.get("shown", "")) + final)
    assert finished.reason == expected.get("ends", "stop")
    assert expected.get("error", "") in finished.error
    if "requests" in expected:
        assert len(bench.model.requests) == expected["requests"]
    check_history(bench.conversation.history)
    added = [event.message for event in events if isinstance(event, MessageAdded)]
    answers = [message for message in added if isinstance(message, AssistantMessage)]
    first = answers[0] if answers else AssistantMessage(parts=(), stop_reason="other")
    if first.calls:
        assert {call.mark for call in first.calls} == {expected.get("mark", "")}
    if "thoughts" in expected:
        thoughts = " ".join(part.text for part in first.parts if isinstance(part, ReasoningPart))
        assert words(thoughts) == words(expected["thoughts"])
    if "mark" in expected:
        steps = [event for event in events if isinstance(event, ToolFinished)]
        assert all(expected["mark"] in step.summary for step in steps[: len(first.calls)])
        sent = next(one for one in bench.model.requests[1].messages if one.get("tool_calls"))
        assert words(sent["content"] or "") == words(expected.get("shown", ""))
        assert len(sent["tool_calls"]) == len(first.calls)
    if "told" in expected:
        told = bench.model.requests[-1 if shape.get("times", 1) > 1 else 1].messages[-1]
        assert expected["told"] in json.dumps(told, ensure_ascii=False)


ANSWERS: Final = tomllib.loads(PROSE.read_text(encoding="utf-8"))["answer"]
WRITTEN: Final = tomllib.loads((PROSE.parent / "written_calls.toml").read_text(encoding="utf-8"))["answer"]
SPECS: Final = tuple(
    ToolSpec(name=name, description="", parameters={"properties": {key: {} for key in fields}})
    for name, fields in TOOLS.items()
)
CUTS: Final = 1
"""Random ways to cut each answer."""


def told_before(answer: Mapping[str, str]) -> list[Message]:
    """Return the prompt of an answer, and the result that it repeats."""
    told: list[Message] = [UserMessage(parts=(TextPart(text=answer.get("prompt", "Explain it.")),))]
    if "result" in answer:
        call = ToolCall(id="1", name="read_file", arguments='{"path": "raw.txt"}')
        told.append(AssistantMessage(parts=(call,), stop_reason="tool_calls"))
        told.append(ToolMessage(call_id="1", name="read_file", parts=(TextPart(text=answer["result"]),)))
    return told


def ended(answer: Mapping[str, str]) -> str:
    """Return how an answer is taken. A few may also mean the call that ends them: the model is asked again."""
    return "doubtful" if "asked" in answer else "final"


def streamed(answer: Mapping[str, str], rng: random.Random) -> tuple[ModelReply, str]:
    """Return the reply to an answer that comes in pieces, and what is shown of it."""
    text = answer["text"]
    reader = ReplyReader(ModelRequestTerms(MODEL, tuple(told_before(answer)), SPECS, True, "auto"))
    places = sorted({0, len(text), *(rng.randrange(len(text)) for _ in range(rng.randrange(len(text))))})
    pieces = [TextDelta(text[start:end]) for start, end in itertools.pairwise(places)]
    shown = [one for piece in pieces for one in reader.shown(piece)]
    last, reply = reader.finish(AssistantMessage(parts=(TextPart(text=text),), stop_reason="stop"))
    return reply, "".join(one.text for one in [*shown, *last] if isinstance(one, TextDelta))


@pytest.mark.requirement("reply.written.prose")
def test_answers_about_calls_stay_text() -> None:
    """Judge the whole corpus at once: over HTTP each would take as long as a run."""
    properties = {name: frozenset(fields) for name, fields in TOOLS.items()}
    assert len({one["text"] for one in ANSWERS}) >= 200
    wrong: list[tuple[str, str]] = []
    for one in ANSWERS:
        message = AssistantMessage(parts=(TextPart(text=one["text"]),), stop_reason="stop")
        reply, shown, _ = judge(message, properties, Heard(told_before(one)))
        if reply.ended != ended(one) or reply.message != message or shown != one["text"]:
            wrong.append((one["kind"], f"{reply.ended}: {reply.doubt}"))
    assert wrong == []


@pytest.mark.requirement("reply.written.prose")
def test_answers_about_calls_are_shown_whole_wherever_they_are_cut() -> None:
    rng = random.Random(38)
    got = [(one, *streamed(one, rng)) for one in ANSWERS for _ in range(CUTS)]
    assert [one["kind"] for one, reply, shown in got if (reply.ended, shown) != (ended(one), one["text"])] == []


@pytest.mark.requirement("reply.written.calls")
def test_calls_among_words_about_calls_are_read() -> None:
    rng = random.Random(38)
    assert len(WRITTEN) >= 30
    for one in WRITTEN:
        for _ in range(CUTS):
            reply, shown = streamed({"prompt": "Go on.", **one}, rng)
            calls = [[call.name, json.loads(call.arguments)] for call in reply.message.calls]
            assert (one["kind"], calls) == (one["kind"], one["runs"])
            assert one["text"].startswith(shown) or "</think>" in one["text"]


WITH_CLOSE: Final = 'The "end" is </tool_call>, not </x>.'
CALL_IN_JSON: Final = json.dumps({"name": "write_file", "arguments": {"path": "a.md", "content": WITH_CLOSE}})


@pytest.mark.requirement("reply.written.calls")
@pytest.mark.parametrize(
    "body",
    [
        pytest.param(CALL_IN_JSON, id="JSON"),
        pytest.param(
            "<function=write_file><parameter=path>a.md</parameter>"
            f"<parameter=content>{WITH_CLOSE}</parameter></function>",
            id="tags",
        ),
    ],
)
def test_a_call_with_a_closing_mark_in_its_text_is_not_shown_while_it_streams(body: str) -> None:
    text = f"I write it.\n\n<tool_call>{body}</tool_call>"
    told = (UserMessage(parts=(TextPart(text="Go on."),)),)
    reader = ReplyReader(ModelRequestTerms(MODEL, told, SPECS, True, "auto"))
    shown = [one for sign in text for one in reader.shown(TextDelta(sign))]
    last, reply = reader.finish(AssistantMessage(parts=(TextPart(text=text),), stop_reason="stop"))
    said = "".join(one.text for one in [*shown, *last] if isinstance(one, TextDelta))
    assert (said.strip(), [one.name for one in reply.message.calls]) == ("I write it.", ["write_file"])


FORMS: Final[Mapping[str, Callable[[str], str]]] = {
    "numbered": lambda text: "".join(f"{n:>6}→{line}\n" for n, line in enumerate(text.splitlines(), 7)),
    "grep": lambda text: "".join(f"notes/a.md:{n}:{line}\n" for n, line in enumerate(text.splitlines(), 7)),
    "diff": lambda text: "".join(f"+{line}\n" for line in text.splitlines()),
    "quoted": lambda text: "".join(f"> {line}\n" for line in text.splitlines()),
    "comment": lambda text: "".join(f"    # {line}\n" for line in text.splitlines()),
    "html": lambda text: f"<pre>{html.escape(text)}</pre>",
    "json": lambda text: json.dumps({"said": text}),
    "escaped": lambda text: json.dumps({"said": text}).replace("<", "\\u003c").replace(">", "\\u003e"),
    "words of a diff": lambda text: "".join(f"{{+{line}+}}\n" for line in text.splitlines()),
    "cut": lambda text: re.sub(r"\s*(?:</[^<>]+>\s*|<\|call\|>)+\Z", "", text),
}
"""Ways in which a tool shows a text."""


@pytest.mark.requirement("reply.written.prose")
@pytest.mark.parametrize("form", FORMS)
def test_a_call_that_a_tool_showed_in_another_form_is_text(form: str) -> None:
    properties = {name: frozenset(fields) for name, fields in TOOLS.items()}
    repeated = [one["text"] for one in ANSWERS if "result" in one and one["text"].startswith("The file holds:\n\n")]
    assert len(repeated) >= 5
    ran: list[str] = []
    for text in repeated:
        call = ToolCall(id="1", name="read_file", arguments='{"path": "raw.txt"}')
        told: list[Message] = [
            UserMessage(parts=(TextPart(text="What is in raw.txt?"),)),
            AssistantMessage(parts=(call,), stop_reason="tool_calls"),
            ToolMessage(call_id="1", name="read_file", parts=(TextPart(text=FORMS[form](text.partition("\n\n")[2])),)),
        ]
        message = AssistantMessage(parts=(TextPart(text=text),), stop_reason="stop")
        ran += [text for _ in judge(message, properties, Heard(told))[0].message.calls]
    assert ran == []


@pytest.mark.requirement("reply.written.calls")
def test_a_prompt_about_the_users_own_functions_keeps_no_call_from_running() -> None:
    properties = {name: frozenset(fields) for name, fields in TOOLS.items()}
    text = 'Let me look.\n<tool_call>\n{"name": "run_code", "arguments": {"code": "1"}}\n</tool_call>'
    report = "<notebook>\ndf: columns user, tool_calls, analysis\n</notebook>"
    told = [UserMessage(parts=(TextPart(text=report), TextPart(text="Fix the function call in cell 3, an analysis.")))]
    note = UserMessage(parts=(TextPart(text="<vibe_note>\nMake a proper tool call.\n</vibe_note>"),))
    for messages in (told, [*told, note]):
        message = AssistantMessage(parts=(TextPart(text=text),), stop_reason="stop")
        reply, shown, _ = judge(message, properties, Heard(messages))
        assert ([call.name for call in reply.message.calls], shown.strip()) == (["run_code"], "Let me look.")
    thinking = AssistantMessage(parts=(TextPart(text="analysisWe add.assistantfinalIt is 3."),), stop_reason="stop")
    assert judge(thinking, properties, Heard(told))[1] == "It is 3."


NOTE: Final = "<vibe_note>\nYour tool call was not complete. Make it as a proper tool call.\n</vibe_note>"
CALL: Final = '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'


@pytest.mark.requirement("reply.written.doubtful")
@pytest.mark.parametrize(
    ("text", "doubt"),
    [
        pytest.param("I'll read it.\n<tool_call>", "it is not complete", id="a mark in the words of our own note"),
        pytest.param(f"The form of this is written as follows:\n\n{CALL}", "it may be an example", id="a form"),
        pytest.param(f"<pre>\n\n{CALL}\n\nThat was it.", "more text follows it", id="an open element"),
        pytest.param(f"Use `<pre>`.\n\n{CALL}\n\n</pre>", "more text follows it", id="an element in code"),
        pytest.param(f"One ` is\n{CALL}\n\nand `x", "more text follows it", id="a backtick in another paragraph"),
    ],
)
def test_a_call_that_is_perhaps_shown_is_asked_for_again(text: str, doubt: str) -> None:
    told = [UserMessage(parts=(TextPart(text=said),)) for said in ("What is in a.md?", NOTE)]
    message = AssistantMessage(parts=(TextPart(text=text),), stop_reason="stop")
    reply, _, _ = judge(message, {name: frozenset(fields) for name, fields in TOOLS.items()}, Heard(told))
    assert (reply.doubt, reply.message.calls) == (doubt, ())


LINES: Final = "\n" * 40_000
SURPLUS: Final = "</tool_call> " * 5_000


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"see [1] <{LINES}x", id="no call"),
        pytest.param(f"a{LINES}{CALL}", id="a call behind blank lines"),
        pytest.param(f"a{LINES}assistant:\n{CALL}", id="a transcript"),
        pytest.param(CALL.replace("ls", SURPLUS), id="closing marks in a call"),
        pytest.param(f"{CALL}\n{SURPLUS}", id="closing marks"),
        pytest.param(f"{'<pre> ' * 5_000}\n{CALL}", id="open elements"),
        pytest.param("<tool_call>\n" * 5_000, id="opening marks"),
        pytest.param("<pre><tool_call>{</pre>\n" * 3_000 + CALL, id="broken calls in elements"),
    ],
)
def test_a_long_answer_is_judged_at_once(text: str) -> None:
    message = AssistantMessage(parts=(TextPart(text=text),), stop_reason="stop")
    told = [UserMessage(parts=(TextPart(text=f"Go on. {SURPLUS}{LINES}"),))]
    began = time.process_time()
    judge(message, {name: frozenset(fields) for name, fields in TOOLS.items()}, Heard(told))
    assert time.process_time() - began < 2  # seconds; it took from 9 s to hours


PLAIN: Final = [answer for answer in ANSWERS if "result" not in answer]


@pytest.mark.parametrize("place", [0, *(further(place) for place in range(1, len(PLAIN), 4))])
async def test_an_answer_about_calls_is_shown_whole_while_it_streams(tmp_path: Path, place: int) -> None:
    answer = PLAIN[place]
    shape = {"text": [answer["text"]], "prompt": answer.get("prompt", "Explain it."), "goes_on": False}
    events, bench = await play(tmp_path, shape, "random")
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == answer["text"]
    assert bench.ran == []
    assert len(bench.model.requests) == 1
