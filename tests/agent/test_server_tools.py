"""Calls, approvals and files of a model server that runs tools by itself, from the wire to the journal."""

import base64
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agent.conftest import Bench, one
from tests.llm.agentic_server import (
    END,
    AgenticServer,
    Await,
    Chunk,
    Cut,
    Hold,
    Line,
    Named,
    Raw,
    Whole,
    approval,
    produced,
    progress,
    serving,
)
from vibe_jupyter.agent.agent import Agent
from vibe_jupyter.agent.hosted_tools import safe_name
from vibe_jupyter.llm.request import Model, Server
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.protocol import (
    PICTURES_MIME,
    ApprovalRequested,
    ApprovalResolved,
    Approve,
    AssistantMessage,
    Event,
    FileProduced,
    Interrupt,
    MessageAdded,
    Reject,
    RunFinished,
    ToolFinished,
    ToolStarted,
)
from vibe_jupyter.session.conversation import check_history, fold_history
from vibe_jupyter.session.journal import read_journal
from vibe_jupyter.ui.transcript import Transcript

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class ServerBench(Bench):
    """The bench, with a model of a server that acts by itself."""

    server: AgenticServer
    key: str | None = None
    name = "default"

    def agent(self) -> Agent:
        server = Server(name="rs", api_base=self.server.url, api_key=self.key, dialect="mistralrs")
        model = Model(server=server, name=self.name, alias="rs")
        return super().agent()._replace(model=model)


async def drive(tmp_path: Path, model: Any, server: AgenticServer, **options: Any) -> tuple[ServerBench, list[Event]]:
    """One run against a server."""
    bench = ServerBench(tmp_path, model)
    bench.server = server
    bench.stream = options.pop("stream", True)
    bench.key = options.pop("key", None)
    try:
        return bench, await bench.ask("go", **options)
    finally:
        await bench.client.close()
        bench.journal.close()


def transcript(events: list[Event]) -> str:
    """The kept form of a run."""
    shown = Transcript()
    for event in events:
        shown.apply(event)
    return str(shown.bundle()["text/html"])


def finished(events: list[Event]) -> list[ToolFinished]:
    return [event for event in events if isinstance(event, ToolFinished)]


APPROVED: list[Line] = [
    approval(),
    Await("appr_1"),
    progress("calling", tool_type="code_execution", code="print(6 * 7)"),
    progress("complete", tool_type="code_execution", stdout="42\n"),
    Chunk("It is 42."),
    *END,
]


def yes(remember: Any = "once") -> Callable[[ApprovalRequested], Approve]:
    return lambda asked: Approve(approval_id=asked.approval_id, remember=remember)


def no(words: str) -> Callable[[ApprovalRequested], Reject]:
    return lambda asked: Reject(approval_id=asked.approval_id, message=words)


@pytest.mark.requirement("mistralrs.approval.post")
@pytest.mark.requirement("mistralrs.event.approval")
async def test_a_call_of_the_server_runs_there_once_it_was_allowed_here(tmp_path: Path, model: Any) -> None:
    with serving(APPROVED) as server:
        _, events = await drive(tmp_path, model, server, decide=yes())
        assert server.decisions == [("appr_1", {"decision": "approve"})]
    asked = one(events, ApprovalRequested)
    assert asked.headline.asking == "Run Python code"
    assert asked.preview.text == "print(6 * 7)"
    assert server.host in asked.reason
    end = one(events, ToolFinished)
    assert (end.outcome, end.display["text/plain"], end.host) == ("ok", "42\n", server.host)
    assert end.headline.note == f"ran on {server.host}"
    assert one(events, RunFinished).reason == "stop"


