"""The tool `run_code`: what the model reads, what the user sees. In IPython without a kernel, and in a kernel."""

import asyncio
import atexit
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.kernel.test_execution import FIGURE, PIXEL
from tests.kernel.wire import Wire
from vibe_jupyter.errors import ToolError
from vibe_jupyter.kernel.execution import CodeRunner, raised_error
from vibe_jupyter.kernel.main_thread import Interrupted, MainThread
from vibe_jupyter.notebook.tools.run_cells import RunCodeArgs, RunCodeTool
from vibe_jupyter.protocol import Headline, ImagePart, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext, tool_spec
from vibe_jupyter.variables.kept import VariableLooks


@pytest.mark.parametrize(
    ("shown", "message"),
    [
        (["ValueError: first", "KeyError: other", "ValueError: last"], "last"),
        (["ValueError: last", "KeyError: behind"], "last"),
        (["KeyError: other"], "raised"),
        ([], "raised"),
    ],
)
def test_of_several_errors_that_were_shown_the_last_of_its_class_is_that_of_the_code(
    shown: list[str], message: str
) -> None:
    outputs = [
        {"output_type": "error", "ename": name, "evalue": words, "traceback": [f"{name} here", words]}
        for name, _, words in (one.partition(": ") for one in shown)
    ]
    stream = {"output_type": "stream", "name": "stdout", "text": "ValueError"}
    found = raised_error(ValueError("raised"), (*outputs, stream))
    assert (found.name, found.message) == ("ValueError", message)
    assert found.traceback.endswith(message)


class Terminal:
    """An engine on a thread, and IPython without a kernel on this one."""

    def __init__(self) -> None:
        self.shell = InteractiveShell.instance()
        self.main_thread = MainThread(None)
        self.engine = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.engine.run_forever, daemon=True)
        self.thread.start()
        self.progress: list[str] = []
        self.cancelled = False

    def run(self, code: str, *, sees_images: bool = False, **more: object) -> ToolResult:
        runner = CodeRunner(self.shell, None)
        looks = VariableLooks(lambda: self.shell.user_ns).of_code
        tool = RunCodeTool(self.main_thread, runner, sees_images=lambda: sees_images, looks=looks)
        context = ToolContext(call_id="1", progress=self.progress.append, cancelled=lambda: self.cancelled)
        arguments = RunCodeArgs.model_validate({"code": code, **more})
        future = asyncio.run_coroutine_threadsafe(tool.run(arguments, context), self.engine)
        self.main_thread.serve(future, interrupt=future.cancel)
        return future.result(5)

    def close(self) -> None:
        self.engine.call_soon_threadsafe(self.engine.stop)
        self.thread.join(5)
        self.engine.close()
        self.shell.atexit_operations()
        atexit.unregister(self.shell.atexit_operations)
        InteractiveShell.clear_instance()


@pytest.fixture(scope="module")
def terminal() -> Iterator[Terminal]:
    terminal = Terminal()
    yield terminal
    terminal.close()


def model_text(result: ToolResult) -> str:
    part = result.parts[0]
    assert isinstance(part, TextPart)
    return part.text


def test_the_card_reads_run_code_and_shows_the_whole_code() -> None:
    tool = RunCodeTool(MainThread(None), CodeRunner(object(), None))
    arguments = RunCodeArgs(code="1 + 1", reason="fit a line per species")
    assert tool.level == "ask"
    assert tool.headline(arguments) == Headline(
        verb="Ran code", doing="Running code", asking="Run code", target="", note="fit a line per species"
    )
    assert tool.preview(arguments) == Preview(kind="code", text="1 + 1", language="python", edits="code")
    assert tool.touches(arguments) == (Resource(kind="code", value="1 + 1", access="execute"),)


@pytest.mark.requirement("notebook.run_code.scratch")
def test_the_schema_has_the_four_arguments() -> None:
    schema = tool_spec(RunCodeTool(MainThread(None), CodeRunner(object(), None))).parameters
    assert schema["required"] == ["code"]
    assert list(schema["properties"]) == ["code", "keep", "timeout", "reason"]
    assert RunCodeArgs(code="1") == RunCodeArgs(code="1", keep=False, timeout=30, reason="")


