"""What was judged is what is opened: places that change between the decision, the card and the run, in whole runs."""

import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from tests.agent.conftest import Bench
from tests.attacks.collection import Attempts
from tests.tools.conftest import snapshot
from vibe_jupyter.agent.approval import CHANGED_MEANWHILE
from vibe_jupyter.context.mentions import Mentions
from vibe_jupyter.files.access import FileAccess
from vibe_jupyter.files.workspace import Workspace
from vibe_jupyter.permissions.decide import RunTerms
from vibe_jupyter.protocol import (
    ApprovalRequested,
    Approve,
    Command,
    Event,
    Headline,
    Level,
    Preview,
    Reject,
    Resource,
    ToolFinished,
    ToolResult,
)
from vibe_jupyter.testing import ScriptedModel, answer, call, say
from vibe_jupyter.tools.contract import StaticToolset, Tool, ToolContext
from vibe_jupyter.tools.grep import GrepTool
from vibe_jupyter.tools.read_file import ReadFileTool
from vibe_jupyter.tools.search_replace import SearchReplaceOptions, SearchReplaceTool
from vibe_jupyter.tools.write_file import WriteFileTool

SECRET = "TOPSECRET outside"
EDIT = "<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE"
CALLS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "read": ("read_file", {"path": "out/a.txt"}),
    "grep a folder": ("grep", {"pattern": "o", "path": "out"}),
    "grep a file": ("grep", {"pattern": "o", "path": "out/a.txt"}),
    "a new file": ("write_file", {"path": "out/new.txt", "content": "new\n"}),
    "a new folder": ("write_file", {"path": "out/deep/er/new.txt", "content": "new\n"}),
    "overwrite": ("write_file", {"path": "out/a.txt", "content": "new\n", "overwrite": True}),
    "edit": ("search_replace", {"file_path": "out/a.txt", "content": EDIT}),
    "a name that is no file": ("read_file", {"path": "out"}),
    "a name that is missing": ("read_file", {"path": "out/secre.txt"}),
}


@dataclass
class Place:
    """A project with a folder `out`, another folder outside, and the tools of the project."""

    project: Path
    outside: Path
    bench: Bench
    at_run: Callable[[], None] = lambda: None
    """Done at the start of each tool's run, after the decision."""
    at_touch: Callable[[Any], None] = lambda _args: None
    """Done when a call is prepared, before its paths are resolved."""

    def swap(self) -> None:
        """The folder becomes a link to the one outside."""
        (self.project / "out").rename(self.project.parent / "moved")
        (self.project / "out").symlink_to(self.outside)

    def swap_file(self) -> None:
        """The file becomes a link to the one outside."""
        (self.project / "out/a.txt").unlink()
        (self.project / "out/a.txt").symlink_to(self.outside / "a.txt")

    def replace(self) -> None:
        """Another real folder, from outside, takes the place of the folder."""
        (self.project / "out").rename(self.project.parent / "moved")
        shutil.copytree(self.outside, self.project / "out")

    async def ask(
        self, name: str, decide: Callable[[ApprovalRequested], Command] | None = None, terms: RunTerms | None = None
    ) -> list[Event]:
        tool, arguments = CALLS[name]
        self.bench.model.will_reply(call(tool, **arguments), say("Done."))
        return await self.bench.ask("go", decide=decide, terms=terms)

    def told(self) -> str:
        """All that the model was sent."""
        return "\n".join(str(request.messages) for request in self.bench.model.requests)