@pytest.mark.requirement("mistralrs.approval.remember", "mistralrs.approval.post")
async def test_a_no_carries_the_words_and_a_yes_for_the_session_says_so(tmp_path: Path, model: Any) -> None:
    denied = [approval(), Await("appr_1"), Chunk("As you like."), *END]
    with serving(denied) as server:
        _, events = await drive(tmp_path, model, server, decide=no("not here"))
        assert server.decisions == [("appr_1", {"decision": "deny", "message": "not here"})]
    assert one(events, ToolFinished).outcome == "denied"
    assert "not here" in transcript(events)
    with serving(APPROVED) as server:
        await drive(tmp_path / "second", model, server, decide=yes("session"))
        assert server.decisions == [("appr_1", {"decision": "approve", "remember_for_session": True})]


@pytest.mark.parametrize("says", ["resolved", "queued"])
@pytest.mark.requirement("mistralrs.approval.status")
async def test_an_answer_that_was_taken_is_delivered_and_one_too_late_says_expired(
    tmp_path: Path, model: Any, says: str
) -> None:
    with serving(APPROVED) as server:
        server.says = says
        _, events = await drive(tmp_path, model, server, decide=yes())
    assert one(events, ToolFinished).outcome == "ok"
    late = [approval("gone"), Await("gone"), Chunk("Too late."), *END]
    with serving(late) as server:
        _, events = await drive(tmp_path / "second", model, server, decide=yes())
    end = one(events, ToolFinished)
    assert (end.outcome, end.summary) == ("denied", "expired: the server stopped waiting")
    assert "expired" in transcript(events)


async def test_all_arguments_are_on_the_card_with_what_is_hidden_written_out(tmp_path: Path, model: Any) -> None:
    arguments = {"code": "print('a\u202eb')\noutputs: x", "outputs": ["a.csv"], "timeout": 5}
    script = [approval(arguments=arguments), Await("appr_1"), Chunk("Done."), *END]
    with serving(script) as server:
        shown = Transcript()
        cards: list[str] = []

        def note(event: Event) -> None:
            patches = shown.apply(event)
            cards.extend(str(patch.get("html", "")) for patch in patches if isinstance(event, ApprovalRequested))

        await drive(tmp_path, model, server, decide=no(""), on_event=note)
    (card,) = [card for card in cards if "vibe-card" in card]
    for piece in ("code:", "outputs:", "    a.csv", "timeout:", "    5", "⟨U+202E⟩", "hidden characters"):
        assert piece in card


async def test_where_nobody_can_answer_the_server_is_told_no_at_once(tmp_path: Path, model: Any) -> None:
    with serving([approval(), Await("appr_1"), Chunk("Not run."), *END]) as server:
        _, events = await drive(tmp_path, model, server, terms=RunTerms(attended=False, approve_all=True))
        ((_, body),) = server.decisions
    assert body["decision"] == "deny"
    assert not [event for event in events if isinstance(event, ApprovalRequested)]
    assert one(events, ToolFinished).outcome == "denied"


async def test_what_is_allowed_for_our_tools_allows_nothing_of_the_server(tmp_path: Path, model: Any) -> None:
    terms = RunTerms(allowed=frozenset({"code_execution", "opaque_7"}), approve_all=True)
    with serving([approval(), Await("appr_1"), Chunk("Not run."), *END]) as server:
        _, events = await drive(tmp_path, model, server, terms=terms, decide=no(""))
        assert server.decisions == [("appr_1", {"decision": "deny"})]
    assert one(events, ApprovalRequested)


async def test_an_interrupt_while_a_card_waits_tells_the_server_no(tmp_path: Path, model: Any) -> None:
    with serving([approval(), Hold(threading.Event())]) as server:
        bench = ServerBench(tmp_path, model)
        bench.server = server

        def end(event: Event) -> None:
            if isinstance(event, ApprovalRequested):
                assert bench.run is not None
                bench.run.send(Interrupt())

        events = await bench.ask("go", on_event=end)
        await bench.client.close()
        bench.journal.close()
        assert server.decisions == [("appr_1", {"decision": "deny"})]
    resolved = one(events, ApprovalResolved)
    assert (resolved.allowed, resolved.by) == (False, "interrupt")
    assert one(events, ToolFinished).outcome == "interrupted"
    assert one(events, RunFinished).reason == "interrupted"


