"""The tool `run_code`: what the model reads, what the user sees. In IPython without a kernel, and in a kernel."""

import asyncio
import atexit
import threading
from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from tests.kernel.test_execution import FIGURE, PIXEL
from tests.kernel.wire import Wire
from vibe_jupyter.errors import ToolError
from vibe_jupyter.kernel.execution import CodeRunner
from vibe_jupyter.kernel.main_thread import MainThread
from vibe_jupyter.notebook.tools.run_cells import RunCodeArgs, RunCodeTool
from vibe_jupyter.protocol import Headline, ImagePart, Preview, Resource, TextPart, ToolResult
from vibe_jupyter.tools.contract import ToolContext, tool_spec


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
        tool = RunCodeTool(self.main_thread, CodeRunner(self.shell, None), sees_images=lambda: sees_images)
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
    assert seeing.parts[1:] == (ImagePart(media_type="image/png", data=PIXEL),)
    assert seeing.summary == "1 figure"


def test_html_is_read_as_its_text_and_markdown_as_its_source(terminal: Terminal) -> None:
    result = terminal.run(
        "from IPython.display import HTML, Markdown, display\ndisplay(HTML('<b>x</b>'), Markdown('*y*'));"
    )
    assert model_text(result).splitlines()[1:3] == ["x", "*y*"]


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
