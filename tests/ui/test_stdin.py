"""An approval on the text prompt: everything is shown, the answers are those of the card."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

from tests.ui.runs import CODE, asked
from vibe_jupyter.protocol import ApprovalRequested, Approve, Command, Effect, Preview, Reject
from vibe_jupyter.ui.text_prompt import MAX_QUESTIONS, NO_CLEAR_ANSWER, NOBODY_READS, TextPrompt

T = TypeVar("T")


class Person:
    """Types lines, and sees what is written and asked."""

    def __init__(self, lines: Iterable[str | type[BaseException]]) -> None:
        self.screen = ""
        self._lines = iter(lines)

    def read_line(self, prompt: str) -> str:
        self.screen += prompt
        line = next(self._lines)
        if not isinstance(line, str):
            raise line
        self.screen += f"{line}\n"
        return line

    def write(self, text: str) -> None:
        self.screen += text


async def on_this_thread(function: Callable[[], T], /) -> T:
    return function()


async def answer(*lines: str | type[BaseException], request: ApprovalRequested | None = None) -> tuple[Command, str]:
    """What the user decides by typing these lines, and the screen after it."""
    person = Person(lines)
    prompt = TextPrompt(on_this_thread, person.read_line, person.write, is_typed=lambda: True)
    command, _ = await prompt.ask(request or asked())
    return command, person.screen


@pytest.mark.requirement("magics.headless.no-widget")
async def test_the_prompt_shows_the_whole_code_with_its_reason_and_the_choices() -> None:
    _, screen = await answer("a")
    assert screen == (
        "\nRun code: fit a line per species\n(runs code in this kernel)\n"
        "  1  from scipy.stats import linregress\n  2  print('slope', 1.5)  # mm, g\n"
        "Code that runs here can do anything your account can: “for this session” lets the agent run any code without "
        "asking again.\n[a] allow once  [s] allow for this session  [e] edit  [d] deny: a\n"
    )


@pytest.mark.requirement("magics.headless.no-widget")
@pytest.mark.parametrize(
    ("lines", "command"),
    [
        (["a"], Approve(approval_id="approval-c1")),
        ([" Yes "], Approve(approval_id="approval-c1")),
        (["s"], Approve(approval_id="approval-c1", remember="session")),
        (["d", ""], Reject(approval_id="approval-c1")),
        (["d", "use the other file"], Reject(approval_id="approval-c1", message="use the other file")),
        (["d Use the other file"], Reject(approval_id="approval-c1", message="Use the other file")),
        (["e", "x = 1", "", "y = 2", ".", "a"], Approve(approval_id="approval-c1", edited="x = 1\n\ny = 2")),
        (["e", "x = 1", ".", "s"], Approve(approval_id="approval-c1", edited="x = 1", remember="session")),
        (["e", ".", "a"], Approve(approval_id="approval-c1")),
        (["", "what?", "a"], Approve(approval_id="approval-c1")),
    ],
)
async def test_each_choice_of_the_card_can_be_typed(lines: list[str], command: Command) -> None:
    assert (await answer(*lines))[0] == command


async def test_the_edited_code_is_shown_before_it_is_allowed() -> None:
    _, screen = await answer("e", "x = 1", ".", "a")
    assert "  1  x = 1\n[a] allow once (edited)" in screen


async def test_what_is_not_offered_cannot_be_chosen() -> None:
    request = asked(remember_as=None, preview=Preview(kind="command", text="ls"))
    command, screen = await answer("s", "e", "a", request=request)
    assert command == Approve(approval_id="approval-c1")
    assert "[a] allow once  [d] deny: " in screen


@pytest.mark.attack("forged decisions", always=True)
@pytest.mark.parametrize("error", [EOFError, NotImplementedError])
@pytest.mark.parametrize("before", [[], ["d"], ["e", "x = 1"]])
async def test_a_prompt_that_nobody_reads_means_no(error: type[BaseException], before: list[str]) -> None:
    command, _ = await answer(*before, error)
    assert command == Reject(approval_id="approval-c1", message=NOBODY_READS)


async def test_an_interrupt_is_no_answer() -> None:
    with pytest.raises(KeyboardInterrupt):
        await answer(KeyboardInterrupt)


@pytest.mark.attack("forged decisions", always=True)
async def test_words_that_are_no_choice_never_allow() -> None:
    command, _ = await answer(*["maybe"] * (MAX_QUESTIONS + 1))
    assert command == Reject(approval_id="approval-c1", message=NO_CLEAR_ANSWER)


@pytest.mark.attack("hostile texts", always=True)
@pytest.mark.requirement("ui.approval.whole")
async def test_hidden_characters_and_long_blanks_are_written_out() -> None:
    text = f"ls\rrm\x1b[8m \u202e{' ' * 300}; rm -rf ~"
    _, screen = await answer("a", request=asked(preview=Preview(kind="command", text=text)))
    assert "  1  ls⟨U+000D⟩rm⟨U+001B⟩[8m ⟨U+202E⟩⟨300 blanks⟩; rm -rf ~\n" in screen
    assert "hidden characters" in screen


async def test_what_each_part_of_a_command_does_stands_below_it() -> None:
    effects = (
        Effect(part="ls", text="Lists the folder", tag="Harmless", risk="low"),
        Effect(part="rm x", text="Deletes `x`", detail="Runs even if the part before fails.", tag="Lost", risk="high"),
    )
    preview = Preview(kind="command", text="ls; rm x")
    _, screen = await answer("a", request=asked(preview=preview, effects=effects, risk="high", allow="Delete 1 file"))
    assert "· ls: Lists the folder (Harmless).\n" in screen
    assert "‼ rm x: Deletes x (Lost). Runs even if the part before fails.\n" in screen
    assert "[a] delete 1 file" in screen


@pytest.mark.attack("hostile texts", always=True)
async def test_letters_that_imitate_others_are_written_out() -> None:
    _, screen = await answer("a", request=asked(preview=Preview(kind="command", text="cat p\u0430th")))
    assert "  1  cat p⟨U+0430⟩th\n" in screen
    assert "look-alike letters" in screen


async def test_long_code_is_whole_and_says_its_length() -> None:
    code = "\n".join(f"x = {number}" for number in range(300))
    _, screen = await answer("a", request=asked(code=code))
    assert f"(runs code in this kernel, 300 lines, {len(code):,} characters)" in screen
    assert "  300  x = 299\n" in screen
    assert CODE not in screen


async def test_a_box_that_is_closed_again_and_again_means_no() -> None:
    command, _ = await answer("", "", "")
    assert command == Reject(approval_id="approval-c1", message=NO_CLEAR_ANSWER)


async def test_what_may_be_kept_is_kept_for_the_project_when_the_person_says_so() -> None:
    command, screen = await answer("p", request=asked(keepable=True))
    assert "[p] allow in this project" in screen
    assert isinstance(command, Approve)
    assert command.remember == "project"
    command, screen = await answer("p", "d", "", request=asked())
    assert "[p]" not in screen
    assert isinstance(command, Reject)