def test_a_result_says_how_it_ended_what_came_and_which_names_it_bound(terminal: Terminal) -> None:
    result = terminal.run("total = 2\nprint('a\\nb')\ntotal")
    status, *rest = model_text(result).splitlines()
    assert status.startswith("ok in 0.")
    assert rest == ["a", "b", "2", "names created: total (taken back; keep=true keeps them)"]
    assert (result.summary, result.is_error) == ("3 lines", False)
    assert result.display == {"text/x-python": "total = 2\nprint('a\\nb')\ntotal", "text/plain": "a\nb\n2"}
    assert "".join(terminal.progress) == "a\nb\n2"


def test_an_error_is_told_with_its_traceback(terminal: Terminal) -> None:
    result = terminal.run("{}['x']")
    assert model_text(result).startswith("error: KeyError: 'x'\n")
    assert "----> 1 {}['x']" in model_text(result)
    assert (result.summary, result.is_error) == ("KeyError: 'x'", True)


def test_a_press_after_the_last_look_for_one_is_not_lost(terminal: Terminal) -> None:
    begun: list[int] = []

    def press(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_qualname == "MainThread._run_item":
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    work = terminal.main_thread.call(lambda: begun.append(1))
    future = asyncio.run_coroutine_threadsafe(work, terminal.engine)
    sys.setprofile(press)
    try:
        assert terminal.main_thread.serve(future, interrupt=lambda: None)
    finally:
        sys.setprofile(None)
    assert isinstance(future.exception(), Interrupted)
    assert begun == []


def test_a_time_limit_is_told(terminal: Terminal) -> None:
    result = terminal.run("import time; time.sleep(30)", timeout=0.2)
    assert model_text(result).startswith("timeout after 0.2 s\n")
    assert result.summary == "timeout after 0.2 s"


def test_long_output_is_whole_so_that_the_run_can_keep_what_it_cuts(terminal: Terminal) -> None:
    result = terminal.run("for i in range(3000): print('line', i)")
    assert all(f"line {number}\n" in model_text(result) for number in (0, 1_500, 2_999))
    assert len(str(result.display["text/plain"])) > 20_000
    assert result.summary == "3000 lines"


def test_a_progress_bar_is_told_in_its_last_state(terminal: Terminal) -> None:
    result = terminal.run("print('\\r10%\\r\\x1b[31m90%\\x1b[0m\\r100%')")
    assert model_text(result).splitlines()[1] == "100%"


def test_an_image_is_named_to_a_model_without_eyes_and_given_to_one_with(terminal: Terminal) -> None:
    code = f"from IPython.display import display\n{FIGURE};"
    blind, seeing = terminal.run(code), terminal.run(code, sees_images=True)
    assert model_text(blind).splitlines()[1] == "[image/png shown to the user]"
    assert blind.parts[1:] == ()
    assert model_text(seeing).splitlines()[1] == "[image/png shown to the user; image 1]"
    assert seeing.parts[1:] == (ImagePart(media_type="image/png", data=PIXEL),)
    assert seeing.summary == "1 figure"


def test_an_image_that_comes_again_is_not_sent_again_and_one_too_many_is_told_with_what_to_do(
    terminal: Terminal,
) -> None:
    code = (
        "from PIL import Image\nfrom IPython.display import display\n"
        "for side in (1, 2, 1, 3, 4, 5):\n    display(Image.new('RGB', (side, 9)))"
    )
    result = terminal.run(code, sees_images=True)
    assert model_text(result).splitlines()[1:7] == [
        "[image/png shown to the user; image 1]",
        "[image/png shown to the user; image 2]",
        "[image/png shown to the user; same as image 1]",
        "[image/png shown to the user; image 3]",
        "[image/png shown to the user; image 4]",
        "[image/png shown to the user; not sent, a result carries 4: draw it in a call of its own]",
    ]
    assert len(result.parts) == 5


def test_html_is_read_as_its_text_and_markdown_as_its_source(terminal: Terminal) -> None:
    result = terminal.run(
        "from IPython.display import HTML, Markdown, display\ndisplay(HTML('<b>x</b>'), Markdown('*y*'));"
    )
    assert model_text(result).splitlines()[1:3] == ["x", "*y*"]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_frame_is_a_table_with_a_line_for_each_row_however_wide_it_is(terminal: Terminal, library: str) -> None:
    made = "{f'a_long_column_name_{at}': [at + 0.25, at + 0.5] for at in range(12)}"
    lines = model_text(terminal.run(f"import {library}; {library}.DataFrame({made})")).split("\n")
    head = next(at for at, line in enumerate(lines) if "a_long_column_name_0 | " in line)
    rows = [line for line in lines[head + 1 :] if " | 11.5" in line or " | 10.5" in line]
    assert len(rows) == 1
    assert not any("\\" in line for line in lines)


def test_what_was_changed_in_place_is_named_and_what_was_only_read_is_not(terminal: Terminal) -> None:
    terminal.run("import pandas\ndf = pandas.DataFrame({'a': [1, 2]})\nitems, other = [1], {'k': 1}", keep=True)
    result = model_text(terminal.run("df['b'] = df.a * 2\nitems.append(2)\nprint(len(other))\nx = df"))
    assert result.split("\n")[1:] == [
        "1",
        "names created: x (taken back; keep=true keeps them)",
        "changed in place: df, items (in the kernel itself: this stays)",
    ]
    again = model_text(terminal.run("df = df.copy()\ndf['c'] = 1", keep=True))
    assert again.split("\n")[1:] == ["names changed: df"]


def test_of_many_names_the_first_are_named(terminal: Terminal) -> None:
    result = model_text(terminal.run("for at in range(20): globals()[f'n{at:02}'] = at"))
    assert "names created: at, n00, n01, n02, n03, n04, n05, n06, n07, n08, n09, n10 and 9 more (taken back;" in result


def test_the_time_in_which_code_waited_for_an_answer_is_told(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.input", lambda _prompt="": threading.Event().wait(0.2) or "typed")  # who thinks first
    first = model_text(terminal.run("print(input('Name? '))")).split("\n")
    assert first[0].startswith("ok in ")
    assert first[0].endswith(" s of it waiting for input()")
    assert first[1] == "typed"


def test_code_of_a_cancelled_run_does_not_begin(terminal: Terminal) -> None:
    terminal.cancelled = True
    try:
        with pytest.raises(ToolError, match="interrupted before it ran"):
            terminal.run("print('never')")
    finally:
        terminal.cancelled = False


async def test_code_with_no_cell_to_run_in_is_an_error_the_model_reads() -> None:
    tool = RunCodeTool(MainThread(None), CodeRunner(object(), None))
    context = ToolContext(call_id="1", progress=lambda _: None, cancelled=lambda: False)
    with pytest.raises(ToolError, match="The cell that would do this is over"):
        await tool.run(RunCodeArgs(code="1"), context)


def test_the_shell_is_left_as_it_was(terminal: Terminal) -> None:
    import sys

    shell = terminal.shell
    before = (sys.stdout, sys.stderr, shell.loop_runner, shell.hooks["show_in_pager"], vars(shell.displayhook).keys())
    count = shell.execution_count
    terminal.run("1/0")
    after = (sys.stdout, sys.stderr, shell.loop_runner, shell.hooks["show_in_pager"], vars(shell.displayhook).keys())
    assert (after, shell.execution_count) == (before, count)
    assert "_showtraceback" not in vars(shell)


def test_top_level_await_runs_without_a_kernel_too(terminal: Terminal) -> None:
    result = terminal.run("import asyncio\nawait asyncio.sleep(0.01, 'slept')")
    assert "'slept'" in model_text(result)


def test_the_tool_runs_in_a_kernel(kernel: Wire) -> None:
    kernel.run(
        "from vibe_jupyter.notebook.tools.run_cells import RunCodeTool, RunCodeArgs\n"
        "from vibe_jupyter.tools.contract import ToolContext\n"
        "tool = RunCodeTool(main_thread, runner)\n"
        "context = ToolContext(call_id='1', progress=lambda text: None, cancelled=lambda: False)"
    )
    cell = kernel.run("print(serve(tool.run(RunCodeArgs(code='6 * 7'), context)).parts[0].text)")
    assert cell.text.splitlines()[0] == "serving"
    assert cell.text.splitlines()[2] == "42"