async def test_a_yes_that_cannot_be_recorded_is_a_no_to_the_server(
    tmp_path: Path, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file layer fails from the moment the card is shown; nothing of ours is replaced."""
    real_write = os.write
    full = threading.Event()

    def write(descriptor: int, data: bytes) -> int:
        if full.is_set() and threading.current_thread().name == "vibe-journal":
            raise OSError(errno.ENOSPC, "No space left on device")
        return real_write(descriptor, data)

    monkeypatch.setattr(os, "write", write)

    def fill(event: Event) -> None:
        if isinstance(event, ApprovalRequested):
            full.set()

    with serving([approval(), Await("appr_1"), Chunk("Not run."), *END]) as server:
        _, events = await drive(tmp_path, model, server, decide=yes(), on_event=fill)
        assert server.decisions == [("appr_1", {"decision": "deny"})]
    assert one(events, RunFinished).reason == "error"


async def test_a_card_is_closed_when_the_answer_goes_on_to_its_end_without_it(tmp_path: Path, model: Any) -> None:
    with serving([approval(), Chunk("I went on."), *END]) as server:
        _, events = await drive(tmp_path, model, server)
    assert one(events, ApprovalResolved).by == "server"
    assert "expired" in transcript(events)
    assert one(events, RunFinished).reason == "stop"


@pytest.mark.requirement("mistralrs.event.progress")
@pytest.mark.requirement("mistralrs.event.progress-types")
async def test_each_call_is_one_step_whatever_its_type(tmp_path: Path, model: Any) -> None:
    script = [
        progress("calling", name="py", tool_type="code_execution", code="plot()"),
        progress(
            "complete",
            name="py",
            tool_type="code_execution",
            stdout="ok",
            images_base64=[PIXEL],
            video_frames_base64=[PIXEL],
        ),
        progress("calling", name="web", tool_type="web_search", query="penguins"),
        progress("complete", name="web", tool_type="web_search", results_count=3, sources=["https://e.org"]),
        progress("calling", name="sh", tool_type="shell", commands=["ls /nowhere"]),
        progress("complete", name="sh", tool_type="shell", commands=["ls /nowhere"], stderr="no such", exit_code=2),
        progress("calling", name="mcp_9f_do", tool_type="custom", arguments='{"a":1}'),
        progress("complete", name="mcp_9f_do", tool_type="custom", content="custom result"),
        progress("calling", name="odd", in_round=2, tool_type="teleport", place="Mars"),
        progress("complete", name="odd", in_round=2, tool_type="teleport", place="Mars", arrived=True),
        Chunk("All done."),
        *END,
    ]
    with serving(script) as server:
        _, events = await drive(tmp_path, model, server)
    ends = finished(events)
    assert [(end.name, end.outcome, end.summary) for end in ends] == [
        ("py", "ok", ""),
        ("web", "ok", "3 results"),
        ("sh", "error", "exit status 2"),
        ("mcp_9f_do", "ok", ""),
        ("odd", "ok", ""),
    ]
    assert len([event for event in events if isinstance(event, ToolStarted)]) == len(ends)
    pictures = ends[0].display[PICTURES_MIME]
    assert isinstance(pictures, list)
    assert len(pictures) == 2
    html = transcript(events)
    for piece in ("plot()", f"base64,{PIXEL}", "frame 1 of 1", "penguins", "https://e.org", "ls /nowhere", "no such"):
        assert piece in html
    for piece in ("custom result", "mcp_9f_do", "place: Mars", "arrived: true", f"ran on {server.host}"):
        assert piece in html


@pytest.mark.requirement("mistralrs.event.file")
@pytest.mark.requirement("mistralrs.files.inline")
async def test_a_file_is_shown_once_and_can_be_taken_out(tmp_path: Path, model: Any) -> None:
    picture = produced(id="file_2", name="../../evil/plot.png", mime_type="image/png", text=None, data_base64=PIXEL)
    with serving([produced(), produced(), picture, Chunk("Made."), *END]) as server:
        _, events = await drive(tmp_path, model, server)
        assert server.fetched == []
    files = [event for event in events if isinstance(event, FileProduced)]
    assert [Path(file.path).name for file in files] == ["table.csv", "plot.png"]
    assert Path(files[0].path).read_text(encoding="utf-8") == "a,b\n1,2\n"
    assert Path(files[1].path).read_bytes() == base64.b64decode(PIXEL)
    assert {Path(file.path).parent for file in files} == {tmp_path / "session" / "files"}
    html = transcript(events)
    encoded = base64.b64encode(b"a,b\n1,2\n").decode()
    assert f'href="data:application/octet-stream;base64,{encoded}"' in html
    assert f'src="data:image/png;base64,{PIXEL}"' in html
    assert files[0].path in html


async def test_a_file_replaces_none_that_has_its_name(tmp_path: Path, model: Any) -> None:
    with serving([produced(id="f1", text="one"), produced(id="f2", text="two"), Chunk("Made."), *END]) as server:
        _, events = await drive(tmp_path, model, server)
    files = [Path(event.path) for event in events if isinstance(event, FileProduced)]
    assert [(path.name, path.read_text(encoding="utf-8")) for path in files] == [
        ("table.csv", "one"),
        ("table-2.csv", "two"),
    ]


@pytest.mark.parametrize(
    ("status", "words"),
    [(404, "30 minutes"), (410, "not its content"), (422, "could not make it"), (500, "status 500")],
)
@pytest.mark.requirement("mistralrs.files.by-id")
async def test_a_file_without_a_body_is_fetched_and_each_refusal_has_its_words(
    tmp_path: Path, model: Any, status: int, words: str
) -> None:
    here = produced(id="file_big", name="big.bin", text=None, mime_type="application/octet-stream")
    gone = produced(id="file/../gone", name="gone.bin", text=None)
    with serving([here, gone, Chunk("Made."), *END]) as server:
        content = bytes(range(256)) * 40_000
        server.files = {"file_big": (200, content), "file%2F..%2Fgone": (status, b"{}")}
        _, events = await drive(tmp_path, model, server, key="any")
        assert sorted(server.fetched) == ["/v1/files/file%2F..%2Fgone/content", "/v1/files/file_big/content"]
        assert set(server.keys) == {"Bearer any"}
    files = {event.name: event for event in events if isinstance(event, FileProduced)}
    assert Path(files["big.bin"].path).read_bytes() == content
    assert files["big.bin"].data == ""
    assert words in files["gone.bin"].problem
    assert words in transcript(events)


@pytest.mark.requirement("mistralrs.files.error")
async def test_a_file_that_could_not_be_made_is_shown_as_failed(tmp_path: Path, model: Any) -> None:
    failed = produced(text=None, code="missing_output", message="expected file was not written")
    with serving([failed, Chunk("Sorry."), *END]) as server:
        _, events = await drive(tmp_path, model, server)
    file = one(events, FileProduced)
    assert (file.path, file.problem) == ("", "expected file was not written (missing_output)")
    assert 'alt="failed"' in transcript(events)


@pytest.mark.requirement("mistralrs.session.reuse")
@pytest.mark.requirement("mistralrs.session.body")
@pytest.mark.requirement("mistralrs.approval.stream")
async def test_the_session_of_an_answer_is_named_in_the_requests_that_follow(tmp_path: Path, model: Any) -> None:
    first = [Chunk("Hello.", more={"session_id": "sess-9"}), *END]
    whole = Whole({"choices": [{"message": {"content": "Again."}, "finish_reason": "stop"}], "session_id": "sess-9"})
    with serving(first, [Chunk("Hello again."), *END], whole) as server:
        bench = ServerBench(tmp_path, model)
        bench.server = server
        await bench.ask("one")
        await bench.ask("two")
        bench.stream = False
        await bench.ask("three")
        await bench.client.close()
        bench.journal.close()
        asked = [
            (body.get("session_id"), body["stream"], body["agent_permission"], body["model"])
            for body in server.requests
        ]
    assert asked == [
        (None, True, "ask", "default"),
        ("sess-9", True, "ask", "default"),
        ("sess-9", False, "deny", "default"),
    ]


@pytest.mark.requirement("mistralrs.calls.record")
async def test_the_calls_and_files_of_a_whole_answer_are_shown(tmp_path: Path, model: Any) -> None:
    record = {
        "round": 1,
        "name": "opaque_7",
        "arguments": '{"code":"draw()"}',
        "result_content": "drawn",
        "result_images_base64": [PIXEL],
        "file_ids": ["file_run1_r1_0"],
    }
    body: dict[str, Any] = {
        "choices": [{"message": {"content": "Here."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5, "avg_tok_per_sec": 12.5},
        "agentic_tool_calls": [record],
        "files": [produced().body],
    }
    with serving(Whole(body)) as server:
        _, events = await drive(tmp_path, model, server, stream=False)
    html = transcript(events)
    for piece in ("opaque_7", "draw()", "drawn", f"base64,{PIXEL}", "file_run1_r1_0", "table.csv", "Here."):
        assert piece in html
    assert one(events, RunFinished).usage.prompt_tokens == 3


@pytest.mark.requirement("mistralrs.event.unknown")
async def test_what_is_unknown_or_unreadable_is_passed_over(tmp_path: Path, model: Any) -> None:
    script = [
        Named("agentic_new_thing", {"a": 1}),
        Named("agentic_tool_call_progress", {"phase": "dreaming"}),
        Named("agentic_tool_call_progress", ["no", "object"]),
        Raw(b"event: file_produced\ndata: {broken\n\n"),
        Raw(b"event: agentic_tool_approval_required\ndata: {}\n\n"),
        Raw(b": keep-alive\n\n"),
        Chunk("Fine."),
        *END,
    ]
    with serving(script) as server:
        _, events = await drive(tmp_path, model, server)
    assert [event.text for event in events if event.type == "text_delta"] == ["Fine."]
    assert not finished(events)


async def test_an_error_in_bare_words_is_the_servers_own(tmp_path: Path, model: Any) -> None:
    with serving([Chunk("Half"), Raw(b"data: out of memory on the GPU\n\n"), Raw(b"data: [DONE]\n\n")]) as server:
        _, events = await drive(tmp_path, model, server)
    end = one(events, RunFinished)
    assert end.reason == "error"
    assert "out of memory on the GPU" in end.error


@pytest.mark.requirement("wire.errors.retry")
async def test_an_answer_cut_off_after_the_server_acted_is_not_asked_for_again(tmp_path: Path, model: Any) -> None:
    script = [progress("calling", tool_type="shell", commands=["rm x"]), Chunk("I re"), Cut()]
    with serving(script, [Chunk("Never asked."), *END]) as server:
        _, events = await drive(tmp_path, model, server)
        assert len(server.requests) == 1
    assert one(events, ToolFinished).outcome == "interrupted"
    assert one(events, RunFinished).reason == "error"


async def test_the_history_knows_nothing_of_the_servers_calls(tmp_path: Path, model: Any) -> None:
    with serving(APPROVED) as server:
        bench, events = await drive(tmp_path, model, server, decide=yes())
    check_history(bench.conversation.history)
    assert fold_history(read_journal(bench.journal.path).events) == bench.conversation.history
    message = next(
        event.message for event in events if isinstance(event, MessageAdded) and event.message.role != "user"
    )
    assert isinstance(message, AssistantMessage)
    assert message.calls == ()


async def test_what_is_said_after_a_call_of_the_server_stands_behind_it(tmp_path: Path, model: Any) -> None:
    script = [
        Chunk("I compute."),
        progress("calling", tool_type="code_execution", code="1"),
        progress("complete", tool_type="code_execution", stdout="41"),
        Chunk("The answer is 41."),
        *END,
    ]
    with serving(script) as server:
        _, events = await drive(tmp_path, model, server)
    shown = Transcript()
    for event in events:
        shown.apply(event)
    html = [part.html for part in shown.parts()]
    order = [
        next(at for at, text in enumerate(html) if piece in text) for piece in ("I compute", "41</pre>", "The answer")
    ]
    assert order == sorted(order)
    kept = str(shown.bundle()["text/html"])
    assert kept.count("The answer is 41.") == 1
    assert shown.answer_text == "I compute.The answer is 41."


async def test_a_call_announced_before_its_card_stays_one_step(tmp_path: Path, model: Any) -> None:
    script = [
        progress("calling", tool_type="code_execution", code="print(6 * 7)"),
        approval(),
        Await("appr_1"),
        progress("complete", tool_type="code_execution", stdout="denied by the app"),
        Chunk("As you like."),
        *END,
    ]
    with serving(script) as server:
        _, events = await drive(tmp_path, model, server, decide=no("never"))
    ids = {event.call_id for event in events if isinstance(event, ToolStarted | ToolFinished | ApprovalResolved)}
    assert len(ids) == 1
    assert {end.outcome for end in finished(events)} == {"denied"}
    assert "denied by the app" in transcript(events)


async def test_two_cards_of_one_round_are_answered_each_for_itself(tmp_path: Path, model: Any) -> None:
    second = approval("appr_2", arguments={"code": "print(2)"})
    script = [approval(), second, Await("appr_1"), Await("appr_2"), Chunk("Both answered."), *END]

    def decide(asked: ApprovalRequested) -> Approve | Reject:
        first = asked.preview.text == "print(6 * 7)"
        return yes()(asked) if first else no("only the first")(asked)

    with serving(script) as server:
        _, events = await drive(tmp_path, model, server, decide=decide)
        assert dict(server.decisions) == {
            "appr_1": {"decision": "approve"},
            "appr_2": {"decision": "deny", "message": "only the first"},
        }
    assert sorted(end.outcome for end in finished(events)) == ["denied", "ok"]


async def test_an_interrupt_while_the_server_runs_a_call_ends_its_step(tmp_path: Path, model: Any) -> None:
    script = [progress("calling", tool_type="shell", commands=["sleep 600"]), Hold(threading.Event())]
    with serving(script) as server:
        bench = ServerBench(tmp_path, model)
        bench.server = server

        def end(event: Event) -> None:
            if isinstance(event, ToolStarted):
                assert bench.run is not None
                bench.run.send(Interrupt())

        events = await bench.ask("go", on_event=end)
        await bench.client.close()
        bench.journal.close()
    step = one(events, ToolFinished)
    assert (step.outcome, step.summary) == ("interrupted", "cut off; it may have run there")


async def test_no_text_of_a_server_becomes_markup(tmp_path: Path, model: Any) -> None:
    evil = "<img src=x onerror=alert(1)>"
    tool = {"source": evil, "kind": evil, "label": evil}
    script = [
        approval(tool=tool, arguments={evil: evil}),
        Await("appr_1"),
        progress(
            "complete", name=evil, tool_type="code_execution", stdout=evil, images_base64=[f'x"{evil}', "iVBOR" + evil]
        ),
        produced(name=evil, text=None, data_base64="iVBOR<script>", mime_type="image/png"),
        produced(id="2", name=f'{evil}".csv', text=evil),
        Chunk("Done."),
        *END,
    ]
    cards: list[str] = []
    with serving(script) as server:
        shown = Transcript()

        def note(event: Event) -> None:
            cards.extend(str(patch.get("html", "")) for patch in shown.apply(event))

        _, events = await drive(tmp_path, model, server, decide=yes(), on_event=note)
    for html in (*cards, transcript(events)):
        assert "<img src=x" not in html
        assert "<script" not in html


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("plot.png", "plot.png"),
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\x.csv", "x.csv"),
        (".bashrc", "_bashrc"),
        ("..", "file"),
        ("", "file"),
        ("a\x00b\nc.txt", "a_b_c.txt"),
        ("é" * 300 + ".csv", "é" * 88 + ".csv"),
        ("é" * 300, "é" * 100),
    ],
)
def test_a_file_has_a_name_that_leads_nowhere(name: str, safe: str) -> None:
    assert safe_name(name) == safe
