"""The front ends without a widget: a terminal, a notebook that nobody watches, and one that draws no widgets."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

from tests.patience import patient
from tests.ui.runs import STARTED, asked, code_finished, finished, resolved, said, whole_run
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.protocol import Command, DecidedBy, Event, Notice, Reject, TextDelta
from vibe_jupyter.ui.front_end import FrontEnd
from vibe_jupyter.ui.terminal import TerminalFrontEnd
from vibe_jupyter.ui.text_prompt import TextPrompt
from vibe_jupyter.ui.transcript import Transcript

WAIT = patient(60)
"""Seconds until a test gives up."""


@dataclass
class Terminal:
    """A terminal: lines to type, everything printed, and by which threads."""

    lines: list[str] = field(default_factory=list[str])
    screen: str = ""
    writes: int = 0
    threads: set[int] = field(default_factory=set[int])

    def read_line(self, prompt: str) -> str:
        self.write(prompt)
        return self.lines.pop(0)

    def write(self, text: str) -> None:
        self.writes += 1
        self.threads.add(threading.get_ident())
        self.screen += text


def show(make: Callable[[MainThread], FrontEnd], events: list[Event]) -> list[Command]:
    """Show a run on the main thread, with the events coming from an engine thread; the commands it sent."""
    main_thread = MainThread(None)
    front_end = make(main_thread)
    sent: list[Command] = []
    answered = threading.Event()

    def send(command: Command, /, *, by: DecidedBy = "code") -> None:
        sent.append(command)
        answered.set()

    async def engine() -> None:
        for event in events:
            await front_end.on_event(event)
            if event == asked():
                assert await asyncio.to_thread(answered.wait, WAIT)

    front_end.open(send)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(asyncio.run, engine())
        main_thread.serve(future, interrupt=lambda: None)
        future.result(timeout=WAIT)
    front_end.close()
    return sent


def in_terminal(terminal: Terminal, events: list[Event]) -> list[Command]:
    def make(main_thread: MainThread) -> FrontEnd:
        prompt = TextPrompt(main_thread.call, terminal.read_line, terminal.write, is_typed=lambda: True)
        return TerminalFrontEnd(Transcript(lambda: 0.0), prompt, call_main=main_thread.call, write=terminal.write)

    return show(make, events)


def test_a_terminal_shows_the_answer_one_line_a_step_and_how_it_ended() -> None:
    terminal = Terminal(["a"])
    in_terminal(terminal, whole_run())
    assert terminal.screen.startswith(
        "I will look at the data first.\n▦ Inspected penguins · 344 × 8, nulls in 5 columns · 0.1 s\n"
    )
    assert terminal.screen.endswith(
        "▷ Ran code fit a line per species · 1 line · 0.2 s\n"
        "**Gentoo bills are as long as Chinstraps'.** The slope is `1.5`.\n"
        "Done · 21 s · devstral-2 · api.mistral.ai · 2 turns · 6.3k tokens in, 5.1k cached, 900 out\n"
    )


@pytest.mark.requirement("magics.headless.no-widget")
def test_a_terminal_asks_on_its_prompt_and_sends_the_answer() -> None:
    terminal = Terminal(["d", "not now"])
    sent = in_terminal(terminal, [STARTED, asked(), resolved(allowed=False), finished()])
    assert sent == [Reject(approval_id="approval-c1", message="not now")]
    assert "  1  from scipy.stats import linregress" in terminal.screen


def test_what_was_said_before_a_question_stands_before_it() -> None:
    terminal = Terminal(["a"])
    in_terminal(terminal, [STARTED, TextDelta("First this."), said("First this."), asked(), resolved(), finished()])
    assert terminal.screen.index("First this.") < terminal.screen.index("[a] allow once")


def test_a_question_that_was_settled_before_it_could_be_put_is_not_asked() -> None:
    terminal = Terminal()
    prompt_free = asked(approval_id="a2")
    settled = resolved(approval_id="a2", allowed=False, by="interrupt")
    assert in_terminal(terminal, [STARTED, prompt_free, settled, finished("interrupted")]) == []
    assert "allow once" not in terminal.screen


def test_only_the_main_thread_prints_and_not_for_every_piece() -> None:
    terminal = Terminal()
    in_terminal(terminal, [STARTED, *(TextDelta(f"{number} ") for number in range(2_000)), finished()])
    assert terminal.threads == {threading.main_thread().ident}
    assert terminal.writes < 100
    assert "0 1 2 " in terminal.screen
    assert " 1998 1999 " in terminal.screen


def test_a_terminal_is_not_written_to_by_escape_sequences() -> None:
    terminal = Terminal()
    evil = "a\x1b]0;owned\x07\x1b[2J\u202eb"
    events: list[Event] = [STARTED, *(TextDelta(one) for one in evil), said(evil), said(evil)]
    events += [code_finished(summary=evil), Notice(level="info", text=evil), finished("error", error=evil)]
    in_terminal(terminal, events)
    assert not set(terminal.screen) & {"\x1b", "\x07", "\u202e"}


def test_a_whole_answer_is_printed_once() -> None:
    terminal = Terminal()
    in_terminal(terminal, [STARTED, TextDelta("Streamed."), said("Streamed."), said("Whole."), finished()])
    assert terminal.screen.startswith("Streamed.\nWhole.\nDone")


# ---- in a kernel ----

SETUP = """
import asyncio, concurrent.futures, threading
from tests.ui.runs import *
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.ui.front_end_choice import SilentFrontEnd
from vibe_jupyter.ui.text_prompt import TextPrompt
from vibe_jupyter.ui.transcript import Transcript
from vibe_jupyter.ui.front_end_choice import UpdatingFrontEnd