@pytest.fixture
async def place(project: Path, model: ScriptedModel, tmp_path: Path) -> AsyncIterator[Place]:
    outside = tmp_path / "outside"
    for folder, text in ((project / "out", "old\n"), (outside, f"old\n{SECRET}\n")):
        folder.mkdir()
        (folder / "a.txt").write_text(text, encoding="utf-8")
        (folder / "secret.txt").write_text(text, encoding="utf-8")
    (outside / "name-of-a-secret").touch()
    bench = Bench(tmp_path / "sessions", model)
    bench.permissions.workspace = workspace = Workspace(project)
    found = Place(project, outside, bench)
    files = FileAccess(workspace)
    tools: Sequence[Tool[Any]] = (
        ReadFileTool(workspace),
        GrepTool(workspace),
        WriteFileTool(files),
        SearchReplaceTool(files),
    )
    bench.tools = StaticToolset([_Late(tool, found) for tool in tools])
    yield found
    await bench.client.close()
    bench.journal.close()


class _Late:
    """A tool, and something that happens as soon as it runs."""

    def __init__(self, tool: Tool[Any], place: Place) -> None:
        self._tool, self._place = tool, place

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)

    def touches(self, args: Any) -> Sequence[Resource]:
        self._place.at_touch(args)
        return self._tool.touches(args)

    async def run(self, args: Any, context: ToolContext) -> ToolResult:
        self._place.at_run()
        return await self._tool.run(args, context)


@pytest.fixture
def model() -> Any:
    with ScriptedModel([]) as model:
        yield model


