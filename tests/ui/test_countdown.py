"""Time that a view counts: a wait before another attempt, told once, and what a step has run so far."""

import asyncio
import concurrent.futures
import re

import pytest

from tests.ui.runs import STARTED, code_finished, code_started, finished, said
from tests.ui.test_front_ends import WAIT, Terminal
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.protocol import Event, Notice
from vibe_jupyter.ui.terminal import TerminalFrontEnd
from vibe_jupyter.ui.terminal_style import TerminalStyle
from vibe_jupyter.ui.text_prompt import TextPrompt
from vibe_jupyter.ui.transcript import Transcript

TEXT = "Retrying at 14:03:22, in 40 s: the server is busy (429). Stopping the run ends the wait."
BUSY = Notice(level="info", text=TEXT, wait=40.0)


class Clock:
    """Stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def in_terminal(terminal: Terminal, events: list[Event], *, until: str, paper: TerminalStyle) -> None:
    """Show a run; before its last event, wait until the screen shows this pattern."""
    main_thread = MainThread(None)
    prompt = TextPrompt(main_thread.call, terminal.read_line, terminal.write, is_typed=lambda: True)
    front_end = TerminalFrontEnd(
        Transcript(lambda: 0.0), prompt, call_main=main_thread.call, write=terminal.write, paper=paper
    )

    async def engine() -> None:
        *before, last = events
        for event in before:
            await front_end.on_event(event)
        async with asyncio.timeout(WAIT):
            while not re.search(until, terminal.screen):
                await asyncio.sleep(0.02)
        await front_end.on_event(last)

    front_end.open(lambda _, **__: None)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(asyncio.run, engine())
        main_thread.serve(future, interrupt=lambda: None)
        future.result(timeout=WAIT)
    front_end.close()


def left(transcript: Transcript) -> list[str]:
    """What the countdowns of a view begin with."""
    return re.findall(r'data-vibe-countdown="([0-9.]+)"', "".join(part.html for part in transcript.parts()))


def test_a_view_drawn_anew_goes_on_with_what_is_left_of_the_wait() -> None:
    clock = Clock()
    transcript = Transcript(clock)
    transcript.apply(STARTED)
    (patch,) = [one for one in transcript.apply(BUSY) if one.get("kind") == "notice"]
    assert 'data-vibe-countdown="40.0">40 s left</span>' in patch.get("html", "")
    clock.now = 12.5
    assert left(transcript) == ["27.5"]
    clock.now = 41.0
    assert left(transcript) == []
    assert any("Retrying at" in part.html for part in transcript.parts())


def test_what_is_kept_counts_nothing_down() -> None:
    transcript = Transcript(lambda: 0.0)
    for event in (STARTED, BUSY, said("Here."), finished()):
        transcript.apply(event)
    bundle = transcript.bundle()
    assert "Retrying at 14:03:22" in str(bundle["text/html"])
    assert "s left" not in str(bundle["text/html"])


def test_a_notice_without_a_wait_has_no_countdown() -> None:
    transcript = Transcript(lambda: 0.0)
    transcript.apply(STARTED)
    transcript.apply(Notice(level="info", text="Retrying in 0.5 s."))
    assert left(transcript) == []


def test_a_terminal_counts_on_one_line_and_leaves_it_empty() -> None:
    terminal = Terminal()
    wait = Notice(level="info", text="Retrying.", wait=9.5)
    two = r"  \d+ s left\r +\r  \d s left"
    in_terminal(terminal, [STARTED, wait, said("Here.")], until=two, paper=TerminalStyle(width=80))
    assert re.search(r"Retrying\.\n  10 s left(\r +\r  \d s left)+\r +\rHere\.\n", terminal.screen)


@pytest.mark.parametrize("end", [said("Here."), finished("interrupted")])
def test_what_comes_next_ends_the_countdown(end: Event) -> None:
    terminal = Terminal()
    in_terminal(terminal, [STARTED, BUSY, end], until="40 s left", paper=TerminalStyle(width=80))
    *_, last = terminal.screen.rpartition("\r")
    assert last.strip()
    assert "left" not in last


def test_where_lines_cannot_be_written_over_only_the_notice_is_printed() -> None:
    terminal = Terminal()
    in_terminal(terminal, [STARTED, BUSY, finished()], until=re.escape(TEXT), paper=TerminalStyle())
    assert "left" not in terminal.screen
    assert "\r" not in terminal.screen


def test_a_view_drawn_anew_goes_on_with_the_time_that_a_step_has_run() -> None:
    clock = Clock()
    transcript = Transcript(clock)
    for event in (STARTED, code_started()):
        transcript.apply(event)

    def running() -> list[str]:
        html = "".join(part.html for part in transcript.parts())
        return re.findall(r'class="vibe-time" data-vibe-running="([0-9.]+)"></span>', html)

    assert running() == ["0.0"]
    clock.now = 7.25
    assert running() == ["7.2"]
    transcript.apply(code_finished())
    assert running() == []