def show(make, events, pause=0.0):
    main_thread = MainThread(None)
    front_end = make(main_thread)
    sent = []
    async def engine():
        for event in events:
            await front_end.on_event(event)
            await asyncio.sleep(pause)
            while isinstance(event, type(asked())) and not sent:
                await asyncio.sleep(0.01)
    front_end.open(lambda command, **_: sent.append(command))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(asyncio.run, engine())
        main_thread.serve(future, interrupt=lambda: None)
        future.result(timeout=20)
    front_end.close()
    return sent
"""


class Kernel:
    """A real kernel, and what a front end would see of a cell."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def run(self, code: str, answers: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        """The content of the messages of a cell, each with its type."""
        seen: list[dict[str, Any]] = []
        typed = iter(answers)

        def hear(message: dict[str, Any]) -> None:
            if message["msg_type"] not in ("status", "execute_input"):
                seen.append({"type": message["msg_type"], **message["content"]})

        reply = self._client.execute_interactive(
            code,
            timeout=WAIT,
            allow_stdin=bool(answers),
            stdin_hook=lambda message: self._client.input(next(typed)),
            output_hook=hear,
        )
        assert reply["content"]["status"] == "ok", seen
        return seen


@pytest.fixture(scope="module")
def kernel(own_home: object) -> Iterator[Kernel]:
    manager, client = start_new_kernel(startup_timeout=60, cwd=str(Path(__file__).parents[2]))
    try:
        kernel = Kernel(client)
        kernel.run(SETUP)
        yield kernel
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.requirement("ui.static.kept")
def test_a_silent_run_shows_its_kept_form_once_and_at_the_end(kernel: Kernel) -> None:
    shown = kernel.run("show(lambda main_thread: SilentFrontEnd(Transcript()), whole_run());")
    assert [one["type"] for one in shown] == ["display_data"]
    assert sorted(shown[0]["data"]) == ["text/html", "text/plain"]
    assert "2 steps" in shown[0]["data"]["text/html"]


@pytest.mark.requirement("magics.headless.no-hang")
def test_a_silent_run_says_no_for_a_person_who_is_not_there(kernel: Kernel) -> None:
    shown = kernel.run("print(show(lambda f: SilentFrontEnd(Transcript()), [STARTED, asked(), finished()])[0].message)")
    assert any("non-interactive session" in one.get("text", "") for one in shown)


def test_an_updating_run_renews_one_output_a_few_times_a_second(kernel: Kernel) -> None:
    code = """
events = [STARTED, *(TextDelta(f"word{n} ") for n in range(200)), finished()]
show(lambda f: UpdatingFrontEnd(Transcript(), None, call_main=f.call), events, pause=0.005);
"""
    shown = kernel.run(code)
    assert {one["transient"]["display_id"] for one in shown} == {shown[0]["transient"]["display_id"]}
    assert [one["type"] for one in shown[:2]] == ["display_data", "update_display_data"]
    assert 3 <= len(shown) <= 12
    last = shown[-1]["data"]["text/html"]
    assert "word199" in last
    assert "Done" in last


@pytest.mark.requirement("magics.headless.no-widget")
def test_an_updating_run_asks_in_the_input_box(kernel: Kernel) -> None:
    code = """
def make(main_thread):
    write = lambda text: print(text, end="", flush=True)
    prompt = TextPrompt(main_thread.call, input, write, is_typed=lambda: True)
    return UpdatingFrontEnd(Transcript(), prompt, call_main=main_thread.call)

print(show(make, [STARTED, asked(), resolved(), code_started(), code_finished(), finished()]))
"""
    shown = kernel.run(code, answers=("s",))
    printed = "".join(one["text"] for one in shown if one["type"] == "stream")
    assert "print('slope', 1.5)" in printed
    assert "remember='session'" in printed


def test_an_updating_run_without_a_prompt_answers_no(kernel: Kernel) -> None:
    code = """
front_end = lambda f: UpdatingFrontEnd(Transcript(), None, call_main=f.call)
print(show(front_end, [STARTED, asked(), finished()])[0].message)
"""
    assert any("non-interactive session" in one.get("text", "") for one in kernel.run(code))