@pytest.fixture(params=["ripgrep", "python"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setenv("PATH", "/nowhere")
    return request.param


@pytest.mark.attack("swapped places", always=True)
@pytest.mark.requirement("permission.path.race")
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("change", ["swap", "swap_file", "replace"])
async def test_an_allowed_call_never_leaves_the_place_it_was_allowed_for(place: Place, name: str, change: str) -> None:
    if change == "swap_file" and ("folder" in name or "name" in name or name == "a new file"):
        change = "swap"
    before = snapshot(place.outside)
    place.bench.permissions.levels = {"write_file": "always", "search_replace": "always"}
    place.at_run = getattr(place, change)

    events = await place.ask(name)

    assert not [event for event in events if isinstance(event, ApprovalRequested)]
    assert [event.outcome for event in events if isinstance(event, ToolFinished)] == ["error"]
    assert snapshot(place.outside) == before
    assert SECRET not in place.told()
    assert "name-of-a-secret" not in place.told()
    if change == "replace":
        assert snapshot(place.project / "out") == before
    if "name" not in name:
        (result,) = place.bench.model.requests[1].tool_results
        assert str(place.project / CALLS[name][1].get("path", "out/a.txt")) in result


@pytest.mark.attack("swapped places", always=True)
@pytest.mark.requirement("permission.path.race", "ui.approval.whole")
@pytest.mark.parametrize("name", ["a new file", "a new folder", "overwrite", "edit"])
@pytest.mark.parametrize("is_edited", [False, True])
async def test_a_place_that_changes_while_the_card_waits_is_asked_about_on_another_card(
    place: Place, name: str, is_edited: bool
) -> None:
    before = snapshot(place.outside)
    edited = CALLS[name][1]["content"].replace("new", "mine") if is_edited else None
    cards: list[ApprovalRequested] = []

    def decide(request: ApprovalRequested) -> Approve | Reject:
        cards.append(request)
        if len(cards) > 1:
            return Reject(approval_id=request.approval_id)
        place.swap()
        return Approve(approval_id=request.approval_id, edited=edited, remember="session")

    await place.ask(name, decide)

    assert len(cards) == 2
    assert cards[0].digest != cards[1].digest
    assert cards[1].remember_as is None
    assert f"outside the project: {place.outside}" in cards[1].reason
    assert snapshot(place.outside) == before
    assert place.bench.permissions.granted() == ()


@pytest.mark.attack("swapped places", always=True)
async def test_a_card_for_a_place_that_is_now_a_link_inside_the_project_names_where_it_leads(place: Place) -> None:
    (place.project / "src").mkdir()
    cards: list[ApprovalRequested] = []

    def decide(request: ApprovalRequested) -> Approve | Reject:
        cards.append(request)
        if len(cards) == 1:
            (place.project / "out").rename(place.project.parent / "moved")
            (place.project / "out").symlink_to("src")
        return Approve(approval_id=request.approval_id)

    await place.ask("a new file", decide)

    assert [card.reason for card in cards] == [
        "writes a file",
        f"writes a file · out/new.txt is src/new.txt · {CHANGED_MEANWHILE}",
    ]
    assert (place.project / "src/new.txt").read_text(encoding="utf-8") == "new\n"


@pytest.mark.attack("swapped places", always=True)
@pytest.mark.parametrize("where", [".git/hooks", ".vibe"])
async def test_a_folder_that_becomes_a_link_to_hooks_or_settings_is_asked_about_as_such(
    place: Place, where: str
) -> None:
    (place.project / where).mkdir(parents=True)
    before = snapshot(place.project / where)
    reasons: list[str] = []

    def decide(request: ApprovalRequested) -> Approve | Reject:
        reasons.append(request.reason)
        if len(reasons) > 1:
            return Reject(approval_id=request.approval_id)
        (place.project / "out").rename(place.project.parent / "moved")
        (place.project / "out").symlink_to(where)
        return Approve(approval_id=request.approval_id)

    await place.ask("a new file", decide)

    assert len(reasons) == 2
    assert reasons[1].startswith(f"writes {where}/new.txt, which holds")
    assert snapshot(place.project / where) == before


@pytest.mark.attack("swapped places", always=True)
@pytest.mark.parametrize("name", ["edit", "overwrite"])
async def test_a_file_that_changes_after_its_last_card_is_left_alone_also_where_the_change_still_fits(
    place: Place, name: str
) -> None:
    file = place.project / "out/a.txt"
    place.at_run = lambda: file.write_text("old\nmine\n", encoding="utf-8") and None

    events = await place.ask(name, lambda request: Approve(approval_id=request.approval_id))

    assert [event.outcome for event in events if isinstance(event, ToolFinished)] == ["error"]
    assert "was changed since it was shown" in place.bench.model.requests[1].tool_results[0]
    assert file.read_text(encoding="utf-8") == "old\nmine\n"


@pytest.mark.attack("swapped places", always=True)
async def test_a_place_that_changes_after_its_last_card_is_an_error_that_names_it(place: Place) -> None:
    before = snapshot(place.outside)
    place.at_run = place.swap

    events = await place.ask("overwrite", lambda request: Approve(approval_id=request.approval_id))

    assert [event.outcome for event in events if isinstance(event, ToolFinished)] == ["error"]
    (result,) = place.bench.model.requests[1].tool_results
    assert f"what the call was allowed for is no longer at {place.project / 'out/a.txt'}" in result
    assert snapshot(place.outside) == before


@pytest.mark.attack("swapped places", always=True)
async def test_a_call_that_the_user_edits_keeps_the_place_that_its_card_showed(place: Place) -> None:
    """Also where the folder is a link just while the new arguments are taken, and itself again when it is looked at."""
    before = snapshot(place.outside)
    out, moved = place.project / "out", place.project.parent / "moved"

    def at_touch(args: Any) -> None:
        if args.content == "mine\n" and not moved.exists():
            place.swap()
        elif args.content == "new\n" and moved.exists():
            out.unlink()
            moved.rename(out)

    place.at_touch = at_touch
    await place.ask("a new file", lambda request: Approve(approval_id=request.approval_id, edited="mine\n"))

    assert snapshot(place.outside) == before
    assert (out / "new.txt").read_text(encoding="utf-8") == "mine\n"


@pytest.mark.attack("swapped places", always=True)
@pytest.mark.parametrize("name", ["read", "grep a file", "overwrite", "edit"])
async def test_another_file_put_in_place_of_the_one_that_was_allowed_is_not_opened(place: Place, name: str) -> None:
    place.bench.permissions.levels = {"write_file": "always", "search_replace": "always"}
    place.at_run = lambda: os.replace(place.outside / "a.txt", place.project / "out/a.txt")

    events = await place.ask(name)

    assert [event.outcome for event in events if isinstance(event, ToolFinished)] == ["error"]
    assert SECRET not in place.told()
    assert SECRET in (place.project / "out/a.txt").read_text(encoding="utf-8")


class NamedFile(BaseModel):
    name: str


class Custom(Tool[NamedFile]):
    """A tool with arguments of its own that declares a path."""

    name, description, arguments = "custom", "Reads a file.", NamedFile
    level: Level = "always"

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def headline(self, args: NamedFile) -> Headline:
        return Headline(verb="Took", doing="Taking", asking="Take", target=args.name)

    def preview(self, args: NamedFile) -> Preview:
        return Preview(kind="text", text=args.name)

    def touches(self, args: NamedFile) -> Sequence[Resource]:
        return [Resource(kind="path", value=args.name, access="read")]

    async def run(self, args: NamedFile, context: ToolContext) -> ToolResult:
        with self._workspace.open_read(context.places[args.name]) as file:
            return ToolResult.text(file.read().decode())


@pytest.mark.attack("swapped places", always=True)
@pytest.mark.requirement("permission.path.race")
@pytest.mark.parametrize("swaps", [False, True])
async def test_a_tool_with_arguments_of_its_own_opens_what_was_judged(place: Place, swaps: bool) -> None:
    place.bench.tools = StaticToolset([_Late(Custom(Workspace(place.project)), place)])
    if swaps:
        place.at_run = place.swap
    place.bench.model.will_reply(call("custom", name="out/a.txt"), say("Done."))

    await place.bench.ask("go")

    (result,) = place.bench.model.requests[1].tool_results
    assert ("was changed while it was being opened" in result) if swaps else (result == "old\n")


@pytest.mark.attack("swapped places", always=True)
async def test_what_ripgrep_says_counts_only_if_it_is_in_the_folder_that_was_judged(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As if the folder had been a link for as long as ripgrep read, and were itself again."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/rg"
    a, deep = place.project / "out/a.txt", place.project / "out/deep/b.txt"
    lines = [f"{a}\\0001:1:0:old", f"{a}\\0002:1:4:{SECRET}", f"{deep}\\0001:1:0:{SECRET}", f"{SECRET}\\0001:1:0:x"]
    program.write_text("#!/bin/sh\n" + "".join(f"printf '{line}\\n'\n" for line in lines), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    (place.project / "out/deep").symlink_to(place.outside)
    (place.outside / "b.txt").write_text(SECRET, encoding="utf-8")

    await place.ask("grep a folder")

    (result,) = place.bench.model.requests[1].tool_results
    assert result.splitlines()[0] == "match_count: 1"
    assert "out/a.txt:1:old" in result
    assert SECRET not in place.told()


@pytest.mark.attack("swapped places", always=True)
async def test_a_backup_is_written_only_where_it_was_judged(place: Place) -> None:
    workspace = Workspace(place.project)
    keeping = SearchReplaceTool(FileAccess(workspace), SearchReplaceOptions(create_backup=True))
    place.bench.tools = StaticToolset([keeping])
    place.bench.permissions.levels = {"search_replace": "always"}
    (place.project / "alias.txt").symlink_to("out/a.txt")
    for path in ("alias.txt", "out/a.txt"):
        place.bench.model.will_reply(call("search_replace", file_path=path, content=EDIT), say("Done."))
        await place.bench.ask("go")

    refused, done = (place.bench.model.requests[number].tool_results[-1] for number in (1, 3))
    assert "is a link. Nothing was written. Edit out/a.txt itself." in refused
    assert "blocks_applied: 1" in done
    assert (place.project / "out/a.txt.bak").read_text(encoding="utf-8") == "old\n"


@pytest.mark.attack("swapped places", always=True)
def test_a_folder_named_with_an_at_sign_is_listed_only_as_it_was_judged(place: Place) -> None:
    class Namespace(dict[str, object]):
        """Looks the names up in order; the folder is swapped with the look-up of the second."""

        def __contains__(self, key: object) -> bool:
            if key == "later" and not (place.project / "out").is_symlink():
                place.swap()
            return super().__contains__(key)

    section = Mentions(Namespace, Workspace(place.project)).section("see @out and @later", {})

    assert "@out: a folder with nothing to show" in section
    assert "name-of-a-secret" not in section


@pytest.mark.attack("swapped places", always=True)
@pytest.mark.parametrize("content", ["two\n", "the same\n"])
async def test_equal_calls_are_asked_about_again_where_the_second_would_do_something_else(
    place: Place, content: str
) -> None:
    """The yes to the first holds for what its card showed, and the first has changed the file since."""
    (place.project / "b.txt").write_text("the same\n", encoding="utf-8")
    shown: list[str] = []

    def decide(request: ApprovalRequested) -> Approve:
        shown.append(request.preview.text)
        return Approve(approval_id=request.approval_id)

    write = call("write_file", path="b.txt", content=content, overwrite=True)
    place.bench.model.will_reply(answer(calls=[write, write]), say("Done."))

    await place.bench.ask("go", decide=decide)

    assert len(shown) == 2
    assert "+two" in shown[0] or content == "the same\n"
    assert shown[1] == "b.txt already has this content."


RUNS = (
    *(
        "conftest.py",
        "tests/conftest.py",
        "x.pth",
        "lib/sitecustomize.py",
        "usercustomize.py",
        "Makefile",
        "GNUmakefile",
    ),
    *(".github/workflows/ci.yml", ".gitlab-ci.yml", ".git/hooks/pre-commit", ".pre-commit-config.yaml", "package.json"),
    *("setup.py", "setup.cfg", "pyproject.toml", "pytest.ini", "tox.ini", ".venv/lib/python3.11/site-packages/x.py"),
    *(
        "httpx.py",
        "json.py",
        "scripts/random.py",
        "pandas/__init__.py",
        "os.py",
        "CONFTEST.PY",
        "conftest.py.",
        "sub/link",
    ),
    *("matplotlibrc", ".config/git/config", ".local/bin/ls", ".devcontainer.json", "mypy.ini", ".vimrc"),
)
"""Files that run without being told to, or in place of what was meant."""
FREE = (
    "clean.py",
    "pkg/json.py",
    "pandas/notes.py",
    "json.md",
    "docs/make.md",
    "setup.md",
    "conftest.txt",
    "src/etl.py",
    "config/local/settings.ini",
)


@pytest.mark.attack("paths", always=True)
async def test_a_permission_to_write_files_covers_none_that_run_by_themselves(place: Place, attempts: Attempts) -> None:
    (place.project / "pkg").mkdir()
    (place.project / "pkg/__init__.py").touch()
    (place.project / "sub").mkdir()
    (place.project / "sub/link").symlink_to("../conftest.py")
    place.bench.permissions.grant("write_file")
    cards: list[str] = []

    def decide(request: ApprovalRequested) -> Approve | Reject:
        cards.append(request.resources[0].value)
        assert request.remember_as is None
        return Reject(approval_id=request.approval_id)

    calls = [call("write_file", path=path, content="x = 1\n") for path in (*RUNS, *FREE)]
    place.bench.model.will_reply(answer(calls=calls), say("Done."))
    await place.bench.ask("go", decide=decide)

    attempts(RUNS, set(RUNS) - set(cards))
    assert tuple(cards) == RUNS
    assert all((place.project / path).is_file() for path in FREE)


@pytest.mark.attack("swapped places", always=True)
def test_a_file_in_place_of_a_module_is_named_as_such(place: Place) -> None:
    said = {path: Workspace(place.project).resolve(path).protection("write") for path in ("httpx.py", "out/httpx.py")}
    assert set(said.values()) == {"Python would import in place of the module httpx"}
    assert Workspace(place.project).resolve("httpx.py").protection("read") is None
