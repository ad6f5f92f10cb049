"""The user's own tools: defined in a cell or a file, offered at the next prompt, asked for like all others."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.app.conftest import Session, running_session
from tests.kernel.matrix import INSTALLED
from tests.kernel.wire import Cell
from vibe_jupyter.testing import call, say

pytestmark = pytest.mark.xdist_group("app")


@pytest.fixture(scope="module")
def own_kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with running_session(INSTALLED, tmp_path_factory.mktemp("tools")) as session:
        yield session


@pytest.fixture
def kernel(own_kernel: Session) -> Session:
    own_kernel.run("%vibe reset")
    own_kernel.model.requests.clear()
    return own_kernel


def offered(session: Session, request: int = 0) -> dict[str, dict[str, Any]]:
    return {tool["function"]["name"]: tool["function"] for tool in session.model.requests[request].body["tools"]}


def use(session: Session, name: str, **arguments: Any) -> str:
    """Have the model call a tool that may run; what it was told."""
    session.model.will_reply(call(name, **arguments), say("Done."))
    session.run(f"%vibe --yes={name} use it")
    return session.model.requests[-1].messages[-1]["content"]


@pytest.mark.requirement("tools.base.custom.function")
def test_a_function_in_a_cell_is_offered_at_the_next_prompt_with_its_docstring_and_annotations(kernel: Session) -> None:
    kernel.run(
        "import vibe_jupyter\n"
        "@vibe_jupyter.tool\n"
        "def area(width: float, height: float = 2.0, unit: str = 'm') -> float:\n"
        '    """Area of a rectangle.\n\n'
        "    Args:\n"
        "        width: Length of one side,\n"
        "            in metres.\n"
        "        height: Of the other.\n"
        '    """\n'
        "    return width * height\n"
    )
    assert use(kernel, "area", width=3) == "6.0"
    function = offered(kernel)["area"]
    assert function["description"] == "Area of a rectangle."
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "width": {"type": "number", "description": "Length of one side, in metres."},
            "height": {"type": "number", "description": "Of the other.", "default": 2.0},
            "unit": {"type": "string", "default": "m"},
        },
        "required": ["width"],
        "additionalProperties": False,
    }


def test_it_runs_where_cells_run_and_sees_what_they_see(kernel: Session) -> None:
    kernel.run(
        "import threading, vibe_jupyter\n"
        "seen = []\n"
        "@vibe_jupyter.tool\n"
        "def look() -> str:\n"
        '    "Looks."\n'
        "    seen.append(threading.current_thread() is threading.main_thread())\n"
        "    print('on the way')\n"
        "    return get_ipython().__class__.__name__\n"
    )
    assert use(kernel, "look") == "ZMQInteractiveShell\nprinted:\non the way"
    assert kernel.run("print(seen)").text == "[True]\n"


def test_an_asynchronous_function_is_awaited_on_the_kernels_own_loop(kernel: Session) -> None:
    kernel.run(
        "import asyncio, vibe_jupyter\n"
        "loop = asyncio.get_running_loop()\n"
        "@vibe_jupyter.tool\n"
        "async def wait() -> bool:\n"
        '    "Waits."\n'
        "    await asyncio.sleep(0.01)\n"
        "    return asyncio.get_running_loop() is loop\n"
    )
    assert use(kernel, "wait") == "true"


def test_a_redefined_function_takes_the_place_of_the_first(kernel: Session) -> None:
    for value in ("first", "second"):
        kernel.run(f"import vibe_jupyter\n@vibe_jupyter.tool\ndef again() -> str:\n    'Says.'\n    return '{value}'")
        assert use(kernel, "again") == value


def test_results_are_told_by_their_kind(kernel: Session) -> None:
    kernel.run(
        "import pandas, pydantic, vibe_jupyter\n"
        "class Point(pydantic.BaseModel):\n"
        "    x: int = 1\n"
        "results = {'frame': pandas.DataFrame({'a': [1, 2]}), 'point': Point(), 'none': None, 'dict': {'p': Point()}}\n"
        "@vibe_jupyter.tool\n"
        "def give(kind: str):\n"
        "    'Gives.'\n"
        "    return results[kind]\n"
    )
    assert use(kernel, "give", kind="point") == '{"x":1}'
    assert use(kernel, "give", kind="dict") == '{"p": {"x": 1}}'
    assert use(kernel, "give", kind="none") == "It returned nothing."
    assert use(kernel, "give", kind="frame").startswith("pandas DataFrame 2 × 1")


def test_an_exception_is_the_models_to_read_with_its_place(kernel: Session) -> None:
    kernel.run("import vibe_jupyter\n@vibe_jupyter.tool\ndef fail():\n    'Fails.'\n    return 1 / 0")
    told = use(kernel, "fail")
    assert told.startswith("fail raised ZeroDivisionError: division by zero")
    assert "return 1 / 0" in told


@pytest.mark.requirement("permission.level.ask")
def test_it_asks_on_a_card_that_shows_the_whole_call(kernel: Session) -> None:
    kernel.run(
        "import vibe_jupyter\n@vibe_jupyter.tool\ndef greet(who: str):\n    'Greets.'\n    return 'hello ' + who"
    )
    kernel.model.will_reply(call("greet", who="you"), say("Done."))
    request = kernel.wire.send("%vibe greet")
    view = kernel.view(request)
    card = view.card()
    view.command(type="approve", approval_id=card)
    assert not kernel.wire.cell(request).error
    assert kernel.model.requests[-1].messages[-1]["content"] == "hello you"


def test_an_interrupt_ends_it_like_a_cell(kernel: Session) -> None:
    kernel.run(
        "import time, vibe_jupyter\n"
        "@vibe_jupyter.tool\n"
        "def forever() -> None:\n"
        "    'Never ends.'\n"
        "    print('begun', flush=True)\n"
        "    while True:\n"
        "        time.sleep(0.02)\n"
    )
    kernel.model.will_reply(call("forever"))
    request = kernel.wire.send("%vibe --yes=forever wait")
    kernel.view(request).wait_for("begun")
    kernel.wire.interrupt()
    assert kernel.wire.cell(request).error.startswith("RunStopped: ")
    assert len(kernel.model.requests) == 1
    kernel.model.will_reply(say("Hello."))
    kernel.run("%vibe hello")
    assert "interrupted" in kernel.model.requests[1].messages[-2]["content"]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("@vibe_jupyter.tool\ndef grep():\n    'Mine.'", "There is a tool grep already"),
        ("@vibe_jupyter.tool\ndef silent(): pass", "does not say what it does"),
        ("@vibe_jupyter.tool\ndef many(*all): 'Takes all.'", "cannot be given by name"),
        ("import socket\n@vibe_jupyter.tool\ndef odd(s: socket.socket): 'Odd.'", "cannot be described to a model"),
        (
            "from collections.abc import Callable\n"
            "@vibe_jupyter.tool\ndef each(f: Callable[[int], int] = abs): 'Calls.'",
            "cannot be described to a model",
        ),
        ("@vibe_jupyter.tool\ndef hidden(_x: int): 'Hides.'", "cannot be given by name"),
        ("@vibe_jupyter.tool(name='a b')\ndef f(): 'F.'", "is not a valid tool name"),
        ("@vibe_jupyter.tool\nclass C: pass", "A class goes on vibe_jupyter.tools.BaseTool"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_where_it_stands(kernel: Session, code: str, words: str) -> None:
    cell: Cell = kernel.wire.cell(kernel.wire.send(f"import vibe_jupyter\n{code}"))
    assert words in cell.error


def test_names_and_defaults_of_any_kind_are_taken_without_a_word(kernel: Session) -> None:
    cell = kernel.wire.cell(
        kernel.wire.send(
            "import math, vibe_jupyter\n"
            "@vibe_jupyter.tool\n"
            "def odd(schema: str, copy: bool = True, kind: object = int, upper: float = math.inf, _cache: dict = {}):\n"
            "    'Odd.'\n"
            "    return f'{schema} {copy} {kind.__name__} {upper} {_cache}'\n"
        )
    )
    assert (cell.error, cell.text) == ("", "")
    kernel.model.will_reply(call("odd", schema="s"), say("Done."))
    shown = kernel.run("%vibe --yes=odd use it")
    assert kernel.model.requests[-1].messages[-1]["content"] == "s True int inf {}"
    assert "Warning" not in shown.text
    assert list(offered(kernel)["odd"]["parameters"]["properties"]) == ["schema", "copy", "kind", "upper"]


MANUAL_CLASS = '''
from pathlib import Path
from vibe.core.tools.base import BaseTool, BaseToolConfig


class ProjectStatsConfig(BaseToolConfig):
    include_hidden: bool = False
    max_depth: int = 3


class ProjectStats(BaseTool[ProjectStatsConfig]):
    @classmethod
    def get_name(cls) -> str:
        return "project_stats"

    @classmethod
    def get_description(cls) -> str:
        return "Generate statistics about the project structure"

    @classmethod
    def get_tool_prompt(cls) -> str:
        """Custom prompt for this tool."""
        return """
# Project stats

Always count twice.
        """

    async def run(
        self,
        include_hidden: bool = False,
        max_depth: int = 3
    ) -> str:
        """Generate project statistics."""
        files = sum(path.is_file() for path in Path.cwd().rglob("*.py"))
        return f"Project Statistics:\\n- Files: {files}\\n- Config: {self.config.model_dump()}"
'''
RELEASE_CLASS = """
import threading
from collections.abc import AsyncGenerator
from typing import ClassVar

from pydantic import BaseModel
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolPermission
from vibe.core.types import ToolStreamEvent


class CountArgs(BaseModel):
    words: list[str]


class CountResult(BaseModel):
    count: int
    calls: int
    thread: str


class CountState(BaseToolState):
    calls: int = 0


class CountWords(BaseTool[CountArgs, CountResult, BaseToolConfig, CountState]):
    description: ClassVar[str] = "Counts words."

    async def run(
        self, args: CountArgs, ctx: InvokeContext | None = None
    ) -> AsyncGenerator[ToolStreamEvent | CountResult, None]:
        self.state.calls += 1
        yield ToolStreamEvent(tool_name="count_words", message="counting", tool_call_id=ctx.tool_call_id)
        yield CountResult(count=len(args.words), calls=self.state.calls, thread=threading.current_thread().name)
"""
DISPLAYED_CLASS = """
from collections.abc import AsyncGenerator

from pydantic import BaseModel
from vibe.core.tools.base import (
    BaseTool,
    BaseToolConfig,
    BaseToolState,
    InvokeContext,
    ToolError,
    ToolPermission,
)
from vibe.core.tools.ui import ToolCallDisplay, ToolResultDisplay, ToolUIData
from vibe.core.types import ToolCallEvent, ToolResultEvent, ToolStreamEvent


class SurveyArgs(BaseModel):
    task: str
    agent: str = "explore"


class SurveyResult(BaseModel):
    response: str
    turns_used: int
    completed: bool


class SurveyToolConfig(BaseToolConfig):
    permission: ToolPermission = ToolPermission.ASK
    turns: int = 2


class Survey(
    BaseTool[SurveyArgs, SurveyResult, SurveyToolConfig, BaseToolState],
    ToolUIData[SurveyArgs, SurveyResult],
):
    \"\"\"Surveys cars.\"\"\"

    @classmethod
    def get_call_display(cls, event: ToolCallEvent) -> ToolCallDisplay:
        args = event.args
        if isinstance(args, SurveyArgs):
            return ToolCallDisplay(summary=f"Running {args.agent} agent: {args.task}")
        return ToolCallDisplay(summary="Running subagent")

    @classmethod
    def get_result_display(cls, event: ToolResultEvent) -> ToolResultDisplay:
        return ToolResultDisplay(success=True, message="Agent completed")

    @classmethod
    def get_status_text(cls) -> str:
        return "Running subagent"

    async def run(
        self, args: SurveyArgs, ctx: InvokeContext | None = None
    ) -> AsyncGenerator[ToolStreamEvent | SurveyResult, None]:
        yield {"response": args.task, "turns_used": self.config.turns, "completed": True}
"""
FUNCTION_FILE = '''
import threading
import vibe_jupyter


@vibe_jupyter.tool
def where(place: str) -> str:
    """Says where it runs.

    :param place: anywhere
    """
    return place + " " + str(threading.current_thread() is threading.main_thread())
'''


@pytest.fixture
def folder_of_tools(kernel: Session) -> Iterator[Path]:
    folder = kernel.folder / "vibe" / "tools"
    folder.mkdir()
    yield folder
    for path in sorted(folder.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    folder.rmdir()


@pytest.mark.requirement(
    "tools.base.custom.short",
    "tools.base.model.config-extra",
    "tools.base.model.prompt",
    "tools.base.discovery.home",
)
def test_a_class_as_the_manual_writes_it_is_a_tool_with_its_settings_and_its_prompt(
    kernel: Session, folder_of_tools: Path
) -> None:
    (folder_of_tools / "project_stats.py").write_text(MANUAL_CLASS, encoding="utf-8")
    config = kernel.folder / "vibe" / "config.toml"
    before = config.read_text(encoding="utf-8")
    config.write_text(
        before + '\n[tools.project_stats]\nmax_depth = 7\nallowlist = ["x"]\nother = 1\n', encoding="utf-8"
    )
    try:
        told = use(kernel, "project_stats", max_depth=5)
    finally:
        config.write_text(before, encoding="utf-8")
    assert told == (
        "Project Statistics:\n- Files: 1\n- Config: {'permission': 'ask', 'allowlist': ['x'], 'denylist': [], "
        "'include_hidden': False, 'max_depth': 7, 'other': 1}"
    )
    function = offered(kernel)["project_stats"]
    assert function["description"] == "# Project stats\n\nAlways count twice."
    assert set(function["parameters"]["properties"]) == {"include_hidden", "max_depth"}


@pytest.mark.requirement("tools.base.custom.class", "tools.base.model.state")
def test_a_class_as_the_releases_write_it_keeps_its_state_for_a_conversation_and_runs_beside_the_main_thread(
    kernel: Session, folder_of_tools: Path
) -> None:
    (folder_of_tools / "deeper").mkdir()
    (folder_of_tools / "deeper" / "count.py").write_text(RELEASE_CLASS, encoding="utf-8")
    for calls in (1, 2, 1):
        told = json.loads(use(kernel, "count_words", words=["a", "b"]))
        assert told == {"count": 2, "calls": calls, "thread": "vibe-engine"}
        if calls == 2:
            kernel.run("%vibe reset")
    assert offered(kernel)["count_words"]["parameters"]["required"] == ["words"]


@pytest.mark.requirement("tools.base.custom.display")
def test_a_class_with_texts_for_another_front_end_is_a_tool(kernel: Session, folder_of_tools: Path) -> None:
    (folder_of_tools / "survey.py").write_text(DISPLAYED_CLASS, encoding="utf-8")
    told = json.loads(use(kernel, "survey", task="Count the cars."))
    assert told == {"response": "Count the cars.", "turns_used": 2, "completed": True}
    function = offered(kernel)["survey"]
    assert (function["description"], list(function["parameters"]["properties"])) == ("Surveys cars.", ["task", "agent"])


def test_a_function_in_a_file_runs_beside_the_main_thread(kernel: Session, folder_of_tools: Path) -> None:
    (folder_of_tools / "where.py").write_text(FUNCTION_FILE, encoding="utf-8")
    assert use(kernel, "where", place="here") == "here False"
    assert offered(kernel)["where"]["parameters"]["properties"]["place"]["description"] == "anywhere"


@pytest.mark.parametrize(
    ("ends", "name"),
    [
        ("sys.exit(2)", "SystemExit"),
        ("next(iter([]))", "StopIteration"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
    ],
)
def test_a_function_in_a_file_ends_nothing_but_its_call(
    kernel: Session, folder_of_tools: Path, ends: str, name: str
) -> None:
    written = FUNCTION_FILE.replace("    return ", f"    import sys\n    {ends}\n    return ")
    (folder_of_tools / "where.py").write_text(written, encoding="utf-8")
    said = f"where ended with {name}, which goes no further than this."
    assert use(kernel, "where", place="here") == said
    assert use(kernel, "where", place="there") == said


@pytest.mark.requirement("tools.base.discovery.load-error", "tools.base.discovery.private")
def test_a_file_that_fails_is_told_with_its_line_and_stops_nothing(kernel: Session, folder_of_tools: Path) -> None:
    (folder_of_tools / "broken.py").write_text("import os\nraise SystemExit('no')\n", encoding="utf-8")
    (folder_of_tools / "syntax.py").write_text("def (:\n", encoding="utf-8")
    (folder_of_tools / "_private.py").write_text("1 / 0\n", encoding="utf-8")
    (folder_of_tools / "where.py").write_text(FUNCTION_FILE, encoding="utf-8")
    kernel.model.will_reply(say("Hello."))
    shown = kernel.html(kernel.run("%vibe hello"))
    assert "broken.py, line 2: SystemExit: no." in shown
    assert "syntax.py, line 1: SyntaxError: invalid syntax" in shown
    assert "_private" not in shown
    assert "where" in offered(kernel)


def test_a_changed_file_counts_at_the_next_prompt(kernel: Session, folder_of_tools: Path) -> None:
    path = folder_of_tools / "where.py"
    path.write_text(FUNCTION_FILE, encoding="utf-8")
    assert use(kernel, "where", place="here") == "here False"
    path.write_text(FUNCTION_FILE.replace('place + " "', '"new "'), encoding="utf-8")
    assert use(kernel, "where", place="here") == "new False"


@pytest.mark.requirement("tools.base.discovery.recursive", "tools.base.discovery.module-names")
def test_paths_of_the_settings_may_be_folders_or_files_and_names_of_files_may_repeat(
    kernel: Session, folder_of_tools: Path
) -> None:
    places = [folder_of_tools, kernel.folder / "a", kernel.folder / "b" / "deep", kernel.folder / "single"]
    for number, place in enumerate(places):
        place.mkdir(parents=True, exist_ok=True)
        (place / "same.py").write_text(FUNCTION_FILE.replace("where", f"where_{number}"), encoding="utf-8")
    config = kernel.folder / "vibe" / "config.toml"
    before = config.read_text(encoding="utf-8")
    named = [kernel.folder / "a", "tools", kernel.folder / "b", kernel.folder / "single" / "same.py", "/nowhere"]
    config.write_text(f"tool_paths = {[str(path) for path in named]}\n{before}", encoding="utf-8")
    kernel.model.will_reply(say("Hello."))
    try:
        shown = kernel.html(kernel.run("%vibe hello"))
    finally:
        config.write_text(before, encoding="utf-8")
    assert {f"where_{number}" for number in range(4)} <= set(offered(kernel))
    assert "/nowhere cannot be read (No such file or directory)" in shown
    assert "left out, since" not in shown


CLASSES = """
from abc import abstractmethod
from vibe_jupyter.tools import BaseTool, BaseToolConfig, tool

class Halfway(BaseTool):
    "Not all there."

    @abstractmethod
    async def run(self): ...

class NoRun(BaseTool):
    "Does nothing."

class FirstOne(Halfway):
    "The first."

    async def run(self) -> int:
        return 1

class HTTPSecond(BaseTool[BaseToolConfig]):
    "The second."

    def run(self, n: int) -> int:
        return n + 1

class Grep(BaseTool):
    "Ours."

    async def run(self) -> int:
        return 1

@tool
def third(path: str) -> str:
    "The third."
    return open(path).read()
"""


@pytest.mark.requirement("tools.base.discovery.classes", "wire.tools.name-snake")
def test_every_whole_class_of_a_file_is_a_tool(kernel: Session, folder_of_tools: Path) -> None:
    (folder_of_tools / "classes.py").write_text(CLASSES, encoding="utf-8")
    kernel.model.will_reply(say("Hello."))
    shown = kernel.html(kernel.run("%vibe hello"))
    assert "There is a tool grep already." in shown
    names = set(offered(kernel))
    assert {"first_one", "http_second", "third"} <= names
    assert not {"halfway", "no_run", "base_tool"} & names
    assert use(kernel, "http_second", n=4) == "5"
    assert use(kernel, "third", path="/nowhere") == (
        "third raised FileNotFoundError: [Errno 2] No such file or directory: '/nowhere'"
    )


def test_a_tool_may_have_its_usage_in_a_file_beside_it(kernel: Session, folder_of_tools: Path) -> None:
    (folder_of_tools / "prompts").mkdir()
    (folder_of_tools / "prompts" / "count_words.md").write_text("Count slowly.\n", encoding="utf-8")
    (folder_of_tools / "count.py").write_text(RELEASE_CLASS, encoding="utf-8")
    kernel.model.will_reply(say("Hello."))
    kernel.run("%vibe hello")
    assert offered(kernel)["count_words"]["description"] == "Count slowly."


@pytest.mark.requirement("tools.base.filter.enabled", "tools.base.filter.disabled")
def test_tools_can_be_chosen_by_pattern(kernel: Session, folder_of_tools: Path) -> None:
    (folder_of_tools / "where.py").write_text(FUNCTION_FILE, encoding="utf-8")
    config = kernel.folder / "vibe" / "config.toml"
    before = config.read_text(encoding="utf-8")
    lists = 'enabled_tools = ["read_*", "re:wh.+", "grep"]\ndisabled_tools = ["read_cell"]\n'
    config.write_text(lists + before, encoding="utf-8")
    try:
        kernel.model.will_reply(say("Hello."))
        kernel.run("%vibe hello")
    finally:
        config.write_text(before, encoding="utf-8")
    assert set(offered(kernel)) == {"read_file", "where", "grep"}


@pytest.mark.requirement("tools.base.custom.auto", "wire.tools.only-active")
@pytest.mark.parametrize("agent", ["default", "accept-edits", "auto-approve"])
def test_each_request_of_an_agent_offers_what_the_settings_of_that_moment_leave_own_tools_too(
    kernel: Session, folder_of_tools: Path, agent: str
) -> None:
    (folder_of_tools / "where.py").write_text(FUNCTION_FILE, encoding="utf-8")
    config = kernel.folder / "vibe" / "config.toml"
    before = config.read_text(encoding="utf-8")

    def offered_with(settings: str) -> set[str]:
        config.write_text(settings + before, encoding="utf-8")
        kernel.model.will_reply(say("Hello."))
        kernel.run(f"%vibe --agent={agent} hello")  # one conversation: what was offered earlier counts no more
        return set(offered(kernel, -1))

    try:
        everything = offered_with("")
        assert {"where", "grep", "bash", "run_code", "read_notebook"} <= everything
        assert offered_with('disabled_tools = ["grep", "re:read_.*"]\n') == {
            name for name in everything if name != "grep" and not name.startswith("read_")
        }
        assert offered_with('disabled_tools = ["where"]\n') == everything - {"where"}
        assert offered_with('enabled_tools = ["where"]\n') == {"where"}
        assert offered_with("") == everything
    finally:
        config.write_text(before, encoding="utf-8")


@pytest.mark.requirement("tools.base.model.errors")
@pytest.mark.parametrize("raised", ["OSError(28, 'No space left', PATH)", "PermissionError(13, 'Denied', PATH)"])
def test_an_error_of_the_system_is_told_in_words_without_a_trace_or_a_key(kernel: Session, raised: str) -> None:
    kernel.run(
        "import os, vibe_jupyter\n"
        "os.environ['OFFICE_API_KEY'] = 'sk-its-own-4242424242'\n"
        "PATH = '/data/' + os.environ['OFFICE_API_KEY'] + '/table.csv'\n"
        "@vibe_jupyter.tool\n"
        "def store() -> None:\n"
        '    "Stores the table."\n'
        f"    raise {raised}\n"
    )
    told = use(kernel, "store")
    kernel.run("import os; del os.environ['OFFICE_API_KEY']")
    assert told.startswith("store raised ")
    assert "No space left" in told or "Denied" in told
    assert "4242424242" not in told
    assert "/data/" in told
    assert "\n" not in told


STEPS = """
import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from pydantic import BaseModel
from vibe.core.tools.base import BaseTool, BaseToolConfig, InvokeContext
from vibe.core.types import ToolStreamEvent

class StepsArgs(BaseModel):
    number: int

class StepsResult(BaseModel):
    done: int

class Steps(BaseTool[StepsArgs, StepsResult, BaseToolConfig]):
    "Takes steps."

    async def run(self, args: StepsArgs, ctx: InvokeContext) -> AsyncGenerator[ToolStreamEvent | StepsResult, None]:
        for step in range(args.number):
            yield ToolStreamEvent(message=f"step {step} of {args.number}")
        while not Path("seen").exists():
            await asyncio.sleep(0.01)
        yield StepsResult(done=args.number)
"""


@pytest.mark.requirement("tools.base.model.invoke")
def test_arguments_are_looked_at_first_then_there_is_progress_and_one_result(
    kernel: Session, folder_of_tools: Path
) -> None:
    (folder_of_tools / "steps.py").write_text(STEPS, encoding="utf-8")
    wrong = use(kernel, "steps", number="many")
    assert wrong.startswith("Wrong arguments for steps: number:")
    assert wrong.endswith("Nothing was run. steps takes number: integer (required).")
    kernel.run("%vibe reset")
    kernel.model.requests.clear()
    kernel.model.will_reply(call("steps", number=3), say("Done."))
    request = kernel.wire.send("%vibe --yes=steps go")
    view = kernel.view(request)
    view.wait_for("step 0 of 3")
    view.wait_for("step 2 of 3")
    (kernel.folder / "seen").touch()
    assert not kernel.wire.cell(request).error
    results = [message for message in kernel.model.requests[-1].messages if message["role"] == "tool"]
    assert [result["content"] for result in results] == ['{"done":3}']


SAYS = """
import vibe_jupyter

with open("{place}.txt", "a") as log:
    log.write("{name} ")

@vibe_jupyter.tool
def {name}() -> str:
    "Says where it is from."
    return "{place}"
"""


@pytest.mark.requirement("tools.base.discovery.order")
def test_of_one_name_the_first_place_counts_and_each_place_is_read_once(kernel: Session, folder_of_tools: Path) -> None:
    places = {"paths": kernel.folder / "given", "project": kernel.folder / ".vibe" / "tools", "own": folder_of_tools}
    order = list(places)
    for at, (place, folder) in enumerate(places.items()):
        folder.mkdir(parents=True, exist_ok=True)
        names = ["grep", *(f"from_{one}" for one in order[: at + 1])]
        for name in names:
            (folder / f"{name}.py").write_text(SAYS.format(name=name, place=place), encoding="utf-8")
    config = kernel.folder / "vibe" / "config.toml"
    before = config.read_text(encoding="utf-8")
    config.write_text(f"tool_paths = {[str(places['paths'])] * 2}\n{before}", encoding="utf-8")
    try:
        kernel.model.will_reply(say("Hello."))
        request = kernel.wire.send("%vibe hello")
        view = kernel.view(request)
        view.command(type="approve", approval_id=view.card())
        assert not kernel.wire.cell(request).error
        said = {name: use(kernel, name) for name in ("from_paths", "from_project", "from_own")}
        builtin = offered(kernel)["grep"]["description"]
    finally:
        config.write_text(before, encoding="utf-8")
        kernel.run("%vibe trust forget")
        shutil.rmtree(kernel.folder / ".vibe")
    assert said == {f"from_{place}": place for place in order}
    assert builtin != "Says where it is from."
    loaded = {place: (kernel.folder / f"{place}.txt").read_text(encoding="utf-8").split() for place in order}
    assert loaded == {
        place: sorted(["grep", *(f"from_{one}" for one in order[: at + 1])]) for at, place in enumerate(order)
    }


TYPED = """
from pydantic import BaseModel
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState

class Args(BaseModel):
    give: str

class Result(BaseModel):
    total: int

class Config(BaseToolConfig):
    most: int = 3

class State(BaseToolState):
    calls: int = 0

class Typed(BaseTool[Args, Result, Config, State]):
    "Gives what it is told."

    async def run(self, args: Args):
        if args.give == "wrong state":
            self.state.calls = "many"
        self.state.calls += 1
        return {"model": Result(total=self.config.most), "dict": {"total": "4"}, "wrong": {"total": "four"}}[args.give]
"""


@pytest.mark.requirement("tools.base.model.types")
def test_arguments_results_settings_and_state_are_validated_each_by_its_model(
    kernel: Session, folder_of_tools: Path
) -> None:
    (folder_of_tools / "typed.py").write_text(TYPED, encoding="utf-8")
    assert use(kernel, "typed", give=1).startswith("Wrong arguments for typed: give:")
    assert json.loads(use(kernel, "typed", give="model")) == {"total": 3}
    assert json.loads(use(kernel, "typed", give="dict")) == {"total": 4}
    assert use(kernel, "typed", give="wrong").startswith("typed ran, but its result is not a valid Result: total:")
    assert "typed raised ValidationError: 1 validation error for State" in use(kernel, "typed", give="wrong state")
    config = kernel.folder / "vibe" / "config.toml"
    before = config.read_text(encoding="utf-8")
    config.write_text(f'{before}\n[tools.typed]\nmost = "many"\n', encoding="utf-8")
    try:
        kernel.run("%vibe reset")
        kernel.model.requests.clear()
        kernel.model.will_reply(say("Hello."))
        shown = kernel.html(kernel.run("%vibe hello"))
    finally:
        config.write_text(before, encoding="utf-8")
    assert "[tools.typed] most: Input should be a valid integer" in shown
    assert "typed" not in offered(kernel)
